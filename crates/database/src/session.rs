//! What one client remembers: its clock, its own records that no page has yet, and its marks.
//!
//! Pure: the wall clock is an argument.
//!
//! Invariants:
//! - SESSION-1 stamps of a session rise, also above every stamp that it read.
//! - SESSION-2 a read never shows an older version of a key range than one before it.
//! - SESSION-3 an own record overlays reads until a page that the marks accept covers it.

use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::Bytes;
use fader_blink::{ClockError, HybridClock, HybridTime, Marks, Page, Record, Stamp};

use crate::catalogue::CollectionId;
use crate::guard::{Guard, Guards};

/// One client's session.
#[derive(Debug)]
pub(crate) struct Session {
    clock: HybridClock,
    marks: BTreeMap<CollectionId, Marks>,
    own: BTreeMap<CollectionId, BTreeMap<Bytes, Vec<Record>>>,
    own_bytes: usize,
    guards: Guards,
}

impl Session {
    pub(crate) fn new(guards: Guards) -> Self {
        Session {
            clock: HybridClock::new(),
            marks: BTreeMap::new(),
            own: BTreeMap::new(),
            own_bytes: 0,
            guards,
        }
    }

    /// The time of the next transaction.
    pub(crate) fn tick(&mut self, now_ms: u64) -> Result<HybridTime, ClockError> {
        self.clock.tick(now_ms)
    }

    /// Takes note of stamps that were read without a page.
    pub(crate) fn observe(&mut self, records: &[Record]) {
        for record in records {
            self.clock.observe(record.stamp.time);
        }
    }

    /// Records of a transaction that was acknowledged.
    pub(crate) fn wrote(&mut self, collection: CollectionId, records: &[Record]) {
        if !self.guards.has(Guard::Overlay) {
            return;
        }
        let own = self.own.entry(collection).or_default();
        for record in records {
            self.own_bytes += record.encoded_bytes();
            own.entry(record.key.clone())
                .or_default()
                .push(record.clone());
        }
    }

    /// Bytes of own records that no page is known to have.
    pub(crate) fn own_bytes(&self) -> usize {
        self.own_bytes
    }

    /// Trees with own records that no page is known to have.
    pub(crate) fn own_trees(&self) -> Vec<CollectionId> {
        self.own.keys().copied().collect()
    }

    /// The first key from `from` on with an own record that no page is known to have.
    pub(crate) fn own_from(&self, collection: CollectionId, from: &[u8]) -> Option<Bytes> {
        let first = self.own_in(collection, from, None).next();
        first.map(|record| record.key.clone())
    }

    /// Forgets the own records of a tree that was dropped.
    pub(crate) fn forget(&mut self, collection: CollectionId) {
        let own = self.own.remove(&collection).unwrap_or_default();
        let records = own.values().flatten();
        self.own_bytes -= records.map(Record::encoded_bytes).sum::<usize>();
    }

    /// Takes a leaf for reads of its keys from `from` on, if the marks accept it. Marks and clock
    /// rise, and own records that it covers are dropped.
    pub(crate) fn take(&mut self, collection: CollectionId, page: &Page, from: &[u8]) -> bool {
        let marks = self.marks.entry(collection).or_default();
        // Most reads are of a version that an earlier one took.
        if marks.know(page) && !self.own.contains_key(&collection) {
            return true;
        }
        if self.guards.has(Guard::SessionMarks) && !marks.accept_all(page, from) {
            return false;
        }
        marks.raise(page);
        self.clock.observe(page.horizon().time);
        let covered: Vec<Record> = self
            .own_in(collection, page.low(), page.high())
            .filter(|record| page.covers(record))
            .cloned()
            .collect();
        for record in &covered {
            self.retain(collection, &record.key, |own| own != record);
        }
        true
    }

    /// Slots were read, of which this is the greatest stamp: the clock passes it.
    pub(crate) fn observe_stamp(&mut self, newest: Option<Stamp>) {
        if let Some(stamp) = newest {
            self.clock.observe(stamp.time);
        }
    }

    /// Own records that no page is known to have, of keys in `[from, until)`, in the order of keys.
    pub(crate) fn own_in(
        &self,
        collection: CollectionId,
        from: &[u8],
        until: Option<&[u8]>,
    ) -> impl Iterator<Item = &Record> {
        let until = until.map_or(Bound::Unbounded, Bound::Excluded);
        let range = (Bound::Included(from), until);
        let own = self.own.get(&collection).into_iter();
        own.flat_map(move |own| own.range::<[u8], _>(range).flat_map(|(_, records)| records))
    }

    /// Whether an own record of a key is in no page that is known to have it.
    pub(crate) fn has_own(&self, collection: CollectionId, key: &[u8]) -> bool {
        let own = self.own.get(&collection);
        own.is_some_and(|own| own.contains_key(key))
    }

    fn retain(&mut self, collection: CollectionId, key: &Bytes, keep: impl Fn(&Record) -> bool) {
        let Some(own) = self.own.get_mut(&collection) else {
            return;
        };
        let Some(records) = own.get_mut(key) else {
            return;
        };
        let bytes = &mut self.own_bytes;
        records.retain(|record| {
            let kept = keep(record);
            *bytes -= if kept { 0 } else { record.encoded_bytes() };
            kept
        });
        if records.is_empty() {
            own.remove(key);
        }
        if own.is_empty() {
            self.own.remove(&collection);
        }
    }
}

#[cfg(test)]
mod tests;
