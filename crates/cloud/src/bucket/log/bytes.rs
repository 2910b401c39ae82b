//! The bytes of a log's slots, manifest and snapshots.

use bytes::Bytes;
use fader_chain::{DecodeError, Reader, put_bytes, put_varint};

use crate::bucket::frame::{Kind, open, seal};
use crate::bucket::names::Incarnation;
use crate::error::Result;

/// The name of one content of a PUT: new for each content, and of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::bucket) struct PutId {
    /// The life of the process: random.
    pub(in crate::bucket) process: u128,
    /// Counted in that life.
    pub(in crate::bucket) number: u64,
}

/// What a slot holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::bucket) enum Content {
    /// What writes changed, in order.
    Writes(Vec<Bytes>),
    /// The end of the log.
    Seal,
    /// Writes that a snapshot covers.
    Stub,
}

/// A slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::bucket) struct Slot {
    /// Its number, from 1.
    pub(in crate::bucket) number: u64,
    pub(in crate::bucket) put_id: PutId,
    pub(in crate::bucket) content: Content,
}

impl Slot {
    pub(in crate::bucket) fn encode(&self) -> Bytes {
        let mut out = Vec::new();
        put_varint(&mut out, self.number);
        out.extend_from_slice(&self.put_id.process.to_be_bytes());
        put_varint(&mut out, self.put_id.number);
        match &self.content {
            Content::Writes(writes) => {
                out.push(1);
                put_varint(&mut out, writes.len() as u64);
                for write in writes {
                    put_bytes(&mut out, write);
                }
            }
            Content::Seal => out.push(2),
            Content::Stub => out.push(3),
        }
        seal(Kind::Slot, &out)
    }

    /// Reads what `encode` wrote of the slot with this number.
    ///
    /// # Errors
    /// `Malformed`.
    pub(in crate::bucket) fn decode(key: &str, bytes: &Bytes, number: u64) -> Result<Self> {
        open(key, Kind::Slot, bytes, |reader| {
            if reader.varint()? != number {
                return Err(DecodeError::new("another number than in its key"));
            }
            let put_id = PutId {
                process: reader.u128()?,
                number: reader.varint()?,
            };
            let content = match reader.byte()? {
                1 => {
                    let count = reader.count()?;
                    let writes = (0..count).map(|_| reader.bytes());
                    Content::Writes(writes.collect::<std::result::Result<_, _>>()?)
                }
                2 => Content::Seal,
                3 => Content::Stub,
                _ => return Err(DecodeError::new("an unknown content of a slot")),
            };
            Ok(Slot {
                number,
                put_id,
                content,
            })
        })
    }
}

/// A snapshot's name: the last slot that it covers, and a random part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::bucket) struct SnapshotName {
    pub(in crate::bucket) position: u64,
    pub(in crate::bucket) random: u64,
}

impl SnapshotName {
    /// The last part of its key.
    pub(in crate::bucket) fn text(self) -> String {
        format!("{:016x}-{:016x}", self.position, self.random)
    }

    /// Reads what `text` wrote.
    pub(in crate::bucket) fn parse(text: &str) -> Option<Self> {
        let (position, random) = text.split_once('-')?;
        let name = SnapshotName {
            position: u64::from_str_radix(position, 16).ok()?,
            random: u64::from_str_radix(random, 16).ok()?,
        };
        (name.text() == text).then_some(name)
    }
}

/// What is known of a log's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::bucket) struct Manifest {
    /// The log's life.
    pub(in crate::bucket) incarnation: Incarnation,
    /// Whether it was deleted.
    pub(in crate::bucket) is_gone: bool,
    /// The newest snapshot.
    pub(in crate::bucket) snapshot: Option<SnapshotName>,
}

impl Manifest {
    pub(in crate::bucket) fn encode(&self) -> Bytes {
        let mut out = self.incarnation.0.to_be_bytes().to_vec();
        out.push(u8::from(self.is_gone));
        match self.snapshot {
            None => out.push(0),
            Some(snapshot) => {
                out.push(1);
                put_varint(&mut out, snapshot.position);
                out.extend_from_slice(&snapshot.random.to_be_bytes());
            }
        }
        seal(Kind::Manifest, &out)
    }

    /// Reads what `encode` wrote.
    ///
    /// # Errors
    /// `Malformed`.
    pub(in crate::bucket) fn decode(key: &str, bytes: &Bytes) -> Result<Self> {
        open(key, Kind::Manifest, bytes, |reader| {
            let incarnation = Incarnation(reader.u64()?);
            let is_gone = flag(reader)?;
            let snapshot = match flag(reader)? {
                false => None,
                true => Some(SnapshotName {
                    position: reader.varint()?,
                    random: reader.u64()?,
                }),
            };
            Ok(Manifest {
                incarnation,
                is_gone,
                snapshot,
            })
        })
    }
}

fn flag(reader: &mut Reader) -> std::result::Result<bool, DecodeError> {
    match reader.byte()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(DecodeError::new("a mark that is neither 0 nor 1")),
    }
}

/// Frames a snapshot.
pub(in crate::bucket) fn encode_snapshot(name: SnapshotName, state: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(state.len() + 16);
    put_varint(&mut out, name.position);
    out.extend_from_slice(state);
    seal(Kind::Snapshot, &out)
}

/// Reads what `encode_snapshot` wrote.
///
/// # Errors
/// `Malformed`.
pub(in crate::bucket) fn decode_snapshot<T>(
    key: &str,
    bytes: &Bytes,
    position: u64,
    restore: impl FnOnce(&mut Reader) -> std::result::Result<T, DecodeError>,
) -> Result<T> {
    open(key, Kind::Snapshot, bytes, |reader| {
        if reader.varint()? != position {
            return Err(DecodeError::new("another position than in its key"));
        }
        restore(reader)
    })
}

#[cfg(test)]
mod tests;
