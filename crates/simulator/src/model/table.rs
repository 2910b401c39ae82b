//! Hashes, tables by hash, and pools in which every value is kept once.

use std::hash::{Hash, Hasher};

/// 64 bits of hash.
pub(super) fn hash(value: &(impl Hash + ?Sized)) -> u64 {
    let mut mixer = Mixer([0x9e37_79b9_7f4a_7c15, 0xd1b5_4a32_d192_ed03]);
    value.hash(&mut mixer);
    mixer.finish()
}

/// Two lanes of multiply and fold; no adversary chooses the input to make them collide.
struct Mixer([u64; 2]);

impl Mixer {
    fn mix(&mut self, word: u64) {
        let fold = |lane: u64, by: u64| {
            let product = u128::from(lane ^ word) * u128::from(by);
            (product as u64 ^ (product >> 64) as u64).rotate_left(23) ^ lane
        };
        let [low, high] = self.0;
        self.0 = [
            fold(low, 0xa076_1d64_78bd_642f),
            fold(high, 0xe703_7ed1_a0b4_28db),
        ];
    }
}

impl Hasher for Mixer {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.mix(u64::from_le_bytes(word) ^ (chunk.len() as u64) << 56);
        }
    }

    fn write_u8(&mut self, value: u8) {
        self.mix(u64::from(value));
    }

    fn write_u32(&mut self, value: u32) {
        self.mix(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        self.mix(value);
    }

    fn write_u128(&mut self, value: u128) {
        self.mix(value as u64);
        self.mix((value >> 64) as u64);
    }

    fn write_usize(&mut self, value: usize) {
        self.mix(value as u64);
    }

    fn write_isize(&mut self, value: isize) {
        self.mix(value as u64);
    }

    fn finish(&self) -> u64 {
        let [low, high] = self.0;
        let mixed = (low ^ low >> 32).wrapping_mul(0xff51_afd7_ed55_8ccd) ^ high;
        let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        mixed ^ mixed >> 32
    }
}

/// A table by hash, or by a key that is spread over its slots: open addressing.
pub(super) struct Table<V> {
    slots: Vec<(u64, V)>,
    count: usize,
}

impl<V: Copy + Default> Table<V> {
    pub(super) fn new() -> Self {
        Table {
            slots: vec![(0, V::default()); 1 << 10],
            count: 0,
        }
    }

    /// The slot of `key`, or the one where it belongs; a free slot has the key 0.
    fn slot(&self, key: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = spread(key) & mask;
        while self.slots[at].0 != 0 && self.slots[at].0 != key {
            at = (at + 1) & mask;
        }
        at
    }

    pub(super) fn get(&self, key: u64) -> Option<V> {
        let (found, value) = self.slots[self.slot(stored(key))];
        (found != 0).then_some(value)
    }

    /// Whether `key` was not there before; if it was, nothing changes.
    pub(super) fn insert(&mut self, key: u64, value: V) -> bool {
        if self.slots.len() * 5 < self.count * 8 {
            let grown = vec![(0, V::default()); self.slots.len() * 2];
            for (key, value) in std::mem::replace(&mut self.slots, grown) {
                if key != 0 {
                    let at = self.slot(key);
                    self.slots[at] = (key, value);
                }
            }
        }
        let key = stored(key);
        let at = self.slot(key);
        if self.slots[at].0 == key {
            return false;
        }
        self.slots[at] = (key, value);
        self.count += 1;
        true
    }
}

/// A free slot has 0.
fn stored(key: u64) -> u64 {
    key.wrapping_add(1).max(1)
}

/// Hashes by number, in the order in which they came. One takes 8 bytes, and 7 to 13 of slots.
pub(super) struct Numbers {
    keys: Vec<u64>,
    /// Numbers by hash; open addressing.
    slots: Vec<u32>,
}

impl Numbers {
    const FREE: u32 = u32::MAX;

    pub(super) fn new() -> Self {
        Numbers {
            keys: Vec::new(),
            slots: vec![Self::FREE; 1 << 10],
        }
    }

    /// The number of `key`, and whether it is a new one.
    pub(super) fn put(&mut self, key: u64) -> (u32, bool) {
        if self.slots.len() * 3 < self.keys.len() * 5 {
            self.grow();
        }
        let at = self.slot(key);
        if self.slots[at] != Self::FREE {
            return (self.slots[at], false);
        }
        let number = self.keys.len() as u32;
        self.slots[at] = number;
        self.keys.push(key);
        (number, true)
    }

    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// The slot of `key`, or the free one where it belongs.
    fn slot(&self, key: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = spread(key) & mask;
        while self.slots[at] != Self::FREE && self.keys[self.slots[at] as usize] != key {
            at = (at + 1) & mask;
        }
        at
    }

    /// The old slots go before the new ones come.
    fn grow(&mut self) {
        let slots = self.slots.len() * 2;
        self.slots = Vec::new();
        self.slots.resize(slots, Self::FREE);
        for (number, key) in self.keys.iter().enumerate() {
            let mut at = spread(*key) & (slots - 1);
            while self.slots[at] != Self::FREE {
                at = (at + 1) & (slots - 1);
            }
            self.slots[at] = number as u32;
        }
    }
}

/// A key that is spread over slots.
fn spread(key: u64) -> usize {
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) as usize
}

/// Values by number. Two values with one hash are one.
pub(super) struct Pool<T> {
    items: Vec<T>,
    numbers: Numbers,
}

impl<T: Hash> Pool<T> {
    pub(super) fn new() -> Self {
        Pool {
            items: Vec::new(),
            numbers: Numbers::new(),
        }
    }

    /// The number of `item`, and whether it is a new one.
    pub(super) fn put(&mut self, item: T) -> (u32, bool) {
        let (number, is_new) = self.numbers.put(hash(&item));
        if is_new {
            self.items.push(item);
        }
        (number, is_new)
    }

    pub(super) fn len(&self) -> usize {
        self.items.len()
    }
}

impl<T> std::ops::Index<u32> for Pool<T> {
    type Output = T;

    fn index(&self, number: u32) -> &T {
        &self.items[number as usize]
    }
}
