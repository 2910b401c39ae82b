//! A block whose bytes are arriving.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use super::block::{BLOCK_BYTES_MAX, Block, BlockId, PutError};
use super::budget::Budget;
use super::format::{block_size, head_size};
use super::sums::{piece_sums, whole_sum};

/// A block whose bytes are arriving. Its memory is taken from the budget until it is dropped or
/// held.
pub struct Upload {
    block: Block,
    /// Room for the header, then what has come of the block.
    buffer: Vec<u8>,
    /// The sums of its pieces, where they were computed of these bytes.
    sums: Option<Vec<u32>>,
    /// None where the caller has taken it.
    _memory: Option<Memory>,
}

impl fmt::Debug for Upload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let came = self.came();
        f.debug_struct("Upload")
            .field("block", &self.block)
            .field("came", &came)
            .finish()
    }
}

/// A whole block, compared with what was told of it.
pub(super) struct Gathered {
    pub(super) block: Block,
    pub(super) sums: Vec<u32>,
    /// Room for the header, then the block.
    pub(super) bytes: Vec<u8>,
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
        let mut buffer = Vec::with_capacity(block_size(block.size) as usize);
        buffer.resize(head_size(block.size) as usize, 0);
        Ok(Upload {
            block,
            buffer,
            sums: None,
            _memory: Some(memory),
        })
    }

    /// A block of bytes that are all there. Their memory is the caller's.
    pub(super) fn of(id: BlockId, parts: &[impl AsRef<[u8]>]) -> Result<Upload, PutError> {
        let size: usize = parts.iter().map(|part| part.as_ref().len()).sum();
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        if !(1..=BLOCK_BYTES_MAX).contains(&size) {
            return Err(PutError::Size(size));
        }
        let head = head_size(size) as usize;
        let mut buffer = Vec::with_capacity(block_size(size) as usize);
        buffer.resize(head, 0);
        parts
            .iter()
            .for_each(|part| buffer.extend_from_slice(part.as_ref()));
        let sums = piece_sums(&buffer[head..]);
        let sum = whole_sum(&sums, size);
        Ok(Upload {
            block: Block { id, size, sum },
            buffer,
            sums: Some(sums),
            _memory: None,
        })
    }

    fn came(&self) -> u64 {
        (self.buffer.len() - head_size(self.block.size) as usize) as u64
    }

    /// The block that it is of.
    #[must_use]
    pub fn block(&self) -> Block {
        self.block
    }

    /// Takes the bytes that follow.
    ///
    /// # Errors
    /// [`PutError::Length`] when more come than were told; none of these are taken.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), PutError> {
        self.sums = None;
        let came = self.came() + bytes.len() as u64;
        if u64::from(self.block.size) < came {
            return Err(self.length(came));
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    fn length(&self, came: u64) -> PutError {
        PutError::Length {
            came,
            told: self.block.size,
        }
    }

    pub(super) fn finish(self) -> Result<Gathered, PutError> {
        if self.came() != u64::from(self.block.size) {
            return Err(self.length(self.came()));
        }
        let sums = match self.sums {
            Some(sums) => sums,
            None => {
                let sums = piece_sums(&self.buffer[head_size(self.block.size) as usize..]);
                if whole_sum(&sums, self.block.size) != self.block.sum {
                    return Err(PutError::Sum(self.block.id));
                }
                sums
            }
        };
        Ok(Gathered {
            block: self.block,
            sums,
            bytes: self.buffer,
            _memory: self._memory,
        })
    }
}
