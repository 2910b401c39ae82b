//! Comparing the state of two members range by range
//! (docs/internals/protocol/reconfiguration.md, JN-4;
//! docs/internals/decisions/0004-state-transfer.md).
//!
//! The member that is filled cuts its own keys into ranges and sends their hashes; its donor
//! answers with the content of those that differ. The ranges of an ask follow each other, so all
//! keys are covered: where one member has nothing, the other's keys lie in some range.
//!
//! Invariants:
//! - RANGE-1 what is asked and what is answered is bounded in any state: [`RANGES_MAX`],
//!   [`BYTES_MAX`], each exceeded by one row at most.
//! - RANGE-2 an answer goes beyond its start: asking again from where it ends comes to
//!   [`keys::END`].
//! - RANGE-3 a member that takes the ranges of an answer has, from the answer's start to its end,
//!   what its sender has.

use bytes::Bytes;
use xxhash_rust::xxh3::Xxh3;

use crate::keys;
use crate::message::{RangeContent, RangeHash};
use crate::view::{Direction, View, ViewError};

/// A range ends with so many rows, or with so many bytes in them: some items, or some tens of
/// entries of an index.
const RANGE_ROWS_MAX: usize = 64;
pub(crate) const RANGE_BYTES_MAX: usize = 4 << 10;
/// Ranges in one ask.
pub(crate) const RANGES_MAX: usize = 256;
/// Bytes of keys and values looked at for one ask or one answer.
pub(crate) const BYTES_MAX: usize = 1 << 20;

/// An answer to an ask.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RangeDiff {
    /// The ranges that differ.
    pub(crate) ranges: Vec<RangeContent>,
    /// Up to where the ask was compared, excluded.
    pub(crate) end: Bytes,
}

/// A range of rows that grows.
struct RangeBuilder {
    hash: Xxh3,
    rows: usize,
    bytes: usize,
}

impl RangeBuilder {
    fn new(seed: u64) -> Self {
        RangeBuilder {
            hash: Xxh3::with_seed(seed),
            rows: 0,
            bytes: 0,
        }
    }

    /// Lengths come first, so that no two sequences of rows are hashed as the same bytes.
    fn take(&mut self, key: &[u8], value: &[u8]) {
        self.hash.update(&(key.len() as u64).to_be_bytes());
        self.hash.update(&(value.len() as u64).to_be_bytes());
        self.hash.update(key);
        self.hash.update(value);
        self.rows += 1;
        self.bytes += key.len() + value.len();
    }

    fn is_full(&self) -> bool {
        RANGE_ROWS_MAX <= self.rows || RANGE_BYTES_MAX <= self.bytes
    }
}

/// The ranges of `view` from `start` on, as many as fit into an ask. The seed is one that no client
/// knows: else its values could be chosen to hide a difference.
pub(crate) fn hashes(
    view: &dyn View,
    start: &[u8],
    seed: u64,
) -> Result<Vec<RangeHash>, ViewError> {
    let mut ranges = Vec::new();
    let mut growing = RangeBuilder::new(seed);
    let mut bytes = 0;
    for pair in view.scan(start, &keys::END, Direction::Forward) {
        let (key, value) = pair?;
        if growing.is_full() {
            bytes += growing.bytes;
            ranges.push(RangeHash {
                end: key.clone(),
                hash: growing.hash.digest128(),
            });
            growing = RangeBuilder::new(seed);
            if RANGES_MAX <= ranges.len() || BYTES_MAX <= bytes {
                return Ok(ranges);
            }
        }
        growing.take(&key, &value);
    }
    ranges.push(RangeHash {
        end: Bytes::from_static(&keys::END),
        hash: growing.hash.digest128(),
    });
    Ok(ranges)
}

/// Compares `view` with another member's ranges from `start` on. Rows that `is_left_out` names are
/// taken for absent.
pub(crate) fn compare(
    view: &dyn View,
    start: &Bytes,
    ranges: &[RangeHash],
    seed: u64,
    is_left_out: impl Fn(&[u8]) -> bool,
) -> Result<RangeDiff, ViewError> {
    let mut compared = RangeDiff {
        ranges: Vec::new(),
        end: start.clone(),
    };
    let mut bytes = 0;
    for range in ranges {
        let start = compared.end.clone();
        let (content, size, hash) = content(view, &start, &range.end, seed, &is_left_out)?;
        let is_whole = content.end == range.end;
        if bytes != 0 && (BYTES_MAX < bytes + size || !is_whole) {
            break;
        }
        bytes += size;
        compared.end = content.end.clone();
        if !is_whole || hash != range.hash {
            compared.ranges.push(content);
        }
        if !is_whole {
            break;
        }
    }
    Ok(compared)
}

/// What the range holds, but no more than [`BYTES_MAX`] of it; its size and its hash.
fn content(
    view: &dyn View,
    start: &Bytes,
    end: &Bytes,
    seed: u64,
    is_left_out: &impl Fn(&[u8]) -> bool,
) -> Result<(RangeContent, usize, u128), ViewError> {
    let mut content = RangeContent {
        start: start.clone(),
        end: end.clone(),
        rows: Vec::new(),
    };
    let mut growing = RangeBuilder::new(seed);
    for pair in view.scan(start, end, Direction::Forward) {
        let (key, value) = pair?;
        if is_left_out(&key) {
            continue;
        }
        if BYTES_MAX < growing.bytes + key.len() + value.len() && growing.rows != 0 {
            content.end = key;
            break;
        }
        growing.take(&key, &value);
        content.rows.push((key, value));
    }
    Ok((content, growing.bytes, growing.hash.digest128()))
}

/// A digest of rows of `view` from `start` on, up to so many bytes, and where it ends.
pub(crate) fn digest(
    view: &dyn View,
    start: &[u8],
    bytes_max: usize,
) -> Result<(Bytes, u128), ViewError> {
    let mut growing = RangeBuilder::new(0);
    for pair in view.scan(start, &keys::END, Direction::Forward) {
        let (key, value) = pair?;
        if bytes_max <= growing.bytes {
            return Ok((key, growing.hash.digest128()));
        }
        growing.take(&key, &value);
    }
    let end = Bytes::from_static(&keys::END);
    Ok((end, growing.hash.digest128()))
}

#[cfg(test)]
mod tests;
