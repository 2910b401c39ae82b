//! The rows of a bucket: versions, their contents, uploads and parts.

use std::fmt;
use std::str::FromStr;

use bytes::Bytes;
use fader_chain::{ChainId, DecodeError, EntryId, Reader};

use crate::forward::wire::Wire;
use crate::s3::acl::Acl;
use crate::sqs::{wire_choice, wire_fields};

/// Names and values, in order.
pub type Pairs = Vec<(String, String)>;

/// The random id of a bucket. A bucket that is deleted and created again has another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BucketId(pub u128);

impl Wire for BucketId {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        Wire::read(reader).map(BucketId)
    }
}

/// One attempt to store the bytes of an object or of a part: random, and new for each repetition.
/// All its blocks name it, with the same `begun`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Attempt {
    /// Its random id.
    pub id: u128,
    /// The bucket that it is for.
    pub bucket: BucketId,
    /// The newest commit of the bucket's chain that its node knew when it began.
    pub begun: EntryId,
}
wire_fields!(Attempt { id, bucket, begun });

/// A block of bytes, on a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Block {
    /// Its random id.
    pub id: u128,
    /// The chain that has it.
    pub chain: ChainId,
    /// Its bytes.
    pub size: u32,
}
wire_fields!(Block { id, chain, size });

/// Where the bytes of an attempt are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Here.
    Inline(Bytes),
    /// In these blocks, in order.
    Blocks(Vec<Block>),
}
wire_choice!(Content, "the content of an object", { 0 => Inline(it), 1 => Blocks(it) });

impl Content {
    /// Its bytes.
    pub fn size(&self) -> u64 {
        match self {
            Content::Inline(bytes) => bytes.len() as u64,
            Content::Blocks(blocks) => blocks.iter().map(|block| u64::from(block.size)).sum(),
        }
    }

    /// Whether it is in this block, among others.
    pub(crate) fn names(&self, block: u128) -> bool {
        match self {
            Content::Inline(_) => false,
            Content::Blocks(blocks) => blocks.iter().any(|it| it.id == block),
        }
    }
}

/// What a version's bytes are found by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The content of an attempt, in the index.
    Inline(u128),
    /// The blocks of an attempt.
    Blocks(u128),
    /// The parts of an upload.
    Upload(u128),
}
wire_choice!(Source, "the source of a version", {
    0 => Inline(it), 1 => Blocks(it), 2 => Upload(it),
});

impl Source {
    pub(crate) fn of(attempt: u128, content: &Content) -> Source {
        match content {
            Content::Inline(_) => Source::Inline(attempt),
            Content::Blocks(_) => Source::Blocks(attempt),
        }
    }
}

/// What garbage is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GarbageId {
    /// The blocks of an attempt.
    Attempt(u128),
    /// The parts of an upload.
    Upload(u128),
}

/// A checksum's algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are AWS's own")]
pub enum Algorithm {
    Crc32,
    Crc32c,
    Crc64Nvme,
    Sha1,
    Sha256,
}
wire_choice!(Algorithm, "a checksum's algorithm", {
    0 => Crc32, 1 => Crc32c, 2 => Crc64Nvme, 3 => Sha1, 4 => Sha256,
});

/// A checksum, as it was given and verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checksum {
    /// Its algorithm.
    pub algorithm: Algorithm,
    /// In base64; of a composite one with the number of parts.
    pub value: String,
    /// Whether it is that of the checksums of parts.
    pub is_composite: bool,
}
wire_fields!(Checksum {
    algorithm,
    value,
    is_composite,
});

/// What is stored beside the bytes of an object, as it was given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// Content-Type and other headers that reads return.
    pub headers: Pairs,
    /// `x-amz-meta-…`, without that beginning.
    pub user: Pairs,
    /// Tags.
    pub tags: Pairs,
}
wire_fields!(Metadata {
    headers,
    user,
    tags
});

/// An object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Its bytes.
    pub size: u64,
    /// Without quotes.
    pub etag: String,
    /// Its checksum.
    pub checksum: Option<Checksum>,
    /// What was given with it.
    pub metadata: Metadata,
    /// Its parts, of a multipart upload; else 0.
    pub parts: u32,
    pub(crate) source: Source,
    /// The account that owns it; empty: the bucket's. In replies it is the one that counts.
    pub owner: String,
    /// Its ACL; none if its owner has all, and others nothing.
    pub acl: Option<Acl>,
}
wire_fields!(Object {
    size,
    etag,
    checksum,
    metadata,
    parts,
    source,
    owner,
    acl,
});

/// The id of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum VersionId {
    /// That of versions that were made without versioning.
    Null,
    /// The version's number among those of its key, and a random one.
    Named((u64, u64)),
}
wire_choice!(VersionId, "the id of a version", { 0 => Null, 1 => Named(it) });

impl fmt::Display for VersionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            VersionId::Null => f.write_str("null"),
            VersionId::Named((number, random)) => write!(f, "{number:016x}{random:016x}"),
        }
    }
}

/// A text is no id of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Invalid version id specified")]
pub struct NoVersionId;

impl FromStr for VersionId {
    type Err = NoVersionId;

    fn from_str(text: &str) -> Result<Self, NoVersionId> {
        if text == "null" {
            return Ok(VersionId::Null);
        }
        let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if text.len() != 32 || !text.bytes().all(is_hex) {
            return Err(NoVersionId);
        }
        let (number, random) = text.split_at(16);
        let read = |half| u64::from_str_radix(half, 16).map_err(|_| NoVersionId);
        Ok(VersionId::Named((read(number)?, read(random)?)))
    }
}

/// What a version is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// An object.
    Object(Box<Object>),
    /// A delete marker.
    Marker,
}
wire_choice!(State, "the state of a version", { 0 => Object(it), 1 => Marker });

/// A version of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// Its number among those of its key: newer ones have greater ones.
    pub(crate) number: u64,
    /// Its id.
    pub id: VersionId,
    /// Milliseconds since 1970 when it was committed.
    pub modified_ms: u64,
    /// Since when it is not current, in milliseconds since 1970; 0 of a current one.
    pub noncurrent_ms: u64,
    /// What it is.
    pub state: State,
}
wire_fields!(Version {
    number,
    id,
    modified_ms,
    noncurrent_ms,
    state,
});

impl Version {
    /// The object that it is.
    pub fn object(&self) -> Option<&Object> {
        match &self.state {
            State::Object(object) => Some(object),
            State::Marker => None,
        }
    }
}

/// An open upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upload {
    /// Milliseconds since 1970 when it began.
    pub initiated_ms: u64,
    /// What its object gets.
    pub metadata: Metadata,
    /// The algorithm of its checksums, and whether that of the object is of the whole.
    pub algorithm: Option<(Algorithm, bool)>,
    /// Who opened it: an account, or a key with granted rights only by its ARN; empty: the bucket's
    /// owner. In replies it is named.
    pub initiator: String,
    /// The account that will own its object; empty: the bucket's owner.
    pub owner: String,
    /// The ACL of its object.
    pub acl: Option<Acl>,
}
wire_fields!(Upload {
    initiated_ms,
    metadata,
    algorithm,
    initiator,
    owner,
    acl,
});

/// What came of a completed upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CompletedUpload {
    pub(crate) key: String,
    pub(crate) version: VersionId,
    pub(crate) etag: String,
    pub(crate) checksum: Option<Checksum>,
    /// Of every 64th part: its number, and where its bytes begin.
    pub(crate) marks: Vec<(u32, u64)>,
}
wire_fields!(CompletedUpload {
    key,
    version,
    etag,
    checksum,
    marks,
});

/// A part of an upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub(crate) source: Source,
    /// Its bytes.
    pub size: u64,
    /// Without quotes.
    pub etag: String,
    /// Its checksum.
    pub checksum: Option<Checksum>,
    /// Milliseconds since 1970 when it was committed.
    pub modified_ms: u64,
}
wire_fields!(Part {
    source,
    size,
    etag,
    checksum,
    modified_ms,
});
