//! What a write does to the counters of its domain, and whether a limit forbids it.
//!
//! Invariants:
//! - DELTA-1 a limit forbids growth only: what is over a limit may stay there, or shrink (SDB-4.3).

use std::collections::BTreeMap;

use bytes::Bytes;
use fader_chain::Change;

use crate::simpledb::counters::{self, Counters};
use crate::simpledb::pairs::{Pair, differences};
use crate::simpledb::{Code, Limits};
use crate::{CollectionId, Inconsistency, View, ViewError};

/// The counters of a domain before and after a write.
pub(crate) struct CounterDelta<'a> {
    view: &'a dyn View,
    limits: &'a Limits,
    collection: CollectionId,
    basis: CounterBase,
    before: Counters,
    counters: Counters,
    attributes: BTreeMap<Bytes, AttributePairs>,
    is_item_over: bool,
}

/// What the counters that a tally begins with count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CounterBase {
    /// The items that the write is merged into.
    Same,
    /// Committed items, while the write is merged into what a member shows: it may remove pairs
    /// that were never counted (docs/internals/protocol/simpledb.md, section 4).
    Committed,
}

#[derive(Clone, Copy)]
struct AttributePairs {
    before: u64,
    after: u64,
}

impl<'a> CounterDelta<'a> {
    /// A tally of a write that does nothing yet; `None` when there is no such domain (any more).
    pub(crate) fn new(
        view: &'a dyn View,
        limits: &'a Limits,
        collection: CollectionId,
        basis: CounterBase,
    ) -> Result<Option<Self>, ViewError> {
        let counters = counters::counters(view, collection)?;
        Ok(counters.map(|counters| CounterDelta {
            view,
            limits,
            collection,
            basis,
            before: counters,
            counters,
            attributes: BTreeMap::new(),
            is_item_over: false,
        }))
    }

    /// Counts what differs between two states of `item`, and tells it pair by pair.
    pub(crate) fn count(
        &mut self,
        item: &[u8],
        old: &[Pair],
        new: &[Pair],
        mut tell: impl FnMut(&Pair, bool),
    ) -> Result<(), ViewError> {
        self.is_item_over |= self.limits.item_pairs < new.len() && old.len() < new.len();
        if old.is_empty() != new.is_empty() {
            let exists = !new.is_empty();
            self.shift(|counters| &mut counters.item_count, 1, exists)?;
            self.shift(
                |counters| &mut counters.item_names_bytes,
                item.len(),
                exists,
            )?;
        }
        differences(old, new, |pair, is_new| {
            tell(pair, is_new);
            let (name, value) = pair;
            self.shift(|counters| &mut counters.attribute_value_count, 1, is_new)?;
            let bytes = value.len();
            self.shift(
                |counters| &mut counters.attribute_values_bytes,
                bytes,
                is_new,
            )?;
            self.shift_attribute(name, is_new)
        })
    }

    /// Counts the attribute names that came and went; then says which limit the write exceeds, if
    /// any. Once, after everything was counted.
    pub(crate) fn finish(&mut self) -> Result<Option<Code>, ViewError> {
        let attributes = std::mem::take(&mut self.attributes);
        for (name, pairs) in &attributes {
            if pairs.before != pairs.after && (pairs.before == 0 || pairs.after == 0) {
                let is_new = pairs.before == 0;
                self.shift(|counters| &mut counters.attribute_name_count, 1, is_new)?;
                let bytes = name.len();
                self.shift(
                    |counters| &mut counters.attribute_names_bytes,
                    bytes,
                    is_new,
                )?;
            }
        }
        self.attributes = attributes;
        let exceeds = |before: u64, after: u64, limit: u64| limit < after && before < after;
        let (before, after) = (&self.before, &self.counters);
        let (pairs_before, pairs) = (before.attribute_value_count, after.attribute_value_count);
        let (bytes_before, bytes) = (before.domain_bytes(), after.domain_bytes());
        Ok(if self.is_item_over {
            Some(Code::NumberItemAttributesExceeded)
        } else if exceeds(pairs_before, pairs, self.limits.domain_pairs) {
            Some(Code::NumberDomainAttributesExceeded)
        } else if exceeds(bytes_before, bytes, self.limits.domain_bytes) {
            Some(Code::NumberDomainBytesExceeded)
        } else {
            None
        })
    }

    /// Appends the changes of the counters, after [`CounterDelta::finish`].
    pub(crate) fn put(&self, changes: &mut Vec<Change>) {
        for (name, pairs) in &self.attributes {
            if pairs.before != pairs.after {
                changes.push(counters::put_attribute_pairs(
                    self.collection,
                    name,
                    pairs.after,
                ));
            }
        }
        if self.counters != self.before {
            changes.push(self.counters.put(self.collection));
        }
    }

    fn shift_attribute(&mut self, name: &Bytes, up: bool) -> Result<(), ViewError> {
        if let Some(pairs) = self.attributes.get_mut(name) {
            return shift(self.basis, &mut pairs.after, 1, up);
        }
        let before = counters::attribute_pairs(self.view, self.collection, name)?;
        let mut after = before;
        shift(self.basis, &mut after, 1, up)?;
        self.attributes
            .insert(name.clone(), AttributePairs { before, after });
        Ok(())
    }

    fn shift(
        &mut self,
        counter: fn(&mut Counters) -> &mut u64,
        by: usize,
        up: bool,
    ) -> Result<(), ViewError> {
        shift(self.basis, counter(&mut self.counters), by, up)
    }
}

/// Counts `by` more or fewer. A counter that counts the items at hand cannot pass below zero unless
/// the store is damaged.
fn shift(basis: CounterBase, counter: &mut u64, by: usize, up: bool) -> Result<(), ViewError> {
    let by = by as u64;
    let shifted = match (up, basis) {
        (true, _) => counter.checked_add(by),
        (false, CounterBase::Same) => counter.checked_sub(by),
        (false, CounterBase::Committed) => Some(counter.saturating_sub(by)),
    };
    *counter = shifted.ok_or_else(|| ViewError::from(Inconsistency::Counter))?;
    Ok(())
}
