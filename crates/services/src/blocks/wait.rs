//! What a collector remembers from look to look: garbage that waits, and what was found in a state.
//! Pure: the caller has the clock, the safe point and the state.
//!
//! ```text
//! an entry puts garbage ─▶ Seen ──── the safe point has the entry ───┐
//! a look into a state ───▶ Found ─── the safe point has the state ───┴▶ Waits ─ the wait ─▶ over
//! ```
//!
//! Invariants:
//! - GWAIT-1 the wait of garbage is one of the monotonic clock of one process. It begins when that
//!   saw the row, at or below the safe point: no member shows the version any more that had it.

use std::collections::{BTreeSet, VecDeque};

use fader_chain::EntryId;

use super::GarbageAt;
use super::collect::garbage;
use crate::{View, ViewError};

/// Rows of garbage that are remembered; beyond it is looked for them again.
const SEEN_MAX: usize = 1 << 16;
/// Garbage that waits in memory; beyond it is looked for again.
const WAITING_MAX: usize = 1 << 16;

/// What a member knows of its chain when it looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// An entry that is not before any state that it has read.
    pub newest: EntryId,
    /// The safe point: all members have what is at or below it.
    pub safe_point: EntryId,
}

/// Something that was found in a state, until the safe point has passed that.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Found<T> {
    /// An entry that is not before the state.
    at: Option<EntryId>,
    found: Vec<T>,
}

impl<T> Found<T> {
    /// Of a state that was read just now.
    pub fn new(found: Vec<T>) -> Self {
        Found { at: None, found }
    }

    /// Whether the safe point has passed the state.
    pub fn is_passed(&mut self, known: Known) -> bool {
        match self.at {
            Some(at) => at <= known.safe_point,
            None => {
                // Of a state that was read before: all of it was committed by now.
                self.at = Some(known.newest);
                false
            }
        }
    }

    /// What was found.
    pub fn into_found(self) -> Vec<T> {
        self.found
    }
}

/// Garbage that a member saw in entries, until the safe point has passed them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Seen {
    rows: VecDeque<(EntryId, GarbageAt)>,
    /// Whether more was than is remembered: it is to be looked for.
    is_more: bool,
}

impl Default for Seen {
    /// A member that begins knows nothing of what was before.
    fn default() -> Self {
        Seen {
            rows: VecDeque::new(),
            is_more: true,
        }
    }
}

impl Seen {
    /// The entry `at` put garbage, or one before it.
    pub fn note(&mut self, at: EntryId, garbage: GarbageAt) {
        match self.rows.len() < SEEN_MAX {
            true => self.rows.push_back((at, garbage)),
            false => self.is_more = true,
        }
    }

    /// Garbage of entries that the safe point has passed, and whether there is more that was not
    /// remembered.
    pub fn take(&mut self, safe_point: EntryId) -> (Vec<GarbageAt>, bool) {
        let mut taken = Vec::new();
        while let Some((at, garbage)) = self.rows.front()
            && *at <= safe_point
        {
            taken.push(*garbage);
            self.rows.pop_front();
        }
        (taken, std::mem::take(&mut self.is_more))
    }
}

/// Garbage that waits (GWAIT-1), as a process remembers it while it is at the head. A new head has
/// none, and begins anew.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Waits {
    /// In its order, with when its wait began.
    waiting: VecDeque<(u64, GarbageAt)>,
    /// The same, to know it again.
    known: BTreeSet<GarbageAt>,
    /// Whether there may be garbage that is not in memory.
    must_look: bool,
    /// Garbage that was looked for, until the safe point has passed it.
    found: Option<Found<GarbageAt>>,
}

impl Default for Waits {
    fn default() -> Self {
        Waits {
            waiting: VecDeque::new(),
            known: BTreeSet::new(),
            must_look: true,
            found: None,
        }
    }
}

impl Waits {
    /// The wait begins of what was seen, and of what is found in a state; the clock shows `now_ms`.
    ///
    /// # Errors
    /// [`ViewError`] when the store cannot be read.
    pub fn look(
        &mut self,
        now_ms: u64,
        known: Known,
        seen: (Vec<GarbageAt>, bool),
        state: &dyn View,
    ) -> Result<(), ViewError> {
        let (seen, is_more) = seen;
        self.must_look |= is_more;
        seen.into_iter().for_each(|it| self.begin(now_ms, it));
        match self.found.take() {
            Some(mut found) => match found.is_passed(known) {
                true => {
                    let found = found.into_found().into_iter();
                    found.for_each(|it| self.begin(now_ms, it));
                }
                false => self.found = Some(found),
            },
            None if self.must_look && self.waiting.len() < WAITING_MAX / 2 => {
                let found = garbage(state, None, WAITING_MAX)?;
                self.must_look = found.len() == WAITING_MAX;
                self.found = Some(Found::new(found));
            }
            None => {}
        }
        Ok(())
    }

    fn begin(&mut self, now_ms: u64, garbage: GarbageAt) {
        if WAITING_MAX <= self.waiting.len() {
            self.must_look = true;
        } else if self.known.insert(garbage) {
            self.waiting.push_back((now_ms, garbage));
        }
    }

    /// At most `count` of those that have waited for `wait_ms`.
    pub fn over(&self, now_ms: u64, wait_ms: u64, count: usize) -> Vec<GarbageAt> {
        let over = self.waiting.iter().take(count);
        let over = over.take_while(|(since, _)| since.saturating_add(wait_ms) <= now_ms);
        over.map(|(_, garbage)| *garbage).collect()
    }

    /// These are gone.
    pub fn forget(&mut self, gone: &[GarbageAt]) {
        if gone.is_empty() {
            return;
        }
        for garbage in gone {
            self.known.remove(garbage);
        }
        let known = &self.known;
        self.waiting.retain(|(_, garbage)| known.contains(garbage));
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests;
