//! Accepting eventual writes, stamping them, and acknowledging them when W members hold them
//! (EV-1, EV-2, EV-4; semantics.md, section 3).

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;

use super::overlay::{Tentative, committed_register};
use super::{OperationStatus, WriteAck, Written};
use crate::config::{NodeId, Role};
use crate::dedup::{self, DedupState};
use crate::entry::RequestId;
use crate::guard::Guard;
use crate::host::{Accepted, CorrelationId, Refusal};
use crate::message::Scope;
use crate::mode::ModeState;
use crate::operation::{Digest, Operation, Outcome};
use crate::record::Record;
use crate::replica::{Now, Replica, Reply, Session, Step};
use crate::stamp::{EntryId, Stamp};
use crate::view::ViewError;

/// What an eventual write asks of the chain.
#[derive(Clone, Copy)]
pub(in crate::replica) struct WriteQuorum {
    /// How many members hold it before it is acknowledged.
    pub(in crate::replica) w: usize,
    /// Whether a member without a lease may take it.
    pub(in crate::replica) sloppy: bool,
}

/// A write that is not acknowledged yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Request {
    pub(super) token: CorrelationId,
    w: usize,
    sloppy: bool,
    detached: bool,
    writes: Vec<Written>,
    /// Of the request, where it has a name.
    digest: Option<Digest>,
    /// What the session's next token has no room for, and which is therefore settled first.
    crowded_out: Vec<RequestId>,
}

/// Who waits to hear how writes of one request ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct OutcomeWaiter {
    pub(super) token: CorrelationId,
    names: Vec<RequestId>,
    digest: Option<Digest>,
}

impl Replica {
    /// EV-1, EV-2.
    pub(in crate::replica) fn on_write(
        &mut self,
        token: CorrelationId,
        request: Option<RequestId>,
        digest: Option<Digest>,
        quorum: WriteQuorum,
        session: &Session,
        step: &mut Step<'_>,
    ) -> Result<(), ViewError> {
        let WriteQuorum { w, sloppy } = quorum;
        if let Some(refusal) = self.refuses_write(w, sloppy, step.now) {
            step.refuse(token, refusal);
            return Ok(());
        }
        let digest = digest.filter(|_| request.is_some() && self.version().is_third());
        let request = match request {
            Some(name) => Some(self.name_here(token, name, digest, step)?),
            None => None,
        };
        let refusal = match request {
            Some(name) => self.refuses_name(name, step)?,
            None => None,
        };
        if let Some(refusal) = refusal {
            step.refuse(token, refusal);
            return Ok(());
        }
        let tentative = Tentative {
            committed: step.host.committed(),
            overlay: &self.eventual.overlay,
        };
        let Some(accepted) = step.host.accept(token, &tentative)? else {
            step.refuse(token, Refusal::Denied);
            return Ok(());
        };
        if !self.is_mode_clean(&accepted, step)? || !self.is_base_adopted(&accepted) {
            step.refuse(token, Refusal::NotServing);
            return Ok(());
        }
        let name = request.unwrap_or_else(|| self.name_unnamed());
        let named = self.with_parts(name, accepted);
        for (name, _) in &named {
            if digest.is_some() && self.is_anothers(name, digest, step)? {
                step.refuse(token, Refusal::NameUsed(*name));
                return Ok(());
            }
        }
        let number = self.eventual.next_number();
        let mut writes = Vec::with_capacity(named.len());
        for (name, accepted) in named {
            writes.push(self.attempt(name, digest, accepted, number, session, step)?);
        }
        let request = Request {
            token,
            w,
            sloppy,
            detached: !self.is_attached(step.now),
            crowded_out: session.crowded_out_by(&writes),
            writes,
            digest,
        };
        self.eventual.requests.insert(number, request);
        self.settle_owed(step)?;
        self.acknowledge(number, step)
    }

    fn refuses_write(&self, w: usize, sloppy: bool, now: Now) -> Option<Refusal> {
        let is_serving =
            self.role() == Some(Role::Serving) || !self.guards.has(Guard::SyncingNoStamp);
        let is_leased = now.monotonic < self.lease_until || !self.guards.has(Guard::LeaseStamp);
        let drifts = self.eventual.clock.drifts(now, self.settings.max_drift_ms);
        let size = self.adopted().map_or(0, |adopted| adopted.size());
        let is_whole = self.is_ready_alone() && is_serving && !self.is_behind_gap();
        if !is_whole || drifts || (!is_leased && !sloppy) {
            Some(Refusal::NotServing)
        } else if !(1..=size).contains(&w) {
            Some(Refusal::Quorum)
        } else if self.settings.own_operations_max <= self.eventual.offerings.len()
            || self.settings.overlay_bytes_max <= self.eventual.overlay.bytes()
        {
            Some(Refusal::Overloaded)
        } else {
            None
        }
    }

    /// XO-4, XO-6: whether the name may be used at all.
    fn refuses_name(&self, name: RequestId, step: &Step<'_>) -> Result<Option<Refusal>, ViewError> {
        Ok(match dedup::known(&name, step.host.committed())? {
            Some(DedupState::TooOld) if self.guards.has(Guard::WindowRefuses) => {
                Some(Refusal::TooOld(name))
            }
            Some(DedupState::TooFar) => Some(Refusal::TooFar(name)),
            Some(DedupState::Decided { .. }) => Some(Refusal::NameUsed(name)),
            _ => None,
        })
    }

    /// XO-6: whether what is held or settled under the name is of another request.
    fn is_anothers(
        &self,
        name: &RequestId,
        digest: Option<Digest>,
        step: &Step<'_>,
    ) -> Result<bool, ViewError> {
        if !self.guards.has(Guard::EventualDigest) {
            return Ok(false);
        }
        if let Some(held) = self.eventual.overlay.get(name) {
            return Ok(Digest::differ(held.operation.digest, digest));
        }
        Ok(match dedup::known(name, step.host.committed())? {
            Some(DedupState::Settled { settlement, .. }) => {
                Digest::differ(settlement.digest, digest)
            }
            _ => false,
        })
    }

    /// D19: the parts of an accepted request, each under its name.
    fn with_parts(&self, name: RequestId, accepted: Vec<Accepted>) -> Vec<(RequestId, Accepted)> {
        let part = |at: usize| match self.guards.has(Guard::NamePart) {
            true => u32::try_from(at).expect("a request names fewer registers"),
            false => 0,
        };
        let accepted = accepted.into_iter().enumerate();
        let named = accepted.map(|(at, it)| {
            (
                RequestId {
                    part: part(at),
                    ..name
                },
                it,
            )
        });
        named.collect()
    }

    /// XO-1: a name of this incarnation for a request that has none.
    fn name_unnamed(&mut self) -> RequestId {
        self.eventual.unnamed += 1;
        RequestId {
            client: self.me.incarnation.0.into(),
            seq: self.eventual.unnamed,
            part: 0,
        }
    }

    /// One operation: found under its name, or stamped and held.
    fn attempt(
        &mut self,
        name: RequestId,
        digest: Option<Digest>,
        accepted: Accepted,
        number: u64,
        session: &Session,
        step: &mut Step<'_>,
    ) -> Result<Written, ViewError> {
        let Accepted { key, ops } = accepted;
        if let Some(status) = self.settled(&name, digest, step)? {
            if let Some(offering) = self.eventual.offerings.get_mut(&name) {
                offering.wanted.insert(number);
            }
            return Ok(Written { name, key, status });
        }
        let held = self.eventual.overlay.get(&name);
        let found = held.filter(|_| self.guards.has(Guard::EventualDedupe));
        let (operation, lsn) = match found {
            Some(held) => (held.operation.clone(), held.lsn),
            None => {
                let operation = Arc::new(Operation {
                    name,
                    stamp: self.stamp(&key, session, step)?,
                    accept: self.log.last(),
                    digest,
                    key: key.clone(),
                    ops,
                });
                (operation.clone(), self.hold(operation, step)?)
            }
        };
        let status = OperationStatus::Tentative(operation.stamp);
        self.eventual.owed.insert((lsn, self.me.node, name));
        self.offer(operation, Some(number));
        Ok(Written { name, key, status })
    }

    /// What the committed state says of a name, for a request of this digest. What the overlay
    /// holds is not settled there.
    fn settled(
        &self,
        name: &RequestId,
        digest: Option<Digest>,
        step: &Step<'_>,
    ) -> Result<Option<OperationStatus>, ViewError> {
        if self.eventual.overlay.holds(name) || !self.guards.has(Guard::EventualDedupe) {
            return Ok(None);
        }
        Ok(match dedup::known(name, step.host.committed())? {
            Some(DedupState::Settled { id, settlement }) => {
                Some(OperationStatus::Settled(id, settlement.outcome_for(digest)))
            }
            // A strong request took the name first.
            Some(DedupState::Decided { id, .. }) => {
                Some(OperationStatus::Settled(id, Outcome::Superseded))
            }
            Some(DedupState::TooOld | DedupState::TooFar | DedupState::Logged(_)) | None => None,
        })
    }

    /// EV-5: let these registers' newest uncommitted entry be numbered in an epoch. Whether no
    /// member that has not heard of that epoch can number another one below it that commits. The
    /// head that numbered it has.
    fn is_base_adopted(&self, accepted: &[Accepted]) -> bool {
        if self.log.last().epoch <= self.commit.epoch || !self.guards.has(Guard::BaseAdopted) {
            return true;
        }
        let keys = accepted.iter().map(|accepted| accepted.key.clone());
        let newest = self.log.dirty(&Scope::Keys(keys.collect()), self.commit);
        let is_of_commit = newest.is_none_or(|newest| newest.epoch <= self.commit.epoch);
        let adopted = self.configuration.as_ref().expect("a ready member has one");
        let exchange = &self.eventual.exchange;
        is_of_commit
            || exchange.is_headed_since(self.commit.epoch)
            || exchange.is_adopted_by_all(adopted, self.me.node)
    }

    /// D5: above everything that this member, and the session, can have seen of the register.
    fn stamp(
        &mut self,
        key: &Bytes,
        session: &Session,
        step: &mut Step<'_>,
    ) -> Result<Stamp, ViewError> {
        let committed = step.host.committed();
        let newest = self.log.newest(committed);
        let register = match self.guards.has(Guard::BaseDirty) {
            true => committed_register(&newest, key)?,
            false => committed_register(committed, key)?,
        };
        let opened = match self.guards.has(Guard::BaseOpened) {
            true => ModeState::of_register(&newest, key)?.opened,
            false => EntryId::ZERO,
        };
        let safe_point = self
            .configuration
            .as_ref()
            .map(|adopted| adopted.safe_point);
        let safe_point = safe_point.filter(|_| self.guards.has(Guard::BaseFloor));
        let held = self.eventual.overlay.on(key).map(|held| held.stamp);
        let held = held.filter(|_| self.guards.has(Guard::BaseOverlay));
        let seen = session.tentative.iter().filter(|(seen, _, _)| seen == key);
        let seen = seen.map(|(_, stamp, _)| *stamp);
        let seen = seen.filter(|_| self.guards.has(Guard::BaseToken));
        let others: Vec<Stamp> = held.chain(seen).collect();
        let bases = others.iter().map(|stamp| stamp.base);
        let base = bases
            .chain([register.version, opened, safe_point.unwrap_or_default()])
            .fold(Default::default(), Ord::max);
        let same = others.iter().filter(|stamp| stamp.base == base);
        let above = same.map(|stamp| stamp.clock).max().unwrap_or_default();
        let (clock, counter) = self.eventual.clock.next(step.now, above);
        self.reserve_clock(step);
        Ok(Stamp {
            base,
            clock,
            node: self.me.node.0,
            counter,
        })
    }

    /// I18: the bound is reserved well ahead, so that few writes wait for it.
    fn reserve_clock(&mut self, step: &mut Step<'_>) {
        if !self.guards.has(Guard::ClockBound) {
            return;
        }
        // After a restart the clock goes on from the bound, which must not look like drift.
        let reserve = self.settings.max_drift_ms / 2;
        if let Some(bound) = self.eventual.clock.bound_due(reserve) {
            let lsn = self.persist(Record::ClockBound(bound), step);
            self.eventual.clock.reserve(bound, lsn);
        }
    }

    /// D13: whether what is acknowledged now may be called attached.
    fn is_attached(&self, now: Now) -> bool {
        self.role() == Some(Role::Serving)
            && !self.is_behind_gap()
            && now.monotonic < self.lease_until
    }

    /// EV-4: tells the client, if W members hold everything, in this epoch.
    pub(super) fn acknowledge(
        &mut self,
        number: u64,
        step: &mut Step<'_>,
    ) -> Result<(), ViewError> {
        if !self.is_ready_alone() {
            return Ok(());
        }
        let Some(request) = self.eventual.requests.get(&number).cloned() else {
            return Ok(());
        };
        let is_attached = self.is_attached(step.now) || !self.guards.has(Guard::AckAttached);
        if !is_attached && !request.detached && !request.sloppy {
            return Ok(());
        }
        let mut statuses = Vec::with_capacity(request.writes.len());
        for written in &request.writes {
            let settled = self.settled(&written.name, request.digest, step)?;
            let status = settled.unwrap_or_else(|| written.status.clone());
            if !self.is_held_by(written, &status, request.w, step) {
                return Ok(());
            }
            statuses.push(status);
        }
        for name in &request.crowded_out {
            if self.settled(name, None, step)?.is_none() {
                return Ok(());
            }
        }
        self.eventual.requests.remove(&number);
        let writes = request.writes.into_iter().zip(statuses);
        let receipt = WriteAck {
            writes: writes
                .map(|(written, status)| Written { status, ..written })
                .collect(),
            detached: request.detached || !is_attached,
        };
        step.reply(request.token, Reply::Held(receipt));
        Ok(())
    }

    /// Whether W members hold it, as an operation or settled in their committed state. That it is
    /// settled here is not enough: others may not know of the commit, and never have held it.
    fn is_held_by(
        &mut self,
        written: &Written,
        status: &OperationStatus,
        w: usize,
        step: &mut Step<'_>,
    ) -> bool {
        let offering = self.eventual.offerings.get(&written.name);
        let mut held = offering.map_or(BTreeSet::new(), |offering| offering.held.clone());
        if let OperationStatus::Settled(id, _) = status {
            held.insert(self.me.node);
            if offering.is_none() && held.len() < w {
                let answers = self.probe(&written.key, written.name, step).into_iter();
                held.extend(answers.filter(|(_, at)| id <= at).map(|(node, _)| node));
            }
        }
        w <= held.len() && self.is_joint(&held, w)
    }

    /// EX-2: whether the holders meet every quorum that may still be claimed in an older epoch.
    fn is_joint(&self, held: &BTreeSet<NodeId>, w: usize) -> bool {
        let adopted = self.configuration.as_ref().expect("a ready member has one");
        !self.guards.has(Guard::JointW)
            || self
                .eventual
                .exchange
                .is_joint(adopted, self.me.node, held, w)
    }

    /// What is known of a write that waits for W members. It may take effect though its time is
    /// over, and its session is to know. Nothing of one that has no room in the next token.
    pub fn held_so_far(&self, token: CorrelationId) -> Option<WriteAck> {
        let mut requests = self.eventual.requests.values();
        let request = requests.find(|request| request.token == token)?;
        let receipt = WriteAck {
            writes: request.writes.clone(),
            detached: request.detached,
        };
        request.crowded_out.is_empty().then_some(receipt)
    }

    /// Writes that wait for some of these, or for what their session has no room for.
    pub(super) fn acknowledge_settled(
        &mut self,
        mut wanted: BTreeSet<u64>,
        step: &mut Step<'_>,
    ) -> Result<(), ViewError> {
        let requests = self.eventual.requests.iter();
        let crowded = requests.filter(|(_, request)| !request.crowded_out.is_empty());
        wanted.extend(crowded.map(|(number, _)| *number));
        wanted
            .into_iter()
            .try_for_each(|number| self.acknowledge(number, step))
    }

    pub(super) fn acknowledge_all(&mut self, step: &mut Step<'_>) -> Result<(), ViewError> {
        let numbers: Vec<u64> = self.eventual.requests.keys().copied().collect();
        numbers
            .into_iter()
            .try_for_each(|number| self.acknowledge(number, step))
    }

    /// PR-7: who asked how writes ended.
    pub(in crate::replica) fn on_outcome(
        &mut self,
        token: CorrelationId,
        names: Vec<RequestId>,
        digest: Option<Digest>,
        step: &mut Step<'_>,
    ) -> Result<(), ViewError> {
        let asked = OutcomeWaiter {
            token,
            names,
            digest,
        };
        self.eventual.outcomes.push(asked);
        self.answer_outcomes(step)
    }

    pub(super) fn answer_outcomes(&mut self, step: &mut Step<'_>) -> Result<(), ViewError> {
        let waiting = std::mem::take(&mut self.eventual.outcomes);
        for asked in waiting {
            let names = asked.names.iter();
            let statuses = names.map(|name| self.settled(name, asked.digest, step));
            let settled = statuses.map(|status| match status? {
                Some(OperationStatus::Settled(id, outcome)) => Ok(Some((id, outcome))),
                _ => Ok(None),
            });
            match settled.collect::<Result<Option<Vec<_>>, ViewError>>()? {
                Some(outcomes) => step.reply(asked.token, Reply::Outcomes(outcomes)),
                None => self.eventual.outcomes.push(asked),
            }
        }
        Ok(())
    }
}
