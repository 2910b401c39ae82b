//! An eventual operation: what a member stamped, and what waits in overlays until the head
//! settles it (docs/internals/protocol/chain.md, section 10).
//!
//! ```text
//! operation  := name  stamp  accept:id  [digest]  change    a merge: the register, the ops
//! settlement := [digest] outcome
//! digest     := 128:u8  u128be
//! ```
//!
//! A digest came with version 3 of a cluster: before, and where the client gave no name, there is
//! none. Its mark is the tag of no change and of no outcome.

use bytes::Bytes;

use crate::change::{Change, ElementOp, TombstonePolicy};
use crate::codec::{DecodeError, Reader};
use crate::entry::RequestId;
use crate::stamp::{EntryId, Stamp};

/// What tells a request from another one under the same name (XO-6): a hash of all that it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub u128);

/// What stands before a digest.
const DIGEST_MARK: u8 = 128;

impl Digest {
    /// Whether they are known to be of two requests.
    pub fn differ(one: Option<Digest>, other: Option<Digest>) -> bool {
        matches!((one, other), (Some(one), Some(other)) if one != other)
    }

    fn encode(digest: Option<Digest>, out: &mut Vec<u8>) {
        if let Some(Digest(digest)) = digest {
            out.push(DIGEST_MARK);
            out.extend_from_slice(&digest.to_be_bytes());
        }
    }

    fn decode(reader: &mut Reader) -> Result<Option<Digest>, DecodeError> {
        match reader.peek() {
            Some(DIGEST_MARK) => {
                reader.byte()?;
                Ok(Some(Digest(reader.u128()?)))
            }
            _ => Ok(None),
        }
    }
}

/// One eventual write of one register.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Operation {
    /// Its name: it is settled once by it (D2).
    pub name: RequestId,
    /// Its place in the order of all writes of the register.
    pub stamp: Stamp,
    /// The last entry in the log of the member that accepted it. It serves the filter of returning
    /// members (GC-5), and tells whether its collection has been drained since (MD-5).
    pub accept: EntryId,
    /// The digest of the request that it is of, where the client named it.
    pub digest: Option<Digest>,
    /// The register.
    pub key: Bytes,
    /// What it does, as far as no committed state covers it (PR-6).
    pub ops: Vec<ElementOp>,
}

impl Operation {
    /// Appends the encoding of the operation.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.name.encode(out);
        self.stamp.encode(out);
        self.accept.encode(out);
        Digest::encode(self.digest, out);
        let merge = Change::Merge {
            key: self.key.clone(),
            ops: self.ops.clone(),
            marks: TombstonePolicy::Dropped,
        };
        merge.encode(out);
    }

    /// Reads what `encode` wrote.
    ///
    /// # Errors
    /// [`DecodeError`] when the bytes are no operation.
    pub fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        let name = RequestId::decode(reader)?;
        let stamp = Stamp::decode(reader)?;
        let accept = EntryId::decode(reader)?;
        let digest = Digest::decode(reader)?;
        let Change::Merge { key, ops, .. } = Change::decode(reader)? else {
            return Err(DecodeError::new("an operation's change"));
        };
        Ok(Operation {
            name,
            stamp,
            accept,
            digest,
            key,
            ops,
        })
    }
}

/// What is kept of a settled operation under its name: the result of its entry.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Settlement {
    /// The digest of the request that the operation was of, where it has one.
    pub digest: Option<Digest>,
    /// How it ended.
    pub outcome: Outcome,
}

impl Settlement {
    /// The stored form.
    pub fn encode(&self) -> Bytes {
        let outcome = self.outcome.encode();
        match self.digest {
            None => outcome,
            digest => {
                let mut out = Vec::with_capacity(17 + outcome.len());
                Digest::encode(digest, &mut out);
                out.extend_from_slice(&outcome);
                out.into()
            }
        }
    }

    /// Reads what `encode` wrote.
    ///
    /// # Errors
    /// [`DecodeError`] when the bytes are no settlement.
    pub fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let digest = Digest::decode(&mut reader)?;
        let outcome = Outcome::decode(reader.rest())?;
        Ok(Settlement { digest, outcome })
    }

    /// How the operation of a request ended whose name this one is kept under. That of another
    /// request under its name takes its place, and it will never be settled.
    pub(crate) fn outcome_for(self, digest: Option<Digest>) -> Outcome {
        match Digest::differ(digest, self.digest) {
            true => Outcome::Superseded,
            false => self.outcome,
        }
    }
}

/// How an operation was settled (docs/internals/protocol/semantics.md, section 5).
///
/// ```text
/// outcome := 1 (applied) | 2 (superseded) | 3 (refused) reason | 4 (gone)
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// At least one element entered the chain.
    Applied,
    /// None did: all of them met greater stamps.
    Superseded,
    /// None did: the service forbade it, for this reason of its own.
    Refused(Bytes),
    /// None did: its collection has closed for eventual writers since it was accepted (MD-5).
    Gone,
}

const TAG_APPLIED: u8 = 1;
const TAG_SUPERSEDED: u8 = 2;
const TAG_REFUSED: u8 = 3;
const TAG_GONE: u8 = 4;

impl Outcome {
    /// The stored form.
    pub fn encode(&self) -> Bytes {
        match self {
            Outcome::Applied => Bytes::from_static(&[TAG_APPLIED]),
            Outcome::Superseded => Bytes::from_static(&[TAG_SUPERSEDED]),
            Outcome::Gone => Bytes::from_static(&[TAG_GONE]),
            Outcome::Refused(reason) => [&[TAG_REFUSED], &reason[..]].concat().into(),
        }
    }

    /// Reads what `encode` wrote.
    ///
    /// # Errors
    /// [`DecodeError`] when the bytes are no outcome.
    pub fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        match reader.byte()? {
            TAG_APPLIED => reader.end().map(|()| Outcome::Applied),
            TAG_SUPERSEDED => reader.end().map(|()| Outcome::Superseded),
            TAG_GONE => reader.end().map(|()| Outcome::Gone),
            TAG_REFUSED => Ok(Outcome::Refused(reader.rest())),
            _ => Err(DecodeError::new("an outcome's tag")),
        }
    }
}

#[cfg(test)]
mod tests;
