//! The newest state of the log: entries that are not committed yet, over a snapshot of the engine.
//!
//! Decisions are made on it, so that an entry sees every entry before it; at the commit the same
//! mutations go to the engine.

use std::iter::Peekable;
use std::ops::Bound;

use bytes::Bytes;
use fader_chain::{Change, EntryId, Mutation, Under, apply};
use fader_services::{Direction, Scan, View, ViewError};

use crate::engine::{Mutations, Snapshot};

/// Pending mutations over a snapshot.
pub(crate) struct Pending {
    below: Snapshot,
    mutations: Mutations,
    /// What one change does; kept for its memory.
    applied: Vec<Mutation>,
    last: EntryId,
}

impl Pending {
    /// Nothing pending over `below`.
    pub(crate) fn new(below: Snapshot) -> Self {
        Pending {
            below,
            mutations: Mutations::new(),
            applied: Vec::new(),
            last: EntryId::ZERO,
        }
    }

    /// The last entry applied here.
    pub(crate) fn last(&self) -> EntryId {
        self.last
    }

    /// What the pending entries did.
    pub(crate) fn mutations(&self) -> &Mutations {
        &self.mutations
    }

    /// Applies changes of one entry.
    ///
    /// # Errors
    /// [`ViewError`] when the store cannot be read or holds no register where one should be.
    pub(crate) fn apply<'a>(
        &mut self,
        under: &Under,
        changes: impl IntoIterator<Item = &'a Change>,
    ) -> Result<(), ViewError> {
        for change in changes {
            let current = match change {
                Change::Merge { key, .. } | Change::Collect { key, .. } => self.get(key)?,
                Change::Put { .. } | Change::Remove { .. } => None,
            };
            apply(change, current, under, &mut self.applied)?;
            let applied = self.applied.drain(..);
            self.mutations
                .extend(applied.map(|mutation| (mutation.key, mutation.value)));
        }
        self.last = under.id;
        Ok(())
    }
}

impl View for Pending {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, ViewError> {
        match self.mutations.get(key) {
            Some(value) => Ok(value.clone()),
            None => self.below.get(key),
        }
    }

    fn scan(&self, start: &[u8], end: &[u8], direction: Direction) -> Scan<'_> {
        if end <= start {
            return Box::new(std::iter::empty());
        }
        let below = self.below.scan(start, end, direction).peekable();
        let range = (Bound::Included(start), Bound::Excluded(end));
        let above = self.mutations.range::<[u8], _>(range);
        match direction {
            Direction::Forward => Box::new(Merge {
                above: above.peekable(),
                below,
                direction,
            }),
            Direction::Backward => Box::new(Merge {
                above: above.rev().peekable(),
                below,
                direction,
            }),
        }
    }
}

/// Two ordered sequences as one; where both have a key, the pending one counts.
struct Merge<'a, A: Iterator<Item = (&'a Bytes, &'a Option<Bytes>)>> {
    above: Peekable<A>,
    below: Peekable<Scan<'a>>,
    direction: Direction,
}

impl<'a, A: Iterator<Item = (&'a Bytes, &'a Option<Bytes>)>> Iterator for Merge<'a, A> {
    type Item = Result<(Bytes, Bytes), ViewError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let below = match self.below.peek() {
                Some(Err(_)) => return self.below.next(),
                Some(Ok((key, _))) => Some(key),
                None => None,
            };
            let above = self.above.peek().map(|(key, _)| *key);
            let order = match (above, below) {
                (None, _) => return self.below.next(),
                (Some(_), None) => std::cmp::Ordering::Less,
                (Some(above), Some(below)) => match self.direction {
                    Direction::Forward => above.cmp(below),
                    Direction::Backward => below.cmp(above),
                },
            };
            if order.is_gt() {
                return self.below.next();
            }
            if order.is_eq() {
                self.below.next();
            }
            if let Some((key, Some(value))) = self.above.next() {
                return Some(Ok((key.clone(), value.clone())));
            }
        }
    }
}

#[cfg(test)]
mod tests;
