//! What of a cluster's coordinator concerns one chain.

use std::sync::Arc;
use std::time::Duration;

use fader_chain::controller::Reports;
use fader_chain::{
    ChainId, Configuration, DiskId, Identity, Incarnation, NodeId, Progress, Report, Version,
};

use super::connection::{ANY, Changed};
use super::record::{Content, LifeRecord};
use super::{ZooKeeperCoordinator, read};
use crate::clock::monotonic_ms;
use crate::coordinator::{Coordinator, CoordinatorError, Pinged};

/// A ping of one life counts for the others of its process for this part of a session.
const PING_SHARED: u32 = 20;

/// The coordinator of one chain.
#[derive(Clone)]
pub struct ChainCoordinator {
    all: Arc<ZooKeeperCoordinator>,
    chain: ChainId,
}

impl ChainCoordinator {
    pub(super) fn new(all: Arc<ZooKeeperCoordinator>, chain: ChainId) -> Self {
        ChainCoordinator { all, chain }
    }

    /// The cluster's, of which this is a part.
    pub fn all(&self) -> &Arc<ZooKeeperCoordinator> {
        &self.all
    }

    /// Calls `take` with each life of the chain.
    fn each_life(&self, mut take: impl FnMut(&LifeRecord)) {
        let view = self.all.shared.view();
        let lives = view.sessions.iter().flat_map(|it| &it.record.lives);
        lives
            .filter(|life| life.chain == self.chain)
            .for_each(&mut take);
    }
}

impl Coordinator for ChainCoordinator {
    fn session(&self) -> Duration {
        self.all.shared.cluster.session
    }

    fn version(&self) -> Version {
        self.all.version()
    }

    fn open(
        &self,
        disk: DiskId,
        incarnation: Incarnation,
        shown: Progress,
    ) -> Result<Identity, CoordinatorError> {
        self.all.begin(self.chain, disk, incarnation, shown)
    }

    fn ping(&self, member: Identity) -> Result<Pinged, CoordinatorError> {
        let mut lives = self.all.lives.lock();
        let lives = lives.as_mut().filter(|lives| lives.has(member));
        let lives = lives.ok_or(CoordinatorError::SessionOver)?;
        let age = self.session() / PING_SHARED;
        if let Some(pinged) = lives.others_ping(member, monotonic_ms(), age) {
            return Ok(Pinged(pinged));
        }
        self.all.write(lives)?;
        Ok(Pinged(lives.own_ping(member)))
    }

    fn close(&self, member: Identity) {
        self.all.end(member);
    }

    fn configuration(&self) -> Result<Option<Arc<Configuration>>, CoordinatorError> {
        let view = self.all.shared.view();
        Ok(view.configurations.get(&self.chain).cloned())
    }

    fn publish(&self, expected: u64, next: Configuration) -> Result<bool, CoordinatorError> {
        let path = self.all.shared.chain(self.chain);
        let mut asker = self.all.asker.lock();
        let newest = asker.get(&path, false)?;
        let (epoch, version) = match &newest {
            Some(znode) => (read::<Configuration>(&path, znode)?.epoch, znode.version),
            None => (0, ANY),
        };
        if epoch != expected || next.epoch <= expected {
            return Ok(false);
        }
        let is_published = match newest {
            Some(_) => asker.set(&path, &next.encode(), version)? == Changed::Done,
            None => asker.create(&path, &next.encode())?,
        };
        if is_published {
            self.all.shared.on_published(self.chain, next);
        }
        Ok(is_published)
    }

    fn report(&self, member: Identity, report: Report) {
        let mut lives = self.all.lives.lock();
        let Some(lives) = lives.as_mut() else {
            return;
        };
        // The floor is in no hurry: the next ping says it.
        if !lives.note(member, report) || matches!(report, Report::Floor { .. }) {
            return;
        }
        match self.all.write(lives) {
            Ok(()) => drop(lives.own_ping(member)),
            Err(error) => tracing::warn!(%error, "a report waits for the next ping"),
        }
    }

    fn sessions(&self) -> Vec<Identity> {
        let mut sessions = Vec::new();
        self.each_life(|life| sessions.push(life.identity));
        sessions
    }

    fn reports(&self) -> Reports {
        let mut reports = Reports::default();
        self.each_life(|life| {
            for report in &life.reports {
                reports.note(life.identity.node, *report);
            }
        });
        reports
    }

    fn silent(&self) -> Vec<NodeId> {
        let view = self.all.shared.view();
        let silent = view.sessions.iter().filter(|it| it.is_silent);
        let lives = silent.flat_map(|it| &it.record.lives);
        let lives = lives.filter(|life| life.chain == self.chain);
        lives.map(|life| life.identity.node).collect()
    }

    fn is_reachable(&self) -> bool {
        self.all.is_reachable()
    }

    fn wait(&self, time: Duration) {
        self.all.shared.wait(time);
    }
}
