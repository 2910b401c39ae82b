//! What was read of tables of the catalog, kept until one of them changes.
//!
//! Invariants:
//! - CACHE-1 a lookup that begins after a change of the catalog was answered sees it. The cache is
//!   emptied before the answer, and takes in nothing that was read before.

use std::borrow::Borrow;
use std::hash::Hash;

use ahash::AHashMap;
use fader_services::{SYSTEM, Table};
use parking_lot::RwLock;

use super::engine::Pair;

/// Entries of a map, at most.
const ENTRIES_MAX: usize = 10_000;

/// What is remembered, by key: beyond [`ENTRIES_MAX`] entries it begins again from nothing.
pub(crate) struct BoundedMap<K, V>(AHashMap<K, V>);

impl<K, V> Default for BoundedMap<K, V> {
    fn default() -> Self {
        BoundedMap(AHashMap::new())
    }
}

impl<K: Eq + Hash, V> BoundedMap<K, V> {
    pub(crate) fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.0.get(key)
    }

    pub(crate) fn insert(&mut self, key: K, value: V) {
        if ENTRIES_MAX <= self.0.len() {
            self.0.clear();
        }
        self.0.insert(key, value);
    }

    pub(crate) fn remove<Q: Eq + Hash + ?Sized>(&mut self, key: &Q)
    where
        K: Borrow<Q>,
    {
        self.0.remove(key);
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}

struct State<V> {
    /// How often the tables changed.
    generation: u64,
    entries: BoundedMap<String, V>,
}

/// What is known of some tables, by name.
pub(crate) struct Cache<V> {
    tables: &'static [Table],
    state: RwLock<State<V>>,
}

impl<V: Clone> Cache<V> {
    /// Of these tables nothing is known yet.
    pub(crate) fn of(tables: &'static [Table]) -> Self {
        Cache {
            tables,
            state: RwLock::new(State {
                generation: 0,
                entries: BoundedMap::default(),
            }),
        }
    }

    /// The entry if it is here; else the generation to give to [`Cache::put`].
    pub(crate) fn get(&self, name: &str) -> Result<V, u64> {
        let state = self.state.read();
        state.entries.get(name).cloned().ok_or(state.generation)
    }

    /// Keeps an entry, if nothing changed since `generation`.
    pub(crate) fn put(&self, generation: u64, name: String, entry: V) {
        let mut state = self.state.write();
        if state.generation == generation {
            state.entries.insert(name, entry);
        }
    }

    /// Forgets everything if the mutations touch one of the tables.
    pub(crate) fn on_applied(&self, mutations: &[Pair<'_>]) {
        let mut tables = self.tables.iter();
        if tables.any(|table| touches(mutations, *table)) {
            self.clear();
        }
    }

    /// Forgets everything.
    pub(crate) fn clear(&self) {
        let mut state = self.state.write();
        state.generation += 1;
        state.entries.clear();
    }
}

/// Whether the mutations touch a table of the system collection.
pub(crate) fn touches(mutations: &[Pair<'_>], table: Table) -> bool {
    let is_touched = |(key, _): &Pair<'_>| {
        key.first_chunk() == Some(&SYSTEM.0.to_be_bytes()) && key.get(8) == Some(&(table as u8))
    };
    mutations.iter().any(is_touched)
}

#[cfg(test)]
mod tests;
