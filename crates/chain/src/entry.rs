//! A log entry: one decision of the head, as every member stores, sends and applies it.
//!
//! ```text
//! entry   := format:u8=2  id  prev:id  safe point:id  stamp  request
//!            result:bytes  count:varint  change*
//! id      := epoch:varint index:varint
//! request := 0 | 1 name
//! name    := client:u128be seq:varint part:varint [owner:varint]
//! ```
//!
//! An owner is there where `part` is 2^32 or more, by which it is then too great. It came with
//! version 4 of a cluster: what was written before has none.
//!
//! Format 1 has neither `safe point` nor `part`, and its merges drop their marks: it was written by
//! chains that had strong collections only.
//!
//! Invariants:
//! - ENTRY-1 `prev` names the entry before, so that two logs that agree on an id agree on all
//!   before it.
//! - ENTRY-2 an index is one more than its predecessor's; the epoch never falls.
//! - ENTRY-3 `safe point` is below `id`: only what every member has applied is collected.

use bytes::Bytes;

use crate::change::{ApplyContext, Change};
use crate::codec::{DecodeError, Reader, put_bytes, put_varint};
use crate::stamp::{EntryId, Stamp};

const FORMAT: u8 = 2;
const FORMAT_WITHOUT_FLOOR: u8 = 1;

/// What is added to `part` where an owner follows.
const OWNED: u64 = 1 << 32;

/// A client of an account. Its id is of its own choice, so it says nothing beside its owner's: two
/// accounts that choose one id are two clients (XO-7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Client {
    /// The account, as a number that the shell gives it. 0 has no owner: it is of a member itself,
    /// and of all that was named before version 4.
    pub owner: u64,
    /// Which client of it.
    pub id: u128,
}

impl From<u128> for Client {
    /// A client without an owner.
    fn from(id: u128) -> Self {
        Client { owner: 0, id }
    }
}

/// The name of an operation, so that a retry takes effect at most once (XO-1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId {
    /// The client.
    pub client: Client,
    /// The request's number at that client.
    pub seq: u64,
    /// Which item of an eventual batch it is; otherwise 0 (D19).
    pub part: u32,
}

impl RequestId {
    /// The same of a client of this account.
    #[must_use]
    pub fn owned_by(self, owner: u64) -> Self {
        let client = Client {
            owner,
            ..self.client
        };
        RequestId { client, ..self }
    }

    /// Appends the encoding of the name.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let Client { owner, id } = self.client;
        out.extend_from_slice(&id.to_be_bytes());
        put_varint(out, self.seq);
        match owner {
            0 => put_varint(out, u64::from(self.part)),
            owner => {
                put_varint(out, u64::from(self.part) | OWNED);
                put_varint(out, owner);
            }
        }
    }

    /// Reads what `encode` wrote.
    ///
    /// # Errors
    /// [`DecodeError`] when the bytes are no name.
    pub fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        let (id, seq) = (reader.u128()?, reader.varint()?);
        let wrong = || DecodeError::new("a request's name");
        let (part, owner) = match reader.varint()? {
            owned if owned & OWNED != 0 => {
                let owner = reader.varint()?;
                let owner = (owner != 0).then_some(owner).ok_or_else(wrong)?;
                (owned ^ OWNED, owner)
            }
            part => (part, 0),
        };
        Ok(RequestId {
            client: Client { owner, id },
            seq,
            part: u32::try_from(part).map_err(|_| wrong())?,
        })
    }
}

/// One entry of a chain's log.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// Its name.
    pub id: EntryId,
    /// The entry before; [`EntryId::ZERO`] for the first.
    pub prev: EntryId,
    /// The GC safe point of the epoch that numbered it. A member that applies the entry, in any
    /// epoch, drops the same tombstones (D7).
    pub safe_point: EntryId,
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
    /// Whether it settles an eventual operation, under that operation's stamp (D2).
    pub fn is_settlement(&self) -> bool {
        !self.stamp.is_strong()
    }

    /// What its changes are applied under.
    pub fn under(&self) -> ApplyContext {
        ApplyContext {
            id: self.id,
            stamp: self.stamp,
            safe_point: self.safe_point,
        }
    }

    /// The bytes of the keys, values and names in it.
    pub(crate) fn content_bytes(&self) -> usize {
        let changes = self.changes.iter().map(Change::content_bytes);
        self.result.len() + changes.sum::<usize>()
    }

    /// Appends the encoding of the entry.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(FORMAT);
        for id in [self.id, self.prev, self.safe_point] {
            id.encode(out);
        }
        self.stamp.encode(out);
        match self.request {
            None => out.push(0),
            Some(request) => {
                out.push(1);
                request.encode(out);
            }
        }
        put_bytes(out, &self.result);
        put_varint(out, self.changes.len() as u64);
        self.changes.iter().for_each(|change| change.encode(out));
    }

    /// Reads what `encode` wrote, to the last byte; byte strings share the memory of `bytes`.
    ///
    /// # Errors
    /// [`DecodeError`] when the bytes are no entry of a format we know.
    pub fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let has_floor = match reader.byte()? {
            FORMAT => true,
            FORMAT_WITHOUT_FLOOR => false,
            _ => return Err(DecodeError::new("an entry's format")),
        };
        let id = EntryId::decode(&mut reader)?;
        let prev = EntryId::decode(&mut reader)?;
        if prev.index.checked_add(1) != Some(id.index) || id.epoch < prev.epoch {
            return Err(DecodeError::new("an entry's id"));
        }
        let safe_point = match has_floor {
            true => EntryId::decode(&mut reader)?,
            false => EntryId::ZERO,
        };
        if id <= safe_point {
            return Err(DecodeError::new("an entry's safe point"));
        }
        let stamp = Stamp::decode(&mut reader)?;
        let request = decode_request(&mut reader, has_floor)?;
        let result = reader.bytes()?;
        let count = reader.count()?;
        let changes = (0..count)
            .map(|_| Change::decode(&mut reader))
            .collect::<Result<_, _>>()?;
        reader.end()?;
        Ok(Entry {
            id,
            prev,
            safe_point,
            stamp,
            request,
            result,
            changes,
        })
    }
}

fn decode_request(reader: &mut Reader, has_part: bool) -> Result<Option<RequestId>, DecodeError> {
    match reader.byte()? {
        0 => Ok(None),
        1 if has_part => RequestId::decode(reader).map(Some),
        1 => Ok(Some(RequestId {
            client: reader.u128()?.into(),
            seq: reader.varint()?,
            part: 0,
        })),
        _ => Err(DecodeError::new("an entry's request")),
    }
}

#[cfg(test)]
mod tests;
