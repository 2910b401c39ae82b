//! The shell of one step: what the scenario's requests come to, over a member's engine or over
//! what the ledger knows.

use bytes::Bytes;
use fader_chain::{
    Accepted, Change, CorrelationId, Decided, ElementOp, EntryId, Host, Mode, ModeState, Operation,
    Outcome, Register, Settled, Stamp, TombstonePolicy, View, ViewError,
};

use fader_services::blocks;
use fader_services::catalog::AccountId;
use fader_services::service::{Context, Service as _};

use super::client_requests::{COLLECTION, ClientRequest, replacement};
use super::node::{Store, register};
use super::scenarios::{PreparedScenario, Scenario};
use crate::history::Request;
use crate::service::{Answer, PAIRS, Service, State, pairs_value};

/// The shell of one step.
pub(super) struct Shell<'a> {
    pub(super) store: &'a mut Store,
    pub(super) fixed: &'a mut Option<Store>,
    pub(super) scene: &'a PreparedScenario,
}

impl Shell<'_> {
    fn ask(&self, token: CorrelationId) -> &ClientRequest {
        let asks = &self.scene.scenario.asks;
        &asks[token.0 as usize % asks.len()]
    }
}

/// A view as the service reads it.
struct Seen<'a>(&'a dyn View);

impl State for Seen<'_> {
    fn register(&self, key: &Bytes) -> Register {
        register(self.0, key)
    }

    fn pairs(&self) -> u64 {
        let value = self.0.get(PAIRS).expect("a store in memory does not fail");
        value.map_or(0, |value| {
            let bytes = value.as_ref().try_into();
            u64::from_be_bytes(bytes.expect("the service writes eight bytes"))
        })
    }
}

/// What is known of the mode in `state`.
fn standing(state: &dyn View) -> ModeState {
    ModeState::of(state, COLLECTION).expect("a store in memory does not fail")
}

fn marks(scenario: &Scenario, state: &dyn View) -> TombstonePolicy {
    match scenario.has_modes && !standing(state).mode.keeps_marks() {
        true => TombstonePolicy::Dropped,
        false => TombstonePolicy::Kept,
    }
}

fn service(scenario: &Scenario) -> Service {
    Service {
        pairs_max: scenario.pairs_max,
    }
}

fn put_pairs(pairs: u64) -> Change {
    Change::Put {
        key: Bytes::from_static(PAIRS),
        value: pairs_value(pairs),
    }
}

/// What a strong request does to the state, and the outcome kept under its name.
pub(super) fn decide(
    scenario: &Scenario,
    ask: &ClientRequest,
    newest: &dyn View,
) -> (Vec<Change>, Bytes) {
    let has = |key| !register(newest, key).is_empty();
    let marks = marks(scenario, newest);
    let put = |key: &Bytes, value: Option<&Bytes>| Change::Merge {
        key: key.clone(),
        ops: replacement(value),
        marks,
    };
    let (yes, no) = (Bytes::from_static(b"yes"), Bytes::from_static(b"no"));
    match ask {
        ClientRequest::Put { keys, value } => {
            let put = |key: &Bytes| put(key, Some(value));
            (keys.iter().map(put).collect(), yes)
        }
        ClientRequest::Delete { key } => (vec![put(key, None)], yes),
        ClientRequest::PutIfAbsent { key, value, .. } => match has(key) {
            false => (vec![put(key, Some(value))], yes),
            true => (Vec::new(), no),
        },
        ClientRequest::Move { from, to } => {
            let held = register(newest, from);
            let value = held.pairs().next().map(|(_, value)| value.clone());
            match value.filter(|_| !has(to)) {
                Some(value) => (vec![put(from, None), put(to, Some(&value))], yes),
                None => (Vec::new(), no),
            }
        }
        ClientRequest::Strong(request) => {
            let decision = service(scenario).decide(request, &Seen(newest));
            let merges = decision.writes.into_iter().map(|write| Change::Merge {
                key: write.key,
                ops: write.ops,
                marks,
            });
            let changes = merges.chain(decision.pairs.map(put_pairs)).collect();
            (changes, decision.answer.encode())
        }
        ClientRequest::Rows(command) => (row_changes(newest, command), Bytes::new()),
        ClientRequest::Turn { mode, abandon } => turn(*mode, *abandon, &standing(newest)),
        ClientRequest::Close => match standing(newest).mode {
            Mode::Draining => (vec![turned(Mode::Drained, false)], yes),
            _ => (vec![turned(Mode::Strong, false)], yes),
        },
        ClientRequest::Eventual { .. }
        | ClientRequest::Merge { .. }
        | ClientRequest::Read { .. } => (Vec::new(), no),
    }
}

/// What the service of blocks changes.
fn row_changes(newest: &dyn View, command: &blocks::Command) -> Vec<Change> {
    let (account, limits) = (AccountId(String::new()), blocks::Limits::default());
    let context = Context::new(&account, &limits);
    let decision = blocks::Blocks::decide(newest, &context, command);
    decision
        .expect("a command about blocks does not wait")
        .changes
}

fn turned(mode: Mode, abandon: bool) -> Change {
    Change::set_mode(COLLECTION, mode, abandon)
}

/// The operator asks for another mode: what is not there yet, and the way to `strong` by draining.
fn turn(wanted: Mode, abandon: bool, standing: &ModeState) -> (Vec<Change>, Bytes) {
    let mode = match wanted == Mode::Strong && standing.mode.settles_eventual() {
        true => Mode::Draining,
        false => wanted,
    };
    let is_news = mode != standing.mode.promised() || (abandon && !standing.is_abandoned);
    let changes = is_news.then(|| turned(mode, abandon));
    (changes.into_iter().collect(), Bytes::from_static(b"turned"))
}

/// How an eventual write of `ops` is settled that the log does not dominate: the outcome, and what
/// enters.
pub(super) fn settle(
    scenario: &Scenario,
    ask: &ClientRequest,
    key: &Bytes,
    ops: &[ElementOp],
    stamp: Stamp,
    newest: &dyn View,
) -> (Outcome, Vec<Change>) {
    let merge = Change::Merge {
        key: key.clone(),
        ops: ops.to_vec(),
        marks: marks(scenario, newest),
    };
    if !matches!(ask, ClientRequest::Merge { .. }) {
        return (Outcome::Applied, vec![merge]);
    }
    match service(scenario).settle(key, ops, stamp, &Seen(newest)) {
        Some(pairs) => (Outcome::Applied, vec![merge, put_pairs(pairs)]),
        None => (Outcome::Refused(Bytes::from_static(b"limit")), Vec::new()),
    }
}

impl Host for Shell<'_> {
    fn committed(&self) -> &dyn View {
        &*self.store
    }

    fn decide(&self, token: CorrelationId, newest: &dyn View) -> Result<Decided, ViewError> {
        let (changes, result) = decide(&self.scene.scenario, self.ask(token), newest);
        Ok(Decided {
            result,
            changes,
            depends_on_state: true,
        })
    }

    fn accept(
        &self,
        token: CorrelationId,
        tentative: &dyn View,
    ) -> Result<Option<Vec<Accepted>>, ViewError> {
        let scenario = &self.scene.scenario;
        if scenario.has_modes && !standing(tentative).mode.takes_eventual() {
            return Ok(None);
        }
        let ask = self.ask(token);
        if let ClientRequest::Merge { writes, .. } = ask {
            let request = Request {
                writes: writes.clone(),
                ..Request::default()
            };
            let decision = service(scenario).decide(&request, &Seen(tentative));
            if !matches!(decision.answer, Answer::Done(_)) {
                return Ok(None);
            }
        }
        Ok(ask.tentative().map(|(_, writes)| {
            let accepted = writes.into_iter().map(|(key, ops)| Accepted { key, ops });
            accepted.collect()
        }))
    }

    fn settle(&self, operation: &Operation, newest: &dyn View) -> Result<Settled, ViewError> {
        let scenario = &self.scene.scenario;
        let ask = &scenario.asks[self.scene.ask_of(operation.name.seq)];
        let (key, stamp) = (&operation.key, operation.stamp);
        Ok(
            match settle(scenario, ask, key, &operation.ops, stamp, newest) {
                (Outcome::Refused(reason), _) => Settled::Refused(reason),
                (_, changes) => Settled::Apply(changes),
            },
        )
    }

    fn fix(&mut self) {
        *self.fixed = Some(self.store.clone());
    }

    fn fixed(&self) -> Option<(EntryId, &dyn View)> {
        let fixed = self.fixed.as_ref()?;
        Some((fixed.applied, fixed))
    }

    fn unfix(&mut self) {
        *self.fixed = None;
    }
}
