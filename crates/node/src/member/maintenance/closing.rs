//! Brings domains that are on their way to the mode `strong` there, as long as this member is the
//! head, and says what that waits for (docs/protocol/reconfiguration.md, MD-4).
//!
//! A change is in the catalog; whoever is head finds it there and goes on. The chain refuses the
//! last step until nobody can hold eventual writes of the domain; then it is asked again.
//!
//! Deliberately absent: when the last step may be taken; that is the chain's to say.

use fader_chain::NodeId;
use fader_services::catalog::{self, AccountId, Closing};
use fader_services::{Mode, ViewError};
use parking_lot::Mutex;

use crate::clock;
use crate::member::pending::Work;
use crate::member::thread::ChainThread;

/// Milliseconds between two attempts.
const AGAIN_MS: u64 = 100;

/// What a domain's change of mode waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) closing: Closing,
    /// Members that are away, and may hold eventual writes of it.
    pub(crate) away: Vec<NodeId>,
    /// Members that were asked for theirs, and have not answered.
    pub(crate) silent: Vec<NodeId>,
}

/// What each closing domain waits for, as far as this member knows.
#[derive(Default)]
pub(crate) struct Waitings(Mutex<Vec<Waiting>>);

impl Waitings {
    fn set(&self, waitings: Vec<Waiting>) {
        *self.0.lock() = waitings;
    }

    /// What each closing domain waits for.
    pub(crate) fn all(&self) -> Vec<Waiting> {
        self.0.lock().clone()
    }

    /// What this domain waits for, if it is closing. The mode is the catalog's word; what is known
    /// here may be of a change that was taken back a moment ago.
    pub(crate) fn of(&self, account: &AccountId, name: &str, mode: Mode) -> Option<Waiting> {
        if mode != Mode::Closing {
            return None;
        }
        let waitings = self.0.lock();
        let is_it = |it: &&Waiting| it.closing.account == *account && it.closing.name == name;
        waitings.iter().find(is_it).cloned()
    }
}

/// The domains that are closing.
#[derive(Debug)]
pub(crate) struct Closings {
    /// Whether the catalog may say something else by now.
    is_stale: bool,
    known: Vec<Closing>,
    /// When to try next.
    due_ms: u64,
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

impl ChainThread {
    /// Takes the last step of those that are not being asked for, if it is time.
    pub(super) fn close_domains(&mut self) {
        if let Err(error) = self.find_closings() {
            return self.fail(&format!("the store is damaged: {error}"));
        }
        let now = clock::monotonic_ms();
        if self.closings.known.is_empty() || now < self.closings.due_ms {
            return;
        }
        self.closings.due_ms = now + AGAIN_MS;
        if self.is_sweeper() {
            for closing in self.closings.known.clone() {
                if !self.desk.is_closing(closing.collection) {
                    self.submit(Box::new(Work::Close(closing.collection)));
                }
            }
            self.flush();
        }
        if let Err(error) = self.tell_closings() {
            self.fail(&format!("the store is damaged: {error}"));
        }
    }

    fn find_closings(&mut self) -> Result<(), ViewError> {
        if self.closings.is_stale && !self.is_filling {
            self.closings = Closings {
                is_stale: false,
                known: catalog::closing(&**self.desk.snapshot())?,
                due_ms: 0,
            };
            self.shared.waitings.set(Vec::new());
        }
        Ok(())
    }

    /// What each of them waits for.
    fn tell_closings(&self) -> Result<(), ViewError> {
        let committed = &**self.desk.snapshot();
        let waiting = self.closings.known.iter().map(|closing| {
            let awaited = self.replica.awaited(closing.collection.0, committed);
            let (away, silent) = awaited?;
            Ok(Waiting {
                closing: closing.clone(),
                away,
                silent,
            })
        });
        let waiting = waiting.collect::<Result<_, ViewError>>()?;
        self.shared.waitings.set(waiting);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use fader_services::CollectionId;

    use super::*;

    #[test]
    fn a_domain_that_closes_no_more_waits_for_nobody() {
        let account = AccountId("000000000001".to_owned());
        let waitings = Waitings::default();
        waitings.set(vec![Waiting {
            closing: Closing {
                account: account.clone(),
                name: "carts".to_owned(),
                collection: CollectionId(7),
            },
            away: vec![NodeId(3)],
            silent: Vec::new(),
        }]);
        let waits = |mode| waitings.of(&account, "carts", mode).is_some();
        assert!(waits(Mode::Closing));
        // Taken back, and what the chain's thread has told is not made anew yet.
        assert!(!waits(Mode::Mixed));
    }
}
