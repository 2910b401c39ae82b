//! One write of one or several items: from element operations to all changes of its entry.
//!
//! The registers are merged by the members; index and counters are derived here, from each item's
//! register before and after. "After" is the same merge. A strong write has a stamp newer than
//! every other (Lemma 1); the settlement of an eventual one has its own (SDB-5.3).
//!
//! Invariants:
//! - SDBWRITE-1 an item is changed at most once in a write.
//! - SDBWRITE-2 the changes keep KEY-2 (key.rs), if they are applied to the state they were derived
//!   from.
//! - SDBWRITE-3 a merge is a change even where nothing visible differs (D12).

use bytes::Bytes;
use fader_chain::{Change, ElementOp, Register, Stamp, TombstonePolicy};

use crate::simpledb::counter_delta::{CounterBase, CounterDelta};
use crate::simpledb::pairs::{sorted_pairs, stored_register};
use crate::simpledb::{Code, Context, Error, Limits};
use crate::{CollectionId, View, ViewError, index_key, item_key, split_item_key};

/// A write under construction.
pub(crate) struct Write<'a> {
    view: &'a dyn View,
    collection: CollectionId,
    marks: TombstonePolicy,
    stamp: Stamp,
    tally: CounterDelta<'a>,
    changes: Vec<Change>,
}

/// An item as a write finds it.
pub(crate) struct Found {
    key: Bytes,
    /// Empty if there is no such item.
    pub(crate) register: Register,
}

/// Why a write came to nothing.
#[derive(Debug)]
pub(crate) enum WriteError {
    /// A limit forbids it.
    Limit(Code),
    /// The store failed.
    View(ViewError),
}

impl<'a> Write<'a> {
    /// Begins a strong write to the domain of `context`.
    ///
    /// # Errors
    /// `NoSuchDomain`, or the store's failure.
    pub(crate) fn new(view: &'a dyn View, context: &Context<'a>) -> Result<Self, Error> {
        let collection = context.collection.ok_or_else(Error::no_such_domain)?;
        let marks = match context.mode.keeps_marks() {
            true => TombstonePolicy::Kept,
            false => TombstonePolicy::Dropped,
        };
        let write = Write::under(view, context.limits, collection, marks, Stamp::MAX)?;
        write.ok_or_else(Error::no_such_domain)
    }

    /// Begins a write under `stamp`; `None` when there is no such collection (any more).
    pub(crate) fn under(
        view: &'a dyn View,
        limits: &'a Limits,
        collection: CollectionId,
        marks: TombstonePolicy,
        stamp: Stamp,
    ) -> Result<Option<Self>, ViewError> {
        let tally = CounterDelta::new(view, limits, collection, CounterBase::Same)?;
        Ok(tally.map(|tally| Write {
            view,
            collection,
            marks,
            stamp,
            tally,
            changes: Vec::new(),
        }))
    }

    /// Looks an item up.
    pub(crate) fn find(&self, item: &str) -> Result<Found, ViewError> {
        self.find_at(item_key(self.collection, item.as_bytes()))
    }

    /// Looks up the item with this key.
    pub(crate) fn find_at(&self, key: Bytes) -> Result<Found, ViewError> {
        let register = stored_register(self.view, &key)?;
        Ok(Found { key, register })
    }

    /// Changes an item by `ops`.
    pub(crate) fn merge(&mut self, item: Found, ops: Vec<ElementOp>) -> Result<(), ViewError> {
        let Found { key, mut register } = item;
        let old = sorted_pairs(&register);
        register.merge(&ops, self.stamp);
        let new = sorted_pairs(&register);
        self.changes.push(Change::Merge {
            key: key.clone(),
            ops,
            marks: self.marks,
        });
        let (_, item) = split_item_key(&key).expect("it is the key of an item");
        let (collection, changes) = (self.collection, &mut self.changes);
        self.tally.count(item, &old, &new, |(name, value), is_new| {
            let key = index_key(collection, name, value, item);
            changes.push(match is_new {
                true => Change::Put {
                    key,
                    value: Bytes::new(),
                },
                false => Change::Remove { key },
            });
        })
    }

    /// All changes of the write.
    pub(crate) fn finish(mut self) -> Result<Vec<Change>, WriteError> {
        if let Some(code) = self.tally.finish()? {
            return Err(WriteError::Limit(code));
        }
        self.tally.put(&mut self.changes);
        Ok(self.changes)
    }
}

impl From<ViewError> for WriteError {
    fn from(error: ViewError) -> Self {
        WriteError::View(error)
    }
}

impl From<WriteError> for Error {
    fn from(hindered: WriteError) -> Self {
        match hindered {
            WriteError::Limit(code) => Error::limit(code),
            WriteError::View(error) => error.into(),
        }
    }
}
