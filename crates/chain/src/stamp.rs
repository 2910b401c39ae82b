//! Names of log entries, and the stamps that order writes.
//!
//! Invariants:
//! - `(epoch, index)` names one log entry for ever; `EntryId::ZERO` names none.
//! - STAMP-2 stamps are totally ordered, lexicographically. The stamp of a strong write at `v` is
//!   `(v, 0, 0, 0)`, so no eventual write based on `v` sorts below it.
//!
//! Encoding: an id is two varints; a stamp one tag byte (0 zero, 1 strong, 2 eventual), then
//! varints.

use crate::codec::{DecodeError, Reader, put_varint};

/// The name of a log entry: the epoch it was numbered in and its chain-wide index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryId {
    /// The epoch in which the head numbered the entry.
    pub epoch: u64,
    /// The place in the chain's log, from 1; never reused within an epoch.
    pub index: u64,
}

impl EntryId {
    /// Before every entry.
    pub const ZERO: EntryId = EntryId { epoch: 0, index: 0 };

    /// The entry `index` of `epoch`.
    pub const fn new(epoch: u64, index: u64) -> Self {
        EntryId { epoch, index }
    }

    /// Appends the encoding of the id.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.epoch);
        put_varint(out, self.index);
    }

    /// Reads what `encode` wrote.
    ///
    /// # Errors
    /// [`DecodeError`] when the bytes are no id.
    pub fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(EntryId::new(reader.varint()?, reader.varint()?))
    }
}

impl std::fmt::Display for EntryId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.epoch, self.index)
    }
}

/// The place of a write in the order of all writes of a register.
///
/// A strong write carries the id of its entry and zeros. An eventual write carries the newest
/// version it was based on, a hybrid clock, and the member that stamped it
/// (docs/internals/protocol, "Stamps").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp {
    /// The version the write is, or is based on.
    pub base: EntryId,
    /// Hybrid logical clock in milliseconds; 0 for strong writes.
    pub clock: u64,
    /// The member that stamped an eventual write; 0 for strong writes.
    pub node: u32,
    /// Tells apart eventual writes of one member within one clock value; 0 for strong writes.
    pub counter: u32,
}

const TAG_ZERO: u8 = 0;
const TAG_STRONG: u8 = 1;
const TAG_EVENTUAL: u8 = 2;

impl Stamp {
    /// Before every write.
    pub const ZERO: Stamp = Stamp::strong(EntryId::ZERO);

    /// After every write: what a decision merges with to see what its write will come to.
    pub const MAX: Stamp = Stamp::strong(EntryId::new(u64::MAX, u64::MAX));

    /// The stamp of the strong write that is entry `id`.
    pub const fn strong(id: EntryId) -> Self {
        Stamp {
            base: id,
            clock: 0,
            node: 0,
            counter: 0,
        }
    }

    /// Whether an entry of the chain, rather than an eventual write, made this stamp.
    pub fn is_strong(&self) -> bool {
        (self.clock, self.node, self.counter) == (0, 0, 0)
    }

    /// Appends the encoding of the stamp.
    pub fn encode(&self, out: &mut Vec<u8>) {
        if *self == Stamp::ZERO {
            out.push(TAG_ZERO);
            return;
        }
        out.push(if self.is_strong() {
            TAG_STRONG
        } else {
            TAG_EVENTUAL
        });
        self.base.encode(out);
        if !self.is_strong() {
            put_varint(out, self.clock);
            put_varint(out, u64::from(self.node));
            put_varint(out, u64::from(self.counter));
        }
    }

    /// Reads what `encode` wrote.
    ///
    /// # Errors
    /// [`DecodeError`] when the bytes are no stamp.
    pub fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        let tag = reader.byte()?;
        if tag == TAG_ZERO {
            return Ok(Stamp::ZERO);
        }
        let mut stamp = Stamp::strong(EntryId::decode(reader)?);
        match tag {
            TAG_STRONG => Ok(stamp),
            TAG_EVENTUAL => {
                stamp.clock = reader.varint()?;
                stamp.node = reader.varint_u32()?;
                stamp.counter = reader.varint_u32()?;
                Ok(stamp)
            }
            _ => Err(DecodeError::new("a stamp's tag")),
        }
    }
}

#[cfg(test)]
mod tests;
