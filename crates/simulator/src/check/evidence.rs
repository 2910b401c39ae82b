//! A finished run, prepared for the checks: the committed log, and who knew what when.

use std::collections::BTreeMap;

use bytes::Bytes;
use fader_chain::{
    Change, Configuration, ElementOp, Entry, EntryId, NodeId, Register, RequestId, Stamp,
};

use super::{Violation, Witness, cover};
use crate::history::{Call, Event, Fact, History, Level, Moment, Reply, Stamping, WriteStatus};

/// A run with its committed log.
#[derive(Debug)]
pub struct Evidence<'a> {
    /// The run.
    pub history: &'a History,
    /// Every entry that any member committed, in order, with the event that told of it first.
    pub(super) log: Vec<(&'a Entry, &'a Event)>,
    /// The configurations, in order.
    pub(super) epochs: Vec<Epoch<'a>>,
    /// Each attempt at an eventual operation.
    pub(super) attempts: BTreeMap<RequestId, Vec<(&'a Stamping, &'a Event)>>,
    /// Who held an operation, since when.
    pub(super) holders: BTreeMap<RequestId, Vec<(NodeId, &'a Event)>>,
    /// Who forgot an operation, and when.
    pub(super) forgotten: Vec<(NodeId, RequestId, &'a Event)>,
    /// How an operation was settled.
    pub(super) settled: BTreeMap<RequestId, Settled<'a>>,
    /// Whose stamp it is.
    names: BTreeMap<Stamp, RequestId>,
    /// When members lost their disks.
    disks_lost: Vec<(NodeId, Moment)>,
}

/// One configuration, with its publication.
pub(super) type Epoch<'a> = (&'a Configuration, &'a Event);

/// One settlement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settled<'a> {
    pub(super) entry: EntryId,
    pub(super) status: WriteStatus,
    pub(super) event: &'a Event,
}

/// One write of an eventual call that was acknowledged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Acknowledged<'a> {
    pub(super) call: usize,
    pub(super) at: Moment,
    pub(super) name: RequestId,
    pub(super) key: &'a Bytes,
    pub(super) stamp: Stamp,
    pub(super) quorum: usize,
    pub(super) attached: bool,
    /// As its client was told, if it asked.
    pub(super) status: Option<WriteStatus>,
}

impl<'a> Evidence<'a> {
    /// Prepares a run.
    ///
    /// # Errors
    /// I3: two members committed different logs.
    pub fn new(history: &'a History) -> Result<Self, Violation> {
        let mut evidence = Evidence {
            history,
            log: agreed_log(history)?,
            epochs: Vec::new(),
            attempts: BTreeMap::new(),
            holders: BTreeMap::new(),
            forgotten: Vec::new(),
            settled: BTreeMap::new(),
            names: BTreeMap::new(),
            disks_lost: Vec::new(),
        };
        for event in &history.events {
            evidence.take(event);
        }
        Ok(evidence)
    }

    fn take(&mut self, event: &'a Event) {
        match &event.fact {
            Fact::Stamped(stamping) => {
                self.names.insert(stamping.stamp, stamping.name);
                let attempts = self.attempts.entry(stamping.name).or_default();
                attempts.push((stamping, event));
            }
            Fact::Held { node, name } => {
                let holders = self.holders.entry(*name).or_default();
                holders.push((*node, event));
            }
            Fact::Forgotten { node, name } => self.forgotten.push((*node, *name, event)),
            Fact::Settled {
                name,
                entry,
                status,
            } => {
                let settled = Settled {
                    entry: *entry,
                    status: *status,
                    event,
                };
                self.settled.entry(*name).or_insert(settled);
            }
            Fact::Published(configuration) => self.epochs.push((configuration, event)),
            Fact::DiskLost { node } => self.disks_lost.push((*node, event.at)),
            Fact::Committed { .. } | Fact::Acknowledged { .. } | Fact::Ready { .. } => {}
        }
    }

    /// The place of entry `id` in the log, from 1; 0 for the beginning.
    pub(super) fn place(&self, id: EntryId) -> Option<usize> {
        if id == EntryId::ZERO {
            return Some(0);
        }
        let at = self.log.binary_search_by_key(&id, |(entry, _)| entry.id);
        at.ok().map(|at| at + 1)
    }

    /// When entry `id` was first committed.
    pub(super) fn committed_at(&self, id: EntryId) -> Option<Moment> {
        let at = self.log.binary_search_by_key(&id, |(entry, _)| entry.id);
        at.ok().map(|at| self.log[at].1.at)
    }

    /// The configuration numbered `epoch`.
    pub(super) fn epoch(&self, epoch: u64) -> Option<&'a Configuration> {
        let at = self
            .epochs
            .binary_search_by_key(&epoch, |(known, _)| known.epoch);
        at.ok().map(|at| self.epochs[at].0)
    }

    /// Whether `node` answers clients in this epoch.
    pub(super) fn serves(&self, node: NodeId, epoch: u64) -> bool {
        let mut serving = self
            .epoch(epoch)
            .into_iter()
            .flat_map(Configuration::serving);
        serving.any(|serving| serving == node)
    }

    /// The strong entries whose calls are known, by name or by the reply: each with every call.
    pub(super) fn strong_calls(&self) -> Vec<(EntryId, usize)> {
        let strong = |entry: &Entry| !entry.is_settlement();
        let log = self.log.iter().filter(|(entry, _)| strong(entry));
        let named: BTreeMap<RequestId, EntryId> = log
            .filter_map(|(entry, _)| entry.request.map(|name| (name, entry.id)))
            .collect();
        let mut calls = Vec::new();
        for (at, call) in self.history.calls.iter().enumerate() {
            let told = match call.done() {
                Some((_, Reply::Decided { entry, .. })) => Some(*entry),
                _ => None,
            };
            let entry = call.name.and_then(|name| named.get(&name).copied());
            if let Some(entry) = entry.or(told)
                && call.is_strong()
                && !call.is_refused()
            {
                calls.push((entry, at));
            }
        }
        calls
    }

    /// Every eventual write that was acknowledged, in the order of the calls.
    pub(super) fn acknowledged(&self) -> Vec<Acknowledged<'a>> {
        let calls = self.history.calls.iter().enumerate();
        calls
            .flat_map(|(at, call)| self.accepted(at, call))
            .collect()
    }

    fn accepted(&self, at: usize, call: &'a Call) -> Vec<Acknowledged<'a>> {
        let Some((
            end,
            Reply::Accepted {
                stamps,
                attached,
                statuses,
            },
        )) = call.done()
        else {
            return Vec::new();
        };
        let Level::Eventual { quorum, .. } = call.level else {
            return Vec::new();
        };
        let writes = call.request.writes.iter().zip(stamps).enumerate();
        let acknowledged = writes.filter_map(|(part, (write, stamp))| {
            let name = call.part(part).or_else(|| self.names.get(stamp).copied())?;
            Some(Acknowledged {
                call: at,
                at: end,
                name,
                key: &write.key,
                stamp: *stamp,
                quorum,
                attached: *attached,
                status: statuses.get(part).copied(),
            })
        });
        acknowledged.collect()
    }

    /// The operation that has this stamp.
    pub(super) fn name_of(&self, stamp: Stamp) -> Option<RequestId> {
        self.names.get(&stamp).copied()
    }

    /// The attempts at an operation.
    pub(super) fn attempts(&self, name: RequestId) -> &[(&'a Stamping, &'a Event)] {
        self.attempts.get(&name).map_or(&[], Vec::as_slice)
    }

    /// When the operation was refused at its settlement.
    pub(super) fn refused(&self, name: RequestId) -> Option<Moment> {
        let settled = self.settled.get(&name)?;
        matches!(settled.status, WriteStatus::Refused | WriteStatus::Gone)
            .then_some(settled.event.at)
    }

    /// Whether `register` shows some attempt at the operation: which one counts is decided by the
    /// log (D2).
    pub(super) fn shows(&self, register: &Register, safe_point: EntryId, name: RequestId) -> bool {
        self.attempts(name).iter().any(|(attempt, _)| {
            cover::uncovered(register, safe_point, &attempt.ops, attempt.stamp).is_none()
        })
    }

    /// All that is known of an operation, for a violation.
    pub(super) fn story(&self, name: RequestId) -> impl Iterator<Item = &'a Event> {
        let attempts = self.attempts(name).iter().map(|(_, event)| *event);
        let holders = self.holders.get(&name).into_iter().flatten();
        let settled = self.settled.get(&name).map(|settled| settled.event);
        let forgotten = self
            .forgotten
            .iter()
            .filter(move |(_, what, _)| *what == name);
        let holders = holders.map(|(_, event)| *event);
        let forgotten = forgotten.map(|(_, _, event)| *event);
        attempts.chain(holders).chain(forgotten).chain(settled)
    }

    /// The members that held the operation by `at`.
    pub(super) fn holders_by(
        &self,
        name: RequestId,
        at: Moment,
    ) -> impl Iterator<Item = (NodeId, Moment)> {
        let holders = self.holders.get(&name).into_iter().flatten();
        holders
            .map(|(node, event)| (*node, event.at))
            .filter(move |(_, held)| *held <= at)
    }

    /// What `node` held by then, and did not forget.
    pub(super) fn held_by(&self, node: NodeId, at: Moment) -> impl Iterator<Item = RequestId> {
        let is_its = move |(name, _): &(&RequestId, &Vec<(NodeId, &Event)>)| {
            let mut holders = self.holders_by(**name, at);
            holders.any(|(holder, _)| holder == node) && !self.forgot(node, **name, at)
        };
        self.holders.iter().filter(is_its).map(|(name, _)| *name)
    }

    /// Whether `node` kept its membership, in one incarnation, from `since` up to epoch `until`,
    /// and its disk up to the end of that epoch.
    pub(super) fn stayed(&self, node: NodeId, since: Moment, until: u64) -> bool {
        let before = self.epochs.partition_point(|(_, event)| event.at <= since);
        let after = self
            .epochs
            .partition_point(|(known, _)| known.epoch <= until);
        let Some(in_force) = self.epochs.get(before.saturating_sub(1)..after) else {
            return false;
        };
        let end = self.epochs.get(after).map(|(_, event)| event.at);
        let lost_disk = self.lost_disk(node, since, end);
        let incarnation =
            |(known, _): &Epoch<'_>| known.member(node).map(|member| member.incarnation);
        let first = in_force.first().and_then(incarnation);
        first.is_some() && in_force.iter().all(|epoch| incarnation(epoch) == first) && !lost_disk
    }

    /// Whether `node` forgot the operation by `at`, before it was settled.
    pub(super) fn forgot(&self, node: NodeId, name: RequestId, at: Moment) -> bool {
        let mut forgotten = self.forgotten.iter();
        let settled = self.settled.get(&name);
        forgotten.any(|(who, what, event)| {
            let is_settled = settled.is_some_and(|settled| settled.event.at <= event.at);
            (*who, *what) == (node, name) && event.at <= at && !is_settled
        })
    }

    /// Whether `node` lost its disk after `since`, and not after `until`.
    pub(super) fn lost_disk(&self, node: NodeId, since: Moment, until: Option<Moment>) -> bool {
        let mut lost = self.disks_lost.iter();
        lost.any(|(lost, at)| {
            *lost == node && since < *at && until.is_none_or(|until| *at <= until)
        })
    }
}

/// What an entry does to registers.
pub(super) fn merges(entry: &Entry) -> impl Iterator<Item = (&Bytes, &[ElementOp])> {
    entry.changes.iter().filter_map(|change| match change {
        Change::Merge { key, ops, .. } => Some((key, ops.as_slice())),
        _ => None,
    })
}

/// I3: all committed entries are one log.
fn agreed_log(history: &History) -> Result<Vec<(&Entry, &Event)>, Violation> {
    let mut log: BTreeMap<u64, (&Entry, &Event)> = BTreeMap::new();
    for event in &history.events {
        let Fact::Committed { entry, .. } = &event.fact else {
            continue;
        };
        let (known, first) = *log.entry(entry.id.index).or_insert((entry, event));
        if known != entry.as_ref() {
            let text = format!("{} and {} are both committed", known.id, entry.id);
            return Err(Violation::new("I3", text).event(first).event(event));
        }
    }
    let log: Vec<_> = log.into_values().collect();
    let mut prev = EntryId::ZERO;
    for (entry, event) in &log {
        if entry.prev != prev || entry.id <= prev {
            let text = format!("{} is committed, but does not follow {prev}", entry.id);
            return Err(Violation::new("I3", text).event(event));
        }
        prev = entry.id;
    }
    Ok(log)
}
