//! What a tree says of itself, in its own table: so it becomes durable with what it speaks of
//! (ENGINE-1).

use bytes::Bytes;
use fader_chain::{DecodeError, EntryId, Reader, put_varint};

const FORMAT: u8 = 1;
const FORMAT_FILLING: u8 = 2;

/// What a tree says of itself.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Marker {
    /// The entry up to which it holds everything.
    pub(super) applied: EntryId,
    /// Whether it is being filled: then the id says nothing.
    pub(super) is_filling: bool,
}

impl Marker {
    /// Its bytes.
    pub(super) fn encode(self) -> Vec<u8> {
        let mut bytes = vec![match self.is_filling {
            false => FORMAT,
            true => FORMAT_FILLING,
        }];
        put_varint(&mut bytes, self.applied.epoch);
        put_varint(&mut bytes, self.applied.index);
        bytes
    }

    /// Reads what `encode` wrote.
    pub(super) fn decode(bytes: Bytes) -> Result<Marker, DecodeError> {
        let mut reader = Reader::new(bytes);
        let is_filling = match reader.byte()? {
            FORMAT => false,
            FORMAT_FILLING => true,
            _ => return Err(DecodeError::new("a marker's format")),
        };
        let applied = EntryId::new(reader.varint()?, reader.varint()?);
        reader.end()?;
        Ok(Marker {
            applied,
            is_filling,
        })
    }
}
