//! What the desk does with the states that it is shown.

use std::sync::atomic::{AtomicUsize, Ordering};

use std::path::PathBuf;

use bytes::Bytes;
use fader_services::{Direction, Scan, ViewError};

use super::*;
use crate::support::SimulatedDisk;

/// A state without anything in it, that counts how often it is to be kept.
#[derive(Default)]
struct Watched(AtomicUsize);

impl View for Watched {
    fn get(&self, _: &[u8]) -> Result<Option<Bytes>, ViewError> {
        Ok(None)
    }

    fn scan(&self, _: &[u8], _: &[u8], _: Direction) -> Scan<'_> {
        Box::new(std::iter::empty())
    }

    fn keep(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_state_that_others_are_filled_from_is_kept() {
    let state = Arc::new(Watched::default());
    let applied = EntryId::new(1, 7);
    let settings = Settings::new(PathBuf::new());
    let disk = Arc::new(SimulatedDisk::new());
    let blocks = MemberBlocks::open(PathBuf::new(), settings.blocks.clone(), disk);
    let (blocks, _) = blocks.expect("there are none");
    let mut requests = RequestTable::new(settings, Arc::new(blocks), state.clone(), applied);
    assert_eq!(state.0.load(Ordering::Relaxed), 0);
    requests.fix();
    assert_eq!(state.0.load(Ordering::Relaxed), 1);
    assert_eq!(requests.fixed().map(|(at, _)| at), Some(applied));
    requests.unfix();
    assert!(requests.fixed().is_none());
}
