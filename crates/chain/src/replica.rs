//! One replica of one chain, as a pure state machine (docs/internals/protocol).
//!
//! ```text
//!            Configuration                  Hello from the donor
//!   Waiting ──────────────▶ Adopting ─────▶ Greeting ─────────────▶ Ready
//!      ▲      (persisted)                      (the head skips it)      │
//!      └────────────── a newer Configuration: Adopting again ───────────┘
//!   Ahead:  the donor lacks what is committed here (LD-2)
//!   Halted: a persist failed, or a configuration without this incarnation
//! ```
//!
//! The shell's contract: `step` with one input, perform the effects in order, step again. When
//! nothing more is queued, `step` with `Flush`, which sends what has gathered. Every token that
//! goes in comes out once, as a reply. Records become durable in the order of their `Lsn`. Applied
//! entries reach the engine in the order of their ids and are then reported by `Applied`.
//!
//! Invariants asserted here: I1, I3, I4, I5, I6 (cutting), I11, I12
//! (docs/internals/protocol/invariants.md).
//!
//! Deliberately absent: forwarding requests to the head, timeouts of clients, placement; shells and
//! the coordinator do that.

mod adopt;
mod canonical_state;
mod client_expiry;
mod counters;
mod digest;
mod eventual;
mod interface;
mod joining;
mod names;
mod read;
mod rest;
mod send;
mod slow_member;
mod stale_message;
mod tombstone_gc;
mod write;

use std::sync::Arc;

use crate::config::{Configuration, NodeId, Role};
use crate::guard::{Guard, Guards};
use crate::host::{CorrelationId, Host, Refusal};
use crate::log::Log;
use crate::message::{Envelope, Message};
use crate::record::{Lsn, Record};
use crate::stamp::EntryId;
use crate::version::Version;
use crate::view::{View, ViewError};

pub use canonical_state::PossibleInputs;
use client_expiry::ClientExpiry;
pub use counters::{ReplicaCounters, ReplicationLag};
use digest::Digests;
use eventual::{Eventual, WriteQuorum};
pub use eventual::{EventualCounts, Forgotten, OperationStatus, QuorumRead, WriteAck, Written};
pub use interface::{
    Effect, Identity, Input, Level, Now, ReplicaSettings, Reply, Report, Session, Stop,
    TransferStep,
};
use joining::Joining;
use read::Reads;
use slow_member::SlowMemberDetector;
use stale_message::StaleMessageLog;
use tombstone_gc::TombstoneGc;
pub use tombstone_gc::is_forgotten;
use write::Writes;
pub use write::compute;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Phase {
    /// Before `Recovered`.
    New,
    /// No configuration names this incarnation.
    Waiting,
    /// The configuration's record is on its way to the disk.
    Adopting(Lsn),
    /// Waiting for `Hello`.
    Greeting,
    /// Taking part.
    Ready,
    /// Knows so many entries committed that its chain has not, and waits for an operator (LD-2).
    Ahead(u64),
    /// Takes nothing any more.
    Halted,
}

/// One step's surroundings.
struct Step<'a> {
    now: Now,
    host: &'a mut dyn Host,
    effects: &'a mut Vec<Effect>,
}

impl Step<'_> {
    fn reply(&mut self, token: CorrelationId, reply: Reply) {
        self.effects.push(Effect::Reply { token, reply });
    }

    fn refuse(&mut self, token: CorrelationId, refusal: Refusal) {
        self.reply(token, Reply::Refused(refusal));
    }
}

/// AD-3: messages of an epoch that is not adopted yet that are kept at most.
const EARLY_MAX: usize = 16;

/// One replica.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Replica {
    me: Identity,
    settings: ReplicaSettings,
    guards: Guards,
    phase: Phase,
    /// AD-8: whether no membership has changed since an epoch in which it was ready.
    goes_on: bool,
    /// The adopted configuration, or the one being adopted.
    configuration: Option<Arc<Configuration>>,
    lease_until: u64,
    lsn: Lsn,
    log: Log,
    /// The last entry whose record is durable.
    persisted: EntryId,
    commit: EntryId,
    /// The last entry handed to the engine.
    applying: EntryId,
    /// The last entry when this member became ready in the epoch (RD-4).
    inherited: EntryId,
    /// AD-3: messages of the newest epoch of which one came before it was adopted here.
    early: Vec<Envelope>,
    writes: Writes,
    reads: Reads,
    counters: ReplicaCounters,
    joining: Joining,
    collect: TombstoneGc,
    idle: ClientExpiry,
    digests: Digests,
    slowness: SlowMemberDetector,
    told: StaleMessageLog,
    eventual: Eventual,
}

impl Replica {
    /// A replica that waits for `Recovered`.
    pub fn new(me: Identity, settings: ReplicaSettings) -> Self {
        Replica {
            me,
            settings,
            guards: Guards::default(),
            phase: Phase::New,
            goes_on: false,
            configuration: None,
            lease_until: 0,
            lsn: Lsn(0),
            log: Log::default(),
            persisted: EntryId::ZERO,
            commit: EntryId::ZERO,
            applying: EntryId::ZERO,
            inherited: EntryId::ZERO,
            early: Vec::new(),
            writes: Writes::default(),
            reads: Reads::default(),
            counters: ReplicaCounters::default(),
            joining: Joining::default(),
            collect: TombstoneGc::default(),
            idle: ClientExpiry::default(),
            digests: Digests::default(),
            slowness: SlowMemberDetector::default(),
            told: StaleMessageLog::default(),
            eventual: Eventual::default(),
        }
    }

    /// The same replica with other guards: for mutants.
    #[cfg(feature = "mutants")]
    pub fn with_guards(mut self, guards: Guards) -> Self {
        self.guards = guards;
        self
    }

    /// Who it is.
    pub fn identity(&self) -> Identity {
        self.me
    }

    /// The configuration adopted or being adopted.
    pub fn configuration(&self) -> Option<&Arc<Configuration>> {
        self.configuration.as_ref()
    }

    /// The epoch adopted or being adopted; 0 before the first.
    pub fn epoch(&self) -> u64 {
        self.configuration
            .as_ref()
            .map_or(0, |adopted| adopted.epoch)
    }

    /// Which formats this member may write, to its log and to others: those of the cluster's
    /// version in its epoch.
    pub fn version(&self) -> Version {
        let adopted = self.configuration.as_ref();
        adopted.map_or(Version::OLDEST, |adopted| adopted.version)
    }

    /// The greatest id known committed.
    pub fn commit(&self) -> EntryId {
        self.commit
    }

    /// The last entry of the log.
    pub fn last(&self) -> EntryId {
        self.log.last()
    }

    /// Whether it takes part in its epoch.
    pub fn is_ready(&self) -> bool {
        self.phase == Phase::Ready
    }

    /// How many entries it knows committed that its chain has not, if it has stopped for that.
    pub fn ahead(&self) -> Option<u64> {
        match self.phase {
            Phase::Ahead(entries) => Some(entries),
            _ => None,
        }
    }

    /// Whether it is the head of its configuration.
    pub fn is_head(&self) -> bool {
        self.adopted()
            .is_some_and(|adopted| adopted.head() == self.me.node)
    }

    /// Whether a request waits here for its answer (I20: at rest none does).
    pub fn awaits_answer(&self) -> bool {
        self.writes.is_waited_for() || self.reads.is_waited_for() || self.eventual.is_waited_for()
    }

    /// Whether it may answer clients now (I7, I10).
    pub fn may_serve(&self, now: Now) -> bool {
        self.has_lease(now) && self.may_show()
    }

    fn has_lease(&self, now: Now) -> bool {
        now.monotonic < self.lease_until || !self.guards.has(Guard::LeaseRead)
    }

    /// The state at the commit id `at`, over the engine's. `None` if the engine is beyond it: a
    /// reply is to be read before the next step.
    pub fn view_at<'a>(&'a self, at: EntryId, committed: &'a dyn View) -> Box<dyn View + 'a> {
        if at <= self.log.applied() {
            return Box::new(crate::view::ViewRef(committed));
        }
        if at == self.log.last() {
            return Box::new(self.log.newest(committed));
        }
        Box::new(self.log.prefix(at, committed))
    }

    /// Whether an entry of the log changes `key` that the engine does not have: it may yet be cut.
    /// Of entries above a gap it is not known.
    pub fn changes(&self, key: &[u8]) -> bool {
        self.log.changes(key)
    }

    /// Takes one input; appends what is to be done to `effects`.
    ///
    /// # Errors
    /// [`ViewError`] when the host's store fails: the member must stop.
    pub fn step(
        &mut self,
        now: Now,
        input: Input,
        host: &mut dyn Host,
        effects: &mut Vec<Effect>,
    ) -> Result<(), ViewError> {
        let mut step = Step { now, host, effects };
        if self.phase == Phase::Halted {
            match input {
                // Something was done before, and this member cannot say what became of it.
                Input::Outcome { token, .. } => step.reply(token, Reply::Unknown),
                other => other
                    .token()
                    .into_iter()
                    .for_each(|token| step.refuse(token, Refusal::NotServing)),
            }
            return Ok(());
        }
        match input {
            Input::Recovered {
                durable,
                applied,
                filling,
            } => self.on_recovered(durable, applied, filling, &mut step)?,
            Input::Configuration(next) => self.on_configuration(next, &mut step),
            Input::Lease { until } => self.lease_until = until,
            Input::Persisted(lsn) => self.on_persisted(lsn, &mut step)?,
            Input::Applied(id) => self.on_applied(id, &mut step)?,
            Input::Filled => self.on_filled(&mut step)?,
            Input::PersistFailed => self.halt(&mut step),
            Input::Submit {
                token,
                request,
                barrier,
            } => self.on_submit(token, request, barrier, &mut step)?,
            Input::Close { token, collection } => self.on_close(token, collection, &mut step)?,
            Input::Write {
                token,
                request,
                digest,
                w,
                sloppy,
                session,
            } => {
                let quorum = WriteQuorum { w, sloppy };
                self.on_write(token, request, digest, quorum, &session, &mut step)?;
            }
            Input::Read {
                token,
                scope,
                level,
                session,
            } => self.on_read(token, scope, level, session, &mut step)?,
            Input::Outcome {
                token,
                names,
                digest,
            } => self.on_outcome(token, names, digest, &mut step)?,
            Input::Abandon(token) => self.on_abandon(token),
            Input::Message(envelope) => self.on_envelope(envelope, &mut step)?,
            Input::Tick => self.on_tick(&mut step)?,
            Input::Flush => self.on_flush(&mut step)?,
        }
        self.advance_joining(&mut step)?;
        self.assert_invariants();
        Ok(())
    }

    /// AD-3: whether a message is of an epoch that is not adopted yet. Of the newest such epoch it
    /// is kept, but for what is large: that is said again.
    fn keeps_early(&mut self, envelope: &Envelope) -> bool {
        let is_early = match self.adopted() {
            Some(adopted) => adopted.epoch < envelope.epoch,
            None => self.epoch() <= envelope.epoch,
        };
        if !is_early {
            return false;
        }
        let kept = self.early.first().map_or(0, |early| early.epoch);
        if kept < envelope.epoch {
            self.early.clear();
        }
        let is_large = matches!(
            envelope.message,
            Message::Append { .. } | Message::TransferChunk { .. }
        );
        if kept <= envelope.epoch && !is_large && self.early.len() < EARLY_MAX {
            self.early.push(envelope.clone());
        }
        true
    }

    /// What came before the epoch was adopted, handshakes first.
    fn on_early(&mut self, step: &mut Step<'_>) -> Result<(), ViewError> {
        let epoch = self.epoch();
        let mut early: Vec<Envelope> = self
            .early
            .extract_if(.., |early| early.epoch == epoch)
            .collect();
        early.sort_by_key(|early| !matches!(early.message, Message::Hello { .. }));
        early
            .into_iter()
            .try_for_each(|early| self.on_envelope(early, step))
    }

    /// I1: one entry point that drops what does not fit.
    fn on_envelope(&mut self, envelope: Envelope, step: &mut Step<'_>) -> Result<(), ViewError> {
        if self.keeps_early(&envelope) {
            return Ok(());
        }
        let Some(adopted) = self.adopted() else {
            return Ok(());
        };
        let is_of_epoch = envelope.epoch == adopted.epoch
            && adopted
                .member(envelope.from)
                .is_some_and(|member| member.incarnation == envelope.incarnation);
        let is_question = matches!(
            envelope.message,
            Message::Query { .. } | Message::QueryAnswer { .. }
        );
        let is_let_in = is_question && !self.guards.has(Guard::QuerySameEpoch);
        if !is_of_epoch && !is_let_in && self.guards.has(Guard::EpochCheck) {
            self.note_foreign(&envelope, step);
            return Ok(());
        }
        let from = envelope.from;
        self.eventual.on_heard(from);
        match envelope.message {
            Message::Hello { .. } => return self.on_hello(from, envelope.message, step),
            Message::Commit { id } if !self.guards.has(Guard::LearnReady) => {
                self.learn(id, step)?;
            }
            Message::Gather { number, scope } if scope.is_nothing() => {
                // SL-2: whether a member is there, through its handshake or not.
                let operations = Vec::new();
                self.send(from, Message::Gathered { number, operations }, step);
            }
            _ if self.phase != Phase::Ready => return Ok(()),
            Message::Append {
                after,
                entries,
                commit,
            } => self.on_append(from, after, entries, commit, step)?,
            Message::Confirm { id } => self.on_confirm(from, id, step)?,
            Message::Commit { id } => self.learn(id, step)?,
            Message::Resend { after } => self.on_resend(from, after),
            Message::Query { number, scope } => self.on_query(from, number, &scope, step),
            Message::QueryAnswer { number, commit } => {
                self.on_query_answer(from, number, commit, step)?;
            }
            Message::TransferRequest { .. } | Message::TransferChunk { .. } => {
                self.on_joining(from, envelope.message, step)?;
            }
            Message::Digest { .. } => self.on_digest(from, &envelope.message, step)?,
            Message::Compared { number, is_same } => {
                self.on_compared(from, number, is_same, step);
            }
            Message::Offer { .. }
            | Message::Held { .. }
            | Message::Promote { .. }
            | Message::Show { .. }
            | Message::Shown { .. }
            | Message::Overlay { .. }
            | Message::Gather { .. }
            | Message::Gathered { .. } => self.on_eventual(from, envelope.message, step)?,
        }
        Ok(())
    }

    fn on_tick(&mut self, step: &mut Step<'_>) -> Result<(), ViewError> {
        if self.phase == Phase::Ready {
            let rested =
                (cfg!(debug_assertions) && self.is_at_rest()).then_some(step.effects.len());
            self.retry_writes(step);
            self.retry_reads(step)?;
            self.tick_joining(step)?;
            self.tick_collect(step)?;
            self.tick_idle(step)?;
            self.tick_digest(step)?;
            self.tick_slowness(step);
            self.tick_heard(step);
            self.tick_eventual(step)?;
            if let Some(before) = rested {
                self.assert_rest(&step.effects[before..]);
            }
        }
        Ok(())
    }

    fn on_flush(&mut self, step: &mut Step<'_>) -> Result<(), ViewError> {
        if self.phase == Phase::Ready {
            self.promote(step)?;
            self.leave_early();
            self.flush_handshakes(step);
            self.flush_writes(step);
            self.flush_eventual(step);
        }
        Ok(())
    }

    fn on_abandon(&mut self, token: CorrelationId) {
        self.abandon_write(token);
        self.abandon_read(token);
        self.abandon_eventual(token);
    }

    /// The adopted configuration, once it is durable.
    fn adopted(&self) -> Option<&Arc<Configuration>> {
        match self.phase {
            Phase::Greeting | Phase::Ready => self.configuration.as_ref(),
            _ => None,
        }
    }

    /// That of the adopted configuration; zero without one.
    fn safe_point(&self) -> EntryId {
        let adopted = self.adopted();
        adopted.map_or(EntryId::ZERO, |adopted| adopted.safe_point)
    }

    fn role(&self) -> Option<Role> {
        Some(self.adopted()?.member(self.me.node)?.role)
    }

    /// Whether it joins or leaves.
    fn is_syncing(&self) -> bool {
        self.role().is_some_and(Role::is_syncing)
    }

    fn is_commit_point(&self) -> bool {
        self.adopted()
            .is_some_and(|adopted| adopted.commit_point() == self.me.node)
    }

    /// Whether this member is the whole write path.
    fn is_alone(&self) -> bool {
        self.adopted().is_some_and(|adopted| adopted.size() == 1)
    }

    fn persist(&mut self, record: Record, step: &mut Step<'_>) -> Lsn {
        self.lsn = Lsn(self.lsn.0 + 1);
        let lsn = self.lsn;
        step.effects.push(Effect::Persist { lsn, record });
        lsn
    }

    fn send(&self, to: NodeId, message: Message, step: &mut Step<'_>) {
        let envelope = Envelope {
            epoch: self.epoch(),
            from: self.me.node,
            incarnation: self.me.incarnation,
            message,
        };
        step.effects.push(Effect::Send { to, envelope });
    }

    fn assert_invariants(&self) {
        assert!(
            self.commit <= self.log.last() || self.joining.is_open(),
            "I4: {} is committed beyond the log",
            self.commit
        );
        assert!(
            self.applying <= self.commit,
            "I5: {} was applied beyond the commit",
            self.applying
        );
    }
}

#[cfg(test)]
mod tests;
