//! The files of segments, and what is read from one: header, list, a block's header and pieces.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::block::{Block, Damage};
use super::buffers::Buffers;
use super::format::{
    HEAD_BYTES, HEADER_BYTES, Head, Header, Listed, SegmentId, TRAILER_BYTES, Trailer, decode_list,
    decode_trailer, head_size,
};
use super::sums::{PIECE_BYTES, sum};
use crate::storage::disk::File;

/// The file of a segment.
pub(super) fn path(folder: &Path, sequence: u64) -> PathBuf {
    folder.join(format!("{sequence:016x}.blocks"))
}

/// The segment whose file has that name.
pub(super) fn sequence(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".blocks")?;
    let is_hex = digits.len() == 16 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_hex
        .then(|| u64::from_str_radix(digits, 16).ok())
        .flatten()
}

/// An open file of a segment.
pub(super) struct Reading<'a> {
    pub(super) file: &'a dyn File,
    pub(super) path: &'a Path,
    /// Whether only bytes that are in memory are read. Others are errors.
    pub(super) is_cached: bool,
}

impl<'a> Reading<'a> {
    /// All of it is read, of the disk where it is not in memory.
    pub(super) fn new(file: &'a dyn File, path: &'a Path) -> Reading<'a> {
        Reading {
            file,
            path,
            is_cached: false,
        }
    }

    fn damage(&self, offset: u64, what: impl Into<String>) -> Damage {
        Damage {
            path: self.path.to_owned(),
            offset,
            what: what.into(),
        }
    }

    fn fill(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        match self.is_cached {
            false => self.file.read_exact_at(offset, buffer),
            true if self.file.read_cached_at(offset, buffer) => Ok(()),
            true => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// A part of the file that should be there.
    fn bytes(&self, offset: u64, size: usize) -> Result<Vec<u8>, Damage> {
        let mut bytes = vec![0; size];
        match self.fill(offset, &mut bytes) {
            Ok(()) => Ok(bytes),
            Err(error) => Err(self.unreadable(offset, &error)),
        }
    }

    fn unreadable(&self, offset: u64, error: &io::Error) -> Damage {
        self.damage(offset, format!("it cannot be read: {error}"))
    }

    /// The segment's header.
    pub(super) fn header(&self) -> Result<Header, Damage> {
        let bytes = self.bytes(0, HEADER_BYTES as usize)?;
        Header::decode(&bytes).map_err(|what| self.damage(0, what))
    }

    /// The list at the end of a file of `size` bytes, if it is whole.
    pub(super) fn list(&self, size: u64) -> Option<(Trailer, Vec<Listed>)> {
        let at = size.checked_sub(u64::from(TRAILER_BYTES))?;
        let trailer = self.bytes(at, TRAILER_BYTES as usize).ok()?;
        let trailer = decode_trailer(&trailer, size)?;
        let rest = usize::try_from(size - u64::from(trailer.offset)).ok()?;
        let list = self.bytes(u64::from(trailer.offset), rest).ok()?;
        Some((trailer, decode_list(trailer, &list)?))
    }

    /// Whether the list that begins at `offset` is as it was written.
    pub(super) fn check_list(&self, segment: SegmentId, offset: u32) -> Result<(), Damage> {
        let size = self.file.size().unwrap_or(0);
        match self.list(size) {
            Some((trailer, _)) if (trailer.id, trailer.offset) == (segment, offset) => Ok(()),
            _ => Err(self.damage(u64::from(offset), "the list of its blocks does not match")),
        }
    }

    /// The header of the block that begins at `offset`, if there is a whole one.
    pub(super) fn any_head(&self, segment: SegmentId, offset: u32, end: u64) -> Option<Head> {
        let at = u64::from(offset);
        if end < at + u64::from(HEAD_BYTES) {
            return None;
        }
        let size = Head::claimed_size(&self.bytes(at, HEAD_BYTES as usize).ok()?)?;
        let head = self.bytes(at, head_size(size) as usize).ok()?;
        Head::decode(segment, offset, &head)
    }

    /// The header of a block that should be at `offset`.
    pub(super) fn head(
        &self,
        segment: SegmentId,
        offset: u32,
        block: &Block,
    ) -> Result<Head, Damage> {
        let at = u64::from(offset);
        let bytes = self.bytes(at, head_size(block.size) as usize)?;
        match Head::decode(segment, offset, &bytes) {
            Some(head) if head.block() == *block => Ok(head),
            _ => Err(self.damage(
                at,
                format!("the header of block {} does not match", block.id),
            )),
        }
    }

    /// The bytes of whole pieces that have the range, and where they begin in the block; each
    /// compared with its checksum.
    pub(super) fn pieces(
        &self,
        head: &Head,
        offset: u32,
        range: &Range<u32>,
        buffers: &Buffers,
    ) -> Result<(u32, Bytes), Damage> {
        let first = range.start / PIECE_BYTES;
        let start = first * PIECE_BYTES;
        let end = range.end.next_multiple_of(PIECE_BYTES).min(head.size);
        let at = u64::from(offset) + u64::from(head_size(head.size)) + u64::from(start);
        let read = buffers.read((end - start) as usize, |bytes| self.fill(at, bytes));
        let bytes = read.map_err(|error| self.unreadable(at, &error))?;
        let pieces = bytes.chunks(PIECE_BYTES as usize).enumerate();
        for (number, piece) in pieces {
            if Some(&sum(&[piece])) != head.sums.get(first as usize + number) {
                let at = at + number as u64 * u64::from(PIECE_BYTES);
                return Err(self.damage(at, format!("a piece of block {} does not match", head.id)));
            }
        }
        Ok((start, bytes))
    }

    /// Whether there is nothing but zeros from `offset` on.
    pub(super) fn is_blank(&self, offset: u64, size: u64) -> io::Result<bool> {
        let mut at = offset;
        let mut bytes = vec![0; PIECE_BYTES as usize];
        while at < size {
            let part = (size - at).min(u64::from(PIECE_BYTES)) as usize;
            self.file.read_exact_at(at, &mut bytes[..part])?;
            if bytes[..part].iter().any(|byte| *byte != 0) {
                return Ok(false);
            }
            at += part as u64;
        }
        Ok(true)
    }
}
