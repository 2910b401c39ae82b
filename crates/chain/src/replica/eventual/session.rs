//! Sessions: what a token asks of a member, and what a reply adds to it (semantics.md, section 7).

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use super::{OperationStatus, WriteAck, Written};
use crate::config::NodeId;
use crate::dedup::{self, DedupState};
use crate::entry::RequestId;
use crate::message::{Message, Scope};
use crate::operation::{Operation, Outcome};
use crate::replica::{Level, Replica, Reply, Session, Step};
use crate::stamp::{EntryId, Stamp};
use crate::view::{View, ViewError};

/// Tentative operations that a token names at most.
const TENTATIVE_MAX: usize = 32;
/// Bytes of their registers' keys at most: a token fits a header.
const TENTATIVE_BYTES_MAX: usize = 8 << 10;
/// An operation this much older than the clock is settled or lost for certain.
const FORGOTTEN_AFTER_MS: u64 = 24 * 60 * 60 * 1_000;

/// What became of a tentative operation, as this member knows it.
enum State {
    Settled(Option<(EntryId, Outcome)>),
    Held,
    Missing,
}

/// Whether a member shows everything that a session has seen.
pub(in crate::replica) enum Seen {
    All,
    Wait,
    Lost(RequestId),
    Forgotten,
}

/// The search for an operation that a session saw and this member does not hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Probe {
    key: Bytes,
    number: u64,
    asked_at: u64,
    /// When a reader last looked.
    wanted_at: u64,
    /// Who has shown the register since, and the commit id it was shown at.
    answers: BTreeMap<NodeId, EntryId>,
}

impl Session {
    /// What the next token has no room for beside what is newer, of what this one names and of
    /// these writes: the oldest.
    pub(super) fn crowded_out_by(&self, writes: &[Written]) -> Vec<RequestId> {
        let known = self.tentative.iter().map(|(key, _, name)| (key, *name));
        let written = writes.iter().map(|written| (&written.key, written.name));
        let all: Vec<(&Bytes, RequestId)> = known.chain(written).collect();
        let over = all.len() - room_for(all.iter().rev().map(|(key, _)| *key));
        all[..over].iter().map(|(_, name)| *name).collect()
    }

    /// How many of the tentative operations, from the first, a token has room for.
    fn room(&self) -> usize {
        room_for(self.tentative.iter().map(|(key, _, _)| key))
    }

    fn saw_committed(&mut self, id: EntryId) {
        self.committed = self.committed.max(id);
    }

    fn saw_operation(&mut self, key: &Bytes, stamp: Stamp, name: RequestId) {
        if !self.tentative.iter().any(|(_, _, known)| *known == name) {
            self.tentative.push((key.clone(), stamp, name));
        }
    }

    fn saw_receipt(&mut self, receipt: &WriteAck) {
        for written in &receipt.writes {
            match written.status {
                OperationStatus::Tentative(stamp) => {
                    self.saw_operation(&written.key, stamp, written.name)
                }
                OperationStatus::Settled(id, _) => self.saw_committed(id),
            }
        }
    }

    fn saw_operations<'a>(&mut self, operations: impl Iterator<Item = &'a Arc<Operation>>) {
        operations.for_each(|it| self.saw_operation(&it.key, it.stamp, it.name));
    }

    fn of<'a>(&'a self, scope: &'a Scope) -> impl Iterator<Item = &'a (Bytes, Stamp, RequestId)> {
        self.tentative
            .iter()
            .filter(move |(key, _, _)| match scope {
                Scope::Keys(keys) => keys.contains(key),
                Scope::All => true,
            })
    }
}

/// How many operations on these registers, from the first, a token has room for.
fn room_for<'a>(keys: impl Iterator<Item = &'a Bytes>) -> usize {
    let mut bytes = 0;
    let fits = |key: &&Bytes| {
        bytes += key.len();
        bytes <= TENTATIVE_BYTES_MAX
    };
    keys.take(TENTATIVE_MAX).take_while(fits).count()
}

impl Replica {
    /// The session after `reply`, which was an answer about `scope`, and how those of its earlier
    /// writes ended that it had not been told of. `committed` is the engine's state; to be called
    /// in the step of the reply.
    ///
    /// # Errors
    /// [`ViewError`] when the store fails.
    pub fn next_session(
        &self,
        session: Session,
        scope: &Scope,
        reply: &Reply,
        committed: &dyn View,
    ) -> Result<(Session, Vec<(RequestId, Outcome)>), ViewError> {
        let (mut session, told) = self.whole_session(session, scope, reply, committed)?;
        // A query may show more than there is room for.
        let room = session.room();
        session.tentative.truncate(room);
        Ok((session, told))
    }

    /// What the session of a read has seen with this answer, if a token has no room for it.
    pub(super) fn overfull_session(
        &self,
        session: &Session,
        scope: &Scope,
        reply: &Reply,
        committed: &dyn View,
    ) -> Result<Option<Session>, ViewError> {
        let (whole, _) = self.whole_session(session.clone(), scope, reply, committed)?;
        Ok((whole.room() < whole.tentative.len()).then_some(whole))
    }

    /// As [`Replica::next_session`], with all that a read shows.
    fn whole_session(
        &self,
        mut session: Session,
        scope: &Scope,
        reply: &Reply,
        committed: &dyn View,
    ) -> Result<(Session, Vec<(RequestId, Outcome)>), ViewError> {
        let mut told = Vec::new();
        let mut known = Vec::with_capacity(session.tentative.len());
        for pair in std::mem::take(&mut session.tentative) {
            match self.tentative_state(&pair, 0, committed)? {
                State::Settled(Some((id, outcome))) => {
                    session.saw_committed(id);
                    if outcome != Outcome::Applied {
                        told.push((pair.2, outcome));
                    }
                }
                State::Settled(None) => {}
                State::Held | State::Missing => known.push(pair),
            }
        }
        session.tentative = known;
        match reply {
            Reply::Decided { id: Some(id) }
            | Reply::Repeated { id, .. }
            | Reply::Show { at: id } => {
                session.saw_committed(*id);
            }
            Reply::ShowTentative { at } => {
                session.saw_committed(*at);
                session.saw_operations(self.eventual.overlay.of(scope).iter());
            }
            Reply::ShowRegister(shown) => {
                session.saw_committed(shown.commit);
                session.saw_operations(shown.operations.iter());
            }
            Reply::Held(receipt) => {
                session.saw_receipt(receipt);
                // An operation without room was waited for.
                let newest = session.tentative.iter().rev().map(|(key, _, _)| key);
                let over = session.tentative.len() - room_for(newest);
                session.tentative.drain(..over);
            }
            Reply::Outcomes(outcomes) => {
                outcomes
                    .iter()
                    .for_each(|(id, _)| session.saw_committed(*id));
            }
            Reply::Lost(lost) => session.tentative.retain(|(_, _, name)| name != lost),
            Reply::Forgotten => session.committed = self.commit,
            Reply::Decided { id: None } | Reply::Refused(_) | Reply::Unknown => {}
        }
        Ok((session, told))
    }

    fn tentative_state(
        &self,
        pair: &(Bytes, Stamp, RequestId),
        wall: u64,
        committed: &dyn View,
    ) -> Result<State, ViewError> {
        let (_, stamp, name) = pair;
        if self.eventual.overlay.holds(name) {
            return Ok(State::Held);
        }
        let is_old = stamp.clock.saturating_add(FORGOTTEN_AFTER_MS) < wall;
        Ok(match dedup::known(name, committed)? {
            Some(DedupState::Settled { id, settlement }) => {
                State::Settled(Some((id, settlement.outcome)))
            }
            Some(DedupState::Decided { id, .. }) => State::Settled(Some((id, Outcome::Superseded))),
            Some(DedupState::TooOld) => State::Settled(None),
            Some(DedupState::Logged(_) | DedupState::TooFar) | None if is_old => {
                State::Settled(None)
            }
            Some(DedupState::Logged(_) | DedupState::TooFar) | None => State::Missing,
        })
    }

    /// For reads that show the overlay: whether all that the session saw of `scope` is here.
    pub(super) fn has_seen(
        &mut self,
        session: &Session,
        scope: &Scope,
        step: &mut Step<'_>,
    ) -> Result<Seen, ViewError> {
        if self.has_forgotten(session.committed) {
            return Ok(Seen::Forgotten);
        }
        if self.log.applied() < session.committed {
            return Ok(Seen::Wait);
        }
        self.look_for(session, scope, false, step)
    }

    /// For a strong read: whether all that the session saw of `scope` is settled and committed.
    /// For a bounded one: that, and the committed id.
    pub(in crate::replica) fn has_settled(
        &mut self,
        session: &Session,
        scope: &Scope,
        level: Level,
        step: &mut Step<'_>,
    ) -> Result<Seen, ViewError> {
        if self.has_forgotten(session.committed) {
            return Ok(Seen::Forgotten);
        }
        if level != Level::Strong && self.commit < session.committed {
            return Ok(Seen::Wait);
        }
        self.look_for(session, scope, true, step)
    }

    /// AL-4: whether what was committed as `id` is no part of the chain any more, as far as is
    /// known. A serving member has all that was inherited with the epoch that an operator ordered.
    fn has_forgotten(&self, id: EntryId) -> bool {
        let lossy = self.adopted().map_or(0, |adopted| adopted.lossy.epoch);
        let epoch_history = self.log.epoch_history();
        let is_known = epoch_history
            .first_index()
            .is_some_and(|first| first <= id.index);
        id.epoch < lossy && is_known && !epoch_history.contains(id)
    }

    /// For a read that showed more than a token names: whether all of it is settled here. An
    /// operation that was lost is not waited for, unless the session had seen it before.
    pub(super) fn has_settled_whole(
        &mut self,
        session: &Session,
        whole: &mut Session,
        scope: &Scope,
        step: &mut Step<'_>,
    ) -> Result<Seen, ViewError> {
        loop {
            let seen = self.look_for(whole, scope, true, step)?;
            let Seen::Lost(lost) = seen else {
                return Ok(seen);
            };
            if session.tentative.iter().any(|(_, _, name)| *name == lost) {
                return Ok(seen);
            }
            whole.tentative.retain(|(_, _, name)| *name != lost);
        }
    }

    fn look_for(
        &mut self,
        session: &Session,
        scope: &Scope,
        must_settle: bool,
        step: &mut Step<'_>,
    ) -> Result<Seen, ViewError> {
        let mut seen = Seen::All;
        for pair in session.of(scope) {
            match self.tentative_state(pair, step.now.wall, step.host.committed())? {
                State::Settled(_) => {}
                State::Held if !must_settle => {}
                State::Held => seen = Seen::Wait,
                State::Missing => {
                    if self.is_lost(pair, step) {
                        return Ok(Seen::Lost(pair.2));
                    }
                    seen = Seen::Wait;
                }
            }
        }
        Ok(seen)
    }

    /// TRACE-37: an operation is lost under two conditions. After the exchange of overlays, every
    /// serving member has shown the register without it, and no result came with the greatest
    /// commit id among them. A member that stamped it in this epoch would hold it; what was stamped
    /// before was exchanged.
    fn is_lost(&mut self, pair: &(Bytes, Stamp, RequestId), step: &mut Step<'_>) -> bool {
        let (key, _, name) = pair;
        if !self.has_exchanged() {
            return false;
        }
        let applied = self.log.applied();
        let answers = self.probe(key, *name, step);
        let has_shown = |node| answers.get(node).is_some_and(|at| *at <= applied);
        self.other_serving().iter().all(has_shown)
    }

    /// Which members have shown the register since a session first looked for the operation, and
    /// the commit id at which they did; asks them to.
    pub(super) fn probe(
        &mut self,
        key: &Bytes,
        name: RequestId,
        step: &mut Step<'_>,
    ) -> BTreeMap<NodeId, EntryId> {
        let now = step.now.monotonic;
        if let Some(probe) = self.eventual.probes.get_mut(&name) {
            probe.wanted_at = now;
            return probe.answers.clone();
        }
        let number = self.eventual.next_number();
        let probe = Probe {
            key: key.clone(),
            number,
            asked_at: now,
            wanted_at: now,
            answers: BTreeMap::new(),
        };
        self.eventual.probes.insert(name, probe);
        for node in self.other_serving() {
            let key = key.clone();
            self.send(node, Message::Show { number, key }, step);
        }
        BTreeMap::new()
    }

    /// The other members that answer clients.
    pub(super) fn other_serving(&self) -> Vec<NodeId> {
        let adopted = self.adopted();
        adopted.map_or(Vec::new(), |adopted| {
            let serving = adopted.serving();
            serving.filter(|node| *node != self.me.node).collect()
        })
    }

    /// A member shows a register that a session is missing something of.
    pub(super) fn on_probed(
        &mut self,
        from: NodeId,
        number: u64,
        operations: Vec<Arc<Operation>>,
        commit: EntryId,
        step: &mut Step<'_>,
    ) -> Result<(), ViewError> {
        let mut probes = self.eventual.probes.values_mut();
        let Some(probe) = probes.find(|probe| probe.number == number) else {
            return Ok(());
        };
        probe.answers.insert(from, commit);
        for operation in operations {
            self.take_operation(operation, step)?;
        }
        self.acknowledge_all(step)?;
        self.retry_reads(step)?;
        self.retry_eventual_reads(step)
    }

    pub(super) fn retry_probes(&mut self, step: &mut Step<'_>) {
        let now = step.now.monotonic;
        let retry_ms = self.settings.retry_ms;
        let is_late = |at: u64| at + retry_ms <= now;
        let serving = self.other_serving();
        let mut sends = Vec::new();
        self.eventual.probes.retain(|_, probe| {
            if is_late(probe.wanted_at) && is_late(probe.asked_at) {
                return false;
            }
            if is_late(probe.asked_at) {
                probe.asked_at = now;
                // A member that has answered may know of more commits by now.
                let asked = serving.iter();
                sends.extend(asked.map(|node| (*node, probe.number, probe.key.clone())));
            }
            true
        });
        for (node, number, key) in sends {
            self.send(node, Message::Show { number, key }, step);
        }
    }
}

#[cfg(test)]
mod tests;
