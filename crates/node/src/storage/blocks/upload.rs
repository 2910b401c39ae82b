//! A block whose bytes are arriving.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use super::block::{BLOCK_BYTES_MAX, Block, BlockBytes, Origin, PutError};
use super::budget::Budget;
use super::format::block_size;
use super::sums::{piece_sums, whole_sum};

/// A block whose bytes are arriving. Its memory is taken from the budget until it is dropped or
/// held.
pub struct Upload {
    block: Block,
    origin: Origin,
    /// What has come of the block.
    parts: Vec<Bytes>,
    came: u64,
    /// The sums of its pieces, where they were computed of these bytes.
    sums: Option<Vec<u32>>,
    /// None where the caller has taken it.
    _memory: Option<Memory>,
}

impl fmt::Debug for Upload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upload")
            .field("block", &self.block)
            .field("came", &self.came)
            .finish()
    }
}

/// A whole block, compared with what was told of it.
pub(super) struct Gathered {
    pub(super) block: Block,
    pub(super) origin: Origin,
    pub(super) sums: Vec<u32>,
    pub(super) parts: Vec<Bytes>,
    _memory: Option<Memory>,
}

struct Memory {
    budget: Arc<Mutex<Budget>>,
    bytes: u64,
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.budget.lock().give(self.bytes);
    }
}

impl Upload {
    pub(super) fn begin(block: Block, budget: &Arc<Mutex<Budget>>) -> Result<Upload, PutError> {
        if !(1..=BLOCK_BYTES_MAX).contains(&block.size) {
            return Err(PutError::Size(block.size));
        }
        let bytes = u64::from(block_size(block.size));
        if !budget.lock().take(bytes) {
            return Err(PutError::Memory);
        }
        let memory = Memory {
            budget: budget.clone(),
            bytes,
        };
        Ok(Upload {
            block,
            origin: Origin::Client,
            parts: Vec::new(),
            came: 0,
            sums: None,
            _memory: Some(memory),
        })
    }

    /// A block of bytes that are all there, which are not copied. Their memory is the caller's.
    pub(super) fn of(bytes: BlockBytes, origin: Origin) -> Result<Upload, PutError> {
        let BlockBytes { block, parts, sums } = bytes;
        if !(1..=BLOCK_BYTES_MAX).contains(&block.size) {
            return Err(PutError::Size(block.size));
        }
        Ok(Upload {
            block,
            origin,
            parts,
            came: u64::from(block.size),
            sums: Some(sums),
            _memory: None,
        })
    }

    /// The block that it is of.
    #[must_use]
    pub fn block(&self) -> Block {
        self.block
    }

    /// Where its bytes come from.
    pub(super) fn origin(&self) -> Origin {
        self.origin
    }

    /// Takes the bytes that follow.
    ///
    /// # Errors
    /// [`PutError::Length`] when more come than were told; none of these are taken.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), PutError> {
        self.sums = None;
        let came = self.came + bytes.len() as u64;
        if u64::from(self.block.size) < came {
            return Err(self.length(came));
        }
        self.came = came;
        self.parts.push(Bytes::copy_from_slice(bytes));
        Ok(())
    }

    fn length(&self, came: u64) -> PutError {
        PutError::Length {
            came,
            told: self.block.size,
        }
    }

    pub(super) fn finish(self) -> Result<Gathered, PutError> {
        if self.came != u64::from(self.block.size) {
            return Err(self.length(self.came));
        }
        let sums = match self.sums {
            Some(sums) => sums,
            None => {
                let sums = piece_sums(&self.parts);
                if whole_sum(&sums, self.block.size) != self.block.sum {
                    return Err(PutError::Sum(self.block.id));
                }
                sums
            }
        };
        Ok(Gathered {
            block: self.block,
            origin: self.origin,
            sums,
            parts: self.parts,
            _memory: self._memory,
        })
    }
}
