//! An operator who changes the mode of the collection, in some runs. It does so at times of the
//! plan, and as often as it takes, through the head of the time.
//!
//! The collection of such a run begins `strong`, and all registers are in it. What is chosen about
//! it comes from a source of its own, so that the rest of a run is what it is without.

use std::collections::BTreeMap;

use bytes::Bytes;
use fader_chain::{
    Change, CorrelationId, Decided, EntryId, Input, Mode, ModeState, TombstonePolicy, View,
    ViewError,
};

use super::World;
use super::events::{Event, ProcessEvent};
use super::plan::{Micros, Order};
use super::random::Random;
use crate::history::Request;

/// What the keys of registers begin with that are in the collection.
const PREFIX: &[u8; 8] = b"shop-one";
/// The collection.
pub(crate) const COLLECTION: u64 = u64::from_be_bytes(*PREFIX);
/// How often the operator looks.
pub(crate) const LOOK: Micros = 25_000;
/// Tokens from here on are the operator's.
const TOKENS: u64 = 1 << 40;

/// What the operator wants from some time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish {
    /// The mode.
    pub mode: Mode,
    /// Whether it is to become strong without members that are absent.
    pub abandon: bool,
}

/// What the head is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// To begin what is wished.
    Begin(Wish),
    /// To take the next step to `strong`.
    Close,
}

/// What the operator wants and when, chosen from `seed` alone; in some runs, or if it must, at
/// least one change.
pub(crate) fn wishes(seed: u64, must: bool, end: Micros) -> Vec<(Micros, Wish)> {
    let mut random = Random::new(seed ^ 0x006d_6f64_6573);
    if !random.chance(300) && !must {
        return Vec::new();
    }
    let mut wishes = Vec::new();
    let mut at = random.between(30_000, 150_000);
    let mut mode = Mode::Mixed;
    while at < end {
        let abandon = mode == Mode::Strong && random.chance(400);
        wishes.push((at, Wish { mode, abandon }));
        at += random.skewed(20_000, 1_200_000);
        mode = match mode {
            Mode::Strong => Mode::Mixed,
            _ => Mode::Strong,
        };
    }
    wishes
}

/// Puts the registers of a plan into the collection.
pub(crate) fn collect(clients: &mut [Vec<Order>]) {
    for order in clients.iter_mut().flatten() {
        let Request {
            conditions,
            reads,
            writes,
        } = &mut order.request;
        let conditions = conditions.iter_mut().map(|(key, _)| key);
        let writes = writes.iter_mut().map(|write| &mut write.key);
        for key in conditions.chain(reads).chain(writes) {
            *key = [&PREFIX[..], key].concat().into();
        }
    }
}

/// The register of this name in such a run.
pub(crate) fn collected(name: &'static str) -> Bytes {
    [&PREFIX[..], name.as_bytes()].concat().into()
}

/// The service's part in a change of mode.
pub(crate) fn decide(turn: Turn, newest: &dyn View) -> Result<Decided, ViewError> {
    let standing = ModeState::of(newest, COLLECTION)?;
    let (mode, abandon) = match turn {
        Turn::Begin(Wish { mode, abandon }) if mode == Mode::Strong => {
            let begins = standing.mode.settles_eventual();
            (if begins { Mode::Draining } else { mode }, abandon)
        }
        Turn::Begin(Wish { mode, .. }) => (mode, false),
        Turn::Close if standing.mode == Mode::Draining => (Mode::Drained, false),
        Turn::Close => (Mode::Strong, false),
    };
    let is_awaited = standing.mode == Mode::Draining && !standing.is_abandoned;
    let is_done = mode == standing.mode.promised() && !(abandon && is_awaited);
    let change = Change::set_mode(COLLECTION, mode, abandon);
    Ok(Decided {
        changes: match turn {
            Turn::Begin(_) if is_done => Vec::new(),
            _ => vec![change],
        },
        depends_on_state: true,
        ..Decided::default()
    })
}

/// Whether eventual writes are taken.
pub(crate) fn takes_eventual(state: &dyn View) -> Result<bool, ViewError> {
    Ok(ModeState::of(state, COLLECTION)?.mode.takes_eventual())
}

/// What becomes of the marks of a merge.
pub(crate) fn marks(newest: &dyn View) -> Result<TombstonePolicy, ViewError> {
    let standing = ModeState::of(newest, COLLECTION)?;
    Ok(match standing.mode.keeps_marks() {
        true => TombstonePolicy::Kept,
        false => TombstonePolicy::Dropped,
    })
}

/// Up to where `state` may have been changed without marks, of what it shows as of `commit`.
pub(crate) fn safe_point(state: &dyn View, commit: EntryId) -> EntryId {
    let standing = ModeState::of(state, COLLECTION).expect("a simulated engine reads");
    match standing.mode {
        Mode::Strong => commit,
        _ => standing.opened,
    }
}

impl World {
    /// What is wanted now; when faults are over, without those who will not come back.
    fn wish(&self) -> Option<Wish> {
        let mut wishes = self.plan.wishes.iter().rev();
        let (_, wish) = wishes.find(|(at, _)| *at <= self.now)?;
        Some(Wish {
            abandon: wish.abandon || self.is_calm,
            ..*wish
        })
    }

    /// The operator looks how far the change has come.
    pub(crate) fn operate(&mut self) {
        self.queue.plan(self.now + LOOK, Event::Operator);
        let head = self.configuration().map(|newest| newest.head());
        let machine = head.and_then(|head| self.machine_of(head));
        let (Some(machine), Some(wish)) = (machine, self.wish()) else {
            return;
        };
        let here = &self.machines[machine];
        let Some(process) = here.process.as_ref() else {
            return;
        };
        let standing = ModeState::of(here.disk.state(), COLLECTION);
        let standing = standing.expect("a simulated engine reads");
        let is_begun = match wish.mode {
            Mode::Strong => !standing.mode.takes_eventual(),
            mode => standing.mode == mode,
        };
        let is_abandoned = standing.mode != Mode::Draining || standing.is_abandoned;
        let turn = match wish.mode {
            _ if !is_begun || (wish.abandon && !is_abandoned) => Turn::Begin(wish),
            Mode::Strong if standing.mode != Mode::Strong => Turn::Close,
            _ => return,
        };
        let is_same = |other: &Turn| (*other == Turn::Close) == (turn == Turn::Close);
        if !process.turns.values().any(is_same) {
            self.plan_for(machine, 0, ProcessEvent::Turn(turn));
        }
    }

    /// The head is asked.
    pub(crate) fn turn(&mut self, machine: usize, turn: Turn) {
        self.turns += 1;
        let token = CorrelationId(TOKENS + self.turns);
        let process = self.machines[machine].process.as_mut();
        let process = process.expect("events reach processes that run");
        process.turns.insert(token, turn);
        let input = match turn {
            Turn::Begin(_) => Input::Submit {
                token,
                request: None,
                barrier: Vec::new(),
            },
            Turn::Close => Input::Close {
                token,
                collection: COLLECTION,
            },
        };
        self.input(machine, input);
    }

    /// I20: whether the last change has come to its end.
    pub(crate) fn mode_rests(&self) -> Result<(), String> {
        let Some((_, wish)) = self.plan.wishes.last() else {
            return Ok(());
        };
        let states = self.machines.iter().map(|machine| machine.disk.state());
        for state in states {
            let standing = ModeState::of(state, COLLECTION).expect("a simulated engine reads");
            if standing.mode.promised() != wish.mode {
                return Err(format!("the mode is {}, not {}", standing.mode, wish.mode));
            }
        }
        Ok(())
    }
}

/// The requests of the operator that wait for an answer.
pub(crate) type Turns = BTreeMap<CorrelationId, Turn>;
