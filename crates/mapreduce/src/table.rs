//! Gathers the pairs of a map attempt in bounded memory: sums in a hash table, all else in a buffer
//! that is sorted. What is full becomes a segment.

use std::collections::BTreeMap;

use xxhash_rust::xxh3::xxh3_64;

use crate::failure::{Failure, Outcome};
use crate::shuffle::{Codec, Segment, SegmentWriter};
use crate::sort::{self, Line, Place};
use crate::user::{Code, Combine, Combining, Emit, KEY_BYTES_MAX, VALUE_BYTES_MAX};

/// Slots of a new table.
const SLOTS: usize = 1 << 12;
/// Bytes that a key or pair takes besides its own, about.
const ENTRY_BYTES: usize = 48;

/// A key with its sum.
#[derive(Clone, Copy, Debug)]
struct Sum {
    hash: u64,
    at: u32,
    size: u32,
    sum: u64,
}

/// Sums by key.
#[derive(Debug)]
pub(crate) struct Sums {
    /// Of each slot the upper half of the hash, and the entry's number plus one; 0 is empty.
    slots: Vec<u64>,
    entries: Vec<Sum>,
    keys: Vec<u8>,
}

impl Sums {
    pub(crate) fn new() -> Self {
        Sums {
            slots: vec![0; SLOTS],
            entries: Vec::new(),
            keys: Vec::new(),
        }
    }

    /// A table with room for so many bytes. The operating system gives memory for those that come.
    fn with_room(bytes_max: usize) -> Self {
        Sums {
            slots: vec![0; SLOTS],
            entries: Vec::with_capacity(bytes_max / ENTRY_BYTES + 1),
            keys: Vec::with_capacity(bytes_max),
        }
    }

    /// All keys, in the order in which they came.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &[u8]> {
        let key = |entry: &Sum| {
            let at = entry.at as usize;
            &self.keys[at..at + entry.size as usize]
        };
        self.entries.iter().map(key)
    }

    /// Forgets all keys.
    pub(crate) fn clear(&mut self) {
        self.slots.fill(0);
        self.entries.clear();
        self.keys.clear();
    }

    /// Adds to a key's sum. Whether the key is new.
    #[inline]
    pub(crate) fn add(&mut self, key: &[u8], number: u64) -> bool {
        let hash = xxh3_64(key);
        let mask = self.slots.len() - 1;
        let tag = hash >> 32;
        let mut slot = hash as usize & mask;
        loop {
            let found = self.slots[slot];
            if found == 0 {
                break;
            }
            if found >> 32 == tag {
                let entry = &mut self.entries[(found as u32 - 1) as usize];
                let at = entry.at as usize;
                if self.keys[at..at + entry.size as usize] == *key {
                    entry.sum = entry.sum.saturating_add(number);
                    return false;
                }
            }
            slot = (slot + 1) & mask;
        }
        let at = self.keys.len() as u32;
        self.keys.extend_from_slice(key);
        self.entries.push(Sum {
            hash,
            at,
            size: key.len() as u32,
            sum: number,
        });
        self.slots[slot] = tag << 32 | self.entries.len() as u64;
        if self.slots.len() < self.entries.len() * 2 {
            self.grow();
        }
        true
    }

    fn grow(&mut self) {
        let mask = self.slots.len() * 2 - 1;
        let mut slots = vec![0; mask + 1];
        for (number, entry) in self.entries.iter().enumerate() {
            let mut slot = entry.hash as usize & mask;
            while slots[slot] != 0 {
                slot = (slot + 1) & mask;
            }
            slots[slot] = entry.hash >> 32 << 32 | (number as u64 + 1);
        }
        self.slots = slots;
    }

    /// Bytes that it has, about.
    pub(crate) fn bytes(&self) -> usize {
        self.keys.len() + self.entries.len() * ENTRY_BYTES
    }
}

/// Pairs as they come.
#[derive(Debug, Default)]
struct Pairs {
    lines: Vec<Line>,
    bytes: Vec<u8>,
}

impl Pairs {
    /// Room for so many bytes of pairs. The operating system gives memory for those that come:
    /// a buffer that grew would be there twice while it is copied.
    fn with_room(bytes_max: usize) -> Self {
        Pairs {
            lines: Vec::with_capacity(bytes_max / ENTRY_BYTES + 1),
            bytes: Vec::with_capacity(bytes_max),
        }
    }

    fn bytes(&self) -> usize {
        self.bytes.len() + self.lines.len() * ENTRY_BYTES
    }
}

#[derive(Debug)]
enum Gathered {
    Sums(Sums),
    Pairs(Pairs),
}

/// What a map attempt made and did not yet write.
pub(crate) struct Table {
    code: std::sync::Arc<dyn Code>,
    combiner: Option<Box<dyn Combine>>,
    combining: Combining,
    partitions: u32,
    ranges: Vec<Vec<u8>>,
    codec: Codec,
    gathered: Gathered,
    bytes_max: usize,
    counters: BTreeMap<String, u64>,
    /// The first failure.
    failed: Option<Failure>,
    /// What was full, and is not yet taken.
    segments: Vec<Segment>,
    emitted: u64,
}

impl Table {
    pub(crate) fn new(
        code: std::sync::Arc<dyn Code>,
        combiner: Option<Box<dyn Combine>>,
        partitions: u32,
        ranges: Vec<Vec<u8>>,
        codec: Codec,
        bytes_max: usize,
    ) -> Self {
        let combining = code.combining();
        // Places in the buffers have 32 bits.
        let bytes_max = bytes_max.min(2 << 30);
        Table {
            combiner,
            combining,
            partitions,
            ranges,
            codec,
            gathered: match combining {
                Combining::Sum => Gathered::Sums(Sums::with_room(bytes_max)),
                _ => Gathered::Pairs(Pairs::with_room(bytes_max)),
            },
            bytes_max,
            counters: BTreeMap::new(),
            failed: None,
            segments: Vec::new(),
            emitted: 0,
            code,
        }
    }

    /// The segments of all that was full until now.
    ///
    /// # Errors
    /// `Task`: the first pair that was over its bounds, or that the combiner refused.
    pub(crate) fn take(&mut self) -> Outcome<Vec<Segment>> {
        match self.failed.take() {
            None => Ok(std::mem::take(&mut self.segments)),
            Some(failure) => Err(failure),
        }
    }

    /// The segments of all that is left.
    ///
    /// # Errors
    /// As [`Table::take`].
    pub(crate) fn finish(&mut self) -> Outcome<Vec<Segment>> {
        self.spill();
        self.take()
    }

    fn fail(&mut self, text: String) {
        self.failed.get_or_insert_with(|| Failure::task(text));
    }

    /// The counters, and the number of pairs.
    pub(crate) fn counters(&self) -> BTreeMap<String, u64> {
        let mut counters = self.counters.clone();
        counters.insert("map output records".to_owned(), self.emitted);
        counters
    }

    /// Makes a segment of all that was gathered.
    fn spill(&mut self) {
        let none = Gathered::Pairs(Pairs::default());
        let mut gathered = std::mem::replace(&mut self.gathered, none);
        let segment = match &mut gathered {
            Gathered::Sums(sums) => Ok(self.spill_sums(sums)),
            Gathered::Pairs(pairs) => self.spill_pairs(pairs),
        };
        // Its memory serves again: growing anew would leave as much behind.
        match &mut gathered {
            Gathered::Sums(sums) => sums.clear(),
            Gathered::Pairs(pairs) => {
                pairs.lines.clear();
                pairs.bytes.clear();
            }
        }
        self.gathered = gathered;
        match segment {
            Ok(segment) => self.segments.extend(segment),
            Err(failure) => {
                self.failed.get_or_insert(failure);
            }
        }
    }

    #[inline]
    fn sum(&mut self, key: &[u8], number: u64) {
        if let Gathered::Sums(sums) = &mut self.gathered
            && sums.add(key, number)
            && self.bytes_max < sums.bytes()
        {
            self.spill();
        }
    }

    fn partition(&self, key: &[u8], hash: u64) -> u32 {
        let partition = self
            .code
            .partition(key, hash, self.partitions, &self.ranges);
        partition.min(self.partitions - 1)
    }

    fn spill_sums(&self, sums: &Sums) -> Option<Segment> {
        if sums.entries.is_empty() {
            return None;
        }
        let key = |entry: &Sum| {
            let at = entry.at as usize;
            &sums.keys[at..at + entry.size as usize]
        };
        let numbered = sums.entries.iter().zip(0..);
        let mut order: Vec<Place> = numbered
            .map(|(entry, number)| {
                let partition = self.partition(key(entry), entry.hash);
                Place::new(partition, key(entry), number)
            })
            .collect();
        sort::order(&mut order, |number| key(&sums.entries[number as usize]));
        let raw = sums.keys.len() + sums.entries.len() * size_of::<u64>();
        let mut writer = SegmentWriter::with_room(self.codec, raw, sums.entries.len());
        let mut order = order.into_iter().peekable();
        for partition in 0..self.partitions {
            writer.begin();
            while let Some(place) = order.next_if(|place| place.partition == partition) {
                let entry = &sums.entries[place.number as usize];
                writer.push(key(entry), &entry.sum.to_be_bytes());
            }
            writer.end();
        }
        Some(writer.finish())
    }

    fn spill_pairs(&mut self, pairs: &mut Pairs) -> Outcome<Option<Segment>> {
        let Pairs { lines, bytes } = pairs;
        if lines.is_empty() {
            return Ok(None);
        }
        sort::sort(lines, bytes);
        if self.combining == Combining::Unique {
            lines.dedup_by(|one, other| {
                one.partition == other.partition && one.pair(bytes) == other.pair(bytes)
            });
        }
        let mut writer = SegmentWriter::with_room(self.codec, bytes.len(), lines.len());
        let mut rest = &lines[..];
        for partition in 0..self.partitions {
            let end = rest.partition_point(|line| line.partition <= partition);
            let (own, others) = rest.split_at(end);
            rest = others;
            writer.begin();
            match &mut self.combiner {
                Some(combiner) => {
                    let mut combined = Combined::default();
                    combined.combine(combiner.as_mut(), own, bytes)?;
                    combined.write(&mut writer)?;
                    for (name, number) in combined.counters {
                        *self.counters.entry(name).or_default() += number;
                    }
                }
                None => {
                    for line in own {
                        writer.push(line.key(bytes), line.value(bytes));
                    }
                }
            }
            writer.end();
        }
        Ok(Some(writer.finish()))
    }
}

/// What a combiner made of the pairs of one partition.
#[derive(Default)]
struct Combined {
    pairs: Pairs,
    counters: BTreeMap<String, u64>,
    refused: bool,
}

impl Combined {
    fn combine(&mut self, combiner: &mut dyn Combine, lines: &[Line], bytes: &[u8]) -> Outcome<()> {
        if lines.is_empty() {
            return Ok(());
        }
        for line in lines {
            let (key, value) = line.pair(bytes);
            combiner.pair(key, value, self)?;
        }
        combiner.end(self)
    }

    /// Writes the pairs in their order: a combiner may give others than it took.
    fn write(&mut self, writer: &mut SegmentWriter) -> Outcome<()> {
        if self.refused || u32::MAX as usize <= self.pairs.bytes.len() {
            return Err(Failure::task("a combiner's pairs are too large"));
        }
        let Pairs { lines, bytes } = &mut self.pairs;
        sort::sort(lines, bytes);
        for line in lines {
            writer.push(line.key(bytes), line.value(bytes));
        }
        Ok(())
    }
}

impl Emit for Combined {
    fn emit(&mut self, key: &[u8], value: &[u8]) {
        if KEY_BYTES_MAX < key.len() || VALUE_BYTES_MAX < value.len() {
            self.refused = true;
            return;
        }
        let Pairs { lines, bytes } = &mut self.pairs;
        // Beyond 4 GiB the places wrap; `write` refuses that.
        lines.push(Line::new(0, key, bytes.len() as u32, value.len() as u32));
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(value);
    }

    fn add(&mut self, key: &[u8], number: u64) {
        self.emit(key, &number.to_be_bytes());
    }

    fn count(&mut self, counter: &str, number: u64) {
        *self.counters.entry(counter.to_owned()).or_default() += number;
    }
}

impl Emit for Table {
    fn emit(&mut self, key: &[u8], value: &[u8]) {
        let bytes = key.len() + value.len() + ENTRY_BYTES;
        let is_large = KEY_BYTES_MAX < key.len() || VALUE_BYTES_MAX < value.len();
        if is_large || self.bytes_max < bytes {
            let memory = self.bytes_max;
            return self.fail(format!(
                "a key of {} bytes with a value of {}: at most {KEY_BYTES_MAX} and \
                 {VALUE_BYTES_MAX}, and memory for {memory}",
                key.len(),
                value.len()
            ));
        }
        match &self.gathered {
            Gathered::Pairs(pairs) if self.bytes_max < pairs.bytes() + bytes => self.spill(),
            _ => {}
        }
        self.emitted += 1;
        let partition = self.partition(key, xxh3_64(key));
        match &mut self.gathered {
            Gathered::Pairs(pairs) => {
                let at = pairs.bytes.len() as u32;
                pairs.bytes.extend_from_slice(key);
                pairs.bytes.extend_from_slice(value);
                pairs
                    .lines
                    .push(Line::new(partition, key, at, value.len() as u32));
            }
            Gathered::Sums(_) => match value.try_into() {
                Ok(number) => self.sum(key, u64::from_be_bytes(number)),
                Err(_) => {
                    let text = "a value that is no number of 8 bytes, of a program that sums";
                    self.fail(text.to_owned());
                }
            },
        }
    }

    fn add(&mut self, key: &[u8], number: u64) {
        match &self.gathered {
            Gathered::Sums(_) if key.len() <= KEY_BYTES_MAX => {
                self.emitted += 1;
                self.sum(key, number);
            }
            _ => self.emit(key, &number.to_be_bytes()),
        }
    }

    fn count(&mut self, counter: &str, number: u64) {
        match self.counters.get_mut(counter) {
            Some(count) => *count += number,
            None => drop(self.counters.insert(counter.to_owned(), number)),
        }
    }
}

#[cfg(test)]
mod tests;
