//! The bytes of a log segment (docs/reference/format/log.md).
//!
//! ```text
//! segment := header  preamble  record*  then zeros
//! header  := "FADERLOG"  format:u32=2  chain:u64  sequence:u64  end:u32  preamble:u32
//!            prev.epoch:u64  prev.index:u64  file_size:u64  crc:u32             64 bytes
//! record  := crc:u32  size:u32  synced:u32  kind:u8  payload[size]
//! ```
//!
//! `end` is where the segment before ends: what stands there behind it is void. `preamble` is the
//! size of the records that repeat what is needed of all segments before, but for their entries.
//! Format 1 has `epoch:u64`, that of its entries, in place of both: there the segment before ends
//! with the entry `prev`.
//!
//! Numbers are little-endian. Checksums are CRC-32C. A record's covers the segment's identity and
//! the record's own offset too, so that no other bytes, however old, pass for it.
//!
//! Invariants:
//! - WAL-1 `synced` is a length of the segment that was durable before the record was written. So a
//!   record that is whole proves that everything before its `synced` was whole once.

use bytes::Bytes;
use crc_fast::{CrcAlgorithm, Digest};
use fader_chain::{EntryId, Record};

use super::payload::{self, KIND_MARK, KIND_MAX};

/// Bytes of a segment's header.
pub(super) const HEADER_SIZE: usize = 64;
/// Bytes of a record before its payload.
pub(super) const RECORD_SIZE: usize = 13;

const MAGIC: &[u8; 8] = b"FADERLOG";
const FORMAT: u32 = 2;
const FORMAT_OF_ENTRIES: u32 = 1;

/// What the header of a segment says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// The log's identity, random, the same in all its segments.
    pub(super) chain: u64,
    /// One more than that of the segment before.
    pub(super) sequence: u64,
    /// What its format says of the segment before.
    pub(super) before: Before,
    /// The last entry before it.
    pub(super) prev: EntryId,
    /// The size that the segment's file has from its first moment.
    pub(super) file_size: u64,
}

/// What a segment says of the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Before {
    /// Format 2: it ends at `end`; all that is needed of it but entries is said again in as many
    /// bytes as `preamble`.
    Offset { end: u32, preamble: u32 },
    /// Format 1: it ends with the entry `prev`; all entries of this segment are of `epoch`.
    Entry { epoch: u64 },
}

impl Before {
    /// Bytes of the records that repeat earlier ones.
    pub(super) fn preamble_size(self) -> usize {
        match self {
            Before::Offset { preamble, .. } => preamble as usize,
            Before::Entry { .. } => 0,
        }
    }
}

impl Header {
    pub(super) fn encode(&self) -> [u8; HEADER_SIZE] {
        let mut bytes = [0; HEADER_SIZE];
        bytes[..8].copy_from_slice(MAGIC);
        let (format, before) = match self.before {
            Before::Offset { end, preamble } => {
                (FORMAT, u64::from(preamble) << 32 | u64::from(end))
            }
            Before::Entry { epoch } => (FORMAT_OF_ENTRIES, epoch),
        };
        bytes[8..12].copy_from_slice(&format.to_le_bytes());
        let numbers = [
            self.chain,
            self.sequence,
            before,
            self.prev.epoch,
            self.prev.index,
            self.file_size,
        ];
        for (place, number) in bytes[12..60].chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        let crc = checksum(&[&bytes[..60]]);
        bytes[60..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads a header; the error says in words what is wrong.
    pub(super) fn decode(bytes: &[u8]) -> Result<Header, String> {
        let Some(bytes) = bytes.get(..HEADER_SIZE) else {
            return Err(format!("the header is cut off after {} bytes", bytes.len()));
        };
        let crc = u32_at(bytes, 60);
        if checksum(&[&bytes[..60]]) != crc {
            return Err("the header's checksum does not match".to_owned());
        }
        let format = u32_at(bytes, 8);
        let before = match format {
            FORMAT if &bytes[..8] == MAGIC => Before::Offset {
                end: u32_at(bytes, 28),
                preamble: u32_at(bytes, 32),
            },
            FORMAT_OF_ENTRIES if &bytes[..8] == MAGIC => Before::Entry {
                epoch: u64_at(bytes, 28),
            },
            _ => return Err(format!("format {format} is not one this program reads")),
        };
        Ok(Header {
            chain: u64_at(bytes, 12),
            sequence: u64_at(bytes, 20),
            before,
            prev: EntryId::new(u64_at(bytes, 36), u64_at(bytes, 44)),
            file_size: u64_at(bytes, 52),
        })
    }
}

/// A whole record, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) kind: u8,
    pub(super) payload: Bytes,
    /// See WAL-1.
    pub(super) synced: u32,
    /// The offset behind it.
    pub(super) end: usize,
}

/// Writes records of one segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Codec {
    chain: u64,
    sequence: u64,
}

impl Codec {
    pub(super) fn new(chain: u64, sequence: u64) -> Self {
        Codec { chain, sequence }
    }

    /// The segment's number.
    pub(super) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Appends a record to `out`, whose first byte belongs at `base` of the segment.
    pub(super) fn put(&self, out: &mut Vec<u8>, base: u32, synced: u32, record: &Record) {
        let start = out.len();
        out.extend_from_slice(&[0; RECORD_SIZE]);
        payload::encode(record, out);
        self.seal(out, start, base, synced, payload::kind(record));
    }

    /// Appends a mark.
    pub(super) fn put_mark(&self, out: &mut Vec<u8>, base: u32, synced: u32) {
        let start = out.len();
        out.extend_from_slice(&[0; RECORD_SIZE]);
        self.seal(out, start, base, synced, KIND_MARK);
    }

    fn seal(&self, out: &mut [u8], start: usize, base: u32, synced: u32, kind: u8) {
        let record = &mut out[start..];
        let size = (record.len() - RECORD_SIZE) as u32;
        record[4..8].copy_from_slice(&size.to_le_bytes());
        record[8..12].copy_from_slice(&synced.to_le_bytes());
        record[12] = kind;
        let crc = self.checksum(u64::from(base) + start as u64, &record[4..]);
        record[..4].copy_from_slice(&crc.to_le_bytes());
    }

    /// The record at `offset` of a segment, if there is a whole one.
    pub(super) fn read(&self, segment: &Bytes, offset: usize) -> Option<Frame> {
        let head = segment.get(offset..offset.checked_add(RECORD_SIZE)?)?;
        let (crc, size) = (u32_at(head, 0), u32_at(head, 4));
        let (synced, kind) = (u32_at(head, 8), head[12]);
        let end = (offset + RECORD_SIZE).checked_add(size as usize)?;
        if !(1..=KIND_MAX).contains(&kind) || segment.len() < end {
            return None;
        }
        if self.checksum(offset as u64, &segment[offset + 4..end]) != crc {
            return None;
        }
        Some(Frame {
            kind,
            payload: segment.slice(offset + RECORD_SIZE..end),
            synced,
            end,
        })
    }

    /// Where the record at `offset` ends by its own size, be it whole or not.
    pub(super) fn claimed_end(&self, segment: &Bytes, offset: usize) -> Option<usize> {
        let head = segment.get(offset..offset.checked_add(RECORD_SIZE)?)?;
        let end = (offset + RECORD_SIZE).checked_add(u32_at(head, 4) as usize)?;
        let is_of_a_record = (1..=KIND_MAX).contains(&head[12]) && end <= segment.len();
        is_of_a_record.then_some(end)
    }

    /// Where in `bad..end` a whole record begins that proves, by WAL-1, that the bytes at `bad`
    /// were durable once.
    pub(super) fn find_witness(&self, segment: &Bytes, bad: usize, end: usize) -> Option<usize> {
        let end = end.min(segment.len().saturating_sub(RECORD_SIZE - 1));
        (bad + 1..end).find(|&offset| {
            let synced = u32_at(segment, offset + 8) as usize;
            bad < synced && synced <= offset && self.read(segment, offset).is_some()
        })
    }

    fn checksum(&self, offset: u64, bytes: &[u8]) -> u32 {
        let mut salt = [0; 24];
        for (place, number) in salt
            .chunks_exact_mut(8)
            .zip([self.chain, self.sequence, offset])
        {
            place.copy_from_slice(&number.to_le_bytes());
        }
        checksum(&[&salt, bytes])
    }
}

fn checksum(pieces: &[&[u8]]) -> u32 {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    pieces.iter().for_each(|piece| digest.update(piece));
    digest.finalize() as u32
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(
        bytes[at..at + 4]
            .try_into()
            .expect("the slice has four bytes"),
    )
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(
        bytes[at..at + 8]
            .try_into()
            .expect("the slice has eight bytes"),
    )
}
