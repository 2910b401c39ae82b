//! What a member makes durable, and what it finds after a crash.
//!
//! A member writes one sequence of records. Recovery folds the records that survived, in order,
//! into a [`RecoveredState`]; the engine's state survives apart from them, with the id it was
//! applied to.
//!
//! Invariants:
//! - RECORD-1 records survive as a prefix of what was written, at least up to the last persisted
//!   [`Lsn`].
//! - RECORD-2 the engine is never ahead of the entries in the records.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::config::Configuration;
use crate::entry::{Entry, RequestId};
use crate::epoch_history::EpochHistory;
use crate::operation::Operation;
use crate::stamp::EntryId;

/// The place of a record in a member's sequence of records, from 1. Never reused in one
/// incarnation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

/// One record.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Record {
    /// A configuration was adopted: nothing of an earlier epoch is handled from here (I1).
    Epoch(Arc<Configuration>),
    /// An entry of the log.
    Entry(Arc<Entry>),
    /// Entries above `after` are no more.
    Cut {
        /// The last entry that stays.
        after: EntryId,
    },
    /// The engine's state stands for every entry at or below `at`, with any content of the log
    /// there; a gap was closed.
    Filled {
        /// The id the engine was filled to.
        at: EntryId,
    },
    /// An eventual operation came into the overlay.
    Operation(Arc<Operation>),
    /// Eventual operations are held no longer: forgotten without a settlement (GC-5), or settled by
    /// entries that these records need not have (JN-7).
    Forgotten(Vec<RequestId>),
    /// The hybrid clock may be used up to this value, in milliseconds (I18).
    ClockBound(u64),
}

/// What a member's records say, taken together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RecoveredState {
    /// The configuration adopted last.
    pub configuration: Option<Arc<Configuration>>,
    /// The entries, in order; after an open gap they begin above it.
    pub entries: VecDeque<Arc<Entry>>,
    /// What the entries follow: the id before the first of them, or the last there was.
    pub before: EntryId,
    /// The ids of all entries, as far back as is known.
    pub epoch_history: EpochHistory,
    /// Eventual operations that came and were not forgotten, nor settled by a released entry; those
    /// settled since have a result in the engine.
    pub operations: BTreeMap<RequestId, Arc<Operation>>,
    /// The clock's bound.
    pub clock_bound: u64,
}

impl RecoveredState {
    /// Takes one record more.
    pub fn take(&mut self, record: Record) {
        match record {
            Record::Epoch(configuration) => self.configuration = Some(configuration),
            Record::Entry(entry) => {
                if self.entries.is_empty() {
                    self.before = entry.prev;
                }
                self.epoch_history.push(entry.id);
                self.entries.push_back(entry);
            }
            Record::Cut { after } => self.cut(after),
            Record::Filled { at } => {
                self.release(at);
                if self.entries.is_empty() {
                    self.epoch_history = EpochHistory::at(at);
                }
            }
            Record::Operation(operation) => {
                self.operations.entry(operation.name).or_insert(operation);
            }
            Record::Forgotten(names) => {
                names
                    .iter()
                    .for_each(|name| drop(self.operations.remove(name)));
            }
            Record::ClockBound(bound) => self.clock_bound = self.clock_bound.max(bound),
        }
    }

    /// The last entry.
    pub fn last(&self) -> EntryId {
        self.entries.back().map_or(self.before, |entry| entry.id)
    }

    /// Drops entries at or below `applied`, and the operations that they settled: the engine has
    /// them. Their results leave the engine before the operations would leave the records (D17).
    pub fn release(&mut self, applied: EntryId) {
        while let Some(first) = self.entries.front()
            && first.id <= applied
        {
            if let Some(name) = first.request {
                self.operations.remove(&name);
            }
            self.before = first.id;
            self.entries.pop_front();
        }
        self.before = self.before.max(applied);
    }

    fn cut(&mut self, after: EntryId) {
        self.epoch_history.cut(after);
        while let Some(last) = self.entries.back()
            && after < last.id
        {
            self.entries.pop_back();
        }
        if self.entries.is_empty() {
            self.before = self.before.min(after);
        }
    }
}

#[cfg(test)]
mod tests;
