//! What an operator orders where all that served last are lost. A chain goes on with what one
//! member has (AL-4), and that may be an old copy of its disk (AL-7).

use fader_chain::controller::{RestoreError, restore};
use fader_chain::wait_messages;
use fader_chain::{ChainId, Configuration, NodeId, Progress};

use super::cluster_status::{ClusterStatus, disks_of, look, stay};
use super::disks::next_node;
use super::paths::{chain_path, disk_path};
use super::record::{Content, DiskRecord};
use super::{ZooKeeperCoordinator, ZooKeeperSettings, asker, cluster_at, layout_at, read};
use crate::coordinator::CoordinatorError;
use fader_services::ErrorCode;
use fader_zookeeper::{Changed, EnsembleClient};

/// A chain about which something is ordered, and all that is known of it.
struct Ordered {
    newest: Configuration,
    /// That of its znode.
    version: i32,
    status: ClusterStatus,
}

impl ZooKeeperCoordinator {
    /// Has a chain go on with what the member of one node has, though others had more (AL-4).
    ///
    /// # Errors
    /// [`CoordinatorError`]: `Refused` with the reason when nothing has to be lost, or the member
    /// cannot go on.
    pub fn restore(
        settings: &ZooKeeperSettings,
        chain: ChainId,
        name: &str,
    ) -> Result<u64, CoordinatorError> {
        let root = &settings.root;
        let mut asker = asker(settings);
        let ordered = ordered(root, &mut asker, chain, name)?;
        let Some(incarnation) = incarnation_of(&ordered.status, chain, name) else {
            return Err(not_restored(&ordered.status, RestoreError::Absent, name));
        };
        let next = ordered.restored(chain, incarnation);
        let next = next.map_err(|why| not_restored(&ordered.status, why, name))?;
        match asker.set(&chain_path(root, chain), &next.encode(), ordered.version)? {
            Changed::Done => Ok(next.epoch),
            _ => Err(CoordinatorError::refused(
                ErrorCode::StateConflict,
                "the chain has just changed: look again".to_owned(),
            )),
        }
    }

    /// Lets a node begin on an old copy of its disk of a chain (AL-7). The disk is another one for
    /// the others, with another number, and no chain counts on it. How far the disks had come that
    /// this is about.
    ///
    /// # Errors
    /// [`CoordinatorError`]: `Refused` with the reason when nothing has to be lost, the node runs,
    /// or no disk of it is known.
    pub fn accept_old_copy(
        settings: &ZooKeeperSettings,
        chain: ChainId,
        name: &str,
    ) -> Result<Vec<Progress>, CoordinatorError> {
        let refused = |why: String| Err(CoordinatorError::refused(ErrorCode::StateConflict, why));
        let root = &settings.root;
        let mut asker = asker(settings);
        // Where all are down no process ends the sessions that are over (FN-2).
        stay(root, &mut asker, |session| session)?;
        let ordered = ordered(root, &mut asker, chain, name)?;
        if incarnation_of(&ordered.status, chain, name).is_some() {
            return refused(format!(
                "{name} runs, with what it has: --yes goes on with it"
            ));
        }
        // No disk has the number 0: only its missing session is to be said.
        match ordered.restored(chain, NodeId(0)) {
            Err(RestoreError::Absent) => {}
            Err(why) => return Err(not_restored(&ordered.status, why, name)),
            Ok(_) => return refused("the chain has just changed: look again".to_owned()),
        }
        let disks = disks_of(root, std::iter::once(&ordered.newest), &mut asker)?;
        let its = disks
            .iter()
            .filter(|(_, known)| known.name == name && known.chain == Some(chain));
        let mut had = Vec::new();
        for (disk, known) in its {
            let path = disk_path(root, *disk);
            let version = asker.get(&path, false)?.map(|znode| znode.version);
            let record = DiskRecord {
                node: next_node(root, &mut asker)?,
                progress: Progress::default(),
                ..known.clone()
            };
            let version = version.unwrap_or_default();
            if asker.set(&path, &record.encode(), version)? != Changed::Done {
                return refused("the disk has just begun: look again".to_owned());
            }
            had.push(known.progress);
        }
        match had.is_empty() {
            true => refused(format!("{name} had no disk of {chain} that is known")),
            false => Ok(had),
        }
    }
}

impl Ordered {
    /// The configuration in which this member goes on alone.
    fn restored(&self, chain: ChainId, member: NodeId) -> Result<Configuration, RestoreError> {
        let observed = self.status.observed(chain, self.newest.size());
        restore(&self.newest, member, &observed.sessions, &observed.reports)
    }
}

/// The chain, if it has begun, of a cluster that has this node.
fn ordered(
    root: &str,
    asker: &mut EnsembleClient,
    chain: ChainId,
    name: &str,
) -> Result<Ordered, CoordinatorError> {
    let refused = |why: String| Err(CoordinatorError::refused(ErrorCode::NotFound, why));
    let cluster = cluster_at(root, asker)?;
    let (layout, _) = layout_at(root, &cluster, asker)?;
    if !layout.chains.contains_key(&chain) {
        return refused(format!("the cluster has no {chain}"));
    }
    if layout.site(name).is_none() {
        let names: Vec<&str> = layout.sites.iter().map(|site| &*site.name).collect();
        let names = names.join(", ");
        return refused(format!(
            "{name} is no node of the cluster, which has {names}"
        ));
    }
    let path = chain_path(root, chain);
    let Some(znode) = asker.get(&path, false)? else {
        return refused(format!(
            "{chain} has not begun: nothing is there to be lost"
        ));
    };
    // Sessions are read after the configuration (ZNODE-5).
    Ok(Ordered {
        newest: read(&path, &znode)?,
        version: znode.version,
        status: look(root, asker)?,
    })
}

/// The member of a chain that a node has now.
fn incarnation_of(status: &ClusterStatus, chain: ChainId, name: &str) -> Option<NodeId> {
    let of = status.live.iter().find(|it| it.name == name);
    of.and_then(|it| it.member(chain))
        .map(|incarnation| incarnation.node)
}

fn not_restored(status: &ClusterStatus, why: RestoreError, name: &str) -> CoordinatorError {
    CoordinatorError::refused(
        ErrorCode::StateConflict,
        wait_messages::not_restored(why, name, |node| status.name(node)),
    )
}
