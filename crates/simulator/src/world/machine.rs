//! One machine: its disk, its clocks, and the process that runs on it, if one does.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use fader_chain::clocks::Clocks;
use fader_chain::{
    CorrelationId, Entry, EntryId, Identity, Incarnation, Lsn, NodeId, Progress, Replica,
    ReplicaSettings, Report,
};

use super::clock::Clock;
use super::disk::{Disk, Work};
use super::operator::Turns;
use super::stops::Unaware;
use crate::history::Request;

/// A machine.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) node: NodeId,
    pub(crate) disk: Disk,
    pub(crate) clock: Clock,
    /// The process's number: what was planned for an earlier one does not happen.
    pub(crate) incarnation: u64,
    pub(crate) process: Option<Process>,
    pub(crate) paused_until: u64,
    /// Whether its clock stood still, and its process cannot know it yet.
    pub(crate) unaware: Option<Unaware>,
    pub(crate) deaf_until: u64,
    pub(crate) slow_until: u64,
    pub(crate) fails_sync: bool,
    /// Whether its disk was found damaged: it goes when no chain counts on it.
    pub(crate) is_spoilt: bool,
    /// A copy of its disk that was made.
    pub(crate) backup: Option<Box<Disk>>,
    /// Whether its disk is such a copy, and lacks what was acknowledged since.
    pub(crate) is_copy: bool,
    /// How often it was left out as a joining member since it served: each time it waits longer.
    pub(crate) left_out: u32,
}

/// A process.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) me: Identity,
    pub(crate) replica: Replica,
    /// What its disk showed when it began.
    pub(crate) shown: Progress,
    /// Up to where a sync is under way.
    pub(crate) syncing: Option<Lsn>,
    /// What the engine still has to do.
    pub(crate) works: VecDeque<Work>,
    pub(crate) is_flush_planned: bool,
    /// The requests under way, and the calls they belong to.
    pub(crate) requests: BTreeMap<CorrelationId, Request>,
    pub(crate) calls: BTreeMap<CorrelationId, usize>,
    /// What the operator asked.
    pub(crate) turns: Turns,
    /// Entries written, by id: the log as the disk knows it.
    pub(crate) log: BTreeMap<EntryId, Arc<Entry>>,
    pub(crate) lease: Lease,
    /// The lease clocks of the others.
    pub(crate) clocks: Clocks,
    pub(crate) reports: Vec<Report>,
    pub(crate) was_ready: bool,
    /// The epoch in which it was ready last.
    pub(crate) ready_in: u64,
    pub(crate) commit: EntryId,
}

/// The lease of a process (FN-1), in microseconds of its steady clock.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lease {
    pinged: u64,
    sent_at: BTreeMap<u64, u64>,
    pub(crate) until: u64,
    /// When the ping was sent that it comes from.
    pub(crate) sent: u64,
}

impl Lease {
    /// A ping is sent now; its number.
    pub(crate) fn ping(&mut self, now: u64) -> u64 {
        self.pinged += 1;
        self.sent_at.insert(self.pinged, now);
        self.pinged
    }

    /// The ping was heard: the lease holds `length` from when it was sent, if it `holds` then.
    pub(crate) fn heard(&mut self, number: u64, length: u64, holds: impl Fn(u64) -> bool) {
        if let Some(sent_at) = self.sent_at.get(&number).copied() {
            if self.until < sent_at + length && holds(sent_at) {
                (self.sent, self.until) = (sent_at, sent_at + length);
            }
            self.sent_at = self.sent_at.split_off(&number);
        }
    }
}

impl Machine {
    pub(crate) fn new(node: NodeId, disk: Disk, clock: Clock) -> Self {
        Machine {
            node,
            disk,
            clock,
            incarnation: 0,
            process: None,
            paused_until: 0,
            unaware: None,
            deaf_until: 0,
            slow_until: 0,
            fails_sync: false,
            is_spoilt: false,
            backup: None,
            is_copy: false,
            left_out: 0,
        }
    }
}

impl Machine {
    /// Whether its disk holds all that it ever held.
    pub(crate) fn is_sound(&self) -> bool {
        !self.is_spoilt && !self.is_copy
    }
}

impl Process {
    pub(crate) fn new(me: Identity, replica: Replica, shown: Progress, clocks: Clocks) -> Self {
        Process {
            me,
            replica,
            shown,
            syncing: None,
            works: VecDeque::new(),
            is_flush_planned: false,
            requests: BTreeMap::new(),
            calls: BTreeMap::new(),
            turns: Turns::new(),
            log: BTreeMap::new(),
            lease: Lease::default(),
            clocks,
            reports: Vec::new(),
            was_ready: false,
            ready_in: 0,
            commit: EntryId::ZERO,
        }
    }

    /// Keeps the newest report of each kind for the next ping.
    pub(crate) fn report(&mut self, report: Report) {
        let kind = std::mem::discriminant(&report);
        self.reports
            .retain(|older| std::mem::discriminant(older) != kind);
        self.reports.push(report);
    }
}

/// Who a process is.
pub(crate) fn identity(machine: &Machine, incarnation: u128) -> Identity {
    Identity {
        node: machine.node,
        incarnation: Incarnation(incarnation),
        disk: machine.disk.id,
    }
}

/// How replicas are tuned in a world, where everything takes less time.
pub(crate) fn settings(idle_ms: u64) -> ReplicaSettings {
    ReplicaSettings {
        window_entries: 16,
        uncommitted_max: 64,
        append_entries_max: 4,
        append_bytes_max: 1 << 20,
        retry_ms: 50,
        hedge_ms: 10,
        slow_ms: 250,
        slow_times: 10,
        head_slow_ms: 800,
        probation_ms: 400,
        digest_ms: 100,
        max_drift_ms: 500,
        promote_after_ms: 5,
        own_operations_max: 16,
        fill_bytes_per_second: 1 << 20,
        catch_up_max: 2,
        overlay_bytes_max: 1 << 16,
        idle_ms,
    }
}
