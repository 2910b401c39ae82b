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
    /// Reads only; the reason, such as a full disk. Ends by itself when the cause does.
    ReadOnly(String),
    /// Nothing is sure any more; the process should end and be started again.
    Failed(String),
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
