//! How often a thread came round, for a test that moves the clock and waits for all who read it.

use std::sync::atomic::{AtomicU64, Ordering};

/// The turns of one thread. It alone counts.
#[derive(Debug, Default)]
pub(crate) struct Turns(AtomicU64);

impl Turns {
    /// A turn is over.
    pub(crate) fn on_turn(&self) {
        self.0.fetch_add(1, Ordering::Release);
    }

    /// The thread ends: it is waited for no longer.
    pub(crate) fn on_end(&self) {
        self.0.store(u64::MAX, Ordering::Release);
    }

    /// The turn with whose end one is over that began after this call: the one under way may have
    /// read the clock before.
    pub(crate) fn next(&self) -> u64 {
        self.0.load(Ordering::Acquire).saturating_add(2)
    }

    /// Whether that turn is over.
    pub(crate) fn has_come(&self, turn: u64) -> bool {
        turn <= self.0.load(Ordering::Acquire)
    }
}
