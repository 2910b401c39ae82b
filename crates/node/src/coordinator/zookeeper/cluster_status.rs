//! The state of a cluster, for a process that is no member of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fader_chain::controller::{ObservedState, Reports};
use fader_chain::membership::{Reading, SILENT, Watch};
use fader_chain::placement::layout::Layout;
use fader_chain::wait_messages;
use fader_chain::{ChainId, Configuration, DiskId, NodeId, Version};

use super::faults::{FaultOf, faults};
use super::looker::{Looked, Looker};
use super::paths::disk_path;
use super::record::{ClusterRecord, DiskRecord};
use super::{
    AbsentDisk, LiveNode, ZooKeeperCoordinator, ZooKeeperSettings, asker, cluster_at, read,
};
use crate::coordinator::CoordinatorError;
use fader_zookeeper::EnsembleClient;

/// Who stays looks this often in the time of a session.
const LOOKS: u32 = 10;

/// How a cluster stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterStatus {
    /// What it was made with.
    pub cluster: ClusterRecord,
    /// The newest configuration of each chain that had a first.
    pub configurations: BTreeMap<ChainId, Configuration>,
    /// The nodes whose sessions have not been ended yet.
    pub live: Vec<LiveNode>,
    /// The nodes, and where the members of chains are to be.
    pub layout: Arc<Layout>,
    /// The disks that chains wait for.
    pub absent: Vec<AbsentDisk>,
    /// What is wrong with members of nodes that are there.
    pub faults: Vec<FaultOf>,
    /// What members reported, by chain.
    reports: BTreeMap<ChainId, Reports>,
    /// The names of the nodes that the members' disks belong to.
    names: BTreeMap<NodeId, String>,
}

impl ClusterStatus {
    /// The name of the node that has this member.
    pub fn name(&self, node: NodeId) -> String {
        let name = self.names.get(&node).cloned();
        name.unwrap_or_else(|| node.to_string())
    }

    /// What is known of a chain that is to have `size` members.
    pub fn observed(&self, chain: ChainId, size: usize) -> ObservedState {
        let incarnations = self.live.iter().filter_map(|it| it.member(chain));
        ObservedState {
            sessions: incarnations.collect(),
            unheard: Vec::new(),
            reports: self.reports.get(&chain).cloned().unwrap_or_default(),
            size,
            unwanted: self.unwanted(chain),
            wiring: self.cluster.wiring,
            role_change: None,
            raise_safe_point: false,
            restart: None,
            version: self.cluster.version,
        }
    }

    /// In words, how a node that leaves is waited for because of a disk; nothing where it stays.
    pub fn awaited(&self, absent: &AbsentDisk) -> Option<String> {
        awaited(absent, &self.layout, &self.live)
    }

    /// The members of a chain that live where none is to be.
    fn unwanted(&self, chain: ChainId) -> Vec<NodeId> {
        let places = self.layout.nodes(chain);
        let elsewhere = self.live.iter().filter(|it| !places.contains(&it.name));
        let incarnations = elsewhere.filter_map(|it| it.member(chain));
        incarnations.map(|incarnation| incarnation.node).collect()
    }

    /// The members of a chain whose processes are silent.
    pub fn silent(&self, chain: ChainId) -> Vec<NodeId> {
        let silent = self.live.iter().filter(|it| it.is_silent);
        let members = silent.filter_map(|it| it.member(chain));
        members.map(|incarnation| incarnation.node).collect()
    }
}

/// A process that is no member of a cluster, and looks at it again and again.
pub struct StatusReader {
    root: String,
    asker: EnsembleClient,
}

impl StatusReader {
    /// No server is asked yet.
    pub fn new(settings: &ZooKeeperSettings) -> Self {
        StatusReader {
            root: settings.root.clone(),
            asker: asker(settings),
        }
    }

    /// How the cluster stands now.
    ///
    /// # Errors
    /// [`CoordinatorError`]: `Refused` when there is no cluster.
    pub fn look(&mut self) -> Result<ClusterStatus, CoordinatorError> {
        look(&self.root, &mut self.asker)
    }
}

impl ZooKeeperCoordinator {
    /// The state of a cluster, for a process that is no member of it.
    ///
    /// # Errors
    /// [`CoordinatorError`]: `Refused` when there is no cluster.
    pub fn look(settings: &ZooKeeperSettings) -> Result<ClusterStatus, CoordinatorError> {
        StatusReader::new(settings).look()
    }

    /// The same, and whose pings do not come: it takes a part of a session.
    ///
    /// # Errors
    /// [`CoordinatorError`]: `Refused` when there is no cluster.
    pub fn look_closely(settings: &ZooKeeperSettings) -> Result<ClusterStatus, CoordinatorError> {
        let mut asker = asker(settings);
        stay(&settings.root, &mut asker, |session| session / SILENT)
    }
}

impl ZooKeeperCoordinator {
    /// The nodes that leave, and that a chain waits for because of disks, in words.
    pub(crate) fn leavers(&self, chain: ChainId, newest: &Configuration) -> Vec<String> {
        let layout = self.layout();
        if !layout.sites.iter().any(|site| site.is_leaving) {
            return Vec::new();
        }
        let live = self.live();
        let absent = absent_disks(chain, newest, |disk| self.name_of(disk)).into_iter();
        absent
            .filter_map(|it| awaited(&it, &layout, &live))
            .collect()
    }
}

/// An operator's look at a cluster.
pub(super) fn look(
    root: &str,
    asker: &mut EnsembleClient,
) -> Result<ClusterStatus, CoordinatorError> {
    stay(root, asker, |_| Duration::ZERO)
}

/// Looks as long as it is to be, of a cluster whose sessions last so long: how the cluster stands
/// at last.
pub(super) fn stay(
    root: &str,
    asker: &mut EnsembleClient,
    time: impl FnOnce(Duration) -> Duration,
) -> Result<ClusterStatus, CoordinatorError> {
    let cluster = cluster_at(root, asker)?;
    let (mut watch, started) = (Watch::new(cluster.session, Version::NEWEST), Instant::now());
    let mut look = || {
        let looker = Looker {
            root,
            asker: &mut *asker,
            watch: &mut watch,
            started,
            speaks: Version::NEWEST,
            is_told: false,
            last: None,
            is_same: false,
            damage: Vec::new(),
        };
        looker.look(|_| 0)
    };
    let mut looked = look()?;
    let began = Instant::now();
    let time = time(cluster.session);
    // More rarely, and what was seen before would not count (NOISE-2).
    let rest = time.min(cluster.session / LOOKS);
    while !time.is_zero() {
        std::thread::sleep(rest);
        let is_last = time <= began.elapsed();
        looked = look()?;
        if is_last {
            break;
        }
    }
    status(root, looked, asker)
}

fn status(
    root: &str,
    looked: Looked,
    asker: &mut EnsembleClient,
) -> Result<ClusterStatus, CoordinatorError> {
    let Reading {
        configurations,
        sessions,
    } = looked.reading;
    let configurations: BTreeMap<ChainId, Configuration> = configurations
        .into_iter()
        .map(|(chain, newest)| (chain, Arc::unwrap_or_clone(newest)))
        .collect();
    let disks = disks_of(root, configurations.values(), asker)?;
    let name = |disk| disks.get(&disk).map(|known| known.name.clone());
    let absent = |(chain, newest): (&ChainId, &Configuration)| absent_disks(*chain, newest, name);
    let absent = configurations.iter().flat_map(absent).collect();
    let mut reports: BTreeMap<ChainId, Reports> = BTreeMap::new();
    for incarnation in sessions.iter().flat_map(|it| &it.record.incarnations) {
        let of = reports.entry(incarnation.chain).or_default();
        let said = incarnation.reports.iter();
        said.for_each(|report| of.note(incarnation.identity.node, *report));
    }
    let mut faults = faults(root, asker)?;
    faults.retain(|it| sessions.iter().any(|of| of.record.name == it.node));
    Ok(ClusterStatus {
        faults,
        names: names(configurations.values(), &disks),
        live: sessions.iter().map(LiveNode::of).collect(),
        cluster: looked.cluster,
        configurations,
        reports,
        layout: looked.layout,
        absent,
    })
}

/// The names of the nodes that have these members. The numbers of their disks tell, and those that
/// configurations give them, which an operator's order may have made another's (AL-7).
fn names<'a>(
    configurations: impl Iterator<Item = &'a Configuration>,
    disks: &BTreeMap<DiskId, DiskRecord>,
) -> BTreeMap<NodeId, String> {
    let spoken_of = configurations.flat_map(Configuration::disks);
    let named = spoken_of.filter_map(|(node, disk)| Some((node, disks.get(&disk)?.name.clone())));
    let known = disks.values().map(|it| (it.node, it.name.clone()));
    named.chain(known).collect()
}

/// What is known of all disks that configurations speak of.
pub(super) fn disks_of<'a>(
    root: &str,
    configurations: impl Iterator<Item = &'a Configuration>,
    asker: &mut EnsembleClient,
) -> Result<BTreeMap<DiskId, DiskRecord>, CoordinatorError> {
    let spoken_of = configurations.flat_map(Configuration::disks);
    let named: BTreeSet<DiskId> = spoken_of.map(|(_, disk)| disk).collect();
    let mut disks = BTreeMap::new();
    for disk in named {
        let path = disk_path(root, disk);
        if let Some(znode) = asker.get(&path, false)? {
            disks.insert(disk, read(&path, &znode)?);
        }
    }
    Ok(disks)
}

/// Whether a process has a disk that a chain waits for.
pub(super) fn is_live(absent: &AbsentDisk, live: &[LiveNode]) -> bool {
    let mut incarnations = live.iter().filter_map(|it| it.member(absent.chain));
    incarnations.any(|incarnation| incarnation.disk == absent.disk)
}

/// In words, how a node that leaves is waited for because of a disk; nothing where it stays.
fn awaited(absent: &AbsentDisk, layout: &Layout, live: &[LiveNode]) -> Option<String> {
    let site = layout.site(&absent.node)?;
    let words = || wait_messages::leaver(&absent.node, absent.chain, is_live(absent, live));
    site.is_leaving.then(words)
}

/// The disks that a chain waits for, with the names of their nodes where those are known.
pub(super) fn absent_disks(
    chain: ChainId,
    newest: &Configuration,
    name: impl Fn(DiskId) -> Option<String>,
) -> Vec<AbsentDisk> {
    let absent = newest.absent.iter().filter_map(|absent| {
        Some(AbsentDisk {
            chain,
            disk: absent.disk,
            node: name(absent.disk)?,
        })
    });
    absent.collect()
}

#[cfg(test)]
mod tests;
