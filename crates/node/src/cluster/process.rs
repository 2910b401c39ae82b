//! A process of a cluster, with its members of several chains: their coordinator is ZooKeeper,
//! their way to others the network. All else is as with members of one process, of which each
//! chain has at most one here.
//!
//! Each member has threads, a log and an engine of its own. A thread waits for the disk most of its
//! time, so chains that share one would wait for each other's syncs. One with a transfer or a purge
//! would hold up all. What they share is the session, with its ping, and the connections.
//!
//! Invariants:
//! - a process serves nothing before the coordinator gave its disks sessions, under its
//!   name.
//! - its session ends, in order, after its members.
//! - PROC-3 none of its members lives before all its folders were found to be what they should be.
//!   If one is an old copy, nothing is served. One that is damaged waits, and the others live.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use fader_chain::controller::RoleChange;
use fader_chain::placement::layout::Layout;
use fader_chain::placement::preferred_roles::{preferred_role_change, relief};
use fader_chain::{ChainId, Configuration, DiskId, Identity, NodeId};
use parking_lot::RwLock;

use super::forward_server::{ForwardServer, Host};
use super::{Cluster, ClusterSettings, Event, Parts};
use crate::coordinator::{Coordinator, Fault, LiveNode, Wakeup, ZooKeeperCoordinator};
use crate::peer::{Peer, Peers};
use crate::settings::{Collections, DomainSource, Placeable, Settings};
use crate::status::OpenError;
use crate::storage::lock::FolderLock;

/// The members' folders, by the numbers of their chains, in that of the process.
pub(crate) const FOLDER: &str = "chains";

/// The chains of data of a process: more may come.
pub(crate) type DataChains = Arc<RwLock<Vec<Arc<Cluster>>>>;

/// Who hears of what happens to which chain.
pub(super) type Tell = Arc<dyn Fn(ChainId, Event) + Send + Sync>;

/// What the members of one process share.
pub(crate) struct ProcessContext {
    pub(super) name: String,
    pub(super) coordinator: Arc<ZooKeeperCoordinator>,
    pub(super) peers: Arc<Peers>,
    pub(super) door: Arc<ForwardServer>,
    /// What can be put on chains of data.
    pub(super) placeable: Arc<Placeable>,
    /// Last, so that the folder is held until everything else is gone.
    pub(super) _lock: FolderLock,
}

impl ProcessContext {
    /// The connections to other nodes.
    pub(crate) fn peers(&self) -> &Peers {
        &self.peers
    }

    pub(super) fn coordinator(&self) -> &Arc<ZooKeeperCoordinator> {
        &self.coordinator
    }

    /// The nodes, and where the members of chains are to be.
    pub(super) fn layout(&self) -> Arc<Layout> {
        self.coordinator.layout()
    }

    /// This process has a session also without a member, or only with one: it can be given
    /// members.
    pub(super) fn stay(&self, stays: bool) {
        if let Err(error) = self.coordinator.stay(stays) {
            tracing::debug!(%error, "the session changes with its next ping, or ends by time");
        }
    }

    /// Pings for the process where no member does.
    pub(super) fn ping_alone(&self) {
        if let Err(error) = self.coordinator.ping_alone() {
            tracing::debug!(%error, "no ping of a process without a member");
        }
    }

    /// Wakes `listener` whenever something may have changed.
    pub(super) fn listen(&self, listener: &Arc<Wakeup>) {
        self.coordinator.chain(ChainId::SYSTEM).listen(listener);
    }

    /// Chains of data that have begun can be given domains, as far as all before them have.
    pub(super) fn count_placeable(&self, data: &[Arc<Cluster>]) {
        let begun = data.iter().take_while(|it| it.configuration().is_some());
        let count = u32::try_from(begun.count()).unwrap_or(u32::MAX);
        self.placeable.count(count);
    }

    /// Hears who is there, and where.
    pub(super) fn look(&self) {
        match self.coordinator.raise_version() {
            Ok(Some(version)) => tracing::info!(%version, "all processes speak a newer version"),
            Ok(None) => {}
            Err(error) => tracing::debug!(%error, "the version was perhaps not raised"),
        }
        let version = self.coordinator.version();
        self.peers.speak(version);
        self.placeable.rise(version);
        let live = self.coordinator.live();
        let mut names = self.peers.names();
        let mut homes = BTreeMap::new();
        for it in &live {
            names.insert(it.identity.node, it.name.clone());
            for (_, member) in &it.members {
                names.insert(member.node, it.name.clone());
                homes.insert(member.node, it.identity.node);
            }
        }
        drop(names);
        self.peers.house(homes);
        // Of two runs of one node the later one, which has the folder's lock.
        let peers = live.iter().filter_map(|it| {
            let address = it.address.parse().ok()?;
            let disk = it.identity.disk;
            Some((it.identity.node, Peer { address, disk }))
        });
        if let Err(error) = self.peers.know(peers.collect()) {
            tracing::warn!(%error, "a node is not called yet");
        }
        self.peers.need(neighbours(&live, &self.name));
    }

    /// From now on requests of other processes are carried out by `host`.
    pub(crate) fn serve_others(&self, host: Host) {
        // It is set once, by the handle that joins.
        drop(self.door.host.set(host));
    }

    /// Ends the connections, when all members have ended.
    pub(crate) fn close(&self) {
        self.peers.close();
    }
}

/// The nodes that have a member of a chain of which the node of this name has one.
fn neighbours<'a>(live: &'a [LiveNode], name: &str) -> impl Iterator<Item = NodeId> + use<'a> {
    let own = live.iter().filter(|it| it.name == name);
    let own = own.flat_map(|it| &it.members).map(|(chain, _)| *chain);
    let own: BTreeSet<ChainId> = own.collect();
    let shares = move |it: &&LiveNode| it.members.iter().any(|(chain, _)| own.contains(chain));
    live.iter().filter(shares).map(|it| it.identity.node)
}

/// What only a chain of a cluster of processes has.
pub(crate) struct Process {
    pub(super) home: Arc<ProcessContext>,
    pub(crate) chain: ChainId,
}

impl Process {
    /// Hears who is there: one chain does it for all.
    pub(super) fn look(&self) {
        if self.chain == ChainId::SYSTEM {
            self.home.look();
        }
    }

    /// The connections to other nodes.
    pub(crate) fn peers(&self) -> &Peers {
        self.home.peers()
    }

    /// Says to people who look what is wrong with the member here, or that nothing is.
    pub(super) fn say(&self, fault: Option<Fault>) {
        self.home.coordinator.say(self.chain, fault);
    }

    /// The name of this process's node.
    pub(super) fn own_name(&self) -> &str {
        &self.home.name
    }

    /// The nodes that are to have a member of the chain, head first.
    pub(super) fn places(&self) -> Vec<String> {
        self.home.layout().nodes(self.chain).to_vec()
    }

    /// Whether this one is.
    pub(crate) fn is_wanted(&self) -> bool {
        self.home
            .layout()
            .nodes(self.chain)
            .contains(&self.home.name)
    }

    /// The members that live where none is to be.
    pub(super) fn unwanted(&self) -> Vec<NodeId> {
        let (layout, live) = (self.home.layout(), self.home.coordinator.live());
        let places = layout.nodes(self.chain);
        let elsewhere = live.iter().filter(|it| !places.contains(&it.name));
        let incarnations = elsewhere.filter_map(|it| it.member(self.chain));
        incarnations.map(|incarnation| incarnation.node).collect()
    }

    /// The change that brings the head or the tail of a chain of data to its zone.
    pub(super) fn preferred_role_change(&self, newest: &Configuration) -> Option<RoleChange> {
        if self.chain == ChainId::SYSTEM {
            return None;
        }
        let (layout, names) = (self.home.layout(), self.home.peers.names());
        let zone_of = |node| {
            let site = layout.site(names.get(&node)?)?;
            Some(site.zone.as_str()).filter(|_| !site.is_resting)
        };
        preferred_role_change(newest, zone_of, &self.home.coordinator.cluster().policy)
    }

    /// The change that takes the head's role from a node that rests.
    pub(super) fn relief(&self, newest: &Configuration) -> Option<RoleChange> {
        let (layout, names) = (self.home.layout(), self.home.peers.names());
        let site = |node| layout.site(names.get(&node)?);
        relief(newest, |node| {
            site(node).is_some_and(|site| site.is_resting)
        })
    }

    /// The first members: when all that the chain is placed with are there, in that order.
    pub(super) fn first_members(&self) -> Option<Vec<Identity>> {
        let live = self.home.coordinator.live();
        let of = |name: &String| -> Option<Identity> {
            let mut incarnations = live.iter().filter(|it| it.name == *name);
            match (incarnations.next(), incarnations.next()) {
                (Some(only), None) => only.member(self.chain),
                _ => None,
            }
        };
        self.places().iter().map(of).collect()
    }

    /// The name of the node that has this disk, if that can be asked.
    pub(super) fn name_of(&self, disk: DiskId) -> Option<String> {
        self.home.coordinator.name_of(disk)
    }

    /// The nodes that are to have a member of the chain, and are not there with one.
    pub(super) fn missing(&self) -> Vec<String> {
        let live = self.home.coordinator.live();
        let is_there = |name: &String| {
            let mut incarnations = live.iter().filter(|it| it.name == *name);
            incarnations.any(|it| it.member(self.chain).is_some())
        };
        let places = self.places().into_iter();
        places.filter(|name| !is_there(name)).collect()
    }

    /// The name of the node that has the member with this number, if it was heard of.
    pub(super) fn name(&self, node: NodeId) -> Option<String> {
        self.home.peers.names().get(&node).cloned()
    }
}

impl Cluster {
    /// The name of a member that this process may not have heard of: by the disk that the newest
    /// configuration says it has.
    pub(crate) fn name_by_disk(&self, node: NodeId) -> String {
        let by_disk = |process: &Process| match process.name(node) {
            None => {
                let newest = self.configuration()?;
                let (_, disk) = newest.disks().find(|(of, _)| *of == node)?;
                process.name_of(disk)
            }
            known => known,
        };
        let named = self.process.as_ref().and_then(by_disk);
        named.unwrap_or_else(|| self.name(node))
    }

    /// The nodes that leave, and that the chain waits for because of disks, in words.
    pub(crate) fn leavers(&self, newest: &Configuration) -> Vec<String> {
        let process = self.process.as_ref();
        process.map_or_else(Vec::new, |process| {
            let coordinator = &process.home.coordinator;
            coordinator.leavers(process.chain, newest)
        })
    }
}

/// What this process has of a chain; its member does not run yet.
pub(super) fn host(
    home: &Arc<ProcessContext>,
    chain: ChainId,
    member: &Settings,
    tell: impl Fn(Event) + Send + Sync + 'static,
) -> Result<Arc<Cluster>, OpenError> {
    let process = Process {
        home: home.clone(),
        chain,
    };
    // Members that come later have the same share.
    let count = home.layout().chains_at(&home.name).count().max(1);
    let settings = Settings {
        cache_bytes: member.cache_bytes / count as u64,
        placing: DomainSource {
            chain,
            collections: match (chain, home.coordinator.cluster().chains) {
                (ChainId::SYSTEM, 0) => Collections::Here,
                (ChainId::SYSTEM, _) => Collections::Elsewhere(home.placeable.clone()),
                _ => Collections::Named,
            },
        },
        ..member.clone()
    };
    let folder = member.data.join(FOLDER).join(chain.0.to_string());
    let coordinator = home.coordinator.chain(chain);
    let links = home.door.links.write().entry(chain).or_default().clone();
    let parts = Parts {
        settings: ClusterSettings {
            size: 0,
            wiring: home.coordinator.cluster().wiring,
            session: home.coordinator.cluster().session,
            delay: Duration::ZERO,
            member: settings,
        },
        links,
        outbox: home.peers.way(chain),
        clocks: home.peers.clocks().clone(),
        folders: vec![folder],
        coordinator: Arc::new(coordinator),
        process: Some(process),
        is_lone: false,
    };
    Ok(Cluster::assemble(parts, None, tell))
}
