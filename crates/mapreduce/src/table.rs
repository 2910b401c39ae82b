//! Gathers the pairs of a map attempt in bounded memory: sums in a hash table, all else in a buffer
//! that is sorted. What is full becomes a segment.

use std::collections::BTreeMap;

use xxhash_rust::xxh3::xxh3_64;

use crate::failure::{Failure, Outcome};
use crate::shuffle::{Codec, Segment, SegmentWriter};
use crate::sort::{self, Line};
use crate::user::{Code, Combine, Combining, Emit, KEY_BYTES_MAX, VALUE_BYTES_MAX};

/// Slots of a new table, at least, of one that has so much memory.
const SLOTS: usize = 1 << 12;
/// How many times as many slots a table has when it grew: while it does, both are there.
const GROWTH: usize = 4;
/// Bytes that a pair takes besides its own, about.
const ENTRY_BYTES: usize = 48;
/// Bytes of a key that stand in its slot: others are apart.
const INLINE: usize = 16;
/// Keys that wait to be looked up at once.
const WAITING: usize = 32;

/// A key with its sum, in the slot that its hash names or in the next that was free.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    /// The key, if it fits; else its first eight bytes, and its place among the others.
    head: [u8; INLINE],
    sum: u64,
    /// Half of the hash; of sums that are sorted, the partition.
    hash: u32,
    /// Bytes of the key, and one more; 0 is an empty slot.
    size: u32,
}

impl Sum {
    fn key<'a>(&'a self, keys: &'a [u8]) -> &'a [u8] {
        let size = self.size as usize - 1;
        if size <= INLINE {
            return &self.head[..size];
        }
        let at = u32::from_le_bytes(self.head[8..12].try_into().expect("four bytes")) as usize;
        &keys[at..at + size]
    }
}

/// Sums by key. A slot is far away: keys wait, so that many slots are on their way at once.
#[derive(Debug)]
pub(crate) struct Sums {
    slots: Vec<Sum>,
    slots_max: usize,
    count: usize,
    keys: Vec<u8>,
    waiting: Vec<Sum>,
}

impl Sums {
    /// A table of so many bytes, at most. The operating system gives memory for those that come.
    pub(crate) fn new(bytes_max: usize) -> Self {
        let slots_max = (bytes_max / size_of::<Sum>()).max(4 * WAITING);
        let mut slots = slots_max;
        while SLOTS < slots {
            slots = slots.div_ceil(GROWTH);
        }
        Sums {
            slots: vec![Sum::default(); slots],
            slots_max,
            count: 0,
            keys: Vec::with_capacity(bytes_max),
            waiting: Vec::with_capacity(WAITING),
        }
    }

    /// All keys.
    pub(crate) fn keys(&mut self) -> impl Iterator<Item = &[u8]> {
        self.settle();
        let taken = self.slots.iter().filter(|sum| sum.size != 0);
        taken.map(|sum| sum.key(&self.keys))
    }

    /// Forgets all keys.
    pub(crate) fn clear(&mut self) {
        self.slots.fill(Sum::default());
        self.count = 0;
        self.keys.clear();
        self.waiting.clear();
    }

    /// Adds to a key's sum.
    #[inline]
    pub(crate) fn add(&mut self, key: &[u8], number: u64) {
        let new = Sum {
            head: sort::head(key),
            sum: number,
            hash: xxh3_64(key) as u32,
            size: key.len() as u32 + 1,
        };
        if INLINE < key.len() {
            return self.insert(new, key);
        }
        self.waiting.push(new);
        if self.waiting.len() == WAITING {
            self.settle();
        }
    }

    /// Looks up the keys that wait.
    fn settle(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        // No slot waits for another: the processor fetches them together.
        let sizes = waiting.iter().map(|sum| self.slots[self.place(sum)].size);
        std::hint::black_box(sizes.fold(0, |all, size| all ^ size));
        for sum in &waiting {
            self.insert(*sum, &sum.head);
        }
        self.waiting = waiting;
        self.waiting.clear();
    }

    #[inline]
    fn place(&self, sum: &Sum) -> usize {
        ((u64::from(sum.hash) * self.slots.len() as u64) >> 32) as usize
    }

    /// The slot that is looked at next.
    #[inline]
    fn after(&self, at: usize) -> usize {
        if at + 1 == self.slots.len() {
            0
        } else {
            at + 1
        }
    }

    /// Adds to a sum, or takes a slot for it. The key is only read if it is not in `new`.
    #[inline]
    fn insert(&mut self, mut new: Sum, key: &[u8]) {
        let is_long = INLINE + 1 < new.size as usize;
        let mut at = self.place(&new);
        loop {
            let slot = &mut self.slots[at];
            if slot.size == 0 {
                break;
            }
            if (slot.hash, slot.size) == (new.hash, new.size) {
                let is_same = match is_long {
                    false => slot.head == new.head,
                    true => slot.key(&self.keys) == key,
                };
                if is_same {
                    slot.sum = slot.sum.saturating_add(new.sum);
                    return;
                }
            }
            at = self.after(at);
        }
        if is_long {
            new.head[8..12].copy_from_slice(&(self.keys.len() as u32).to_le_bytes());
            self.keys.extend_from_slice(key);
        }
        self.slots[at] = new;
        self.count += 1;
        let is_full = self.slots.len() * 3 < self.count * 4;
        if is_full && self.slots.len() < self.slots_max {
            self.grow();
        }
    }

    fn grow(&mut self) {
        let count = (self.slots.len() * GROWTH).min(self.slots_max);
        let old = std::mem::replace(&mut self.slots, vec![Sum::default(); count]);
        for sum in old.into_iter().filter(|sum| sum.size != 0) {
            let mut at = self.place(&sum);
            while self.slots[at].size != 0 {
                at = self.after(at);
            }
            self.slots[at] = sum;
        }
    }

    /// Bytes that its keys need, about: a quarter of the slots stays empty.
    pub(crate) fn bytes(&self) -> usize {
        self.keys.len() + self.count * size_of::<Sum>() * 4 / 3
    }

    /// Gives all sums to `take`, in the order of their partition and key, and forgets them.
    fn drain(&mut self, partition: impl Fn(&[u8]) -> u32, mut take: impl FnMut(u32, &[u8], u64)) {
        self.settle();
        let (count, keys) = (self.slots.len(), &self.keys);
        self.slots.retain(|sum| sum.size != 0);
        for sum in &mut self.slots {
            sum.hash = partition(sum.key(keys));
        }
        self.slots.sort_unstable_by(|one, other| {
            let first = |sum: &Sum| (sum.hash, sort::prefix(&sum.head));
            let by_first = first(one).cmp(&first(other));
            by_first.then_with(|| one.key(keys).cmp(other.key(keys)))
        });
        for sum in &self.slots {
            take(sum.hash, sum.key(keys), sum.sum);
        }
        self.slots.clear();
        self.slots.resize(count, Sum::default());
        self.count = 0;
        self.keys.clear();
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
                Combining::Sum => Gathered::Sums(Sums::new(bytes_max)),
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

    /// Makes a segment of all that was gathered. Its memory serves again: growing anew would leave
    /// as much behind.
    fn spill(&mut self) {
        let none = Gathered::Pairs(Pairs::default());
        let mut gathered = std::mem::replace(&mut self.gathered, none);
        let segment = match &mut gathered {
            Gathered::Sums(sums) => Ok(self.spill_sums(sums)),
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
    fn sum(&mut self, key: &[u8], number: u64) {
        if let Gathered::Sums(sums) = &mut self.gathered {
            sums.add(key, number);
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

    fn spill_sums(&self, sums: &mut Sums) -> Option<Segment> {
        sums.settle();
        if sums.count == 0 {
            return None;
        }
        let raw = sums.keys.len() + sums.count * (INLINE + size_of::<u64>());
        let mut writer = SegmentWriter::with_room(self.codec, raw, sums.count);
        let partition = |key: &[u8]| self.partition(key, xxh3_64(key));
        let mut begun = 0;
        sums.drain(partition, |partition, key, sum| {
            while begun <= partition {
                writer.begin();
                begun += 1;
            }
            writer.push(key, &sum.to_be_bytes());
        });
        (begun..self.partitions).for_each(|_| writer.begin());
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
            Gathered::Pairs(pairs) => pairs.push(partition, key, value),
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
