//! What comes from other processes: messages for the members here, and what they ask this one to
//! carry out.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use fader_chain::{ChainId, Envelope};
use fader_services::forward::{Asked, Told};
use parking_lot::RwLock;
use tokio::runtime::Handle;

use crate::member::links::Links;
use crate::peer::{Inbox, Reply};

/// Carries out what another process hands on.
pub(crate) type Host =
    Box<dyn Fn(ChainId, Asked) -> Pin<Box<dyn Future<Output = Told> + Send>> + Send + Sync>;

/// Takes what comes from other processes to the members and the handle of this one.
pub(super) struct Door {
    pub(super) links: RwLock<BTreeMap<ChainId, Arc<Links>>>,
    pub(super) host: OnceLock<Host>,
    pub(super) runtime: Handle,
}

impl Inbox for Door {
    fn deliver(&self, chain: ChainId, envelope: Envelope) {
        if let Some(links) = self.links.read().get(&chain) {
            links.receive(envelope);
        }
    }

    fn serve(&self, chain: ChainId, asked: Asked, patience: Duration, reply: Reply) {
        let Some(host) = self.host.get() else {
            return reply.send(&Told::NotHere("the member begins".to_owned()));
        };
        let work = host(chain, asked);
        self.runtime.spawn(async move {
            // Whoever asked has given it up: nobody wants the answer.
            if let Ok(told) = tokio::time::timeout(patience, work).await {
                reply.send(&told);
            }
        });
    }
}
