//! What is looked at after every step, and what the world remembers for the history.
//!
//! - (I5)' no member of an epoch knows an entry of that epoch committed before its commit point
//!   does.
//! - (I21) engines that have applied the same entries are equal.

use std::collections::BTreeMap;

use bytes::Bytes;
use fader_chain::{EntryId, Incarnation, NodeId, RequestId, Stamp};

use super::World;
use crate::history::Reply;

/// What the world remembers.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// The digest of the state at each id, with the member that had it first.
    digests: BTreeMap<EntryId, (u64, NodeId)>,
    /// What a head decided for each call.
    decisions: BTreeMap<usize, Bytes>,
    /// What clients that wait for the end of a write will be told.
    accepted: BTreeMap<usize, Reply>,
    /// The first call of each name.
    asked: BTreeMap<RequestId, usize>,
    /// The stamp under which each operation was settled.
    settled: BTreeMap<RequestId, Stamp>,
    /// The incarnation that acknowledged each operation last.
    acknowledged: BTreeMap<RequestId, Incarnation>,
}

impl Watch {
    /// I21: a member has this digest at this id.
    pub(crate) fn digest(&mut self, node: NodeId, id: EntryId, digest: u64) -> Result<(), String> {
        let (first, member) = *self.digests.entry(id).or_insert((digest, node));
        match first == digest {
            true => Ok(()),
            false => Err(format!("{node} and {member} differ at {id}")),
        }
    }

    pub(crate) fn decided(&mut self, call: usize, answer: Bytes) {
        self.decisions.insert(call, answer);
    }

    pub(crate) fn decision(&self, call: usize) -> Bytes {
        self.decisions.get(&call).cloned().unwrap_or_default()
    }

    /// The write of a call is acknowledged; its client waits for its end.
    pub(crate) fn accepted(&mut self, call: usize, reply: Reply) {
        self.accepted.insert(call, reply);
    }

    /// What the client of such a write has been told, if it waits for more.
    pub(crate) fn ended(&mut self, call: usize) -> Option<Reply> {
        self.accepted.remove(&call)
    }

    pub(crate) fn ask(&mut self, name: Option<RequestId>, call: usize) {
        if let Some(name) = name {
            self.asked.entry(name).or_insert(call);
        }
    }

    /// Whether no head has settled the operation before.
    pub(crate) fn settles(&mut self, name: RequestId, stamp: Stamp) -> bool {
        self.settled.insert(name, stamp).is_none()
    }

    /// The stamp under which an operation was settled.
    pub(crate) fn settled(&self, name: RequestId) -> Option<Stamp> {
        self.settled.get(&name).copied()
    }

    pub(crate) fn acknowledged(&mut self, name: RequestId, incarnation: Incarnation) {
        self.acknowledged.insert(name, incarnation);
    }

    /// The incarnation that acknowledged the operation, if one did: it holds it, or knows its end.
    pub(crate) fn acknowledged_in(&self, name: RequestId) -> Option<Incarnation> {
        self.acknowledged.get(&name).copied()
    }

    /// The first call of this name.
    pub(crate) fn asked(&self, name: Option<RequestId>) -> Option<usize> {
        self.asked.get(&name?).copied()
    }
}

impl World {
    /// I5'.
    pub(crate) fn watch_commits(&mut self) {
        let processes = || {
            let machines = self.machines.iter();
            machines.filter_map(|machine| machine.process.as_ref())
        };
        let mut wrong = None;
        for point in processes().filter(|process| process.replica.is_ready()) {
            let adopted = point.replica.configuration();
            let is_point = |process: &&super::machine::Process| {
                adopted.is_some_and(|adopted| adopted.commit_point() == process.me.node)
            };
            if !is_point(&point) {
                continue;
            }
            let epoch = point.replica.epoch();
            let same = |other: &&super::machine::Process| {
                other.replica.is_ready() && other.replica.epoch() == epoch
            };
            for other in processes().filter(same) {
                if other.commit.epoch == epoch && point.commit < other.commit {
                    wrong = Some(format!(
                        "{} knows {}, the commit point {} knows {}",
                        other.me.node, other.commit, point.me.node, point.commit
                    ));
                }
            }
        }
        if let Some(text) = wrong {
            self.fail("I5'", text);
        }
    }
}
