//! A view of an ordered map in memory: the second implementation of the seam, without a disk.

use std::collections::BTreeMap;

use bytes::Bytes;
use fader_chain::{ApplyContext, Change, DecodeError, apply};

use crate::{Direction, Scan, View, ViewError};

/// All keys and values of one member, in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MapView {
    pairs: BTreeMap<Bytes, Bytes>,
}

impl MapView {
    /// Applies the changes of one entry, as a member does.
    ///
    /// # Errors
    /// [`DecodeError`] when a register that is changed cannot be read.
    pub fn apply(&mut self, changes: &[Change], under: &ApplyContext) -> Result<(), DecodeError> {
        let mut mutations = Vec::new();
        for change in changes {
            let current = self.pairs.get(change.key()).cloned();
            apply(change, current, under, &mut mutations)?;
            for mutation in mutations.drain(..) {
                match mutation.value {
                    Some(value) => self.pairs.insert(mutation.key, value),
                    None => self.pairs.remove(&mutation.key),
                };
            }
        }
        Ok(())
    }

    /// All keys and values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&Bytes, &Bytes)> {
        self.pairs.iter()
    }
}

impl View for MapView {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, ViewError> {
        View::get(&self.pairs, key)
    }

    fn scan(&self, start: &[u8], end: &[u8], direction: Direction) -> Scan<'_> {
        self.pairs.scan(start, end, direction)
    }
}

#[cfg(test)]
mod tests;
