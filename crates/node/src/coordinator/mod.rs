//! The seam to the coordinator: who lives, who is a member in which epoch, who a disk is
//! (docs/internals/protocol/reconfiguration.md, section 11).
//!
//! It is never asked in the path of an operation: members ping it, hear of configurations, and
//! report. A controller reads the facts and publishes what `fader_chain::controller` says; several
//! at once are harmless, for publishing compares the epoch.
//!
//! Every implementation runs the suite in `tests/coordinator.rs`.

mod local;
mod single_node;
mod wakeup;
mod zookeeper;

use std::sync::Arc;
use std::time::Duration;

use fader_chain::controller::Reports;
use fader_chain::{
    ChainId, Configuration, DiskId, Identity, Incarnation, NodeId, Progress, Report, Version,
};
use fader_services::{ErrorCode, Reason};
use fader_zookeeper::EnsembleError;

pub use local::LocalCoordinator;
pub(crate) use single_node::Alone;
pub use wakeup::Wakeup;
pub use zookeeper::{
    AbsentDisk, ChainCoordinator, ClusterRecord, ClusterStatus, FaultOf, LiveNode, StatusReader,
    Tls, TlsError, ZooKeeperCoordinator, ZooKeeperSettings,
};

/// S: how long after its last ping a session is over (FN-2), where nothing else is said.
pub const SESSION: Duration = Duration::from_secs(2);

/// How long a lease holds from the moment at which an acknowledged ping was sent, by the member's
/// own clock. It is L (1 - rho), with L = S / 2 and clocks that are off by at most a thousandth
/// (FN-3).
pub(crate) fn lease(session: Duration) -> Duration {
    session / 2 * 999 / 1000
}

/// When a ping was sent that was acknowledged: milliseconds of the clock by which leases end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PingTime(pub u64);

/// What is wrong with a member that takes no part in its chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It failed so many times in a row, and begins again.
    Failed(u32),
    /// It has stopped: it knows so many entries committed that its chain has not (LD-2).
    Ahead(u64),
}

/// Why the coordinator did not do it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CoordinatorError {
    /// The session is over: its member begins another incarnation, or ends.
    #[error("the session is over")]
    SessionOver,
    /// It may not be done, now or ever. [`DataForeign`](ErrorCode::DataForeign) and
    /// [`DataOutdated`](ErrorCode::DataOutdated): the disk may have no session (COORD-5).
    #[error("{context}")]
    Refused {
        /// Which failure.
        code: ErrorCode,
        /// What is refused, and why.
        context: String,
    },
    /// It cannot be asked now.
    #[error("the coordinator cannot be asked: {0}")]
    Unavailable(Outage),
}

/// Why the coordinator cannot be asked now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Outage {
    /// ZooKeeper does not answer, or refuses.
    #[error("{0}")]
    Ensemble(EnsembleError),
    /// Others change a znode again and again.
    #[error("too many others write to the znode {znode}")]
    Contended {
        /// Its path.
        znode: String,
    },
    /// The cluster has a version that this process does not speak.
    #[error(
        "the cluster is of version {version}, but this process speaks {speaks} at most: start it \
         with a newer version of Fader"
    )]
    Unspoken {
        /// The cluster's version.
        version: Version,
        /// The greatest version that this process speaks.
        speaks: Version,
    },
    /// A server of ZooKeeper has less than this process has seen.
    #[error(
        "ZooKeeper knows epoch {epoch} of {chain}, but this node epoch {known}: it lags behind, or \
         its history was lost"
    )]
    Behind {
        /// The chain.
        chain: ChainId,
        /// The epoch that ZooKeeper has.
        epoch: u64,
        /// The epoch that this node has.
        known: u64,
    },
    /// The watcher of ZooKeeper began again.
    #[error("the coordinator's watcher lost its place")]
    Unwatched,
    /// The operating system refused: random bytes, a thread, or the coordinator's file.
    #[error("{context}")]
    System {
        /// The operating system's words.
        context: String,
    },
}

impl Outage {
    /// The operating system refused.
    pub(crate) fn system(error: &dyn std::error::Error) -> Self {
        Outage::System {
            context: error.to_string(),
        }
    }
}

impl From<Outage> for CoordinatorError {
    fn from(outage: Outage) -> Self {
        CoordinatorError::Unavailable(outage)
    }
}

impl CoordinatorError {
    /// It may not be done.
    pub(crate) fn refused(code: ErrorCode, context: impl Into<String>) -> Self {
        CoordinatorError::Refused {
            code,
            context: context.into(),
        }
    }

    /// What is kept of the cluster is not what Fader wrote.
    pub(crate) fn damaged(context: impl Into<String>) -> Self {
        CoordinatorError::refused(ErrorCode::CoordinatorDamaged, context)
    }

    /// Which failure.
    pub fn code(&self) -> ErrorCode {
        match self {
            CoordinatorError::SessionOver => ErrorCode::Refused(Reason::IncarnationOver),
            CoordinatorError::Refused { code, .. } => *code,
            CoordinatorError::Unavailable(_) => ErrorCode::CoordinatorUnavailable,
        }
    }

    /// The disk has less than it had.
    fn old_disk(node: NodeId, shown: Progress, known: Progress) -> Self {
        let what = match shown.epoch == known.epoch {
            false => format!(
                "has adopted epoch {}, but its disk was in epoch {}",
                shown.epoch, known.epoch
            ),
            true => format!(
                "ends at entry {} in epoch {}, but its disk had entry {} then",
                shown.last, shown.epoch, known.last
            ),
        };
        CoordinatorError::refused(
            ErrorCode::DataOutdated,
            format!(
                "the folder of {node} {what}: it is an old copy. Remove the folder, and the node \
                 joins with an empty one; or, if nothing newer of the chain is left anywhere, \
                 let it begin with `fader cluster restore --accept-loss`"
            ),
        )
    }

    fn history_lost(epoch: u64, newest: u64) -> Self {
        CoordinatorError::refused(
            ErrorCode::DataOutdated,
            format!(
                "the folder has adopted epoch {epoch}, but the coordinator knows none beyond \
                 {newest}: its history was lost, or it is another cluster's. Restore it to its \
                 newest state"
            ),
        )
    }
}

/// The coordinator of one chain.
pub trait Coordinator: Send + Sync {
    /// S: how long after its last ping a session is over. The same for all members.
    fn session(&self) -> Duration;

    /// The cluster's version: what may be written to disks, to the coordinator and to others.
    fn version(&self) -> Version;

    /// Begins a session of an incarnation on a disk that shows this. The node number is the disk's
    /// for ever; a new disk gets a new one (COORD-2). One that shows less than its incarnations
    /// reported is an old copy, and gets no session (COORD-5). What it shows is noted.
    ///
    /// # Errors
    /// [`CoordinatorError`].
    fn open(
        &self,
        disk: DiskId,
        incarnation: Incarnation,
        shown: Progress,
    ) -> Result<Identity, CoordinatorError>;

    /// Says that an incarnation goes on, and when that was said, by the clock of leases: its
    /// session ends no earlier than S after (COORD-3). Where one ping says it of several lives, it
    /// may have been said before this was called.
    ///
    /// # Errors
    /// [`CoordinatorError::SessionOver`].
    fn ping(&self, member: Identity) -> Result<PingTime, CoordinatorError>;

    /// Ends a session of an incarnation that answers no request any more.
    fn close(&self, member: Identity);

    /// The newest configuration; none before the first.
    ///
    /// # Errors
    /// [`CoordinatorError::Unavailable`].
    fn configuration(&self) -> Result<Option<Arc<Configuration>>, CoordinatorError>;

    /// Publishes `next` if the newest configuration is that of epoch `expected`, 0 for none. Says
    /// whether it was (COORD-1).
    ///
    /// # Errors
    /// [`CoordinatorError::Unavailable`]: it may have been published.
    fn publish(&self, expected: u64, next: Configuration) -> Result<bool, CoordinatorError>;

    /// Takes what a member reports; of a session that is over it is nothing.
    fn report(&self, member: Identity, report: Report);

    /// The lives whose sessions are not over. Asked after a configuration, it leaves out none of
    /// its members. A process that asks before it may take one that has just joined for dead.
    fn sessions(&self) -> Vec<Identity>;

    /// How far a disk came, as its incarnations showed when they began and reported since. It
    /// counts as far as that is durable; nothing for one that is unknown (COORD-5).
    ///
    /// # Errors
    /// [`CoordinatorError::Unavailable`].
    fn progress(&self, disk: DiskId) -> Result<Progress, CoordinatorError>;

    /// What members reported.
    fn reports(&self) -> Reports;

    /// The members whose sessions are not over, but whose pings have not come for a part of one.
    fn silent(&self) -> Vec<NodeId>;

    /// Those of them, and the members that were not heard of since this process asks: they may be
    /// gone.
    fn unheard(&self) -> Vec<Identity> {
        let silent = self.silent();
        let mut sessions = self.sessions();
        sessions.retain(|member| silent.contains(&member.node));
        sessions
    }

    /// Whether it could be asked the last time.
    fn is_reachable(&self) -> bool;

    /// Wakes `listener` whenever something may have changed, as long as it is there (COORD-4). That
    /// a session is over by time is a change where others tell it, and none where this process
    /// counts the time itself ([`LocalCoordinator`]).
    fn listen(&self, listener: &Arc<Wakeup>);
}
