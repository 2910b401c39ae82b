//! Blocks that are read from memory by ranges. Their files stay open and their headers known for
//! the ranges that follow.
//!
//! Invariants:
//! - a file that was removed stays open for a read under way alone: the disk has its space back.
//! - at most [`OPENED_MAX`] files are open between reads.

use std::sync::Arc;

use parking_lot::Mutex;

use super::format::Head;
use super::index::Place;
use crate::storage::disk::File;

/// Blocks that stay open: those of as many replies at once.
pub(super) const OPENED_MAX: usize = 16;

/// A block whose header was read.
pub(super) struct OpenBlock {
    pub(super) place: Place,
    pub(super) head: Head,
    pub(super) file: Box<dyn File>,
}

/// Blocks that were read lately, the last one at the end.
#[derive(Default)]
pub(super) struct Opened(Mutex<Vec<Arc<OpenBlock>>>);

impl Opened {
    /// The block that lies there.
    pub(super) fn get(&self, place: &Place) -> Option<Arc<OpenBlock>> {
        let mut opened = self.0.lock();
        let at = opened.iter().position(|it| it.place == *place)?;
        let found = opened.remove(at);
        opened.push(Arc::clone(&found));
        Some(found)
    }

    /// Keeps a block that was not there, in place of the one that was read longest ago.
    pub(super) fn add(&self, block: Arc<OpenBlock>) {
        let mut opened = self.0.lock();
        if opened.len() == OPENED_MAX {
            opened.remove(0);
        }
        opened.push(block);
    }

    /// The file of a segment is removed.
    pub(super) fn close(&self, segment: u64) {
        self.0.lock().retain(|it| it.place.segment != segment);
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.0.lock().len()
    }
}
