//! Pairs that are there once, in a hash table: a key, and the place of its value among all values.

use std::ops::Range;

use crate::table::entries::Entries;

/// Pairs, each once.
#[derive(Debug)]
pub(super) struct Unique {
    pairs: Entries,
    values: Entries,
    /// The place of the last value: most pairs have that of the pair before.
    last: Option<u32>,
}

impl Unique {
    /// A table of so many bytes, at most.
    pub(super) fn new(bytes_max: usize) -> Self {
        Unique {
            pairs: Entries::pairs(bytes_max),
            values: Entries::sums(bytes_max),
            last: None,
        }
    }

    /// Adds a pair whose key is a part of a text, unless it is there.
    #[inline]
    pub(super) fn push(&mut self, text: &[u8], key: Range<usize>, value: &[u8]) {
        let place = match self.last {
            Some(last) if self.values.key(last) == value => last,
            _ => self.values.place(value, 0),
        };
        self.last = Some(place);
        let number = (value.len() as u64) << 32 | u64::from(place);
        self.pairs.add(text, key, number);
    }

    /// The number of pairs.
    pub(super) fn len(&mut self) -> usize {
        self.pairs.len()
    }

    /// Bytes that the pairs need, or those that are written for them if they are more.
    pub(super) fn bytes(&self) -> usize {
        let bytes = self.pairs.bytes() + self.values.bytes();
        bytes.max(self.pairs.written())
    }

    /// Bytes of all pairs, as they are written.
    pub(super) fn written(&self) -> usize {
        self.pairs.written()
    }

    /// Gives all pairs to `take`, in the order of their partition, key and value, and forgets them.
    pub(super) fn drain(
        &mut self,
        partitions: u32,
        partition: impl Fn(&[u8]) -> u32,
        mut take: impl FnMut(u32, &[u8], &[u8]),
    ) {
        let ranks = self.values.ranks();
        let values = &self.values;
        let rank = |number: u64| ranks[number as u32 as usize];
        self.pairs
            .drain(partitions, partition, rank, |partition, key, number| {
                take(partition, key, values.key(number as u32));
            });
        self.values.clear();
        self.last = None;
    }

    /// Room for pairs, and for bytes of their keys.
    #[cfg(test)]
    pub(super) fn capacities(&self) -> (usize, usize) {
        self.pairs.capacities()
    }
}
