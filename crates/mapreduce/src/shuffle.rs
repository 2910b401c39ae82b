//! The bytes between map and reduce: objects of sorted runs, one run for each partition.
//!
//! ```text
//!  segment := head block* index footer
//!  head    := "FADS" format:u8=1 codec:u8 0:u16
//!  block   := stored:u32 raw:u32 records:u32 crc32c:u32 bytes
//!  record  := shared:varint rest:varint value:varint  rest-of-key value
//!  index   := ( offset:u64 bytes:u64 records:u64 )*                  one for each partition
//!  footer  := index-offset:u64 partitions:u32 crc32c-of-index:u32 "SDAF"
//! ```
//!
//! Numbers are big-endian. docs/reference/format/shuffle.md has the bytes with an example.
//!
//! Invariants:
//! - SHUFFLE-1 a block is read only after its CRC-32C was found right; no length is trusted before.
//! - SHUFFLE-2 the records of a run are in the order of key, then value.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::failure::{Failure, Outcome};
use crate::user::{KEY_BYTES_MAX, VALUE_BYTES_MAX};

/// Bytes of the records of a block, about, before compression.
pub(crate) const BLOCK_BYTES: usize = 64 << 10;
/// Bytes of a block's head.
pub(crate) const BLOCK_HEAD: usize = 16;
/// Bytes of the records of a block, at most: one record may be larger than all of a block.
const RAW_MAX: usize = KEY_BYTES_MAX + VALUE_BYTES_MAX + BLOCK_BYTES + 64;
/// Bytes of the lengths of a record, about.
const RECORD_HEAD: usize = 4;
/// The level of Zstandard: its fastest.
const ZSTD_LEVEL: i32 = 1;

/// How blocks are compressed, with its byte in the head of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Codec {
    /// LZ4: fast.
    Lz4 = 1,
    /// Zstandard: small.
    Zstd = 2,
}

impl Codec {
    /// Bytes that a block becomes, at most.
    fn bound(self, raw: usize) -> usize {
        match self {
            Codec::Lz4 => lz4_flex::block::get_maximum_output_size(raw),
            Codec::Zstd => zstd::zstd_safe::compress_bound(raw),
        }
    }

    /// Appends a compressed block to `out`: a buffer for each block would be the allocator's work.
    fn compress(self, raw: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + self.bound(raw.len()), 0);
        let room = &mut out[start..];
        let stored = match self {
            Codec::Lz4 => lz4_flex::block::compress_into(raw, room).ok(),
            Codec::Zstd => zstd::bulk::compress_to_buffer(raw, room, ZSTD_LEVEL).ok(),
        };
        out.truncate(start + stored.expect("room for any block is all that it needs"));
    }

    /// Puts the bytes of a block in `out`, in place of those of the block before.
    fn decompress(self, stored: &[u8], raw: usize, out: &mut Vec<u8>) -> Outcome<()> {
        if out.capacity() < raw {
            // Most blocks are about as large: a buffer that grows would double.
            out.reserve_exact(raw.max(BLOCK_BYTES + 4096) - out.len());
        }
        out.resize(raw, 0);
        let count = match self {
            Codec::Lz4 => lz4_flex::block::decompress_into(stored, out).ok(),
            Codec::Zstd => zstd::bulk::decompress_to_buffer(stored, &mut out[..]).ok(),
        };
        match count == Some(raw) {
            true => Ok(()),
            false => Err(Failure::task("a block of the shuffle does not decompress")),
        }
    }
}

/// What carries pairs from map to reduce tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Shuffle {
    /// Objects with a run for each partition.
    #[default]
    Object,
    /// A queue for each partition, as in Cloud MapReduce.
    Queue,
}

/// Where the run of a partition is in its object, and how many records it has. In JSON it is an
/// array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "(u64, u64, u64)")]
pub struct Run {
    /// Where its first block begins.
    pub offset: u64,
    /// Bytes of its blocks.
    pub bytes: u64,
    /// Its records.
    pub records: u64,
}

impl From<Run> for (u64, u64, u64) {
    fn from(run: Run) -> Self {
        (run.offset, run.bytes, run.records)
    }
}

/// A segment that was written.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    pub(crate) bytes: Bytes,
    pub(crate) runs: Vec<Run>,
}

/// Writes a segment: the records of each partition in their order, one partition after the other.
#[derive(Debug)]
pub(crate) struct SegmentWriter {
    codec: Codec,
    out: Vec<u8>,
    runs: Vec<Run>,
    block: Vec<u8>,
    records: u32,
    last_key: Vec<u8>,
}

impl SegmentWriter {
    pub(crate) fn new(codec: Codec) -> Self {
        let mut out = b"FADS\x01".to_vec();
        out.extend([codec as u8, 0, 0]);
        SegmentWriter {
            codec,
            out,
            runs: Vec::new(),
            block: Vec::with_capacity(BLOCK_BYTES + 1024),
            records: 0,
            last_key: Vec::new(),
        }
    }

    /// As [`SegmentWriter::new`], with room for records of so many bytes. The operating system
    /// gives memory for those that come: bytes that grew would be there twice while they are
    /// copied.
    pub(crate) fn with_room(codec: Codec, bytes: usize, records: usize) -> Self {
        let mut writer = SegmentWriter::new(codec);
        let room = bytes + records * RECORD_HEAD;
        writer.reserve(room + room / 64);
        writer
    }

    /// Makes room for so many bytes of blocks, and one more.
    pub(crate) fn reserve(&mut self, bytes: usize) {
        self.out.reserve(bytes + self.codec.bound(2 * BLOCK_BYTES));
    }

    /// Begins the next partition, and ends the one before.
    pub(crate) fn begin(&mut self) {
        self.end();
        self.runs.push(Run {
            offset: self.out.len() as u64,
            ..Run::default()
        });
    }

    /// Begins partitions until this one is under way.
    pub(crate) fn begin_until(&mut self, partition: u32) {
        while self.runs.len() <= partition as usize {
            self.begin();
        }
    }

    /// Adds a record, which is not before the last one.
    pub(crate) fn push(&mut self, key: &[u8], value: &[u8]) {
        let pairs = key.iter().zip(&self.last_key);
        let shared = match self.records {
            0 => 0,
            _ => pairs.take_while(|(one, other)| one == other).count(),
        };
        varint(&mut self.block, shared);
        varint(&mut self.block, key.len() - shared);
        varint(&mut self.block, value.len());
        self.block.extend_from_slice(&key[shared..]);
        self.block.extend_from_slice(value);
        self.last_key.truncate(shared);
        self.last_key.extend_from_slice(&key[shared..]);
        self.records += 1;
        if BLOCK_BYTES <= self.block.len() {
            self.end();
        }
    }

    /// Bytes that were written so far.
    pub(crate) fn len(&self) -> usize {
        self.out.len() + self.block.len()
    }

    /// Takes the blocks that are complete.
    pub(crate) fn take_bytes(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    /// Ends the block under way.
    pub(crate) fn end(&mut self) {
        if self.records == 0 {
            return;
        }
        let start = self.out.len();
        self.out.extend([0; BLOCK_HEAD]);
        self.codec.compress(&self.block, &mut self.out);
        let (head, stored) = self.out[start..].split_at_mut(BLOCK_HEAD);
        let numbers = [stored.len(), self.block.len(), self.records as usize];
        let numbers = numbers.map(|number| (number as u32).to_be_bytes());
        head[..BLOCK_HEAD - 4].copy_from_slice(numbers.as_flattened());
        let crc = crc32c_of_block(numbers.as_flattened(), stored);
        head[BLOCK_HEAD - 4..].copy_from_slice(&crc.to_be_bytes());
        let run = self.runs.last_mut().expect("a partition was begun");
        run.bytes += (self.out.len() - start) as u64;
        run.records += u64::from(self.records);
        self.block.clear();
        self.records = 0;
    }

    /// Ends the segment.
    pub(crate) fn finish(mut self) -> Segment {
        self.end();
        let offset = self.out.len();
        for run in &self.runs {
            for number in [run.offset, run.bytes, run.records] {
                self.out.extend(number.to_be_bytes());
            }
        }
        let crc = crc32c(&self.out[offset..]);
        self.out.extend((offset as u64).to_be_bytes());
        self.out.extend((self.runs.len() as u32).to_be_bytes());
        self.out.extend(crc.to_be_bytes());
        self.out.extend(b"SDAF");
        Segment {
            bytes: self.out.into(),
            runs: self.runs,
        }
    }
}

/// The head of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockHead {
    pub(crate) stored: usize,
    raw: usize,
    records: u32,
    crc: u32,
}

impl BlockHead {
    /// Reads a head.
    pub(crate) fn parse(bytes: &[u8]) -> Outcome<Self> {
        let number = |at: usize| Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?));
        let head = || {
            Some(BlockHead {
                stored: number(0)? as usize,
                raw: number(4)? as usize,
                records: number(8)?,
                crc: number(12)?,
            })
        };
        let is_bounded =
            |head: &BlockHead| head.raw <= RAW_MAX && head.stored <= RAW_MAX + RAW_MAX / 64 + 64;
        let damaged = || Failure::task("the head of a block of the shuffle is damaged");
        head().filter(is_bounded).ok_or_else(damaged)
    }
}

/// The records of a block, one after the other.
#[derive(Debug, Default)]
pub(crate) struct Block {
    raw: Vec<u8>,
    at: usize,
    left: u32,
    /// The key of the present record.
    pub(crate) key: Vec<u8>,
    value: (usize, usize),
}

impl Block {
    /// Opens a block whose stored bytes are those behind its head.
    pub(crate) fn open(&mut self, codec: Codec, head: BlockHead, stored: &[u8]) -> Outcome<()> {
        let numbers = [head.stored as u32, head.raw as u32, head.records];
        let numbers = numbers.map(u32::to_be_bytes);
        if crc32c_of_block(numbers.as_flattened(), stored) != head.crc {
            return Err(Failure::task(
                "a block of the shuffle is damaged: its CRC-32C is wrong",
            ));
        }
        codec.decompress(stored, head.raw, &mut self.raw)?;
        (self.at, self.left) = (0, head.records);
        self.key.clear();
        Ok(())
    }

    /// The value of the present record.
    pub(crate) fn value(&self) -> &[u8] {
        &self.raw[self.value.0..self.value.1]
    }

    /// Goes to the next record, if there is one.
    pub(crate) fn next(&mut self) -> Outcome<bool> {
        if self.left == 0 {
            return Ok(false);
        }
        self.left -= 1;
        let found = self.record();
        found.ok_or_else(|| Failure::task("a record of the shuffle is damaged"))?;
        Ok(true)
    }

    fn record(&mut self) -> Option<()> {
        let raw = &self.raw;
        let mut at = self.at;
        let shared = read_varint(raw, &mut at)?;
        let rest = read_varint(raw, &mut at)?;
        let size = read_varint(raw, &mut at)?;
        let key_end = at.checked_add(rest)?;
        let value_end = key_end.checked_add(size)?;
        if self.key.len() < shared || raw.len() < value_end {
            return None;
        }
        self.key.truncate(shared);
        self.key.extend_from_slice(&raw[at..key_end]);
        self.value = (key_end, value_end);
        self.at = value_end;
        Some(())
    }
}

/// The CRC-32C of bytes.
pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// The CRC-32C of a block: of its three numbers and its stored bytes.
fn crc32c_of_block(numbers: &[u8], stored: &[u8]) -> u32 {
    crc32c_of_both(crc32c(numbers), crc32c(stored), stored.len() as u64)
}

/// The CRC-32C of two pieces, one behind the other; the second has so many bytes.
pub(crate) fn crc32c_of_both(one: u32, other: u32, bytes: u64) -> u32 {
    let algorithm = crc_fast::CrcAlgorithm::Crc32Iscsi;
    crc_fast::checksum_combine(algorithm, u64::from(one), u64::from(other), bytes) as u32
}

fn varint(out: &mut Vec<u8>, mut number: usize) {
    while 0x80 <= number {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn read_varint(bytes: &[u8], at: &mut usize) -> Option<usize> {
    let mut number = 0;
    for shift in (0..35).step_by(7) {
        let byte = *bytes.get(*at)?;
        *at += 1;
        number |= usize::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests;
