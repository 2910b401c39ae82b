//! The programs of simulated jobs: word count, and one whose attempts all write different bytes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use fader_cloud::Runtime;
use fader_mapreduce::{
    Batch, BuiltIn, Code, Combining, Context, Emit, Library, Map, Outcome, Program, Reduce,
};

/// The program whose mapper adds a random suffix to all words of an attempt.
pub(super) const RANDOM: &str = "random-count";
/// What stands before the suffix.
pub(super) const MARK: char = '~';
/// Different suffixes.
const SUFFIXES: u64 = 3;

/// Opens the programs of one process.
#[derive(Clone, Debug)]
pub(super) struct Programs {
    pub(super) runtime: Runtime,
    /// Mappers that were made, by all processes.
    pub(super) mappers: Arc<AtomicU64>,
}

impl Library for Programs {
    fn open(&self, program: &Program) -> Outcome<Arc<dyn Code>> {
        let code = BuiltIn.open(&Program::new("word-count"))?;
        Ok(Arc::new(Counting {
            code,
            is_random: program.name == RANDOM,
            programs: self.clone(),
            random: Mutex::default(),
        }))
    }
}

#[derive(Debug)]
struct Counting {
    code: Arc<dyn Code>,
    is_random: bool,
    programs: Programs,
    random: Mutex<u64>,
}

impl Counting {
    fn random(&self) -> MutexGuard<'_, u64> {
        self.random
            .lock()
            .expect("nothing panics while it is locked")
    }
}

impl Code for Counting {
    fn mapper(&self, of: &Context<'_>) -> Outcome<Box<dyn Map>> {
        self.programs.mappers.fetch_add(1, Ordering::Relaxed);
        let suffix = self.programs.runtime.random() % SUFFIXES;
        *self.random() = suffix;
        match self.is_random {
            true => Ok(Box::new(Suffixed(suffix))),
            false => self.code.mapper(of),
        }
    }

    fn combining(&self) -> Combining {
        self.code.combining()
    }

    fn reducer(&self, of: &Context<'_>) -> Outcome<Box<dyn Reduce>> {
        self.code.reducer(of)
    }
}

/// Adds a suffix, so that a word goes to another reducer in another attempt.
struct Suffixed(u64);

impl Map for Suffixed {
    fn map(&mut self, batch: &Batch<'_>, out: &mut dyn Emit) -> Outcome<()> {
        let text = String::from_utf8_lossy(batch.bytes).into_owned();
        for word in text.split_ascii_whitespace() {
            out.add(format!("{word}{MARK}{}", self.0).as_bytes(), 1);
        }
        Ok(())
    }
}
