//! What a decision changes, and how a member applies it.
//!
//! A decision (`services`) knows no stamps; the chain gives its entry one. Every member applies the
//! same changes under that stamp to the same state. So the results are equal everywhere.
//!
//! Keys: eight bytes of collection id, big-endian, then what the service laid out. A *register*
//! (for SimpleDB: an item) is changed by merging element operations. Everything derived from
//! registers (indexes, counters, names) is put and removed whole, in the same entry.
//!
//! Applying looks at nothing but the change, what is stored under its key, and the entry: no
//! configuration, no mode. What depends on those the head writes into the entry
//! ([`TombstonePolicy`], the safe point).
//!
//! Rows (GC-4). Where marks are kept, a *row* beside the register says that something is to be
//! collected there: (entry, register) → the stamp of that entry's marks.
//! - CHANGE-1 each mark of an eventual operation has the row of the entry that settled it. One
//!   operation is one entry, so no two entries make marks of one stamp, and no row replaces
//!   another's.
//! - CHANGE-2 a register without a visible value, in which only strong tombstones are left, has the
//!   row of its version. The last entry that changed it left no visible value either. `Collect`
//!   drops strong marks up to the safe point in passing, so that row takes all of them.
//!
//! Hence, when every row up to a safe point is collected, no tombstone of an eventual operation
//! settled up to it is left. No register without a visible value has a version up to it. A strong
//! mark beside visible values has no row. It goes with the next merge, or by CHANGE-1 and CHANGE-2
//! once the register has no visible value.

use bytes::Bytes;

use crate::codec::{DecodeError, Reader, put_bytes, put_varint};
use crate::keys::{mode_key, row_key};
use crate::mode::{Mode, ModeState};
use crate::register::Register;
use crate::stamp::{EntryId, Stamp};

/// One operation on the elements of a register.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
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

/// What becomes of the marks that a merge leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TombstonePolicy {
    /// They go at once, with all that are older. Every write of a `strong` collection passes the
    /// head in stamp order, so none can arrive that a tombstone would have to turn away.
    Dropped,
    /// They stay until [`Change::Collect`], or in passing once the safe point has reached their
    /// entry: in every other mode.
    Kept,
}

/// One change of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// Merges element operations into the register at `key`, creating it if absent.
    Merge {
        /// The register.
        key: Bytes,
        /// In the order of the request; not none.
        ops: Vec<ElementOp>,
        /// By the mode of the collection on the log before the entry.
        marks: TombstonePolicy,
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
    /// Drops the marks that one entry left in the register at `key`, and the row that told of them
    /// (GC-4). A mark that has been replaced since is not meant.
    Collect {
        /// The register; absent is fine.
        key: Bytes,
        /// The entry that left the marks, at or below the safe point.
        entry: EntryId,
        /// That entry's stamp.
        stamp: Stamp,
    },
    /// Gives a collection another mode (MD-1).
    SetMode {
        /// Where its mode is ([`Change::set_mode`]).
        key: Bytes,
        /// From this entry on.
        mode: Mode,
        /// Of a collection that closes: whether it does without those who are absent (MD-4).
        is_abandoned: bool,
    },
}

/// What an applied change does to the ordered map that a member stores.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Mutation {
    /// The key.
    pub key: Bytes,
    /// The new value, or `None` to remove the key.
    pub value: Option<Bytes>,
}

/// The entry that a change is applied under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ApplyContext {
    /// Its id.
    pub id: EntryId,
    /// Its stamp.
    pub stamp: Stamp,
    /// Its safe point: no operation will be merged any more that a strong mark, made by an entry at
    /// or below it, would turn away.
    pub safe_point: EntryId,
}

impl ApplyContext {
    /// A strong entry of a chain that has never collected.
    pub const fn strong(id: EntryId) -> Self {
        ApplyContext {
            id,
            stamp: Stamp::strong(id),
            safe_point: EntryId::ZERO,
        }
    }
}

/// Applies `change` under an entry; appends what is to be done. `current` is the newest value of
/// the change's key, and is not looked at by a `Put` or a `Remove`.
///
/// # Errors
/// [`DecodeError`] when `current` is no register, or the change could not have been decided: the
/// store is damaged, and the member must stop.
pub fn apply(
    change: &Change,
    current: Option<Bytes>,
    under: &ApplyContext,
    out: &mut Vec<Mutation>,
) -> Result<(), DecodeError> {
    let (key, value) = match change {
        Change::Put { key, value } => (key, Some(value.clone())),
        Change::Remove { key } => (key, None),
        Change::Merge { key, ops, marks } => {
            let mut register = match current {
                Some(bytes) => Register::decode(bytes)?,
                None => Register::default(),
            };
            register.version = register.version.max(under.id);
            match marks {
                TombstonePolicy::Dropped => {
                    register.merge(ops, under.stamp);
                    register.collect_through(under.stamp);
                }
                TombstonePolicy::Kept => {
                    // Before the merge, so that a group deleted up to the safe point is born again
                    // (D7).
                    register.collect_strong(under.safe_point);
                    register.merge(ops, under.stamp);
                    out.extend(row(key, &register, under));
                }
            }
            (key, stored(&register))
        }
        Change::Collect { key, entry, stamp } => {
            return collect(key, current, *entry, *stamp, under.safe_point, out);
        }
        Change::SetMode {
            key,
            mode,
            is_abandoned,
        } => {
            let standing = current.map(ModeState::decode).transpose()?;
            let turned = standing
                .unwrap_or_default()
                .turned(*mode, *is_abandoned, under.id);
            (key, turned.map(|turned| turned.encode()))
        }
    };
    out.push(Mutation {
        key: key.clone(),
        value,
    });
    Ok(())
}

fn stored(register: &Register) -> Option<Bytes> {
    (!register.is_vacant()).then(|| register.encode())
}

/// The row that the merge under this entry puts, if it does (CHANGE-1, CHANGE-2).
fn row(key: &[u8], register: &Register, under: &ApplyContext) -> Option<Mutation> {
    let is_eventual = !under.stamp.is_strong();
    let is_due = is_eventual && register.is_marked_by(under.stamp) || register.is_empty();
    is_due.then(|| {
        let mut stamp = Vec::with_capacity(32);
        under.stamp.encode(&mut stamp);
        Mutation {
            key: row_key(under.id, key),
            value: Some(stamp.into()),
        }
    })
}

fn collect(
    key: &Bytes,
    current: Option<Bytes>,
    entry: EntryId,
    stamp: Stamp,
    safe_point: EntryId,
    out: &mut Vec<Mutation>,
) -> Result<(), DecodeError> {
    if safe_point < entry {
        return Err(DecodeError::new("a collection above the safe point"));
    }
    if let Some(bytes) = current {
        let before = Register::decode(bytes)?;
        let mut register = before.clone();
        register.collect_strong(safe_point);
        register.collect_of(stamp);
        if register != before {
            out.push(Mutation {
                key: key.clone(),
                value: stored(&register),
            });
        }
    }
    out.push(Mutation {
        key: row_key(entry, key),
        value: None,
    });
    Ok(())
}

const TAG_MERGE: u8 = 1;
const TAG_PUT: u8 = 2;
const TAG_REMOVE: u8 = 3;
const TAG_MERGE_KEPT: u8 = 4;
const TAG_COLLECT: u8 = 5;
const TAG_TURN: u8 = 6;
const TAG_CLEAR_ALL: u8 = 1;
const TAG_CLEAR: u8 = 2;
const TAG_ADD: u8 = 3;
const TAG_REMOVE_VALUE: u8 = 4;

impl Change {
    /// Gives `collection` another mode.
    pub fn set_mode(collection: u64, mode: Mode, is_abandoned: bool) -> Self {
        Change::SetMode {
            key: mode_key(collection),
            mode,
            is_abandoned,
        }
    }

    /// The key that the change is about.
    pub fn key(&self) -> &Bytes {
        match self {
            Change::Merge { key, .. }
            | Change::Put { key, .. }
            | Change::Remove { key }
            | Change::Collect { key, .. }
            | Change::SetMode { key, .. } => key,
        }
    }

    /// The bytes of the keys, values and names in it.
    pub(crate) fn content_bytes(&self) -> usize {
        let rest = match self {
            Change::Merge { ops, .. } => ops.iter().map(ElementOp::content_bytes).sum(),
            Change::Put { value, .. } => value.len(),
            Change::Remove { .. } | Change::Collect { .. } | Change::SetMode { .. } => 0,
        };
        self.key().len() + rest
    }

    /// Appends the encoding of the change.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Change::Merge { key, ops, marks } => {
                out.push(match marks {
                    TombstonePolicy::Dropped => TAG_MERGE,
                    TombstonePolicy::Kept => TAG_MERGE_KEPT,
                });
                put_bytes(out, key);
                put_varint(out, ops.len() as u64);
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
            Change::Collect { key, entry, stamp } => {
                out.push(TAG_COLLECT);
                put_bytes(out, key);
                entry.encode(out);
                stamp.encode(out);
            }
            Change::SetMode {
                key,
                mode,
                is_abandoned,
            } => {
                out.push(TAG_TURN);
                put_bytes(out, key);
                out.extend_from_slice(&[mode.byte(), u8::from(*is_abandoned)]);
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
            TAG_MERGE | TAG_MERGE_KEPT => {
                let count = reader.count()?;
                let ops = (0..count)
                    .map(|_| ElementOp::decode(reader))
                    .collect::<Result<_, _>>()?;
                let marks = match tag {
                    TAG_MERGE => TombstonePolicy::Dropped,
                    _ => TombstonePolicy::Kept,
                };
                Ok(Change::Merge { key, ops, marks })
            }
            TAG_PUT => Ok(Change::Put {
                key,
                value: reader.bytes()?,
            }),
            TAG_REMOVE => Ok(Change::Remove { key }),
            TAG_COLLECT => Ok(Change::Collect {
                key,
                entry: EntryId::decode(reader)?,
                stamp: Stamp::decode(reader)?,
            }),
            TAG_TURN => Ok(Change::SetMode {
                key,
                mode: Mode::decode(reader)?,
                is_abandoned: reader.byte()? != 0,
            }),
            _ => Err(DecodeError::new("a change's tag")),
        }
    }
}

impl ElementOp {
    fn content_bytes(&self) -> usize {
        match self {
            ElementOp::ClearAll => 0,
            ElementOp::Clear { group } => group.len(),
            ElementOp::Add { group, value } | ElementOp::Remove { group, value } => {
                group.len() + value.len()
            }
        }
    }

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
