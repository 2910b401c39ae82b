//! Values in the order of their last use, with the bytes of all. Pure.

use std::borrow::Borrow;
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

#[derive(Debug)]
struct Entry<V> {
    value: V,
    bytes: u64,
    used: u64,
}

#[derive(Debug)]
pub(crate) struct Recency<K, V> {
    entries: HashMap<K, Entry<V>>,
    /// Keys by their last use.
    used: BTreeMap<u64, K>,
    uses: u64,
    bytes: u64,
}

impl<K, V> Default for Recency<K, V> {
    fn default() -> Self {
        Recency {
            entries: HashMap::new(),
            used: BTreeMap::new(),
            uses: 0,
            bytes: 0,
        }
    }
}

impl<K: Clone + Eq + Hash, V> Recency<K, V> {
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Bytes of all values.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The key that was not used for longest.
    pub(crate) fn oldest(&self) -> Option<&K> {
        self.used.first_key_value().map(|(_, key)| key)
    }

    /// A value, which counts as used.
    pub(crate) fn touch<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        let entry = self.entries.get_mut(key)?;
        let key = self.used.remove(&entry.used)?;
        self.uses += 1;
        entry.used = self.uses;
        self.used.insert(self.uses, key);
        Some(&mut entry.value)
    }

    /// A value, which does not count as used.
    pub(crate) fn get_mut<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.entries.get_mut(key).map(|entry| &mut entry.value)
    }

    /// Puts a value in place of that of its key.
    pub(crate) fn put(&mut self, key: K, value: V, bytes: u64) {
        self.remove(&key);
        self.uses += 1;
        self.bytes += bytes;
        self.used.insert(self.uses, key.clone());
        let used = self.uses;
        self.entries.insert(key, Entry { value, bytes, used });
    }

    /// Removes a value.
    pub(crate) fn remove<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let entry = self.entries.remove(key)?;
        self.used.remove(&entry.used);
        self.bytes -= entry.bytes;
        Some(entry.value)
    }
}
