//! The part of the log that a member keeps in memory. It has entries that are not applied yet, and
//! a window of older ones for members that lag.
//!
//! Invariants:
//! - MEMLOG-1 entries are contiguous; the first follows `base`.
//! - MEMLOG-2 `newest` is what the entries above `applied` make of the engine's state. It has for
//!   each key the value after the last of them that changes it.
//!
//! Above an open gap entries are held and not computed: there is no state to compute them on (D9).
//! When it is closed they are computed in order, some at a time, and what comes meanwhile is held
//! as well.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use bytes::Bytes;

use crate::change::Mutation;
use crate::dedup::DedupCursor;
use crate::entry::{Entry, RequestId};
use crate::epoch_history::EpochHistory;
use crate::message::Scope;
use crate::record::Lsn;
use crate::replica::PossibleInputs;
use crate::stamp::EntryId;
use crate::view::{Direction, Layered, Mutations, Scan, View, ViewError, scan_layered};

/// One entry, with what it did.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Slot {
    pub(crate) entry: Arc<Entry>,
    /// Its record.
    pub(crate) lsn: Lsn,
    /// When it was persisted here, in milliseconds of the member's clock; `None` before. D11.
    pub(crate) persisted_at: Option<u64>,
    /// What applying it does to the engine; `None` above an open gap, and once it is applied.
    pub(crate) mutations: Option<Arc<Vec<Mutation>>>,
}

/// The newest value of a key, and the entry that made it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Newest {
    id: EntryId,
    value: Option<Bytes>,
}

fn value_of(newest: &Newest) -> &Option<Bytes> {
    &newest.value
}

/// The log in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Log {
    base: EntryId,
    slots: VecDeque<Slot>,
    /// The ids of all entries there ever were, as far back as is known.
    epoch_history: EpochHistory,
    applied: EntryId,
    newest: BTreeMap<Bytes, Newest>,
    /// Names of entries above `applied`.
    names: BTreeMap<RequestId, EntryId>,
    /// What is known of the results in the newest state.
    swept: DedupCursor,
}

/// What an entry does to a state.
type Compute = fn(&Entry, &dyn View, &mut DedupCursor) -> Result<Vec<Mutation>, ViewError>;

/// The engine's state with the log's newest values over it.
pub(crate) struct NewestView<'a> {
    log: &'a Log,
    below: &'a dyn View,
}

/// The engine's state with some of the log's entries over it.
pub(crate) struct PrefixView<'a> {
    above: Mutations,
    below: &'a dyn View,
}

impl View for PrefixView<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, ViewError> {
        Layered::new(self.below, &self.above).get(key)
    }

    fn scan(&self, start: &[u8], end: &[u8], direction: Direction) -> Scan<'_> {
        scan_layered(
            self.below,
            &self.above,
            |value| value,
            start,
            end,
            direction,
        )
    }
}

impl View for NewestView<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, ViewError> {
        match self.log.newest.get(key) {
            Some(newest) => Ok(newest.value.clone()),
            None => self.below.get(key),
        }
    }

    fn scan(&self, start: &[u8], end: &[u8], direction: Direction) -> Scan<'_> {
        scan_layered(
            self.below,
            &self.log.newest,
            value_of,
            start,
            end,
            direction,
        )
    }
}

impl Log {
    /// A log whose entries follow `applied`, which the engine has; `epoch_history` ends there.
    pub(crate) fn after(applied: EntryId, epoch_history: EpochHistory) -> Self {
        Log {
            base: applied,
            applied,
            epoch_history,
            ..Log::default()
        }
    }

    /// The ids of the log.
    pub(crate) fn epoch_history(&self) -> &EpochHistory {
        &self.epoch_history
    }

    /// The id before the first entry.
    pub(crate) fn base(&self) -> EntryId {
        self.base
    }

    /// The last entry.
    pub(crate) fn last(&self) -> EntryId {
        self.slots.back().map_or(self.base, |slot| slot.entry.id)
    }

    /// The last entry that is in the engine.
    pub(crate) fn applied(&self) -> EntryId {
        self.applied
    }

    /// The entry `id`, if it is here.
    pub(crate) fn get(&self, id: EntryId) -> Option<&Slot> {
        self.slots
            .get(self.place(id)?)
            .filter(|slot| slot.entry.id == id)
    }

    /// The entry with this index, if it is here.
    pub(crate) fn at_index(&self, index: u64) -> Option<EntryId> {
        let slot = self.slots.get(self.place(EntryId::new(0, index))?)?;
        Some(slot.entry.id)
    }

    /// Whether the log is known to go through `id`: it is here, or is what the first one follows.
    pub(crate) fn holds(&self, id: EntryId) -> bool {
        id == self.base || self.get(id).is_some()
    }

    /// The entries above `after`, which the log holds.
    pub(crate) fn above(&self, after: EntryId) -> impl DoubleEndedIterator<Item = &Slot> {
        self.slots.range(self.offset(after)..)
    }

    /// Entries above `applied`.
    pub(crate) fn unapplied(&self) -> impl DoubleEndedIterator<Item = &Slot> {
        self.above(self.applied)
    }

    /// Whether an entry changes `key` that is not applied; entries above a gap are not known.
    pub(crate) fn changes(&self, key: &[u8]) -> bool {
        self.newest.contains_key(key)
    }

    /// What the newest entry makes of the state `below`, which is as of `applied`.
    pub(crate) fn newest<'a>(&'a self, below: &'a dyn View) -> NewestView<'a> {
        NewestView { log: self, below }
    }

    /// The state at `at`, an entry above `applied`, over `below`.
    pub(crate) fn prefix<'a>(&self, at: EntryId, below: &'a dyn View) -> PrefixView<'a> {
        let slots = self.unapplied().take_while(|slot| slot.entry.id <= at);
        let mutations =
            slots.flat_map(|slot| slot.mutations.iter().flat_map(|mutations| mutations.iter()));
        let above = mutations
            .map(|mutation| (mutation.key.clone(), mutation.value.clone()))
            .collect();
        PrefixView { above, below }
    }

    /// The entry above `applied` that has this name.
    pub(crate) fn named(&self, name: &RequestId) -> Option<EntryId> {
        self.names.get(name).copied()
    }

    /// The last entry above `commit` that changes what `scope` names.
    pub(crate) fn dirty(&self, scope: &Scope, commit: EntryId) -> Option<EntryId> {
        let newest = match scope {
            Scope::All => self.last(),
            Scope::Keys(keys) => {
                let ids = keys.iter().filter_map(|key| self.newest.get(key));
                ids.map(|newest| newest.id).max()?
            }
        };
        Some(newest).filter(|id| commit < *id)
    }

    /// The entries above `commit` that change what `scope` names, oldest first.
    pub(crate) fn dirtying<'a>(
        &'a self,
        scope: &'a Scope,
        commit: EntryId,
    ) -> impl Iterator<Item = &'a Slot> {
        self.above(commit).filter(move |slot| match scope {
            Scope::All => true,
            Scope::Keys(keys) => changes(slot, keys),
        })
    }

    /// Adds an entry that follows the last one.
    pub(crate) fn push(&mut self, slot: Slot) {
        let entry = &slot.entry;
        assert_eq!(entry.prev, self.last(), "I3: {} does not follow", entry.id);
        if let Some(name) = entry.request {
            self.names.insert(name, entry.id);
        }
        self.epoch_history.push(entry.id);
        note_newest(&mut self.newest, &slot);
        self.slots.push_back(slot);
    }

    /// Whether entries were held above a gap that are not computed yet: the last ones.
    pub(crate) fn holds_back(&self) -> bool {
        let last = self.slots.back().filter(|_| self.applied < self.last());
        last.is_some_and(|slot| slot.mutations.is_none())
    }

    /// What `entry` does to the newest state over `below`: the caller adds it next.
    pub(crate) fn compute(
        &mut self,
        entry: &Entry,
        below: &dyn View,
        compute: Compute,
    ) -> Result<Vec<Mutation>, ViewError> {
        let mut swept = std::mem::take(&mut self.swept);
        let mutations = compute(entry, &self.newest(below), &mut swept)?;
        self.swept = swept;
        Ok(mutations)
    }

    /// Computes the first `max` entries of those that were held above a gap that is closed now.
    pub(crate) fn compute_held(
        &mut self,
        below: &dyn View,
        max: usize,
        compute: Compute,
    ) -> Result<(), ViewError> {
        let unapplied = self.slots.range(self.offset(self.applied)..);
        let computed = unapplied.take_while(|slot| slot.mutations.is_some());
        let first = self.offset(self.applied) + computed.count();
        for at in (first..self.slots.len()).take(max) {
            let entry = self.slots[at].entry.clone();
            let mutations = self.compute(&entry, below, compute)?;
            self.slots[at].mutations = Some(Arc::new(mutations));
            note_newest(&mut self.newest, &self.slots[at]);
        }
        Ok(())
    }

    /// A gap is closed: the engine is the state at `at`, at or above the base.
    pub(crate) fn on_filled(&mut self, at: EntryId) {
        if at < self.last() {
            assert!(self.holds(at), "I3: filled to {at}, which the log lacks");
            self.release(at, 0);
            self.applied = at;
            self.rebuild();
        } else {
            let epoch_history = match at == self.last() {
                true => std::mem::take(&mut self.epoch_history),
                false => EpochHistory::at(at),
            };
            *self = Log::after(at, epoch_history);
        }
    }

    /// Drops every entry above `after`, which the log holds, and with them their names (XO-3).
    pub(crate) fn cut(&mut self, after: EntryId, drops_names: bool) {
        self.slots.truncate(self.offset(after));
        self.epoch_history.cut(after);
        let names = std::mem::take(&mut self.names);
        self.rebuild();
        if !drops_names {
            self.names = names;
        }
    }

    /// The engine has everything up to `applied`.
    pub(crate) fn on_applied(&mut self, applied: EntryId) {
        if applied <= self.applied {
            return;
        }
        let is_last = self.last() <= applied;
        if is_last {
            self.newest.clear();
            self.names.clear();
        }
        let from = self.offset(self.applied);
        for slot in self.slots.range_mut(from..) {
            if applied < slot.entry.id {
                break;
            }
            let mutations = slot.mutations.take();
            if is_last {
                continue;
            }
            if let Some(name) = slot.entry.request {
                self.names.remove(&name);
            }
            for mutation in mutations.iter().flat_map(|mutations| mutations.iter()) {
                let is_applied = |newest: &Newest| newest.id <= applied;
                if self.newest.get(&mutation.key).is_some_and(is_applied) {
                    self.newest.remove(&mutation.key);
                }
            }
        }
        self.applied = applied;
    }

    /// Marks entries persisted whose records are, and gives the last of them.
    pub(crate) fn on_persisted(&mut self, from: EntryId, lsn: Lsn, now: u64) -> EntryId {
        let start = self.offset(from);
        let mut last = from;
        for slot in self.slots.range_mut(start..) {
            if lsn < slot.lsn {
                break;
            }
            slot.persisted_at = Some(now);
            last = slot.entry.id;
        }
        last
    }

    /// Lets go of entries at or below `upto` but for the newest `keep` of them.
    pub(crate) fn release(&mut self, upto: EntryId, keep: usize) {
        let releasable = self.offset(upto).saturating_sub(keep);
        if let Some(last) = releasable.checked_sub(1) {
            self.base = self.slots[last].entry.id;
            self.slots.drain(..releasable);
        }
    }

    /// How many slots lie at or below `id`.
    fn offset(&self, id: EntryId) -> usize {
        let below = id.index.saturating_sub(self.base.index) as usize;
        below.min(self.slots.len())
    }

    fn place(&self, id: EntryId) -> Option<usize> {
        usize::try_from(id.index.checked_sub(self.base.index + 1)?).ok()
    }

    /// See [`PossibleInputs`]: what newest values and names there are follows from the entries.
    pub(crate) fn hash_future<H: Hasher>(
        &self,
        ahead: &PossibleInputs,
        persisted: EntryId,
        state: &mut H,
    ) {
        (self.base, &self.epoch_history, self.applied, &self.names).hash(state);
        for slot in &self.slots {
            (&slot.entry, &slot.mutations).hash(state);
            (persisted < slot.entry.id).then_some(slot.lsn).hash(state);
            if ahead.time {
                slot.persisted_at.hash(state);
            }
        }
    }

    /// The newest state is another one.
    fn rebuild(&mut self) {
        self.newest.clear();
        self.names.clear();
        self.swept = DedupCursor::default();
        for slot in self.slots.range(self.offset(self.applied)..) {
            if let Some(name) = slot.entry.request {
                self.names.insert(name, slot.entry.id);
            }
            note_newest(&mut self.newest, slot);
        }
    }
}

fn note_newest(newest: &mut BTreeMap<Bytes, Newest>, slot: &Slot) {
    let id = slot.entry.id;
    for mutation in slot.mutations.iter().flat_map(|mutations| mutations.iter()) {
        let value = mutation.value.clone();
        newest.insert(mutation.key.clone(), Newest { id, value });
    }
}

/// Above a gap nothing is computed, and an entry's own changes say what it touches.
fn changes(slot: &Slot, keys: &[Bytes]) -> bool {
    slot.entry
        .changes
        .iter()
        .any(|change| keys.contains(change.key()))
}

#[cfg(test)]
mod tests;
