//! The word count of some files by a program of two threads: the floor of `bench mapreduce`.
//!
//! Files are read whole, and stay. Each thread counts the words of every second file, in a hash
//! table for each half of the hashes. Then each adds up one half, and writes it. Keys are slices of
//! the files. Nothing survives a crash, and all must fit into memory.

use std::fs::{self, File};
use std::hash::BuildHasher;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use clap::Args;
use foldhash::fast::FixedState;
use hashbrown::HashTable;

const THREADS: usize = 2;

#[derive(Args)]
pub(crate) struct Options {
    /// The folder of the files.
    #[arg(long)]
    input: PathBuf,
    /// The folder of files with lines `word TAB count`, each word in one of them.
    #[arg(long)]
    output: PathBuf,
}

type Counts<'a> = HashTable<(&'a [u8], u64)>;
type Halves<'a> = [Counts<'a>; THREADS];

/// The bytes that part words, as those of `fader mapreduce run word-count`.
fn is_space(byte: &u8) -> bool {
    matches!(byte, b'\t'..=b'\r' | b' ')
}

fn hash(word: &[u8]) -> u64 {
    FixedState::default().hash_one(word)
}

/// The half that a hash is in: by a bit that tables do not use.
fn half(hash: u64) -> usize {
    (hash >> 40) as usize % THREADS
}

fn add<'a>(counts: &mut Counts<'a>, hash: u64, word: &'a [u8], number: u64) {
    let known = counts.entry(hash, |known| known.0 == word, |known| self::hash(known.0));
    known
        .and_modify(|known| known.1 += number)
        .or_insert((word, number));
}

fn count(texts: &[Vec<u8>], first: usize) -> Halves<'_> {
    let mut halves = Halves::default();
    for text in texts.iter().skip(first).step_by(THREADS) {
        for word in text.split(is_space).filter(|word| !word.is_empty()) {
            let hash = hash(word);
            add(&mut halves[half(hash)], hash, word, 1);
        }
    }
    halves
}

/// Runs a piece of work in each thread.
fn each<'a, T: Send + 'a>(work: impl Fn(usize) -> Result<T> + Sync) -> Result<Vec<T>> {
    std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..THREADS)
            .map(|number| scope.spawn(move || work(number)))
            .collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined
            .map(|done| done.map_err(|_| anyhow!("a thread panicked"))?)
            .collect()
    })
}

/// Counts and writes.
pub(crate) fn run(options: &Options) -> Result<()> {
    let mut files = Vec::new();
    for entry in fs::read_dir(&options.input)? {
        files.push(entry?.path());
    }
    let read = each(|first| {
        let own = files.iter().skip(first).step_by(THREADS);
        let read = own.map(|file| fs::read(file).with_context(|| file.display().to_string()));
        read.collect::<Result<Vec<_>>>()
    })?;
    let texts: Vec<Vec<u8>> = read.into_iter().flatten().collect();
    let counted = each(|first| Ok(count(&texts, first)))?;
    fs::create_dir_all(&options.output)?;
    each(|own| {
        let mut halves = counted.iter().map(|halves| &halves[own]);
        let mut all = halves.next().cloned().unwrap_or_default();
        for (word, number) in halves.flatten() {
            add(&mut all, hash(word), word, *number);
        }
        write(&options.output.join(format!("part-{own}")), &all)
    })?;
    // The system takes the memory back faster than the program.
    std::process::exit(0)
}

fn write(path: &Path, counts: &Counts<'_>) -> Result<()> {
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    for (word, count) in counts {
        file.write_all(word)?;
        writeln!(file, "\t{count}")?;
    }
    Ok(file.flush()?)
}
