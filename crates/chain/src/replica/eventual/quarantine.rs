//! What a member held before this incarnation: shown to no reader until it is judged (JN-7, D8).

use std::sync::Arc;

use super::clock::Clock;
use super::overlay::committed_register;
use crate::config::Role;
use crate::dedup::{self, DedupState};
use crate::entry::RequestId;
use crate::guard::Guard;
use crate::keys;
use crate::operation::Operation;
use crate::record::{Lsn, Record, RecoveredState};
use crate::replica::{Replica, Step, tombstone_gc};
use crate::stamp::EntryId;
use crate::view::{View, ViewError};

impl Replica {
    /// What the disk holds. What was settled has a result in the engine: it left with the
    /// settlement, in the engine's own atomic write (I22).
    pub(in crate::replica) fn recover_eventual(
        &mut self,
        durable: RecoveredState,
        step: &mut Step<'_>,
    ) -> Result<(), ViewError> {
        let bound = match self.guards.has(Guard::ClockBound) {
            true => durable.clock_bound,
            false => 0,
        };
        self.eventual.clock = Clock::after(bound);
        let mut settled = Vec::new();
        for (name, operation) in durable.operations {
            if dedup::is_settled(&name, step.host.committed())? {
                settled.push(name);
                continue;
            }
            match self.guards.has(Guard::Quarantine) {
                true => drop(self.eventual.quarantine.insert(name, operation)),
                false => self.enter(operation, Lsn(0), step)?,
            }
        }
        self.forget_settled(settled, step);
        Ok(())
    }

    /// A gap is closed: the engine is durable, and says what was settled meanwhile.
    pub(in crate::replica) fn forget_filled(
        &mut self,
        step: &mut Step<'_>,
    ) -> Result<(), ViewError> {
        let overlay = self.eventual.overlay.all();
        let held = overlay.map(|held| held.operation.name);
        let names: Vec<RequestId> = held
            .chain(self.eventual.quarantine.keys().copied())
            .collect();
        let committed = step.host.committed();
        let mut settled = Vec::new();
        for name in names {
            if dedup::is_settled(&name, committed)? {
                settled.push(name);
            }
        }
        self.forget_settled(settled, step);
        Ok(())
    }

    /// What was settled by an entry that came with a state transfer is in no record of this disk.
    /// It is forgotten while its result is known, which is not for ever (D17), and when the engine
    /// knows it durably.
    fn forget_settled(&mut self, names: Vec<RequestId>, step: &mut Step<'_>) {
        if !names.is_empty() {
            self.persist(Record::Forgotten(names), step);
        }
    }

    /// JN-7: the gap is closed and the state has reached the donor's. What came meanwhile is
    /// compared with the state; what was held before is judged, and the rest of it handed off.
    pub(in crate::replica) fn on_caught_up_eventual(
        &mut self,
        step: &mut Step<'_>,
    ) -> Result<(), ViewError> {
        self.sweep_overlay(step)?;
        let safe_point = self
            .configuration
            .as_ref()
            .map(|adopted| adopted.safe_point);
        let safe_point = safe_point.unwrap_or_default();
        let committed = step.host.committed();
        let mut forgotten = Vec::new();
        for (name, operation) in &self.eventual.quarantine {
            let is_kept = self.guards.has(Guard::JoinKeepsOverlay);
            if !is_kept || self.is_forgotten(operation, safe_point, committed)? {
                forgotten.push(*name);
            }
        }
        let mut counts = self.eventual.counts.forgotten;
        for name in &forgotten {
            if let Some(operation) = self.eventual.quarantine.remove(name) {
                let committed = step.host.committed();
                counts = counts + tombstone_gc::status(&operation, committed)?;
            }
        }
        self.eventual.counts.forgotten = counts;
        if !forgotten.is_empty() {
            self.persist(Record::Forgotten(forgotten), step);
        }
        self.release_quarantine(step)
    }

    /// Whether the operation of a returning member may have been settled as another attempt (D17),
    /// or turned away by a mark that is collected (GC-5).
    fn is_forgotten(
        &self,
        operation: &Operation,
        safe_point: EntryId,
        committed: &dyn View,
    ) -> Result<bool, ViewError> {
        let name = &operation.name;
        if operation.accept < safe_point && self.guards.has(Guard::RejoinFilter) {
            let is_known = committed.get(&keys::client_key(name.client))?.is_some();
            let is_old = dedup::known(name, committed)? == Some(DedupState::TooOld);
            if !is_known || is_old {
                return Ok(true);
            }
        }
        let register = committed_register(committed, &operation.key)?;
        Ok(tombstone_gc::is_forgotten(
            operation,
            &register,
            safe_point,
            &self.guards,
        ))
    }

    /// Whether this member serves and does not speak of what it holds (AL-2).
    pub(super) fn is_withholding(&self) -> bool {
        self.role() == Some(Role::Serving) && self.eventual.withholds
    }

    /// AL-2: who serves again after a restart holds what it held, and speaks of it when its engine
    /// is back at the safe point. Below, results and marks that speak of it come and go (GC-1,
    /// D17).
    pub(super) fn release_own(&mut self, step: &mut Step<'_>) -> Result<(), ViewError> {
        if self.role() == Some(Role::Serving) {
            self.eventual.withholds = !self.is_back();
            self.release_quarantine(step)?;
        }
        Ok(())
    }

    /// Whether the engine is at the safe point, or has all there is: a lossy restart (AL-4) may
    /// have lost what the safe point names.
    fn is_back(&self) -> bool {
        let safe_point = self
            .configuration
            .as_ref()
            .map(|adopted| adopted.safe_point);
        safe_point.is_none_or(|safe_point| safe_point.min(self.inherited) <= self.log.applied())
    }

    /// Looks whether the engine is back at the safe point; what is held then is offered.
    pub(super) fn end_withholding(&mut self, step: &mut Step<'_>) -> Result<(), ViewError> {
        if !self.is_withholding() || !self.is_back() {
            return Ok(());
        }
        self.eventual.withholds = false;
        self.end_offerings();
        let held = self.eventual.overlay.all();
        let held: Vec<Arc<Operation>> = held.map(|held| held.operation.clone()).collect();
        held.into_iter()
            .for_each(|operation| self.offer(operation, None));
        self.begin_barriers_anew(step)
    }

    /// What is left of the quarantine becomes the overlay, is offered and promoted.
    pub(super) fn release_quarantine(&mut self, step: &mut Step<'_>) -> Result<(), ViewError> {
        for (name, operation) in std::mem::take(&mut self.eventual.quarantine) {
            if dedup::is_settled(&name, step.host.committed())? {
                continue;
            }
            let operation: Arc<Operation> = self.pruned(operation, step)?;
            self.enter(operation.clone(), Lsn(0), step)?;
            if !self.is_withholding() {
                self.offer(operation, None);
            }
        }
        Ok(())
    }

    /// PR-5, PR-6 for what was taken while the engine stood for no state.
    fn sweep_overlay(&mut self, step: &mut Step<'_>) -> Result<(), ViewError> {
        let held = self.eventual.overlay.all();
        let held: Vec<Arc<Operation>> = held.map(|held| held.operation.clone()).collect();
        let committed = step.host.committed();
        for operation in held {
            let (name, key) = (&operation.name, &operation.key);
            if dedup::is_settled(name, committed)? {
                self.eventual.overlay.remove(name);
            } else {
                let register = committed_register(committed, key)?;
                self.eventual.overlay.prune(key, &register);
            }
        }
        Ok(())
    }
}
