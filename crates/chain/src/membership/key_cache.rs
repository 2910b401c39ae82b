//! Access keys as a node without a member of the system chain remembers them. For how long it does,
//! and how often it asks about ids of which it knows no key.
//!
//! Invariants:
//! - CATALOG-2 an access key that is remembered opens nothing after S from when it was asked for.
//!   That no key has an id is remembered as long: a new key opens within S.
//! - CATALOG-3 ids of which no key is known cause [`ASKED_PER_S`] questions a second at most.

use std::collections::BTreeMap;

use crate::guard::{Guard, Guards};

/// Questions a second about ids of which no key is known. As many may come at once.
pub const ASKED_PER_S: u64 = 100;

/// Ids that are remembered with a key, and ids that are remembered without one, at most. Beyond
/// them it begins again from nothing.
const ENTRIES_MAX: usize = 10_000;

/// An allowance counts in thousandths of questions.
const ONE: u64 = 1_000;

/// What is known of an id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CachedKey<K> {
    /// Its key.
    Key(K),
    /// That it has none.
    Absent,
    /// Nothing: a member of the system chain is asked.
    Unknown,
}

/// Remembers the keys of ids, `K`, and the ids without a key.
#[derive(Clone, Debug)]
pub struct KeyCache<K> {
    /// S, in milliseconds.
    session_ms: u64,
    /// With when they were asked for.
    keys: BTreeMap<String, (K, u64)>,
    absent: BTreeMap<String, u64>,
    /// In thousandths of questions, at `filled_ms`.
    allowance: u64,
    filled_ms: u64,
    guards: Guards,
}

impl<K: Clone> KeyCache<K> {
    /// One that knows nothing, where sessions last `session_ms`.
    pub fn new(session_ms: u64, guards: Guards) -> Self {
        KeyCache {
            session_ms,
            keys: BTreeMap::new(),
            absent: BTreeMap::new(),
            allowance: ASKED_PER_S * ONE,
            filled_ms: 0,
            guards,
        }
    }

    /// What is known of an id at `now_ms` of a clock that never falls.
    pub fn get(&self, id: &str, now_ms: u64) -> CachedKey<K> {
        let key = self.keys.get(id);
        if let Some((key, _)) = key.filter(|(_, asked)| self.is_current(*asked, now_ms)) {
            return CachedKey::Key(key.clone());
        }
        let absent = self.absent.get(id);
        match absent.is_some_and(|asked| self.is_current(*asked, now_ms)) {
            true => CachedKey::Absent,
            false => CachedKey::Unknown,
        }
    }

    /// Whether the id had a key when it was asked for last.
    pub fn had_key(&self, id: &str) -> bool {
        self.keys.contains_key(id)
    }

    /// Whether another node may be asked about an id now. One that had a key always may. All others
    /// share an allowance, and this takes one of it.
    pub fn may_ask(&mut self, id: &str, now_ms: u64) -> bool {
        let passed_ms = now_ms.saturating_sub(self.filled_ms);
        let earned = passed_ms.saturating_mul(ASKED_PER_S);
        self.allowance = self.allowance.saturating_add(earned).min(ASKED_PER_S * ONE);
        self.filled_ms = self.filled_ms.max(now_ms);
        if self.had_key(id) || !self.guards.has(Guard::UnknownKeysBounded) {
            return true;
        }
        match self.allowance.checked_sub(ONE) {
            Some(rest) => {
                self.allowance = rest;
                true
            }
            None => false,
        }
    }

    /// Takes in the answer to a question that was sent at `asked_ms`. Whether it counts: one that
    /// took too long tells how the key stood too long ago.
    pub fn on_answer(&mut self, id: &str, asked_ms: u64, now_ms: u64, key: Option<K>) -> bool {
        if !self.is_current(asked_ms, now_ms) {
            return false;
        }
        match key {
            Some(key) => {
                self.absent.remove(id);
                bounded(&mut self.keys).insert(id.to_owned(), (key, asked_ms));
            }
            None => {
                self.keys.remove(id);
                bounded(&mut self.absent).insert(id.to_owned(), asked_ms);
            }
        }
        true
    }

    /// Forgets an id: its key is changed here.
    pub fn forget(&mut self, id: &str) {
        self.keys.remove(id);
        self.absent.remove(id);
    }

    /// Whether an answer still counts. It is asked for again after half of S, so a key that was
    /// disabled opens nothing after S.
    fn is_current(&self, asked_ms: u64, now_ms: u64) -> bool {
        let age = now_ms.saturating_sub(asked_ms);
        age < self.session_ms / 2 || !self.guards.has(Guard::CachedKeyEnds)
    }
}

fn bounded<V>(map: &mut BTreeMap<String, V>) -> &mut BTreeMap<String, V> {
    if ENTRIES_MAX <= map.len() {
        map.clear();
    }
    map
}

#[cfg(test)]
mod tests;
