//! Secondary indexes as pure functions: values of a field, and keys of entries.
//!
//! ```text
//! entry  := value key                     key: the record's, to the end
//! value  := 0x10                          false
//!         | 0x11                          true
//!         | 0x20 number:8                 f64 whose bytes compare like numbers
//!         | 0x30 text 0x00 0x01           0x00 in text is 0x00 0xff
//! ```
//!
//! An entry is a record without bytes in the index's tree. Its stamp is that of the write that
//! asserts it.
//!
//! Invariants:
//! - INDEX-1 each write asserts the entries of its after-image at its own stamp, if the write
//!   changes them or not. Otherwise a concurrent write could remove them (error 13 of the models).
//! - INDEX-2 an entry is a hint. A lookup compares it with the record.
//! - INDEX-3 an entry is removed at the stamp of the record's version that contradicts it, never at
//!   a newer one. A write on its way has a newer stamp and keeps its entry. An update that waits
//!   for its insert keeps its entries too.

use std::cmp::Ordering;

use bytes::Bytes;
use fader_blink::{HybridTime, Op, Page, Payload, PayloadRef, Record, Stamp};
use serde_json::Value;

use crate::catalogue::{Collection, CollectionId, Index};
use crate::guard::{Guard, Guards};

/// Bytes of a record's key in a collection with indexes, at most.
pub const INDEXED_KEY_BYTES_MAX: usize = 512;
/// Bytes of a text in an entry, about: longer texts are cut there and compared in the record.
const TEXT_BYTES: usize = 500;

const FALSE: u8 = 0x10;
const TRUE: u8 = 0x11;
const NUMBER: u8 = 0x20;
const TEXT: u8 = 0x30;
const END: [u8; 2] = [0x00, 0x01];

/// A value of an indexed field. Booleans are below numbers, and numbers below text.
#[derive(Clone, Debug, PartialEq)]
pub enum IndexValue {
    /// A boolean.
    Bool(bool),
    /// A number; whole numbers over 2^53 lose their last digits.
    Number(f64),
    /// A text, in the order of its bytes.
    Text(String),
}

impl IndexValue {
    /// Its bytes in entries.
    fn encode(&self) -> Vec<u8> {
        match self {
            IndexValue::Bool(false) => vec![FALSE],
            IndexValue::Bool(true) => vec![TRUE],
            IndexValue::Number(number) => {
                // Minus zero is zero; the sign's bit turned makes bytes compare like numbers.
                let bits = (number + 0.0).to_bits();
                let mask = match bits >> 63 {
                    1 => u64::MAX,
                    _ => 1 << 63,
                };
                let mut out = vec![NUMBER];
                out.extend_from_slice(&(bits ^ mask).to_be_bytes());
                out
            }
            IndexValue::Text(text) => {
                let mut out = vec![TEXT];
                for byte in text.bytes() {
                    if TEXT_BYTES <= out.len() {
                        break;
                    }
                    out.push(byte);
                    if byte == 0 {
                        out.push(0xff);
                    }
                }
                out.extend_from_slice(&END);
                out
            }
        }
    }

    /// The value of a JSON scalar.
    fn of(value: &Value) -> Option<Self> {
        match value {
            Value::Bool(value) => Some(IndexValue::Bool(*value)),
            Value::Number(number) => number.as_f64().map(IndexValue::Number),
            Value::String(text) => Some(IndexValue::Text(text.clone())),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        }
    }

    fn order(&self, other: &Self) -> Ordering {
        let rank = |value: &IndexValue| match value {
            IndexValue::Bool(_) => 0,
            IndexValue::Number(_) => 1,
            IndexValue::Text(_) => 2,
        };
        match (self, other) {
            (IndexValue::Bool(one), IndexValue::Bool(other)) => one.cmp(other),
            (IndexValue::Number(one), IndexValue::Number(other)) => {
                (one + 0.0).total_cmp(&(other + 0.0))
            }
            (IndexValue::Text(one), IndexValue::Text(other)) => one.cmp(other),
            (one, other) => rank(one).cmp(&rank(other)),
        }
    }
}

/// Which values a lookup asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum IndexRange {
    /// This value.
    Is(IndexValue),
    /// Values from the first on and below the second.
    Between(Option<IndexValue>, Option<IndexValue>),
}

impl IndexRange {
    /// Entries from the first key on and below the second have its values, and perhaps others.
    pub(crate) fn bounds(&self) -> (Vec<u8>, Option<Vec<u8>>) {
        match self {
            IndexRange::Is(value) => (value.encode(), Some(behind(value.encode()))),
            IndexRange::Between(from, until) => {
                let from = from.as_ref().map_or(Vec::new(), IndexValue::encode);
                // A text that was cut may be below the end though its entry is not.
                let until = until.as_ref().map(|until| behind(until.encode()));
                (from, until)
            }
        }
    }

    fn has(&self, value: &IndexValue) -> bool {
        match self {
            IndexRange::Is(only) => value.order(only) == Ordering::Equal,
            IndexRange::Between(from, until) => {
                let is_from = from
                    .as_ref()
                    .is_none_or(|from| value.order(from) != Ordering::Less);
                is_from
                    && until
                        .as_ref()
                        .is_none_or(|until| value.order(until) == Ordering::Less)
            }
        }
    }

    /// Whether a record has the entry, with a value of the range.
    pub(crate) fn matches(&self, field: &str, record: &[u8], value: &[u8]) -> bool {
        let mut values = values(field, record).into_iter();
        values.any(|found| found.encode() == value && self.has(&found))
    }
}

/// The first key behind all that begin with `prefix`.
fn behind(mut prefix: Vec<u8>) -> Vec<u8> {
    while let Some(last) = prefix.pop() {
        if last < u8::MAX {
            prefix.push(last + 1);
            return prefix;
        }
    }
    // Each value begins with a tag below.
    vec![u8::MAX]
}

/// The values of a field: of a scalar one, of an array each of its scalars, of a record that is no
/// JSON object none.
fn values(field: &str, record: &[u8]) -> Vec<IndexValue> {
    let Ok(Value::Object(fields)) = serde_json::from_slice(record) else {
        return Vec::new();
    };
    match fields.get(field) {
        None => Vec::new(),
        Some(Value::Array(all)) => all.iter().filter_map(IndexValue::of).collect(),
        Some(value) => IndexValue::of(value).into_iter().collect(),
    }
}

/// The keys of a record's entries in an index of `field`, in order, each once. A key over
/// [`INDEXED_KEY_BYTES_MAX`] has none.
pub(crate) fn entries(field: &str, key: &[u8], record: &[u8]) -> Vec<Bytes> {
    if INDEXED_KEY_BYTES_MAX < key.len() {
        return Vec::new();
    }
    let values = values(field, record);
    let entry = |value: &IndexValue| Bytes::from([&value.encode(), key].concat());
    let mut entries: Vec<Bytes> = values.iter().map(entry).collect();
    entries.sort_unstable();
    entries.dedup();
    entries
}

/// The value and the record's key of an entry; none when it is no entry.
pub(crate) fn split(entry: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = match *entry.first()? {
        FALSE | TRUE => 1,
        NUMBER => 9,
        TEXT => {
            let mut at = 1;
            loop {
                match entry.get(at..at + 2)? {
                    pair if pair == END => break at + 2,
                    [0x00, _] => at += 2,
                    _ => at += 1,
                }
            }
        }
        _ => return None,
    };
    entry.split_at_checked(end)
}

/// An asserted entry.
pub(crate) fn assertion(entry: Bytes, stamp: Stamp) -> Record {
    Record {
        key: entry,
        stamp,
        op: Op::Insert(Payload::Inline(Bytes::new())),
    }
}

/// Records for the trees of indexes.
pub(crate) type Entries = Vec<(CollectionId, Record)>;

impl Index {
    /// Whether the writer of a record may not have known the index.
    pub(crate) fn is_new_to(&self, record: &Record) -> bool {
        record.stamp.time < HybridTime::from_ms(self.asserted_from_ms)
    }
}

/// Removals of entries that a new version of a leaf contradicts. They are of keys in `records`,
/// whose slot in `old` had other values than that in `new`.
pub(crate) fn contradicted(
    collection: &Collection,
    guards: Guards,
    old: &Page,
    new: &[&Page],
    records: &[Record],
) -> Entries {
    let mut all = Vec::new();
    if collection.indexes.is_empty() {
        return all;
    }
    let mut keys: Vec<&Bytes> = records.iter().map(|record| &record.key).collect();
    keys.sort_unstable();
    keys.dedup();
    for key in keys.into_iter().filter(|key| old.contains(key)) {
        let Some(page) = new.iter().find(|page| page.contains(key)) else {
            continue;
        };
        let (before, after) = (old.find(key), page.find(key));
        // Payloads that are not visible count: an insert on its way may make an update visible.
        let is_kept = guards.has(Guard::EntriesOfHidden);
        let (Some(PayloadRef::Inline(gone)), Some(version)) = (before.payload, after.newest())
        else {
            continue;
        };
        let shown = if is_kept {
            after.payload
        } else {
            after.visible()
        };
        let now: &[u8] = match shown {
            None => b"",
            Some(PayloadRef::Inline(bytes)) => bytes,
            // Its values are in an object: the entries stay, and lookups compare.
            Some(PayloadRef::Object(_)) => continue,
        };
        if before.newest() == Some(version) {
            continue;
        }
        let stamp = match guards.has(Guard::EntryAtVersion) {
            true => version,
            // The time of the checkpoint.
            false => Stamp {
                time: HybridTime::from_ms(page.envelope().written_ms),
                ..version
            },
        };
        for index in collection.indexes.values() {
            let kept = entries(&index.field, key, now);
            let gone = entries(&index.field, key, gone).into_iter();
            let gone = gone.filter(|entry| !kept.contains(entry));
            all.extend(gone.map(|key| {
                let op = Op::Delete;
                (index.entries.id, Record { key, stamp, op })
            }));
        }
    }
    all
}

#[cfg(test)]
mod tests;
