//! How a process becomes a member of a cluster: with the cluster's key, a name, and a folder of its
//! own. And what a cluster is made of, before there is one.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fader_chain::placement::PlacementPolicy;
use fader_chain::{ChainId, DiskId, Incarnation, Version, Wiring};
use fader_services::ErrorCode;
use parking_lot::RwLock;
use tokio::runtime::Handle;

use super::beginning::patiently;
use super::forward_server::ForwardServer;
use super::process::{DataChains, FOLDER, ProcessContext, Tell, host};
use super::supervisor::{MemberSupervisor, sweep};
use super::{Cluster, Event};
use crate::coordinator::{ClusterRecord, ZooKeeperCoordinator, ZooKeeperSettings};
use crate::member::Folder;
use crate::peer::{ClusterKey, Peers};
use crate::random;
use crate::secrets::seal::{self, Seal};
use crate::settings::{Placeable, Settings};
use crate::status::OpenError;
use crate::storage::disk::{Disk, RealDisk};
use crate::storage::lock::FolderLock;

/// What the folder of the only member was called when there was one chain.
const FOLDER_OF_ONE: &str = "member";
/// The file with the name of the node's own disk.
const NODE_FILE: &str = "node";
const NODE_FILE_NEW: &str = "node.new";

/// What a process needs to be a member of a cluster.
#[derive(Clone, Debug)]
pub struct ProcessSettings {
    /// The node's name, one of those that the cluster was made with.
    pub name: String,
    /// Where other nodes reach it.
    pub peer_listen: SocketAddr,
    /// By which members know each other.
    pub key: ClusterKey,
    /// Where the cluster is kept.
    pub zookeeper: ZooKeeperSettings,
    /// The greatest version of the cluster that it speaks: less than it could, to be able to go
    /// back to an older one.
    pub speaks: Version,
    /// The numbers of each member; the cache is that of all.
    pub member: Settings,
}

/// What a cluster is to be made of.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The version that its processes must speak.
    pub version: Version,
    /// The names of its nodes, each with its zone.
    pub nodes: Vec<(String, String)>,
    /// How many chains it is to have beside the system chain.
    pub chains: u32,
    /// How those are placed.
    pub policy: PlacementPolicy,
    /// How entries travel.
    pub wiring: Wiring,
    /// How long a node that is not heard of counts as alive.
    pub session: Duration,
}

/// What a cluster is made with.
///
/// # Errors
/// [`std::io::Error`] when the system has no randomness.
pub fn new_cluster(key: &ClusterKey, plan: Plan) -> std::io::Result<ClusterRecord> {
    let Incarnation(id) = random::incarnation().map_err(std::io::Error::other)?;
    let (members, zones) = plan.nodes.into_iter().unzip();
    Ok(ClusterRecord {
        version: plan.version,
        id,
        session: plan.session,
        wiring: plan.wiring,
        key_check: key_check(key, id),
        members,
        zones,
        chains: plan.chains,
        policy: plan.policy,
    })
}

fn key_check(key: &ClusterKey, cluster: u128) -> [u8; 16] {
    let derived = seal::derive(key, b"fader check 1", cluster);
    std::array::from_fn(|at| derived[at])
}

/// What joining comes to: what seals, what members share, and all chains by number.
pub(crate) struct Joined {
    pub(crate) seal: Seal,
    pub(crate) home: Arc<ProcessContext>,
    pub(crate) system: Arc<Cluster>,
    pub(crate) data: DataChains,
    pub(crate) supervisor: MemberSupervisor,
}

/// Joins the cluster, waiting for its coordinator. Requests of other processes are carried out on
/// `runtime`; `tell` hears of what happens.
///
/// # Errors
/// [`OpenError`].
pub(crate) fn join(
    settings: ProcessSettings,
    runtime: Handle,
    tell: impl Fn(ChainId, Event) + Send + Sync + 'static,
) -> Result<Joined, OpenError> {
    let lock = take_folder(&settings.member)?;
    let listening = |source| {
        OpenError::io(
            format!("listening for nodes on {}", settings.peer_listen),
            source,
        )
    };
    let listener = TcpListener::bind(settings.peer_listen).map_err(|source| OpenError {
        code: ErrorCode::AddressUnavailable,
        ..listening(source)
    })?;
    let address = listener.local_addr().map_err(listening)?;
    let coordinator = patiently(|| {
        let address = address.to_string();
        ZooKeeperCoordinator::join(
            &settings.zookeeper,
            &settings.name,
            &address,
            settings.speaks,
        )
    })?;
    let coordinator = Arc::new(coordinator);
    let cluster = coordinator.cluster().clone();
    if key_check(&settings.key, cluster.id) != cluster.key_check {
        return Err(OpenError::new(
            ErrorCode::ClusterKeyWrong,
            "the cluster key is not that of the cluster: copy the file that \
             `fader cluster init` wrote",
        ));
    }
    let seal = Seal::of_cluster(&settings.key, cluster.id);
    let disk = node_disk(&settings.member.data)?;
    let me = patiently(|| coordinator.enter(disk))?;
    let door = Arc::new(ForwardServer::new(runtime));
    let starting = |source| OpenError::io("starting to listen for nodes", source);
    let peers = Peers::start(
        listener,
        me,
        cluster.id,
        cluster.session,
        settings.key,
        door.clone(),
    );
    let peers = peers.map_err(starting)?;
    let home = Arc::new(ProcessContext {
        name: settings.name,
        coordinator,
        peers,
        door,
        placeable: Arc::new(Placeable::new(cluster.chains, cluster.version)),
        _lock: lock,
    });
    let tell: Tell = Arc::new(tell);
    let (system, data) = begin_all(&home, &settings.member, &tell)?;
    let (of_home, of_system) = (home.clone(), system.clone());
    let supervisor = MemberSupervisor::start(of_home, of_system, &data, settings.member, tell)
        .map_err(starting)?;
    Ok(Joined {
        seal,
        home,
        system,
        data,
        supervisor,
    })
}

/// Begins to take part in all chains: the system chain, and those of data.
fn begin_all(
    home: &Arc<ProcessContext>,
    member: &Settings,
    tell: &Tell,
) -> Result<(Arc<Cluster>, DataChains), OpenError> {
    let layout = home.layout();
    let clusters = layout.chains.keys().map(|chain| {
        let (chain, tell) = (*chain, tell.clone());
        host(home, chain, member, move |event| tell(chain, event))
    });
    let mut clusters: Vec<Arc<Cluster>> = clusters.collect::<Result<_, OpenError>>()?;
    let folders = clusters.iter().map(|cluster| cluster.open_checked());
    let folders: Vec<Option<Folder>> = folders.collect::<Result<_, OpenError>>()?;
    for (cluster, folder) in clusters.iter().zip(folders) {
        folder.map_or(Ok(()), |folder| cluster.begin(folder))?;
    }
    for cluster in &clusters {
        cluster.control()?;
    }
    let system = clusters.remove(0);
    Ok((system, Arc::new(RwLock::new(clusters))))
}

fn take_folder(member: &Settings) -> Result<FolderLock, OpenError> {
    let data = &member.data;
    let creating = |source| OpenError::io(format!("creating {}", data.display()), source);
    RealDisk.create_folder(data).map_err(creating)?;
    if data.join("log").exists() {
        return Err(OpenError::new(
            ErrorCode::DataForeign,
            format!(
                "{} is the folder of a node that is alone: a member of a cluster begins with an \
                 empty one",
                data.display()
            ),
        ));
    }
    let lock = FolderLock::take(data)?;
    let chains = data.join(FOLDER);
    RealDisk.create_folder(&chains).map_err(creating)?;
    sweep(&chains).map_err(creating)?;
    // There was one chain, and this was its member.
    let (old, new) = (data.join(FOLDER_OF_ONE), chains.join("0"));
    if old.exists() && !new.exists() {
        std::fs::rename(&old, &new).map_err(creating)?;
    }
    Ok(lock)
}

/// Whether a folder is that of a process of a cluster.
pub(crate) fn is_its_folder(data: &Path) -> bool {
    data.join(FOLDER).exists() || data.join(FOLDER_OF_ONE).exists()
}

/// The name of the node's own disk, chosen when its folder was new. Nothing is lost with it: a node
/// whose file is gone gets another number, and its members keep theirs.
fn node_disk(data: &Path) -> Result<DiskId, OpenError> {
    let path = data.join(NODE_FILE);
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    if let Ok(disk) = u128::from_str_radix(text.trim(), 16) {
        return Ok(DiskId(disk));
    }
    let made = || -> std::io::Result<DiskId> {
        let Incarnation(disk) = random::incarnation().map_err(std::io::Error::other)?;
        let new: PathBuf = data.join(NODE_FILE_NEW);
        std::fs::write(&new, format!("{disk:032x}\n"))?;
        std::fs::rename(&new, &path)?;
        Ok(DiskId(disk))
    };
    made().map_err(|source| OpenError::io(format!("writing {}", path.display()), source))
}
