//! Quorums across epochs: exchanging overlays when members may have gone (EX-1, EX-3).
//! Acknowledging with every quorum that may still be claimed when members may have come (EX-2).

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::config::{ChainMember, Configuration, NodeId};
use crate::guard::Guard;
use crate::message::Message;
use crate::operation::Operation;
use crate::replica::{PossibleInputs, Replica, Step};
use crate::stamp::EntryId;
use crate::view::ViewError;

/// Epochs without a whole exchange that are remembered. After more, all overlays are waited for.
const SINCE_MAX: usize = 16;

/// What is known of the others' adoption of this epoch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Exchange {
    /// Whose overlay was merged in this epoch, and the commit id it came with.
    merged: BTreeMap<NodeId, EntryId>,
    /// AD-8: whether they were merged in an epoch before, and no membership has changed since.
    is_carried: bool,
    /// Those since the last epoch in which all overlays were merged, that one first.
    since: PastConfigurations,
    /// When the others were last asked for theirs.
    said_at: Option<u64>,
    /// Who is known to have adopted this epoch.
    adopted: BTreeSet<NodeId>,
    /// Those in which a member may still be.
    earlier: PastConfigurations,
    /// From which epoch on every configuration, as far as this member knows, had the same head.
    headed_since: Option<u64>,
}

/// Configurations of earlier epochs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct PastConfigurations {
    /// None, if some would be missing.
    all: Vec<Configuration>,
    /// Whether those are all.
    is_complete: bool,
}

impl PastConfigurations {
    /// The epoch of `previous` is over. `begins` says that those before it are of no interest.
    fn add(&mut self, previous: &Configuration, next: &Configuration, begins: bool) {
        if begins {
            self.all.clear();
            self.is_complete = true;
        }
        self.is_complete &= next.epoch == previous.epoch + 1;
        match self.is_complete {
            true => self.all.push(previous.clone()),
            false => self.all.clear(),
        }
    }

    /// Whether those are all, and each is so.
    fn are_all(&self, is_so: impl Fn(&Configuration) -> bool) -> bool {
        self.is_complete && self.all.iter().all(is_so)
    }
}

impl Exchange {
    /// `had_all` says whether all overlays were merged in the previous epoch.
    pub(super) fn on_epoch(
        &mut self,
        previous: Option<&Configuration>,
        next: &Configuration,
        had_all: bool,
    ) {
        let goes_on = |it: &&Configuration| it.epoch + 1 == next.epoch && it.is_headed_as(next);
        self.headed_since = match previous.filter(goes_on) {
            Some(previous) => self.headed_since.or(Some(previous.epoch)),
            None => Some(next.epoch),
        };
        self.merged.clear();
        self.said_at = None;
        let adopted = std::mem::take(&mut self.adopted);
        match previous {
            // No member can be in an epoch before the first.
            None => self.earlier.is_complete = next.epoch == 1,
            Some(previous) => {
                let others = previous.members.len() - 1;
                self.earlier.add(previous, next, others <= adopted.len());
                self.since.add(previous, next, had_all);
                if SINCE_MAX < self.since.all.len() {
                    self.since = PastConfigurations::default();
                }
            }
        }
    }

    pub(super) fn carry(&mut self, is_carried: bool) {
        self.is_carried = is_carried;
    }

    /// Whether the overlays of `others` were merged in this epoch: none is asked for.
    pub(super) fn has_merged(&self, others: &[NodeId]) -> bool {
        others.iter().all(|other| self.merged.contains_key(other))
    }

    pub(super) fn on_heard(&mut self, from: NodeId) {
        self.adopted.insert(from);
    }

    /// See [`PossibleInputs`]: once all are known to have adopted the epoch, earlier ones are over.
    pub(super) fn hash_future<H: Hasher>(
        &self,
        ahead: &PossibleInputs,
        size: usize,
        state: &mut H,
    ) {
        if ahead.claims || ahead.time {
            (&self.merged, self.is_carried, &self.since).hash(state);
        }
        if ahead.time {
            self.said_at.hash(state);
        }
        let is_over = size <= self.adopted.len() + 1;
        if ahead.writes {
            (is_over, self.headed_since).hash(state);
        }
        if ahead.writes && !is_over {
            (&self.adopted, &self.earlier).hash(state);
        }
    }

    /// Whether every member is known to have adopted this epoch.
    pub(super) fn is_adopted_by_all(&self, adopted: &Configuration, me: NodeId) -> bool {
        let mut others = adopted.others(me);
        others.all(|other| self.adopted.contains(&other))
    }

    /// EX-3: whether the merged overlays and that of `me` meet every W of earlier epochs that a
    /// claim of R = `r` in `adopted` is about. A member counts in the incarnation that it had then.
    fn meets_earlier(&self, adopted: &Configuration, me: NodeId, r: usize) -> bool {
        let is_here = |member: &ChainMember| {
            let has_told = member.node == me || self.merged.contains_key(&member.node);
            let is_same = |now: &ChainMember| now.identity() == member.identity();
            has_told && adopted.member(member.node).is_some_and(is_same)
        };
        let meets = |earlier: &Configuration| {
            let here = earlier.members.iter().filter(|it| is_here(it)).count();
            // Of W > N - R members any one is among so many.
            let needed = (earlier.size() + r).saturating_sub(adopted.size());
            needed.max(1) <= here
        };
        self.since.are_all(meets)
    }

    /// Whether the chain is known to have had one head from `epoch` on.
    pub(super) fn is_headed_since(&self, epoch: u64) -> bool {
        self.headed_since.is_some_and(|since| since <= epoch)
    }

    /// Whether `held`, of which there are `w` at least, meet min(w, N) members of every
    /// configuration that a member of `adopted` may still be in.
    pub(super) fn is_joint(
        &self,
        adopted: &Configuration,
        me: NodeId,
        held: &BTreeSet<NodeId>,
        w: usize,
    ) -> bool {
        let meets = |earlier: &Configuration| {
            let members = earlier.members.iter();
            let holders = members.filter(|member| held.contains(&member.node)).count();
            w.min(earlier.size()) <= holders
        };
        self.is_adopted_by_all(adopted, me) || self.earlier.are_all(meets)
    }
}

impl Replica {
    /// EX-1: whether this member may claim any quorum. It has what any member of this epoch held
    /// when it became ready, as an operation or as committed state.
    pub(in crate::replica) fn has_exchanged(&self) -> bool {
        let exchange = &self.eventual.exchange;
        if exchange.is_carried {
            return !self.is_withholding();
        }
        self.has_applied_merged(exchange.has_merged(&self.others()))
    }

    /// EX-3: whether this member may claim a quorum of `r` for a read. It has what met every W with
    /// R + W > N in an earlier epoch, though a member be silent.
    pub(super) fn has_exchanged_for(&self, r: usize) -> bool {
        if self.has_exchanged() {
            return true;
        }
        let adopted = self.adopted().filter(|_| self.is_ready());
        let meets = adopted.is_some_and(|adopted| {
            let exchange = &self.eventual.exchange;
            exchange.meets_earlier(adopted, self.me.node, r)
                || !self.guards.has(Guard::ExchangeMeets)
        });
        self.has_applied_merged(meets)
    }

    /// Whether the overlays `suffice`, and the greatest commit that came with one is applied here.
    fn has_applied_merged(&self, suffice: bool) -> bool {
        let merged = self.eventual.exchange.merged.values();
        let commit = merged.max().copied().unwrap_or_default();
        let is_whole = suffice || !self.guards.has(Guard::Exchange);
        let is_applied = commit <= self.log.applied() || !self.guards.has(Guard::ExchangeCommit);
        is_whole && is_applied && !self.is_withholding()
    }

    /// Says to all what the overlay holds, and asks for theirs until it has them.
    pub(super) fn flush_exchange(&mut self, step: &mut Step<'_>) {
        let now = step.now.monotonic;
        let exchange = &mut self.eventual.exchange;
        let is_fresh = |at: u64| now < at + self.settings.retry_ms;
        if exchange.said_at.is_some_and(is_fresh) {
            return;
        }
        let is_first = exchange.said_at.replace(now).is_none();
        if is_first && self.is_head() {
            // No other member is ready yet, and one that becomes ready asks.
            return;
        }
        let mut lacking = self.others();
        lacking.retain(|node| !self.eventual.exchange.merged.contains_key(node));
        for node in lacking {
            self.send_overlay_to(node, true, step);
        }
    }

    fn send_overlay_to(&self, node: NodeId, asks: bool, step: &mut Step<'_>) {
        if self.is_withholding() {
            return;
        }
        let held = self.eventual.overlay.all();
        let bounded = held.filter(|held| {
            let stamp = held.operation.stamp;
            stamp.node != self.me.node.0
                || self.eventual.clock.covers(stamp.clock)
                || !self.guards.has(Guard::ClockBound)
        });
        let overlay = Message::Overlay {
            asks,
            commit: self.commit,
            clock: step.now.wall,
            operations: bounded.map(|held| held.operation.clone()).collect(),
        };
        self.send(node, overlay, step);
    }

    /// Another member's overlay. Its commit id is waited for and not taken over: this member would
    /// know of a commit before the commit point does.
    pub(super) fn on_overlay(
        &mut self,
        from: NodeId,
        asks: bool,
        commit: EntryId,
        operations: Vec<Arc<Operation>>,
        step: &mut Step<'_>,
    ) -> Result<(), ViewError> {
        let taken = operations.into_iter().filter(|_| !self.takes_none());
        for operation in taken.collect::<Vec<_>>() {
            self.take_operation(operation, step)?;
        }
        let merged = self.eventual.exchange.merged.entry(from);
        merged.or_insert(commit);
        if asks {
            self.send_overlay_to(from, false, step);
        }
        self.retry_eventual_reads(step)
    }
}
