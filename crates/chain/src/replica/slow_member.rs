//! Which member is slow (SL-1; docs/internals/protocol/reconfiguration.md, section 4). The head
//! measures how long members take to confirm what it has persisted. It tells the coordinator for
//! which member the chain waits.
//!
//! A member's delay is a moving average; while it owes a confirmation, at least the age of that.
//! Its budget is a multiple of the median of all delays, so a chain whose disks are all slow has no
//! slow member. A member behind a slow member of a chain owes too: there the first one counts. One
//! without whom another would serve alone may take long once, but not again and again.
//!
//! Invariants:
//! - (SL-2) no member is judged by its own word alone. If more than half are late (of a chain all,
//!   and none answers), the head is. But it is not before those that are gone have left the
//!   configuration.
//!
//! Deliberately absent: what follows; that is the controller's.

use std::collections::BTreeMap;

use super::{Effect, Replica, Report, Step};
use crate::config::{Configuration, NodeId, Wiring};
use crate::message::{Message, Scope};
use crate::stamp::EntryId;

/// A moving average takes over an eighth of each new value.
const SHARE: u64 = 8;

/// What the head knows of confirmations, in this epoch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct SlowMemberDetector {
    /// The moving average of each member's delay, in eighths of milliseconds.
    delays: BTreeMap<NodeId, u64>,
    /// When this member became ready: no member owed it anything before.
    ready_at: u64,
    said_at: u64,
    /// When it was last said that the joining member is heard.
    heard_at: Option<u64>,
    /// Of a chain in which all owe: whether any member is there.
    asked: Option<LivenessProbe>,
}

/// A question to all, which asks for nothing but an answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct LivenessProbe {
    number: u64,
    asked_at: Option<u64>,
    /// When the first answer came.
    reached_at: Option<u64>,
}

impl SlowMemberDetector {
    pub(super) fn on_ready(&mut self, now: u64) {
        *self = SlowMemberDetector {
            ready_at: now,
            ..SlowMemberDetector::default()
        };
    }

    /// Whether no member takes longer than any may, in milliseconds.
    pub(super) fn is_calm(&self, slow_ms: u64) -> bool {
        let mut nodes = self.delays.keys();
        self.asked.is_none() && nodes.all(|node| self.delay(*node) <= slow_ms)
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

    /// The head looks whether the chain waits for a member.
    pub(super) fn tick_slowness(&mut self, step: &mut Step<'_>) {
        let now = step.now.monotonic;
        let adopted = self.configuration.clone();
        let adopted = adopted.expect("a ready member has one");
        if !self.is_head() || adopted.size() == 1 {
            return;
        }
        let budget = self.budget(&adopted);
        let slowest = match adopted.wiring {
            Wiring::Star => self.slowest_of_star(&adopted, budget, now),
            Wiring::Chain => self.slowest_of_chain(&adopted, budget, step),
        };
        let is_due = self.slowness.said_at + self.settings.retry_ms <= now;
        if let Some(node) = slowest.filter(|_| is_due) {
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
        let is_fresh = |at: u64| now < at + self.settings.retry_ms;
        if !self.slowness.heard_at.is_some_and(is_fresh) {
            self.slowness.heard_at = Some(now);
            let epoch = adopted.epoch;
            step.effects
                .push(Effect::Coordinator(Report::Heard { epoch, node }));
        }
    }

    /// Milliseconds that a member may take.
    fn budget(&self, adopted: &Configuration) -> u64 {
        let members = adopted.members.iter().map(|member| member.node);
        let mut delays: Vec<u64> = members.map(|node| self.slowness.delay(node)).collect();
        delays.sort_unstable();
        // Of two it is the head's, which owes nothing: no member is measured by itself.
        let median = delays[(delays.len() - 1) / 2];
        self.settings.slow_ms.max(self.settings.slow_times * median)
    }

    fn slowest_of_star(&self, adopted: &Configuration, budget: u64, now: u64) -> Option<NodeId> {
        let others = adopted.others(self.me.node);
        let late: Vec<NodeId> = others
            .filter(|node| budget < self.lateness(*node, now))
            .collect();
        let is_more_than_half = |count: usize| adopted.size() < 2 * count;
        if !is_more_than_half(late.len()) {
            let mut late = late.into_iter();
            return late.find(|node| self.is_given_up(adopted, *node, budget, now));
        }
        let long = self.settings.head_slow_ms;
        let is_long = |node: &&NodeId| long < self.lateness(**node, now);
        let long_late = late.iter().filter(is_long).count();
        is_more_than_half(long_late).then_some(self.me.node)
    }

    /// All owe where the first does. Whether it is slow, or the head hears no member, shows in any
    /// answer. To what was lost on the way until then it has half a budget.
    fn slowest_of_chain(
        &mut self,
        adopted: &Configuration,
        budget: u64,
        step: &mut Step<'_>,
    ) -> Option<NodeId> {
        let now = step.now.monotonic;
        let others: Vec<NodeId> = adopted.others(self.me.node).collect();
        let is_late = |node: &NodeId, time: u64| time < self.lateness(*node, now);
        let first = others.iter().find(|node| is_late(node, budget)).copied();
        let first = first.filter(|node| self.is_given_up(adopted, *node, budget, now));
        if others.len() == 1 || !others.iter().all(|node| is_late(node, budget / 2)) {
            self.slowness.asked = None;
            return first;
        }
        let long = self.settings.head_slow_ms;
        let is_long = others.iter().all(|node| is_late(node, long));
        match self.reached_at(&others, step) {
            Some(at) => first.filter(|_| at + budget / 2 <= now),
            None => is_long.then_some(self.me.node),
        }
    }

    /// Whether one that is late is waited for no longer. Without it one member may serve alone:
    /// what is acknowledged then is on one disk, and who joins begins anew. To spare that, it may
    /// owe once for as long as the session of a dead member lasts; not again and again.
    fn is_given_up(&self, adopted: &Configuration, node: NodeId, budget: u64, now: u64) -> bool {
        let is_needed =
            adopted.serving().count() <= 2 && adopted.serving().any(|serving| serving == node);
        let patience = budget.max(self.settings.head_slow_ms);
        !is_needed || budget < self.slowness.delay(node) || patience < self.age(node, now)
    }

    /// When the first of `others` answered, who are asked until one does.
    fn reached_at(&mut self, others: &[NodeId], step: &mut Step<'_>) -> Option<u64> {
        let now = step.now.monotonic;
        let retry = self.settings.retry_ms;
        let asked = self.slowness.asked.get_or_insert_with(|| LivenessProbe {
            number: self.eventual.next_number(),
            asked_at: None,
            reached_at: None,
        });
        let (number, reached_at) = (asked.number, asked.reached_at);
        let is_due = asked.asked_at.is_none_or(|at| at + retry <= now);
        if reached_at.is_none() && is_due {
            asked.asked_at = Some(now);
            for node in others {
                let scope = Scope::Keys(Vec::new());
                self.send(*node, Message::Gather { number, scope }, step);
            }
        }
        reached_at
    }

    /// An answer to a question about no register.
    pub(super) fn note_reached(&mut self, number: u64, now: u64) {
        if let Some(asked) = self.slowness.asked.as_mut()
            && asked.number == number
        {
            asked.reached_at.get_or_insert(now);
        }
    }

    /// Up to where `node` has confirmed, at least: what is committed all have, whether this member
    /// heard it or not.
    pub(super) fn has_confirmed(&self, node: NodeId) -> EntryId {
        self.writes.confirmed_by(node).max(self.commit)
    }

    /// How long `node` takes, and has been taking for what it owes now.
    pub(super) fn lateness(&self, node: NodeId, now: u64) -> u64 {
        self.age(node, now).max(self.slowness.delay(node))
    }

    /// Since when `node` owes a confirmation, in milliseconds.
    fn age(&self, node: NodeId, now: u64) -> u64 {
        let owed = self.log.above(self.has_confirmed(node)).next();
        let since = owed.and_then(|slot| slot.persisted_at);
        since.map_or(0, |at| now.saturating_sub(at.max(self.slowness.ready_at)))
    }
}
