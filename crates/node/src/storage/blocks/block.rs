//! A block, and why it could not be written or read.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use fader_services::{ErrorCode, Reason};

use super::sums::{piece_sums, sum, whole_sum};
use crate::storage::disk::is_full;

/// The most bytes of a block.
pub const BLOCK_BYTES_MAX: u32 = 4 << 20;

/// A block's name: random, and never used again for other bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId(pub u128);

impl fmt::Display for BlockId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for BlockId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BlockId({self})")
    }
}

/// What is known of a block before its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its name.
    pub id: BlockId,
    /// Bytes, from 1 to [`BLOCK_BYTES_MAX`].
    pub size: u32,
    /// CRC-32C of all its bytes.
    pub sum: u32,
}

impl Block {
    /// The block of these bytes, of which there are at most [`BLOCK_BYTES_MAX`].
    #[must_use]
    pub fn of(id: BlockId, bytes: &[u8]) -> Block {
        Block {
            id,
            size: bytes.len() as u32,
            sum: sum(&[bytes]),
        }
    }
}

/// All bytes of a block, in parts, and the checksums that were computed of these very bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockBytes {
    pub(super) block: Block,
    pub(super) parts: Vec<Bytes>,
    /// Of each piece.
    pub(super) sums: Vec<u32>,
}

impl BlockBytes {
    /// Computes the checksums of bytes, of which there are at most [`BLOCK_BYTES_MAX`].
    #[must_use]
    pub fn of(id: BlockId, parts: Vec<Bytes>) -> BlockBytes {
        let size: usize = parts.iter().map(Bytes::len).sum();
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        let sums = piece_sums(&parts);
        let sum = whole_sum(&sums, size);
        let block = Block { id, size, sum };
        BlockBytes { block, parts, sums }
    }

    /// The block that they are.
    #[must_use]
    pub fn block(&self) -> Block {
        self.block
    }

    /// The bytes.
    #[must_use]
    pub fn parts(&self) -> &[Bytes] {
        &self.parts
    }
}

/// Where the bytes of a block come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Of a client: they leave the whole reserve free.
    Client,
    /// Of another member, which has them: they leave three quarters of the reserve free (BSTORE-7).
    Member,
}

/// Bytes of a file that are not as they were written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} is damaged at offset {offset}: {what}", path.display())]
pub struct Damage {
    /// The file.
    pub path: PathBuf,
    /// Where in it, in bytes.
    pub offset: u64,
    /// What is wrong there.
    pub what: String,
}

/// Why a block was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PutError {
    /// The size is zero or above [`BLOCK_BYTES_MAX`].
    #[error("a block of {0} bytes: it has from 1 to {BLOCK_BYTES_MAX}")]
    Size(u32),
    /// More or fewer bytes came than were told.
    #[error("{came} bytes of a block came, {told} were told")]
    Length {
        /// Bytes that came.
        came: u64,
        /// Bytes that were told.
        told: u32,
    },
    /// The bytes are not those that were told.
    #[error("the bytes of block {0} do not match its checksum")]
    Sum(BlockId),
    /// Other bytes are held under that id.
    #[error("other bytes are held as block {0}")]
    Differs(BlockId),
    /// Uploads have all the memory that they may have. Try again when one has ended.
    #[error("uploads have all the memory that they may have")]
    Memory,
    /// The disk has no more than its reserve. Nothing was kept.
    #[error("the disk has no room for blocks")]
    Full,
    /// The disk failed. The block is not held; it may be put again, into another segment.
    #[error(transparent)]
    Disk(DiskError),
    /// The store could not be opened.
    #[error("{words}")]
    Unopened {
        /// Which failure.
        code: ErrorCode,
        /// What happened, and where.
        words: String,
    },
    /// The thread that wrote the block ended before it was durable.
    #[error("the write of a block ended early")]
    Interrupted,
    /// The member that would hold it has ended.
    #[error("the member has ended")]
    Ended,
}

impl PutError {
    /// Which failure.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            PutError::Size(_)
            | PutError::Length { .. }
            | PutError::Sum(_)
            | PutError::Differs(_) => ErrorCode::CallInvalid,
            PutError::Memory => ErrorCode::Refused(Reason::BlockMemory),
            PutError::Full => ErrorCode::Refused(Reason::BlocksFull),
            PutError::Disk(_) | PutError::Interrupted => ErrorCode::Refused(Reason::Store),
            PutError::Unopened { code, .. } => *code,
            PutError::Ended => ErrorCode::Refused(Reason::NoMember),
        }
    }
}

/// Why bytes of a block were not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// No block has that id.
    #[error("block {0} is not held")]
    Absent(BlockId),
    /// The range ends behind the block, or before it begins.
    #[error("block {id} has no bytes {start} to {end}")]
    Range {
        /// The block.
        id: BlockId,
        /// The first byte that was asked for.
        start: u32,
        /// The one behind the last.
        end: u32,
    },
    /// The bytes are damaged here. Another copy must be asked.
    #[error(transparent)]
    Damaged(#[from] Damage),
    /// The file could not be opened.
    #[error(transparent)]
    Disk(DiskError),
}

/// Damage that was found in the background.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bad {
    /// The block that has it: its bytes must come from another copy. `None` where a segment's
    /// header or list has it, which the next [`reclaim`](super::Blocks::reclaim) mends.
    pub block: Option<Block>,
    /// Where it is.
    pub damage: Damage,
}

/// What the operating system said, and of which file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{context}: {words}")]
pub struct DiskError {
    context: String,
    kind: io::ErrorKind,
    words: String,
}

impl DiskError {
    pub(super) fn new(doing: &str, path: &Path, source: &io::Error) -> DiskError {
        DiskError {
            context: format!("{doing} {}", path.display()),
            kind: source.kind(),
            words: source.to_string(),
        }
    }

    /// Whether there is no room, which may end by itself.
    #[must_use]
    pub fn is_full(&self) -> bool {
        is_full(self.kind)
    }
}

impl From<DiskError> for PutError {
    fn from(error: DiskError) -> PutError {
        match error.is_full() {
            true => PutError::Full,
            false => PutError::Disk(error),
        }
    }
}
