//! Eventual reads: what this member shows, or the join of what R members show (ER).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;

use super::QuorumRead;
use super::overlay::{Tentative, is_tentative};
use super::session::Seen;
use crate::config::{NodeId, Role};
use crate::entry::RequestId;
use crate::guard::Guard;
use crate::host::{CorrelationId, Refusal};
use crate::message::{Message, Scope};
use crate::operation::Operation;
use crate::register::Register;
use crate::replica::{Now, Replica, Reply, Session, Step};
use crate::stamp::EntryId;
use crate::view::{View, ViewError};

/// What one member shows: its committed register, its operations on it, and as of which commit.
type Part = (Option<Register>, Vec<Arc<Operation>>, EntryId);

/// A read that waits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Waiting {
    pub(super) token: CorrelationId,
    scope: Scope,
    r: usize,
    sloppy: bool,
    /// What its session has seen, if it is of one.
    session: Option<Session>,
    /// What its session would have seen with the answer, where a token has no room for that. The
    /// committed state is shown when all of it is settled.
    whole: Option<Session>,
    /// When members were asked last, if they were.
    asked_at: Option<u64>,
    /// Those that were asked.
    asked: BTreeSet<NodeId>,
    /// What others show.
    parts: BTreeMap<NodeId, Part>,
}

impl Waiting {
    pub(super) fn on_epoch(&mut self) {
        self.asked_at = None;
        self.asked.clear();
        self.parts.clear();
    }
}

impl Replica {
    /// The committed state at the engine's id with the overlay's operations merged into its
    /// registers. An answer `ShowTentative` is read from it, until the next step.
    pub fn tentative_view<'a>(&'a self, committed: &'a dyn View) -> Box<dyn View + 'a> {
        Box::new(Tentative {
            committed,
            overlay: &self.eventual.overlay,
        })
    }

    /// The overlay's operations on registers in `start..end`: what a query lays over the committed
    /// state, with what derives from it (SDB-6.7).
    pub fn operations_within<'a>(
        &'a self,
        start: &[u8],
        end: &[u8],
    ) -> impl Iterator<Item = &'a Arc<Operation>> {
        self.eventual.overlay.within(start, end)
    }

    pub(in crate::replica) fn begin_eventual_read(
        &mut self,
        token: CorrelationId,
        scope: Scope,
        session: Option<Session>,
        r: usize,
        sloppy: bool,
        step: &mut Step<'_>,
    ) -> Result<(), ViewError> {
        let is_single = matches!(&scope, Scope::Keys(keys) if keys.len() == 1);
        let size = self.adopted().map_or(usize::MAX, |adopted| adopted.size());
        if !(1..=size).contains(&r) || (1 < r && !is_single) {
            step.refuse(token, Refusal::Quorum);
            return Ok(());
        }
        let number = self.eventual.next_number();
        let waiting = Waiting {
            token,
            scope,
            r,
            sloppy,
            session,
            whole: None,
            asked_at: None,
            asked: BTreeSet::new(),
            parts: BTreeMap::new(),
        };
        self.eventual.reads.insert(number, waiting);
        self.try_eventual_read(number, step)
    }

    /// ER-1: whether this member may show what it holds.
    pub(in crate::replica) fn may_show(&self) -> bool {
        let role = self.role() == Some(Role::Serving) || !self.guards.has(Guard::SyncingSilent);
        self.is_ready() && role && !self.is_behind_gap()
    }

    /// AD-8: whether it takes eventual operations that need no other member.
    pub fn takes_alone(&self, now: Now) -> bool {
        self.has_lease(now) && self.may_show_alone(1)
    }

    /// AD-8: the same for what it shows of its own, also where it waits to be greeted.
    fn may_show_alone(&self, r: usize) -> bool {
        let role = self.role() == Some(Role::Serving);
        let alone = r == 1 && role && self.is_ready_alone() && !self.is_behind_gap();
        alone || self.may_show()
    }

    pub(in crate::replica) fn retry_eventual_reads(
        &mut self,
        step: &mut Step<'_>,
    ) -> Result<(), ViewError> {
        let numbers: Vec<u64> = self.eventual.reads.keys().copied().collect();
        numbers
            .into_iter()
            .try_for_each(|number| self.try_eventual_read(number, step))
    }

    /// Answers the read, or asks, or leaves it waiting.
    fn try_eventual_read(&mut self, number: u64, step: &mut Step<'_>) -> Result<(), ViewError> {
        let Some(waiting) = self.eventual.reads.get(&number) else {
            return Ok(());
        };
        let is_claim = !waiting.sloppy;
        if !self.may_show_alone(waiting.r) || (is_claim && !self.has_lease(step.now)) {
            self.answer_read(number, Reply::Refused(Refusal::NotServing), step);
            return Ok(());
        }
        let scope = waiting.scope.clone();
        let session = waiting.session.clone().unwrap_or_default();
        let seen = self.has_seen(&session, &scope, step)?;
        if !self.shows_all(number, &seen, step) {
            return Ok(());
        }
        // ER-2: who may meet a quorum of an older epoch has what that quorum held.
        let r = self.eventual.reads[&number].r;
        if is_claim && !self.has_exchanged_for(r) {
            return Ok(());
        }
        let at = self.log.applied();
        if let Some(mut whole) = self.eventual.reads[&number].whole.clone() {
            if at < whole.committed {
                return Ok(());
            }
            let seen = self.has_settled_whole(&session, &mut whole, &scope, step)?;
            if self.shows_all(number, &seen, step) {
                self.answer_read(number, Reply::Show { at }, step);
            }
            return Ok(());
        }
        let waiting = &self.eventual.reads[&number];
        if waiting.r == 1 {
            let reply = Reply::ShowTentative { at };
            if self.may_name(number, &reply, step)? {
                self.answer_read(number, reply, step);
            }
        } else if waiting.r <= waiting.parts.len() + 1 {
            self.join_parts(number, step)?;
        } else {
            self.ask_to_show(number, step);
        }
        Ok(())
    }

    /// Whether a read may go on; it is answered if what its session saw is gone.
    fn shows_all(&mut self, number: u64, seen: &Seen, step: &mut Step<'_>) -> bool {
        match seen {
            Seen::All => return true,
            Seen::Wait => {}
            Seen::Forgotten => self.answer_read(number, Reply::Forgotten, step),
            Seen::Lost(name) => self.answer_read(number, Reply::Lost(*name), step),
        }
        false
    }

    /// ER-5: whether the next token of a read's session names all that `reply` shows. If it has no
    /// room for that, the read waits until it is settled. A query is answered in any case.
    fn may_name(
        &mut self,
        number: u64,
        reply: &Reply,
        step: &mut Step<'_>,
    ) -> Result<bool, ViewError> {
        let waiting = &self.eventual.reads[&number];
        let (Some(session), Scope::Keys(_)) = (&waiting.session, &waiting.scope) else {
            return Ok(true);
        };
        let committed = step.host.committed();
        let whole = self.overfull_session(session, &waiting.scope, reply, committed)?;
        let may_name = whole.is_none();
        if let Some(waiting) = self.eventual.reads.get_mut(&number) {
            waiting.whole = whole;
        }
        Ok(may_name)
    }

    fn answer_read(&mut self, number: u64, reply: Reply, step: &mut Step<'_>) {
        if let Some(waiting) = self.eventual.reads.remove(&number) {
            step.reply(waiting.token, reply);
        }
    }

    /// ER-6: asks R - 1 others, those that keep silent last, and all others soon after.
    fn ask_to_show(&mut self, number: u64, step: &mut Step<'_>) {
        let now = step.now.monotonic;
        let mut others = self.other_serving();
        let Some(waiting) = self.eventual.reads.get_mut(&number) else {
            return;
        };
        let Scope::Keys(keys) = &waiting.scope else {
            return;
        };
        others.retain(|node| !waiting.parts.contains_key(node));
        let is_hedged = others.iter().all(|node| waiting.asked.contains(node));
        let pause = match is_hedged {
            true => self.settings.retry_ms,
            false => self.settings.hedge_ms,
        };
        let count = match waiting.asked_at {
            None => waiting.r - 1,
            Some(at) if at + pause <= now => others.len(),
            Some(_) => return,
        };
        let silent = &mut self.eventual.silent;
        silent.extend(others.iter().filter(|node| waiting.asked.contains(node)));
        if self.guards.has(Guard::SilentLast) {
            others.sort_by_key(|node| silent.contains(node));
        }
        others.truncate(count);
        waiting.asked_at = Some(now);
        waiting.asked.extend(&others);
        let key = keys[0].clone();
        for node in others {
            let key = key.clone();
            self.send(node, Message::Show { number, key }, step);
        }
    }

    /// ER-1: another member asks.
    pub(super) fn on_show(
        &self,
        from: NodeId,
        number: u64,
        key: &Bytes,
        step: &mut Step<'_>,
    ) -> Result<(), ViewError> {
        if !self.may_show() || self.is_withholding() {
            return Ok(());
        }
        let (register, operations, commit) = self.part(key, step)?;
        let shown = Message::Shown {
            number,
            register,
            operations,
            commit,
        };
        self.send(from, shown, step);
        Ok(())
    }

    fn part(&self, key: &Bytes, step: &Step<'_>) -> Result<Part, ViewError> {
        let stored = step.host.committed().get(key)?;
        let register = stored.map(Register::decode).transpose()?;
        let operations = self.eventual.overlay.on(key).cloned().collect();
        Ok((register, operations, self.log.applied()))
    }

    /// A member shows what it holds.
    pub(super) fn on_shown(
        &mut self,
        from: NodeId,
        number: u64,
        part: Part,
        step: &mut Step<'_>,
    ) -> Result<(), ViewError> {
        self.eventual.silent.remove(&from);
        if let Some(waiting) = self.eventual.reads.get_mut(&number) {
            waiting.parts.insert(from, part);
            return self.try_eventual_read(number, step);
        }
        let (_, operations, commit) = part;
        self.on_probed(from, number, operations, commit, step)
    }

    /// The answer of R members, and the repair of those that lacked something (ER-4).
    fn join_parts(&mut self, number: u64, step: &mut Step<'_>) -> Result<(), ViewError> {
        let Some(waiting) = self.eventual.reads.get(&number) else {
            return Ok(());
        };
        let Scope::Keys(keys) = &waiting.scope else {
            return Ok(());
        };
        let mut parts = waiting.parts.clone();
        parts.insert(self.me.node, self.part(&keys[0], step)?);
        // Of what is committed the newest follows from the others, and they may hold what has been
        // removed since without a mark.
        let newest = parts.values().max_by_key(|(_, _, at)| *at);
        let (committed, _, commit) = newest.cloned().expect("this member's part is there");
        let committed = committed.unwrap_or_default();
        let mut operations: BTreeMap<RequestId, Arc<Operation>> = BTreeMap::new();
        for (_, held, _) in parts.values() {
            // The attempt with the most elements: others were pruned by a state that is covered.
            for operation in held {
                let known = operations
                    .entry(operation.name)
                    .or_insert(operation.clone());
                if known.ops.len() < operation.ops.len() {
                    *known = operation.clone();
                }
            }
        }
        let mut register = committed.clone();
        for (_, held, _) in parts.values() {
            let held = held.iter();
            held.for_each(|operation| register.merge(&operation.ops, operation.stamp));
        }
        self.repair(&parts, &operations, step)?;
        let shown = QuorumRead {
            tentative: is_tentative(&committed, &register),
            register,
            committed,
            operations: operations.into_values().collect(),
            commit,
        };
        let reply = Reply::ShowRegister(shown);
        if self.may_name(number, &reply, step)? {
            self.answer_read(number, reply, step);
        }
        Ok(())
    }

    /// ER-4: operations are offered to those that lacked them; committed state travels by the log
    /// alone (I15).
    fn repair(
        &mut self,
        parts: &BTreeMap<NodeId, Part>,
        operations: &BTreeMap<RequestId, Arc<Operation>>,
        step: &mut Step<'_>,
    ) -> Result<(), ViewError> {
        for (node, (_, held, _)) in parts {
            let lacking = operations
                .values()
                .filter(|operation| !held.iter().any(|held| held.name == operation.name));
            let operations: Vec<Arc<Operation>> = lacking.cloned().collect();
            if operations.is_empty() {
                continue;
            }
            if *node == self.me.node {
                for operation in operations {
                    self.take_operation(operation, step)?;
                }
            } else {
                self.send(*node, Message::Offer { operations }, step);
            }
        }
        Ok(())
    }
}
