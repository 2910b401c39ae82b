//! What comes from other processes: messages for the members here, and what they ask this one to
//! carry out.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use fader_chain::{ChainId, Envelope, NodeId};
use fader_services::forward::{Asked, Told};
use parking_lot::{Mutex, RwLock};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use crate::clock;
use crate::member::links::Links;
use crate::peer::{Inbox, Reply};

/// Carries out what another process hands on.
pub(crate) type Host =
    Box<dyn Fn(ChainId, Asked) -> Pin<Box<dyn Future<Output = Told> + Send>> + Send + Sync>;

/// Requests of other processes that may wait for long, by node and its number of them.
type Waiting = Arc<Mutex<BTreeMap<(NodeId, u64), AbortHandle>>>;

/// Takes what comes from other processes to the members and the handle of this one.
pub(super) struct Door {
    pub(super) links: RwLock<BTreeMap<ChainId, Arc<Links>>>,
    pub(super) host: OnceLock<Host>,
    runtime: Handle,
    waiting: Waiting,
}

impl Door {
    /// One that has nothing to do yet, on this runtime.
    pub(super) fn new(runtime: Handle) -> Self {
        Door {
            links: RwLock::default(),
            host: OnceLock::new(),
            runtime,
            waiting: Waiting::default(),
        }
    }
}

impl Inbox for Door {
    fn deliver(&self, chain: ChainId, envelope: Envelope) {
        if let Some(links) = self.links.read().get(&chain) {
            links.receive(envelope);
        }
    }

    fn serve(&self, chain: ChainId, mut asked: Asked, patience: Duration, reply: Reply) {
        if let Asked::Request(call) = &mut asked {
            call.request.arrive(clock::now_ms());
        }
        let Some(host) = self.host.get() else {
            return reply.send(&Told::NotHere("the member begins".to_owned()));
        };
        let (of, may_wait) = (reply.of(), asked.may_wait());
        let work = host(chain, asked);
        let waiting = self.waiting.clone();
        // The lock is held until it is entered: it leaves after that.
        let mut all = may_wait.then(|| self.waiting.lock());
        let task = self.runtime.spawn(async move {
            // Whoever asked has given it up: nobody wants the answer.
            if let Ok(told) = tokio::time::timeout(patience, work).await {
                reply.send(&told);
            }
            if may_wait {
                waiting.lock().remove(&of);
            }
        });
        if let Some(all) = &mut all {
            all.insert(of, task.abort_handle());
        }
    }

    fn withdraw(&self, node: NodeId, number: Option<u64>) {
        let (first, last) = match number {
            Some(number) => (number, number),
            None => (0, u64::MAX),
        };
        let mut waiting = self.waiting.lock();
        let gone = waiting.extract_if((node, first)..=(node, last), |_, _| true);
        gone.for_each(|(_, task)| task.abort());
    }
}
