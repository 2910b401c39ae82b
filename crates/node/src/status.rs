//! What a node says of itself: how it started, whether it works, what it did.

use std::time::Duration;
use std::{fmt, io};

use fader_chain::{ChainId, EventualCounts, ReplicaCounters};
use fader_services::{ErrorCode, Reason};

/// What recovery did, for the log and the operator.
#[derive(Clone, Debug, Default)]
pub struct Recovery {
    /// Whether the data folder was empty.
    pub is_first_start: bool,
    /// Segments read, and their bytes.
    pub segments: u64,
    /// Bytes of log read and verified.
    pub bytes_verified: u64,
    /// Entries applied again.
    pub entries_replayed: u64,
    /// Bytes cut off the log's end because the last write was torn, with where they stood.
    pub torn: Option<String>,
    /// Bytes at the log's end that are zeros where a record says it has content: they may have been
    /// acknowledged.
    pub possibly_lost: u64,
    /// Whether the engine was damaged and made anew from the log.
    pub is_rebuilt: bool,
    /// How long it took.
    pub elapsed: Duration,
}

/// Why a node cannot open its data.
#[derive(Debug)]
pub struct OpenError {
    /// Which failure: [`DataLocked`](ErrorCode::DataLocked), another process has the folder.
    /// [`DataDamaged`](ErrorCode::DataDamaged), `context` names the file and the place.
    /// [`DataForeign`](ErrorCode::DataForeign) and [`DataOutdated`](ErrorCode::DataOutdated), it is
    /// the folder of another node, or an older copy (COORD-5).
    /// [`Broken`](Reason::Broken), the thread that began panicked.
    pub code: ErrorCode,
    /// What happened, and where.
    pub context: String,
    /// The cause.
    pub(crate) source: Option<io::Error>,
}

impl OpenError {
    /// A failure without a cause of its own.
    pub(crate) fn new(code: ErrorCode, context: impl Into<String>) -> Self {
        OpenError {
            code,
            context: context.into(),
            source: None,
        }
    }

    /// The data is damaged; `context` names the file and the place.
    pub(crate) fn damaged(context: impl Into<String>) -> Self {
        OpenError::new(ErrorCode::DataDamaged, context)
    }

    /// The operating system refused; `context` is what was tried, on which path.
    pub(crate) fn io(context: impl Into<String>, source: io::Error) -> Self {
        OpenError {
            source: Some(source),
            ..OpenError::new(ErrorCode::IoFailed, context)
        }
    }

    /// Whether the data is damaged.
    pub(crate) fn is_damage(&self) -> bool {
        self.code == ErrorCode::DataDamaged
    }

    /// Whether the thread that began panicked.
    pub(crate) fn is_panic(&self) -> bool {
        self.code == ErrorCode::Refused(Reason::Broken)
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.context)?;
        match &self.source {
            Some(source) => write!(f, ": {source}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        let source = self.source.as_ref();
        source.map(|source| source as &dyn std::error::Error)
    }
}

/// Whether the node can do its work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// Reads and writes.
    Serving,
    /// Reads only, for example since the disk is full. Ends by itself when the cause does.
    ReadOnly(HealthCause),
    /// Nothing is sure any more; the process should end and be started again.
    Failed(HealthCause),
}

/// Why a node does not take writes, or can do nothing any more. `Display` is a sentence for people,
/// without a full stop.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HealthCause {
    /// The disk has no room.
    #[error("{context}")]
    Full {
        /// What was to be written, and the operating system's words.
        context: String,
    },
    /// The disk or the engine failed.
    #[error("{context}")]
    Store {
        /// What was tried, and what came of it.
        context: String,
    },
    /// What is read is not what was written.
    #[error("the store is damaged: {context}")]
    Damaged {
        /// What is damaged.
        context: String,
    },
    /// An entry names a block that is not held, and so may not be in the log (BGATE-1).
    #[error("a record names a block whose bytes are not here")]
    BlockMissing,
    /// The member's thread panicked.
    #[error("{}; see the log", Reason::Broken.sentence())]
    Broken,
    /// The member of a chain in this process is damaged.
    #[error("its member here is damaged")]
    MemberDamaged,
    /// The member of a chain in this process has stopped: its disk knows more than the chain
    /// (LD-2).
    #[error("its member here is ahead by {entries} entries, and has stopped")]
    MemberAhead {
        /// Committed entries that the chain has not.
        entries: u64,
    },
    /// The member of a chain in this process failed, and begins again.
    #[error("its member here {0}")]
    MemberFailed(MemberFailure),
    /// All members of a chain in this process were killed.
    #[error("all members were killed")]
    MembersKilled,
    /// One of several chains in this process.
    #[error("{chain}: {cause}")]
    OfChain {
        /// Which chain.
        chain: ChainId,
        /// What is wrong with it.
        cause: Box<HealthCause>,
    },
}

impl HealthCause {
    /// Which failure.
    pub fn code(&self) -> ErrorCode {
        match self {
            HealthCause::Full { .. } => ErrorCode::Refused(Reason::Store),
            HealthCause::Store { .. } => ErrorCode::StoreFailed,
            HealthCause::Damaged { .. } | HealthCause::MemberDamaged => ErrorCode::DataDamaged,
            HealthCause::BlockMissing => ErrorCode::Refused(Reason::BlocksMissing),
            HealthCause::Broken => ErrorCode::Refused(Reason::Broken),
            HealthCause::MemberAhead { .. } => ErrorCode::DataOutdated,
            HealthCause::MemberFailed(failure) => failure.cause.code(),
            HealthCause::MembersKilled => ErrorCode::Refused(Reason::NoMember),
            HealthCause::OfChain { cause, .. } => cause.code(),
        }
    }

    /// What the store or the operating system said of it.
    pub(crate) fn detail(&self) -> Option<&str> {
        match self {
            HealthCause::Full { context }
            | HealthCause::Store { context }
            | HealthCause::Damaged { context } => Some(context),
            HealthCause::MemberFailed(failure) => failure.cause.detail(),
            HealthCause::OfChain { cause, .. } => cause.detail(),
            HealthCause::BlockMissing
            | HealthCause::Broken
            | HealthCause::MemberDamaged
            | HealthCause::MemberAhead { .. }
            | HealthCause::MembersKilled => None,
        }
    }

    /// The disk has no room, and what was to be written.
    pub(crate) fn full(error: &dyn std::error::Error) -> Self {
        HealthCause::Full {
            context: error.to_string(),
        }
    }

    /// The disk or the engine failed.
    pub(crate) fn store(error: &dyn std::error::Error) -> Self {
        HealthCause::Store {
            context: error.to_string(),
        }
    }

    /// What is read is not what was written.
    pub(crate) fn damaged(error: &dyn std::error::Error) -> Self {
        HealthCause::Damaged {
            context: error.to_string(),
        }
    }
}

/// How often a member failed in a row, and why it failed last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberFailure {
    /// How often in a row: at least once.
    pub times: u32,
    /// The last time.
    pub cause: Box<HealthCause>,
}

impl fmt::Display for MemberFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.times {
            1 => write!(f, "failed: {}", self.cause),
            times => write!(f, "failed {times} times: {}", self.cause),
        }
    }
}

/// Counters since the start, for /metrics.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counters {
    /// Entries made durable.
    pub log_entries: u64,
    /// Bytes of log written.
    pub log_bytes: u64,
    /// Syncs of the log.
    pub log_syncs: u64,
    /// Microseconds spent in those syncs.
    pub log_sync_us: u64,
    /// Bytes of log that the start found to be zeros where a record should be.
    pub log_possibly_lost_bytes: u64,
    /// Requests waiting for the chain thread now.
    pub queue_depth: u64,
    /// Requests that wait now for their collection to change.
    pub parked: u64,
    /// The last entry's index that is committed and applied.
    pub commit_index: u64,
    /// The chain's epoch.
    pub epoch: u64,
    /// Bytes of the log on disk.
    pub log_disk_bytes: u64,
    /// Bytes of the engine on disk.
    pub engine_disk_bytes: u64,
    /// What replication did beside eventual operations.
    pub counters: ReplicaCounters,
    /// Eventual operations.
    pub eventual: EventualCounts,
    /// Blocks of objects.
    pub blocks: BlockFigures,
}

/// What a member holds of blocks of objects, and did with them since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockFigures {
    /// Blocks that are held.
    pub blocks: u64,
    /// Files that they are in.
    pub segments: u64,
    /// Bytes that they take, headers included.
    pub alive_bytes: u64,
    /// Bytes of removed blocks that were not reclaimed yet.
    pub dead_bytes: u64,
    /// Blocks of which bytes are damaged.
    pub bad: u64,
    /// Bytes of memory that uploads have.
    pub memory_bytes: u64,
    /// Syncs of groups of blocks.
    pub syncs: u64,
    /// Bytes of files that were removed.
    pub reclaimed_bytes: u64,
    /// Bytes that were read in the background and compared.
    pub scrubbed_bytes: u64,
    /// Rows without bytes: damage.
    pub missing: u64,
    /// Blocks that were removed with their rows.
    pub removed: u64,
    /// Replaced and deleted objects whose wait is not over.
    pub garbage_waiting: u64,
}

impl BlockFigures {
    fn add(self, other: BlockFigures) -> BlockFigures {
        BlockFigures {
            blocks: self.blocks + other.blocks,
            segments: self.segments + other.segments,
            alive_bytes: self.alive_bytes + other.alive_bytes,
            dead_bytes: self.dead_bytes + other.dead_bytes,
            bad: self.bad + other.bad,
            memory_bytes: self.memory_bytes + other.memory_bytes,
            syncs: self.syncs + other.syncs,
            reclaimed_bytes: self.reclaimed_bytes + other.reclaimed_bytes,
            scrubbed_bytes: self.scrubbed_bytes + other.scrubbed_bytes,
            missing: self.missing + other.missing,
            removed: self.removed + other.removed,
            garbage_waiting: self.garbage_waiting + other.garbage_waiting,
        }
    }
}

impl Counters {
    /// Those of a node by those of its chains: their sums, with the first chain's epoch.
    pub fn of_node(chains: &[(ChainId, Counters)]) -> Counters {
        let mut chains = chains.iter().map(|(_, counters)| *counters);
        let first = chains.next().unwrap_or_default();
        chains.fold(first, Counters::add)
    }

    /// Those of two chains: what adds up, of both; else the first one's.
    fn add(self, other: Counters) -> Counters {
        Counters {
            log_entries: self.log_entries + other.log_entries,
            log_bytes: self.log_bytes + other.log_bytes,
            log_syncs: self.log_syncs + other.log_syncs,
            log_sync_us: self.log_sync_us + other.log_sync_us,
            log_possibly_lost_bytes: self.log_possibly_lost_bytes + other.log_possibly_lost_bytes,
            queue_depth: self.queue_depth + other.queue_depth,
            parked: self.parked + other.parked,
            log_disk_bytes: self.log_disk_bytes + other.log_disk_bytes,
            engine_disk_bytes: self.engine_disk_bytes + other.engine_disk_bytes,
            commit_index: self.commit_index,
            epoch: self.epoch,
            counters: self.counters + other.counters,
            eventual: self.eventual + other.eventual,
            blocks: self.blocks.add(other.blocks),
        }
    }
}
