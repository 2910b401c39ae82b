//! Where the members of chains are to be: orders of an operator, and steps of those who carry them
//! out, each by compare-and-set.

use std::sync::Arc;

use fader_chain::controller::abandon;
use fader_chain::placement::layout::{ClusterLimits, Layout, PlacementCommand};
use fader_chain::{ChainId, Configuration, DiskId, Version};
use fader_services::ErrorCode;
use fader_zookeeper::{Changed, EnsembleClient};

use super::cluster_status::{absent_disks, disks_of, is_live};
use super::paths::{chain_path, layout_path};
use super::record::Content;
use super::{TRIES, ZooKeeperCoordinator, ZooKeeperSettings, asker, cluster_at, layout_at, read};
use crate::coordinator::{CoordinatorError, Outage};

impl ZooKeeperCoordinator {
    /// The nodes, and where the members of chains are to be.
    pub fn layout(&self) -> Arc<Layout> {
        self.shared.view().layout.clone()
    }

    /// Changes the layout, if it is still `before`. Says whether it was.
    ///
    /// # Errors
    /// [`CoordinatorError::Unavailable`]: it may have been changed.
    pub fn advance(&self, before: &Layout, next: &Layout) -> Result<bool, CoordinatorError> {
        let mut asker = self.asker.lock();
        let (root, cluster) = (&self.shared.root, &self.shared.cluster);
        let (newest, version) = layout_at(root, cluster, &mut asker)?;
        match newest == *before {
            true if self.version().is_third() => put(root, next, version, &mut asker),
            _ => Ok(false),
        }
    }

    /// The configuration of a chain, as the servers have it now.
    ///
    /// # Errors
    /// [`CoordinatorError::Unavailable`].
    pub(crate) fn newest_of(
        &self,
        chain: ChainId,
    ) -> Result<Option<Configuration>, CoordinatorError> {
        let path = self.shared.chain(chain);
        let mut asker = self.asker.lock();
        asker.sync(&path)?;
        let znode = asker.get(&path, false)?;
        znode.map(|znode| read(&path, &znode)).transpose()
    }

    /// Carries out an operator's order: what the layout is then.
    ///
    /// # Errors
    /// [`CoordinatorError::Refused`] in words.
    pub fn order(
        settings: &ZooKeeperSettings,
        order: &PlacementCommand,
    ) -> Result<Layout, CoordinatorError> {
        let mut asker = asker(settings);
        let root = &settings.root;
        let cluster = cluster_at(root, &mut asker)?;
        if !cluster.version.is_third() {
            return Err(CoordinatorError::refused(
                ErrorCode::ClusterRefused,
                format!(
                    "the cluster is of version {}: members move when all its processes have run \
                     one of version 3",
                    cluster.version
                ),
            ));
        }
        if let (PlacementCommand::Rest(..), true) = (order, cluster.version < Version::FIFTH) {
            return Err(CoordinatorError::refused(
                ErrorCode::ClusterRefused,
                format!(
                    "the cluster is of version {}: nodes rest when all its processes have run \
                     one of version 5",
                    cluster.version
                ),
            ));
        }
        for _ in 0..TRIES {
            let (newest, version) = layout_at(root, &cluster, &mut asker)?;
            let limits = ClusterLimits::of(cluster.version);
            let ordered = newest.ordered(order, &cluster.policy, &limits);
            let next = ordered.map_err(|why| {
                CoordinatorError::refused(ErrorCode::ClusterRefused, why.to_string())
            })?;
            if next == newest || put(root, &next, version, &mut asker)? {
                return Ok(next);
            }
        }
        let znode = layout_path(root);
        Err(Outage::Contended { znode }.into())
    }

    /// No member waits any more for disks of a node that no process has: what only they hold is
    /// lost. How many there were.
    ///
    /// # Errors
    /// [`CoordinatorError`].
    pub fn abandon(settings: &ZooKeeperSettings, node: &str) -> Result<usize, CoordinatorError> {
        let status = Self::look(settings)?;
        let mut asker = asker(settings);
        let mut count = 0;
        for chain in status.configurations.keys().copied() {
            let path = chain_path(&settings.root, chain);
            for _ in 0..TRIES {
                let Some(znode) = asker.get(&path, false)? else {
                    break;
                };
                let newest: Configuration = read(&path, &znode)?;
                let known = disks_of(&settings.root, std::iter::once(&newest), &mut asker)?;
                let name = |disk| known.get(&disk).map(|it| it.name.clone());
                let absent = absent_disks(chain, &newest, name);
                let its = absent.iter().filter(|it| it.node == node);
                let lost = its.filter(|it| !is_live(it, &status.live));
                let disks: Vec<DiskId> = lost.map(|it| it.disk).collect();
                let Ok(next) = abandon(&newest, &disks, |_| false) else {
                    break;
                };
                if asker.set(&path, &next.encode(), znode.version)? == Changed::Done {
                    count += disks.len();
                    break;
                }
            }
        }
        Ok(count)
    }
}

fn put(
    root: &str,
    next: &Layout,
    version: Option<i32>,
    asker: &mut EnsembleClient,
) -> Result<bool, CoordinatorError> {
    let path = layout_path(root);
    let bytes = next.encode();
    Ok(match version {
        Some(version) => asker.set(&path, &bytes, version)? == Changed::Done,
        None => asker.create(&path, &bytes)?,
    })
}
