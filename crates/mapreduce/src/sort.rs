//! Sorts pairs by partition, key and value. Most comparisons end at the first eight bytes of a key,
//! which stand beside it.

use std::cmp::Ordering;

/// A pair in a buffer: its key, then its value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    pub(crate) partition: u32,
    /// The first eight bytes of the key, as a number that sorts as they do.
    prefix: u64,
    at: u32,
    key_bytes: u32,
    value_bytes: u32,
}

impl Line {
    pub(crate) fn new(partition: u32, key: &[u8], at: u32, value_bytes: u32) -> Self {
        Line {
            partition,
            prefix: prefix(key),
            at,
            key_bytes: key.len() as u32,
            value_bytes,
        }
    }

    #[inline]
    pub(crate) fn key<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        let at = self.at as usize;
        &bytes[at..at + self.key_bytes as usize]
    }

    pub(crate) fn value<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        let at = self.at as usize + self.key_bytes as usize;
        &bytes[at..at + self.value_bytes as usize]
    }

    pub(crate) fn pair<'a>(&self, bytes: &'a [u8]) -> (&'a [u8], &'a [u8]) {
        (self.key(bytes), self.value(bytes))
    }
}

/// The first eight bytes of a key, as a number that sorts as they do.
#[inline]
pub(crate) fn prefix(key: &[u8]) -> u64 {
    match key.first_chunk::<8>() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => {
            let mut bytes = [0; 8];
            bytes[..key.len()].copy_from_slice(key);
            u64::from_be_bytes(bytes)
        }
    }
}

/// Sorts pairs by partition, key and value.
pub(crate) fn sort(lines: &mut [Line], bytes: &[u8]) {
    lines.sort_unstable_by(|one, other| {
        let by_prefix = (one.partition, one.prefix).cmp(&(other.partition, other.prefix));
        by_prefix.then_with(|| one.pair(bytes).cmp(&other.pair(bytes)))
    });
}

/// An entry of a table, by its number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    prefix: u64,
    pub(crate) partition: u32,
    pub(crate) number: u32,
}

impl Place {
    pub(crate) fn new(partition: u32, key: &[u8], number: u32) -> Self {
        Place {
            prefix: prefix(key),
            partition,
            number,
        }
    }
}

/// Sorts entries by partition and key. No two have the same key.
pub(crate) fn order<'a>(places: &mut [Place], key: impl Fn(u32) -> &'a [u8]) {
    places.sort_unstable_by(|one, other| {
        let by_prefix = (one.partition, one.prefix).cmp(&(other.partition, other.prefix));
        by_prefix.then_with(|| key(one.number).cmp(key(other.number)))
    });
}

/// A pair with the prefix of its key.
#[derive(Clone, Copy)]
pub(crate) struct Pair<'a> {
    pub(crate) prefix: u64,
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
}

/// Compares pairs by key, then by value.
#[inline]
pub(crate) fn compare(one: Pair<'_>, other: Pair<'_>) -> Ordering {
    one.prefix
        .cmp(&other.prefix)
        .then_with(|| one.key.cmp(other.key))
        .then_with(|| one.value.cmp(other.value))
}
