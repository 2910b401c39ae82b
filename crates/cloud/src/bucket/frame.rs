//! The frame around the bytes of each object of the bucket services
//! (docs/reference/format/bucket.md).
//!
//! ```text
//! frame := "FADER" kind:u8 format:u8 payload xxh3-64(all before):u64le
//! ```
//!
//! Invariants:
//! - FRAME-1 an error names the object, and says whether it is foreign, newer or damaged.

use bytes::Bytes;
use fader_chain::{DecodeError, Reader};
use xxhash_rust::xxh3::xxh3_64;

use crate::error::{Error, ErrorKind, Result};

const MAGIC: &[u8; 5] = b"FADER";
const FORMAT: u8 = 1;
const HEAD_SIZE: usize = MAGIC.len() + 2;
const SUM_SIZE: usize = size_of::<u64>();

/// What an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// Messages that were sent together.
    Segment = b'M',
    /// What became of the messages of a segment.
    State = b'S',
    /// A queue's settings.
    Settings = b'Q',
    /// A slot of a log.
    Slot = b'L',
    /// A log's manifest.
    Manifest = b'D',
    /// A log's snapshot.
    Snapshot = b'P',
}

/// Frames a payload.
pub(super) fn seal(kind: Kind, payload: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(HEAD_SIZE + payload.len() + SUM_SIZE);
    out.extend_from_slice(MAGIC);
    out.push(kind as u8);
    out.push(FORMAT);
    out.extend_from_slice(payload);
    let sum = xxh3_64(&out);
    out.extend_from_slice(&sum.to_le_bytes());
    out.into()
}

/// Reads a payload out of its frame, to its end. `key` is the object's, for errors.
///
/// # Errors
/// `Malformed`.
pub(super) fn open<T>(
    key: &str,
    kind: Kind,
    bytes: &Bytes,
    read: impl FnOnce(&mut Reader) -> std::result::Result<T, DecodeError>,
) -> Result<T> {
    let malformed = |what: &str| {
        let context = format!("object {key:?} {what}");
        Error::new(ErrorKind::Malformed, context)
    };
    if bytes.len() < MAGIC.len() || &bytes[..MAGIC.len()] != MAGIC {
        return Err(malformed("is not Fader's: move it out of this prefix"));
    }
    if bytes.len() < HEAD_SIZE + SUM_SIZE {
        return Err(malformed("is damaged: it is cut short"));
    }
    let format = bytes[MAGIC.len() + 1];
    if FORMAT < format {
        let what = format!("has format {format}: this Fader reads {FORMAT}; use a newer one");
        return Err(malformed(&what));
    }
    let (head, sum) = bytes.split_at(bytes.len() - SUM_SIZE);
    if sum != xxh3_64(head).to_le_bytes() {
        return Err(malformed("is damaged: its checksum differs"));
    }
    if format == 0 || bytes[MAGIC.len()] != kind as u8 {
        return Err(malformed(&format!("is not of the kind {kind:?}")));
    }
    let mut reader = Reader::new(bytes.slice(HEAD_SIZE..head.len()));
    let value = read(&mut reader).and_then(|value| reader.end().map(|()| value));
    value.map_err(|error| malformed(&format!("is damaged: {error}")))
}

#[cfg(test)]
mod tests;
