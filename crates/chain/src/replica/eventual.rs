//! Eventual operations (docs/internals/protocol/chain.md, sections 10 to 12; semantics.md,
//! sections 3, 7).
//!
//! ```text
//! client ──Write──▶ coordinator: stamps, holds ──Offer──▶ every member: holds
//!                        ▲ acknowledges with W             │ Held
//!                        └────────────────────────────────┘
//! a holder that is the head, or whom a holder tells by Promote, settles: one entry per operation,
//! with the operation's stamp; a member that applies the entry lets go of it
//! ```
//!
//! Invariants:
//! - (I15) operations reach the log by a settlement of the head, nowhere else.
//! - (I16) an operation is let go of only when an entry that carries its name is applied. The
//!   filter of what a returning member held may let go of it too.
//! - (I18) a stamp leaves this member when a bound of its clock is durable.
//!
//! Deliberately absent: which requests may be eventual (the service's), tokens as text (the
//! shell's), deadlines (`Input::Abandon`).

mod barrier;
mod clock;
mod decommission;
mod drain;
mod exchange;
mod offer;
mod overlay;
mod promote;
mod quarantine;
mod read;
mod session;
mod write;

pub(in crate::replica) use overlay::committed_register;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use bytes::Bytes;

use super::{Now, PossibleInputs, Replica, Step};
use crate::config::{Configuration, NodeId};
use crate::entry::RequestId;
use crate::host::CorrelationId;
use crate::message::Message;
use crate::operation::{Operation, Outcome};
use crate::record::Lsn;
use crate::register::Register;
use crate::stamp::{EntryId, Stamp};
use crate::view::ViewError;

use barrier::Barrier;
use clock::Clock;
use exchange::Exchange;
use offer::Offering;
use overlay::Overlay;
use read::Waiting;
use session::Probe;
pub(super) use session::Seen;
pub(super) use write::WriteQuorum;
use write::{OutcomeWaiter, Request};

/// What R members show of a register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuorumRead {
    /// The join of their committed registers and of their overlays' operations.
    pub register: Register,
    /// The join of their committed registers. By it a service tells whether an unsettled operation
    /// decided the part that it shows of `register` (SDB-6.3).
    pub committed: Register,
    /// Whether one decided anything of all of it.
    pub tentative: bool,
    /// The operations on it in their overlays.
    pub operations: Vec<Arc<Operation>>,
    /// The greatest commit id among them.
    pub commit: EntryId,
}

/// An eventual write that W members hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteAck {
    /// What was written, in the order in which the service accepted it.
    pub writes: Vec<Written>,
    /// Accepted or acknowledged without a lease (G7).
    pub detached: bool,
}

/// One register's part of an eventual write.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Written {
    /// The operation's name.
    pub name: RequestId,
    /// The register.
    pub key: Bytes,
    /// What is known of it.
    pub status: OperationStatus,
}

/// What is known of an eventual operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum OperationStatus {
    /// It is not settled here; its stamp.
    Tentative(Stamp),
    /// This entry settled it: it was a retry, or settled meanwhile.
    Settled(EntryId, Outcome),
}

/// What has happened to eventual operations at this member, in this incarnation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct EventualCounts {
    /// Operations in the overlay now.
    pub held: usize,
    /// What they take of memory, roughly.
    pub held_bytes: usize,
    /// Operations in quarantine now (JN-7).
    pub quarantined: usize,
    /// Operations that were held here and are settled.
    pub settled: u64,
    /// Milliseconds that those were held here, all together.
    pub settled_ms: u64,
    /// Settled without effect because greater stamps were there, as the head (G5).
    pub superseded: u64,
    /// Settled without effect because the service refused, as the head.
    pub refused: u64,
    /// Dropped by the filter of what a returning member held (JN-7, GC-5).
    pub forgotten: Forgotten,
    /// Promotions ignored for a base that no head can have numbered (PR-2): a fault.
    pub unnumbered: u64,
}

/// Operations that a returning member dropped, by what its state shows of them once its gap is
/// closed (JN-7, GC-5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Forgotten {
    /// The state has their result: they were settled, and nothing is lost.
    pub settled: u64,
    /// The state covers all that they would change: nothing can be missed.
    pub covered: u64,
    /// Neither: they were settled so long ago that their result is gone, or they are lost.
    pub unknown: u64,
}

/// The state of the eventual path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Eventual {
    overlay: Overlay,
    /// What was held before this incarnation; shown to no reader until it is judged (JN-7).
    quarantine: BTreeMap<RequestId, Arc<Operation>>,
    /// Whether what was held before this incarnation is not spoken of yet, as the engine is below
    /// the safe point (AL-2).
    withholds: bool,
    clock: Clock,
    /// Records up to this one are durable.
    persisted: Lsn,
    /// The number of the last request that had no name.
    unnamed: u64,
    /// The number of the last request, read or question.
    number: u64,
    /// Who is to be told that an operation is held once its record is durable; this member too.
    owed: BTreeSet<(Lsn, NodeId, RequestId)>,
    offerings: BTreeMap<RequestId, Offering>,
    /// Operations to offer for the first time in this epoch.
    fresh: Vec<RequestId>,
    requests: BTreeMap<u64, Request>,
    /// At the head: what is to be settled, in the order in which it came.
    queue: VecDeque<RequestId>,
    /// When the head was last told what to promote.
    promoted_at: u64,
    exchange: Exchange,
    reads: BTreeMap<u64, Waiting>,
    /// ER-6: members that let a read wait, until they show something.
    silent: BTreeSet<NodeId>,
    /// Searches for tentative operations of sessions.
    probes: BTreeMap<RequestId, Probe>,
    barriers: BTreeMap<u64, Barrier>,
    /// Who waits for the outcomes of which names.
    outcomes: Vec<OutcomeWaiter>,
    counts: EventualCounts,
    /// When it was said last, in this epoch, that what is held is handed off (LV-2).
    handed_on_at: Option<u64>,
}

impl Eventual {
    /// The operation that is held under this name.
    pub(super) fn held(&self, name: &RequestId) -> Option<&Operation> {
        self.overlay.get(name).map(|held| &*held.operation)
    }

    /// What was counted and asked in the old epoch is void.
    pub(super) fn on_epoch(
        &mut self,
        previous: Option<&Configuration>,
        next: &Configuration,
        had_all: bool,
    ) {
        self.exchange.on_epoch(previous, next, had_all);
        self.clock.forget_peers();
        self.handed_on_at = None;
        self.owed.clear();
        self.fresh.clear();
        self.queue.clear();
        self.silent.clear();
        self.probes.clear();
        self.offerings.values_mut().for_each(Offering::on_epoch);
        self.reads.values_mut().for_each(Waiting::on_epoch);
        self.barriers.values_mut().for_each(Barrier::on_epoch);
    }

    /// AD-8: whether what was exchanged before this epoch counts in it.
    pub(super) fn carry_exchange(&mut self, is_carried: bool) {
        self.exchange.carry(is_carried);
    }

    /// A message of this epoch came: its sender has adopted it.
    pub(super) fn on_heard(&mut self, from: NodeId) {
        self.exchange.on_heard(from);
    }

    pub(super) fn on_peer_clock(&mut self, from: NodeId, clock: u64, now: Now) {
        self.clock.on_peer(from, clock, now);
    }

    pub(super) fn is_waited_for(&self) -> bool {
        let waits = self.requests.len() + self.outcomes.len();
        0 < waits + self.reads.len() + self.barriers.len()
    }

    /// Whether nothing is held, offered, asked or told, and the overlays of `others` are merged.
    pub(super) fn is_at_rest(&self, others: &[NodeId]) -> bool {
        let held = self.overlay.len() + self.quarantine.len() + self.owed.len();
        let told = self.offerings.len() + self.fresh.len() + self.queue.len();
        held + told + self.probes.len() == 0 && !self.withholds && self.exchange.has_merged(others)
    }

    /// The requests that wait for a write, or for how one ended.
    pub(super) fn drain_writes(&mut self) -> Vec<CorrelationId> {
        let requests = std::mem::take(&mut self.requests).into_values();
        let outcomes = std::mem::take(&mut self.outcomes).into_iter();
        let tokens = requests.map(|request| request.token);
        tokens.chain(outcomes.map(|asked| asked.token)).collect()
    }

    /// The requests that wait and have changed nothing.
    pub(super) fn drain_others(&mut self) -> Vec<CorrelationId> {
        let reads = std::mem::take(&mut self.reads).into_values();
        let barriers = std::mem::take(&mut self.barriers).into_values();
        let tokens = reads.map(|read| read.token);
        tokens
            .chain(barriers.map(|barrier| barrier.token))
            .collect()
    }

    /// See [`PossibleInputs`]: requests count by their order, and what is offered as long as it is
    /// held or waited for.
    pub(super) fn hash_future<H: Hasher>(
        &self,
        ahead: &PossibleInputs,
        is_logged: impl Fn(&RequestId) -> bool,
        state: &mut H,
    ) {
        self.overlay.hash_future(ahead, self.persisted, state);
        if ahead.writes {
            self.clock.hash_future(state);
        }
        (&self.quarantine, self.withholds).hash(state);
        self.handed_on_at.is_some().hash(state);
        (self.unnamed, &self.fresh).hash(state);
        for name in &self.queue {
            if self.overlay.holds(name) && !is_logged(name) {
                name.hash(state);
            }
        }
        let rank = |number: &u64| self.requests.range(..number).count();
        for (lsn, node, name) in &self.owed {
            ((self.persisted < *lsn).then_some(lsn), node, name).hash(state);
        }
        for (name, offering) in &self.offerings {
            let wanted = offering.wanted.iter();
            let wanted = wanted.filter(|number| self.requests.contains_key(number));
            let wanted: Vec<usize> = wanted.map(rank).collect();
            if ahead.retries || self.overlay.holds(name) || !wanted.is_empty() {
                let counts = ahead.retries || !wanted.is_empty();
                (name, wanted).hash(state);
                offering.hash_future(ahead, counts, state);
            }
        }
        for request in self.requests.values() {
            request.hash(state);
        }
        (&self.reads, &self.silent, &self.probes).hash(state);
        (&self.barriers, &self.outcomes).hash(state);
        if ahead.claims {
            (self.number, self.requests.keys().next()).hash(state);
        }
        if ahead.time {
            (self.promoted_at, self.persisted).hash(state);
        }
    }

    pub(super) fn hash_exchange<H: Hasher>(
        &self,
        ahead: &PossibleInputs,
        size: usize,
        state: &mut H,
    ) {
        let writes = ahead.writes || !self.requests.is_empty();
        let ahead = PossibleInputs { writes, ..*ahead };
        self.exchange.hash_future(&ahead, size, state);
    }

    pub(super) fn next_number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }
}

impl Replica {
    /// What has happened to eventual operations here.
    pub fn eventual_counts(&self) -> EventualCounts {
        EventualCounts {
            held: self.eventual.overlay.len(),
            held_bytes: self.eventual.overlay.bytes(),
            quarantined: self.eventual.quarantine.len(),
            ..self.eventual.counts
        }
    }

    /// The epoch is adopted and the log is the donor's: what is held is offered, exchanged and
    /// promoted anew.
    pub(super) fn on_ready_eventual(&mut self, step: &mut Step<'_>) -> Result<(), ViewError> {
        self.release_own(step)?;
        self.offer_anew();
        self.requeue();
        self.settle_owed(step)?;
        self.begin_barriers_anew(step)?;
        self.retry_eventual_reads(step)
    }

    /// AD-8: who waited for what this member can do alone.
    pub(super) fn go_on_eventual(&mut self, step: &mut Step<'_>) -> Result<(), ViewError> {
        self.settle_owed(step)?;
        self.acknowledge_all(step)?;
        self.retry_eventual_reads(step)
    }

    pub(super) fn on_persisted_eventual(
        &mut self,
        lsn: Lsn,
        step: &mut Step<'_>,
    ) -> Result<(), ViewError> {
        self.eventual.persisted = lsn;
        self.eventual.clock.on_persisted(lsn);
        self.settle_owed(step)
    }

    /// Entries above `before` up to `id` are in the engine.
    pub(super) fn on_applied_eventual(
        &mut self,
        before: EntryId,
        id: EntryId,
        step: &mut Step<'_>,
    ) -> Result<(), ViewError> {
        let wanted = self.leave_overlay(before, id, step)?;
        self.answer_outcomes(step)?;
        self.acknowledge_settled(wanted, step)
    }

    /// The engine has more than it had, and the log knows it.
    pub(super) fn on_applied_reads(&mut self, step: &mut Step<'_>) -> Result<(), ViewError> {
        self.end_withholding(step)?;
        self.answer_barriers(step)?;
        self.retry_eventual_reads(step)
    }

    pub(super) fn on_eventual(
        &mut self,
        from: NodeId,
        message: Message,
        step: &mut Step<'_>,
    ) -> Result<(), ViewError> {
        match message {
            Message::Offer { operations } => self.on_offer(from, operations, step),
            Message::Held { names } => self.on_held(from, &names, step),
            Message::Promote { operations } => self.on_promote(&operations, step),
            Message::Show { number, key } => self.on_show(from, number, &key, step),
            Message::Shown {
                number,
                register,
                operations,
                commit,
            } => self.on_shown(from, number, (register, operations, commit), step),
            Message::Overlay {
                asks,
                commit,
                clock,
                operations,
            } => {
                self.eventual.on_peer_clock(from, clock, step.now);
                self.on_overlay(from, asks, commit, operations, step)
            }
            Message::Gather { number, scope } => {
                self.on_gather(from, number, &scope, step);
                Ok(())
            }
            Message::Gathered { number, operations } => {
                self.on_gathered(from, number, operations, step)
            }
            _ => Ok(()),
        }
    }

    pub(super) fn tick_eventual(&mut self, step: &mut Step<'_>) -> Result<(), ViewError> {
        self.retry_offers(step);
        self.retry_promotions(step);
        self.retry_barriers(step);
        self.retry_probes(step);
        self.hand_off(step);
        self.acknowledge_all(step)?;
        self.retry_eventual_reads(step)
    }

    pub(super) fn flush_eventual(&mut self, step: &mut Step<'_>) {
        self.flush_exchange(step);
        self.flush_offers(step);
        self.flush_held(step);
    }

    pub(super) fn abandon_eventual(&mut self, token: CorrelationId) {
        let eventual = &mut self.eventual;
        eventual.requests.retain(|_, it| it.token != token);
        eventual.reads.retain(|_, it| it.token != token);
        eventual.barriers.retain(|_, it| it.token != token);
        eventual.outcomes.retain(|it| it.token != token);
    }
}
