//! Decommission: what a member holds is handed off to all others first
//! (docs/internals/protocol/reconfiguration.md, section 12).
//!
//! Invariants:
//! - HANDOFF-1 from the adoption of an epoch in which it leaves a member takes no operation from
//!   others and confirms none. So what it has to hand off does not grow.
//! - HANDOFF-2 when it says `HandoffDone`, every operation that it holds is held durably by every
//!   other member of the epoch. No client waits for it.

use std::sync::Arc;

use crate::config::{Configuration, Role};
use crate::guard::Guard;
use crate::operation::Operation;
use crate::replica::{Effect, Replica, Report, Step};

impl Replica {
    /// Whether it is to be decommissioned.
    pub(in crate::replica) fn is_leaving(&self) -> bool {
        self.role() == Some(Role::Leaving)
    }

    /// HANDOFF-1: in this epoch it is no holder of anything new.
    pub(super) fn takes_none(&self) -> bool {
        self.is_leaving() && self.guards.has(Guard::LeavingTakesNone)
    }

    /// LV-4: it may have been decommissioned in an epoch that it skips. Then this membership is
    /// given to an incarnation that had left.
    pub(in crate::replica) fn may_have_left(&self, next: &Configuration) -> bool {
        let has_said = self.eventual.handed_on_at.is_some();
        has_said && self.epoch() + 1 < next.epoch && self.guards.has(Guard::HandedOnEnds)
    }

    /// LV-2: offers to all what it holds, and says when they have it.
    pub(super) fn hand_off(&mut self, step: &mut Step<'_>) {
        let is_fresh = |at: u64| step.now.monotonic < at + self.settings.retry_ms;
        let is_said = self.eventual.handed_on_at.is_some_and(is_fresh);
        if !self.is_leaving() || !self.joining.is_caught_up() || is_said {
            return;
        }
        let eventual = &self.eventual;
        let held = eventual.overlay.all();
        let unoffered = held.filter(|held| !eventual.offerings.contains_key(&held.operation.name));
        let unoffered: Vec<Arc<Operation>> = unoffered.map(|held| held.operation.clone()).collect();
        for operation in unoffered {
            self.offer(operation, None);
        }
        if !self.has_handed_on() && self.guards.has(Guard::HandOnAll) {
            return;
        }
        self.eventual.handed_on_at = Some(step.now.monotonic);
        let epoch = self.epoch();
        step.effects
            .push(Effect::Coordinator(Report::HandoffDone { epoch }));
    }

    fn has_handed_on(&self) -> bool {
        let others = self.others();
        let eventual = &self.eventual;
        let is_held = |operation: &Operation| {
            let offering = eventual.offerings.get(&operation.name);
            offering.is_some_and(|it| others.iter().all(|node| it.held.contains(node)))
        };
        let is_waited_for = !eventual.requests.is_empty() || !eventual.quarantine.is_empty();
        let mut held = eventual.overlay.all();
        !is_waited_for && held.all(|held| is_held(&held.operation))
    }
}
