//! What is found in a segment without a list.
//!
//! A block that fails is torn, and the segment ends before it: a power cut took what was never
//! held. It may have been durable once, as the end that another segment tells or a later header
//! proves. Then it is damage, and what lies behind stays.

use std::collections::BTreeSet;

use super::block::Damage;
use super::buffers::Buffers;
use super::files::Reading;
use super::format::{
    BLOCK_MAGIC, BLOCK_MAGIC_AT, HEAD_BYTES, HEADER_BYTES, Head, Listed, SegmentId, block_size,
};

/// Bytes that are looked through at a time.
const WINDOW: usize = 1 << 20;

/// What a scan found.
pub(super) struct Scanned {
    pub(super) blocks: Vec<Listed>,
    /// The offsets of those of which bytes are damaged.
    pub(super) bad: BTreeSet<u32>,
    pub(super) damage: Vec<Damage>,
    /// Where it ends.
    pub(super) end: u32,
}

/// Something at an offset, and what is wrong with it.
struct Item {
    offset: u32,
    end: u32,
    head: Option<Head>,
    damage: Option<Damage>,
}

/// Reads a segment of `size` bytes. Its first `durable` bytes were durable once, as another says.
pub(super) fn scan(
    reading: &Reading<'_>,
    segment: SegmentId,
    size: u64,
    durable: Option<u32>,
) -> Scanned {
    let size = size.min(u64::from(u32::MAX));
    let limit = durable.map_or(size, |durable| size.min(u64::from(durable)));
    let items = items(reading, segment, limit as u32);
    let proofs = items.iter().filter_map(|item| item.head.as_ref());
    let proven = proofs.map(|head| head.synced).chain(durable).max();
    let proven = proven.unwrap_or(HEADER_BYTES);
    let mut scanned = Scanned {
        blocks: Vec::new(),
        bad: BTreeSet::new(),
        damage: Vec::new(),
        end: HEADER_BYTES,
    };
    for item in items {
        let is_damaged = item.damage.is_some();
        if is_damaged && proven <= item.offset {
            break;
        }
        scanned.damage.extend(item.damage);
        if let Some(head) = item.head {
            let (block, offset) = (head.block(), item.offset);
            scanned.blocks.push(Listed { block, offset });
            scanned.bad.extend(is_damaged.then_some(offset));
        }
        scanned.end = item.end;
    }
    if let Some(durable) = durable
        && size < u64::from(durable)
    {
        scanned.damage.push(Damage {
            path: reading.path.to_owned(),
            offset: size,
            what: format!("the file is cut off: it had {durable} bytes"),
        });
    }
    scanned
}

fn items(reading: &Reading<'_>, segment: SegmentId, limit: u32) -> Vec<Item> {
    let mut items = Vec::new();
    let mut offset = HEADER_BYTES;
    while offset < limit {
        let item = match reading.any_head(segment, offset, u64::from(limit)) {
            Some(head) => block(reading, offset, limit, head),
            None => gap(reading, segment, offset, limit),
        };
        offset = item.end;
        items.push(item);
    }
    items
}

fn block(reading: &Reading<'_>, offset: u32, limit: u32, head: Head) -> Item {
    let damage = reading
        .pieces(&head, offset, &(0..head.size), &Buffers::default())
        .err();
    Item {
        offset,
        end: offset.saturating_add(block_size(head.size)).min(limit),
        head: Some(head),
        damage,
    }
}

/// No header begins here: all up to the next one.
fn gap(reading: &Reading<'_>, segment: SegmentId, offset: u32, limit: u32) -> Item {
    Item {
        offset,
        end: next_head(reading, segment, offset + 1, limit).unwrap_or(limit),
        head: None,
        damage: Some(Damage {
            path: reading.path.to_owned(),
            offset: u64::from(offset),
            what: "the header of a block does not match".to_owned(),
        }),
    }
}

/// Where the first whole header at `from` or behind it begins.
fn next_head(reading: &Reading<'_>, segment: SegmentId, from: u32, limit: u32) -> Option<u32> {
    let mut at = from;
    while u64::from(at) + u64::from(HEAD_BYTES) <= u64::from(limit) {
        let size = ((limit - at) as usize).min(WINDOW);
        let mut bytes = vec![0; size];
        reading.file.read_exact_at(u64::from(at), &mut bytes).ok()?;
        let found = bytes
            .windows(BLOCK_MAGIC.len())
            .enumerate()
            .skip(BLOCK_MAGIC_AT as usize)
            .filter(|(_, window)| window == BLOCK_MAGIC)
            .map(|(place, _)| at + place as u32 - BLOCK_MAGIC_AT)
            .find(|place| {
                reading
                    .any_head(segment, *place, u64::from(limit))
                    .is_some()
            });
        if found.is_some() || size < WINDOW {
            return found;
        }
        // A magic that begins before the window's end is looked for again.
        at += (WINDOW - HEAD_BYTES as usize) as u32;
    }
    None
}
