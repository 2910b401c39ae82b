//! Where each block lies, and how much of each segment is alive. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::time::Duration;

use super::block::{Block, BlockId};
use super::format::{ENTRY_BYTES, HEADER_BYTES, SegmentId, TRAILER_BYTES, block_size};

/// Where a block lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) segment: u64,
    pub(super) offset: u32,
    pub(super) block: Block,
    /// When it came, on the caller's clock.
    pub(super) since: Duration,
}

/// What may be done with a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Blocks are appended to it.
    Open,
    /// It ends with a list that begins here.
    Sealed(u32),
    /// It was given up, or its header or list is damaged: its blocks should go elsewhere.
    Suspect,
}

#[derive(Clone, Debug)]
pub(super) struct Segment {
    pub(super) id: SegmentId,
    pub(super) state: State,
    /// The segment whose end its header tells.
    pub(super) before: Option<u64>,
    /// Bytes of its blocks, dead ones included.
    written: u64,
    /// Bytes of those that are found by their ids.
    alive: u64,
    blocks: BTreeMap<u32, BlockId>,
}

impl Segment {
    fn is_half_dead(&self) -> bool {
        2 * self.alive < self.written
    }
}

/// What is held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) segments: u64,
    pub(super) blocks: u64,
    pub(super) alive: u64,
    pub(super) dead: u64,
    pub(super) bad: u64,
}

/// What is known of a block's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// Nothing, or that its bytes are damaged.
    Wanted,
    /// It is held.
    Held,
    /// Another block has the id.
    Other,
}

#[derive(Debug, Default)]
pub(super) struct Index {
    places: BTreeMap<BlockId, Place>,
    segments: BTreeMap<u64, Segment>,
    /// Blocks of which bytes were found damaged.
    bad: BTreeSet<BlockId>,
    last: u64,
}

impl Index {
    /// The number of a new segment.
    pub(super) fn next_sequence(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// No new segment gets this number, nor one below.
    pub(super) fn skip_through(&mut self, sequence: u64) {
        self.last = self.last.max(sequence);
    }

    pub(super) fn add_segment(&mut self, id: SegmentId, state: State, before: Option<u64>) {
        self.skip_through(id.sequence);
        let segment = Segment {
            id,
            state,
            before,
            written: 0,
            alive: 0,
            blocks: BTreeMap::new(),
        };
        self.segments.insert(id.sequence, segment);
    }

    pub(super) fn set_state(&mut self, sequence: u64, state: State) {
        if let Some(segment) = self.segments.get_mut(&sequence) {
            segment.state = state;
        }
    }

    /// It has a file no more.
    pub(super) fn remove_segment(&mut self, sequence: u64) {
        let segment = self.segments.remove(&sequence);
        assert!(
            segment.is_none_or(|segment| segment.blocks.is_empty()),
            "BS3: no block lies in a segment that is removed"
        );
    }

    pub(super) fn segment(&self, sequence: u64) -> Option<&Segment> {
        self.segments.get(&sequence)
    }

    pub(super) fn place(&self, id: BlockId) -> Option<Place> {
        self.places.get(&id).copied()
    }

    pub(super) fn known(&self, block: &Block) -> Known {
        match self.places.get(&block.id) {
            Some(place) if place.block != *block => Known::Other,
            Some(_) if !self.bad.contains(&block.id) => Known::Held,
            _ => Known::Wanted,
        }
    }

    /// The block is found here from now on; a place that it had is dead.
    pub(super) fn insert(&mut self, place: Place) {
        let mut place = place;
        if let Some(old) = self.forget(place.block.id) {
            place.since = old.since;
        }
        self.write(place.segment, place.block.size);
        self.adopt(place);
    }

    /// A block's copy is there that is not found by its id.
    pub(super) fn write(&mut self, sequence: u64, size: u32) {
        if let Some(segment) = self.segments.get_mut(&sequence) {
            segment.written += u64::from(block_size(size));
        }
    }

    /// The block is found at `to` if it still lies where it was copied from.
    pub(super) fn relocate(&mut self, from: &Place, to: Place) {
        self.write(to.segment, to.block.size);
        if self.places.get(&from.block.id) == Some(from) {
            self.forget(from.block.id);
            self.adopt(to);
        }
    }

    /// The block is found no more. Says whether it was.
    pub(super) fn remove(&mut self, id: BlockId) -> bool {
        self.forget(id).is_some()
    }

    fn adopt(&mut self, place: Place) {
        let segment = self.segments.get_mut(&place.segment);
        let segment = segment.expect("a block lies in a segment that is there");
        segment.alive += u64::from(block_size(place.block.size));
        segment.blocks.insert(place.offset, place.block.id);
        self.places.insert(place.block.id, place);
    }

    fn forget(&mut self, id: BlockId) -> Option<Place> {
        let place = self.places.remove(&id)?;
        self.bad.remove(&id);
        if let Some(segment) = self.segments.get_mut(&place.segment) {
            segment.alive -= u64::from(block_size(place.block.size));
            segment.blocks.remove(&place.offset);
        }
        Some(place)
    }

    /// Bytes of the block were found damaged where it was read.
    pub(super) fn mark_bad(&mut self, place: &Place) {
        if self.places.get(&place.block.id) == Some(place) {
            self.bad.insert(place.block.id);
        }
    }

    pub(super) fn is_bad(&self, id: BlockId) -> bool {
        self.bad.contains(&id)
    }

    /// Blocks whose bytes are to be replaced by right ones.
    pub(super) fn bad(&self) -> Vec<Block> {
        let places = self.bad.iter().filter_map(|id| self.places.get(id));
        places.map(|place| place.block).collect()
    }

    /// At most `limit` blocks behind `after`, in the order of their ids.
    pub(super) fn page(&self, after: Option<BlockId>, limit: usize) -> Vec<Place> {
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let places = self.places.range((start, Bound::Unbounded));
        places.take(limit).map(|(_, place)| *place).collect()
    }

    /// The blocks that are found in a segment, in the order of their offsets.
    pub(super) fn blocks_of(&self, sequence: u64) -> Vec<Place> {
        let Some(segment) = self.segments.get(&sequence) else {
            return Vec::new();
        };
        let ids = segment.blocks.values();
        ids.filter_map(|id| self.places.get(id)).copied().collect()
    }

    /// The first block at `offset` or behind it in the segment.
    pub(super) fn block_from(&self, sequence: u64, offset: u32) -> Option<Place> {
        let (_, id) = self
            .segments
            .get(&sequence)?
            .blocks
            .range(offset..)
            .next()?;
        self.places.get(id).copied()
    }

    /// The first segment behind `after`.
    pub(super) fn segment_after(&self, after: u64) -> Option<u64> {
        let behind = (Bound::Excluded(after), Bound::Unbounded);
        self.segments
            .range(behind)
            .next()
            .map(|(sequence, _)| *sequence)
    }

    /// The segments to rewrite now into one of `limit` bytes. First come those to get away from,
    /// then those with the least alive, all less than half alive.
    pub(super) fn pick(&self, limit: u32) -> Vec<u64> {
        let mut picked: Vec<&Segment> = self
            .segments
            .values()
            .filter(|it| self.may_go(it))
            .collect();
        picked.sort_by_key(|it| (it.state != State::Suspect, it.alive, it.id.sequence));
        let mut size = u64::from(HEADER_BYTES + TRAILER_BYTES);
        let mut sequences = Vec::new();
        for segment in picked {
            size += segment.alive + u64::from(ENTRY_BYTES) * segment.blocks.len() as u64;
            // One alone always fits: it came from a segment.
            if !sequences.is_empty() && u64::from(limit) < size {
                break;
            }
            sequences.push(segment.id.sequence);
        }
        sequences
    }

    fn may_go(&self, segment: &Segment) -> bool {
        let is_told = |before: u64| {
            let before = self.segments.get(&before);
            before.is_some_and(|before| before.state == State::Suspect)
        };
        segment.state != State::Open
            && (segment.state == State::Suspect || segment.is_half_dead())
            // What a given-up segment has behind its end is void as long as this one says so.
            && !segment.before.is_some_and(is_told)
            // The good pieces of a bad block are all that there is of it here.
            && !segment.blocks.values().any(|id| self.bad.contains(id))
    }

    pub(super) fn totals(&self) -> Totals {
        let written: u64 = self.segments.values().map(|it| it.written).sum();
        let alive: u64 = self.segments.values().map(|it| it.alive).sum();
        Totals {
            segments: self.segments.len() as u64,
            blocks: self.places.len() as u64,
            alive,
            dead: written - alive,
            bad: self.bad.len() as u64,
        }
    }
}
