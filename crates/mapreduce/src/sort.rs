//! Sorts pairs by partition, key and value. Most comparisons end at the first eight bytes of a key,
//! which stand beside it.

use std::ops::Range;

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
    first(key).swap_bytes()
}

/// The first sixteen bytes of a key, or all with zeros behind them, the first lowest. Bytes behind
/// it in its text are read with it. To copy a number of bytes that varies takes several times as
/// long.
#[inline]
pub(crate) fn head(text: &[u8], key: Range<usize>) -> u128 {
    let size = key.len();
    if let Some(head) = text.get(key.start..).and_then(|rest| rest.first_chunk()) {
        let over = 8 * 16_usize.saturating_sub(size) as u32;
        return u128::from_le_bytes(*head) & u128::MAX.checked_shr(over).unwrap_or(0);
    }
    let key = &text[key];
    let rest = key.get(8..).map_or(0, first);
    u128::from(rest) << 64 | u128::from(first(key))
}

/// The first eight bytes, the first lowest.
#[inline]
fn first(bytes: &[u8]) -> u64 {
    let size = bytes.len();
    if let Some(bytes) = bytes.first_chunk::<8>() {
        return u64::from_le_bytes(*bytes);
    }
    if let (Some(begin), Some(end)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        let end = u64::from(u32::from_le_bytes(*end));
        return u64::from(u32::from_le_bytes(*begin)) | end << (8 * (size - 4));
    }
    let at = |at: usize| u64::from(bytes[at]) << (8 * at);
    match size {
        0 => 0,
        _ => at(0) | at(size / 2) | at(size - 1),
    }
}

/// Sorts pairs by partition, key and value.
pub(crate) fn sort(lines: &mut [Line], bytes: &[u8]) {
    lines.sort_unstable_by(|one, other| {
        let by_prefix = (one.partition, one.prefix).cmp(&(other.partition, other.prefix));
        by_prefix.then_with(|| one.pair(bytes).cmp(&other.pair(bytes)))
    });
}
