//! Records that wait for their bytes. Pure: the caller says what is held, and writes what may be
//! written.
//!
//! ```text
//! record ─▶ take ─▶ waits ─┬─ bytes are durable ──┬─▶ ready ─▶ the log
//!                          └─ the sender has none ┘
//!                          └─ a new epoch ─▶ forgotten
//! ```
//!
//! Invariants:
//! - BGATE-1 a record that puts the row of a block is ready only when the block's bytes are durable
//!   here. It is also ready when its sender has reclaimed them. Records are ready in their order.
//! - BGATE-2 a record that waits is in no log: in a new epoch it is forgotten with all behind it,
//!   and no member counts it.
//!
//! The parts of a state transfer wait behind a gate of their own. So it ends only when the bytes of
//! all rows of its snapshot are durable here. A sender keeps those while it has the snapshot.
//!
//! Deliberately absent: the chain, time, and who fetches.

use std::collections::{BTreeSet, VecDeque};

use fader_chain::EntryId;

/// Records of one member on their way to its log, in their order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Gate<R> {
    /// Each with the blocks whose rows it puts.
    waiting: VecDeque<(R, BTreeSet<u128>)>,
    missing: BTreeSet<u128>,
}

impl<R> Default for Gate<R> {
    fn default() -> Self {
        Gate {
            waiting: VecDeque::new(),
            missing: BTreeSet::new(),
        }
    }
}

impl<R> Gate<R> {
    /// Takes the next record, and the blocks whose rows it puts. It waits for those that are not
    /// `there`: their bytes are neither durable here, nor reclaimed by the sender.
    pub fn take(
        &mut self,
        record: R,
        rows: impl IntoIterator<Item = u128>,
        is_there: impl Fn(u128) -> bool,
    ) {
        let rows: BTreeSet<u128> = rows.into_iter().collect();
        let missing = rows.iter().copied().filter(|id| !is_there(*id));
        self.missing.extend(missing);
        self.waiting.push_back((record, rows));
    }

    /// The records that may be written to the log now, in their order (BGATE-1). One of blocks that
    /// its sender has reclaimed is written without their bytes. No member serves before it has the
    /// removals of their rows, too.
    #[must_use]
    pub fn ready(&mut self, is_there: impl Fn(u128) -> bool) -> Vec<R> {
        self.missing.retain(|id| !is_there(*id));
        let missing = &self.missing;
        let waits = |(_, rows): &(R, BTreeSet<u128>)| !rows.is_disjoint(missing);
        let count = self.waiting.iter().position(waits);
        self.release(count.unwrap_or(self.waiting.len()))
    }

    /// A new epoch begins: what waits is forgotten (BGATE-2). Says what that was.
    pub fn forget(&mut self) -> Vec<R> {
        self.missing.clear();
        self.release(self.waiting.len())
    }

    /// The first `count` records wait no more.
    fn release(&mut self, count: usize) -> Vec<R> {
        let released = self.waiting.drain(..count);
        released.map(|(record, _)| record).collect()
    }

    /// The records that wait.
    pub fn records(&self) -> impl Iterator<Item = &R> {
        self.waiting.iter().map(|(record, _)| record)
    }

    /// The blocks that are waited for.
    pub fn missing(&self) -> impl Iterator<Item = u128> + '_ {
        self.missing.iter().copied()
    }

    /// How many records wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

/// What a member knows when it judges a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standpoint {
    /// The last entry of which the member's state has the outcome.
    pub state: EntryId,
    /// The safe point: all members have what is at or below it.
    pub safe_point: EntryId,
    /// The oldest snapshot that is fixed for another member.
    pub oldest_snapshot: Option<EntryId>,
}

impl Standpoint {
    /// Whether the bytes of a row that entry `removal` removed may be reclaimed.
    #[must_use]
    pub fn may_reclaim(&self, removal: EntryId) -> bool {
        let is_in_snapshots = self.oldest_snapshot.is_none_or(|it| removal <= it);
        removal <= self.safe_point && removal <= self.state && is_in_snapshots
    }

    /// Whether a row that the state shows without bytes is damage. One below the safe point, as a
    /// crash may leave it, shows rows whose bytes were rightly reclaimed.
    #[must_use]
    pub fn shows_damage(&self) -> bool {
        self.safe_point <= self.state
    }
}

#[cfg(test)]
mod tests;
