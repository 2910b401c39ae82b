//! The way between members of one process: bounded queues, which lose what does not fit, and which
//! can be cut.

use std::collections::BTreeMap;
use std::sync::mpsc::SyncSender;

use fader_chain::{Envelope, NodeId};
use parking_lot::RwLock;

use crate::chain_thread::Job;
use crate::peer::Outbox;

/// Who can be reached, and from where.
#[derive(Default)]
pub(crate) struct Links {
    state: RwLock<State>,
}

#[derive(Default)]
struct State {
    members: BTreeMap<NodeId, SyncSender<Job>>,
    /// The side of a partition on which a node is; those without a number are on side 0.
    sides: BTreeMap<NodeId, usize>,
}

impl Links {
    /// A member can be reached.
    pub(crate) fn connect(&self, node: NodeId, jobs: SyncSender<Job>) {
        self.state.write().members.insert(node, jobs);
    }

    /// A member is gone.
    pub(crate) fn disconnect(&self, node: NodeId) {
        self.state.write().members.remove(&node);
    }

    /// Cuts the ways between nodes of different sides; none heals all.
    pub(crate) fn partition(&self, sides: BTreeMap<NodeId, usize>) {
        self.state.write().sides = sides;
    }

    /// On which side of a partition a node is.
    pub(crate) fn side(&self, node: NodeId) -> usize {
        self.state.read().side(node)
    }
}

impl Outbox for Links {
    fn send(&self, to: NodeId, envelope: Envelope) {
        let state = self.state.read();
        if state.side(envelope.from) != state.side(to) {
            return;
        }
        if let Some(member) = state.members.get(&to) {
            // A full queue loses the message, as a network may; its sender will say it again.
            drop(member.try_send(Job::Message(envelope)));
        }
    }
}

impl State {
    fn side(&self, node: NodeId) -> usize {
        self.sides.get(&node).copied().unwrap_or_default()
    }
}
