//! Writes past the operating system's cache: nothing is copied into it, nor looked for in it when
//! the file is synced.
//!
//! Such writes are of whole blocks, from memory that begins where a block may. What stands before
//! and behind the bytes in their first and last block is written again as it is. The cache does so
//! too, whose pages are as large: a power cut can do no more harm than to any other write.

use std::fs;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

/// Bytes of a block, as all disks of today take it.
const BLOCK: usize = 4 << 10;
/// The fewest bytes of a file that are known at a time.
const WINDOW: usize = 64 << 10;

/// Has writes to `file` go past the cache, or not.
pub(super) fn set_through(file: &fs::File, is_through: bool) -> io::Result<()> {
    let mut flags = fcntl_getfl(file)?;
    flags.set(OFlags::DIRECT, is_through);
    Ok(fcntl_setfl(file, flags)?)
}

/// A piece of a file, in memory that begins where a block may; whole blocks.
#[derive(Default)]
pub(super) struct AlignedBuffer {
    bytes: Vec<u8>,
    skip: usize,
    size: usize,
    /// Where in the file it begins.
    at: u64,
}

impl AlignedBuffer {
    /// Writes `bytes` at `offset`.
    pub(super) fn write_all_at(
        &mut self,
        file: &fs::File,
        offset: u64,
        bytes: &[u8],
    ) -> io::Result<()> {
        let written = self.write(file, offset, bytes);
        if written.is_err() {
            *self = AlignedBuffer::default();
        }
        written
    }

    fn write(&mut self, file: &fs::File, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let head = (offset % BLOCK as u64) as usize;
        let start = offset - head as u64;
        let size = (head + bytes.len()).next_multiple_of(BLOCK);
        let from = match self.place(start) {
            Some(from) if from + size <= self.size => from,
            _ => {
                self.move_to(file, start, size.max(WINDOW))?;
                0
            }
        };
        let blocks = &mut self.blocks()[from..][..size];
        blocks[head..][..bytes.len()].copy_from_slice(bytes);
        file.write_all_at(blocks, start)
    }

    /// Begins at `at`; what of it is known already is not read again.
    fn move_to(&mut self, file: &fs::File, at: u64, size: usize) -> io::Result<()> {
        let from = self.place(at).unwrap_or(self.size);
        let mut filled = (self.size - from).min(size);
        let known = self.skip + from..self.skip + from + filled;
        if self.bytes.len() < size + BLOCK {
            let mut bytes = vec![0; size + BLOCK];
            let skip = bytes.as_ptr().align_offset(BLOCK);
            bytes[skip..][..filled].copy_from_slice(&self.bytes[known]);
            (self.bytes, self.skip) = (bytes, skip);
        } else {
            self.bytes.copy_within(known, self.skip);
        }
        (self.at, self.size) = (at, size);
        while filled < size {
            let count = file.read_at(&mut self.blocks()[filled..], at + filled as u64)?;
            filled += count;
            if count % BLOCK != 0 || count == 0 {
                break;
            }
        }
        self.blocks()[filled..].fill(0);
        Ok(())
    }

    /// Where in the window the block at this place of the file is.
    fn place(&self, at: u64) -> Option<usize> {
        let from = at.checked_sub(self.at)?;
        (from < self.size as u64).then_some(from as usize)
    }

    fn blocks(&mut self) -> &mut [u8] {
        &mut self.bytes[self.skip..][..self.size]
    }
}

#[cfg(test)]
mod tests;
