//! One write of one or several items: from element operations to all changes of its entry.
//!
//! The registers are merged by the members; index and counters are derived here, from each item's
//! register before and after. "After" is the same merge, under a stamp newer than every other.
//!
//! Invariants:
//! - W1 an item is changed at most once in a write.
//! - W2 the changes keep K2 (key.rs), if they are applied to the state they were derived from.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use bytes::Bytes;
use fader_chain::{Change, ElementOp, Marks, Register, Stamp};

use crate::simpledb::counters::{self, Counters};
use crate::simpledb::{Code, Context, Error, Limits};
use crate::{CollectionId, View, ViewError, index_key, item_key};

/// A write under construction.
pub(crate) struct Write<'a> {
    view: &'a dyn View,
    limits: &'a Limits,
    collection: CollectionId,
    before: Counters,
    counters: Counters,
    attributes: BTreeMap<Bytes, AttributePairs>,
    changes: Vec<Change>,
}

#[derive(Clone, Copy)]
struct AttributePairs {
    before: u64,
    after: u64,
}

impl<'a> Write<'a> {
    /// Begins a write to the domain of `context`.
    ///
    /// # Errors
    /// `NoSuchDomain`, or the store's failure.
    pub(crate) fn new(view: &'a dyn View, context: &Context<'a>) -> Result<Self, Error> {
        let collection = context.collection.ok_or_else(Error::no_such_domain)?;
        let counters = counters::counters(view, collection)?.ok_or_else(Error::no_such_domain)?;
        Ok(Write {
            view,
            limits: context.limits,
            collection,
            before: counters,
            counters,
            attributes: BTreeMap::new(),
            changes: Vec::new(),
        })
    }

    /// The register of `item`; empty if there is no such item.
    pub(crate) fn register(&self, item: &str) -> Result<Register, ViewError> {
        match self.view.get(&item_key(self.collection, item.as_bytes()))? {
            Some(bytes) => Ok(Register::decode(bytes)?),
            None => Ok(Register::default()),
        }
    }

    /// Changes `item` by `ops`, given the register that it has.
    ///
    /// # Errors
    /// `NumberItemAttributesExceeded` when the item would grow beyond its limit.
    pub(crate) fn merge(
        &mut self,
        item: &str,
        mut register: Register,
        ops: Vec<ElementOp>,
    ) -> Result<(), Error> {
        let old = sorted_pairs(&register);
        register.merge(&ops, Stamp::MAX);
        let new = sorted_pairs(&register);
        if self.limits.item_pairs < new.len() && old.len() < new.len() {
            return Err(Error::new(
                Code::NumberItemAttributesExceeded,
                "Too many attributes in this item.",
            ));
        }
        self.changes.push(Change::Merge {
            key: item_key(self.collection, item.as_bytes()),
            ops,
            marks: Marks::Dropped,
        });
        self.count_item(item, !old.is_empty(), !new.is_empty())?;
        self.derive(item, &old, &new)?;
        Ok(())
    }

    /// All changes of the write.
    ///
    /// # Errors
    /// `NumberDomainAttributesExceeded` or `NumberDomainBytesExceeded` when the domain would grow
    /// beyond its limits.
    pub(crate) fn finish(mut self) -> Result<Vec<Change>, Error> {
        for (name, pairs) in &self.attributes {
            if pairs.before == pairs.after {
                continue;
            }
            self.changes.push(counters::put_attribute_pairs(
                self.collection,
                name,
                pairs.after,
            ));
            if pairs.before == 0 || pairs.after == 0 {
                let is_new = pairs.before == 0;
                shift(&mut self.counters.attribute_name_count, 1, is_new)?;
                shift(&mut self.counters.attribute_names_bytes, name.len(), is_new)?;
            }
        }
        self.check_domain_limits()?;
        if self.counters != self.before {
            self.changes.push(self.counters.put(self.collection));
        }
        Ok(self.changes)
    }

    fn check_domain_limits(&self) -> Result<(), Error> {
        let exceeds = |before: u64, after: u64, limit: u64| limit < after && before < after;
        let (before, after) = (&self.before, &self.counters);
        let (pairs_before, pairs) = (before.attribute_value_count, after.attribute_value_count);
        if exceeds(pairs_before, pairs, self.limits.domain_pairs) {
            return Err(Error::new(
                Code::NumberDomainAttributesExceeded,
                "Too many attributes in this domain.",
            ));
        }
        if exceeds(
            before.domain_bytes(),
            after.domain_bytes(),
            self.limits.domain_bytes,
        ) {
            return Err(Error::new(
                Code::NumberDomainBytesExceeded,
                "Too many bytes in this domain.",
            ));
        }
        Ok(())
    }

    fn count_item(&mut self, item: &str, existed: bool, exists: bool) -> Result<(), ViewError> {
        if existed != exists {
            shift(&mut self.counters.item_count, 1, exists)?;
            shift(&mut self.counters.item_names_bytes, item.len(), exists)?;
        }
        Ok(())
    }

    /// Walks two sorted lists of pairs side by side and carries out what differs.
    fn derive(&mut self, item: &str, mut old: &[Pair], mut new: &[Pair]) -> Result<(), ViewError> {
        loop {
            let order = match (old.first(), new.first()) {
                (None, None) => return Ok(()),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(gone), Some(come)) => gone.cmp(come),
            };
            match order {
                Ordering::Less => self.index(item, &old[0], false)?,
                Ordering::Greater => self.index(item, &new[0], true)?,
                Ordering::Equal => {}
            }
            old = &old[usize::from(order.is_le())..];
            new = &new[usize::from(order.is_ge())..];
        }
    }

    fn index(&mut self, item: &str, pair: &Pair, is_new: bool) -> Result<(), ViewError> {
        let (name, value) = pair;
        let key = index_key(self.collection, name, value, item.as_bytes());
        self.changes.push(match is_new {
            true => Change::Put {
                key,
                value: Bytes::new(),
            },
            false => Change::Remove { key },
        });
        shift(&mut self.counters.attribute_value_count, 1, is_new)?;
        shift(
            &mut self.counters.attribute_values_bytes,
            value.len(),
            is_new,
        )?;
        shift(&mut self.attribute(name)?.after, 1, is_new)
    }

    fn attribute(&mut self, name: &Bytes) -> Result<&mut AttributePairs, ViewError> {
        if !self.attributes.contains_key(name) {
            let before = counters::attribute_pairs(self.view, self.collection, name)?;
            self.attributes.insert(
                name.clone(),
                AttributePairs {
                    before,
                    after: before,
                },
            );
        }
        Ok(self
            .attributes
            .get_mut(name)
            .expect("it was put there just now"))
    }
}

type Pair = (Bytes, Bytes);

/// Counts `by` more or fewer. A counter cannot pass below zero unless the store is damaged.
fn shift(counter: &mut u64, by: usize, up: bool) -> Result<(), ViewError> {
    let by = by as u64;
    let shifted = if up {
        counter.checked_add(by)
    } else {
        counter.checked_sub(by)
    };
    *counter = shifted.ok_or_else(|| ViewError("a counter disagrees with the index".to_owned()))?;
    Ok(())
}

fn sorted_pairs(register: &Register) -> Vec<Pair> {
    let pairs = register.pairs();
    let mut pairs: Vec<_> = pairs
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    pairs.sort_unstable();
    pairs
}
