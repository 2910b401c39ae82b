//! Promotion: the head settles each operation by one entry, and a member that applies it lets go of
//! the operation (PR-1 to PR-7).

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;

use super::offer::OPERATIONS_MAX;
use super::overlay::committed_register;
use crate::change::{Change, ElementOp, TombstonePolicy};
use crate::dedup;
use crate::guard::Guard;
use crate::host::Settled;
use crate::message::Message;
use crate::operation::{Operation, Outcome, Settlement};
use crate::register::Register;
use crate::replica::{Replica, Step};
use crate::stamp::EntryId;
use crate::view::ViewError;

impl Replica {
    /// PR-1, as the head: settles what has rested long enough, as far as there is room (BP-1).
    pub(in crate::replica) fn promote(&mut self, step: &mut Step<'_>) -> Result<(), ViewError> {
        if !self.is_head() || self.is_withholding() {
            return Ok(());
        }
        let now = step.now.monotonic;
        let mut room = None;
        while let Some(name) = self.eventual.queue.front() {
            let Some(held) = self.eventual.overlay.get(name) else {
                self.eventual.queue.pop_front();
                continue;
            };
            if now < held.since + self.settings.promote_after_ms {
                break;
            }
            let room = room.get_or_insert_with(|| self.room_for_settlements());
            let Some(left) = room.checked_sub(1) else {
                break;
            };
            *room = left;
            let operation = held.operation.clone();
            self.eventual.queue.pop_front();
            self.settle(&operation, step)?;
        }
        Ok(())
    }

    /// BP-1: at most half of the window, so that strong writers do not starve, and at least an
    /// eighth, so that overlays drain.
    fn room_for_settlements(&self) -> usize {
        let window = self.settings.uncommitted_max;
        let uncommitted = self.log.above(self.commit).count();
        let entries = self.log.above(self.commit);
        let settlements = entries.filter(|slot| slot.entry.is_settlement()).count();
        let half = (window / 2).saturating_sub(settlements);
        let assured = (window / 8).saturating_sub(settlements);
        half.min(window.saturating_sub(uncommitted)).max(assured)
    }

    /// A new epoch: the head looks at all that it holds, oldest stamp first.
    pub(super) fn requeue(&mut self) {
        self.eventual.queue.clear();
        if self.is_head() {
            let held = self.eventual.overlay.all();
            let mut order: Vec<_> = held
                .map(|held| (held.operation.stamp, held.operation.name))
                .collect();
            order.sort_unstable();
            self.eventual
                .queue
                .extend(order.into_iter().map(|(_, name)| name));
        }
    }

    /// PR-1: tells the head what it has not settled for a while.
    pub(super) fn retry_promotions(&mut self, step: &mut Step<'_>) {
        let now = step.now.monotonic;
        let retry = self.settings.retry_ms;
        let head = self.adopted().map(|adopted| adopted.head());
        let Some(head) = head.filter(|head| *head != self.me.node) else {
            return;
        };
        if now < self.eventual.promoted_at + retry || self.is_withholding() {
            return;
        }
        let patience = self.settings.promote_after_ms + retry;
        let overdue = self.eventual.overlay.all().filter(|held| {
            held.since + patience <= now && self.log.named(&held.operation.name).is_none()
        });
        let mut overdue: Vec<Arc<Operation>> = overdue.map(|held| held.operation.clone()).collect();
        if overdue.is_empty() {
            return;
        }
        overdue.sort_unstable_by_key(|operation| (operation.stamp, operation.name));
        overdue.truncate(OPERATIONS_MAX);
        self.eventual.promoted_at = now;
        let operations = overdue;
        self.send(head, Message::Promote { operations }, step);
    }

    /// A holder tells the head.
    pub(super) fn on_promote(
        &mut self,
        operations: &[Arc<Operation>],
        step: &mut Step<'_>,
    ) -> Result<(), ViewError> {
        if !self.is_head() {
            return Ok(());
        }
        let room = self.room_for_settlements();
        operations
            .iter()
            .take(room)
            .try_for_each(|operation| self.settle(operation, step))
    }

    /// PR-2, PR-3: one entry for the operation, unless its name has one.
    pub(super) fn settle(
        &mut self,
        operation: &Operation,
        step: &mut Step<'_>,
    ) -> Result<(), ViewError> {
        let base = operation.stamp.base;
        let last = EntryId::new(self.epoch(), self.log.last().index);
        if last < base && self.guards.has(Guard::BaseNumbered) {
            self.eventual.counts.unnumbered += 1;
            return Ok(());
        }
        let committed = step.host.committed();
        let is_named = self.log.named(&operation.name).is_some()
            || dedup::is_settled(&operation.name, committed)?;
        if is_named && self.guards.has(Guard::EventualDedupe) {
            return Ok(());
        }
        let newest = self.log.newest(committed);
        let register = committed_register(&newest, &operation.key)?;
        let survivors = self.survivors(&register, operation);
        let (outcome, changes) = match survivors.is_empty() {
            _ if self.is_gone(operation, &newest)? => (Outcome::Gone, Vec::new()),
            true => (Outcome::Superseded, Vec::new()),
            false => {
                debug_assert!(
                    survivors.len() == register.survivors(&survivors, operation.stamp).len(),
                    "I14: an element of {:?} is below its counterpart",
                    operation.name
                );
                let reduced = Operation {
                    ops: survivors,
                    ..operation.clone()
                };
                match step.host.settle(&reduced, &newest)? {
                    Settled::Apply(changes) => (Outcome::Applied, changes),
                    Settled::Refused(reason) => self.refuse_settlement(reduced, reason),
                }
            }
        };
        let stamp = |_| operation.stamp;
        let name = Some(operation.name);
        let digest = operation.digest;
        let result = Settlement { digest, outcome }.encode();
        self.append(stamp, name, result, changes, step)?;
        Ok(())
    }

    /// The elements that the log does not dominate (semantics.md, section 6).
    fn survivors(&self, register: &Register, operation: &Operation) -> Vec<ElementOp> {
        let mut ops = match self.guards.has(Guard::PromoteIfLarger) {
            true => register.survivors(&operation.ops, operation.stamp),
            false => operation.ops.clone(),
        };
        if !self.guards.has(Guard::InvisibleKept) {
            ops.retain(|op| {
                let mut after = register.clone();
                after.merge(std::slice::from_ref(op), operation.stamp);
                !after.pairs().eq(register.pairs())
            });
        }
        ops
    }

    /// D4: a limit refuses all of an operation.
    fn refuse_settlement(&self, operation: Operation, reason: Bytes) -> (Outcome, Vec<Change>) {
        if self.guards.has(Guard::LimitWhole) {
            return (Outcome::Refused(reason), Vec::new());
        }
        let mut ops = operation.ops;
        ops.retain(|op| !matches!(op, ElementOp::Add { .. }));
        let rest = Change::Merge {
            key: operation.key,
            ops,
            marks: TombstonePolicy::Kept,
        };
        (Outcome::Applied, vec![rest])
    }

    /// PR-5, PR-6: entries above `before` up to `id` are in the engine. What leaves here leaves
    /// the disk with them: recovery asks the engine for results (I22). Gives the writes that waited
    /// for what left.
    pub(super) fn leave_overlay(
        &mut self,
        before: EntryId,
        id: EntryId,
        step: &mut Step<'_>,
    ) -> Result<BTreeSet<u64>, ViewError> {
        let is_head = self.is_head();
        let mut touched = BTreeSet::new();
        let mut wanted = BTreeSet::new();
        let applied = self
            .log
            .above(before)
            .take_while(|slot| slot.entry.id <= id);
        for slot in applied {
            let entry = &slot.entry;
            let eventual = &mut self.eventual;
            if is_head && entry.is_settlement() {
                match Settlement::decode(entry.result.clone())?.outcome {
                    Outcome::Applied => {}
                    Outcome::Superseded => eventual.counts.superseded += 1,
                    Outcome::Refused(_) | Outcome::Gone => eventual.counts.refused += 1,
                }
            }
            if let Some(name) = entry.request {
                if let Some(held) = eventual.overlay.remove(&name) {
                    eventual.counts.settled += 1;
                    eventual.counts.settled_ms += step.now.monotonic.saturating_sub(held.since);
                }
                let offering = eventual.offerings.get(&name);
                wanted.extend(
                    offering
                        .into_iter()
                        .flat_map(|it| it.wanted.iter().copied()),
                );
            }
            let keys = entry.changes.iter().map(Change::key);
            touched.extend(keys.filter(|key| eventual.overlay.on(key).next().is_some()));
        }
        for key in touched {
            let committed = committed_register(step.host.committed(), key)?;
            self.eventual.overlay.prune(key, &committed);
            if !self.guards.has(Guard::SettleByName) {
                self.eventual.overlay.drop_below(key, committed.newest());
            }
        }
        Ok(wanted)
    }

    /// Mutant: operations leave as soon as their settlement is in the log.
    pub(in crate::replica) fn leave_early(&mut self) {
        if self.guards.has(Guard::KeepUntilCommitted) {
            return;
        }
        let held = self.eventual.overlay.all();
        let names: Vec<_> = held.map(|held| held.operation.name).collect();
        for name in names {
            if self.log.named(&name).is_some() {
                self.eventual.overlay.remove(&name);
            }
        }
    }
}
