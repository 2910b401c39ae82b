//! Collections that are on their way to the mode `strong`, and what each waits for
//! (docs/protocol/reconfiguration.md, MD-4).
//!
//! A change is in the catalog; the head finds it there and goes on (`maintenance`).

use fader_chain::NodeId;
use fader_services::Mode;
use fader_services::catalog::{Closing, Name};
use parking_lot::Mutex;

/// What a collection's change of mode waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) closing: Closing,
    /// Members that are away, and may hold eventual writes of it.
    pub(crate) away: Vec<NodeId>,
    /// Members that were asked for theirs, and have not answered.
    pub(crate) silent: Vec<NodeId>,
}

/// What each closing collection waits for, as far as this member knows.
#[derive(Default)]
pub(crate) struct Waitings(Mutex<Vec<Waiting>>);

impl Waitings {
    /// This is what they wait for now.
    pub(super) fn set(&self, waitings: Vec<Waiting>) {
        *self.0.lock() = waitings;
    }

    /// What each closing collection waits for.
    pub(crate) fn all(&self) -> Vec<Waiting> {
        self.0.lock().clone()
    }

    /// What this collection waits for, if it is closing. The mode is the catalog's word; what is
    /// known here may be of a change that was taken back a moment ago.
    pub(crate) fn of(&self, name: Name<'_>, mode: Mode) -> Option<Waiting> {
        if mode != Mode::Closing {
            return None;
        }
        let waitings = self.0.lock();
        let is_it = |it: &&Waiting| it.closing.name.name() == name;
        waitings.iter().find(is_it).cloned()
    }
}

/// The collections that are closing.
#[derive(Debug)]
pub(crate) struct Closings {
    /// Whether the catalog may say something else by now.
    pub(super) is_stale: bool,
    pub(super) known: Vec<Closing>,
    /// When to try next.
    pub(super) due_ms: u64,
}

impl Closings {
    /// Those that the catalog has.
    pub(crate) fn new() -> Self {
        Closings {
            is_stale: true,
            known: Vec::new(),
            due_ms: 0,
        }
    }

    /// The catalog changed.
    pub(crate) fn on_change(&mut self) {
        self.is_stale = true;
    }
}

#[cfg(test)]
mod tests {
    use fader_services::catalog::AccountId;
    use fader_services::{CollectionId, Kind};

    use super::*;

    #[test]
    fn a_collection_that_closes_no_more_waits_for_nobody() {
        let account = AccountId("000000000001".to_owned());
        let name = Name::new(Kind::Queue, &account, "carts");
        let waitings = Waitings::default();
        waitings.set(vec![Waiting {
            closing: Closing {
                name: name.to_owned(),
                collection: CollectionId(7),
            },
            away: vec![NodeId(3)],
            silent: Vec::new(),
        }]);
        let waits = |mode| waitings.of(name, mode).is_some();
        assert!(waits(Mode::Closing));
        // Taken back, and what the chain's thread has told is not made anew yet.
        assert!(!waits(Mode::Mixed));
    }
}
