//! A block whose bytes are arriving.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use super::block::{BLOCK_BYTES_MAX, Block, PutError, piece_sums, whole_sum};
use super::budget::Budget;
use super::format::{block_size, head_size};

/// A block whose bytes are arriving. Its memory is taken from the budget until it is dropped or
/// held.
pub struct Upload {
    block: Block,
    /// Room for the header, then what has come of the block.
    buffer: Vec<u8>,
    _memory: Memory,
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
    _memory: Memory,
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
            _memory: memory,
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
        let sums = piece_sums(&self.buffer[head_size(self.block.size) as usize..]);
        if whole_sum(&sums, self.block.size) != self.block.sum {
            return Err(PutError::Sum(self.block.id));
        }
        Ok(Gathered {
            block: self.block,
            sums,
            bytes: self.buffer,
            _memory: self._memory,
        })
    }
}
