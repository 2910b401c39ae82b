//! The committed log, replayed with every mark kept: what each entry must have been.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use bytes::Bytes;
use fader_chain::{
    Change, Direction, ElementOp, Entry, EntryId, Outcome, Register, RequestId, Scan, Settlement,
    View, ViewError,
};

use super::Ledger;
use super::modes::Turned;
use crate::model::client_requests::Part;
use crate::model::node::{StrongRead, pairs_hash};
use crate::model::scenarios::PreparedScenario;
use crate::model::shell::{decide, settle};
use crate::model::table::hash;
use crate::service::PAIRS;

/// One committed entry, with the state it leads to.
#[derive(Clone, Debug)]
pub(in crate::model) struct Committed {
    pub(in crate::model) entry: Arc<Entry>,
    hash: u64,
    state: State,
}

impl Hash for Committed {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.hash.hash(state);
    }
}

/// What a prefix of the log comes to.
#[derive(Clone, Debug, Default)]
struct State {
    /// Every register, with every mark, and the hash of what it shows.
    registers: BTreeMap<Bytes, (Register, u64)>,
    /// The same from whole operations, not from what was left of them (semantics.md, section 6).
    joined: BTreeMap<Bytes, Register>,
    /// What is put whole, and the mode.
    plain: BTreeMap<Bytes, Bytes>,
    turned: Turned,
}

impl View for State {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, ViewError> {
        let register = self.registers.get(key);
        let register = register.map(|(register, _)| register.encode());
        Ok(register.or_else(|| self.plain.get(key).cloned()))
    }

    fn scan(&self, _start: &[u8], _end: &[u8], _direction: Direction) -> Scan<'_> {
        Box::new(std::iter::empty())
    }
}

impl State {
    fn register(&self, key: &Bytes) -> Register {
        let known = self.registers.get(key);
        known.map_or_else(Register::default, |(register, _)| register.clone())
    }

    /// Takes an entry; `whole` is the operation that it settles, if it lets one in.
    fn take(&mut self, entry: &Entry, whole: Option<Part>) -> Result<(), String> {
        let mut merges = Vec::new();
        for change in &entry.changes {
            match change {
                Change::Merge { key, ops, .. } => {
                    let (register, hash) = self.registers.entry(key.clone()).or_default();
                    register.merge(ops, entry.stamp);
                    register.version = entry.id;
                    *hash = pairs_hash(register);
                    merges.push((key.clone(), ops.clone()));
                }
                // Marks stay here for ever.
                Change::Collect { .. } => {}
                Change::Put { .. } | Change::Remove { .. } | Change::SetMode { .. } => {
                    self.put(change, entry)?;
                }
            }
        }
        if let Some(whole) = whole {
            merges = vec![whole];
        }
        for (key, ops) in merges {
            let register = self.joined.entry(key).or_default();
            register.merge(&ops, entry.stamp);
        }
        self.turned.take(entry);
        Ok(())
    }

    fn put(&mut self, change: &Change, entry: &Entry) -> Result<(), String> {
        let current = self.plain.get(change.key()).cloned();
        let mut mutations = Vec::new();
        let applied = fader_chain::apply(change, current, &entry.under(), &mut mutations);
        applied.map_err(|error| error.to_string())?;
        for mutation in mutations {
            match mutation.value {
                Some(value) => self.plain.insert(mutation.key, value),
                None => self.plain.remove(&mutation.key),
            };
        }
        Ok(())
    }

    /// D12, semantics.md, section 6: what the log lets in of operations is what they come to whole.
    /// And what derives from registers is what they show.
    fn check(&self, id: EntryId) -> Result<(), String> {
        for (key, whole) in &self.joined {
            let entered = self.register(key);
            if pairs_hash(whole) != pairs_hash(&entered) {
                return Err(format!(
                    "G3: {key:?} is {entered:?} at {id}, its operations come to {whole:?}"
                ));
            }
        }
        let count = self.plain.get(PAIRS).map(|value| value.as_ref().try_into());
        let count = count.and_then(Result::ok).map(u64::from_be_bytes);
        let registers = self.registers.values();
        let pairs: usize = registers
            .map(|(register, _)| register.pairs().count())
            .sum();
        match count {
            Some(count) if count != pairs as u64 => Err(format!(
                "I14: at {id} {count} pairs are counted, {pairs} are there"
            )),
            _ => Ok(()),
        }
    }
}

impl Ledger {
    /// A member handed `entry` to its engine: it is committed.
    ///
    /// # Errors
    /// What is wrong with that, in words.
    pub(super) fn commit(
        &mut self,
        entry: &Arc<Entry>,
        scene: &PreparedScenario,
    ) -> Result<(), String> {
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
        let mut state = self.log.last().map(|last| last.state.clone());
        let state = state.get_or_insert_default();
        let mut whole = None;
        if let Some(name) = entry.request {
            self.check_once(entry, name)?;
            match entry.is_settlement() {
                true => whole = self.check_settlement(entry, name, scene, state)?,
                false => self.check_decision(entry, name, scene, state)?,
            }
        }
        check_stamp(entry, scene, state)?;
        self.check_turn(entry, scene, &state.turned)?;
        state.take(entry, whole)?;
        state.check(entry.id)?;
        let hash = hash(&(self.log.last().map(|last| last.hash), &**entry));
        self.log.push(Arc::new(Committed {
            entry: entry.clone(),
            hash,
            state: std::mem::take(state),
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

    /// I11: the outcome is what the log before it gives; G2 (b), G8: and it is above what was
    /// acknowledged.
    fn check_decision(
        &self,
        entry: &Entry,
        name: RequestId,
        scene: &PreparedScenario,
        before: &State,
    ) -> Result<(), String> {
        let place = scene.ask_of(name.seq);
        let above = self.known[place].above;
        if entry.stamp < above {
            return Err(format!(
                "G2: {} is below {above:?}, acknowledged before",
                entry.id
            ));
        }
        let ask = &scene.scenario.asks[place];
        let (changes, result) = decide(&scene.scenario, ask, before);
        if result != entry.result || changes != entry.changes {
            return Err(format!(
                "I11: {} was decided {:?}, {:?}, the log before it says {result:?}, {changes:?}",
                entry.id, entry.result, entry.changes
            ));
        }
        if let Some(key) = super::keys_of(ask).first().filter(|_| ask.is_barrier()) {
            self.check_behind_barrier(scene, place, &before.register(key))?;
        }
        Ok(())
    }

    /// PR-3, MD-5: an operation is settled as the log before it says. Gives all of it, if any of
    /// it counts.
    fn check_settlement(
        &self,
        entry: &Entry,
        name: RequestId,
        scene: &PreparedScenario,
        before: &State,
    ) -> Result<Option<Part>, String> {
        let place = scene.ask_of(name.seq);
        let ask = &scene.scenario.asks[place];
        let part = ask.tentative().and_then(|(_, writes)| {
            let (key, ops) = writes.get(name.part as usize)?;
            Some((key.clone(), ops.clone()))
        });
        let (key, ops) = part.ok_or_else(|| format!("I12: no client asked for {name:?}"))?;
        let settlement =
            Settlement::decode(entry.result.clone()).map_err(|error| error.to_string())?;
        let outcome = settlement.outcome;
        if outcome == Outcome::Gone {
            self.check_gone(entry, place, &before.turned)?;
        }
        let is_same = |other: &Arc<Committed>| {
            let other = &other.entry;
            other.is_settlement() && other.stamp == entry.stamp && other.request != entry.request
        };
        let is_batch = |other: &Arc<Committed>| {
            let other = other.entry.request.map(|other| (other.client, other.seq));
            other == Some((name.client, name.seq))
        };
        if let Some(other) = self.log.iter().find(|it| is_same(it) && !is_batch(it)) {
            let other = other.entry.request;
            return Err(format!("I18: {name:?} and {other:?} have one stamp"));
        }
        let accept = self.known[place].accept[scene.place(&key)];
        let register = before.register(&key);
        let survivors = register.survivors(&ops, entry.stamp);
        let (expected, changes) = match survivors.is_empty() {
            _ if scene.scenario.has_modes && !before.turned.settles(accept) => {
                (Outcome::Gone, Vec::new())
            }
            true => (Outcome::Superseded, Vec::new()),
            false => {
                let scenario = &scene.scenario;
                settle(scenario, ask, &key, &survivors, entry.stamp, before)
            }
        };
        // What a mark turns away that is collected here is another matter (I17).
        let is_whole = scene.scenario.safe_points == 0;
        if is_whole && (outcome != expected || changes != entry.changes) {
            return Err(format!(
                "I14: {} is settled {outcome:?}, {:?}, the log before it says {expected:?}, \
                 {changes:?}",
                entry.id, entry.changes
            ));
        }
        let counts = matches!(outcome, Outcome::Applied | Outcome::Superseded);
        Ok(counts.then_some((key, ops)))
    }

    /// The state after the entry `at`.
    pub(super) fn state_at(&self, at: EntryId) -> Option<&BTreeMap<Bytes, (Register, u64)>> {
        let place = (at.index as usize).checked_sub(1)?;
        Some(&self.log.get(place)?.state.registers)
    }

    /// What the mode is after the whole log.
    pub(super) fn turned(&self) -> Turned {
        self.log
            .last()
            .map_or_else(Turned::default, |last| last.state.turned)
    }

    /// The version of what is shown: of a register that was collected there is none left, and it
    /// stands for what the log had there.
    pub(in crate::model) fn version_of(&self, sight: &StrongRead, key: &Bytes) -> EntryId {
        match sight.version == EntryId::ZERO {
            true => self.version_at(key, sight.at),
            false => sight.version,
        }
    }

    /// The version that `key` has in the committed prefix up to `at`.
    pub(super) fn version_at(&self, key: &Bytes, at: EntryId) -> EntryId {
        let register = self.state_at(at).and_then(|registers| registers.get(key));
        register.map_or(EntryId::ZERO, |(register, _)| register.version)
    }
}

/// I14, I17: no element enters below what was committed of it before. Of marks that are collected
/// it counts that nothing comes back.
fn check_stamp(entry: &Entry, scene: &PreparedScenario, before: &State) -> Result<(), String> {
    for change in &entry.changes {
        let Change::Merge { key, ops, .. } = change else {
            continue;
        };
        let counts = |op: &&ElementOp| {
            let is_collected = 0 < scene.scenario.safe_points;
            !is_collected || matches!(op, ElementOp::Add { .. })
        };
        let ops: Vec<ElementOp> = ops.iter().filter(counts).cloned().collect();
        let register = before.register(key);
        if register.survivors(&ops, entry.stamp) != ops {
            return Err(format!(
                "I14: {} with stamp {:?} enters below {register:?}",
                entry.id, entry.stamp
            ));
        }
    }
    Ok(())
}
