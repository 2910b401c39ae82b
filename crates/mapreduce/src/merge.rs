//! Merges sorted runs, piece by piece: a pure machine that asks for bytes and never waits.
//!
//! ```text
//!  run 0: bytes ──▶ block ──▶ record ┐
//!  run 1: bytes ──▶ block ──▶ record ├─ heap ──▶ the least ──▶ reducer, or a new run
//!  run 2: asks for more bytes        ┘
//! ```
//!
//! Invariants:
//! - MERGE-1 records come in the order of key and value, from any run.
//! - MERGE-2 a run ends with all its records, or the attempt fails.

use std::cmp::Ordering;
use std::collections::VecDeque;

use bytes::{Buf, Bytes};

use crate::failure::{Failure, Outcome};
use crate::shuffle::{BLOCK_HEAD, Block, BlockHead, Codec};
use crate::sort;
use crate::user::{Combining, Part, Reduce};

/// What a merge needs before it goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// More bytes of this run.
    Need(usize),
    /// The output to be taken away.
    Full,
    /// Nothing: all is merged.
    Done,
}

/// A run of which bytes arrive.
#[derive(Debug)]
struct Source {
    codec: Codec,
    /// What arrived and was not read, in order.
    pieces: VecDeque<Bytes>,
    /// Bytes of the pieces.
    bytes: usize,
    /// Bytes that have not arrived.
    missing: u64,
    records: u64,
    block: Block,
}

/// The first record of a run. Most comparisons look at nothing else.
#[derive(Clone, Copy, Debug)]
struct First {
    /// The first sixteen bytes of the key, as a number that sorts as they do.
    key: u128,
    /// The first eight bytes of the value, in the same way.
    value: u64,
    run: u32,
    /// Bytes of the key, and of the value: one more than are here where they are longer.
    sizes: (u8, u8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Advance {
    Record,
    Need,
    End,
}

impl Source {
    /// Goes to the next record. A block that is in several pieces is put together in `whole`.
    fn advance(&mut self, whole: &mut Vec<u8>) -> Outcome<Advance> {
        loop {
            if self.block.next()? {
                let left = self.records.checked_sub(1);
                self.records = left.ok_or_else(|| wrong("more"))?;
                return Ok(Advance::Record);
            }
            if self.bytes == 0 && self.missing == 0 {
                return match self.records {
                    0 => Ok(Advance::End),
                    _ => Err(wrong("fewer")),
                };
            }
            if self.bytes < BLOCK_HEAD {
                return self.need();
            }
            let head = BlockHead::parse(self.first(BLOCK_HEAD, whole))?;
            let count = BLOCK_HEAD + head.stored;
            if self.bytes < count {
                return self.need();
            }
            let (codec, mut block) = (self.codec, std::mem::take(&mut self.block));
            let opened = block.open(codec, head, &self.first(count, whole)[BLOCK_HEAD..]);
            self.block = block;
            opened?;
            self.skip(count);
        }
    }

    /// The first bytes that arrived, so many of which are there.
    fn first<'a>(&'a self, count: usize, whole: &'a mut Vec<u8>) -> &'a [u8] {
        if let Some(bytes) = self.pieces.front().and_then(|piece| piece.get(..count)) {
            return bytes;
        }
        whole.clear();
        for piece in &self.pieces {
            let left = count - whole.len();
            whole.extend_from_slice(&piece[..left.min(piece.len())]);
        }
        whole
    }

    fn skip(&mut self, mut count: usize) {
        self.bytes -= count;
        while let Some(piece) = self.pieces.front_mut() {
            if count < piece.len() {
                piece.advance(count);
                return;
            }
            count -= piece.len();
            self.pieces.pop_front();
        }
    }

    fn need(&self) -> Outcome<Advance> {
        match self.missing {
            0 => Err(Failure::task("a run of the shuffle ends within a block")),
            _ => Ok(Advance::Need),
        }
    }
}

fn wrong(what: &str) -> Failure {
    Failure::task(format!(
        "a run of the shuffle has {what} records than its manifest says"
    ))
}

/// Merges runs.
#[derive(Debug)]
pub(crate) struct Merger {
    sources: Vec<Source>,
    /// The records that are next, the least first.
    heap: Vec<First>,
    /// Runs that must advance before the next record is known.
    pending: Vec<u32>,
    /// A block that is in several pieces.
    whole: Vec<u8>,
}

impl Merger {
    /// A merge of runs of so many bytes and records.
    pub(crate) fn new(codec: Codec, runs: impl Iterator<Item = (u64, u64)>) -> Self {
        let source = |(missing, records)| Source {
            codec,
            pieces: VecDeque::new(),
            bytes: 0,
            missing,
            records,
            block: Block::default(),
        };
        let sources: Vec<Source> = runs.map(source).collect();
        Merger {
            heap: Vec::with_capacity(sources.len()),
            pending: (0..sources.len() as u32).rev().collect(),
            whole: Vec::new(),
            sources,
        }
    }

    /// Bytes of a run that have not arrived.
    pub(crate) fn missing(&self, run: usize) -> u64 {
        self.sources[run].missing
    }

    /// A run that needs bytes, and all others that soon will.
    pub(crate) fn low(&self, run: usize, bytes: u64) -> Vec<usize> {
        let is_low = |(number, source): &(usize, &Source)| {
            *number == run || 0 < source.missing && (source.bytes as u64) < bytes
        };
        let low = self.sources.iter().enumerate().filter(is_low);
        low.map(|(number, _)| number).collect()
    }

    /// The next bytes of a run.
    pub(crate) fn feed(&mut self, run: usize, bytes: Bytes) {
        let source = &mut self.sources[run];
        source.missing = source.missing.saturating_sub(bytes.len() as u64);
        source.bytes += bytes.len();
        if !bytes.is_empty() {
            source.pieces.push_back(bytes);
        }
    }

    /// Gives records to `take` until it wants no more, or a run lacks bytes.
    pub(crate) fn step(
        &mut self,
        mut take: impl FnMut(&[u8], &[u8]) -> Outcome<bool>,
    ) -> Outcome<Step> {
        loop {
            while let Some(run) = self.pending.pop() {
                match self.sources[run as usize].advance(&mut self.whole)? {
                    Advance::Record => self.insert(run),
                    Advance::End => {}
                    Advance::Need => {
                        self.pending.push(run);
                        return Ok(Step::Need(run as usize));
                    }
                }
            }
            let Some(least) = self.heap.first().map(|first| first.run) else {
                return Ok(Step::Done);
            };
            let source = &mut self.sources[least as usize];
            let goes_on = take(&source.block.key, source.block.value())?;
            match source.advance(&mut self.whole)? {
                Advance::Record => self.sink(self.first(least)),
                Advance::End => self.remove_first(),
                Advance::Need => {
                    self.remove_first();
                    self.pending.push(least);
                }
            }
            if !goes_on {
                return Ok(Step::Full);
            }
        }
    }

    fn first(&self, run: u32) -> First {
        let Block { key, .. } = &self.sources[run as usize].block;
        let value = self.sources[run as usize].block.value();
        First {
            key: sort::head(key, 0..key.len()).swap_bytes(),
            value: sort::prefix(value),
            run,
            sizes: (key.len().min(17) as u8, value.len().min(9) as u8),
        }
    }

    #[inline]
    fn is_before(&self, one: &First, other: &First) -> bool {
        let block = |first: &First| &self.sources[first.run as usize].block;
        let by_head = (one.key, one.sizes.0).cmp(&(other.key, other.sizes.0));
        let by_key = by_head.then_with(|| match one.sizes.0 {
            17 => block(one).key.cmp(&block(other).key),
            _ => Ordering::Equal,
        });
        let by_value = || (one.value, one.sizes.1).cmp(&(other.value, other.sizes.1));
        let by_pair = by_key.then_with(by_value).then_with(|| match one.sizes.1 {
            9 => block(one).value().cmp(block(other).value()),
            _ => Ordering::Equal,
        });
        by_pair.then(one.run.cmp(&other.run)).is_lt()
    }

    fn insert(&mut self, run: u32) {
        let new = self.first(run);
        self.heap.push(new);
        self.rise(new, self.heap.len() - 1);
    }

    fn remove_first(&mut self) {
        if let Some(last) = self.heap.pop()
            && !self.heap.is_empty()
        {
            self.sink(last);
        }
    }

    /// Puts a record in the place of the least. It goes to the end of a branch and rises: most come
    /// late, and one comparison for each step down is enough.
    fn sink(&mut self, new: First) {
        let mut at = 0;
        while let Some(left) = self.heap.get(2 * at + 1) {
            let right = self.heap.get(2 * at + 2);
            let is_right = right.is_some_and(|right| self.is_before(right, left));
            let least = 2 * at + 1 + usize::from(is_right);
            self.heap[at] = self.heap[least];
            at = least;
        }
        self.rise(new, at);
    }

    /// Puts a record at this place, or above.
    fn rise(&mut self, new: First, mut at: usize) {
        while 0 < at && self.is_before(&new, &self.heap[(at - 1) / 2]) {
            self.heap[at] = self.heap[(at - 1) / 2];
            at = (at - 1) / 2;
        }
        self.heap[at] = new;
    }
}

/// Gives the records of a merge to a reducer, key by key.
pub(crate) struct Reduction {
    reducer: Box<dyn Reduce>,
    combining: Combining,
    key: Vec<u8>,
    is_open: bool,
    value: Vec<u8>,
    sum: u64,
    pub(crate) records: u64,
    pub(crate) part: Part,
}

impl Reduction {
    pub(crate) fn new(reducer: Box<dyn Reduce>, combining: Combining) -> Self {
        Reduction {
            reducer,
            combining,
            key: Vec::new(),
            is_open: false,
            value: Vec::new(),
            sum: 0,
            records: 0,
            part: Part::default(),
        }
    }

    /// The next record.
    pub(crate) fn take(&mut self, key: &[u8], value: &[u8]) -> Outcome<()> {
        self.records += 1;
        let is_new = !self.is_open || self.key != key;
        if is_new {
            self.end_key()?;
            self.key.clear();
            self.key.extend_from_slice(key);
            self.is_open = true;
            self.reducer.begin(key, &mut self.part)?;
        }
        match self.combining {
            Combining::Sum => {
                let number = value.try_into().map(u64::from_be_bytes);
                let number = number.map_err(|_| Failure::task("a sum is no number of 8 bytes"))?;
                self.sum = self.sum.saturating_add(number);
                return Ok(());
            }
            Combining::Unique if !is_new && self.value == value => return Ok(()),
            Combining::Unique => {
                self.value.clear();
                self.value.extend_from_slice(value);
            }
            Combining::None | Combining::Program => {}
        }
        self.reducer.value(key, value, &mut self.part)
    }

    fn end_key(&mut self) -> Outcome<()> {
        if !std::mem::take(&mut self.is_open) {
            return Ok(());
        }
        if self.combining == Combining::Sum {
            let sum = std::mem::take(&mut self.sum).to_be_bytes();
            self.reducer.value(&self.key, &sum, &mut self.part)?;
        }
        self.reducer.end(&self.key, &mut self.part)
    }

    /// The end of the partition.
    pub(crate) fn finish(&mut self) -> Outcome<()> {
        self.end_key()?;
        self.reducer.finish(&mut self.part)
    }
}

#[cfg(test)]
mod tests;
