//! Sums by key, in a hash table.

use std::ops::Range;

use xxhash_rust::xxh3::xxh3_64;

use crate::sort;

/// Slots of a new table.
const SLOTS: usize = 1 << 12;
/// Bytes that a sum takes, about: itself, two slots, and its place in the order of all.
const SUM_BYTES: usize = size_of::<Sum>() + 2 * size_of::<Slot>() + size_of::<u128>();
/// Bytes of a key that stand beside its sum: others are apart.
const INLINE: usize = 16;
/// Keys that wait to be looked up at once.
const WAITING: usize = 256;

/// A key with its sum. No line of the processor's cache has a part of one.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(32))]
struct Sum {
    /// The key, if it fits; else its first eight bytes, and its place among the others.
    head: [u8; INLINE],
    sum: u64,
    /// Bytes of the key.
    size: u32,
    /// Half of the hash; of sums that are sorted, the partition.
    hash: u32,
}

impl Sum {
    fn key<'a>(&'a self, keys: &'a [u8]) -> &'a [u8] {
        let size = self.size as usize;
        if size <= INLINE {
            return &self.head[..size];
        }
        let at = u32::from_le_bytes(self.head[8..12].try_into().expect("four bytes")) as usize;
        &keys[at..at + size]
    }
}

/// Where a sum is, in the slot that its hash names or in the next that was free.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    hash: u32,
    /// The place of the sum; 0 is an empty slot.
    place: u32,
}

/// Sums by key. Slots and sums are far away: keys wait, so that many are on their way at once.
#[derive(Debug)]
pub(crate) struct Sums {
    waiting: Vec<Sum>,
    /// How many of them are keys.
    waits: usize,
    slots: Vec<Slot>,
    /// In the order of their first keys. The first is of no key.
    sums: Vec<Sum>,
    keys: Vec<u8>,
    /// The order of all: the prefix of a key, then the place of its sum.
    order: Vec<u128>,
}

impl Sums {
    /// A table of so many bytes, at most. The operating system gives memory for those that come.
    pub(crate) fn new(bytes_max: usize) -> Self {
        let sums_max = (bytes_max / SUM_BYTES).max(WAITING) + WAITING + 1;
        let mut sums = Vec::with_capacity(sums_max);
        sums.push(Sum::default());
        Sums {
            waiting: vec![Sum::default(); WAITING],
            waits: 0,
            slots: vec![Slot::default(); (2 * sums_max).next_power_of_two().min(SLOTS)],
            sums,
            keys: Vec::with_capacity(bytes_max),
            order: Vec::with_capacity(sums_max),
        }
    }

    /// All keys.
    pub(crate) fn keys(&mut self) -> impl Iterator<Item = &[u8]> {
        self.settle();
        self.sums[1..].iter().map(|sum| sum.key(&self.keys))
    }

    /// Forgets all keys.
    pub(crate) fn clear(&mut self) {
        self.waits = 0;
        self.slots.fill(Slot::default());
        self.sums.truncate(1);
        self.keys.clear();
    }

    /// Adds to the sum of a key that is a part of a text.
    #[inline]
    pub(crate) fn add(&mut self, text: &[u8], key: Range<usize>, number: u64) {
        let size = key.len();
        let head = sort::head(text, key.clone());
        let new = &mut self.waiting[self.waits];
        new.head = head.to_le_bytes();
        new.sum = number;
        new.size = size as u32;
        new.hash = hash(head, size);
        if INLINE < size {
            let mut new = *new;
            new.hash = xxh3_64(&text[key.clone()]) as u32;
            return self.insert(&new, &text[key]);
        }
        self.waits += 1;
        if self.waits == WAITING {
            self.settle();
        }
    }

    /// Looks up the keys that wait.
    fn settle(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        let new = &waiting[..self.waits];
        // No slot waits for another, and no sum: the processor fetches them together.
        let slots = new.iter().map(|sum| self.slots[self.at(sum.hash)]);
        std::hint::black_box(slots.clone().fold(0, |all, slot| all ^ slot.place));
        let sums = slots.map(|slot| self.sums[slot.place as usize].size);
        std::hint::black_box(sums.fold(0, |all, size| all ^ size));
        for sum in new {
            self.insert(sum, &sum.head);
        }
        self.waiting = waiting;
        self.waits = 0;
    }

    /// The slot that a hash names.
    #[inline]
    fn at(&self, hash: u32) -> usize {
        ((u64::from(hash) * self.slots.len() as u64) >> 32) as usize
    }

    /// The slot that is looked at next.
    #[inline]
    fn after(&self, at: usize) -> usize {
        (at + 1) & (self.slots.len() - 1)
    }

    /// Adds to a sum, or makes it. The key is only read if it is not in `new`.
    #[inline]
    fn insert(&mut self, new: &Sum, key: &[u8]) {
        let is_long = INLINE < new.size as usize;
        let mut at = self.at(new.hash);
        loop {
            let slot = self.slots[at];
            if slot.place == 0 {
                break;
            }
            if slot.hash == new.hash {
                let sum = &mut self.sums[slot.place as usize];
                let is_same = match is_long {
                    false => (sum.head, sum.size) == (new.head, new.size),
                    true => sum.size == new.size && sum.key(&self.keys) == key,
                };
                if is_same {
                    sum.sum = sum.sum.saturating_add(new.sum);
                    return;
                }
            }
            at = self.after(at);
        }
        self.slots[at] = Slot {
            hash: new.hash,
            place: self.sums.len() as u32,
        };
        self.sums.push(*new);
        if let (true, Some(new)) = (is_long, self.sums.last_mut()) {
            new.head[8..12].copy_from_slice(&(self.keys.len() as u32).to_le_bytes());
            self.keys.extend_from_slice(key);
        }
        if self.slots.len() < 2 * self.sums.len() {
            self.grow();
        }
    }

    fn grow(&mut self) {
        let slots = vec![Slot::default(); self.slots.len() * 2];
        let old = std::mem::replace(&mut self.slots, slots);
        for slot in old.into_iter().filter(|slot| slot.place != 0) {
            let mut at = self.at(slot.hash);
            while self.slots[at].place != 0 {
                at = self.after(at);
            }
            self.slots[at] = slot;
        }
    }

    /// Room for sums, and for bytes of keys.
    #[cfg(test)]
    pub(super) fn capacities(&self) -> (usize, usize) {
        (self.sums.capacity(), self.keys.capacity())
    }

    /// The number of keys.
    pub(super) fn len(&mut self) -> usize {
        self.settle();
        self.sums.len() - 1
    }

    /// Bytes of all keys, at most.
    pub(super) fn key_bytes(&self) -> usize {
        self.keys.len() + self.sums.len() * INLINE
    }

    /// Bytes that its keys need, about.
    pub(crate) fn bytes(&self) -> usize {
        self.keys.len() + self.sums.len() * SUM_BYTES
    }

    /// Gives all sums to `take`, in the order of their partition and key, and forgets them.
    pub(super) fn drain(
        &mut self,
        partitions: u32,
        partition: impl Fn(&[u8]) -> u32,
        mut take: impl FnMut(u32, &[u8], u64),
    ) {
        self.settle();
        let mut ends = vec![0; partitions as usize];
        for sum in &mut self.sums[1..] {
            sum.hash = partition(sum.key(&self.keys));
            ends[sum.hash as usize] += 1;
        }
        let mut all = 0;
        for end in &mut ends {
            all += std::mem::replace(end, all);
        }
        let mut order = std::mem::take(&mut self.order);
        order.clear();
        order.resize(all, 0);
        for (sum, place) in self.sums[1..].iter().zip(1..) {
            let next = &mut ends[sum.hash as usize];
            order[*next] = u128::from(sort::prefix(&sum.head)) << 32 | place;
            *next += 1;
        }
        let mut begin = 0;
        for (end, partition) in ends.into_iter().zip(0..) {
            self.sort(&mut order[begin..end]);
            self.give(&order[begin..end], |key, sum| take(partition, key, sum));
            begin = end;
        }
        self.order = order;
        self.clear();
    }

    /// Sorts places, each behind the prefix of its key, by their keys.
    fn sort(&self, order: &mut [u128]) {
        order.sort_unstable();
        for same in order.chunk_by_mut(|one, other| one >> 32 == other >> 32) {
            if 1 < same.len() {
                let key = |place: &u128| self.sums[*place as u32 as usize].key(&self.keys);
                same.sort_unstable_by(|one, other| key(one).cmp(key(other)));
            }
        }
    }

    /// Gives the sums of places. They are fetched together, as in [`Sums::settle`].
    fn give(&self, order: &[u128], mut take: impl FnMut(&[u8], u64)) {
        for places in order.chunks(WAITING) {
            let sums = places
                .iter()
                .map(|place| &self.sums[*place as u32 as usize]);
            std::hint::black_box(sums.clone().fold(0, |all, sum| all ^ sum.size));
            sums.for_each(|sum| take(sum.key(&self.keys), sum.sum));
        }
    }
}

/// Half of a hash of a short key: the halves of its head, multiplied.
#[inline]
fn hash(head: u128, size: usize) -> u32 {
    const ODD: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xd6e8_feb8_6659_fd93];
    let low = head as u64 ^ ODD[0];
    let high = (head >> 64) as u64 ^ ODD[1].wrapping_add(size as u64);
    let product = u128::from(low) * u128::from(high);
    ((product >> 64) as u64 ^ product as u64)
        .wrapping_mul(ODD[0])
        .wrapping_shr(32) as u32
}
