//! The bytes of a log segment (docs/format/log.md).
//!
//! ```text
//! segment := header record*  then zeros
//! header  := "FADERLOG"  version:u32  chain:u64  sequence:u64  epoch:u64
//!            prev.epoch:u64  prev.index:u64  file_size:u64  crc:u32             64 bytes
//! record  := crc:u32  size:u32  synced:u32  kind:u8  payload[size]
//! ```
//!
//! Numbers are little-endian. Checksums are CRC-32C. A record's covers the segment's identity and
//! the record's own offset too, so that no other bytes, however old, pass for it.
//!
//! Invariants:
//! - L1 `synced` is a length of the segment that was durable before the record was written: so a
//!   record that is whole proves that everything before its `synced` was whole once.

use bytes::Bytes;
use crc_fast::{CrcAlgorithm, Digest};
use fader_chain::EntryId;

/// Bytes of a segment's header.
pub(super) const HEADER_SIZE: usize = 64;
/// Bytes of a record before its payload.
pub(super) const RECORD_SIZE: usize = 13;

const MAGIC: &[u8; 8] = b"FADERLOG";
const VERSION: u32 = 1;
const KIND_ENTRY: u8 = 1;
const KIND_MARK: u8 = 2;

/// What the header of a segment says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// The log's identity, random, the same in all its segments.
    pub(super) chain: u64,
    /// One more than that of the segment before.
    pub(super) sequence: u64,
    /// The epoch of its entries.
    pub(super) epoch: u64,
    /// The last entry before it. What follows that entry in the segment before is void.
    pub(super) prev: EntryId,
    /// The size that the segment's file has from its first moment.
    pub(super) file_size: u64,
}

impl Header {
    pub(super) fn encode(&self) -> [u8; HEADER_SIZE] {
        let mut bytes = [0; HEADER_SIZE];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        let numbers = [
            self.chain,
            self.sequence,
            self.epoch,
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
        let version = u32_at(bytes, 8);
        if &bytes[..8] != MAGIC || version != VERSION {
            return Err(format!(
                "format version {version} is not one this program reads"
            ));
        }
        Ok(Header {
            chain: u64_at(bytes, 12),
            sequence: u64_at(bytes, 20),
            epoch: u64_at(bytes, 28),
            prev: EntryId::new(u64_at(bytes, 36), u64_at(bytes, 44)),
            file_size: u64_at(bytes, 52),
        })
    }
}

/// What a record holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Payload {
    /// An encoded entry.
    Entry(Bytes),
    /// Nothing: the record only says what was durable when it was written.
    Mark,
}

/// A whole record, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) payload: Payload,
    /// See L1.
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

    /// Appends an entry's record to `out`, whose first byte belongs at `base` of the segment.
    pub(super) fn put_entry(
        &self,
        out: &mut Vec<u8>,
        base: u32,
        synced: u32,
        encode: impl FnOnce(&mut Vec<u8>),
    ) {
        let start = out.len();
        out.extend_from_slice(&[0; RECORD_SIZE]);
        encode(out);
        self.seal(out, start, base, synced, KIND_ENTRY);
    }

    /// Appends a mark's record.
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
    pub(super) fn read(&self, segment: &Bytes, offset: usize) -> Option<Record> {
        let head = segment.get(offset..offset.checked_add(RECORD_SIZE)?)?;
        let (crc, size) = (u32_at(head, 0), u32_at(head, 4));
        let (synced, kind) = (u32_at(head, 8), head[12]);
        let end = (offset + RECORD_SIZE).checked_add(size as usize)?;
        if !matches!(kind, KIND_ENTRY | KIND_MARK) || segment.len() < end {
            return None;
        }
        if self.checksum(offset as u64, &segment[offset + 4..end]) != crc {
            return None;
        }
        let payload = match kind {
            KIND_ENTRY => Payload::Entry(segment.slice(offset + RECORD_SIZE..end)),
            _ => Payload::Mark,
        };
        Some(Record {
            payload,
            synced,
            end,
        })
    }

    /// Where in `bad..end` a whole record begins that proves, by L1, that the bytes at `bad` were
    /// durable once.
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
