//! Files of a simulated machine for the disk tier: they outlive crashes, some get lost or damaged.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use bytes::Bytes;
use fader_database::PageFiles;

use crate::world::Random;

/// Of a thousand reads so many find that their file was lost, and so many that it is damaged.
const FAULTS: u32 = 50;

/// The files of one process.
#[derive(Debug)]
pub(super) struct Files(Mutex<State>);

#[derive(Debug)]
struct State {
    files: BTreeMap<String, Bytes>,
    /// Of a thousand.
    faults: u32,
    random: Random,
}

impl Files {
    pub(super) fn new(seed: u64) -> Self {
        Files::with_faults(FAULTS, seed)
    }

    /// Files that stay as they were written.
    #[cfg(test)]
    pub(super) fn sound() -> Self {
        Files::with_faults(0, 0)
    }

    fn with_faults(faults: u32, seed: u64) -> Self {
        Files(Mutex::new(State {
            files: BTreeMap::new(),
            faults,
            random: Random::new(seed),
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("nothing panics while it is locked")
    }
}

impl PageFiles for Files {
    fn list(&self) -> Vec<(String, u64)> {
        let state = self.state();
        let files = state.files.iter();
        files
            .map(|(name, file)| (name.clone(), file.len() as u64))
            .collect()
    }

    fn read(&self, name: &str) -> Option<Bytes> {
        let mut state = self.state();
        let faults = state.faults;
        if state.random.chance(faults) {
            state.files.remove(name);
        }
        let file = state.files.get(name)?.clone();
        if !state.random.chance(faults) || file.is_empty() {
            return Some(file);
        }
        let mut damaged = file.to_vec();
        let at = state.random.below(damaged.len());
        match state.random.chance(500) {
            true => damaged.truncate(at),
            false => damaged[at] ^= 1 << state.random.below(8),
        }
        let damaged = Bytes::from(damaged);
        state.files.insert(name.to_owned(), damaged.clone());
        Some(damaged)
    }

    fn write(&self, name: &str, content: &[u8]) -> bool {
        let mut state = self.state();
        // A full disk.
        let faults = state.faults;
        if state.random.chance(faults) {
            return false;
        }
        let content = Bytes::copy_from_slice(content);
        state.files.insert(name.to_owned(), content);
        true
    }

    fn remove(&self, name: &str) {
        self.state().files.remove(name);
    }
}
