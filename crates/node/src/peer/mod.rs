//! The way between nodes: framed TCP, on which only nodes of the cluster are heard
//! (docs/reference/format/peer.md, docs/internals/decisions/0006-between-nodes.md).
//!
//! ```text
//!  chain thread ──send──▶ Outgoing ══ sealed frames ══▶ incoming ──deliver──▶ Inbox
//!                         queue, thread                 thread
//! ```
//!
//! A node calls another one when it has something to say to it. That goes over the connection that
//! it made. So there are up to two between two nodes, each with one direction after its handshake.
//!
//! Deliberately absent: a guarantee that a message arrives; who the nodes are, which the
//! coordinator knows; what messages mean.

mod authenticated;
mod blocks;
mod clocks;
mod handshake;
mod incoming;
mod noise;
mod outgoing;
mod pending_forwards;
mod record;
mod refusal;
mod traffic;

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use fader_chain::{ChainId, DiskId, Envelope, Identity, NodeId, Version};
use fader_services::forward::{ForwardedReply, ForwardedRequest};
use parking_lot::{Mutex, MutexGuard, RwLock};

use authenticated::AuthenticatedPeers;
use blocks::{BlockCalls, BlockHosts};
use handshake::{LocalIdentity, Versions};
use incoming::UnauthenticatedPool;
use outgoing::{Outgoing, OutgoingMessage};
use pending_forwards::PendingForwards;
use refusal::{LogOnce, PeerError, Who};
use traffic::Traffic;

pub use crate::secrets::cluster::{ClusterKey, KeyError};
pub use blocks::{BlockAsked, BlockTold};
pub(crate) use clocks::PeerClocks;
pub use traffic::PeerCounters;

/// What takes a member's messages to others: queues within a process, connections between nodes.
pub(crate) trait Outbox: Send + Sync {
    /// Sends what may be lost, at once: the sender waits for no other node.
    fn send(&self, to: NodeId, envelope: Envelope);

    /// Asks about blocks at another member than `from`, and waits for the answer, on a thread that
    /// may wait; nothing when none came.
    fn ask_blocks(&self, from: NodeId, to: NodeId, asked: &BlockAsked) -> Option<BlockTold>;
}

/// Who takes what comes from other nodes. It is called on the thread of a connection, which reads
/// nothing more until it returns.
pub trait Inbox: Send + Sync {
    /// What a member of a chain says. It may be lost.
    fn deliver(&self, chain: ChainId, envelope: Envelope);
    /// A client's request to a chain that another node handed off, and how long that node waits.
    fn serve(&self, chain: ChainId, asked: ForwardedRequest, patience: Duration, reply: Reply);
    /// That node does not wait any more for what comes of its request with this number, or of any.
    fn withdraw(&self, node: NodeId, number: Option<u64>);
    /// What is asked about blocks of a member of a chain.
    fn blocks(&self, chain: ChainId, asked: BlockAsked) -> BlockTold;
}

/// What the coordinator knows of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Where it listens for other nodes.
    pub address: SocketAddr,
    /// The disk that its number was given to.
    pub disk: DiskId,
}

/// Why nothing was heard of a request that was handed off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardError {
    /// The other node did not get it.
    Untouched,
    /// It may have got it: the connection was lost, or it did not answer in time. Or its answer has
    /// a code that this process does not know.
    Unknown,
}

/// The way back to a node that handed off a request.
pub struct Reply {
    node: NodeId,
    number: u64,
    outgoing: Option<Arc<Outgoing>>,
    /// What the asker reads, at least.
    version: Version,
}

impl Reply {
    /// One whose asker is not to be reached any more.
    #[cfg(test)]
    pub(crate) fn to_no_member(of: (NodeId, u64)) -> Self {
        let (node, number) = of;
        Reply::new(node, number, None, Version::NEWEST)
    }

    fn new(node: NodeId, number: u64, outgoing: Option<Arc<Outgoing>>, version: Version) -> Self {
        Reply {
            node,
            number,
            outgoing,
            version,
        }
    }

    /// The node that asks, and the number that it gave its request.
    pub fn of(&self) -> (NodeId, u64) {
        (self.node, self.number)
    }

    /// Sends the answer. It may be lost: then its asker hears that the connection was.
    pub fn send(self, told: &ForwardedReply) {
        if let Some(outgoing) = self.outgoing {
            outgoing.send(OutgoingMessage::Answer(
                self.number,
                told.encode(self.version),
            ));
        }
    }
}

/// What all threads of the connections have.
struct PeerContext {
    key: ClusterKey,
    cluster: u128,
    identity: Identity,
    /// The cluster's.
    version: AtomicU32,
    clocks: Arc<PeerClocks>,
    inbox: Arc<dyn Inbox>,
    directory: RwLock<BTreeMap<NodeId, Peer>>,
    /// The nodes of members that have numbers of their own.
    homes: RwLock<BTreeMap<NodeId, NodeId>>,
    names: Mutex<BTreeMap<NodeId, String>>,
    outgoing: RwLock<BTreeMap<NodeId, Arc<Outgoing>>>,
    traffic: Mutex<BTreeMap<NodeId, Arc<Traffic>>>,
    unknown: UnauthenticatedPool,
    sessions: AuthenticatedPeers,
    asks: PendingForwards,
    block_calls: BlockCalls,
    block_hosts: BlockHosts,
    log_once: LogOnce,
    refused: AtomicU64,
    is_closed: AtomicBool,
}

impl PeerContext {
    fn me(&self) -> LocalIdentity {
        LocalIdentity {
            versions: Versions {
                min: Version::OLDEST.0.into(),
                max: self.version().0.into(),
            },
            cluster: self.cluster,
            identity: self.identity,
        }
    }

    /// The cluster's version: what may be said.
    fn version(&self) -> Version {
        Version(self.version.load(Ordering::Relaxed))
    }

    fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    /// The node on which a member is: its own number is that of a node without several members.
    fn home(&self, member: NodeId) -> NodeId {
        let homes = self.homes.read();
        homes.get(&member).copied().unwrap_or(member)
    }

    /// The peer's name in the log: of a node whose name was not heard of, its disk's number.
    fn name(&self, who: Who) -> String {
        match who {
            Who::Address(address) => address.to_string(),
            Who::Node(node) => {
                let names = self.names.lock();
                let name = names.get(&node).cloned();
                name.unwrap_or_else(|| format!("disk {}", node.0))
            }
        }
    }

    /// Logs a reason, unless it was logged of this peer since it was last well.
    fn log_refusal(&self, who: Who, error: &PeerError) {
        if self.log_once.is_new(who, &error.to_string()) {
            let peer = self.name(who);
            tracing::warn!(%peer, reason = %error, "no connection between nodes");
        }
    }

    fn outgoing(&self, node: NodeId) -> Option<Arc<Outgoing>> {
        self.outgoing.read().get(&node).cloned()
    }

    fn traffic(&self, node: NodeId) -> Arc<Traffic> {
        self.traffic.lock().entry(node).or_default().clone()
    }
}

/// The connections of one node to all others.
pub struct Peers {
    common: Arc<PeerContext>,
    listener: Arc<TcpListener>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Peers {
    /// Listens for nodes of the cluster, whose sessions last so long. As yet none is known.
    ///
    /// # Errors
    /// [`io::Error`] when there is no thread for it.
    pub fn start(
        listener: TcpListener,
        me: Identity,
        cluster: u128,
        session: Duration,
        key: ClusterKey,
        inbox: Arc<dyn Inbox>,
    ) -> io::Result<Arc<Peers>> {
        let common = Arc::new(PeerContext {
            key,
            cluster,
            identity: me,
            version: AtomicU32::new(Version::OLDEST.0),
            clocks: Arc::new(PeerClocks::new(session)),
            inbox,
            directory: RwLock::default(),
            homes: RwLock::default(),
            names: Mutex::default(),
            outgoing: RwLock::default(),
            traffic: Mutex::default(),
            unknown: UnauthenticatedPool::default(),
            sessions: AuthenticatedPeers::default(),
            asks: PendingForwards::default(),
            block_calls: BlockCalls::default(),
            block_hosts: BlockHosts::default(),
            log_once: LogOnce::default(),
            refused: AtomicU64::new(0),
            is_closed: AtomicBool::new(false),
        });
        let listener = Arc::new(listener);
        let (listens, shares) = (listener.clone(), common.clone());
        let thread = std::thread::Builder::new().name("peer-listen".to_owned());
        let thread = thread.spawn(move || incoming::run(&listens, &shares))?;
        Ok(Arc::new(Peers {
            common,
            listener,
            threads: Mutex::new(vec![thread]),
        }))
    }

    /// These are the nodes, from now on: others are not heard. Those are called where they are,
    /// when there is something to say to them.
    ///
    /// # Errors
    /// [`io::Error`] when there is no thread for one of them; saying it again tries again.
    pub fn know(&self, mut nodes: BTreeMap<NodeId, Peer>) -> io::Result<()> {
        nodes.remove(&self.common.identity.node);
        self.common.clocks.retain(|node| nodes.contains_key(&node));
        let mut outgoing = self.common.outgoing.write();
        let mut directory = self.common.directory.write();
        let is_left = |node: &NodeId, peer: Peer| nodes.get(node) != Some(&peer);
        let left = outgoing.extract_if(.., |node, it| is_left(node, it.peer()));
        left.for_each(|(_, it)| it.close());
        for (node, peer) in directory.iter() {
            if nodes.get(node).map(|it| it.disk) != Some(peer.disk) {
                self.common.sessions.end(*node);
                self.common.block_hosts.end(*node);
            }
        }
        *directory = nodes.clone();
        drop(directory);
        for (node, peer) in nodes {
            if let std::collections::btree_map::Entry::Vacant(place) = outgoing.entry(node) {
                let call = Arc::new(Outgoing::new(node, peer, self.common.traffic(node)));
                let (calls, shares) = (call.clone(), self.common.clone());
                let thread = std::thread::Builder::new().name(format!("peer-{node}"));
                let thread = thread.spawn(move || calls.run(&shares))?;
                place.insert(call);
                let mut threads = self.threads.lock();
                threads.retain(|thread| !thread.is_finished());
                threads.push(thread);
            }
        }
        Ok(())
    }

    /// There is to be a connection to these nodes, also before anything is to be sent. They share a
    /// chain with this one, and show each other their clocks (CK-0).
    pub(crate) fn need(&self, nodes: impl IntoIterator<Item = NodeId>) {
        let outgoing = self.common.outgoing.read();
        let needed = nodes.into_iter().filter_map(|node| outgoing.get(&node));
        needed.for_each(|it| it.need());
    }

    /// The cluster's version: new connections are of it, where the other side knows it too. Those
    /// there are go on, for what a message is in it says itself.
    pub fn speak(&self, version: Version) {
        self.common.version.store(version.0, Ordering::Relaxed);
    }

    /// The lease clocks of other processes.
    pub(crate) fn clocks(&self) -> &Arc<PeerClocks> {
        &self.common.clocks
    }

    /// These members are on those nodes, from now on.
    pub fn house(&self, homes: BTreeMap<NodeId, NodeId>) {
        *self.common.homes.write() = homes;
    }

    /// Names of nodes and of their members, as they were heard of: they outlive sessions.
    pub(crate) fn names(&self) -> MutexGuard<'_, BTreeMap<NodeId, String>> {
        self.common.names.lock()
    }

    /// Sends what a member of a chain says; it may be lost.
    pub fn send(&self, to: NodeId, chain: ChainId, envelope: Envelope) {
        let home = self.common.home(to);
        if let Some(outgoing) = self.common.outgoing.read().get(&home) {
            outgoing.send(OutgoingMessage::Envelope(chain, envelope));
        }
    }

    /// Asks about blocks at another member of a chain, and waits for the answer; nothing when none
    /// came. It blocks its thread.
    pub fn ask_blocks(
        &self,
        member: NodeId,
        chain: ChainId,
        asked: &BlockAsked,
    ) -> Option<BlockTold> {
        let node = self.common.home(member);
        let calls = &self.common.block_calls;
        calls.ask(&self.common, node, chain, asked)
    }

    /// The way to the other members of a chain.
    pub(crate) fn way(self: &Arc<Self>, chain: ChainId) -> Arc<dyn Outbox> {
        let peers = self.clone();
        Arc::new(ChainOutbox { peers, chain })
    }

    /// Hands a request to the node of another member of a chain, and waits for what comes of it.
    ///
    /// # Errors
    /// [`ForwardError`]: whether the other node may have done it.
    pub async fn forward(
        &self,
        member: NodeId,
        chain: ChainId,
        asked: &ForwardedRequest,
        patience: Duration,
    ) -> Result<ForwardedReply, ForwardError> {
        let node = self.common.home(member);
        let outgoing = self.common.outgoing(node).ok_or(ForwardError::Untouched)?;
        if !outgoing.is_connected() {
            // The caller asks again, or elsewhere.
            outgoing.need();
            return Err(ForwardError::Untouched);
        }
        let (number, told) = self
            .common
            .asks
            .begin(node)
            .ok_or(ForwardError::Untouched)?;
        let millis = u64::try_from(patience.as_millis()).unwrap_or(u64::MAX);
        if !outgoing.send(OutgoingMessage::Request(
            chain,
            number,
            millis,
            asked.encode(),
        )) {
            return Err(ForwardError::Untouched);
        }
        // However this ends: the answer is not waited for any more.
        let awaited = asked.may_wait().then(|| Awaited {
            common: &self.common,
            node,
            number,
        });
        let mut told = pin!(tokio::time::timeout(patience, told));
        let told = match (&awaited, asked.poll()) {
            (Some(awaited), Some(poll)) => tokio::select! {
                biased;
                told = &mut told => told,
                // Its answer is still taken: it may have been decided before this arrives.
                () = poll.given_up() => {
                    awaited.withdraw();
                    told.await
                }
            },
            _ => told.await,
        };
        match told {
            // What a newer node says is not understood: it may have been done (WIRE-1).
            Ok(Ok(ForwardedReply::UnknownCode(_))) => Err(ForwardError::Unknown),
            Ok(Ok(told)) => Ok(told),
            Ok(Err(_)) | Err(_) => Err(ForwardError::Unknown),
        }
    }

    /// Where it listens.
    ///
    /// # Errors
    /// [`io::Error`] as the system says.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Counters of the traffic with each node that was ever known.
    pub fn counters(&self) -> BTreeMap<NodeId, PeerCounters> {
        let is_connected = |node| {
            self.common
                .outgoing(node)
                .is_some_and(|it| it.is_connected())
        };
        let traffic = self.common.traffic.lock().clone();
        let counters = traffic.into_iter();
        counters
            .map(|(node, it)| (node, it.counters(is_connected(node))))
            .collect()
    }

    /// Connections that were refused.
    pub fn refused(&self) -> u64 {
        self.common.refused.load(Ordering::Relaxed)
    }

    /// Ends all connections and their threads.
    pub fn close(&self) {
        self.common.is_closed.store(true, Ordering::Relaxed);
        let outgoing = std::mem::take(&mut *self.common.outgoing.write());
        outgoing.values().for_each(|it| it.close());
        // Wakes the thread that listens; one that does not listen any more needs no waking.
        let _ = rustix::net::shutdown(&*self.listener, rustix::net::Shutdown::Both);
        self.common.unknown.close();
        self.common.sessions.close();
        self.common.block_hosts.close();
        self.common.block_calls.close();
        let threads = std::mem::take(&mut *self.threads.lock());
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("a thread between nodes ended by a broken invariant");
            }
        }
    }
}

/// A request whose answer may be long in coming. The node that has it hears when no asker waits for
/// that any more.
struct Awaited<'a> {
    common: &'a PeerContext,
    node: NodeId,
    number: u64,
}

impl Awaited<'_> {
    /// Tells the other node that the request had better not wait.
    fn withdraw(&self) {
        if self.common.version() < Version::FOURTH {
            return;
        }
        if let Some(outgoing) = self.common.outgoing(self.node) {
            outgoing.send(OutgoingMessage::Withdrawal(self.number));
        }
    }
}

impl Drop for Awaited<'_> {
    fn drop(&mut self) {
        let is_answered = self.common.asks.forget(self.node, self.number).is_none();
        if !is_answered {
            self.withdraw();
        }
    }
}

/// The way to the other members of one chain.
struct ChainOutbox {
    peers: Arc<Peers>,
    chain: ChainId,
}

impl Outbox for ChainOutbox {
    fn send(&self, to: NodeId, envelope: Envelope) {
        self.peers.send(to, self.chain, envelope);
    }

    fn ask_blocks(&self, _: NodeId, to: NodeId, asked: &BlockAsked) -> Option<BlockTold> {
        self.peers.ask_blocks(to, self.chain, asked)
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests;
