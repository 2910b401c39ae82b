//! What comes from other processes: messages for the members here, and what they ask this one to
//! carry out.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use fader_chain::{ChainId, Envelope, NodeId};
use fader_services::forward::{ForwardedReply, ForwardedRequest};
use fader_services::{Poll, Reason};
use parking_lot::{Mutex, RwLock};
use tokio::runtime::Handle;

use crate::clock;
use crate::member::local_network::LocalNetwork;
use crate::peer::{BlockAsked, BlockTold, Inbox, Reply};

/// Carries out what another process hands off.
pub(crate) type Host = Box<
    dyn Fn(ChainId, ForwardedRequest) -> Pin<Box<dyn Future<Output = ForwardedReply> + Send>>
        + Send
        + Sync,
>;

/// Requests of other processes that may wait for long, by node and its number of them.
type Waiting = Arc<Mutex<BTreeMap<(NodeId, u64), Arc<Poll>>>>;

/// Takes what comes from other processes to the members and the handle of this one.
pub(super) struct ForwardServer {
    pub(super) links: RwLock<BTreeMap<ChainId, Arc<LocalNetwork>>>,
    pub(super) host: OnceLock<Host>,
    runtime: Handle,
    waiting: Waiting,
}

impl ForwardServer {
    /// One that has nothing to do yet, on this runtime.
    pub(super) fn new(runtime: Handle) -> Self {
        ForwardServer {
            links: RwLock::default(),
            host: OnceLock::new(),
            runtime,
            waiting: Waiting::default(),
        }
    }
}

impl Inbox for ForwardServer {
    fn deliver(&self, chain: ChainId, envelope: Envelope) {
        if let Some(links) = self.links.read().get(&chain) {
            links.receive(envelope);
        }
    }

    fn serve(&self, chain: ChainId, mut asked: ForwardedRequest, patience: Duration, reply: Reply) {
        if let ForwardedRequest::Request(call) = &mut asked {
            call.request.arrive(clock::now_ms());
        }
        let Some(host) = self.host.get() else {
            return reply.send(&ForwardedReply::NotHere(Reason::NoMember.into()));
        };
        let (of, may_wait) = (reply.of(), asked.may_wait());
        let poll = Arc::new(Poll::default());
        if let ForwardedRequest::Request(call) = &mut asked {
            call.poll = may_wait.then(|| Arc::clone(&poll));
        }
        let work = host(chain, asked);
        if may_wait {
            self.waiting.lock().insert(of, Arc::clone(&poll));
        }
        let waiting = may_wait.then(|| self.waiting.clone());
        self.runtime.spawn(async move {
            tokio::select! {
                biased;
                // The asker has given it up after so long: the answer is not needed.
                told = tokio::time::timeout(patience, work) => {
                    if let Ok(told) = told {
                        reply.send(&told);
                    }
                }
                () = poll.over() => {}
            }
            if let Some(waiting) = waiting {
                waiting.lock().remove(&of);
            }
        });
    }

    fn blocks(&self, chain: ChainId, asked: BlockAsked) -> BlockTold {
        let links = self.links.read().get(&chain).cloned();
        links.map_or(BlockTold::Missing, |links| links.answer_blocks(&asked))
    }

    fn withdraw(&self, node: NodeId, number: Option<u64>) {
        let (first, last) = match number {
            Some(number) => (number, number),
            None => (0, u64::MAX),
        };
        let waiting = self.waiting.lock();
        let gone = waiting.range((node, first)..=(node, last));
        gone.for_each(|(_, poll)| poll.give_up());
    }
}

#[cfg(test)]
mod tests;
