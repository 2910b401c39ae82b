//! Strong and bounded reads (docs/internals/protocol/chain.md, section 7; semantics.md, section 8).
//!
//! Invariants:
//! - (I7) every answer is given under a live lease, judged in the step that looks at the data.
//! - (I8) questions are answered by the commit point of the same epoch only.
//! - (I9) what is shown is a committed prefix.

use std::collections::BTreeMap;

use super::eventual::Seen;
use super::{Level, Now, Replica, Reply, Session, Step};
use crate::change::Change;
use crate::config::NodeId;
use crate::entry::RequestId;
use crate::guard::Guard;
use crate::host::{CorrelationId, Refusal};
use crate::log::Slot;
use crate::message::{Message, Scope};
use crate::stamp::EntryId;
use crate::view::ViewError;

/// A read that waits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Waiting {
    token: CorrelationId,
    scope: Scope,
    level: Level,
    session: Session,
    /// When the commit point was asked last, if it was.
    asked_at: Option<u64>,
}

/// The reads that wait, by number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Reads {
    waiting: BTreeMap<u64, Waiting>,
    next: u64,
}

impl Reads {
    /// Questions of the old epoch will not be answered.
    pub(super) fn on_epoch(&mut self) {
        let waiting = std::mem::take(&mut self.waiting).into_values();
        for mut waiting in waiting {
            waiting.asked_at = None;
            self.waiting.insert(self.next, waiting);
            self.next += 1;
        }
    }

    pub(super) fn is_waited_for(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(super) fn drain(&mut self) -> Vec<CorrelationId> {
        let waiting = std::mem::take(&mut self.waiting).into_values();
        waiting.map(|waiting| waiting.token).collect()
    }
}

/// What can be said to a read now.
enum Answer {
    Show(EntryId),
    Ask,
    Wait,
    Lost(RequestId),
    Forgotten,
    Refuse,
}

impl Replica {
    pub(super) fn on_read(
        &mut self,
        token: CorrelationId,
        scope: Scope,
        level: Level,
        session: Option<Session>,
        step: &mut Step<'_>,
    ) -> Result<(), ViewError> {
        match level {
            Level::Eventual { r, sloppy } => {
                self.begin_eventual_read(token, scope, session, r, sloppy, step)
            }
            Level::Barrier => {
                let session = session.unwrap_or_default();
                self.begin_barrier_read(token, scope, session, step)
            }
            Level::Strong | Level::BoundVersions(_) | Level::BoundMillis(_) => {
                let waiting = Waiting {
                    token,
                    scope,
                    level,
                    session: session.unwrap_or_default(),
                    asked_at: None,
                };
                let number = self.reads.next;
                self.reads.next += 1;
                self.reads.waiting.insert(number, waiting);
                self.try_read(number, step)?;
                self.counters.dirty_reads += u64::from(self.reads.waiting.contains_key(&number));
                Ok(())
            }
        }
    }

    /// Answers the read, or asks, or leaves it waiting.
    fn try_read(&mut self, number: u64, step: &mut Step<'_>) -> Result<(), ViewError> {
        let token = self.reads.waiting[&number].token;
        match self.answer_now(number, step)? {
            Answer::Show(at) => {
                self.reads.waiting.remove(&number);
                step.reply(token, Reply::Show { at });
            }
            Answer::Refuse => {
                self.reads.waiting.remove(&number);
                step.refuse(token, Refusal::NotServing);
            }
            Answer::Lost(name) => {
                self.reads.waiting.remove(&number);
                step.reply(token, Reply::Lost(name));
            }
            Answer::Forgotten => {
                self.reads.waiting.remove(&number);
                step.reply(token, Reply::Forgotten);
            }
            Answer::Ask => self.ask(number, step),
            Answer::Wait => {}
        }
        Ok(())
    }

    /// What can be said now, once what the session has seen is settled.
    fn answer_now(&mut self, number: u64, step: &mut Step<'_>) -> Result<Answer, ViewError> {
        let waiting = &self.reads.waiting[&number];
        let may_answer = match waiting.level {
            Level::Strong => self.may_serve(step.now),
            // One that is proven after the lease, too.
            _ => self.may_show(),
        };
        if waiting.session != Session::default() && may_answer {
            let waiting = waiting.clone();
            let (session, scope) = (&waiting.session, &waiting.scope);
            match self.has_settled(session, scope, waiting.level, step)? {
                Seen::All => {}
                Seen::Wait => return Ok(Answer::Wait),
                Seen::Lost(name) => return Ok(Answer::Lost(name)),
                Seen::Forgotten => return Ok(Answer::Forgotten),
            }
        }
        let waiting = &self.reads.waiting[&number];
        match waiting.level {
            Level::Strong => Ok(self.answer_strong(waiting, step)),
            level => Ok(self.answer_bounded(waiting, level, step)),
        }
    }

    /// RD-1 to RD-4.
    fn answer_strong(&self, waiting: &Waiting, step: &Step<'_>) -> Answer {
        match self.answers_now(step.now, &waiting.scope) {
            Some(at) => Answer::Show(at),
            None if !self.may_serve(step.now) => Answer::Refuse,
            None if self.asks() => Answer::Ask,
            None => Answer::Wait,
        }
    }

    /// RD-3: whether another member has to say what is committed of a dirty register.
    fn asks(&self) -> bool {
        !self.is_commit_point() && self.guards.has(Guard::QueryByCommitPoint)
    }

    /// The commit id at which a strong read of `scope` can be shown here at once, if it can.
    pub fn answers_now(&self, now: Now, scope: &Scope) -> Option<EntryId> {
        if !self.may_serve(now) {
            return None;
        }
        if !self.guards.has(Guard::ReadCommitted) {
            return Some(self.log.last());
        }
        let knows = self.is_clean(scope) || !self.guards.has(Guard::Query);
        (knows || (!self.asks() && self.speaks_for(scope))).then_some(self.commit)
    }

    /// RD-2, CO-2: no entry that may not be committed changes what `scope` names.
    fn is_clean(&self, scope: &Scope) -> bool {
        match self.log.dirty(scope, self.commit) {
            None => true,
            Some(_) if self.guards.has(Guard::TxnDirtyAll) => false,
            Some(_) => {
                let first = |slot: &Slot| slot.entry.changes.first().map(Change::key).cloned();
                let Scope::Keys(keys) = scope else {
                    return false;
                };
                let mut firsts = self.log.above(self.commit).filter_map(first);
                !firsts.any(|key| keys.contains(&key))
            }
        }
    }

    /// RD-4: no member speaks for a register while an entry it inherited may or may not be
    /// committed.
    fn speaks_for(&self, scope: &Scope) -> bool {
        let mut dirtying = self.log.dirtying(scope, self.commit);
        let inherited = dirtying.any(|slot| slot.entry.id <= self.inherited);
        !inherited || !self.guards.has(Guard::TailWaits)
    }

    /// D11: what this member may hide, and for how long, it knows itself.
    fn answer_bounded(&self, waiting: &Waiting, level: Level, step: &Step<'_>) -> Answer {
        let now = step.now.monotonic;
        let is_live = self.may_serve(step.now);
        if !is_live && self.guards.has(Guard::BoundLease) {
            return match level {
                Level::BoundMillis(bound) => self.answer_after_lease(waiting, bound, now),
                _ => Answer::Refuse,
            };
        }
        let mut hidden = self.log.dirtying(&waiting.scope, self.commit);
        let is_proven = match level {
            Level::BoundVersions(bound) => hidden.count() as u64 <= bound,
            Level::BoundMillis(bound) => hidden
                .find_map(|slot| slot.persisted_at)
                .is_none_or(|at| now - at.min(now) <= bound),
            _ => false,
        };
        match is_proven {
            true => Answer::Show(self.commit),
            false if self.is_commit_point() && self.speaks_for(&waiting.scope) => {
                Answer::Show(self.commit)
            }
            false if self.is_commit_point() => Answer::Wait,
            false => Answer::Ask,
        }
    }

    /// A register that was clean when the lease ended is behind by no more than the time since.
    fn answer_after_lease(&self, waiting: &Waiting, bound: u64, now: u64) -> Answer {
        let is_clean = self.log.dirty(&waiting.scope, self.commit).is_none();
        let since = now.saturating_sub(self.lease_until);
        match self.may_show() && is_clean && self.lease_until != 0 && since <= bound {
            true => Answer::Show(self.commit),
            false => Answer::Refuse,
        }
    }

    /// RD-3.
    fn ask(&mut self, number: u64, step: &mut Step<'_>) {
        let now = step.now.monotonic;
        let Some(waiting) = self.reads.waiting.get_mut(&number) else {
            return;
        };
        let is_fresh = |at: u64| now < at + self.settings.retry_ms;
        if waiting.asked_at.is_some_and(is_fresh) {
            return;
        }
        waiting.asked_at = Some(now);
        let scope = waiting.scope.clone();
        let Some(to) = self.adopted().map(|adopted| adopted.commit_point()) else {
            return;
        };
        self.counters.queries_asked += 1;
        self.send(to, Message::Query { number, scope }, step);
    }

    /// RD-4: another member asks this one.
    pub(super) fn on_query(
        &mut self,
        from: NodeId,
        number: u64,
        scope: &Scope,
        step: &mut Step<'_>,
    ) {
        let is_live = step.now.monotonic < self.lease_until || !self.guards.has(Guard::LeaseQuery);
        if is_live && !self.asks() && self.speaks_for(scope) {
            let commit = self.commit;
            self.counters.queries_answered += 1;
            self.send(from, Message::QueryAnswer { number, commit }, step);
        }
    }

    /// The commit point has named a prefix.
    pub(super) fn on_query_answer(
        &mut self,
        from: NodeId,
        number: u64,
        commit: EntryId,
        step: &mut Step<'_>,
    ) -> Result<(), ViewError> {
        let is_commit_point = self
            .adopted()
            .is_some_and(|adopted| adopted.commit_point() == from);
        let Some(waiting) = self.reads.waiting.get(&number) else {
            return Ok(());
        };
        if !is_commit_point && self.guards.has(Guard::QueryByCommitPoint) {
            return Ok(());
        }
        let token = waiting.token;
        if !self.may_serve(step.now) {
            self.reads.waiting.remove(&number);
            step.refuse(token, Refusal::NotServing);
            return Ok(());
        }
        if self.log.last() < commit {
            // Only what was cut here can be missing: the question is asked again.
            return Ok(());
        }
        // An announcement may have overtaken the answer.
        self.reads.waiting.remove(&number);
        let at = commit.max(self.commit);
        step.reply(token, Reply::Show { at });
        Ok(())
    }

    /// Some of those that wait may be clean now; what was not answered for long is asked again.
    pub(super) fn retry_reads(&mut self, step: &mut Step<'_>) -> Result<(), ViewError> {
        let numbers: Vec<u64> = self.reads.waiting.keys().copied().collect();
        for number in numbers {
            self.try_read(number, step)?;
        }
        Ok(())
    }

    pub(super) fn abandon_read(&mut self, token: CorrelationId) {
        self.reads
            .waiting
            .retain(|_, waiting| waiting.token != token);
    }
}
