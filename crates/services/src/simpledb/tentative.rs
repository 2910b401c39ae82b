//! What a member shows to eventual readers: its committed state with unsettled operations merged
//! in, index included (SDB-6.7).
//!
//! Invariants:
//! - TENT-1 a register's mutations are those that its own unsettled operations cause on the
//!   committed state it was shown with last. A member that applies an entry shows its registers
//!   again.
//! - TENT-2 no two registers mutate one key: an index key names its item.
//!
//! Counters stay the committed ones, but for the number of items, which `count(*)` needs.

use std::collections::BTreeMap;

use bytes::Bytes;
use fader_chain::{ElementOp, Mutations, Operation, Stamp};

use crate::simpledb::pairs::{differences, sorted_pairs, stored_register};
use crate::{CollectionId, Inconsistency, View, ViewError, index_key, split_item_key};

/// An unsettled operation on a register, as far as no committed state covers it.
#[derive(Clone, Copy, Debug)]
pub struct Unsettled<'a> {
    /// What it does.
    pub ops: &'a [ElementOp],
    /// Its place in the order of all writes of the register.
    pub stamp: Stamp,
}

/// The mutations that unsettled operations cause, kept register by register.
#[derive(Clone, Debug, Default)]
pub struct Tentative {
    mutations: Mutations,
    registers: BTreeMap<Bytes, Trace>,
    items: BTreeMap<CollectionId, i64>,
}

/// What one register contributes.
#[derive(Clone, Debug, Default)]
struct Trace {
    keys: Vec<Bytes>,
    items: i64,
}

impl Tentative {
    /// What these operations, of any registers and in any order, cause over `committed`.
    ///
    /// # Errors
    /// As [`Tentative::show`].
    pub fn of<'a>(
        committed: &dyn View,
        operations: impl IntoIterator<Item = &'a Operation>,
    ) -> Result<Self, ViewError> {
        let mut by_register: BTreeMap<&Bytes, Vec<Unsettled<'a>>> = BTreeMap::new();
        for operation in operations {
            let unsettled = by_register.entry(&operation.key).or_default();
            unsettled.push(Unsettled {
                ops: &operation.ops,
                stamp: operation.stamp,
            });
        }
        let mut tentative = Tentative::default();
        for (key, unsettled) in by_register {
            tentative.show(committed, key, unsettled)?;
        }
        Ok(tentative)
    }

    /// Shows the register at `key` anew: with these operations, in any order, over `committed`.
    ///
    /// # Errors
    /// [`ViewError`] when the store cannot be read, or `key` is no item's.
    pub fn show<'a>(
        &mut self,
        committed: &dyn View,
        key: &Bytes,
        unsettled: impl IntoIterator<Item = Unsettled<'a>>,
    ) -> Result<(), ViewError> {
        let (collection, item) =
            split_item_key(key).ok_or_else(|| ViewError::from(Inconsistency::NoItem))?;
        self.forget(collection, key);
        let mut unsettled = unsettled.into_iter().peekable();
        if unsettled.peek().is_none() {
            return Ok(());
        }
        let mut register = stored_register(committed, key)?;
        let old = sorted_pairs(&register);
        unsettled.for_each(|one| register.merge(one.ops, one.stamp));
        let new = sorted_pairs(&register);
        let mut trace = Trace {
            keys: vec![key.clone()],
            items: i64::from(!new.is_empty()) - i64::from(!old.is_empty()),
        };
        let mutations = &mut self.mutations;
        mutations.insert(key.clone(), Some(register.encode()));
        differences(&old, &new, |(name, value), is_new| {
            let key = index_key(collection, name, value, item);
            trace.keys.push(key.clone());
            mutations.insert(key, is_new.then(Bytes::new));
            Ok::<(), ViewError>(())
        })?;
        *self.items.entry(collection).or_default() += trace.items;
        self.registers.insert(key.clone(), trace);
        Ok(())
    }

    /// What to lay over the committed view ([`fader_chain::Layered`]).
    pub fn mutations(&self) -> &Mutations {
        &self.mutations
    }

    /// By how many items the collection shows more, or fewer, than are committed:
    /// [`Context::unsettled_items`](crate::simpledb::Context) of an answer on this view.
    pub fn items(&self, collection: CollectionId) -> i64 {
        self.items.get(&collection).copied().unwrap_or(0)
    }

    fn forget(&mut self, collection: CollectionId, key: &Bytes) {
        let Some(trace) = self.registers.remove(key) else {
            return;
        };
        for key in &trace.keys {
            self.mutations.remove(key);
        }
        let items = self.items.entry(collection).or_default();
        *items -= trace.items;
        if *items == 0 {
            self.items.remove(&collection);
        }
    }
}

#[cfg(test)]
mod tests;
