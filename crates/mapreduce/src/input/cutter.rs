//! Cuts the bytes of a piece into whole records.
//!
//! A line belongs to the piece in which it begins. A piece that does not begin at 0 is read from
//! one byte before: the line under way there is another's. The last line is read past the end.
//!
//! Invariants:
//! - CUT-1 each record of an object is in the batches of exactly one of its pieces, whole.

use crate::failure::{Failure, Outcome};
use crate::input::Format;

/// How records end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ends {
    /// At line feeds.
    Lines,
    /// At line feeds outside quotes.
    Csv,
    /// With the object.
    Object,
}

/// Cuts one piece.
#[derive(Debug)]
pub(crate) struct Cutter {
    ends: Ends,
    /// Where in the object the next byte is.
    position: u64,
    end: u64,
    skips: bool,
    is_done: bool,
    /// The record under way, and where it begins.
    carry: Vec<u8>,
    carry_at: u64,
    is_quoted: bool,
    record_max: usize,
}

impl Cutter {
    /// A cutter of the bytes from `offset` to `end` of an object, whose records have so many
    /// bytes, at most.
    pub(crate) fn new(format: &Format, offset: u64, end: u64, record_max: usize) -> Self {
        let ends = match format {
            Format::Lines | Format::Json(_) => Ends::Lines,
            Format::Csv(_) => Ends::Csv,
            Format::Whole | Format::Parquet(_) => Ends::Object,
        };
        Cutter {
            ends,
            position: Cutter::first_byte(offset),
            end,
            skips: 0 < offset,
            is_done: false,
            carry: Vec::new(),
            carry_at: offset,
            is_quoted: false,
            record_max,
        }
    }

    /// Where the bytes are read from that a piece from `offset` on needs.
    pub(crate) fn first_byte(offset: u64) -> u64 {
        offset.saturating_sub(1)
    }

    /// Whether all its records were given.
    pub(crate) fn is_done(&self) -> bool {
        self.is_done
    }

    /// Gives the whole records in the next bytes to `take`, with their place.
    pub(crate) fn feed(
        &mut self,
        mut bytes: &[u8],
        mut take: impl FnMut(u64, &[u8]) -> Outcome<()>,
    ) -> Outcome<()> {
        if self.skips && !self.is_done {
            let end = memchr::memchr(b'\n', bytes);
            let skipped = end.map_or(bytes.len(), |end| end + 1);
            self.position += skipped as u64;
            bytes = &bytes[skipped..];
            self.skips = end.is_none();
            // The line under way at the piece's end is another's, too.
            self.is_done = self.end <= self.position;
        }
        if self.is_done || bytes.is_empty() {
            return Ok(());
        }
        let (first, last) = self.ends(bytes);
        let Some(last) = last else {
            return self.keep(bytes);
        };
        let mut begin = 0;
        if !self.carry.is_empty() {
            begin = first.unwrap_or(last);
            self.carry.extend_from_slice(&bytes[..begin]);
            let carry = std::mem::take(&mut self.carry);
            take(self.carry_at, &carry)?;
        }
        if begin < last {
            take(self.position + begin as u64, &bytes[begin..last])?;
        }
        self.position += last as u64;
        self.is_done |= self.end <= self.position;
        match self.is_done {
            true => Ok(()),
            false => self.keep(&bytes[last..]),
        }
    }

    /// Where the first and the last own record of the bytes end.
    fn ends(&mut self, bytes: &[u8]) -> (Option<usize>, Option<usize>) {
        match self.ends {
            Ends::Object => (None, None),
            Ends::Lines => {
                let from = (self.end - 1).saturating_sub(self.position);
                let from = usize::try_from(from).unwrap_or(usize::MAX);
                let past = bytes.get(from..);
                let past = past.and_then(|bytes| memchr::memchr(b'\n', bytes));
                let last = match past {
                    Some(at) => Some(from + at + 1),
                    None => memchr::memrchr(b'\n', bytes).map(|at| at + 1),
                };
                (memchr::memchr(b'\n', bytes).map(|at| at + 1), last)
            }
            Ends::Csv => {
                let (mut first, mut last) = (None, None);
                for at in memchr::memchr2_iter(b'\n', b'"', bytes) {
                    if bytes[at] == b'"' {
                        self.is_quoted = !self.is_quoted;
                    } else if !self.is_quoted {
                        first = first.or(Some(at + 1));
                        last = Some(at + 1);
                    }
                }
                (first, last)
            }
        }
    }

    fn keep(&mut self, bytes: &[u8]) -> Outcome<()> {
        if self.carry.is_empty() {
            self.carry_at = self.position;
        }
        self.position += bytes.len() as u64;
        if self.record_max < self.carry.len() + bytes.len() {
            let (at, most) = (self.carry_at, self.record_max);
            let text = format!(
                "the record at {at} has more than {most} bytes: at most 64 MiB, and a seventh of \
                 the memory of a task (--memory, --slots)"
            );
            return Err(Failure::task(text));
        }
        self.carry.extend_from_slice(bytes);
        Ok(())
    }

    /// The end of the object.
    pub(crate) fn finish(
        &mut self,
        mut take: impl FnMut(u64, &[u8]) -> Outcome<()>,
    ) -> Outcome<()> {
        if self.is_quoted {
            let text = format!(
                "the record at {} has a quote without its end",
                self.carry_at
            );
            return Err(Failure::task(text));
        }
        self.is_done = true;
        let carry = std::mem::take(&mut self.carry);
        match carry.is_empty() {
            true => Ok(()),
            false => take(self.carry_at, &carry),
        }
    }
}
