//! What people are told of a member's work (/metrics, `fader cluster status`). Nothing here decides
//! anything.

use std::ops::Add;

use super::{EventualCounts, Forgotten, Now, Phase, Replica};
use crate::config::NodeId;
use crate::wait_reason::{TransferProgress, WaitReason};

/// What has happened at this member beside eventual operations, in this incarnation. Reads that
/// [`Replica::answers_now`] answers at once are their caller's to count: they are clean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ReplicaCounters {
    /// Strong and bounded reads that could not be answered when they came: something uncommitted
    /// was there.
    pub dirty_reads: u64,
    /// Version queries asked of the commit point (RD-3), those that were repeated included.
    pub queries_asked: u64,
    /// Version queries of others that this member answered, as the commit point (RD-4).
    pub queries_answered: u64,
    /// How often this member, as the commit point, said that a member's state differs (DG-1).
    pub differences: u64,
    /// Messages of other incarnations, and of epochs before the last one, that were dropped (I1).
    pub foreign: u64,
    /// Bytes that this member has compared and taken since it is filled, or was the last time.
    pub fill_bytes: u64,
}

impl Add for ReplicaCounters {
    type Output = ReplicaCounters;

    fn add(self, other: ReplicaCounters) -> ReplicaCounters {
        ReplicaCounters {
            dirty_reads: self.dirty_reads + other.dirty_reads,
            queries_asked: self.queries_asked + other.queries_asked,
            queries_answered: self.queries_answered + other.queries_answered,
            differences: self.differences + other.differences,
            foreign: self.foreign + other.foreign,
            fill_bytes: self.fill_bytes + other.fill_bytes,
        }
    }
}

impl Add for EventualCounts {
    type Output = EventualCounts;

    fn add(self, other: EventualCounts) -> EventualCounts {
        EventualCounts {
            held: self.held + other.held,
            held_bytes: self.held_bytes + other.held_bytes,
            quarantined: self.quarantined + other.quarantined,
            settled: self.settled + other.settled,
            settled_ms: self.settled_ms + other.settled_ms,
            superseded: self.superseded + other.superseded,
            refused: self.refused + other.refused,
            forgotten: self.forgotten + other.forgotten,
            unnumbered: self.unnumbered + other.unnumbered,
        }
    }
}

impl Add for Forgotten {
    type Output = Forgotten;

    fn add(self, other: Forgotten) -> Forgotten {
        Forgotten {
            settled: self.settled + other.settled,
            covered: self.covered + other.covered,
            unknown: self.unknown + other.unknown,
        }
    }
}

/// How far a member is behind the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicationLag {
    /// The member.
    pub node: NodeId,
    /// Entries that it has not confirmed.
    pub entries: u64,
    /// Milliseconds that it takes to confirm, on the average; while it owes a confirmation, at
    /// least the age of that.
    pub millis: u64,
}

impl Replica {
    /// What has happened here beside eventual operations.
    pub fn counters(&self) -> ReplicaCounters {
        self.counters
    }

    /// What this member waits for, and as the head for whose confirmations, if they take more than
    /// the time of a try (I20).
    pub fn wait_reasons(&self, now: Now) -> Vec<WaitReason> {
        let me = self.me.node;
        let adopted = match (self.phase, &self.configuration) {
            (Phase::Halted, _) => return vec![WaitReason::Failure(me)],
            (Phase::Ahead(entries), _) => return vec![WaitReason::Operator(me, entries)],
            (Phase::New | Phase::Adopting(_), _) => return vec![WaitReason::Disk(me)],
            (Phase::Greeting | Phase::Ready, Some(adopted)) => adopted,
            _ => return vec![WaitReason::Membership(me)],
        };
        let mut waits = Vec::new();
        if self.lease_until <= now.monotonic {
            waits.push(WaitReason::Lease(me));
        }
        if let (Phase::Greeting, Some(by)) = (self.phase, adopted.source(me)) {
            waits.push(WaitReason::Handshake(me, by));
            return waits;
        }
        if self.is_behind_gap() {
            let filling = TransferProgress {
                by: adopted.source(me),
                bytes: self.counters.fill_bytes,
                bytes_per_second: self.settings.fill_bytes_per_second,
            };
            waits.push(WaitReason::Transfer(me, filling));
        }
        let is_late = |it: &ReplicationLag| it.entries != 0 && self.settings.retry_ms <= it.millis;
        let late = self.behind(now).into_iter().filter(is_late);
        waits.extend(late.map(|it| WaitReason::Confirmation(it.node, it.entries, it.millis)));
        waits
    }

    /// How far each other member is behind, as the head knows it; nothing at any other member.
    pub fn behind(&self, now: Now) -> Vec<ReplicationLag> {
        let adopted = self.adopted().filter(|_| self.is_head());
        let others = adopted.into_iter().flat_map(|it| it.others(self.me.node));
        let behind = |node| {
            let confirmed = self.has_confirmed(node);
            ReplicationLag {
                node,
                entries: self.log.last().index.saturating_sub(confirmed.index),
                millis: self.lateness(node, now.monotonic),
            }
        };
        others.map(behind).collect()
    }
}
