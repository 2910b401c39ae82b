//! The bytes of a segment: messages that were sent together. It never changes.

use bytes::Bytes;
use fader_chain::{DecodeError, put_bytes, put_varint};

use super::frame::{Kind, open, seal};
use super::names::SEGMENT_MESSAGES_MAX;
use crate::error::Result;

/// Bytes of all bodies of a segment, at most, unless it has one message only.
pub(super) const SEGMENT_BYTES_MAX: usize = 256 * 1024;

/// A segment's bytes.
pub(super) fn encode<'a>(bodies: impl ExactSizeIterator<Item = &'a str>) -> Bytes {
    let mut out = Vec::new();
    put_varint(&mut out, bodies.len() as u64);
    for body in bodies {
        put_bytes(&mut out, body.as_bytes());
    }
    seal(Kind::Segment, &out)
}

/// Reads what `encode` wrote: `count` bodies, which the segment's name says.
///
/// # Errors
/// `Malformed`.
pub(super) fn decode(key: &str, bytes: &Bytes, count: usize) -> Result<Vec<String>> {
    open(key, Kind::Segment, bytes, |reader| {
        let known = reader.count()?;
        if known != count || SEGMENT_MESSAGES_MAX < known {
            return Err(DecodeError::new("another count than in its name"));
        }
        let mut bodies = Vec::with_capacity(known);
        for _ in 0..known {
            let body = String::from_utf8(reader.bytes()?.to_vec());
            bodies.push(body.map_err(|_| DecodeError::new("a body that is no text"))?);
        }
        Ok(bodies)
    })
}
