//! What a request comes to that succeeds.

use bytes::Bytes;

use crate::s3::error::Error;
use crate::s3::rows::{Block, Checksum, GarbageId, Object, Part, Upload, Version, VersionId};
use crate::s3::settings::{Setting, Settings};
use crate::steps::Step;

/// A reply.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// It is done.
    Done,
    /// A bucket.
    Bucket(Box<Settings>),
    /// Buckets.
    Buckets(Buckets),
    /// A setting.
    Setting(Setting),
    /// An object was committed.
    Put(Put),
    /// An object.
    Object(Box<Found>),
    /// An object was deleted.
    Deleted(Deleted),
    /// Several were, in the order of the request.
    DeletedSeveral(Vec<Result<Deleted, Error>>),
    /// An upload is open.
    Upload(u128),
    /// A part was committed: its ETag.
    Part(String),
    /// Parts of an upload.
    Parts(Box<Parts>),
    /// A page of a list.
    Page(Page),
    /// What a fence came to.
    Fenced(Fenced),
    /// Garbage, in order.
    Garbage(Vec<Garbage>),
    /// A bucket was deleted, and this step frees its name.
    Ended(Box<Step>),
}

/// A page of buckets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Buckets {
    /// Their names, and what is set on them. Of those on other chains that is the region and when
    /// they were created.
    pub buckets: Vec<(String, Option<Settings>)>,
    /// The name after which the next page begins.
    pub next: Option<String>,
}

/// An object was committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Put {
    /// Its version, where versions are kept or were.
    pub version: Option<VersionId>,
    /// Without quotes.
    pub etag: String,
    /// Its checksum.
    pub checksum: Option<Checksum>,
    /// When a rule of the lifecycle will end it.
    pub expiry: Option<Expiry>,
}

/// When a rule of the lifecycle ends a current version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expiry {
    /// From when on, in milliseconds since 1970.
    pub at_ms: u64,
    /// The rule's name.
    pub rule: String,
}

/// An object that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// Its version.
    pub version: Version,
    /// Whether versions are kept or were: then a reply names the version.
    pub is_versioned: bool,
    /// The bytes that were asked for.
    pub extent: Pieces,
    /// When a rule of the lifecycle will end it, if it is current.
    pub expiry: Option<Expiry>,
}

impl Found {
    /// The object.
    pub fn object(&self) -> Option<&Object> {
        self.version.object()
    }
}

/// Bytes of an object, or where they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pieces {
    /// Of the part that was asked for, where it begins in the object, and its bytes.
    pub part: Option<(u64, u64)>,
    /// Of that part, its checksum.
    pub sum: Option<Checksum>,
    /// Parts of a multipart upload, by number.
    pub parts: Vec<(u32, Part)>,
    /// The number after which the next page of them begins.
    pub next_part: Option<u32>,
    /// Where the first piece begins in the object.
    pub at: u64,
    /// The pieces, in order.
    pub pieces: Vec<Piece>,
    /// Where in the object the first byte is that is not named; none at the end.
    pub next: Option<u64>,
}

/// A piece of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Bytes.
    Inline(Bytes),
    /// A block.
    Block(Block),
}

impl Piece {
    /// Its bytes.
    pub fn size(&self) -> u64 {
        match self {
            Piece::Inline(bytes) => bytes.len() as u64,
            Piece::Block(block) => u64::from(block.size),
        }
    }
}

/// An object was deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deleted {
    /// The version that was deleted, or the delete marker that was made.
    pub version: Option<VersionId>,
    /// Whether that is a delete marker.
    pub is_marker: bool,
}

/// A page of parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts {
    /// Their upload.
    pub upload: Upload,
    /// Their numbers, and what they are.
    pub parts: Vec<(u32, Part)>,
    /// The number after which the next page begins.
    pub next: Option<u32>,
}

/// A page of objects, versions or uploads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// In order.
    pub entries: Vec<Entry>,
    /// The bucket's owner.
    pub owner: String,
    /// Where the next page begins: `after` and `after_id` of its request.
    pub next: Option<(String, Option<String>)>,
}

/// An entry of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A common prefix.
    Prefix(String),
    /// A version of a key: in a list of objects the current one.
    Version {
        /// The key.
        key: String,
        /// The version.
        version: Version,
        /// Whether it is the newest of its key.
        is_latest: bool,
    },
    /// An open upload.
    Upload {
        /// The key.
        key: String,
        /// The upload's id.
        id: u128,
        /// What it is.
        upload: Upload,
    },
}

impl Entry {
    /// The key, or the common prefix.
    pub fn name(&self) -> &str {
        match self {
            Entry::Prefix(name) => name,
            Entry::Version { key, .. } | Entry::Upload { key, .. } => key,
        }
    }
}

/// What a fence came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fenced {
    /// The block is garbage: its lease stays, and it is asked again.
    NoAnswer,
    /// A version or a part names the block: its lease ends.
    Kept,
    /// The attempt never commits: the row of the block may go.
    Fenced,
}

/// Blocks that are to be removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Garbage {
    /// What it is.
    pub id: GarbageId,
    /// The blocks; of an upload those of some of its parts, by number.
    pub blocks: Vec<(Option<u32>, Vec<Block>)>,
}
