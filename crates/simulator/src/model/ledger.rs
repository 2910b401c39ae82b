//! What has been committed anywhere, and what clients know: against this every step is checked.
//!
//! What can no longer make a difference to any check is forgotten at once ([`Ledger::forget`]), so
//! that states which differ in it only are one.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use bytes::Bytes;
use fader_chain::{Change, Entry, EntryId, Operation, Register, RequestId, View, ViewError};
use fader_chain::{Direction, Scan, Stamp};

use super::node::{Sight, decide, pairs_hash};
use super::scenarios::{Ask, KEYS_MAX, Scene, keys_of};
use super::step::CLIENT;
use super::table::hash;

/// What a member did that is checked.
#[derive(Clone, Debug)]
pub(super) enum Event {
    /// It stamped an operation, or took up one with a stamp of its own.
    Stamped(Arc<Operation>),
    /// It handed an entry to its engine: it is committed.
    Committed(Arc<Entry>),
    /// Its engine has this register at this id.
    State {
        at: EntryId,
        key: Bytes,
        register: Register,
    },
    /// It answered a strong write.
    Answered { ask: usize, entry: EntryId },
    /// It acknowledged an eventual write.
    Held {
        ask: usize,
        stamps: Vec<(Bytes, Stamp)>,
    },
    /// It answered a read with the state at an id.
    Shown {
        ask: usize,
        at: EntryId,
        register: Register,
    },
    /// It answered an eventual read in an epoch of so many members.
    ShownByQuorum {
        ask: usize,
        size: usize,
        register: Register,
    },
}

/// One committed entry, with the state it leads to.
#[derive(Clone, Debug)]
pub(super) struct Committed {
    pub(super) entry: Arc<Entry>,
    hash: u64,
    /// Every register, with every mark, after it, and the hash of what it shows.
    registers: BTreeMap<Bytes, (Register, u64)>,
}

impl Hash for Committed {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.hash.hash(state);
    }
}

/// What a client knows of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Known {
    /// It was sent, so many times.
    pub(super) sent: u8,
    /// It was answered: strong ones with their entry.
    pub(super) answered: Option<EntryId>,
    /// The stamps of an eventual write, once it is acknowledged, by register.
    pub(super) stamps: [Option<Stamp>; KEYS_MAX],
    /// What had been shown of the register when a read began.
    pub(super) began: EntryId,
    /// The greatest stamp on its registers that was acknowledged when it was first sent.
    pub(super) above: Stamp,
    /// Which asks had been acknowledged as eventual writes when it was first sent, by bits.
    pub(super) before: u32,
    /// An eventual write was stamped, by register: later attempts may be stamped again.
    pub(super) is_stamped: [bool; KEYS_MAX],
}

/// The committed log, and what was shown of it.
#[derive(Clone, Debug, Hash)]
pub(super) struct Ledger {
    pub(super) log: Vec<Arc<Committed>>,
    /// The newest version of each register that any client was told of.
    shown: Vec<EntryId>,
    pub(super) known: Vec<Known>,
}

/// The registers as the service sees them.
struct Replayed<'a>(&'a BTreeMap<Bytes, (Register, u64)>);

impl View for Replayed<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, ViewError> {
        Ok(self.0.get(key).map(|(register, _)| register.encode()))
    }

    fn scan(&self, _start: &[u8], _end: &[u8], _direction: Direction) -> Scan<'_> {
        Box::new(std::iter::empty())
    }
}

impl Ledger {
    /// Nothing has happened yet.
    pub(super) fn new(scene: &Scene) -> Self {
        Ledger {
            log: Vec::new(),
            shown: vec![EntryId::ZERO; scene.keys.len()],
            known: vec![Known::default(); scene.scenario.asks.len()],
        }
    }

    /// A client sends a request; what its member does is taken next.
    pub(super) fn send(&mut self, scene: &Scene, ask: usize) {
        let asks = &scene.scenario.asks;
        let known = self.known[ask];
        if known.sent == 0 {
            let (above, before) = (self.held_on(scene, ask), self.held());
            let began = match &asks[ask] {
                Ask::Read { key, .. } => self.shown(scene.place(key)),
                _ => EntryId::ZERO,
            };
            self.known[ask] = Known {
                above,
                before,
                began,
                ..known
            };
        }
        self.known[ask].sent += 1;
    }

    /// Takes what a member did, in order.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub(super) fn take(&mut self, scene: &Scene, events: &[Event]) -> Result<(), String> {
        let asks = &scene.scenario.asks;
        for event in events {
            match event {
                Event::Stamped(operation) => self.check_stamping(scene, operation)?,
                Event::Committed(entry) => self.commit(entry, asks)?,
                Event::State { at, key, register } => self.check_state(*at, key, register)?,
                Event::Answered { ask, entry } => self.answer(scene, *ask, *entry)?,
                Event::Held { ask, stamps } => {
                    for (key, stamp) in stamps {
                        self.known[*ask].stamps[scene.place(key)] = Some(*stamp);
                    }
                }
                Event::Shown { ask, at, register } => {
                    let Ask::Read { key, .. } = &asks[*ask] else {
                        continue;
                    };
                    let began = self.known[*ask].began;
                    let sight = Sight {
                        at: *at,
                        version: register.version,
                        pairs: pairs_hash(register),
                    };
                    self.check_sight(&sight, key, began)?;
                    let version = self.version_of(&sight, key);
                    self.show(scene.place(key), version);
                    self.known[*ask].answered = Some(*at);
                }
                Event::ShownByQuorum {
                    ask,
                    size,
                    register,
                } => self.check_covers(scene, *ask, *size, register)?,
            }
        }
        self.forget(scene);
        Ok(())
    }

    /// Drops what no check will look at any more.
    fn forget(&mut self, scene: &Scene) {
        let asks = &scene.scenario.asks;
        let retries = 0 < scene.scenario.retries;
        let shares =
            |one: &Ask, other: &Ask| keys_of(one).iter().any(|key| keys_of(other).contains(key));
        for ask in 0..asks.len() {
            let mut known = self.known[ask];
            let others = || {
                asks.iter()
                    .zip(&self.known)
                    .filter(|(it, _)| shares(it, &asks[ask]))
            };
            match &asks[ask] {
                Ask::Read { r, .. } => {
                    let is_over = known.answered.is_some();
                    if is_over || r.is_some() {
                        known.began = EntryId::ZERO;
                    }
                    if is_over || r.is_none() {
                        known.before = 0;
                    }
                    (known.above, known.answered) =
                        (Stamp::ZERO, known.answered.map(|_| EntryId::ZERO));
                }
                Ask::Eventual { .. } => {
                    (known.above, known.before) = (Stamp::ZERO, 0);
                    if !retries && 0 < known.sent {
                        known.is_stamped = [true; KEYS_MAX];
                    }
                    // Looked at by writes and quorums' reads that begin later, and by those reads.
                    let matters = |(it, its): (&Ask, &Known)| match it {
                        Ask::Read { r, .. } => r.is_some() && its.answered.is_none(),
                        other => other.is_strong_write() && its.sent == 0,
                    };
                    if !others().any(matters) {
                        known.stamps = [None; KEYS_MAX];
                    }
                }
                _ => {
                    known.before = 0;
                    let is_named = |committed: &Arc<Committed>| {
                        committed.entry.request.map(|name| name.seq) == Some(ask as u64 + 1)
                    };
                    if known.above != Stamp::ZERO && self.log.iter().any(is_named) {
                        known.above = Stamp::ZERO;
                    }
                    let stamps = |(it, its): (&Ask, &Known)| {
                        matches!(it, Ask::Eventual { .. }) && its.is_stamped != [true; KEYS_MAX]
                    };
                    if !others().any(stamps) {
                        known.answered = None;
                    }
                }
            }
            self.known[ask] = known;
        }
    }

    fn answer(&mut self, scene: &Scene, ask: usize, entry: EntryId) -> Result<(), String> {
        let committed = self.log.get(entry.index as usize - 1);
        if committed.is_none_or(|committed| committed.entry.id != entry) {
            return Err(format!("I6: {entry} was answered and is not committed"));
        }
        self.known[ask].answered = Some(entry);
        for key in keys_of(&scene.scenario.asks[ask]) {
            let version = self.version_at(key, entry);
            self.show(scene.place(key), version);
        }
        Ok(())
    }

    /// G2 (a): an eventual write is stamped above every strong one that was acknowledged.
    fn check_stamping(&mut self, scene: &Scene, operation: &Operation) -> Result<(), String> {
        let ask = operation.name.seq as usize - 1;
        let place = scene.place(&operation.key);
        if operation.name.client != CLIENT || self.known[ask].is_stamped[place] {
            return Ok(());
        }
        self.known[ask].is_stamped[place] = true;
        let asks = &scene.scenario.asks;
        let acknowledged = asks.iter().zip(&self.known);
        let acknowledged = acknowledged
            .filter(|(ask, _)| ask.is_strong_write() && keys_of(ask).contains(&&operation.key))
            .filter_map(|(_, known)| known.answered);
        match acknowledged.max() {
            Some(strong) if operation.stamp < Stamp::strong(strong) => Err(format!(
                "G2: {:?} is stamped though {strong} was acknowledged",
                operation.stamp
            )),
            _ => Ok(()),
        }
    }

    /// What a member's engine has at `at` is what the committed log gives.
    fn check_state(&self, at: EntryId, key: &Bytes, held: &Register) -> Result<(), String> {
        let nothing = Register::default();
        let committed = self.state_at(at).and_then(|state| state.get(key));
        let committed = committed.map_or(&nothing, |(register, _)| register);
        match held.pairs().eq(committed.pairs()) {
            true => Ok(()),
            false => Err(format!(
                "I19: a member has {held:?} at {at}, the log gives {committed:?}"
            )),
        }
    }

    /// G4: a quorum's read shows what was acknowledged by a quorum before it began.
    fn check_covers(
        &mut self,
        scene: &Scene,
        ask: usize,
        size: usize,
        shown: &Register,
    ) -> Result<(), String> {
        let asks = &scene.scenario.asks;
        let Ask::Read { key, r: Some(r) } = &asks[ask] else {
            return Ok(());
        };
        let before = self.known[ask].before;
        for (place, other) in asks.iter().enumerate() {
            let Ask::Eventual { keys, w, .. } = other else {
                continue;
            };
            let is_quorum = size < w + r && keys.contains(key) && before & 1 << place != 0;
            let stamp = self.known[place].stamps[scene.place(key)].unwrap_or_default();
            if is_quorum && shown.newest() < stamp {
                return Err(format!(
                    "G4: {shown:?} is shown, {stamp:?} was acknowledged"
                ));
            }
        }
        self.known[ask].answered = Some(shown.version);
        Ok(())
    }

    /// G1, I9: what is shown is the committed state, and not before `began`, which had been shown
    /// when the read began.
    pub(super) fn check_sight(
        &self,
        sight: &Sight,
        key: &Bytes,
        began: EntryId,
    ) -> Result<(), String> {
        let Sight { at, pairs, .. } = *sight;
        let version = self.version_of(sight, key);
        if version < began {
            return Err(format!(
                "G1: {key:?} is shown as of {version} though {began} had been shown before"
            ));
        }
        let committed = self.state_at(at).and_then(|state| state.get(key));
        let expected =
            committed.map_or_else(|| pairs_hash(&Register::default()), |(_, hash)| *hash);
        match pairs == expected {
            true => Ok(()),
            false => Err(format!(
                "I9: {key:?} is not shown at {at} as the log gives it: {committed:?}"
            )),
        }
    }

    /// A member handed `entry` to its engine: it is committed.
    ///
    /// # Errors
    /// What is wrong with that, in words.
    fn commit(&mut self, entry: &Arc<Entry>, asks: &[Ask]) -> Result<(), String> {
        let place = entry.id.index as usize - 1;
        if let Some(committed) = self.log.get(place) {
            if committed.entry.id != entry.id || committed.entry.changes != entry.changes {
                let other = committed.entry.id;
                return Err(format!("I3: {} and {other} are both committed", entry.id));
            }
            return Ok(());
        }
        if place != self.log.len() {
            return Err(format!(
                "I3: {} is committed before what it follows",
                entry.id
            ));
        }
        if let Some(name) = entry.request {
            self.check_once(entry, name)?;
            let known = &self.known[name.seq as usize - 1];
            if !entry.is_settlement() && entry.stamp < known.above {
                let above = known.above;
                return Err(format!(
                    "G2: {} is below {above:?}, acknowledged before",
                    entry.id
                ));
            }
            if !entry.is_settlement() {
                self.check_decision(entry, &asks[name.seq as usize - 1])?;
            }
        }
        self.check_stamp(entry)?;
        let registers = self.replay(entry);
        let hash = hash(&(self.log.last().map(|last| last.hash), &**entry));
        self.log.push(Arc::new(Committed {
            entry: entry.clone(),
            hash,
            registers,
        }));
        Ok(())
    }

    fn check_once(&self, entry: &Entry, name: RequestId) -> Result<(), String> {
        let earlier = self
            .log
            .iter()
            .find(|other| other.entry.request == Some(name));
        match earlier {
            Some(other) => Err(format!(
                "I12: {name:?} is committed as {} and as {}",
                other.entry.id, entry.id
            )),
            None => Ok(()),
        }
    }

    /// I11: the outcome is what the log before it gives.
    fn check_decision(&self, entry: &Entry, ask: &Ask) -> Result<(), String> {
        let empty = BTreeMap::new();
        let before = self.log.last().map_or(&empty, |last| &last.registers);
        let (writes, result) = decide(ask, &Replayed(before));
        let merged = entry.changes.iter().filter_map(|change| match change {
            Change::Merge { key, ops, .. } => Some((key.clone(), ops.clone())),
            _ => None,
        });
        match result == entry.result && merged.eq(writes) {
            true => Ok(()),
            false => Err(format!(
                "I11: {} was decided {:?}, the log before it says {result:?}",
                entry.id, entry.result
            )),
        }
    }

    /// I14, I17: no element enters below what was committed of it before.
    fn check_stamp(&self, entry: &Entry) -> Result<(), String> {
        let Some(last) = self.log.last() else {
            return Ok(());
        };
        for change in &entry.changes {
            if let Change::Merge { key, ops, .. } = change
                && let Some((register, _)) = last.registers.get(key)
                && register.survivors(ops, entry.stamp) != *ops
            {
                return Err(format!(
                    "I14: {} with stamp {:?} enters below {register:?}",
                    entry.id, entry.stamp
                ));
            }
        }
        Ok(())
    }

    fn replay(&self, entry: &Entry) -> BTreeMap<Bytes, (Register, u64)> {
        let before = self.log.last().map(|last| last.registers.clone());
        let mut registers = before.unwrap_or_default();
        for change in &entry.changes {
            if let Change::Merge { key, ops, .. } = change {
                let (register, hash) = registers.entry(key.clone()).or_default();
                register.merge(ops, entry.stamp);
                register.version = entry.id;
                *hash = pairs_hash(register);
            }
        }
        registers
    }

    /// The state after the entry `at`.
    fn state_at(&self, at: EntryId) -> Option<&BTreeMap<Bytes, (Register, u64)>> {
        let place = (at.index as usize).checked_sub(1)?;
        Some(&self.log.get(place)?.registers)
    }

    /// The version of what is shown: of a register that was collected there is none left, and it
    /// stands for what the log had there.
    pub(super) fn version_of(&self, sight: &Sight, key: &Bytes) -> EntryId {
        match sight.version == EntryId::ZERO {
            true => self.version_at(key, sight.at),
            false => sight.version,
        }
    }

    /// The version that `key` has in the committed prefix up to `at`.
    fn version_at(&self, key: &Bytes, at: EntryId) -> EntryId {
        let register = self.state_at(at).and_then(|registers| registers.get(key));
        register.map_or(EntryId::ZERO, |(register, _)| register.version)
    }

    /// The greatest stamp of acknowledged eventual writes of the registers that `ask` is about.
    fn held_on(&self, scene: &Scene, ask: usize) -> Stamp {
        let keys = keys_of(&scene.scenario.asks[ask]);
        let places = keys.into_iter().map(|key| scene.place(key));
        let stamps =
            places.flat_map(|place| self.known.iter().filter_map(move |it| it.stamps[place]));
        stamps.max().unwrap_or_default()
    }

    /// The asks that were acknowledged as eventual writes, by bits.
    fn held(&self) -> u32 {
        let held = self.known.iter().enumerate();
        held.filter(|(_, known)| known.stamps.iter().any(Option::is_some))
            .fold(0, |bits, (ask, _)| bits | 1 << ask)
    }

    /// A client was told of `version` of a register.
    pub(super) fn show(&mut self, place: usize, version: EntryId) {
        self.shown[place] = version.max(self.shown[place]);
    }

    /// What was shown of a register so far.
    pub(super) fn shown(&self, place: usize) -> EntryId {
        self.shown[place]
    }
}
