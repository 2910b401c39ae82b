//! The coordinator of a member that has no company: its chain is itself, for as long as it lives.
//!
//! The member adopts epochs by itself and has a lease for ever, so nothing is pinged or published
//! here, and no thread asks.

use std::sync::Arc;
use std::time::Duration;

use fader_chain::controller::Reports;
use fader_chain::{
    ChainMember, Configuration, DiskId, Identity, Incarnation, NodeId, Progress, Report, Role,
    UncleanRecovery, Version, Wiring,
};

use super::{Coordinator, CoordinatorError, PingTime, SESSION, Wakeup};

/// The number of a member that has no company.
const ALONE: NodeId = NodeId(1);

/// The coordinator.
pub(crate) struct Alone {
    me: Identity,
    configuration: Arc<Configuration>,
}

impl Alone {
    /// That of an incarnation on a disk.
    pub(crate) fn new(disk: DiskId, incarnation: Incarnation) -> Self {
        let me = Identity {
            node: ALONE,
            incarnation,
            disk,
        };
        let member = ChainMember {
            node: me.node,
            incarnation,
            disk,
            role: Role::Serving,
        };
        let configuration = Configuration {
            epoch: 0,
            wiring: Wiring::Star,
            members: vec![member],
            last_serving: vec![(me.node, disk)],
            absent: Vec::new(),
            safe_point: fader_chain::EntryId::ZERO,
            lossy: UncleanRecovery::default(),
            version: Version::NEWEST,
        };
        Alone {
            me,
            configuration: Arc::new(configuration),
        }
    }

    /// The member.
    pub(crate) fn member(&self) -> Identity {
        self.me
    }
}

impl Coordinator for Alone {
    fn session(&self) -> Duration {
        SESSION
    }

    fn version(&self) -> Version {
        Version::NEWEST
    }

    fn open(
        &self,
        disk: DiskId,
        incarnation: Incarnation,
        _shown: Progress,
    ) -> Result<Identity, CoordinatorError> {
        Ok(Identity {
            node: ALONE,
            incarnation,
            disk,
        })
    }

    fn ping(&self, _member: Identity) -> Result<PingTime, CoordinatorError> {
        Err(CoordinatorError::SessionOver)
    }

    fn close(&self, _member: Identity) {}

    fn configuration(&self) -> Result<Option<Arc<Configuration>>, CoordinatorError> {
        Ok(Some(self.configuration.clone()))
    }

    fn publish(&self, _expected: u64, _next: Configuration) -> Result<bool, CoordinatorError> {
        Ok(false)
    }

    fn report(&self, _member: Identity, _report: Report) {}

    fn sessions(&self) -> Vec<Identity> {
        vec![self.me]
    }

    fn progress(&self, _disk: DiskId) -> Result<Progress, CoordinatorError> {
        Ok(Progress::default())
    }

    fn reports(&self) -> Reports {
        Reports::default()
    }

    fn silent(&self) -> Vec<NodeId> {
        Vec::new()
    }

    fn is_reachable(&self) -> bool {
        true
    }

    fn listen(&self, _listener: &Arc<Wakeup>) {}
}
