//! Collections that are on their way to the mode `strong`, and what each waits for
//! (docs/internals/protocol/reconfiguration.md, MD-4).
//!
//! A change is in the catalog; the head finds it there and goes on (`maintenance`).

use fader_chain::NodeId;
use fader_services::Mode;
use fader_services::catalog::{DrainingDomain, Name};
use parking_lot::Mutex;

/// What a collection's change of mode waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DrainBlocker {
    pub(crate) draining: DrainingDomain,
    /// Members that are absent, and may hold eventual writes of it.
    pub(crate) absent: Vec<NodeId>,
    /// Members that were asked for theirs, and have not answered.
    pub(crate) silent: Vec<NodeId>,
}

/// What each draining collection waits for, as far as this member knows.
#[derive(Default)]
pub(crate) struct DrainBlockers(Mutex<Vec<DrainBlocker>>);

impl DrainBlockers {
    /// This is what they wait for now.
    pub(super) fn set(&self, blockers: Vec<DrainBlocker>) {
        *self.0.lock() = blockers;
    }

    /// What each draining collection waits for.
    pub(crate) fn all(&self) -> Vec<DrainBlocker> {
        self.0.lock().clone()
    }

    /// What this collection waits for, if it is draining. The mode is the catalog's word; what is
    /// known here may be of a change that was taken back a moment ago.
    pub(crate) fn of(&self, name: Name<'_>, mode: Mode) -> Option<DrainBlocker> {
        if mode != Mode::Draining {
            return None;
        }
        let blockers = self.0.lock();
        let is_it = |it: &&DrainBlocker| it.draining.name.name() == name;
        blockers.iter().find(is_it).cloned()
    }
}

/// The collections that are draining.
#[derive(Debug)]
pub(crate) struct DrainingDomains {
    /// Whether the catalog may say something else by now.
    pub(super) is_stale: bool,
    pub(super) known: Vec<DrainingDomain>,
    /// When to try next.
    pub(super) due_ms: u64,
}

impl DrainingDomains {
    /// Those that the catalog has.
    pub(crate) fn new() -> Self {
        DrainingDomains {
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
    fn a_collection_that_drains_no_more_waits_for_no_member() {
        let account = AccountId("000000000001".to_owned());
        let name = Name::new(Kind::Queue, &account, "carts");
        let blockers = DrainBlockers::default();
        blockers.set(vec![DrainBlocker {
            draining: DrainingDomain {
                name: name.to_owned(),
                collection: CollectionId(7),
            },
            absent: vec![NodeId(3)],
            silent: Vec::new(),
        }]);
        let waits = |mode| blockers.of(name, mode).is_some();
        assert!(waits(Mode::Draining));
        // Taken back, and what the chain's thread has told is not made anew yet.
        assert!(!waits(Mode::Mixed));
    }
}
