//! What of a cluster's coordinator concerns one chain.

use std::sync::Arc;
use std::time::Duration;

use fader_chain::controller::Reports;
use fader_chain::membership::{IncarnationRecord, Put, publish};
use fader_chain::{
    ChainId, Configuration, DiskId, Identity, Incarnation, NodeId, Progress, Report, Version,
};
use fader_zookeeper::Changed;

use super::record::Content;
use super::{ZooKeeperCoordinator, read};
use crate::coordinator::{Coordinator, CoordinatorError, PingTime, Wakeup};

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

    /// Calls `take` with each incarnation of the chain.
    fn each_incarnation(&self, mut take: impl FnMut(&IncarnationRecord)) {
        let view = self.all.shared.view();
        let incarnations = view.sessions.iter().flat_map(|it| &it.record.incarnations);
        incarnations
            .filter(|incarnation| incarnation.chain == self.chain)
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

    fn ping(&self, member: Identity) -> Result<PingTime, CoordinatorError> {
        self.all.carrier().ping(member)
    }

    fn close(&self, member: Identity) {
        self.all.end(member);
    }

    fn configuration(&self) -> Result<Option<Arc<Configuration>>, CoordinatorError> {
        let view = self.all.shared.view();
        Ok(view.configurations.get(self.chain).cloned())
    }

    fn publish(&self, expected: u64, next: Configuration) -> Result<bool, CoordinatorError> {
        let path = self.all.shared.chain(self.chain);
        let mut asker = self.all.asker.lock();
        let newest = asker.get(&path, false)?;
        let known = match &newest {
            Some(znode) => Some((read::<Configuration>(&path, znode)?.epoch, znode.version)),
            None => None,
        };
        let is_published = match publish(known, expected, next.epoch) {
            None => return Ok(false),
            Some(Put::Replace(version)) => {
                asker.set(&path, &next.encode(), version)? == Changed::Done
            }
            Some(Put::Create) => asker.create(&path, &next.encode())?,
        };
        if is_published {
            self.all.shared.on_published(self.chain, next);
        }
        Ok(is_published)
    }

    fn report(&self, member: Identity, report: Report) {
        match self.all.carrier().report(member, report) {
            Ok(()) | Err(CoordinatorError::SessionOver) => {}
            Err(error) => tracing::warn!(%error, "a report waits for the next ping"),
        }
    }

    fn sessions(&self) -> Vec<Identity> {
        let mut sessions = Vec::new();
        self.each_incarnation(|incarnation| sessions.push(incarnation.identity));
        sessions
    }

    fn progress(&self, disk: DiskId) -> Result<Progress, CoordinatorError> {
        self.all.noted(disk)
    }

    fn reports(&self) -> Reports {
        let mut reports = Reports::default();
        self.each_incarnation(|incarnation| {
            for report in &incarnation.reports {
                reports.note(incarnation.identity.node, *report);
            }
        });
        reports
    }

    fn silent(&self) -> Vec<NodeId> {
        let view = self.all.shared.view();
        let silent = view.sessions.iter().filter(|it| it.is_silent);
        let incarnations = silent.flat_map(|it| &it.record.incarnations);
        let incarnations = incarnations.filter(|incarnation| incarnation.chain == self.chain);
        incarnations
            .map(|incarnation| incarnation.identity.node)
            .collect()
    }

    fn unheard(&self) -> Vec<Identity> {
        let view = self.all.shared.view();
        let unheard = view.sessions.iter().filter(|it| !it.is_present());
        let incarnations = unheard.flat_map(|it| &it.record.incarnations);
        let incarnations = incarnations.filter(|incarnation| incarnation.chain == self.chain);
        incarnations
            .map(|incarnation| incarnation.identity)
            .collect()
    }

    fn is_reachable(&self) -> bool {
        self.all.is_reachable()
    }

    fn listen(&self, listener: &Arc<Wakeup>) {
        self.all.shared.listeners.add(listener);
    }
}
