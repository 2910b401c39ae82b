//! The order of keys and their partitions.
//!
//! The shuffle orders keys by their bytes. Where a job has a comparator, a key goes through it as
//! `order ‖ key ‖ length of order`: `order` is made so that its bytes compare as the fields do.
//!
//! Sources: `KeyFieldHelper`, `KeyFieldBasedComparator`, `KeyFieldBasedPartitioner` and
//! `WritableComparator.hashBytes` of Hadoop 3.4.

mod field;

pub(crate) use field::{Field, fields};

/// How keys are ordered and partitioned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Keys {
    /// What stands between fields of a key.
    pub(crate) separator: Vec<u8>,
    /// The comparator's fields; none: keys compare by their bytes.
    pub(crate) order: Option<Vec<Field>>,
    /// How a partition is chosen.
    pub(crate) partitioner: Partitioner,
}

/// How the partition of a key is chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Partitioner {
    /// By the hash of all its bytes, as of a `Text`.
    #[default]
    Text,
    /// By the hash of its fields; without fields, by the hash of the key as a Java string.
    Fields(Vec<Field>),
}

impl Keys {
    /// The key as it goes through the shuffle.
    pub(crate) fn shuffled(&self, key: &[u8], out: &mut Vec<u8>) {
        out.clear();
        let Some(fields) = &self.order else {
            out.extend_from_slice(key);
            return;
        };
        for field in fields {
            field.put_order(key, &self.separator, out);
        }
        let order = out.len() as u32;
        out.extend_from_slice(key);
        out.extend_from_slice(&order.to_be_bytes());
    }

    /// The key of a shuffled one.
    pub(crate) fn key<'a>(&self, shuffled: &'a [u8]) -> &'a [u8] {
        if self.order.is_none() {
            return shuffled;
        }
        let Some((rest, order)) = shuffled.split_last_chunk::<4>() else {
            return b"";
        };
        let order = u32::from_be_bytes(*order) as usize;
        rest.get(order..).unwrap_or_default()
    }

    /// The partition of a key, of so many.
    pub(crate) fn partition(&self, key: &[u8], partitions: u32) -> u32 {
        let hash = match &self.partitioner {
            Partitioner::Text => text_hash(key),
            Partitioner::Fields(fields) if fields.is_empty() => string_hash(key),
            Partitioner::Fields(fields) => {
                let ranges = fields
                    .iter()
                    .filter_map(|field| field.range(key, &self.separator));
                ranges.fold(0, |hash, range| add_bytes(hash, &key[range]))
            }
        };
        (hash & i32::MAX).cast_unsigned() % partitions.max(1)
    }
}

/// Java's bytes have a sign.
fn add_bytes(hash: i32, bytes: &[u8]) -> i32 {
    let add = |hash: i32, byte: &u8| {
        hash.wrapping_mul(31)
            .wrapping_add(i32::from(byte.cast_signed()))
    };
    bytes.iter().fold(hash, add)
}

/// `Text.hashCode`.
fn text_hash(bytes: &[u8]) -> i32 {
    add_bytes(1, bytes)
}

/// `String.hashCode` of the text.
fn string_hash(bytes: &[u8]) -> i32 {
    let text = String::from_utf8_lossy(bytes);
    let add = |hash: i32, unit: u16| hash.wrapping_mul(31).wrapping_add(i32::from(unit));
    text.encode_utf16().fold(0, add)
}

#[cfg(test)]
mod tests;
