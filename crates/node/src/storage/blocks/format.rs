//! The bytes of a segment of blocks (docs/reference/format/blocks.md).
//!
//! ```text
//! segment := header block* [list]
//! header  := "FADERBLK" format:u32=1 random:u64 sequence:u64 before:u64 before_end:u32 crc:u32
//! block   := crc:u32 "FBLK" size:u32 synced:u32 id:u128 sum:u32* bytes
//! list    := (id:u128 offset:u32 size:u32 sum:u32)*
//!            "FADERLST" random:u64 sequence:u64 offset:u32 count:u32 crc:u32
//! ```
//!
//! Numbers are little-endian. Checksums are CRC-32C. A block's `crc` covers the segment's identity
//! and the block's own offset too, so that no other bytes, however old, pass for a block's header.
//!
//! `synced` is a length of the segment that was durable before the block was written. So a header
//! that is whole proves that everything before its `synced` was whole once.

use super::block::{BLOCK_BYTES_MAX, Block, BlockId};
use super::sums::{PIECE_BYTES, sum, whole_sum};

/// Bytes of a segment's header.
pub(super) const HEADER_BYTES: u32 = 44;
/// Bytes of a block before its sums.
pub(super) const HEAD_BYTES: u32 = 32;
/// Bytes of a block in a list.
pub(super) const ENTRY_BYTES: u32 = 28;
/// Bytes of a list behind its entries.
pub(super) const TRAILER_BYTES: u32 = 36;
/// Where in a block's header [`BLOCK_MAGIC`] stands.
pub(super) const BLOCK_MAGIC_AT: u32 = 4;
/// Begins a block, behind its checksum.
pub(super) const BLOCK_MAGIC: &[u8; 4] = b"FBLK";

const MAGIC: &[u8; 8] = b"FADERBLK";
const LIST_MAGIC: &[u8; 8] = b"FADERLST";
const FORMAT: u32 = 1;

/// What no other segment has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegmentId {
    pub(super) random: u64,
    /// Greater than that of all segments there were when it was begun; the file's name.
    pub(super) sequence: u64,
}

/// Where a segment that was given up ends: what stands behind is void.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Before {
    pub(super) sequence: u64,
    pub(super) end: u32,
}

/// What the header of a segment says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) id: SegmentId,
    pub(super) before: Option<Before>,
}

impl Header {
    pub(super) fn encode(&self) -> Vec<u8> {
        let before = self.before.unwrap_or(Before {
            sequence: 0,
            end: 0,
        });
        let mut bytes = MAGIC.to_vec();
        bytes.extend(FORMAT.to_le_bytes());
        bytes.extend(self.id.random.to_le_bytes());
        bytes.extend(self.id.sequence.to_le_bytes());
        bytes.extend(before.sequence.to_le_bytes());
        bytes.extend(before.end.to_le_bytes());
        bytes.extend(sum(&[&bytes]).to_le_bytes());
        bytes
    }

    /// Reads a header; the error says what is wrong.
    pub(super) fn decode(bytes: &[u8]) -> Result<Header, String> {
        let Some(bytes) = bytes.get(..HEADER_BYTES as usize) else {
            return Err(format!("the header is cut off after {} bytes", bytes.len()));
        };
        let body = &bytes[..HEADER_BYTES as usize - 4];
        if sum(&[body]) != u32_at(bytes, body.len()) {
            return Err("the header's checksum does not match".to_owned());
        }
        let format = u32_at(bytes, 8);
        if &bytes[..8] != MAGIC || format != FORMAT {
            return Err(format!("format {format} is not one this program reads"));
        }
        let id = SegmentId {
            random: u64_at(bytes, 12),
            sequence: u64_at(bytes, 20),
        };
        let before = Before {
            sequence: u64_at(bytes, 28),
            end: u32_at(bytes, 36),
        };
        let before = (0 < before.sequence).then_some(before);
        Ok(Header { id, before })
    }
}

/// Bytes of a block's header, with the sums of its pieces.
pub(super) fn head_size(size: u32) -> u32 {
    HEAD_BYTES + 4 * size.div_ceil(PIECE_BYTES)
}

/// Bytes that a block of this size takes in a segment.
pub(super) fn block_size(size: u32) -> u32 {
    head_size(size) + size
}

/// What the header of a block says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) id: BlockId,
    pub(super) size: u32,
    /// A length of the segment that was durable before.
    pub(super) synced: u32,
    /// Of each piece.
    pub(super) sums: Vec<u32>,
}

impl Head {
    /// The block that it is the header of.
    pub(super) fn block(&self) -> Block {
        Block {
            id: self.id,
            size: self.size,
            sum: whole_sum(&self.sums, self.size),
        }
    }

    /// Writes the header of a block at `offset` of the segment into the first bytes of `out`.
    pub(super) fn encode(&self, segment: SegmentId, offset: u32, out: &mut [u8]) {
        let out = &mut out[..head_size(self.size) as usize];
        out[4..8].copy_from_slice(BLOCK_MAGIC);
        out[8..12].copy_from_slice(&self.size.to_le_bytes());
        out[12..16].copy_from_slice(&self.synced.to_le_bytes());
        out[16..32].copy_from_slice(&self.id.0.to_le_bytes());
        let places = out[HEAD_BYTES as usize..].chunks_exact_mut(4);
        for (place, sum) in places.zip(&self.sums) {
            place.copy_from_slice(&sum.to_le_bytes());
        }
        let crc = salted(segment, offset, &out[4..]);
        out[..4].copy_from_slice(&crc.to_le_bytes());
    }

    /// The size of the block whose header begins with `bytes`, be it whole or not.
    pub(super) fn claimed_size(bytes: &[u8]) -> Option<u32> {
        if bytes.len() < HEAD_BYTES as usize || &bytes[4..8] != BLOCK_MAGIC {
            return None;
        }
        let size = u32_at(bytes, 8);
        (1..=BLOCK_BYTES_MAX).contains(&size).then_some(size)
    }

    /// The header at `offset` of the segment, if these bytes begin with a whole one.
    pub(super) fn decode(segment: SegmentId, offset: u32, bytes: &[u8]) -> Option<Head> {
        let size = Head::claimed_size(bytes)?;
        let bytes = bytes.get(..head_size(size) as usize)?;
        if salted(segment, offset, &bytes[4..]) != u32_at(bytes, 0) {
            return None;
        }
        let sums = bytes[HEAD_BYTES as usize..].chunks_exact(4);
        Some(Head {
            id: BlockId(u128_at(bytes, 16)),
            size,
            synced: u32_at(bytes, 12),
            sums: sums.map(|sum| u32_at(sum, 0)).collect(),
        })
    }
}

/// A block in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) block: Block,
    pub(super) offset: u32,
}

/// The list that begins at `offset` of the segment.
pub(super) fn encode_list(segment: SegmentId, offset: u32, blocks: &[Listed]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(list_size(blocks.len()) as usize);
    for Listed { block, offset } in blocks {
        bytes.extend(block.id.0.to_le_bytes());
        for number in [*offset, block.size, block.sum] {
            bytes.extend(number.to_le_bytes());
        }
    }
    bytes.extend(LIST_MAGIC);
    bytes.extend(segment.random.to_le_bytes());
    bytes.extend(segment.sequence.to_le_bytes());
    bytes.extend(offset.to_le_bytes());
    bytes.extend((blocks.len() as u32).to_le_bytes());
    bytes.extend(sum(&[&bytes]).to_le_bytes());
    bytes
}

/// Bytes of a list of so many blocks.
pub(super) fn list_size(count: usize) -> u64 {
    u64::from(ENTRY_BYTES) * count as u64 + u64::from(TRAILER_BYTES)
}

/// The last bytes of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Trailer {
    pub(super) id: SegmentId,
    /// Where the list begins.
    pub(super) offset: u32,
}

/// What the last bytes of a file of `size` bytes say, if they may be a list's.
pub(super) fn decode_trailer(bytes: &[u8], size: u64) -> Option<Trailer> {
    if bytes.len() != TRAILER_BYTES as usize || &bytes[..8] != LIST_MAGIC {
        return None;
    }
    let (offset, count) = (u32_at(bytes, 24), u32_at(bytes, 28));
    let end = u64::from(offset) + list_size(count as usize);
    let id = SegmentId {
        random: u64_at(bytes, 8),
        sequence: u64_at(bytes, 16),
    };
    (end == size && HEADER_BYTES <= offset).then_some(Trailer { id, offset })
}

/// The blocks of a whole list whose trailer is known; `None` when it is damaged.
pub(super) fn decode_list(trailer: Trailer, bytes: &[u8]) -> Option<Vec<Listed>> {
    let (body, crc) = bytes.split_at_checked(bytes.len().checked_sub(4)?)?;
    if sum(&[body]) != u32_at(crc, 0) {
        return None;
    }
    let entries = bytes.len().checked_sub(TRAILER_BYTES as usize)?;
    let mut listed = Vec::with_capacity(entries / ENTRY_BYTES as usize);
    for entry in bytes[..entries].chunks_exact(ENTRY_BYTES as usize) {
        let block = Block {
            id: BlockId(u128_at(entry, 0)),
            size: u32_at(entry, 20),
            sum: u32_at(entry, 24),
        };
        let offset = u32_at(entry, 16);
        let is_sized = (1..=BLOCK_BYTES_MAX).contains(&block.size);
        if !is_sized
            || u64::from(offset) + u64::from(block_size(block.size)) > u64::from(trailer.offset)
        {
            return None;
        }
        listed.push(Listed { block, offset });
    }
    Some(listed)
}

fn salted(segment: SegmentId, offset: u32, bytes: &[u8]) -> u32 {
    sum(&[
        &segment.random.to_le_bytes(),
        &segment.sequence.to_le_bytes(),
        &offset.to_le_bytes(),
        bytes,
    ])
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

fn u128_at(bytes: &[u8], at: usize) -> u128 {
    u128::from_le_bytes(
        bytes[at..at + 16]
            .try_into()
            .expect("the slice has sixteen bytes"),
    )
}
