//! What a decision changes, and how a member applies it.
//!
//! A decision (`services`) knows no stamps; the chain gives its entry one, and every member applies
//! the same changes under that stamp to the same state: the results are equal everywhere.
//!
//! Keys: eight bytes of collection id, big-endian, then what the service laid out. A *register*
//! (for SimpleDB: an item) is changed by merging element operations; everything derived from
//! registers (indexes, counters, names) is put and removed whole, in the same entry.

use bytes::Bytes;

use crate::codec::{DecodeError, Reader, put_bytes};
use crate::register::Register;
use crate::stamp::Stamp;

/// One operation on the elements of a register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ElementOp {
    /// Removes every element that is older than this write.
    ClearAll,
    /// Removes every member of `group` that is older than this write (SimpleDB: Replace, or the
    /// deletion of an attribute).
    Clear {
        /// The group, for SimpleDB an attribute name.
        group: Bytes,
    },
    /// Puts `value` into `group`.
    Add {
        /// The group.
        group: Bytes,
        /// The member.
        value: Bytes,
    },
    /// Removes `value` from `group`.
    Remove {
        /// The group.
        group: Bytes,
        /// The member.
        value: Bytes,
    },
}

/// One change of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Merges element operations into the register at `key`, creating it if absent.
    Merge {
        /// The register.
        key: Bytes,
        /// In the order of the request.
        ops: Vec<ElementOp>,
    },
    /// Puts a derived or plain value.
    Put {
        /// The key.
        key: Bytes,
        /// Replaces what was there.
        value: Bytes,
    },
    /// Removes a derived or plain value.
    Remove {
        /// The key; absent is fine.
        key: Bytes,
    },
}

/// What an applied change does to the ordered map that a member stores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mutation {
    /// The key.
    pub key: Bytes,
    /// The new value, or `None` to remove the key.
    pub value: Option<Bytes>,
}

/// Applies `change` under `stamp`. `current` is the newest value of the change's key.
///
/// Tombstones with a stamp at or below `floor` are dropped. In a `strong` collection the floor is
/// `stamp` itself: every write passes the head in stamp order, so none can arrive that a tombstone
/// would have to turn away (docs/decisions/0003-data-model.md).
///
/// # Errors
/// [`DecodeError`] when `current` is no register: the store is damaged, and the member must stop.
pub fn apply(
    change: &Change,
    current: Option<Bytes>,
    stamp: Stamp,
    floor: Stamp,
) -> Result<Mutation, DecodeError> {
    match change {
        Change::Put { key, value } => Ok(Mutation {
            key: key.clone(),
            value: Some(value.clone()),
        }),
        Change::Remove { key } => Ok(Mutation {
            key: key.clone(),
            value: None,
        }),
        Change::Merge { key, ops } => {
            let mut register = match current {
                Some(bytes) => Register::decode(bytes)?,
                None => Register::default(),
            };
            register.merge(ops, stamp);
            register.collect(floor);
            let value = (!register.is_vacant()).then(|| register.encode());
            Ok(Mutation {
                key: key.clone(),
                value,
            })
        }
    }
}

const TAG_MERGE: u8 = 1;
const TAG_PUT: u8 = 2;
const TAG_REMOVE: u8 = 3;
const TAG_CLEAR_ALL: u8 = 1;
const TAG_CLEAR: u8 = 2;
const TAG_ADD: u8 = 3;
const TAG_REMOVE_VALUE: u8 = 4;

impl Change {
    /// The key that the change is about.
    pub fn key(&self) -> &Bytes {
        match self {
            Change::Merge { key, .. } | Change::Put { key, .. } | Change::Remove { key } => key,
        }
    }

    /// Appends the encoding of the change.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Change::Merge { key, ops } => {
                out.push(TAG_MERGE);
                put_bytes(out, key);
                crate::codec::put_varint(out, ops.len() as u64);
                ops.iter().for_each(|op| op.encode(out));
            }
            Change::Put { key, value } => {
                out.push(TAG_PUT);
                put_bytes(out, key);
                put_bytes(out, value);
            }
            Change::Remove { key } => {
                out.push(TAG_REMOVE);
                put_bytes(out, key);
            }
        }
    }

    /// Reads what `encode` wrote.
    ///
    /// # Errors
    /// [`DecodeError`] when the bytes are no change.
    pub fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        let tag = reader.byte()?;
        let key = reader.bytes()?;
        match tag {
            TAG_MERGE => {
                let count = reader.count()?;
                let ops = (0..count)
                    .map(|_| ElementOp::decode(reader))
                    .collect::<Result<_, _>>()?;
                Ok(Change::Merge { key, ops })
            }
            TAG_PUT => Ok(Change::Put {
                key,
                value: reader.bytes()?,
            }),
            TAG_REMOVE => Ok(Change::Remove { key }),
            _ => Err(DecodeError::new("a change's tag")),
        }
    }
}

impl ElementOp {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            ElementOp::ClearAll => out.push(TAG_CLEAR_ALL),
            ElementOp::Clear { group } => {
                out.push(TAG_CLEAR);
                put_bytes(out, group);
            }
            ElementOp::Add { group, value } => {
                out.push(TAG_ADD);
                put_bytes(out, group);
                put_bytes(out, value);
            }
            ElementOp::Remove { group, value } => {
                out.push(TAG_REMOVE_VALUE);
                put_bytes(out, group);
                put_bytes(out, value);
            }
        }
    }

    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        match reader.byte()? {
            TAG_CLEAR_ALL => Ok(ElementOp::ClearAll),
            TAG_CLEAR => Ok(ElementOp::Clear {
                group: reader.bytes()?,
            }),
            TAG_ADD => Ok(ElementOp::Add {
                group: reader.bytes()?,
                value: reader.bytes()?,
            }),
            TAG_REMOVE_VALUE => Ok(ElementOp::Remove {
                group: reader.bytes()?,
                value: reader.bytes()?,
            }),
            _ => Err(DecodeError::new("an element operation's tag")),
        }
    }
}

#[cfg(test)]
mod tests;
