//! Programs that count: `word-count`, `count-distinct`, `top`.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{decimal, split_line, words};
use crate::failure::{Failure, Outcome};
use crate::user::{Batch, Code, Combining, Context, Emit, Map, Part, Reduce};

/// How often each word occurs.
#[derive(Debug)]
pub(super) struct WordCount;

impl Code for WordCount {
    fn mapper(&self, _: &Context<'_>) -> Outcome<Box<dyn Map>> {
        Ok(Box::new(WordMapper))
    }

    fn combining(&self) -> Combining {
        Combining::Sum
    }

    fn reducer(&self, _: &Context<'_>) -> Outcome<Box<dyn Reduce>> {
        Ok(Box::new(Total))
    }
}

struct WordMapper;

impl Map for WordMapper {
    fn map(&mut self, batch: &Batch<'_>, out: &mut dyn Emit) -> Outcome<()> {
        words(batch.bytes).for_each(|word| out.add_part(batch.bytes, word, 1));
        Ok(())
    }
}

/// Writes a key and its sum.
struct Total;

impl Reduce for Total {
    fn begin(&mut self, _key: &[u8], _out: &mut Part) -> Outcome<()> {
        Ok(())
    }

    fn value(&mut self, key: &[u8], value: &[u8], out: &mut Part) -> Outcome<()> {
        let number = value.try_into().map(u64::from_be_bytes);
        let number = number.map_err(|_| Failure::task("a sum is no number of 8 bytes"))?;
        out.bytes.extend_from_slice(key);
        out.bytes.push(b'\t');
        decimal(number, &mut out.bytes);
        out.end_line();
        Ok(())
    }

    fn end(&mut self, _key: &[u8], _out: &mut Part) -> Outcome<()> {
        Ok(())
    }
}

/// How many values of a key differ.
#[derive(Debug)]
pub(super) struct CountDistinct;

impl Code for CountDistinct {
    fn mapper(&self, _: &Context<'_>) -> Outcome<Box<dyn Map>> {
        Ok(Box::new(PairMapper))
    }

    fn combining(&self) -> Combining {
        Combining::Unique
    }

    fn reducer(&self, _: &Context<'_>) -> Outcome<Box<dyn Reduce>> {
        Ok(Box::new(Distinct(0)))
    }
}

struct PairMapper;

impl Map for PairMapper {
    fn map(&mut self, batch: &Batch<'_>, out: &mut dyn Emit) -> Outcome<()> {
        for (_, line) in batch.records() {
            let (key, value) = split_line(line);
            out.emit(key, value);
        }
        Ok(())
    }
}

struct Distinct(u64);

impl Reduce for Distinct {
    fn begin(&mut self, _key: &[u8], _out: &mut Part) -> Outcome<()> {
        self.0 = 0;
        Ok(())
    }

    fn value(&mut self, _key: &[u8], _value: &[u8], _out: &mut Part) -> Outcome<()> {
        self.0 += 1;
        Ok(())
    }

    fn end(&mut self, key: &[u8], out: &mut Part) -> Outcome<()> {
        let mut number = Vec::new();
        decimal(self.0, &mut number);
        out.pair(key, &number);
        Ok(())
    }
}

/// The lines with the largest numbers.
#[derive(Debug)]
pub(super) struct Top {
    pub(super) count: usize,
}

impl Code for Top {
    fn mapper(&self, _: &Context<'_>) -> Outcome<Box<dyn Map>> {
        Ok(Box::new(TopMapper(Largest::new(self.count))))
    }

    fn combining(&self) -> Combining {
        Combining::None
    }

    fn reducer(&self, _: &Context<'_>) -> Outcome<Box<dyn Reduce>> {
        Ok(Box::new(TopReducer(Largest::new(self.count))))
    }

    /// All in one part: that is what is asked for.
    fn partition(&self, _key: &[u8], _hash: u64, _partitions: u32, _ranges: &[Vec<u8>]) -> u32 {
        0
    }
}

/// The lines with the largest numbers so far; of equal numbers the first keys.
struct Largest {
    count: usize,
    heap: BinaryHeap<Reverse<(u64, Reverse<Vec<u8>>)>>,
}

impl Largest {
    fn new(count: usize) -> Self {
        Largest {
            count,
            heap: BinaryHeap::new(),
        }
    }

    fn take(&mut self, number: u64, key: &[u8]) {
        let is_less = |least: &Reverse<(u64, Reverse<Vec<u8>>)>| number < least.0.0;
        if self.count <= self.heap.len() && self.heap.peek().is_some_and(is_less) {
            return;
        }
        self.heap.push(Reverse((number, Reverse(key.to_vec()))));
        if self.count < self.heap.len() {
            self.heap.pop();
        }
    }

    /// From the largest down.
    fn drain(&mut self) -> Vec<(u64, Vec<u8>)> {
        let lines = std::mem::take(&mut self.heap).into_sorted_vec().into_iter();
        lines
            .map(|Reverse((number, Reverse(key)))| (number, key))
            .collect()
    }
}

struct TopMapper(Largest);

impl Map for TopMapper {
    fn map(&mut self, batch: &Batch<'_>, _out: &mut dyn Emit) -> Outcome<()> {
        for (at, line) in batch.records() {
            let split = memchr::memrchr(b'\t', line).map(|at| line.split_at(at));
            let number = split.and_then(|(key, rest)| {
                let number = std::str::from_utf8(&rest[1..]).ok()?.trim().parse().ok()?;
                Some((key, number))
            });
            let (key, number) = number.ok_or_else(|| {
                Failure::task(format!(
                    "the line at byte {at} does not end with a TAB and a number"
                ))
            })?;
            self.0.take(number, key);
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut dyn Emit) -> Outcome<()> {
        for (number, key) in self.0.drain() {
            out.emit(&key, &number.to_be_bytes());
        }
        Ok(())
    }
}

struct TopReducer(Largest);

impl Reduce for TopReducer {
    fn begin(&mut self, _key: &[u8], _out: &mut Part) -> Outcome<()> {
        Ok(())
    }

    fn value(&mut self, key: &[u8], value: &[u8], _out: &mut Part) -> Outcome<()> {
        let number = value.try_into().map(u64::from_be_bytes);
        let number = number.map_err(|_| Failure::task("a number has not 8 bytes"))?;
        self.0.take(number, key);
        Ok(())
    }

    fn end(&mut self, _key: &[u8], _out: &mut Part) -> Outcome<()> {
        Ok(())
    }

    fn finish(&mut self, out: &mut Part) -> Outcome<()> {
        for (number, key) in self.0.drain() {
            let mut text = Vec::new();
            decimal(number, &mut text);
            out.pair(&key, &text);
        }
        Ok(())
    }
}
