//! Offering operations to all members, and holding what others offer (EV-3).

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::overlay::committed_register;
use crate::config::NodeId;
use crate::dedup;
use crate::entry::RequestId;
use crate::guard::Guard;
use crate::message::Message;
use crate::operation::{Digest, Operation};
use crate::record::{Lsn, Record};
use crate::replica::{PossibleInputs, Replica, Step};
use crate::view::ViewError;

/// Operations in one message.
pub(super) const OPERATIONS_MAX: usize = 512;

/// An operation that this member offers until it is settled, and until the writes that wait for it
/// are acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Offering {
    operation: Arc<Operation>,
    /// Who holds it durably, as far as was said in this epoch.
    pub(super) held: BTreeSet<NodeId>,
    /// When it was offered last.
    said_at: Option<u64>,
    /// Writes that waited for it.
    pub(super) wanted: BTreeSet<u64>,
}

impl Offering {
    /// See [`PossibleInputs`]: who holds it counts for those who wait.
    pub(super) fn hash_future<H: Hasher>(
        &self,
        ahead: &PossibleInputs,
        counts: bool,
        state: &mut H,
    ) {
        self.operation.hash(state);
        if counts || ahead.time {
            self.held.hash(state);
        }
        if ahead.time {
            self.said_at.hash(state);
        }
    }

    pub(super) fn on_epoch(&mut self) {
        self.held.clear();
        self.said_at = None;
    }
}

impl Replica {
    /// Puts an operation into the overlay and on the disk.
    pub(super) fn hold(
        &mut self,
        operation: Arc<Operation>,
        step: &mut Step<'_>,
    ) -> Result<Lsn, ViewError> {
        let lsn = self.persist(Record::Operation(operation.clone()), step);
        self.enter(operation, lsn, step)?;
        Ok(lsn)
    }

    /// Puts an operation, whose record is `lsn`, into the overlay.
    pub(super) fn enter(
        &mut self,
        operation: Arc<Operation>,
        lsn: Lsn,
        step: &mut Step<'_>,
    ) -> Result<(), ViewError> {
        let (name, key) = (operation.name, operation.key.clone());
        let now = step.now.monotonic;
        self.eventual.overlay.insert(operation, lsn, now);
        if self.is_head() {
            self.eventual.queue.push_back(name);
        }
        if !self.guards.has(Guard::PruneCommitted) {
            let committed = committed_register(step.host.committed(), &key)?;
            self.eventual.overlay.prune_tentative(&key, &committed);
        }
        Ok(())
    }

    /// This member sees to it that all hold the operation; `number` is a write that waits.
    pub(super) fn offer(&mut self, operation: Arc<Operation>, number: Option<u64>) {
        let name = operation.name;
        let offering = self.eventual.offerings.entry(name);
        let offering = offering.or_insert_with(|| Offering {
            operation,
            held: BTreeSet::new(),
            said_at: None,
            wanted: BTreeSet::new(),
        });
        offering.wanted.extend(number);
        if offering.said_at.is_none() {
            self.eventual.fresh.push(name);
        }
    }

    /// A new epoch: everything that is still offered is offered anew.
    pub(super) fn offer_anew(&mut self) {
        self.end_offerings();
        let eventual = &mut self.eventual;
        eventual.fresh = eventual.offerings.keys().copied().collect();
        for name in eventual.offerings.keys() {
            if let Some(held) = eventual.overlay.get(name) {
                eventual.owed.insert((held.lsn, self.me.node, *name));
            }
        }
    }

    /// Sends what is offered for the first time, once its clock is bounded (I18). Who withholds
    /// does not know yet what of it is settled, be it that a retry asked for it (AL-2).
    pub(super) fn flush_offers(&mut self, step: &mut Step<'_>) {
        if self.is_withholding() {
            return;
        }
        let fresh = std::mem::take(&mut self.eventual.fresh);
        let mut operations = Vec::with_capacity(fresh.len());
        for name in fresh {
            let eventual = &mut self.eventual;
            let Some(offering) = eventual.offerings.get_mut(&name) else {
                continue;
            };
            let stamp = offering.operation.stamp;
            let is_bounded = stamp.node != self.me.node.0 || eventual.clock.covers(stamp.clock);
            if !is_bounded && self.guards.has(Guard::ClockBound) {
                eventual.fresh.push(name);
                continue;
            }
            offering.said_at = Some(step.now.monotonic);
            operations.push(offering.operation.clone());
        }
        for node in self.others() {
            for operations in operations.chunks(OPERATIONS_MAX) {
                let operations = operations.to_vec();
                self.send(node, Message::Offer { operations }, step);
            }
        }
    }

    /// Everyone else of the write path.
    pub(in crate::replica) fn others(&self) -> Vec<NodeId> {
        let adopted = self.adopted();
        adopted.map_or(Vec::new(), |adopted| adopted.others(self.me.node).collect())
    }

    /// Offers again what was not confirmed.
    pub(super) fn retry_offers(&mut self, step: &mut Step<'_>) {
        if self.is_withholding() {
            return;
        }
        let now = step.now.monotonic;
        let others = self.others();
        let mut due: BTreeMap<NodeId, Vec<Arc<Operation>>> = BTreeMap::new();
        self.end_offerings();
        for offering in self.eventual.offerings.values_mut() {
            let is_late = |at: u64| at + self.settings.retry_ms <= now;
            if !offering.said_at.is_some_and(is_late) {
                continue;
            }
            let lacking = others.iter().filter(|node| !offering.held.contains(node));
            for node in lacking {
                let operations = due.entry(*node).or_default();
                if operations.len() < OPERATIONS_MAX {
                    operations.push(offering.operation.clone());
                    offering.said_at = Some(now);
                }
            }
        }
        for (node, operations) in due {
            self.send(node, Message::Offer { operations }, step);
        }
    }

    /// Offers no longer what is settled and no client waits for.
    pub(super) fn end_offerings(&mut self) {
        let (overlay, requests) = (&self.eventual.overlay, &self.eventual.requests);
        self.eventual.offerings.retain(|name, offering| {
            let is_wanted = |number: &u64| requests.contains_key(number);
            overlay.holds(name) || offering.wanted.iter().any(is_wanted)
        });
    }

    /// EV-3: holds what is offered, and says so when it is durable.
    pub(super) fn on_offer(
        &mut self,
        from: NodeId,
        operations: Vec<Arc<Operation>>,
        step: &mut Step<'_>,
    ) -> Result<(), ViewError> {
        if self.takes_none() {
            return Ok(());
        }
        for operation in operations {
            let name = operation.name;
            // BP-2: beyond the bound what is new is left to the next offer, which delays `Held`.
            let is_full = self.settings.overlay_bytes_max <= self.eventual.overlay.bytes();
            if is_full && !self.eventual.overlay.holds(&name) {
                continue;
            }
            if let Some(lsn) = self.take_operation(operation, step)? {
                self.eventual.owed.insert((lsn, from, name));
            }
        }
        self.settle_owed(step)
    }

    /// Takes an operation from another member: found under its name, or held from now on. Gives
    /// the record whose durability makes it held, unless the name is another request's here.
    pub(super) fn take_operation(
        &mut self,
        operation: Arc<Operation>,
        step: &mut Step<'_>,
    ) -> Result<Option<Lsn>, ViewError> {
        if let Some(held) = self.eventual.overlay.get(&operation.name) {
            // What another request's is not held, be it under one name (XO-6).
            let is_same = !Digest::differ(held.operation.digest, operation.digest);
            return Ok(is_same.then_some(held.lsn));
        }
        // In an open gap the engine stands for no state; what it lacks comes when it is filled.
        let is_open = self.joining.is_open();
        let is_settled = !is_open
            && self.guards.has(Guard::EventualDedupe)
            && dedup::is_settled(&operation.name, step.host.committed())?;
        if is_settled {
            return Ok(Some(Lsn(0)));
        }
        if let Some(old) = self.eventual.quarantine.remove(&operation.name) {
            if old.stamp == operation.stamp {
                self.enter(operation, Lsn(0), step)?;
                return Ok(Some(Lsn(0)));
            }
            // Another attempt: the record of this one would not count beside the old one's.
            self.persist(Record::Forgotten(vec![old.name]), step);
        }
        let operation = match is_open {
            true => operation,
            false => self.pruned(operation, step)?,
        };
        self.hold(operation, step).map(Some)
    }

    /// PR-6: what committed state does not cover.
    pub(super) fn pruned(
        &self,
        operation: Arc<Operation>,
        step: &Step<'_>,
    ) -> Result<Arc<Operation>, ViewError> {
        let committed = committed_register(step.host.committed(), &operation.key)?;
        let ops = committed.survivors(&operation.ops, operation.stamp);
        if ops.len() == operation.ops.len() {
            return Ok(operation);
        }
        Ok(Arc::new(Operation {
            ops,
            ..Operation::clone(&operation)
        }))
    }

    /// Counts for this member what it holds durably now.
    pub(super) fn settle_owed(&mut self, step: &mut Step<'_>) -> Result<(), ViewError> {
        let durable = self.eventual.persisted;
        let me = self.me.node;
        let owed = self.eventual.owed.iter();
        let mine: Vec<_> = owed
            .take_while(|(lsn, _, _)| *lsn <= durable)
            .filter(|(_, node, _)| *node == me)
            .copied()
            .collect();
        let mut names = Vec::with_capacity(mine.len());
        for owed in mine {
            self.eventual.owed.remove(&owed);
            names.push(owed.2);
        }
        self.on_held(me, &names, step)
    }

    /// Tells the others what is durable.
    pub(super) fn flush_held(&mut self, step: &mut Step<'_>) {
        let durable = self.eventual.persisted;
        let mut due: BTreeMap<NodeId, Vec<RequestId>> = BTreeMap::new();
        while let Some((lsn, node, name)) = self.eventual.owed.first().copied()
            && lsn <= durable
        {
            self.eventual.owed.pop_first();
            due.entry(node).or_default().push(name);
        }
        for (node, names) in due {
            self.send(node, Message::Held { names }, step);
        }
    }

    /// A member holds these, in this epoch.
    pub(super) fn on_held(
        &mut self,
        from: NodeId,
        names: &[RequestId],
        step: &mut Step<'_>,
    ) -> Result<(), ViewError> {
        let mut wanted = BTreeSet::new();
        for name in names {
            if let Some(offering) = self.eventual.offerings.get_mut(name) {
                offering.held.insert(from);
                wanted.extend(&offering.wanted);
            }
        }
        wanted
            .into_iter()
            .try_for_each(|number| self.acknowledge(number, step))
    }
}
