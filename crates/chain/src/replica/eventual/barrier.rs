//! Barriers: a read or conditional operation that takes note of everything tentative (BR).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;

use crate::config::NodeId;
use crate::entry::RequestId;
use crate::guard::Guard;
use crate::host::{CorrelationId, Refusal};
use crate::message::{Message, Scope};
use crate::operation::Operation;
use crate::replica::{Level, Replica, Reply, Session, Step};
use crate::stamp::{EntryId, Stamp};
use crate::view::ViewError;

/// What is done behind a barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Act {
    Decide(Option<RequestId>),
    Read,
    /// Takes this collection a step further, if it is draining since this entry (MD-4).
    Close(u64, EntryId),
}

/// A barrier that waits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Barrier {
    pub(super) token: CorrelationId,
    act: Act,
    scope: Scope,
    /// Of a read: what its session has seen.
    session: Session,
    asked_at: u64,
    /// Who has answered in this epoch.
    answered: BTreeSet<NodeId>,
    /// What they named, oldest stamp first.
    named: BTreeMap<(Stamp, RequestId), Arc<Operation>>,
    /// Of a read: the last entry there was when everything was settled.
    shows: Option<EntryId>,
}

impl Barrier {
    pub(super) fn on_epoch(&mut self) {
        self.answered.clear();
        self.named.clear();
        self.shows = None;
    }
}

impl Replica {
    /// BR-1, for a conditional operation; this member is the head.
    pub(in crate::replica) fn begin_barrier(
        &mut self,
        token: CorrelationId,
        request: Option<RequestId>,
        keys: Vec<Bytes>,
        step: &mut Step<'_>,
    ) -> Result<(), ViewError> {
        let (act, scope) = (Act::Decide(request), Scope::Keys(keys));
        self.gather(token, act, scope, Session::default(), step)
    }

    /// BR-1, for a read.
    pub(in crate::replica) fn begin_barrier_read(
        &mut self,
        token: CorrelationId,
        scope: Scope,
        session: Session,
        step: &mut Step<'_>,
    ) -> Result<(), ViewError> {
        if !self.is_ready() || !self.is_head() {
            let refusal = match self.is_ready() {
                true => Refusal::NotHead,
                false => Refusal::NotServing,
            };
            step.refuse(token, refusal);
            return Ok(());
        }
        self.gather(token, Act::Read, scope, session, step)
    }

    /// MD-4: asks for all that is held; this member is the head.
    pub(super) fn begin_closing(
        &mut self,
        token: CorrelationId,
        collection: u64,
        since: EntryId,
        step: &mut Step<'_>,
    ) -> Result<(), ViewError> {
        let (act, session) = (Act::Close(collection, since), Session::default());
        self.gather(token, act, Scope::All, session, step)
    }

    /// Who has been asked what is held of a draining collection, and has not answered.
    pub(super) fn silent_in_closing(&self, collection: u64) -> Vec<NodeId> {
        let barriers = self.eventual.barriers.values();
        let mut draining = barriers
            .filter(|barrier| matches!(barrier.act, Act::Close(other, _) if other == collection));
        draining.next().map_or_else(Vec::new, |barrier| {
            let silent = self.others().into_iter();
            silent.filter(|it| !barrier.answered.contains(it)).collect()
        })
    }

    fn gather(
        &mut self,
        token: CorrelationId,
        act: Act,
        scope: Scope,
        session: Session,
        step: &mut Step<'_>,
    ) -> Result<(), ViewError> {
        let number = self.eventual.next_number();
        let barrier = Barrier {
            token,
            act,
            scope,
            session,
            asked_at: step.now.monotonic,
            answered: BTreeSet::new(),
            named: BTreeMap::new(),
            shows: None,
        };
        self.eventual.barriers.insert(number, barrier);
        self.ask_to_gather(number, step);
        self.try_barrier(number, step)
    }

    fn ask_to_gather(&mut self, number: u64, step: &mut Step<'_>) {
        let others = self.others();
        let Some(barrier) = self.eventual.barriers.get_mut(&number) else {
            return;
        };
        barrier.asked_at = step.now.monotonic;
        let silent = others.iter().filter(|it| !barrier.answered.contains(it));
        let silent: Vec<NodeId> = silent.copied().collect();
        let scope = barrier.scope.clone();
        for node in silent {
            let scope = scope.clone();
            self.send(node, Message::Gather { number, scope }, step);
        }
    }

    /// BR-2.
    pub(super) fn on_gather(&self, from: NodeId, number: u64, scope: &Scope, step: &mut Step<'_>) {
        if self.is_withholding() {
            return;
        }
        let operations = self.eventual.overlay.of(scope);
        self.send(from, Message::Gathered { number, operations }, step);
    }

    pub(super) fn on_gathered(
        &mut self,
        from: NodeId,
        number: u64,
        operations: Vec<Arc<Operation>>,
        step: &mut Step<'_>,
    ) -> Result<(), ViewError> {
        self.note_reached(number, step.now.monotonic);
        let Some(barrier) = self.eventual.barriers.get_mut(&number) else {
            return Ok(());
        };
        barrier.answered.insert(from);
        let named = operations.into_iter().map(|it| ((it.stamp, it.name), it));
        barrier.named.extend(named);
        self.try_barrier(number, step)
    }

    /// BR-3, BR-4: when all have answered, settles what they named and what is held here. Then it
    /// decides, or waits for the commit of what was there to be read.
    fn try_barrier(&mut self, number: u64, step: &mut Step<'_>) -> Result<(), ViewError> {
        if self.is_withholding() {
            return Ok(());
        }
        let others = self.others();
        let Some(barrier) = self.eventual.barriers.get_mut(&number) else {
            return Ok(());
        };
        let is_answered = others.iter().all(|other| barrier.answered.contains(other));
        let waits = !is_answered && self.guards.has(Guard::BarrierAll);
        if waits || barrier.shows.is_some() {
            return Ok(());
        }
        let mut named = std::mem::take(&mut barrier.named);
        let (token, act) = (barrier.token, barrier.act);
        let held = self.eventual.overlay.of(&barrier.scope).into_iter();
        named.extend(held.map(|it| ((it.stamp, it.name), it)));
        if self.guards.has(Guard::BarrierSettles) {
            for operation in named.values() {
                self.settle(operation, step)?;
            }
        }
        match act {
            Act::Decide(request) => {
                self.eventual.barriers.remove(&number);
                self.decide(token, request, step)
            }
            Act::Read => {
                let last = self.log.last();
                if let Some(barrier) = self.eventual.barriers.get_mut(&number) {
                    barrier.shows = Some(last);
                }
                self.answer_barriers(step)
            }
            Act::Close(collection, since) => {
                self.eventual.barriers.remove(&number);
                self.end_closing(token, collection, since, step)
            }
        }
    }

    /// Reads behind a barrier whose last entry is in the engine. What their session has seen is
    /// settled by then, or some of it was lost.
    pub(super) fn answer_barriers(&mut self, step: &mut Step<'_>) -> Result<(), ViewError> {
        let at = self.log.applied();
        let is_due =
            |_: &u64, barrier: &mut Barrier| barrier.shows.is_some_and(|shows| shows <= at);
        let due: Vec<_> = self.eventual.barriers.extract_if(.., is_due).collect();
        for (_, barrier) in due {
            let Barrier {
                token,
                scope,
                session,
                ..
            } = barrier;
            if session == Session::default() {
                step.reply(token, Reply::Show { at });
            } else {
                self.on_read(token, scope, Level::Strong, Some(session), step)?;
            }
        }
        Ok(())
    }

    /// A new epoch: its head asks anew; another member has done nothing yet.
    pub(super) fn begin_barriers_anew(&mut self, step: &mut Step<'_>) -> Result<(), ViewError> {
        if !self.is_head() {
            for barrier in std::mem::take(&mut self.eventual.barriers).into_values() {
                step.refuse(barrier.token, Refusal::NotHead);
            }
            return Ok(());
        }
        let numbers: Vec<u64> = self.eventual.barriers.keys().copied().collect();
        for number in numbers {
            self.ask_to_gather(number, step);
            self.try_barrier(number, step)?;
        }
        Ok(())
    }

    pub(super) fn retry_barriers(&mut self, step: &mut Step<'_>) {
        let now = step.now.monotonic;
        let retry_ms = self.settings.retry_ms;
        let barriers = self.eventual.barriers.iter();
        let late = barriers.filter(|(_, barrier)| barrier.asked_at + retry_ms <= now);
        let late: Vec<u64> = late.map(|(number, _)| *number).collect();
        for number in late {
            self.ask_to_gather(number, step);
        }
    }
}
