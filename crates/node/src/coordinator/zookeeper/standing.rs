//! How a cluster stands, for whoever is no member of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fader_chain::controller::{Facts, Reports};
use fader_chain::membership::{Reading, SILENT, Watch};
use fader_chain::placement::layout::Layout;
use fader_chain::words;
use fader_chain::{ChainId, Configuration, DiskId, NodeId, Version};

use super::faults::{FaultOf, faults};
use super::looker::{Looked, Looker};
use super::paths::disk_path;
use super::record::{ClusterRecord, DiskRecord};
use super::{AwayDisk, Present, ZooKeeperCoordinator, ZooKeeperSettings, asker, cluster_at, read};
use crate::coordinator::CoordinatorError;
use fader_zookeeper::Asker;

/// Who stays looks this often in the time of a session.
const LOOKS: u32 = 10;

/// How a cluster stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// What it was made with.
    pub cluster: ClusterRecord,
    /// The newest configuration of each chain that had a first.
    pub configurations: BTreeMap<ChainId, Configuration>,
    /// The nodes whose sessions nobody has ended yet.
    pub present: Vec<Present>,
    /// The nodes, and where the members of chains are to be.
    pub layout: Layout,
    /// The disks that chains wait for.
    pub away: Vec<AwayDisk>,
    /// What is wrong with members of nodes that are there.
    pub faults: Vec<FaultOf>,
    /// What members reported, by chain.
    reports: BTreeMap<ChainId, Reports>,
    /// The names of the nodes that the members' disks belong to.
    names: BTreeMap<NodeId, String>,
}

impl Standing {
    /// The name of the node that has this member.
    pub fn name(&self, node: NodeId) -> String {
        let name = self.names.get(&node).cloned();
        name.unwrap_or_else(|| node.to_string())
    }

    /// What is known of a chain that is to have `size` members.
    pub fn facts(&self, chain: ChainId, size: usize) -> Facts {
        let lives = self.present.iter().filter_map(|it| it.member(chain));
        Facts {
            sessions: lives.collect(),
            unheard: Vec::new(),
            reports: self.reports.get(&chain).cloned().unwrap_or_default(),
            size,
            unwanted: self.unwanted(chain),
            wiring: self.cluster.wiring,
            shift: None,
            raise_floor: false,
            restart: None,
            version: self.cluster.version,
        }
    }

    /// In words, how a node that leaves is waited for because of a disk; nothing where it stays.
    pub fn awaited(&self, away: &AwayDisk) -> Option<String> {
        awaited(away, &self.layout, &self.present)
    }

    /// The members of a chain that live where none is to be.
    fn unwanted(&self, chain: ChainId) -> Vec<NodeId> {
        let places = self.layout.nodes(chain);
        let elsewhere = self.present.iter().filter(|it| !places.contains(&it.name));
        let lives = elsewhere.filter_map(|it| it.member(chain));
        lives.map(|life| life.node).collect()
    }

    /// The members of a chain whose processes are silent.
    pub fn silent(&self, chain: ChainId) -> Vec<NodeId> {
        let silent = self.present.iter().filter(|it| it.is_silent);
        let members = silent.filter_map(|it| it.member(chain));
        members.map(|life| life.node).collect()
    }
}

/// Somebody who is no member of a cluster, and looks at it again and again.
pub struct Onlooker {
    root: String,
    asker: Asker,
}

impl Onlooker {
    /// Nobody is asked yet.
    pub fn new(settings: &ZooKeeperSettings) -> Self {
        Onlooker {
            root: settings.root.clone(),
            asker: asker(settings),
        }
    }

    /// How the cluster stands now.
    ///
    /// # Errors
    /// [`CoordinatorError`]: `Refused` when there is no cluster.
    pub fn look(&mut self) -> Result<Standing, CoordinatorError> {
        look(&self.root, &mut self.asker)
    }
}

impl ZooKeeperCoordinator {
    /// How a cluster stands, for whoever is no member of it.
    ///
    /// # Errors
    /// [`CoordinatorError`]: `Refused` when there is no cluster.
    pub fn look(settings: &ZooKeeperSettings) -> Result<Standing, CoordinatorError> {
        Onlooker::new(settings).look()
    }

    /// The same, and whose pings do not come: it takes a part of a session.
    ///
    /// # Errors
    /// [`CoordinatorError`]: `Refused` when there is no cluster.
    pub fn look_closely(settings: &ZooKeeperSettings) -> Result<Standing, CoordinatorError> {
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
        let present = self.present();
        let away = away_of(chain, newest, |disk| self.name_of(disk)).into_iter();
        away.filter_map(|it| awaited(&it, &layout, &present))
            .collect()
    }
}

/// An operator's look at a cluster.
pub(super) fn look(root: &str, asker: &mut Asker) -> Result<Standing, CoordinatorError> {
    stay(root, asker, |_| Duration::ZERO)
}

/// Looks as long as it is to be, of a cluster whose sessions last so long: how the cluster stands
/// at last.
pub(super) fn stay(
    root: &str,
    asker: &mut Asker,
    time: impl FnOnce(Duration) -> Duration,
) -> Result<Standing, CoordinatorError> {
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
        };
        looker.look(|_| 0)
    };
    let mut looked = look()?;
    let began = Instant::now();
    let time = time(cluster.session);
    // More rarely, and what was seen before would not count (Z2).
    let rest = time.min(cluster.session / LOOKS);
    while !time.is_zero() {
        std::thread::sleep(rest);
        let is_last = time <= began.elapsed();
        looked = look()?;
        if is_last {
            break;
        }
    }
    standing(root, looked, asker)
}

fn standing(root: &str, looked: Looked, asker: &mut Asker) -> Result<Standing, CoordinatorError> {
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
    let away = |(chain, newest): (&ChainId, &Configuration)| away_of(*chain, newest, name);
    let away = configurations.iter().flat_map(away).collect();
    let mut reports: BTreeMap<ChainId, Reports> = BTreeMap::new();
    for life in sessions.iter().flat_map(|it| &it.record.lives) {
        let of = reports.entry(life.chain).or_default();
        let said = life.reports.iter();
        said.for_each(|report| of.note(life.identity.node, *report));
    }
    let mut faults = faults(root, asker)?;
    faults.retain(|it| sessions.iter().any(|of| of.record.name == it.node));
    Ok(Standing {
        faults,
        names: names(configurations.values(), &disks),
        present: sessions.iter().map(Present::of).collect(),
        cluster: looked.cluster,
        configurations,
        reports,
        layout: looked.layout,
        away,
    })
}

/// The names of the nodes that have these members: by the numbers of their disks, and by those that
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
    asker: &mut Asker,
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
pub(super) fn lives(away: &AwayDisk, present: &[Present]) -> bool {
    let mut lives = present.iter().filter_map(|it| it.member(away.chain));
    lives.any(|life| life.disk == away.disk)
}

/// In words, how a node that leaves is waited for because of a disk; nothing where it stays.
fn awaited(away: &AwayDisk, layout: &Layout, present: &[Present]) -> Option<String> {
    let site = layout.site(&away.node)?;
    let words = || words::leaver(&away.node, away.chain, lives(away, present));
    site.is_leaving.then(words)
}

/// The disks that a chain waits for, with the names of their nodes where those are known.
pub(super) fn away_of(
    chain: ChainId,
    newest: &Configuration,
    name: impl Fn(DiskId) -> Option<String>,
) -> Vec<AwayDisk> {
    let away = newest.away.iter().filter_map(|away| {
        Some(AwayDisk {
            chain,
            disk: away.disk,
            node: name(away.disk)?,
        })
    });
    away.collect()
}

#[cfg(test)]
mod tests;
