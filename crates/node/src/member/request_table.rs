//! What the chain thread has on its desk: requests that are not answered yet, and the engine's
//! state as the replica knows it. The replica asks here (`fader_chain::Host`).
//!
//! Invariants:
//! - TABLE-1 a request is answered once: as decided, or that its outcome is unknown.
//! - `committed` is the engine's state as of the last entry that the replica was told is
//!   applied.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use fader_chain::{
    ALL_GUARDS, Accepted, Change, CorrelationId, Decided, EntryId, Host, Operation, Settled, View,
};
use fader_services::blocks::Standpoint;
use fader_services::catalog;
use fader_services::request::{self, Limits, Outcome, Refusal as Refused};
use fader_services::service::{Context, Target, Trouble, Wait};
use fader_services::waiters::{Bounds, Waiters};
use fader_services::{Call, CollectionId, Reason, SYSTEM, UnlimitedBudget, ViewError};

use super::blocks::MemberBlocks;
use super::context::{Around, in_context, reads_keys};
use super::pending::{PendingRequest, Stage, is_result_of, kept_result};
use super::purge::DomainPurge;
use super::quorum::{Members, Quorum};
use super::refusal::{Kind, Refusal};
use super::room::Room;
use crate::settings::{Collections, Settings};
use crate::storage::engine::Snapshot;

/// Rows that one step of the services' work changes: a few milliseconds.
const ROWS_PER_UPKEEP: usize = 200;
/// How often it is looked for work of the services.
const LOOK_MS: u64 = 1000;

type Decision = fader_services::Decision<Outcome>;

/// What a decision comes to that is none: the request is eventual, or it waits.
enum Later {
    Eventual(Quorum),
    Wait(CollectionId, Wait),
}

/// The desk.
pub(crate) struct RequestTable {
    pub(super) settings: Settings,
    blocks: Arc<MemberBlocks>,
    pub(super) room: Room,
    committed: Snapshot,
    applied: EntryId,
    fixed: Option<(EntryId, Snapshot)>,
    works: RefCell<BTreeMap<CorrelationId, Box<PendingRequest>>>,
    next_token: u64,
    sweep: RefCell<DomainPurge>,
    /// When it was last looked for work of the services.
    looked_at: u64,
    members: Members,
    pub(super) waiters: RefCell<Waiters>,
    /// Requests that wait for their collection to change.
    pub(super) parked: BTreeMap<CorrelationId, Box<PendingRequest>>,
}

impl RequestTable {
    /// An empty desk over an engine that has everything up to `applied`.
    pub(crate) fn new(
        settings: Settings,
        blocks: Arc<MemberBlocks>,
        committed: Snapshot,
        applied: EntryId,
    ) -> Self {
        RequestTable {
            settings,
            room: Room::new(blocks.clone()),
            blocks,
            committed,
            applied,
            fixed: None,
            works: RefCell::default(),
            next_token: 0,
            sweep: RefCell::new(DomainPurge::new()),
            looked_at: 0,
            members: Members::ONE,
            waiters: RefCell::new(Waiters::new(Bounds::default())),
            parked: BTreeMap::new(),
        }
    }

    /// The chain has so many members now.
    pub(crate) fn on_members(&mut self, members: Members) {
        self.members = members;
    }

    /// Requests that wait for other members, and that no asker waits for any more.
    pub(crate) fn given_up(&self) -> Vec<CorrelationId> {
        let works = self.works.borrow();
        let given_up = works.iter().filter(|(_, work)| work.is_given_up());
        given_up.map(|(token, _)| *token).collect()
    }

    /// Eventual writes of sessions whose time is over.
    pub(crate) fn overdue(&self) -> Vec<CorrelationId> {
        let works = self.works.borrow();
        let now = Instant::now();
        let overdue = works.iter().filter(|(_, work)| work.is_overdue(now));
        overdue.map(|(token, _)| *token).collect()
    }

    /// Whether the last step of this collection's change of mode waits for others.
    pub(crate) fn is_closing(&self, collection: CollectionId) -> bool {
        self.has(|work| matches!(*work, PendingRequest::Close(other) if other == collection))
    }

    /// Whether any request is in the thread's hands.
    pub(super) fn has_any(&self) -> bool {
        self.has_waiters() || !self.works.borrow().is_empty()
    }

    /// Whether a request in the thread's hands `is_so`, but for those that wait for their
    /// collection.
    pub(super) fn has(&self, is_so: impl Fn(&PendingRequest) -> bool) -> bool {
        self.works.borrow().values().any(|work| is_so(work))
    }

    /// Takes a request.
    pub(crate) fn put(&mut self, work: Box<PendingRequest>) -> CorrelationId {
        let token = self.token();
        self.works.get_mut().insert(token, work);
        token
    }

    /// A token that was never given.
    pub(super) fn token(&mut self) -> CorrelationId {
        let token = CorrelationId(self.next_token);
        self.next_token += 1;
        token
    }

    /// The same of one that may have been answered.
    pub(super) fn take_if_there(&mut self, token: CorrelationId) -> Option<Box<PendingRequest>> {
        let is_there = self.works.get_mut().contains_key(&token);
        is_there.then(|| self.take(token))
    }

    /// Gives a request back, to be answered.
    pub(crate) fn take(&mut self, token: CorrelationId) -> Box<PendingRequest> {
        let work = self.works.get_mut().remove(&token);
        let work = work.expect("TABLE-1: a token is answered once");
        // It waited, and waits no more, with any outcome.
        if let PendingRequest::Write {
            waiter: Some(waiter),
            ..
        } = &*work
            && work.waits().is_none()
        {
            self.waiters.get_mut().leave(*waiter);
        }
        work
    }

    /// The engine was brought to the entry `applied`.
    pub(crate) fn on_applied(&mut self, committed: Snapshot, applied: EntryId) {
        self.committed = committed;
        self.applied = applied;
    }

    /// The engine took a part of another member's state.
    pub(crate) fn on_filling(&mut self, filling: Snapshot) {
        self.committed = filling;
    }

    /// Whether the request is a read of more than single keys.
    pub(crate) fn is_scan(&self, token: CorrelationId) -> bool {
        let works = self.works.borrow();
        match works.get(&token).map(|work| &**work) {
            Some(PendingRequest::Read { call, .. }) => !reads_keys(call),
            _ => false,
        }
    }

    /// The engine's state.
    pub(crate) fn snapshot(&self) -> &Snapshot {
        &self.committed
    }

    /// What is known here of which blocks may go. A member that is alone is all that there are.
    pub(super) fn standpoint(&self, safe_point: EntryId) -> Standpoint {
        Standpoint {
            state: self.applied,
            safe_point,
            oldest_snapshot: self.fixed.as_ref().map(|(at, _)| *at),
        }
    }

    /// The last entry that it has.
    pub(crate) fn applied(&self) -> EntryId {
        self.applied
    }

    /// The sweep of deleted collections.
    pub(crate) fn sweep(&mut self) -> &mut DomainPurge {
        self.sweep.get_mut()
    }

    /// What changes when the services do some of the work that is due now.
    fn upkeep(&self, view: &dyn View) -> Result<Vec<Change>, ViewError> {
        let (limits, chain) = (&self.settings.limits, self.settings.placing.chain);
        let now_ms = self.settings.clock.now_ms();
        request::upkeep(view, limits, &ALL_GUARDS, chain, now_ms, ROWS_PER_UPKEEP)
    }

    /// Looks once in a while whether the services have work to do: then the sweep does it.
    pub(super) fn look_for_work(&mut self) {
        let now_ms = self.settings.clock.monotonic_ms();
        if now_ms < self.looked_at + LOOK_MS {
            return;
        }
        self.looked_at = now_ms;
        match self.upkeep(&*self.committed) {
            Ok(changes) if changes.is_empty() => {}
            // What cannot be read is the sweep's to say.
            _ => self.sweep.get_mut().on_garbage(),
        }
    }

    /// Answers a read on `view`.
    pub(crate) fn answer(&self, view: &dyn View, call: &Call) -> Outcome {
        in_context(view, call, self.around(), |context, _| {
            call.request.answer(view, context)
        })
    }

    fn around(&self) -> Around<'_> {
        Around::new(&self.settings, self.members, &UnlimitedBudget)
    }

    /// Decides a write of a client; nothing if it turns out to be eventual, or is to wait.
    fn decide_request(&self, newest: &dyn View, call: &Call) -> Result<Decision, Later> {
        let decision = in_context(newest, call, self.around(), |context, level| {
            let quorum = Quorum::of(level).filter(|_| context.collection.is_some());
            Ok(match quorum {
                Some(quorum) => Err(Later::Eventual(quorum)),
                None => self.decide_strong(newest, context, call),
            })
        });
        decision.unwrap_or_else(|refused| Ok(refusal(refused)))
    }

    /// Decides a strong write.
    fn decide_strong(
        &self,
        newest: &dyn View,
        context: &Context<'_, Limits>,
        call: &Call,
    ) -> Result<Decision, Later> {
        if let Err(refusal) = self.room.check(&call.request) {
            return Ok(self::refusal(refusal.of_service(call.request.service())));
        }
        let collections = &self.settings.placing.collections;
        if let Collections::Elsewhere(placeable) = collections
            && let Some((kind, _)) = call.request.target().name()
            && let Some(chains) = placeable.chains_for(kind)
            && let Some(decision) = call.request.decide_names(newest, context, chains)
        {
            return Ok(decision);
        }
        let is_name = matches!(call.request.target(), Target::Create { .. });
        let is_named = matches!(collections, Collections::Named);
        if is_name && is_named && context.collection.is_none() {
            let service = call.request.service();
            return Ok(refusal(service.word(Trouble::NoCollection)));
        }
        let rows = call.request.puts_blocks();
        if !self.blocks.are_held(rows.iter().map(|row| row.id)) {
            let refusal = Refusal::new(Kind::Again, Reason::BlocksMissing);
            return Ok(self::refusal(refusal.of_service(call.request.service())));
        }
        let decision = call.request.decide(newest, context);
        decision.map_err(|wait| Later::Wait(context.collection.unwrap_or(SYSTEM), wait))
    }
}

fn refusal(refused: Refused) -> Decision {
    Decision {
        outcome: Err(refused),
        changes: Vec::new(),
    }
}

impl Host for RequestTable {
    fn committed(&self) -> &dyn View {
        &*self.committed
    }

    fn is_own(&self, token: CorrelationId, result: &Bytes) -> bool {
        let works = self.works.borrow();
        matches!(works.get(&token).map(|work| &**work),
            Some(PendingRequest::Write { call, .. }) if is_result_of(call, result))
    }

    fn decide(&self, token: CorrelationId, newest: &dyn View) -> Result<Decided, ViewError> {
        let mut works = self.works.borrow_mut();
        let work = works
            .get_mut(&token)
            .expect("TABLE-1: it is not answered yet");
        match &mut **work {
            PendingRequest::Write {
                call,
                stage,
                waiter,
                outcome,
                ..
            } => {
                let decision = match self.decide_request(newest, call) {
                    Ok(decision) => decision,
                    Err(Later::Eventual(quorum)) => {
                        *stage = Stage::Eventual(quorum);
                        return Ok(Decided::default());
                    }
                    Err(Later::Wait(collection, wait)) => {
                        *stage = Stage::Waits(collection, wait);
                        return Ok(Decided::default());
                    }
                };
                // The next one that is alike is decided on what this one changes.
                if let Some(waiter) = waiter.take() {
                    self.waiters.borrow_mut().leave(waiter);
                }
                let (decided, changes) = (decision.outcome, decision.changes);
                let depends_on_state = match &decided {
                    Ok(_) => true,
                    Err(refused) => refused.depends_on_state(),
                };
                let result = match call.consistency.request {
                    Some(_) => kept_result(call.consistency.digest, &decided),
                    None => Bytes::new(),
                };
                *outcome = Some(decided);
                Ok(Decided {
                    result,
                    changes,
                    depends_on_state,
                })
            }
            PendingRequest::Close(collection) => Ok(Decided {
                changes: catalog::close_collection(newest, *collection)?,
                ..Decided::default()
            }),
            PendingRequest::Sweep => {
                let mut sweep = self.sweep.borrow_mut();
                let mut changes = sweep.step(newest)?;
                if changes.is_empty() {
                    changes = self.upkeep(newest)?;
                    if !changes.is_empty() {
                        sweep.on_garbage();
                    }
                }
                Ok(Decided {
                    changes,
                    ..Decided::default()
                })
            }
            PendingRequest::Read { .. } => Ok(Decided::default()),
        }
    }

    fn accept(
        &self,
        token: CorrelationId,
        tentative: &dyn View,
    ) -> Result<Option<Vec<Accepted>>, ViewError> {
        let mut works = self.works.borrow_mut();
        let work = works
            .get_mut(&token)
            .expect("TABLE-1: it is not answered yet");
        let PendingRequest::Write { call, outcome, .. } = &mut **work else {
            return Ok(None);
        };
        let room = self.room.check(&call.request);
        let room = room.map_err(|refusal| refusal.of_service(call.request.service()));
        let accept = |()| {
            in_context(tentative, call, self.around(), |context, _| {
                call.request.accept(tentative, context)
            })
        };
        let (answered, writes) = match room.and_then(accept) {
            Ok(acceptance) => (Ok(acceptance.answered), Some(acceptance.writes)),
            Err(refused) => (Err(refused), None),
        };
        *outcome = Some(answered);
        Ok(writes)
    }

    fn settle(&self, operation: &Operation, newest: &dyn View) -> Result<Settled, ViewError> {
        let Operation {
            key, ops, stamp, ..
        } = operation;
        request::settle(newest, &self.settings.limits, key, ops.clone(), *stamp)
    }

    fn fix(&mut self) {
        self.committed.keep();
        self.fixed = Some((self.applied, Arc::clone(&self.committed)));
    }

    fn unfix(&mut self) {
        self.fixed = None;
    }

    fn fixed(&self) -> Option<(EntryId, &dyn View)> {
        let (id, state) = self.fixed.as_ref()?;
        Some((*id, &**state))
    }
}

#[cfg(test)]
mod tests;
