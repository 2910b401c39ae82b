//! Adopting epochs (docs/internals/protocol/reconfiguration.md, section 3), and starting.
//!
//! A configuration is durable before anything is done in it. The head is then ready at once. Every
//! other member is when its donor has told it what the log holds, and it has dropped what differs.

use std::sync::Arc;

use super::{Effect, Phase, Replica, Reply, Report, Step, Stop};
use crate::config::{Configuration, NodeId, Role};
use crate::epoch_history::EpochHistory;
use crate::guard::Guard;
use crate::host::Refusal;
use crate::log::{Log, Slot};
use crate::message::Message;
use crate::record::{Lsn, Record, RecoveredState};
use crate::stamp::EntryId;
use crate::view::ViewError;

impl Replica {
    /// What a crash left: the engine's state is committed, entries above it may be.
    pub(super) fn on_recovered(
        &mut self,
        mut durable: RecoveredState,
        applied: EntryId,
        filling: bool,
        step: &mut Step<'_>,
    ) -> Result<(), ViewError> {
        assert_eq!(self.phase, Phase::New, "a log is recovered once");
        let mut entries = std::mem::take(&mut durable.entries);
        self.joining.recover(filling);
        if filling {
            // AL-4: no member is to go on with it.
            let adopted = durable.configuration.as_ref();
            let (epoch, applied) = (adopted.map_or(0, |it| it.epoch), EntryId::ZERO);
            let gap = Report::Floor {
                epoch,
                applied,
                gap: true,
            };
            step.effects.push(Effect::Coordinator(gap));
        }
        // While it is filled the engine is no state, and nothing can be applied to it.
        let applied = match filling {
            true => EntryId::ZERO,
            false => applied,
        };
        entries.retain(|entry| !filling && applied < entry.id);
        let epoch_history = match durable.epoch_history.contains(applied) {
            true => durable.epoch_history.up_to(applied),
            false => EpochHistory::at(applied),
        };
        self.log = Log::after(applied, epoch_history);
        (self.commit, self.applying) = (applied, applied);
        self.configuration = durable.configuration.clone();
        self.phase = Phase::Waiting;
        for entry in entries {
            if entry.prev != self.log.last() {
                // A gap was opened here, and the engine had not begun to be filled.
                break;
            }
            let mutations = Some(Arc::new(self.compute(&entry, step)?));
            self.log.push(Slot {
                entry,
                lsn: Lsn(0),
                persisted_at: Some(step.now.monotonic),
                mutations,
            });
        }
        self.persisted = self.log.last();
        self.recover_eventual(durable, step)
    }

    /// Whether this incarnation is over with a newer configuration (I24): it is not in it, or under
    /// another incarnation. Before the first membership it waits, unless it had one and never heard
    /// of it. The carrier of the replica begins another incarnation then.
    pub fn ends_with(&self, next: &Configuration) -> bool {
        if matches!(self.phase, Phase::Ahead(_)) {
            // Its incarnation goes on, for an operator to choose it, until one has chosen another
            // member.
            return self.epoch() < next.lossy.epoch && !self.is_member(next);
        }
        let has_left = next.has_left(self.me.node, self.me.incarnation);
        let was_member = self.phase != Phase::Waiting;
        let is_out = !self.is_member(next) && (was_member || has_left);
        self.epoch() < next.epoch && (is_out || self.may_have_left(next))
    }

    /// Whether it is joining, in the epoch that it is in. One that ends so has made others wait,
    /// and comes back later (SL-4).
    pub fn is_joining(&self) -> bool {
        let adopted = self.configuration();
        adopted.is_some_and(|adopted| adopted.syncing() == Some(self.me.node))
    }

    fn is_member(&self, configuration: &Configuration) -> bool {
        let member = configuration.member(self.me.node);
        let me = (self.me.incarnation, self.me.disk);
        member.is_some_and(|member| (member.incarnation, member.disk) == me)
    }

    /// The coordinator published a configuration. Older ones and repetitions say nothing.
    pub(super) fn on_configuration(&mut self, next: Arc<Configuration>, step: &mut Step<'_>) {
        assert_ne!(self.phase, Phase::New, "a log is recovered first");
        if next.epoch <= self.epoch() {
            return;
        }
        if self.ends_with(&next) {
            self.halt(step);
            return;
        }
        if !self.is_member(&next) {
            return;
        }
        if matches!(self.phase, Phase::Ahead(_)) && next.lossy.epoch <= self.epoch() {
            // Only an operator's choice begins it again (AL-4).
            return;
        }
        let has_exchanged = self.has_exchanged();
        self.goes_on = self.goes_on_in(&next);
        let lsn = self.persist(Record::Epoch(next.clone()), step);
        self.phase = Phase::Adopting(lsn);
        self.writes
            .on_epoch(self.guards.has(Guard::ConfirmThisEpoch));
        self.reads.on_epoch();
        if self.joining.on_epoch(self.guards.has(Guard::FillSameEpoch)) {
            step.host.unfix();
        }
        let role = next.member(self.me.node).map(|member| member.role);
        match role.is_some_and(Role::is_syncing) {
            // Its handshake may open a gap (JN-3). An operator may choose it until it heard of that
            // epoch (AL-4).
            true => self.early.clear(),
            false => self.early.retain(|early| next.epoch <= early.epoch),
        }
        self.digests.on_epoch();
        let must_fill = next.must_fill(self.me.disk) && self.guards.has(Guard::DiffersFills);
        self.joining.refill(must_fill);
        let member = self
            .configuration
            .as_ref()
            .and_then(|c| c.member(self.me.node));
        let served = member.is_some_and(|member| {
            member.role == Role::Serving && member.incarnation == self.me.incarnation
        });
        if served && role.is_some_and(Role::is_syncing) {
            let until = step.now.monotonic + self.settings.probation_ms;
            self.joining.rest_until(until);
        }
        self.collect.on_epoch();
        let previous = self.configuration.as_deref();
        self.eventual.on_epoch(previous, &next, has_exchanged);
        self.eventual.carry_exchange(self.goes_on && has_exchanged);
        self.configuration = Some(next);
    }

    /// AD-8: whether `next` changes no membership of an epoch in which this member was ready, or
    /// that changed none.
    fn goes_on_in(&self, next: &Configuration) -> bool {
        let is_same = |previous: &Arc<Configuration>| {
            let (was, is) = (&**previous, next);
            let members = was.members == is.members && was.wiring == is.wiring;
            let is_next = was.lossy == is.lossy && was.epoch + 1 == is.epoch;
            (members && is_next) || !self.guards.has(Guard::MembersAreSame)
        };
        let was_in = self.is_ready() || (self.goes_on && self.phase == Phase::Greeting);
        let is_same = self.configuration.as_ref().is_some_and(is_same);
        was_in && is_same && self.guards.has(Guard::SameMembersGoOn)
    }

    /// AD-8: whether it takes eventual operations that need no other member. It is in its epoch, or
    /// waits for its handshake in one that changed no membership.
    pub(super) fn is_ready_alone(&self) -> bool {
        self.is_ready() || (self.goes_on && self.phase == Phase::Greeting)
    }

    /// AD-1, AD-2: the epoch is durable.
    pub(super) fn on_adopted(&mut self, step: &mut Step<'_>) -> Result<(), ViewError> {
        self.phase = Phase::Greeting;
        let epoch = self.epoch();
        step.effects
            .push(Effect::Coordinator(Report::Adopted { epoch }));
        if self.joining.is_open() && self.role() == Some(Role::Serving) {
            // JN-6: no member with a gap is made serving but by an operator's error (AL-4).
            self.halt(step);
            return Ok(());
        }
        if self.role() == Some(Role::Serving) {
            self.catch_up(usize::MAX, step)?;
        }
        if self.is_head() {
            self.become_ready(step)?;
        } else if self.goes_on {
            self.go_on_eventual(step)?;
        }
        self.on_early(step)
    }

    fn become_ready(&mut self, step: &mut Step<'_>) -> Result<(), ViewError> {
        self.phase = Phase::Ready;
        self.inherited = self.log.last();
        self.slowness.on_ready(step.now.monotonic);
        let adopted = self.configuration.clone().expect("it was adopted");
        self.writes
            .send_handshakes(adopted.followers(self.me.node), self.commit);
        self.on_ready_eventual(step)?;
        self.advance_commit(step)?;
        self.retry_reads(step)?;
        Ok(())
    }

    /// AD-3: tells followers what the log holds, until they answer.
    pub(super) fn flush_handshakes(&mut self, step: &mut Step<'_>) {
        let due = self.writes.handshakes_due(step.now.monotonic);
        if due.is_empty() {
            return;
        }
        let last = match self.guards.has(Guard::HelloPersisted) {
            true => self.persisted,
            false => self.log.last(),
        };
        for node in due {
            let hello = Message::Hello {
                epoch_history: self.log.epoch_history().up_to(last),
                base: self.log.base(),
                commit: self.commit,
                last,
                clock: step.now.wall,
            };
            self.send(node, hello, step);
        }
    }

    /// AD-4, AD-5, JN-2: drops what the donor lacks, says from where it needs entries.
    pub(super) fn on_hello(
        &mut self,
        from: NodeId,
        hello: Message,
        step: &mut Step<'_>,
    ) -> Result<(), ViewError> {
        let Message::Hello {
            epoch_history,
            base,
            commit,
            last,
            clock,
        } = hello
        else {
            return Ok(());
        };
        let adopted = self.configuration.clone().expect("a message has an epoch");
        if adopted.source(self.me.node) != Some(from) {
            return Ok(());
        }
        if self.phase == Phase::Ready {
            self.writes.ask_again();
            return Ok(());
        }
        self.eventual.on_peer_clock(from, clock, step.now);
        let may_forget = adopted.must_fill(self.me.disk) && self.is_syncing();
        if may_forget && self.commit.epoch < adopted.lossy.epoch {
            self.forget(commit, &epoch_history, step);
        } else if self.guards.has(Guard::AdoptReconciles) {
            if let Some(entries) = self.ahead_of(&epoch_history) {
                self.stop_ahead(entries, step);
                return Ok(());
            }
            self.reconcile(&epoch_history, step);
        }
        if self.is_syncing() {
            self.begin_joining(&epoch_history, base, commit, last, step)?;
        } else {
            let last = self.log.last();
            if last < commit && self.guards.has(Guard::AdoptReconciles) {
                let entries = commit.index.saturating_sub(last.index);
                step.effects.push(Effect::Stop(Stop::Behind(entries)));
                self.halt(step);
                return Ok(());
            }
        }
        self.writes.ask_again();
        self.become_ready(step)
    }

    /// How many entries are committed here of which the donor has none, or another one in their
    /// place: no member may drop those (I3).
    fn ahead_of(&self, theirs: &EpochHistory) -> Option<u64> {
        let first = theirs.first_index();
        let reaches = first.is_some_and(|first| first <= self.commit.index);
        if !reaches || theirs.contains(self.commit) || self.commit == EntryId::ZERO {
            return None;
        }
        let common = self.log.epoch_history().common(theirs);
        let shared = common.map_or(0, |common| common.index);
        Some(self.commit.index.saturating_sub(shared).max(1))
    }

    /// LD-2: the chain went on with an old copy of a disk. This member, which knows more, stops.
    fn stop_ahead(&mut self, entries: u64, step: &mut Step<'_>) {
        let epoch = self.epoch();
        self.halt(step);
        self.phase = Phase::Ahead(entries);
        step.effects.push(Effect::Stop(Stop::Ahead(entries)));
        let report = Report::Ahead { epoch, entries };
        step.effects.push(Effect::Coordinator(report));
    }

    fn reconcile(&mut self, theirs: &EpochHistory, step: &mut Step<'_>) {
        let ours = self.log.epoch_history();
        let common = match self.guards.has(Guard::HelloIds) {
            true => ours.common(theirs),
            false => ours.common_length(theirs),
        };
        let common = common.unwrap_or(self.commit).max(self.commit);
        self.cut(common, step);
    }

    /// Drops every entry above `after`, with the requests that wait for it.
    fn cut(&mut self, after: EntryId, step: &mut Step<'_>) {
        if self.log.last() <= after {
            return;
        }
        let drops_names = self.guards.has(Guard::TruncDropsResults);
        self.log.cut(after, drops_names);
        self.persist(Record::Cut { after }, step);
        self.persisted = self.persisted.min(after);
        for token in self.writes.cut(after) {
            step.reply(token, Reply::Unknown);
        }
    }

    /// Records up to `lsn` are durable.
    pub(super) fn on_persisted(&mut self, lsn: Lsn, step: &mut Step<'_>) -> Result<(), ViewError> {
        self.persisted = self
            .log
            .on_persisted(self.persisted, lsn, step.now.monotonic);
        if let Phase::Adopting(epoch) = self.phase
            && epoch <= lsn
        {
            self.on_adopted(step)?;
        }
        self.on_persisted_eventual(lsn, step)?;
        self.apply_committed(step);
        self.advance_commit(step)
    }

    /// Answers everyone that the outcome is unknown, and takes nothing more.
    pub(super) fn halt(&mut self, step: &mut Step<'_>) {
        self.phase = Phase::Halted;
        let writes = self.writes.drain().chain(self.eventual.drain_writes());
        for token in writes {
            step.reply(token, Reply::Unknown);
        }
        let others = self.reads.drain().into_iter();
        for token in others.chain(self.eventual.drain_others()) {
            step.refuse(token, Refusal::NotServing);
        }
    }
}
