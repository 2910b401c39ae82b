//! What has been committed anywhere, and what clients know: against this every step is checked.
//!
//! What can no longer make a difference to any check is forgotten at once ([`Ledger::forget`]), so
//! that states which differ in it only are one.

mod forget;
mod log;
mod modes;
mod reads;

use std::sync::Arc;

use bytes::Bytes;
use fader_chain::{Entry, EntryId, Operation, Outcome, Register, Stamp};

use super::client_requests::{ClientRequest, keys_of};
use super::node::{StrongRead, pairs_hash};
use super::scenarios::{KEYS_MAX, PreparedScenario};
use super::step::CLIENT;
use log::Committed;

/// What a member did that is checked.
#[derive(Clone, Debug)]
pub(super) enum Event {
    /// It stamped an operation, or took up one with a stamp of its own. What it stamped is above
    /// what it held on the register (D5): the greatest of those stamps.
    Stamped(Arc<Operation>, Stamp),
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
    /// It refused a request.
    Refused { ask: usize },
    /// It acknowledged an eventual write: the stamps of what is not settled, and how the rest was.
    Held {
        ask: usize,
        stamps: Vec<(Bytes, Stamp)>,
        settled: Vec<Outcome>,
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
    /// So much time has passed everywhere: one more moment.
    Passed,
}

/// What a client knows of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Known {
    /// It was sent, so many times.
    pub(super) sent: u8,
    /// It was answered: strong ones with their entry.
    pub(super) answered: Option<EntryId>,
    /// It was answered, and others were waiting for that.
    pub(super) is_over: bool,
    /// The stamps of an eventual write, once it is acknowledged, by register.
    pub(super) stamps: [Option<Stamp>; KEYS_MAX],
    /// An eventual write was acknowledged as one that takes effect, and is not settled.
    pub(super) is_held: bool,
    /// What had been shown of the register when a read began.
    pub(super) began: EntryId,
    /// The greatest stamp on its registers that was acknowledged when it was first sent.
    pub(super) above: Stamp,
    /// Which asks had been acknowledged when it was first sent, by bits.
    pub(super) before: u32,
    /// An eventual write was stamped, by register: later attempts may be stamped again.
    pub(super) is_stamped: [bool; KEYS_MAX],
    /// Where the mode changes: with which last entry it was accepted, by register.
    pub(super) accept: [EntryId; KEYS_MAX],
    /// When a bounded read began, and when what it must show was answered.
    pub(super) moment: u8,
}

/// The committed log, and what was shown of it.
#[derive(Clone, Debug, Hash)]
pub(super) struct Ledger {
    pub(super) log: Vec<Arc<Committed>>,
    /// The newest version of each register that any client was told of.
    shown: Vec<EntryId>,
    pub(super) known: Vec<Known>,
    /// How many moments have passed.
    moment: u8,
}

impl Ledger {
    /// Nothing has happened yet.
    pub(super) fn new(scene: &PreparedScenario) -> Self {
        Ledger {
            log: Vec::new(),
            shown: vec![EntryId::ZERO; scene.keys.len()],
            known: vec![Known::default(); scene.scenario.asks.len()],
            moment: 0,
        }
    }

    /// A client sends a request; what its member does is taken next.
    pub(super) fn send(&mut self, scene: &PreparedScenario, ask: usize) {
        let asks = &scene.scenario.asks;
        let known = self.known[ask];
        if known.sent == 0 {
            let above = self.held_on(scene, ask);
            let before = match asks[ask].is_bounded() {
                true => self.answered(scene),
                false => self.held(),
            };
            let (began, moment) = match &asks[ask] {
                ClientRequest::Read { key, .. } => (self.shown(scene.place(key)), self.moment),
                _ => (EntryId::ZERO, 0),
            };
            self.known[ask] = Known {
                above,
                before,
                began,
                moment,
                ..known
            };
        }
        self.known[ask].sent += 1;
    }

    /// Takes what a member did, in order.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub(super) fn take(
        &mut self,
        scene: &PreparedScenario,
        events: &[Event],
    ) -> Result<(), String> {
        for event in events {
            match event {
                Event::Stamped(operation, held) => {
                    self.check_stamping(scene, operation, *held)?;
                }
                Event::Committed(entry) => self.commit(entry, scene)?,
                Event::State { at, key, register } => self.check_state(*at, key, register)?,
                Event::Answered { ask, entry } => self.answer(scene, *ask, *entry)?,
                Event::Refused { ask } => {
                    // The operator asks again.
                    if scene.scenario.asks[*ask] == ClientRequest::Close {
                        self.known[*ask].sent = 0;
                    }
                }
                Event::Held {
                    ask,
                    stamps,
                    settled,
                } => self.hold(scene, *ask, stamps, settled)?,
                Event::Shown { ask, at, register } => self.show_at(scene, *ask, *at, register)?,
                Event::ShownByQuorum {
                    ask,
                    size,
                    register,
                } => self.check_covers(scene, *ask, *size, register)?,
                Event::Passed => self.moment += 1,
            }
        }
        self.forget(scene);
        Ok(())
    }

    fn show_at(
        &mut self,
        scene: &PreparedScenario,
        ask: usize,
        at: EntryId,
        register: &Register,
    ) -> Result<(), String> {
        let ClientRequest::Read { key, .. } = &scene.scenario.asks[ask] else {
            return Ok(());
        };
        let is_bounded = scene.scenario.asks[ask].is_bounded();
        let began = match is_bounded {
            true => EntryId::ZERO,
            false => self.known[ask].began,
        };
        let sight = StrongRead {
            at,
            version: register.version,
            pairs: pairs_hash(register),
        };
        self.check_sight(&sight, key, began)?;
        match is_bounded {
            true => self.check_bound(scene, ask, at)?,
            false => {
                self.check_behind_barrier(scene, ask, register)?;
                let version = self.version_of(&sight, key);
                self.show(scene.place(key), version);
            }
        }
        self.known[ask].answered = Some(at);
        self.known[ask].is_over = true;
        Ok(())
    }

    fn answer(
        &mut self,
        scene: &PreparedScenario,
        ask: usize,
        entry: EntryId,
    ) -> Result<(), String> {
        let committed = self.log.get(entry.index as usize - 1);
        if committed.is_none_or(|committed| committed.entry.id != entry) {
            return Err(format!("I6: {entry} was answered and is not committed"));
        }
        let moment = self.moment;
        let known = &mut self.known[ask];
        if known.answered.is_none() {
            known.moment = moment;
        }
        (known.answered, known.is_over) = (Some(entry), true);
        for key in keys_of(&scene.scenario.asks[ask]) {
            let version = self.version_at(key, entry);
            self.show(scene.place(key), version);
        }
        Ok(())
    }

    /// An eventual write is acknowledged.
    fn hold(
        &mut self,
        scene: &PreparedScenario,
        ask: usize,
        stamps: &[(Bytes, Stamp)],
        settled: &[Outcome],
    ) -> Result<(), String> {
        // Who lies about what it has seen is promised nothing.
        if scene
            .scenario
            .forged
            .is_some_and(|(forged, _)| forged == ask)
        {
            return Ok(());
        }
        for (key, stamp) in stamps {
            self.known[ask].stamps[scene.place(key)] = Some(*stamp);
        }
        let takes = |outcome: &Outcome| matches!(outcome, Outcome::Applied | Outcome::Superseded);
        self.known[ask].is_held |= settled.iter().all(takes);
        self.known[ask].is_over = true;
        self.check_kept(scene, ask)
    }

    /// D5, G2 (a): an eventual write is stamped above what its member shows, and above every strong
    /// one that was acknowledged.
    fn check_stamping(
        &mut self,
        scene: &PreparedScenario,
        operation: &Operation,
        held: Stamp,
    ) -> Result<(), String> {
        if operation.stamp <= held {
            return Err(format!(
                "D5: {:?} is stamped where {held:?} is held",
                operation.stamp
            ));
        }
        let ask = scene.ask_of(operation.name.seq);
        let place = scene.place(&operation.key);
        if operation.name.client.id != CLIENT || self.known[ask].is_stamped[place] {
            return Ok(());
        }
        self.known[ask].is_stamped[place] = true;
        if scene.scenario.has_modes {
            self.known[ask].accept[place] = operation.accept;
        }
        let asks = &scene.scenario.asks;
        let acknowledged = asks.iter().zip(&self.known);
        let acknowledged = acknowledged
            .filter(|(ask, _)| ask.is_strong_write() && keys_of(ask).contains(&&operation.key))
            .filter_map(|(_, known)| known.answered)
            // A refusal writes nothing.
            .filter(|entry| self.version_at(&operation.key, *entry) == *entry);
        match acknowledged.max() {
            Some(strong) if operation.stamp < Stamp::strong(strong) => Err(format!(
                "G2: {:?} is stamped though {strong} was acknowledged",
                operation.stamp
            )),
            _ => Ok(()),
        }
    }

    /// The greatest stamp of acknowledged eventual writes of the registers that `ask` is about.
    fn held_on(&self, scene: &PreparedScenario, ask: usize) -> Stamp {
        let keys = keys_of(&scene.scenario.asks[ask]);
        let places = keys.into_iter().map(|key| scene.place(key));
        let stamps =
            places.flat_map(|place| self.known.iter().filter_map(move |it| it.stamps[place]));
        stamps.max().unwrap_or_default()
    }

    /// The asks that were acknowledged as eventual writes, by bits.
    fn held(&self) -> u32 {
        self.those(|_, known| known.stamps.iter().any(Option::is_some))
    }

    /// The strong writes that were answered, by bits.
    fn answered(&self, scene: &PreparedScenario) -> u32 {
        let asks = &scene.scenario.asks;
        self.those(|ask, known| asks[ask].is_strong_write() && known.answered.is_some())
    }

    fn those(&self, is_one: impl Fn(usize, &Known) -> bool) -> u32 {
        let known = self.known.iter().enumerate();
        known
            .filter(|(ask, known)| is_one(*ask, known))
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
