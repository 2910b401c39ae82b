//! Gathers the pairs of a map attempt in bounded memory. Sums, and pairs that are there once, are
//! in a hash table; all else is in a buffer that is sorted. What is full becomes a segment.

mod entries;
mod unique;

use std::collections::BTreeMap;
use std::ops::Range;

use xxhash_rust::xxh3::xxh3_64;

use crate::failure::{Failure, Outcome};
use crate::shuffle::{Codec, Segment, SegmentWriter};
use crate::sort::{self, Line};
use crate::table::entries::Entries;
use crate::table::unique::Unique;
use crate::user::{Code, Combine, Combining, Emit, KEY_BYTES_MAX, VALUE_BYTES_MAX};

/// Bytes that a pair takes besides its own, about.
const ENTRY_BYTES: usize = 48;

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

    /// Adds a pair. Beyond 4 GiB its place wraps: the caller has fewer, or refuses them.
    fn push(&mut self, partition: u32, key: &[u8], value: &[u8]) {
        let (at, size) = (self.bytes.len() as u32, value.len() as u32);
        self.lines.push(Line::new(partition, key, at, size));
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
    }
}

#[derive(Debug)]
enum Gathered {
    Sums(Entries),
    Unique(Unique),
    Pairs(Pairs),
}

/// Memory of a table. It serves one attempt after the other: the operating system clears each page
/// that it gives.
#[derive(Debug)]
pub(crate) struct Room {
    gathered: Gathered,
    bytes_max: usize,
}

impl Room {
    /// Room for so many bytes, at most, of pairs that are combined like this.
    pub(crate) fn new(combining: Combining, bytes_max: usize) -> Self {
        // Places in the buffers have 32 bits.
        let bytes_max = bytes_max.min(2 << 30);
        let gathered = match combining {
            Combining::Sum => Gathered::Sums(Entries::sums(bytes_max)),
            Combining::Unique => Gathered::Unique(Unique::new(bytes_max)),
            _ => Gathered::Pairs(Pairs::with_room(bytes_max)),
        };
        Room {
            gathered,
            bytes_max,
        }
    }
}

/// What a map attempt made and did not yet write.
pub(crate) struct Table {
    code: std::sync::Arc<dyn Code>,
    combiner: Option<Box<dyn Combine>>,
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
        room: Room,
    ) -> Self {
        Table {
            combiner,
            partitions,
            ranges,
            codec,
            gathered: room.gathered,
            bytes_max: room.bytes_max,
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

    /// The room of a table that is finished.
    pub(crate) fn into_room(self) -> Room {
        Room {
            gathered: self.gathered,
            bytes_max: self.bytes_max,
        }
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

    /// Makes a segment of all that was gathered. Its memory serves again: growing anew would leave
    /// as much behind.
    fn spill(&mut self) {
        let none = Gathered::Pairs(Pairs::default());
        let mut gathered = std::mem::replace(&mut self.gathered, none);
        let segment = match &mut gathered {
            Gathered::Sums(sums) => Ok(self.spill_sums(sums)),
            Gathered::Unique(unique) => Ok(self.spill_unique(unique)),
            Gathered::Pairs(pairs) => {
                let segment = self.spill_pairs(pairs);
                pairs.lines.clear();
                pairs.bytes.clear();
                segment
            }
        };
        self.gathered = gathered;
        match segment {
            Ok(segment) => self.segments.extend(segment),
            Err(failure) => {
                self.failed.get_or_insert(failure);
            }
        }
    }

    #[inline]
    fn sum(&mut self, text: &[u8], key: Range<usize>, number: u64) {
        if let Gathered::Sums(sums) = &mut self.gathered {
            sums.add(text, key, number);
            if self.bytes_max < sums.bytes() {
                self.spill();
            }
        }
    }

    fn partition(&self, key: &[u8], hash: u64) -> u32 {
        let partition = self
            .code
            .partition(key, hash, self.partitions, &self.ranges);
        partition.min(self.partitions - 1)
    }

    fn spill_sums(&self, sums: &mut Entries) -> Option<Segment> {
        let mut writer = self.writer(sums.len(), sums.written())?;
        let partition = |key: &[u8]| self.partition(key, xxh3_64(key));
        sums.drain(
            self.partitions,
            partition,
            |_| 0,
            |partition, key, sum| {
                writer.begin_until(partition);
                writer.push(key, &sum.to_be_bytes());
            },
        );
        writer.begin_until(self.partitions - 1);
        Some(writer.finish())
    }

    fn spill_unique(&self, unique: &mut Unique) -> Option<Segment> {
        let mut writer = self.writer(unique.len(), unique.written())?;
        let partition = |key: &[u8]| self.partition(key, xxh3_64(key));
        unique.drain(self.partitions, partition, |partition, key, value| {
            writer.begin_until(partition);
            writer.push(key, value);
        });
        writer.begin_until(self.partitions - 1);
        Some(writer.finish())
    }

    /// A writer for so many pairs of so many bytes, if there are any.
    fn writer(&self, count: usize, bytes: usize) -> Option<SegmentWriter> {
        (0 < count).then(|| SegmentWriter::with_room(self.codec, bytes, count))
    }

    fn spill_pairs(&mut self, pairs: &mut Pairs) -> Outcome<Option<Segment>> {
        let Pairs { lines, bytes } = pairs;
        if lines.is_empty() {
            return Ok(None);
        }
        sort::sort(lines, bytes);
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
        self.pairs.push(0, key, value);
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
        self.emit_part(key, 0..key.len(), value);
    }

    fn emit_part(&mut self, text: &[u8], key: Range<usize>, value: &[u8]) {
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
        let before = match &self.gathered {
            Gathered::Pairs(pairs) => pairs.bytes(),
            Gathered::Unique(unique) => unique.bytes(),
            Gathered::Sums(_) => 0,
        };
        if self.bytes_max < before + bytes {
            self.spill();
        }
        self.emitted += 1;
        if let Gathered::Unique(unique) = &mut self.gathered {
            return unique.push(text, key, value);
        }
        let partition = self.partition(&text[key.clone()], xxh3_64(&text[key.clone()]));
        match (&mut self.gathered, value.try_into()) {
            (Gathered::Pairs(pairs), _) => pairs.push(partition, &text[key], value),
            (_, Ok(number)) => self.sum(text, key, u64::from_be_bytes(number)),
            (_, Err(_)) => {
                let text = "a value that is no number of 8 bytes, of a program that sums";
                self.fail(text.to_owned());
            }
        }
    }

    fn add(&mut self, key: &[u8], number: u64) {
        self.add_part(key, 0..key.len(), number);
    }

    fn add_part(&mut self, text: &[u8], key: Range<usize>, number: u64) {
        match &self.gathered {
            Gathered::Sums(_) if key.len() <= KEY_BYTES_MAX => {
                self.emitted += 1;
                self.sum(text, key, number);
            }
            _ => self.emit_part(text, key, &number.to_be_bytes()),
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
