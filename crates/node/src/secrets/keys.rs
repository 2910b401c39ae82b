//! Open access keys, kept so that a signature costs no decryption.
//!
//! Invariants:
//! - A1 a lookup that begins after a change of the catalog was answered sees it: the cache is
//!   emptied before the answer, and takes in nothing that was read before.

use std::collections::HashMap;
use std::sync::Arc;

use fader_services::{SYSTEM, Table};
use parking_lot::RwLock;

use crate::secrets::seal::OpenKey;
use crate::storage::engine::Pair;

/// Beyond this the cache starts again from nothing.
const KEYS_MAX: usize = 10_000;

#[derive(Default)]
struct State {
    /// How often the catalog changed.
    generation: u64,
    open: HashMap<String, Arc<OpenKey>>,
}

/// The open keys.
#[derive(Default)]
pub(crate) struct KeyCache {
    state: RwLock<State>,
}

impl KeyCache {
    /// The key if it is here; else the generation to give to [`KeyCache::put`].
    pub(crate) fn get(&self, id: &str) -> Result<Arc<OpenKey>, u64> {
        let state = self.state.read();
        state.open.get(id).cloned().ok_or(state.generation)
    }

    /// Keeps a key, if nothing changed since `generation`.
    pub(crate) fn put(&self, generation: u64, key: Arc<OpenKey>) {
        let mut state = self.state.write();
        if state.generation == generation {
            if KEYS_MAX <= state.open.len() {
                state.open.clear();
            }
            state.open.insert(key.key.id.clone(), key);
        }
    }

    /// Forgets everything if the mutations touch an access key.
    pub(crate) fn on_applied(&self, mutations: &[Pair<'_>]) {
        if touches(mutations, Table::AccessKeys) {
            self.clear();
        }
    }

    /// Forgets everything.
    pub(crate) fn clear(&self) {
        let mut state = self.state.write();
        state.generation += 1;
        state.open.clear();
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
