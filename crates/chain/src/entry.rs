//! A log entry: one decision of the head, as every member stores, sends and applies it.
//!
//! ```text
//! entry   := version:u8=1  id  prev:id  stamp  request  result:bytes  count:varint  change*
//! id      := epoch:varint index:varint
//! request := 0 | 1 client:u128be seq:varint
//! ```
//!
//! Invariants:
//! - N1 `prev` names the entry before, so that two logs that agree on an id agree on all before it.
//! - N2 an index is one more than its predecessor's; the epoch never falls.

use bytes::Bytes;

use crate::change::Change;
use crate::codec::{DecodeError, Reader, put_bytes, put_varint};
use crate::stamp::{EntryId, Stamp};

const VERSION: u8 = 1;

/// The name a client gave its request, so that a retry takes effect at most once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestId {
    /// The client.
    pub client: u128,
    /// The request's number at that client.
    pub seq: u64,
}

/// One entry of a chain's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub id: EntryId,
    /// The entry before; [`EntryId::ZERO`] for the first.
    pub prev: EntryId,
    /// The stamp under which its changes are applied.
    pub stamp: Stamp,
    /// The request that caused it, where the client named it.
    pub request: Option<RequestId>,
    /// The reply kept for a retry; empty where the request has no name.
    pub result: Bytes,
    /// What it changes, in order.
    pub changes: Vec<Change>,
}

impl Entry {
    /// Appends the encoding of the entry.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(VERSION);
        for id in [self.id, self.prev] {
            put_varint(out, id.epoch);
            put_varint(out, id.index);
        }
        self.stamp.encode(out);
        match self.request {
            None => out.push(0),
            Some(request) => {
                out.push(1);
                out.extend_from_slice(&request.client.to_be_bytes());
                put_varint(out, request.seq);
            }
        }
        put_bytes(out, &self.result);
        put_varint(out, self.changes.len() as u64);
        self.changes.iter().for_each(|change| change.encode(out));
    }

    /// Reads what `encode` wrote, to the last byte; byte strings share the memory of `bytes`.
    ///
    /// # Errors
    /// [`DecodeError`] when the bytes are no entry of a version we know.
    pub fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        if reader.byte()? != VERSION {
            return Err(DecodeError::new("an entry's version"));
        }
        let id = decode_id(&mut reader)?;
        let prev = decode_id(&mut reader)?;
        if prev.index.checked_add(1) != Some(id.index) || id.epoch < prev.epoch {
            return Err(DecodeError::new("an entry's id"));
        }
        let stamp = Stamp::decode(&mut reader)?;
        let request = decode_request(&mut reader)?;
        let result = reader.bytes()?;
        let count = reader.count()?;
        let changes = (0..count)
            .map(|_| Change::decode(&mut reader))
            .collect::<Result<_, _>>()?;
        reader.end()?;
        Ok(Entry {
            id,
            prev,
            stamp,
            request,
            result,
            changes,
        })
    }
}

fn decode_id(reader: &mut Reader) -> Result<EntryId, DecodeError> {
    Ok(EntryId::new(reader.varint()?, reader.varint()?))
}

fn decode_request(reader: &mut Reader) -> Result<Option<RequestId>, DecodeError> {
    match reader.byte()? {
        0 => Ok(None),
        1 => {
            let mut client = 0_u128;
            for _ in 0..16 {
                client = client << 8 | u128::from(reader.byte()?);
            }
            Ok(Some(RequestId {
                client,
                seq: reader.varint()?,
            }))
        }
        _ => Err(DecodeError::new("an entry's request")),
    }
}

#[cfg(test)]
mod tests;
