//! The only place of the store that touches disks: drives `chain` and `services`.
//!
//! A write goes: command -> chain thread -> `services` decides on the newest view -> the chain
//! numbers the entry -> log (group commit) -> applied -> reply. A read is answered on the caller's
//! thread from a snapshot of what is applied.

use std::path::PathBuf;
use std::time::Duration;

use fader_services::catalog::{self, AccessKey, AccountId};
use fader_services::simpledb::{self, Answered, Limits, Request};

/// When a write counts as durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Acknowledged after fdatasync: survives a power cut.
    #[default]
    Disk,
    /// Acknowledged when the operating system has it: survives a crash of the process.
    Os,
}

/// Numbers of a node; every one has a default that works.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The folder of the node's data.
    pub data: PathBuf,
    /// When a write is acknowledged.
    pub durability: Durability,
    /// SimpleDB's limits.
    pub limits: Limits,
    /// How long one page of Select may take.
    pub page_time: Duration,
    /// Bytes of the engine's block cache.
    pub cache_bytes: u64,
    /// Bytes of one log segment.
    pub segment_bytes: u64,
    /// Bytes of applied log kept for members that catch up.
    pub log_retain_bytes: u64,
    /// Requests waiting for the chain thread before new ones are refused.
    pub queue_depth_max: usize,
}

impl Settings {
    /// The defaults, with data in `data`.
    pub fn new(data: PathBuf) -> Self {
        Settings {
            data,
            durability: Durability::Disk,
            limits: Limits::default(),
            page_time: Duration::from_secs(5),
            cache_bytes: 64 << 20,
            segment_bytes: 64 << 20,
            log_retain_bytes: 256 << 20,
            queue_depth_max: 4096,
        }
    }
}

/// A secret that is wiped from memory and never shown by `Debug`.
#[derive(Clone)]
pub struct Secret(zeroize::Zeroizing<String>);

impl Secret {
    /// Wraps a secret.
    pub fn new(text: String) -> Self {
        Secret(zeroize::Zeroizing::new(text))
    }

    /// The secret itself: for signing and for showing once.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// An access key whose secret is open: what verifying a signature needs.
#[derive(Clone, Debug)]
pub struct OpenKey {
    /// The key as stored.
    pub key: AccessKey,
    /// Its secret.
    pub secret: Secret,
}

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
    /// How long it took.
    pub elapsed: Duration,
}

/// Why a node cannot open its data. Every message says what to do.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has the folder.
    #[error("{0}")]
    Locked(String),
    /// The data is damaged; the message says which file and where.
    #[error("{0}")]
    Damaged(String),
    /// The operating system refused.
    #[error("{context}: {source}")]
    Io {
        /// What was tried, on which path.
        context: String,
        /// The cause.
        source: std::io::Error,
    },
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
    /// Requests waiting for the chain thread now.
    pub queue_depth: u64,
    /// The last entry's index that is committed and applied.
    pub commit_index: u64,
    /// The chain's epoch.
    pub epoch: u64,
    /// Bytes of the log on disk.
    pub log_disk_bytes: u64,
    /// Bytes of the engine on disk.
    pub engine_disk_bytes: u64,
}

/// One member with its disk. Cheap to clone; all clones are one node.
#[derive(Clone)]
pub struct Node {}

impl Node {
    /// Opens the data folder, creating it if absent, and recovers.
    ///
    /// # Errors
    /// [`OpenError`]: locked by another process, damaged, or refused by the operating system.
    pub fn open(settings: Settings) -> Result<(Node, Recovery), OpenError> {
        let _ = settings;
        unimplemented!()
    }

    /// Carries out one SimpleDB request for `account`.
    ///
    /// # Errors
    /// [`simpledb::Error`]: a refusal never took effect; `ServiceUnavailable` or `InternalError` on
    /// a write means unknown.
    pub async fn simpledb(
        &self,
        account: &AccountId,
        request: Request,
    ) -> Result<Answered, simpledb::Error> {
        let _ = (account, request);
        unimplemented!()
    }

    /// Carries out a catalog command.
    ///
    /// # Errors
    /// [`catalog::Refusal`].
    pub async fn catalog(&self, command: catalog::Command) -> Result<(), catalog::Refusal> {
        let _ = command;
        unimplemented!()
    }

    /// The key with this id and its secret; `None` when there is none. Cached; a change of the
    /// catalog is seen by the next call. Disabled keys are returned as such.
    ///
    /// # Errors
    /// [`catalog::Refusal::View`] when the store or the seal fails.
    pub fn open_key(&self, id: &str) -> Result<Option<std::sync::Arc<OpenKey>>, catalog::Refusal> {
        let _ = id;
        unimplemented!()
    }

    /// All access keys, by id.
    ///
    /// # Errors
    /// [`catalog::Refusal::View`] when the store fails.
    pub fn keys(&self) -> Result<Vec<AccessKey>, catalog::Refusal> {
        unimplemented!()
    }

    /// Creates an access key with a random id and secret (or the given pair) for `account`.
    ///
    /// # Errors
    /// [`catalog::Refusal`].
    pub async fn create_key(
        &self,
        account: &AccountId,
        pair: Option<(String, Secret)>,
        note: &str,
    ) -> Result<OpenKey, catalog::Refusal> {
        let _ = (account, pair, note);
        unimplemented!()
    }

    /// Creates a key in place of `id`, which is disabled in the same step.
    ///
    /// # Errors
    /// [`catalog::Refusal`].
    pub async fn rotate_key(&self, id: &str) -> Result<OpenKey, catalog::Refusal> {
        let _ = id;
        unimplemented!()
    }

    /// Whether the node can do its work.
    pub fn health(&self) -> Health {
        unimplemented!()
    }

    /// Counters since the start.
    pub fn counters(&self) -> Counters {
        unimplemented!()
    }

    /// Finishes what is queued, makes everything durable and ends the node's threads.
    pub async fn close(&self) {
        unimplemented!()
    }
}
