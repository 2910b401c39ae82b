//! Access keys at processes without a member of the system chain: requests name keys that come and
//! go, and strangers invent some. Each process relies on its [`KeyCache`].
//!
//! Checked at each request:
//! - (CATALOG-2) a key opens nothing after S from when it was disabled; a new key opens within S of
//!   when it was made.
//! - (CATALOG-3) strangers cause no more questions than the allowance.

use std::collections::BTreeMap;

use fader_chain::Guards;
use fader_chain::membership::{ASKED_PER_S, CachedKey, KeyCache};

use super::{CALM, Event, PROCESSES, SESSION, World};
use crate::world::random::Random;

/// Keys that come and go.
const KEYS: usize = 4;
/// How often one comes or goes, in microseconds.
const CHANGE: u64 = 40_000;
/// How often a request names a key.
const REQUEST: u64 = 500;
/// S in microseconds, and by how much a clock may be slow.
const S: u64 = SESSION.as_micros() as u64 * 1_002 / 1_000;

/// What happens to keys.
#[derive(Clone, Debug)]
pub(super) enum KeyEvent {
    /// One is made, or disabled.
    Change,
    /// A request names one, at a process.
    Request,
    /// A process hears how the key stood when its question came.
    Answer {
        process: usize,
        run: u64,
        id: String,
        asked_ms: u64,
        key: Option<bool>,
    },
}

/// The keys, and what processes know of them.
pub(super) struct Keys {
    random: Random,
    /// Whether one is active, and since when.
    keys: BTreeMap<String, (bool, u64)>,
    /// With the run of the process.
    caches: Vec<(u64, KeyCache<bool>)>,
    guards: Guards,
    /// Questions about invented ids, by process, its run, and second.
    asked: BTreeMap<(usize, u64, u64), u64>,
}

fn cache(guards: &Guards) -> KeyCache<bool> {
    KeyCache::new(SESSION.as_millis() as u64, guards.clone())
}

impl Keys {
    pub(super) fn new(seed: u64, guards: &Guards) -> Self {
        Keys {
            // Of their own: what else happens stays the same.
            random: Random::new(seed ^ 0x6b65_7973),
            keys: BTreeMap::new(),
            caches: vec![(0, cache(guards)); PROCESSES as usize],
            guards: guards.clone(),
            asked: BTreeMap::new(),
        }
    }
}

impl World {
    pub(super) fn plan_keys(&mut self) {
        for event in [KeyEvent::Change, KeyEvent::Request] {
            self.queue.plan(2_000, Event::Keys(event));
        }
    }

    pub(super) fn on_keys(&mut self, event: KeyEvent) {
        match event {
            KeyEvent::Change if self.now < CALM => self.change_key(),
            KeyEvent::Request if self.now < CALM => {
                self.queue
                    .plan(self.now + REQUEST, Event::Keys(KeyEvent::Request));
                self.use_key();
            }
            KeyEvent::Change | KeyEvent::Request => {}
            KeyEvent::Answer {
                process,
                run,
                id,
                asked_ms,
                key,
            } if self.processes[process].run == run => {
                let now_ms = self.processes[process].ms(self.now);
                let (_, cache) = &mut self.keys.caches[process];
                cache.on_answer(&id, asked_ms, now_ms, key);
            }
            KeyEvent::Answer { .. } => {}
        }
    }

    /// A key is made, disabled, or enabled again.
    fn change_key(&mut self) {
        self.queue
            .plan(self.now + CHANGE, Event::Keys(KeyEvent::Change));
        let id = format!("key{}", self.keys.random.below(KEYS));
        let is_active = self
            .keys
            .keys
            .get(&id)
            .is_some_and(|(is_active, _)| *is_active);
        self.keys.keys.insert(id, (!is_active, self.now));
    }

    /// A request names a key at a process; most invent an id.
    fn use_key(&mut self) {
        let process = self.keys.random.below(self.processes.len());
        let here = &self.processes[process];
        let (run, now_ms) = (here.run, here.ms(self.now));
        if !here.is_up || self.now < here.paused_until {
            return;
        }
        if self.keys.caches[process].0 != run {
            self.keys.caches[process] = (run, cache(&self.keys.guards));
        }
        let is_invented = self.keys.random.chance(900);
        let id = match is_invented {
            true => format!("stranger{}", self.keys.random.number()),
            false => format!("key{}", self.keys.random.below(KEYS)),
        };
        let (_, cache) = &mut self.keys.caches[process];
        match cache.get(&id, now_ms) {
            CachedKey::Key(is_active) => self.check_key(&id, is_active),
            CachedKey::Absent => self.check_key(&id, false),
            CachedKey::Unknown if cache.may_ask(&id, now_ms) => {
                if is_invented {
                    self.check_allowance(process);
                }
                let key = self.keys.keys.get(&id).map(|(is_active, _)| *is_active);
                let way = self.keys.random.skewed(300, 400_000);
                let answer = KeyEvent::Answer {
                    process,
                    run,
                    id,
                    asked_ms: now_ms,
                    key,
                };
                self.queue.plan(self.now + way, Event::Keys(answer));
            }
            CachedKey::Unknown => {}
        }
    }

    /// CATALOG-2.
    fn check_key(&mut self, id: &str, is_active: bool) {
        self.count("CATALOG-2");
        let Some((is, since)) = self.keys.keys.get(id).copied() else {
            return;
        };
        if is != is_active && since + S < self.now {
            let text = format!("{id} counts as active: {is_active}, and is not since {since} us");
            self.fail("CATALOG-2", &text);
        }
    }

    /// CATALOG-3: in any second of one process.
    fn check_allowance(&mut self, process: usize) {
        self.count("CATALOG-3");
        let run = self.processes[process].run;
        let second = self.now / 1_000_000;
        let asked = self.keys.asked.entry((process, run, second)).or_default();
        *asked += 1;
        let asked = *asked;
        // What was saved, and what comes in a second.
        if 2 * ASKED_PER_S < asked.saturating_sub(1) {
            let text = format!("n{process} asked about {asked} invented ids in a second");
            self.fail("CATALOG-3", &text);
        }
    }
}
