//! Values in the order of their last use, with the bytes of all. Pure.

use std::borrow::Borrow;
use std::fmt;
use std::hash::Hash;

use lru::LruCache;

struct Entry<V> {
    value: V,
    bytes: u64,
}

pub(crate) struct Recency<K, V> {
    entries: LruCache<K, Entry<V>>,
    bytes: u64,
}

impl<K: Eq + Hash, V> Default for Recency<K, V> {
    fn default() -> Self {
        Recency {
            entries: LruCache::unbounded(),
            bytes: 0,
        }
    }
}

impl<K: Eq + Hash, V> fmt::Debug for Recency<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut form = f.debug_struct("Recency");
        form.field("len", &self.len()).field("bytes", &self.bytes);
        form.finish_non_exhaustive()
    }
}

impl<K: Eq + Hash, V> Recency<K, V> {
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Bytes of all values.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A value, which counts as used.
    pub(crate) fn touch<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        let entry = self.entries.get_mut(key)?;
        Some(&mut entry.value)
    }

    /// A value, which does not count as used.
    pub(crate) fn get_mut<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        let entry = self.entries.peek_mut(key)?;
        Some(&mut entry.value)
    }

    /// Puts a value in place of that of its key.
    pub(crate) fn put(&mut self, key: K, value: V, bytes: u64) {
        self.bytes += bytes;
        if let Some(old) = self.entries.put(key, Entry { value, bytes }) {
            self.bytes -= old.bytes;
        }
    }

    /// A value has another number of bytes.
    pub(crate) fn resize<Q: Eq + Hash + ?Sized>(&mut self, key: &Q, bytes: u64)
    where
        K: Borrow<Q>,
    {
        if let Some(entry) = self.entries.peek_mut(key) {
            self.bytes = self.bytes - entry.bytes + bytes;
            entry.bytes = bytes;
        }
    }

    /// Removes a value.
    pub(crate) fn remove<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let entry = self.entries.pop(key)?;
        self.bytes -= entry.bytes;
        Some(entry.value)
    }

    /// Removes the value that was not used for longest.
    pub(crate) fn remove_oldest(&mut self) -> Option<(K, V)> {
        let (key, entry) = self.entries.pop_lru()?;
        self.bytes -= entry.bytes;
        Some((key, entry.value))
    }
}
