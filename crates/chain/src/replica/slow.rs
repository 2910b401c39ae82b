//! Who is slow (SL-1; docs/protocol/reconfiguration.md, section 4): the head measures how long
//! members take to confirm what it has persisted, and tells the coordinator whom the chain waits
//! for.
//!
//! A member's delay is a moving average; while it owes a confirmation, at least the age of that.
//! Its budget is a multiple of the median of all delays, so a chain whose disks are all slow has no
//! slow member. Whoever is behind a slow member of a chain owes too: there the first one counts.
//!
//! Invariants:
//! - SL-2 no member is judged by its own word alone: if more than half are late, the head is; but
//!   not before those that are gone have left the configuration.
//!
//! Deliberately absent: what follows; that is the controller's.

use std::collections::BTreeMap;

use super::{Effect, Replica, Report, Step};
use crate::config::{Configuration, NodeId, Wiring};
use crate::stamp::EntryId;

/// A moving average takes over an eighth of each new value.
const SHARE: u64 = 8;

/// What the head knows of confirmations, in this epoch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Slowness {
    /// The moving average of each member's delay, in eighths of milliseconds.
    delays: BTreeMap<NodeId, u64>,
    /// When this member became ready: nobody owed it anything before.
    ready_at: u64,
    said_at: u64,
    /// When it was last said that the joining member is heard.
    heard_at: Option<u64>,
}

impl Slowness {
    pub(super) fn on_ready(&mut self, now: u64) {
        *self = Slowness {
            ready_at: now,
            ..Slowness::default()
        };
    }

    fn delay(&self, node: NodeId) -> u64 {
        self.delays.get(&node).copied().unwrap_or_default() / SHARE
    }
}

impl Replica {
    /// A member has confirmed everything up to `id`.
    pub(super) fn note_delay(&mut self, from: NodeId, id: EntryId, now: u64) {
        let Some(at) = self.log.get(id).and_then(|slot| slot.persisted_at) else {
            return;
        };
        let took = now.saturating_sub(at.max(self.slowness.ready_at));
        let delay = self.slowness.delays.entry(from).or_default();
        *delay = *delay - *delay / SHARE + took;
    }

    /// The head looks whether the chain waits for somebody.
    pub(super) fn tick_slowness(&mut self, step: &mut Step<'_>) {
        let now = step.now.monotonic;
        let is_due = self.slowness.said_at + self.tuning.retry_ms <= now;
        let adopted = self.configuration.as_ref().expect("a ready member has one");
        if !is_due || !self.is_head() || adopted.size() == 1 {
            return;
        }
        if let Some(node) = self.slowest(adopted, now) {
            self.slowness.said_at = now;
            let epoch = adopted.epoch;
            step.effects
                .push(Effect::Coordinator(Report::Slow { epoch, node }));
        }
    }

    /// JN-6: the commit point says, until the epoch ends, that it hears the joining member.
    pub(super) fn tick_heard(&mut self, step: &mut Step<'_>) {
        let now = step.now.monotonic;
        let adopted = self.configuration.as_ref().expect("a ready member has one");
        let joining = adopted.syncing().filter(|_| self.is_commit_point());
        let Some(node) = joining.filter(|node| self.writes.confirmed.contains_key(node)) else {
            return;
        };
        let is_fresh = |at: u64| now < at + self.tuning.retry_ms;
        if !self.slowness.heard_at.is_some_and(is_fresh) {
            self.slowness.heard_at = Some(now);
            let epoch = adopted.epoch;
            step.effects
                .push(Effect::Coordinator(Report::Heard { epoch, node }));
        }
    }

    fn slowest(&self, adopted: &Configuration, now: u64) -> Option<NodeId> {
        let members = adopted.seats.iter().map(|seat| seat.node);
        let mut delays: Vec<u64> = members.map(|node| self.slowness.delay(node)).collect();
        delays.sort_unstable();
        let median = delays[delays.len() / 2];
        let budget = self.tuning.slow_ms.max(self.tuning.slow_times * median);
        let mut others = adopted.others(self.me.node);
        let is_late = |node: &NodeId| budget < self.lateness(*node, now);
        if adopted.wiring == Wiring::Chain {
            return others.find(is_late);
        }
        let late: Vec<NodeId> = others.filter(is_late).collect();
        let is_more_than_half = |count: usize| adopted.size() < 2 * count;
        if !is_more_than_half(late.len()) {
            return late.first().copied();
        }
        let long = self.tuning.head_slow_ms;
        let is_long = |node: &&NodeId| long < self.lateness(**node, now);
        let long_late = late.iter().filter(is_long).count();
        is_more_than_half(long_late).then_some(self.me.node)
    }

    /// Up to where `node` has confirmed, at least: what is committed all have, whether this member
    /// heard it or not.
    pub(super) fn has_confirmed(&self, node: NodeId) -> EntryId {
        self.writes.confirmed_by(node).max(self.commit)
    }

    /// How long `node` takes, and has been taking for what it owes now.
    pub(super) fn lateness(&self, node: NodeId, now: u64) -> u64 {
        let owed = self.log.above(self.has_confirmed(node)).next();
        let since = owed.and_then(|slot| slot.persisted_at);
        let age = since.map_or(0, |at| now.saturating_sub(at.max(self.slowness.ready_at)));
        age.max(self.slowness.delay(node))
    }
}
