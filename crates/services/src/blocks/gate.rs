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

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use fader_chain::EntryId;

/// Records of one member on their way to its log, in their order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Gate<R> {
    waiting: VecDeque<Waiting<R>>,
    missing: BTreeSet<u128>,
    /// How many of the waiting records put the row of each block.
    named: BTreeMap<u128, usize>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Waiting<R> {
    record: R,
    rows: BTreeSet<u128>,
    lacking: BTreeSet<u128>,
}

impl<R> Default for Gate<R> {
    fn default() -> Self {
        Gate {
            waiting: VecDeque::new(),
            missing: BTreeSet::new(),
            named: BTreeMap::new(),
        }
    }
}

impl<R> Gate<R> {
    /// Takes the next record, and the blocks whose rows it puts. Says which blocks are to be
    /// fetched from its sender: those that no record before it waits for.
    pub fn take(
        &mut self,
        record: R,
        rows: impl IntoIterator<Item = u128>,
        is_held: impl Fn(u128) -> bool,
    ) -> Vec<u128> {
        let rows: BTreeSet<u128> = rows.into_iter().collect();
        let lacking: BTreeSet<u128> = rows.iter().copied().filter(|id| !is_held(*id)).collect();
        for id in &rows {
            *self.named.entry(*id).or_default() += 1;
        }
        let anew = lacking.iter().copied();
        let to_fetch = anew.filter(|id| self.missing.insert(*id)).collect();
        self.waiting.push_back(Waiting {
            record,
            rows,
            lacking,
        });
        to_fetch
    }

    /// The bytes of the block are durable here.
    pub fn on_held(&mut self, id: u128) {
        self.lacks_no_more(id);
    }

    /// The sender has reclaimed the bytes: the block's row was removed at or below its safe point.
    /// Its record is persisted without them; no member serves before it has the removal, too.
    pub fn on_gone(&mut self, id: u128) {
        self.lacks_no_more(id);
    }

    fn lacks_no_more(&mut self, id: u128) {
        if self.missing.remove(&id) {
            for waiting in &mut self.waiting {
                waiting.lacking.remove(&id);
            }
        }
    }

    /// The records that may be written to the log now, in their order (BGATE-1).
    #[must_use]
    pub fn ready(&mut self) -> Vec<R> {
        let lacks = |waiting: &Waiting<R>| !waiting.lacking.is_empty();
        let count = self.waiting.iter().position(lacks);
        self.release(count.unwrap_or(self.waiting.len()))
    }

    /// A new epoch begins: what waits is forgotten (BGATE-2). Says what that was.
    pub fn forget(&mut self) -> Vec<R> {
        self.missing.clear();
        self.release(self.waiting.len())
    }

    /// The first `count` records wait no more.
    fn release(&mut self, count: usize) -> Vec<R> {
        let released: Vec<Waiting<R>> = self.waiting.drain(..count).collect();
        for id in released.iter().flat_map(|waiting| &waiting.rows) {
            if let Some(count) = self.named.get_mut(id) {
                *count -= 1;
                if *count == 0 {
                    self.named.remove(id);
                }
            }
        }
        released.into_iter().map(|waiting| waiting.record).collect()
    }

    /// Whether a record that waits puts the block's row: its bytes may have come, and it waits for
    /// another's. They are not dropped meanwhile.
    #[must_use]
    pub fn pins(&self, id: u128) -> bool {
        self.named.contains_key(&id)
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

    /// Whether bytes without a row may be dropped. Their lease is over, and no record puts their
    /// row that is in the log, committed or not, or on its way there ([`Gate::pins`]).
    #[must_use]
    pub fn may_drop(is_lease_over: bool, is_in_log: bool, is_pinned: bool) -> bool {
        is_lease_over && !is_in_log && !is_pinned
    }
}

#[cfg(test)]
mod tests;
