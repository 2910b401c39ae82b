//! A coordinator on ZooKeeper (docs/internals/decisions/0007-zookeeper.md).
//!
//! ```text
//! /fader                         what the cluster was made with, and its version
//! /fader/layout                  the nodes and the places of chains, once they were changed
//! /fader/next                    the number that the next disk gets
//! /fader/disks/DISK              its number, its node's name, the greatest epoch it adopted, an
//!                                entry that it had in that one when its last incarnation ended
//! /fader/sessions/NODE-RUN-VER   a process: who, where, its members' lives and what they report;
//!                                written anew by each ping
//! /fader/chains/CHAIN            the configuration of a chain; 0 is the system chain
//! /fader/faults/NODE-CHAIN       what is wrong with a member that takes no part, for people
//! ```
//!
//! A process's session is its znode, and a ping is a write to it, for all incarnations in it:
//! acknowledged when a majority has it. The rules, ZNODE-2 to ZNODE-10, are those of
//! [`fader_chain::membership`]; here is what carries them out. Sessions of ZooKeeper and their
//! time-outs, of which a server that is cut off knows nothing, are not relied on.

mod chain;
mod cluster_status;
mod disks;
mod faults;
mod looker;
mod paths;
mod placement_commands;
mod record;
mod restore;
mod session;
mod watcher;

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use fader_chain::membership::{Keeper, ProcessSession, SessionRecord, risen};
use fader_chain::placement::layout::Layout;
use fader_chain::{ChainId, DiskId, Identity, Incarnation, Progress, Version};
use fader_services::ErrorCode;
use fader_zookeeper::{Changed, Credentials, EnsembleClient, EnsembleConfig, EnsembleError, Znode};
use parking_lot::Mutex;

use super::{CoordinatorError, Outage};
use crate::random;
use crate::secrets::seal::Secret;
use disks::check_progress;
use looker::{WatchError, unspoken};
use paths::layout_path;
use record::{Content, DiskRecord, NAME_MAX, NextNode};
use session::Carrier;
use watcher::{Shared, Watcher};

pub use chain::ChainCoordinator;
pub use cluster_status::{ClusterStatus, StatusReader};
pub use fader_zookeeper::{Tls, TlsError};
pub use faults::FaultOf;
pub use record::ClusterRecord;

/// How long a request may take at most; half a session at most, for then a ping is of no use.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long one of those may take that people make: a server may be busy, and no lease is at stake.
const PATIENCE_OF_PEOPLE: Duration = Duration::from_secs(10);
/// How often a number is asked for, when others ask too.
const TRIES: usize = 64;

/// Where a cluster is kept.
#[derive(Clone, Debug)]
pub struct ZooKeeperSettings {
    /// `host:port` of each server.
    pub hosts: Vec<String>,
    /// The znode below which everything is, such as `/fader`.
    pub root: String,
    /// `user:password`, if the cluster's znodes are to be open to these credentials alone.
    pub credentials: Option<Secret>,
    /// How servers are known, if the way to them is TLS.
    pub tls: Option<Tls>,
}

/// A node with a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveNode {
    /// Who it is.
    pub identity: Identity,
    /// The name it was given.
    pub name: String,
    /// Where other nodes reach it.
    pub address: String,
    /// The lives of its members, with their chains.
    pub members: Vec<(ChainId, Identity)>,
    /// The greatest version that it speaks.
    pub speaks: Version,
    /// Whether it was not heard of for longer than it should be.
    pub is_silent: bool,
}

impl LiveNode {
    fn of(session: &ProcessSession) -> Self {
        let record = &session.record;
        let members = record.incarnations.iter();
        LiveNode {
            identity: record.identity,
            name: record.name.clone(),
            address: record.address.clone(),
            speaks: session.speaks,
            is_silent: session.is_silent,
            members: members
                .map(|incarnation| (incarnation.chain, incarnation.identity))
                .collect(),
        }
    }

    /// Its incarnation on a chain, if it has one.
    pub fn member(&self, chain: ChainId) -> Option<Identity> {
        let mut members = self.members.iter().rev();
        members.find_map(|(of, incarnation)| (*of == chain).then_some(*incarnation))
    }
}

/// What a disk is that a chain waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbsentDisk {
    /// The chain.
    pub chain: ChainId,
    /// The disk.
    pub disk: DiskId,
    /// The name of the node that it belongs to.
    pub node: String,
}

/// The coordinator of a cluster, of which each chain's is a part ([`ZooKeeperCoordinator::chain`]).
pub struct ZooKeeperCoordinator {
    shared: Arc<Shared>,
    name: String,
    address: String,
    /// For all but the session.
    asker: Mutex<EnsembleClient>,
    /// For the session alone.
    pinger: Mutex<EnsembleClient>,
    watcher: Option<JoinHandle<()>>,
}

impl ZooKeeperCoordinator {
    /// Makes a cluster, once.
    ///
    /// # Errors
    /// [`CoordinatorError::Refused`] when there is one already, or its names are none.
    pub fn create(
        settings: &ZooKeeperSettings,
        cluster: &ClusterRecord,
    ) -> Result<(), CoordinatorError> {
        check_root(&settings.root)?;
        cluster
            .members
            .iter()
            .try_for_each(|name| Self::check_name(name))?;
        let mut asker = asker(settings);
        let parents = settings.root.char_indices().skip(1);
        for (at, _) in parents.filter(|(_, letter)| *letter == '/') {
            asker.create(&settings.root[..at], &[])?;
        }
        if asker.create(&settings.root, &cluster.encode())? {
            return Ok(());
        }
        Err(CoordinatorError::refused(
            ErrorCode::AlreadyExists,
            format!(
                "there is a cluster at {} already: another one needs another place",
                settings.root
            ),
        ))
    }

    /// Whether a node can have that name.
    ///
    /// # Errors
    /// [`CoordinatorError::Refused`] when it cannot.
    pub fn check_name(name: &str) -> Result<(), CoordinatorError> {
        match is_name(name) {
            true => Ok(()),
            false => Err(CoordinatorError::refused(
                ErrorCode::CallInvalid,
                format!("{name:?} is no name: at most {NAME_MAX} letters, digits, '-', '.' or '_'"),
            )),
        }
    }

    /// Begins to watch the cluster, for a node with that name and address, whose process speaks all
    /// versions up to that.
    ///
    /// # Errors
    /// [`CoordinatorError`]: `Refused` when there is no cluster, the name is none of its, or its
    /// version is greater.
    pub fn join(
        settings: &ZooKeeperSettings,
        name: &str,
        address: &str,
        speaks: Version,
    ) -> Result<Self, CoordinatorError> {
        let root = &settings.root;
        let mut asker = EnsembleClient::new(Arc::new(place(settings, PATIENCE)));
        let cluster = cluster_at(root, &mut asker)?;
        if speaks < cluster.version {
            return Err(CoordinatorError::refused(
                ErrorCode::ClusterRefused,
                unspoken(cluster.version, speaks),
            ));
        }
        let (layout, _) = layout_at(root, &cluster, &mut asker)?;
        if layout.site(name).is_none() {
            let names: Vec<&str> = layout.sites.iter().map(|site| &*site.name).collect();
            return Err(CoordinatorError::refused(
                ErrorCode::NotFound,
                format!(
                    "{name:?} is none of the cluster's members, which are {}: `fader cluster add` \
                 makes it one",
                    names.join(", ")
                ),
            ));
        }
        for path in ["disks", "sessions", "chains"] {
            asker.create(&format!("{root}/{path}"), &[])?;
        }
        asker.create(&format!("{root}/next"), &NextNode(1).encode())?;
        let patience = PATIENCE.min(cluster.session / 2);
        let place = Arc::new(place(settings, patience));
        let shared = Arc::new(Shared::new(root.clone(), cluster, layout, speaks));
        let watcher = Watcher::start(shared.clone(), EnsembleClient::new(place.clone()))
            .map_err(|error| Outage::system(&error))?;
        Ok(ZooKeeperCoordinator {
            shared,
            name: name.to_owned(),
            address: address.to_owned(),
            asker: Mutex::new(EnsembleClient::new(place.clone())),
            pinger: Mutex::new(EnsembleClient::new(place)),
            watcher: Some(watcher),
        })
    }

    /// What the cluster was made with.
    pub fn cluster(&self) -> &ClusterRecord {
        &self.shared.cluster
    }

    /// The nodes whose sessions are not over, in the order in which they began.
    pub fn live(&self) -> Vec<LiveNode> {
        let view = self.shared.view();
        view.sessions.iter().map(LiveNode::of).collect()
    }

    /// The cluster's version: what may be written to disks, to the coordinator and to others.
    pub fn version(&self) -> Version {
        self.shared.view().cluster.version
    }

    /// Raises the cluster's version, if all processes that it is to have are there and speak more
    /// (ZNODE-9). Says whether it did.
    ///
    /// # Errors
    /// [`CoordinatorError`].
    pub fn raise_version(&self) -> Result<Option<Version>, CoordinatorError> {
        let wanted = {
            let view = self.shared.view();
            let names = view.layout.sites.iter().map(|site| &*site.name);
            risen(view.cluster.version, names, &view.sessions)
        };
        let Some(wanted) = wanted else {
            return Ok(None);
        };
        let root = &self.shared.root;
        let mut asker = self.asker.lock();
        let znode = asker.get(root, false)?.ok_or_else(|| missing(root))?;
        let known: ClusterRecord = read(root, &znode)?;
        if wanted <= known.version {
            return Ok(None);
        }
        let cluster = ClusterRecord {
            version: wanted,
            ..known
        };
        let changed = asker.set(root, &cluster.encode(), znode.version)?;
        if changed != Changed::Done {
            return Ok(None);
        }
        self.shared.on_changed(cluster);
        Ok(Some(wanted))
    }

    /// The name of the node whose disk this is, if that can be asked.
    pub fn name_of(&self, disk: DiskId) -> Option<String> {
        let path = self.shared.disk(disk);
        let znode = self.asker.lock().get(&path, false).ok()??;
        let known: DiskRecord = read(&path, &znode).ok()?;
        Some(known.name)
    }

    /// Whether the coordinator answered when it was asked last.
    pub fn is_reachable(&self) -> bool {
        self.shared.view().is_current
    }

    /// What concerns one chain.
    pub fn chain(self: &Arc<Self>, chain: ChainId) -> ChainCoordinator {
        ChainCoordinator::new(self.clone(), chain)
    }

    /// This process is that of the node whose own disk this is. The number is the disk's for ever.
    ///
    /// # Errors
    /// [`CoordinatorError`]: `Refused` when it is another node's.
    pub fn enter(&self, disk: DiskId) -> Result<Identity, CoordinatorError> {
        let node = self.disk(None, disk, 0)?.node;
        let identity = Identity {
            node,
            incarnation: incarnation()?,
            disk,
        };
        let record = SessionRecord {
            identity,
            name: self.name.clone(),
            address: self.address.clone(),
            incarnations: Vec::new(),
        };
        let session = self.shared.cluster.session;
        self.shared.session.enter(Keeper::new(record, session));
        Ok(identity)
    }

    /// Begins a session of an incarnation, in the session of its process.
    fn begin(
        &self,
        chain: ChainId,
        disk: DiskId,
        incarnation: Incarnation,
        shown: Progress,
    ) -> Result<Identity, CoordinatorError> {
        // First: a process that ends a session has noted what it said.
        let said = self.progress(disk)?;
        let known = self.disk(Some(chain), disk, shown.epoch)?;
        check_progress(&known, shown, said)?;
        let shown = shown.certain();
        let noted = (self.shared).note_progress(&mut self.asker.lock(), disk, shown);
        noted.map_err(CoordinatorError::from)?;
        let member = Identity {
            node: known.node,
            incarnation,
            disk,
        };
        self.carrier()
            .open(chain, member, known.progress.max(shown))?;
        Ok(member)
    }

    /// The process has a session also without a member, or only with one.
    ///
    /// # Errors
    /// [`CoordinatorError`]: it will be so with the next ping.
    pub fn stay(&self, stays: bool) -> Result<(), CoordinatorError> {
        self.carrier().stay(stays)
    }

    /// Pings for the process, if it stays and has no member.
    ///
    /// # Errors
    /// [`CoordinatorError`].
    pub fn ping_alone(&self) -> Result<(), CoordinatorError> {
        self.carrier().ping_alone()
    }

    /// Who carries the requests of the session.
    fn carrier(&self) -> Carrier<'_> {
        Carrier {
            own: &self.shared.session,
            root: &self.shared.root,
            speaks: self.shared.speaks,
            asker: &self.pinger,
        }
    }

    /// An incarnation is over; with the last one the session.
    fn end(&self, member: Identity) {
        let Some(progress) = self.shared.session.close(member) else {
            return;
        };
        self.note_end(member.disk, progress);
        if let Err(error) = self.carrier().leave_out(member) {
            tracing::debug!(%error, "a session stays until its time is over");
        }
    }
}

impl Drop for ZooKeeperCoordinator {
    fn drop(&mut self) {
        self.shared.end();
        if let Some(watcher) = self.watcher.take()
            && watcher.join().is_err()
        {
            tracing::error!("the coordinator's watcher ended by a broken invariant");
        }
    }
}

impl From<EnsembleError> for CoordinatorError {
    fn from(failure: EnsembleError) -> Self {
        Outage::Ensemble(failure).into()
    }
}

impl From<WatchError> for CoordinatorError {
    fn from(trouble: WatchError) -> Self {
        match trouble {
            WatchError::Failure(failure) => failure.into(),
            WatchError::Content(outage) => outage.into(),
            WatchError::Damaged(why) => CoordinatorError::damaged(why),
        }
    }
}

fn incarnation() -> Result<Incarnation, CoordinatorError> {
    Ok(random::incarnation().map_err(|error| Outage::system(&error))?)
}

/// What the cluster was made with.
fn cluster_at(root: &str, asker: &mut EnsembleClient) -> Result<ClusterRecord, CoordinatorError> {
    check_root(root)?;
    asker.sync(root)?;
    let record = asker.get(root, false)?.ok_or_else(|| {
        CoordinatorError::refused(
            ErrorCode::NotFound,
            format!("there is no cluster at {root}: make one with `fader cluster init`"),
        )
    })?;
    if let Some(version) = ClusterRecord::version_of(&record.data) {
        let why = unspoken(version, Version::NEWEST);
        return Err(CoordinatorError::refused(ErrorCode::ClusterRefused, why));
    }
    read(root, &record)
}

/// The layout, and the version of its znode, if it has one.
fn layout_at(
    root: &str,
    cluster: &ClusterRecord,
    asker: &mut EnsembleClient,
) -> Result<(Layout, Option<i32>), CoordinatorError> {
    let path = layout_path(root);
    Ok(match asker.get(&path, false)? {
        Some(znode) => (read(&path, &znode)?, Some(znode.version)),
        None => (cluster.founded(), None),
    })
}

/// What a znode says.
fn read<T: Content>(path: &str, znode: &Znode) -> Result<T, CoordinatorError> {
    T::decode(&znode.data)
        .map_err(|why| CoordinatorError::damaged(format!("the znode {path} {why}")))
}

fn missing(path: &str) -> CoordinatorError {
    CoordinatorError::damaged(format!("there is no znode {path} any more"))
}

/// Who asks for people.
fn asker(settings: &ZooKeeperSettings) -> EnsembleClient {
    EnsembleClient::new(Arc::new(place(settings, PATIENCE_OF_PEOPLE)))
}

fn place(settings: &ZooKeeperSettings, patience: Duration) -> EnsembleConfig {
    EnsembleConfig {
        hosts: settings.hosts.clone(),
        credentials: settings
            .credentials
            .as_ref()
            .map(|it| Credentials::new(it.reveal())),
        tls: settings.tls.clone(),
        patience,
    }
}

fn is_name(name: &str) -> bool {
    let is_known = |letter: char| letter.is_ascii_alphanumeric() || "-._".contains(letter);
    !name.is_empty() && name.len() <= NAME_MAX && name.chars().all(is_known)
}

fn check_root(root: &str) -> Result<(), CoordinatorError> {
    let names = root.strip_prefix('/').map(|names| names.split('/'));
    let is_path = names.is_some_and(|mut names| {
        names.all(|name| is_name(name) && !name.trim_matches('.').is_empty())
    });
    match is_path {
        true => Ok(()),
        false => Err(CoordinatorError::refused(
            ErrorCode::CallInvalid,
            format!("{root:?} is no place in ZooKeeper, such as /fader"),
        )),
    }
}

#[cfg(test)]
mod tests;
