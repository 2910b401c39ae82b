//! One member of a cluster of processes: its coordinator is ZooKeeper, its way to the others the
//! network. All else is as with members of one process, of which there is one here.
//!
//! Invariants:
//! - P1 a process serves nothing before the coordinator gave its disk a session, under its name.
//! - P2 its session ends, in order, after its member.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use fader_chain::{DiskId, Identity, Incarnation, NodeId, Wiring};
use parking_lot::Mutex;
use tokio::runtime::Handle;

use super::forward::Door;
use super::{Cluster, ClusterSettings, Event, Links, Parts};
use crate::coordinator::{
    ClusterRecord, Coordinator, CoordinatorError, Present, ZooKeeperCoordinator, ZooKeeperSettings,
};
use crate::disk::{Disk, RealDisk};
use crate::lock::FolderLock;
use crate::member::{Folder, random_incarnation};
use crate::peer::{ClusterKey, Outbox, Peer, Peers};
use crate::seal::{self, Seal};
use crate::settings::Settings;
use crate::status::OpenError;

/// The member's folder, in that of the process.
pub(crate) const FOLDER: &str = "member";
/// How often a coordinator that cannot be asked is asked again, and how often that is told.
const AGAIN: Duration = Duration::from_millis(500);
const TELL: Duration = Duration::from_secs(10);

/// What a process needs to be a member of a cluster.
#[derive(Clone, Debug)]
pub struct ProcessSettings {
    /// Its name, one of those that the cluster was made with.
    pub name: String,
    /// Where other members reach it.
    pub peer_listen: SocketAddr,
    /// By which members know each other.
    pub key: ClusterKey,
    /// Where the cluster is kept.
    pub zookeeper: ZooKeeperSettings,
    /// The member's numbers.
    pub member: Settings,
}

/// What a cluster of that many members is made with.
///
/// # Errors
/// [`std::io::Error`] when the system has no randomness.
pub fn new_cluster(
    key: &ClusterKey,
    members: Vec<String>,
    wiring: Wiring,
    session: Duration,
) -> std::io::Result<ClusterRecord> {
    let Incarnation(id) = random_incarnation().map_err(std::io::Error::other)?;
    Ok(ClusterRecord {
        id,
        session,
        wiring,
        key_check: key_check(key, id),
        members,
    })
}

fn key_check(key: &ClusterKey, cluster: u128) -> [u8; 16] {
    let derived = seal::derive(key, b"fader check 1", cluster);
    std::array::from_fn(|at| derived[at])
}

/// What only a member of a cluster of processes has.
pub(super) struct Process {
    coordinator: Arc<ZooKeeperCoordinator>,
    pub(super) peers: Arc<Peers>,
    pub(super) door: Arc<Door>,
    pub(super) me: NodeId,
    /// Names that were heard of: they outlive sessions.
    names: Mutex<BTreeMap<NodeId, String>>,
}

impl Process {
    /// Hears who is there, and where.
    pub(super) fn look(&self) {
        let present = self.coordinator.present();
        let mut names = self.names.lock();
        names.extend(present.iter().map(|it| (it.identity.node, it.name.clone())));
        drop(names);
        // Of two lives on one disk the later one, which has the disk's lock.
        let peers = present.iter().filter_map(|it| {
            let address = it.address.parse().ok()?;
            let disk = it.identity.disk;
            Some((it.identity.node, Peer { address, disk }))
        });
        if let Err(error) = self.peers.know(peers.collect()) {
            tracing::warn!(%error, "a member is not called yet");
        }
    }

    /// The first members: when all that the cluster was made with are there, once each, in that
    /// order.
    pub(super) fn first_members(&self) -> Option<Vec<Identity>> {
        let present = self.coordinator.present();
        let cluster = self.coordinator.cluster();
        if present.len() != cluster.members.len() {
            return None;
        }
        let of = |name: &String| -> Option<Identity> {
            let found = present.iter().find(|it: &&Present| it.name == *name)?;
            Some(found.identity)
        };
        cluster.members.iter().map(of).collect()
    }

    pub(super) fn name(&self, node: NodeId) -> String {
        let names = self.names.lock();
        names
            .get(&node)
            .cloned()
            .unwrap_or_else(|| node.to_string())
    }

    pub(super) fn close(&self) {
        self.peers.close();
    }
}

impl Cluster {
    /// Joins the cluster, waiting for its coordinator. Requests of other processes are carried out
    /// on `runtime`; `tell` hears of what happens.
    ///
    /// # Errors
    /// [`OpenError`].
    pub(crate) fn join(
        settings: ProcessSettings,
        runtime: Handle,
        tell: impl Fn(Event) + Send + Sync + 'static,
    ) -> Result<(Seal, Arc<Cluster>), OpenError> {
        let lock = take_folder(&settings.member)?;
        let listening = |source| OpenError::Io {
            context: format!("listening for members on {}", settings.peer_listen),
            source,
        };
        let listener = TcpListener::bind(settings.peer_listen).map_err(listening)?;
        let address = listener.local_addr().map_err(listening)?;
        let coordinator = patiently(|| {
            let address = address.to_string();
            ZooKeeperCoordinator::join(&settings.zookeeper, &settings.name, &address)
        })?;
        let coordinator = Arc::new(coordinator);
        let cluster = coordinator.cluster().clone();
        if key_check(&settings.key, cluster.id) != cluster.key_check {
            return Err(OpenError::Refused(
                "the cluster key is not that of the cluster: copy the file that \
                 `fader cluster init` wrote"
                    .to_owned(),
            ));
        }
        let seal = Seal::of_cluster(&settings.key, cluster.id);
        let folder = Folder::open(Settings {
            data: settings.member.data.join(FOLDER),
            ..settings.member.clone()
        })?;
        let me = begin(&coordinator, folder.disk(), folder.epoch())?;
        let links = Arc::new(Links::default());
        let door = Arc::new(Door {
            links: links.clone(),
            me: me.node,
            host: OnceLock::new(),
            runtime,
        });
        let starting = |source| OpenError::Io {
            context: "starting the member".to_owned(),
            source,
        };
        let peers =
            Peers::start(listener, me, cluster.id, settings.key, door.clone()).map_err(starting)?;
        let parts = Parts {
            settings: ClusterSettings {
                size: cluster.members.len(),
                wiring: cluster.wiring,
                session: cluster.session,
                delay: Duration::ZERO,
                member: settings.member,
            },
            coordinator: coordinator.clone(),
            links,
            outbox: peers.clone() as Arc<dyn Outbox>,
            folders: vec![folder.data().to_owned()],
            process: Some(Process {
                coordinator,
                peers,
                door,
                me: me.node,
                names: Mutex::default(),
            }),
        };
        let cluster = Self::assemble(parts, lock, tell);
        let slot = &cluster.slots[0];
        let running = cluster.live(folder, me, &starting)?;
        *slot.running.write() = Some(running);
        *slot.node.lock() = Some(me.node);
        cluster.control()?;
        Ok((seal, cluster))
    }
}

fn take_folder(member: &Settings) -> Result<FolderLock, OpenError> {
    let data = &member.data;
    RealDisk
        .create_folder(data)
        .map_err(|source| OpenError::Io {
            context: format!("creating {}", data.display()),
            source,
        })?;
    if data.join("log").exists() {
        return Err(OpenError::InCompany(format!(
            "{} is the folder of a node that is alone: a member of a cluster begins with an empty \
             one",
            data.display()
        )));
    }
    FolderLock::take(data)
}

/// A session for the first life on the disk.
fn begin(
    coordinator: &ZooKeeperCoordinator,
    disk: DiskId,
    epoch: u64,
) -> Result<Identity, OpenError> {
    patiently(|| {
        let incarnation = random_incarnation()
            .map_err(|error| CoordinatorError::Unavailable(error.to_string()))?;
        coordinator.open(disk, incarnation, epoch)
    })
}

/// Asks the coordinator until it can be asked.
fn patiently<T>(ask: impl Fn() -> Result<T, CoordinatorError>) -> Result<T, OpenError> {
    let mut told = None;
    loop {
        match ask() {
            Ok(answer) => return Ok(answer),
            Err(CoordinatorError::Refused(reason)) => return Err(OpenError::Refused(reason)),
            Err(error) => {
                if told.is_none_or(|told: Instant| TELL <= told.elapsed()) {
                    tracing::warn!("waiting: {error}");
                    told = Some(Instant::now());
                }
                std::thread::sleep(AGAIN);
            }
        }
    }
}
