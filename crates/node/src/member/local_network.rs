//! The way between members of one process: bounded queues, which lose what does not fit. They can
//! be cut, or be as slow as a long way.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use fader_chain::{Envelope, NodeId};
use parking_lot::RwLock;

use super::state::Shared;
use super::thread::Job;
use crate::peer::{BlockAsked, BlockTold, Outbox};

/// Messages that may be under way on slow links, all together.
const UNDER_WAY_MAX: usize = 1 << 16;

/// Who can be reached, and from where.
#[derive(Default)]
pub(crate) struct LocalNetwork {
    state: RwLock<State>,
    /// How long a message takes, and where those wait that are under way.
    slow: Option<(Duration, SyncSender<UnderWay>)>,
}

/// A message, and when and where it arrives.
struct UnderWay {
    due: Instant,
    to: NodeId,
    envelope: Envelope,
}

#[derive(Default)]
struct State {
    members: BTreeMap<NodeId, (SyncSender<Job>, Arc<Shared>)>,
    /// The side of a partition on which a node is; those without a number are on side 0.
    sides: BTreeMap<NodeId, usize>,
}

impl LocalNetwork {
    /// Links on which each message takes so long, one way.
    pub(crate) fn new(delay: Duration) -> Arc<Self> {
        if delay.is_zero() {
            return Arc::default();
        }
        Arc::new_cyclic(|links| {
            let (sender, under_way) = sync_channel(UNDER_WAY_MAX);
            let links = Weak::clone(links);
            std::thread::spawn(move || arrive(&links, &under_way));
            LocalNetwork {
                state: RwLock::default(),
                slow: Some((delay, sender)),
            }
        })
    }

    /// A member can be reached.
    pub(crate) fn connect(&self, node: NodeId, jobs: SyncSender<Job>, shared: Arc<Shared>) {
        self.state.write().members.insert(node, (jobs, shared));
    }

    /// A member is gone.
    pub(crate) fn disconnect(&self, node: NodeId) {
        self.state.write().members.remove(&node);
    }

    /// Takes what came over a connection to the only member that is here, if there is one.
    pub(crate) fn receive(&self, envelope: Envelope) {
        if let Some((member, _)) = self.state.read().members.values().next() {
            // A full queue loses the message, as a network may; its sender will say it again.
            drop(member.try_send(Job::Message(envelope)));
        }
    }

    /// Answers what another process asks of the blocks of the only member that is here.
    pub(crate) fn answer_blocks(&self, asked: &BlockAsked) -> BlockTold {
        let here = self.state.read().members.values().next().cloned();
        here.map_or(BlockTold::Missing, |(_, member)| {
            member.answer_blocks(asked)
        })
    }

    /// What a member that is here shares with its thread.
    pub(crate) fn member(&self, node: NodeId) -> Option<Arc<Shared>> {
        let state = self.state.read();
        state.members.get(&node).map(|(_, shared)| shared.clone())
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

impl Outbox for LocalNetwork {
    fn send(&self, to: NodeId, envelope: Envelope) {
        let Some((delay, under_way)) = &self.slow else {
            return self.deliver(to, envelope);
        };
        let due = Instant::now() + *delay;
        // What does not fit is lost, as on any way.
        drop(under_way.try_send(UnderWay { due, to, envelope }));
    }

    fn ask_blocks(&self, from: NodeId, to: NodeId, asked: &BlockAsked) -> Option<BlockTold> {
        if self.side(from) != self.side(to) {
            return None;
        }
        let member = self.member(to)?;
        if let Some((delay, _)) = self.slow {
            std::thread::sleep(2 * delay);
        }
        Some(member.answer_blocks(asked))
    }
}

impl LocalNetwork {
    fn deliver(&self, to: NodeId, envelope: Envelope) {
        let state = self.state.read();
        if state.side(envelope.from) != state.side(to) {
            return;
        }
        if let Some((member, _)) = state.members.get(&to) {
            // A full queue loses the message, as a network may; its sender will say it again.
            drop(member.try_send(Job::Message(envelope)));
        }
    }
}

/// Delivers what is under way when it is due, until the links are gone. All messages take equally
/// long: the first that was sent is the first that is due.
fn arrive(links: &Weak<LocalNetwork>, under_way: &Receiver<UnderWay>) {
    while let Ok(UnderWay { due, to, envelope }) = under_way.recv() {
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        match links.upgrade() {
            Some(links) => links.deliver(to, envelope),
            None => return,
        }
    }
}

impl State {
    fn side(&self, node: NodeId) -> usize {
        self.sides.get(&node).copied().unwrap_or_default()
    }
}
