//! Keys with numbers, in a hash table: the numbers of a key are added up, or each is an entry.

use std::ops::Range;

use xxhash_rust::xxh3::xxh3_64;

use crate::sort;

/// Slots of a new table.
const SLOTS: usize = 1 << 12;
/// Bytes that an entry takes, about: itself, two slots, and its place in the order of all.
const ENTRY_BYTES: usize = size_of::<Entry>() + 2 * size_of::<Slot>() + size_of::<u128>();
/// Bytes of a key that stand beside its number: others are apart.
const INLINE: usize = 16;
/// Keys that wait to be looked up at once.
const WAITING: usize = 256;

/// A key with a number. No line of the processor's cache has a part of one.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(32))]
struct Entry {
    /// The key, if it fits; else its first eight bytes, and its place among the others.
    head: [u8; INLINE],
    number: u64,
    /// Bytes of the key.
    size: u32,
    /// Half of the hash; of entries that are sorted, the partition.
    hash: u32,
}

impl Entry {
    fn key<'a>(&'a self, keys: &'a [u8]) -> &'a [u8] {
        let size = self.size as usize;
        if size <= INLINE {
            return &self.head[..size];
        }
        let at = u32::from_le_bytes(self.head[8..12].try_into().expect("four bytes")) as usize;
        &keys[at..at + size]
    }
}

/// Where an entry is, in the slot that its hash names or in the next that was free.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    hash: u32,
    /// The place of the entry; 0 is an empty slot.
    place: u32,
}

/// Keys with numbers. Slots and entries are far away: keys wait, so that many are on their way at
/// once.
#[derive(Debug)]
pub(crate) struct Entries {
    /// Whether each number of a key has an entry; if not, their sum has it.
    is_each: bool,
    waiting: Vec<Entry>,
    /// How many of them are keys.
    waits: usize,
    slots: Vec<Slot>,
    /// In the order of their first keys. The first is of no key.
    entries: Vec<Entry>,
    keys: Vec<u8>,
    /// Bytes of all keys with their numbers, as they are written.
    written: usize,
    /// The order of all: the prefix of a key, the rank of its number, the place of its entry.
    order: Vec<u128>,
}

impl Entries {
    /// A sum for each key, in so many bytes, at most. The operating system gives memory for those
    /// that come.
    pub(crate) fn sums(bytes_max: usize) -> Self {
        let entries_max = (bytes_max / ENTRY_BYTES).max(WAITING) + WAITING + 1;
        let mut entries = Vec::with_capacity(entries_max);
        entries.push(Entry::default());
        Entries {
            is_each: false,
            waiting: vec![Entry::default(); WAITING],
            waits: 0,
            slots: vec![Slot::default(); (2 * entries_max).next_power_of_two().min(SLOTS)],
            entries,
            keys: Vec::with_capacity(bytes_max),
            written: 0,
            order: Vec::with_capacity(entries_max),
        }
    }

    /// As [`Entries::sums`], with an entry for each number of a key. A number stands for a value:
    /// the lower half is its name, the upper half its bytes.
    pub(crate) fn pairs(bytes_max: usize) -> Self {
        Entries {
            is_each: true,
            ..Entries::sums(bytes_max)
        }
    }

    /// Forgets all keys.
    pub(crate) fn clear(&mut self) {
        self.waits = 0;
        self.slots.fill(Slot::default());
        self.entries.truncate(1);
        self.keys.clear();
        self.written = 0;
    }

    /// Adds a number of a key that is a part of a text.
    #[inline]
    pub(crate) fn add(&mut self, text: &[u8], key: Range<usize>, number: u64) {
        if INLINE < key.len() {
            self.place(&text[key], number);
            return;
        }
        let head = sort::head(text, key.clone());
        let salt = self.salt(number);
        let new = &mut self.waiting[self.waits];
        new.head = head.to_le_bytes();
        new.number = number;
        new.size = key.len() as u32;
        new.hash = hash(head, key.len(), salt);
        self.waits += 1;
        if self.waits == WAITING {
            self.settle();
        }
    }

    /// Adds a number of a key, and tells the place of its entry.
    pub(crate) fn place(&mut self, key: &[u8], number: u64) -> u32 {
        let head = sort::head(key, 0..key.len());
        let salt = self.salt(number);
        let hash = match INLINE < key.len() {
            true => (xxh3_64(key) ^ salt.wrapping_mul(ODD[0])) as u32,
            false => hash(head, key.len(), salt),
        };
        let new = Entry {
            head: head.to_le_bytes(),
            number,
            size: key.len() as u32,
            hash,
        };
        self.insert(&new, key)
    }

    /// The part of a number in the identity of its entry.
    #[inline]
    fn salt(&self, number: u64) -> u64 {
        if self.is_each { number } else { 0 }
    }

    /// Looks up the keys that wait.
    fn settle(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        let new = &waiting[..self.waits];
        // No slot waits for another, and no entry: the processor fetches them together.
        let slots = new.iter().map(|entry| self.slots[self.at(entry.hash)]);
        std::hint::black_box(slots.clone().fold(0, |all, slot| all ^ slot.place));
        let entries = slots.map(|slot| self.entries[slot.place as usize].size);
        std::hint::black_box(entries.fold(0, |all, size| all ^ size));
        for entry in new {
            self.insert(entry, &entry.head);
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

    /// Adds to an entry, or makes it, and tells its place. The key is only read if it is not in
    /// `new`.
    #[inline]
    fn insert(&mut self, new: &Entry, key: &[u8]) -> u32 {
        let is_long = INLINE < new.size as usize;
        let mut at = self.at(new.hash);
        loop {
            let slot = self.slots[at];
            if slot.place == 0 {
                break;
            }
            if slot.hash == new.hash {
                let entry = &mut self.entries[slot.place as usize];
                let is_key = match is_long {
                    false => (entry.head, entry.size) == (new.head, new.size),
                    true => entry.size == new.size && entry.key(&self.keys) == key,
                };
                if is_key && !self.is_each {
                    entry.number = entry.number.saturating_add(new.number);
                    return slot.place;
                }
                if is_key && entry.number == new.number {
                    return slot.place;
                }
            }
            at = self.after(at);
        }
        let place = self.entries.len() as u32;
        self.slots[at] = Slot {
            hash: new.hash,
            place,
        };
        self.entries.push(*new);
        self.written += new.size as usize
            + match self.is_each {
                true => (new.number >> 32) as usize,
                false => size_of::<u64>(),
            };
        if let (true, Some(new)) = (is_long, self.entries.last_mut()) {
            new.head[8..12].copy_from_slice(&(self.keys.len() as u32).to_le_bytes());
            self.keys.extend_from_slice(key);
        }
        if self.slots.len() < 2 * self.entries.len() {
            self.grow();
        }
        place
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

    /// Room for entries, and for bytes of keys.
    #[cfg(test)]
    pub(super) fn capacities(&self) -> (usize, usize) {
        (self.entries.capacity(), self.keys.capacity())
    }

    /// The number of entries.
    pub(super) fn len(&mut self) -> usize {
        self.settle();
        self.entries.len() - 1
    }

    /// Bytes of all keys with their numbers, as they are written.
    pub(super) fn written(&self) -> usize {
        self.written
    }

    /// Bytes that its entries need, about.
    pub(crate) fn bytes(&self) -> usize {
        self.keys.len() + self.entries.len() * ENTRY_BYTES
    }

    /// The key of the entry at a place.
    pub(super) fn key(&self, place: u32) -> &[u8] {
        self.entries[place as usize].key(&self.keys)
    }

    /// The rank of each place in the order of keys. Entries are sums.
    pub(super) fn ranks(&mut self) -> Vec<u32> {
        self.settle();
        let entries = self.entries[1..].iter().zip(1..);
        let order = entries.map(|(entry, place)| ordered(entry, 0, place));
        let mut order: Vec<u128> = order.collect();
        self.sort(&mut order);
        let mut ranks = vec![0; self.entries.len()];
        for (place, rank) in order.into_iter().zip(0..) {
            ranks[place as u32 as usize] = rank;
        }
        ranks
    }

    /// Gives all entries to `take`, in the order of their partition, key and the rank of their
    /// number, and forgets them.
    pub(super) fn drain(
        &mut self,
        partitions: u32,
        partition: impl Fn(&[u8]) -> u32,
        rank: impl Fn(u64) -> u32,
        mut take: impl FnMut(u32, &[u8], u64),
    ) {
        self.settle();
        let mut ends = vec![0; partitions as usize];
        for entry in &mut self.entries[1..] {
            entry.hash = partition(entry.key(&self.keys));
            ends[entry.hash as usize] += 1;
        }
        let mut all = 0;
        for end in &mut ends {
            all += std::mem::replace(end, all);
        }
        let mut order = std::mem::take(&mut self.order);
        order.clear();
        order.resize(all, 0);
        for (entry, place) in self.entries[1..].iter().zip(1..) {
            let next = &mut ends[entry.hash as usize];
            order[*next] = ordered(entry, rank(entry.number), place);
            *next += 1;
        }
        let mut begin = 0;
        for (end, partition) in ends.into_iter().zip(0..) {
            self.sort(&mut order[begin..end]);
            self.give(&order[begin..end], |key, number| {
                take(partition, key, number);
            });
            begin = end;
        }
        self.order = order;
        self.clear();
    }

    /// Sorts what [`ordered`] gave by key and rank.
    fn sort(&self, order: &mut [u128]) {
        order.sort_unstable();
        for same in order.chunk_by_mut(|one, other| one >> 64 == other >> 64) {
            let key = |one: &u128| self.key(*one as u32);
            if same[1..].iter().any(|other| key(other) != key(&same[0])) {
                same.sort_unstable_by(|one, other| key(one).cmp(key(other)).then(one.cmp(other)));
            }
        }
    }

    /// Gives the entries of an order. They are fetched together, as in [`Entries::settle`].
    fn give(&self, order: &[u128], mut take: impl FnMut(&[u8], u64)) {
        for order in order.chunks(WAITING) {
            let entries = order.iter().map(|one| &self.entries[*one as u32 as usize]);
            std::hint::black_box(entries.clone().fold(0, |all, entry| all ^ entry.size));
            entries.for_each(|entry| take(entry.key(&self.keys), entry.number));
        }
    }
}

/// An entry in the order of all: the prefix of its key, a rank, its place.
fn ordered(entry: &Entry, rank: u32, place: u32) -> u128 {
    let prefix = u128::from(sort::prefix(&entry.head)) << 64;
    prefix | u128::from(rank) << 32 | u128::from(place)
}

const ODD: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xd6e8_feb8_6659_fd93];

/// Half of a hash of a short key: the halves of its head, multiplied.
#[inline]
fn hash(head: u128, size: usize, salt: u64) -> u32 {
    let low = head as u64 ^ ODD[0];
    let high = (head >> 64) as u64 ^ ODD[1].wrapping_add(size as u64 | salt << 32);
    let product = u128::from(low) * u128::from(high);
    ((product >> 64) as u64 ^ product as u64)
        .wrapping_mul(ODD[0])
        .wrapping_shr(32) as u32
}
