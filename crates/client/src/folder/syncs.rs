//! Syncs of folders, which the callers of one process share. Pure: no files, no threads.
//!
//! A folder's syncs are rounds, one after the other. A caller that changed a name joins the next
//! round; one of those that joined begins it, when the one under way has ended.
//!
//! ```text
//!  rename a ── join 1 ── sync 1 ─────────────▶ answer a
//!  rename b ────────────── join 2 ── wait ──── sync 2 ──▶ answer b
//!  rename c ──────────────── join 2 ── wait ─────────────▶ answer c
//! ```
//!
//! Invariants:
//! - (FOLDER-6) a caller is told the outcome of a round that began after it joined; all who joined
//!   are told the same.

use std::collections::{BTreeMap, HashMap};
use std::io;

/// The syncs of all folders that callers wait for.
#[derive(Debug, Default)]
pub(super) struct Syncs {
    /// By the number of the folder's inode: a caller's handle keeps it from another folder.
    folders: HashMap<u64, Rounds>,
}

/// The rounds of one folder, counted from 1.
#[derive(Debug, Default)]
struct Rounds {
    begun: u64,
    ended: u64,
    /// Rounds whose callers have not all been told.
    told: BTreeMap<u64, Round>,
}

#[derive(Debug, Default)]
struct Round {
    callers: usize,
    failure: Option<Failure>,
}

/// An error that many are told.
#[derive(Clone, Debug)]
struct Failure {
    kind: io::ErrorKind,
    number: Option<i32>,
    text: String,
}

/// What a caller does next.
#[derive(Debug)]
pub(super) enum Step {
    /// Sync the folder, then say how that ended.
    Sync,
    /// Wait until a round has ended.
    Wait,
    /// The caller's round is over.
    Over(io::Result<()>),
}

impl Syncs {
    /// The round that covers what the caller changed before. The one under way does not, unless
    /// `joins_late` says so, for a mutant.
    pub(super) fn join(&mut self, folder: u64, joins_late: bool) -> u64 {
        let rounds = self.folders.entry(folder).or_default();
        let is_under_way = rounds.ended < rounds.begun;
        let round = match is_under_way && joins_late {
            true => rounds.begun,
            false => rounds.begun + 1,
        };
        rounds.told.entry(round).or_default().callers += 1;
        round
    }

    /// What a caller that joined a round does. After `Over` it has left the round.
    pub(super) fn step(&mut self, folder: u64, round: u64) -> Step {
        let rounds = self.folders.entry(folder).or_default();
        if rounds.ended < rounds.begun && rounds.ended < round {
            return Step::Wait;
        }
        if rounds.ended < round {
            rounds.begun = round;
            return Step::Sync;
        }
        let mut failure = None;
        if let Some(of) = rounds.told.get_mut(&round) {
            failure = of.failure.clone();
            of.callers -= 1;
            if of.callers == 0 {
                rounds.told.remove(&round);
            }
        }
        if rounds.told.is_empty() {
            self.folders.remove(&folder);
        }
        Step::Over(failure.map_or(Ok(()), |failure| Err(failure.error())))
    }

    /// Ends the round under way; all callers that wait take a step.
    pub(super) fn end(&mut self, folder: u64, outcome: io::Result<()>) {
        if let Some(rounds) = self.folders.get_mut(&folder) {
            rounds.ended = rounds.begun;
            if let Some(round) = rounds.told.get_mut(&rounds.ended) {
                round.failure = outcome.err().as_ref().map(Failure::new);
            }
        }
    }
}

impl Failure {
    fn new(error: &io::Error) -> Failure {
        Failure {
            kind: error.kind(),
            number: error.raw_os_error(),
            text: error.to_string(),
        }
    }

    fn error(self) -> io::Error {
        match self.number {
            Some(number) => io::Error::from_raw_os_error(number),
            None => io::Error::new(self.kind, self.text),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail here")]

    use super::*;

    /// It shows FOLDER-6.
    #[test]
    fn callers_that_wait_for_a_sync_share_the_next() {
        let mut syncs = Syncs::default();
        let first = syncs.join(7, false);
        assert!(matches!(syncs.step(7, first), Step::Sync));
        // Its sync may have begun before their changes.
        let (second, third) = (syncs.join(7, false), syncs.join(7, false));
        assert!(matches!(syncs.step(7, second), Step::Wait));
        assert!(matches!(syncs.step(7, third), Step::Wait));
        // Another folder's syncs are its own.
        let other = syncs.join(8, false);
        assert!(matches!(syncs.step(8, other), Step::Sync));
        syncs.end(7, Ok(()));
        assert!(matches!(syncs.step(7, first), Step::Over(Ok(()))));
        assert!(matches!(syncs.step(7, third), Step::Sync));
        assert!(matches!(syncs.step(7, second), Step::Wait));
        syncs.end(7, Ok(()));
        assert!(matches!(syncs.step(7, second), Step::Over(Ok(()))));
        assert!(matches!(syncs.step(7, third), Step::Over(Ok(()))));
        syncs.end(8, Ok(()));
        assert!(matches!(syncs.step(8, other), Step::Over(Ok(()))));
        assert!(syncs.folders.is_empty(), "{syncs:?}");
    }

    #[test]
    fn a_failed_sync_is_told_to_all_that_shared_it_and_to_no_others() {
        let mut syncs = Syncs::default();
        let all = [syncs.join(7, false), syncs.join(7, false)];
        assert!(matches!(syncs.step(7, all[0]), Step::Sync));
        let later = syncs.join(7, false);
        syncs.end(7, Err(io::Error::from_raw_os_error(28)));
        for round in all {
            let Step::Over(Err(error)) = syncs.step(7, round) else {
                panic!("{syncs:?}");
            };
            assert_eq!(error.raw_os_error(), Some(28));
        }
        assert!(matches!(syncs.step(7, later), Step::Sync));
        syncs.end(7, Ok(()));
        assert!(matches!(syncs.step(7, later), Step::Over(Ok(()))));
        assert!(syncs.folders.is_empty(), "{syncs:?}");
    }
}
