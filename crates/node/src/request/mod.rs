//! The path of a request to the member that carries it out. It leads by the name of its collection
//! to its chain, and there to the member that can, here or in another process.

mod bodies;
mod catalog;
mod collect;
mod deliver;
mod forward;
mod modes;
mod names;
mod refusals;
mod route;
mod steps;
mod tend;
mod tokens;

use std::sync::Arc;

use fader_chain::ChainId;
use fader_services::Reason;
use fader_services::level::ReplyMetadata;
use fader_services::request::Outcome;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::cluster::Cluster;
use crate::cluster::chains::Chains;
use crate::member::Member;
use crate::member::blocks::{lent_bytes, upload_memory};
use crate::member::refusal::{Kind, Refusal};
use crate::secrets::seal::Seal;
use catalog::RemoteCatalog;
use collect::GivenUp;
use refusals::Refusals;

pub use bodies::{BodyWriter, Stored, Unread};
pub use catalog::KnownKey;
pub(crate) use catalog::no_answer;
pub(crate) use collect::Collector;
pub(crate) use deliver::Reach;
pub(crate) use steps::Unsettled;

/// What a request comes to: the service's answer, and what is told beside. That goes with a refusal
/// too: it may be that a session has seen more.
pub type Answer = (Outcome, ReplyMetadata);

/// What takes requests to members: the chains, what seals sessions, and the count of refusals.
pub(crate) struct Router {
    pub(crate) chains: Chains,
    pub(crate) seal: Seal,
    refusals: Refusals,
    given_up: GivenUp,
    remote: RemoteCatalog,
    /// That of uploads, where no member of the only chain lends its own.
    upload_memory: Arc<Semaphore>,
    /// Lets blocks go, where they are kept.
    pub(crate) collector: Mutex<Option<Collector>>,
}

impl Router {
    /// One that counts from nothing.
    pub(crate) fn new(chains: Chains, seal: Seal) -> Self {
        let blocks = chains.system().block_options();
        let remote = RemoteCatalog::new(chains.system().session());
        Router {
            upload_memory: upload_memory(blocks.memory_bytes),
            chains,
            seal,
            refusals: Refusals::default(),
            given_up: GivenUp::default(),
            remote,
            collector: Mutex::default(),
        }
    }

    /// Ends what runs beside requests, then all chains.
    pub(crate) fn close(&self) {
        drop(self.collector.lock().take());
        self.chains.close();
    }

    /// The chains, if they have several members.
    pub(crate) fn in_company(&self) -> Option<&Chains> {
        Some(&self.chains).filter(|chains| !chains.system().is_lone())
    }

    /// The chains, if there are several.
    pub(crate) fn several(&self) -> Option<&Chains> {
        Some(&self.chains).filter(|chains| chains.are_several())
    }

    /// A chain, if this process has heard of it.
    fn cluster(&self, chain: ChainId) -> Result<Arc<Cluster>, Refusal> {
        let cluster = self.chains.get(chain);
        cluster.ok_or(Refusal::new(Kind::Again, Reason::NoChain))
    }

    /// The member here at which a chain is read.
    pub(crate) fn keeper_of(&self, chain: ChainId) -> Result<Arc<Member>, Refusal> {
        let keeper = self
            .chains
            .get(chain)
            .and_then(|chain| chain.local_member());
        keeper.ok_or(Refusal::new(Kind::Elsewhere, Reason::NoMember))
    }

    /// How many bytes uploads have of the memory that no member lends.
    pub(crate) fn lent_bytes(&self) -> u64 {
        let blocks = self.chains.system().block_options();
        lent_bytes(&self.upload_memory, blocks.memory_bytes)
    }

    /// How many requests of clients were refused with 503 here, by chain and reason.
    pub(crate) fn refusals(&self) -> Vec<(ChainId, Reason, u64)> {
        self.refusals.all()
    }
}
