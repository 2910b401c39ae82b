//! The ids of a log, written as spans: indexes are contiguous and epochs never fall, so a few
//! numbers name every entry. Two logs agree exactly on the common prefix of their spans
//! (docs/internals/protocol/chain.md, section 4).
//!
//! ```text
//! runs := count:varint  count × (epoch:varint first:varint last:varint)
//! ```
//!
//! Invariants:
//! - EPOCHS-1 each run follows the one before: its first index is one more than the last one's, its
//!   epoch is greater.

use std::collections::VecDeque;

use crate::codec::{DecodeError, Reader, put_varint};
use crate::stamp::EntryId;

/// Runs kept: what is older is known to be common to all that still matter.
const RUNS_MAX: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct EpochSpan {
    epoch: u64,
    first: u64,
    last: u64,
}

/// The ids of a log from the oldest one known.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EpochHistory(VecDeque<EpochSpan>);

impl EpochHistory {
    /// A log of which only `id` is known, and that it goes on after it.
    pub fn at(id: EntryId) -> Self {
        let mut epoch_history = EpochHistory::default();
        if id != EntryId::ZERO {
            epoch_history.push(id);
        }
        epoch_history
    }

    /// Adds the id that follows the last one.
    pub fn push(&mut self, id: EntryId) {
        match self.0.back_mut() {
            Some(run) if run.epoch == id.epoch && run.last + 1 == id.index => run.last = id.index,
            Some(run) if run.epoch == id.epoch || run.last + 1 != id.index => {
                *self = EpochHistory::default();
                self.push(id);
            }
            _ => {
                self.0.push_back(EpochSpan {
                    epoch: id.epoch,
                    first: id.index,
                    last: id.index,
                });
                if RUNS_MAX < self.0.len() {
                    self.0.pop_front();
                }
            }
        }
    }

    /// Drops the ids above `after`, which is one of them or older than all.
    pub fn cut(&mut self, after: EntryId) {
        while let Some(run) = self.0.back_mut() {
            if run.first <= after.index && run.epoch <= after.epoch {
                run.last = run.last.min(after.index);
                return;
            }
            self.0.pop_back();
        }
    }

    /// The same ids up to `last`.
    pub fn up_to(&self, last: EntryId) -> EpochHistory {
        let mut epoch_history = self.clone();
        epoch_history.cut(last);
        epoch_history
    }

    /// Whether `id` is one of them.
    pub fn contains(&self, id: EntryId) -> bool {
        let holds =
            |run: &EpochSpan| run.epoch == id.epoch && (run.first..=run.last).contains(&id.index);
        self.0.iter().any(holds)
    }

    /// The oldest index known.
    pub fn first_index(&self) -> Option<u64> {
        self.0.front().map(|run| run.first)
    }

    /// The last of ours whose index theirs reach: what comparing lengths would take for common.
    pub(crate) fn common_length(&self, theirs: &EpochHistory) -> Option<EntryId> {
        let last = theirs.0.back()?.last.min(self.0.back()?.last);
        let run = self
            .0
            .iter()
            .find(|run| (run.first..=run.last).contains(&last))?;
        Some(EntryId::new(run.epoch, last))
    }

    /// Appends the encoding of the runs.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.0.len() as u64);
        for run in &self.0 {
            for number in [run.epoch, run.first, run.last] {
                put_varint(out, number);
            }
        }
    }

    /// Reads what `encode` wrote.
    ///
    /// # Errors
    /// [`DecodeError`] when the bytes are no runs, or runs that do not follow each other
    /// (EPOCHS-1).
    pub fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        let count = reader.count()?;
        if RUNS_MAX < count {
            return Err(DecodeError::new("the number of runs"));
        }
        let mut epoch_history = EpochHistory::default();
        for _ in 0..count {
            let (epoch, first, last) = (reader.varint()?, reader.varint()?, reader.varint()?);
            let follows = epoch_history.0.back().is_none_or(|before| {
                before.epoch < epoch && before.last.checked_add(1) == Some(first)
            });
            if !follows || last < first {
                return Err(DecodeError::new("a run"));
            }
            epoch_history.0.push_back(EpochSpan { epoch, first, last });
        }
        Ok(epoch_history)
    }

    /// The greatest id that both contain.
    pub fn common(&self, other: &EpochHistory) -> Option<EntryId> {
        let common = |run: &EpochSpan| {
            let theirs = other.0.iter().find(|theirs| theirs.epoch == run.epoch)?;
            let last = run.last.min(theirs.last);
            let is_shared = run.first.max(theirs.first) <= last;
            is_shared.then(|| EntryId::new(run.epoch, last))
        };
        self.0.iter().rev().find_map(common)
    }
}

#[cfg(test)]
mod tests;
