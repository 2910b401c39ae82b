//! The numbers of a node; never its parts.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use fader_chain::{ChainId, ReplicaSettings, Version};
use fader_services::Kind;
use fader_services::request::Limits;

use crate::clock::Clock;
use crate::storage::engine::Engine;
use crate::storage::log::Durability;

/// A chain, and where the collections are whose names it is asked for.
#[derive(Clone, Debug)]
pub struct DomainSource {
    /// The chain.
    pub chain: ChainId,
    /// Where its collections are.
    pub collections: Collections,
}

impl Default for DomainSource {
    /// That of the only chain.
    fn default() -> Self {
        DomainSource {
            chain: ChainId::SYSTEM,
            collections: Collections::Here,
        }
    }
}

/// Where the collections are whose names a chain is asked for.
#[derive(Clone, Debug)]
pub enum Collections {
    /// On the chain itself: it is the only one.
    Here,
    /// On others: this one is the system chain.
    Elsewhere(Arc<Placeable>),
    /// On the chain itself, but their names come and go on the system chain.
    Named,
}

/// What the system chain can put on chains of data, as far as that is known here. There may be more
/// of it later.
#[derive(Debug)]
pub struct Placeable {
    chains: AtomicU32,
    version: AtomicU32,
}

impl Placeable {
    /// So many chains, in a cluster of this version.
    pub(crate) fn new(chains: u32, version: Version) -> Self {
        Placeable {
            chains: AtomicU32::new(chains),
            version: AtomicU32::new(version.0),
        }
    }

    /// There are so many chains.
    pub(crate) fn count(&self, chains: u32) {
        self.chains.fetch_max(chains, Ordering::Relaxed);
    }

    /// The cluster has this version.
    pub(crate) fn rise(&self, version: Version) {
        self.version.fetch_max(version.0, Ordering::Relaxed);
    }

    /// How many chains there are for new collections of a kind; none where all processes do not
    /// know yet that they may be there.
    pub(crate) fn chains_for(&self, kind: Kind) -> Option<u32> {
        let version = Version(self.version.load(Ordering::Relaxed));
        (kind.placed_since() <= version).then(|| self.chains.load(Ordering::Relaxed))
    }
}

/// What stands between each member and its engine: nothing, but in tests, which put faults there.
/// It is given the member's folder.
#[derive(Clone, Default)]
pub struct EngineLayer(Option<Arc<Layer>>);

type Layer = dyn Fn(&Path, Arc<dyn Engine>) -> Arc<dyn Engine> + Send + Sync;

impl EngineLayer {
    /// This one.
    pub fn new(
        layer: impl Fn(&Path, Arc<dyn Engine>) -> Arc<dyn Engine> + Send + Sync + 'static,
    ) -> Self {
        EngineLayer(Some(Arc::new(layer)))
    }

    pub(crate) fn over(&self, folder: &Path, engine: Arc<dyn Engine>) -> Arc<dyn Engine> {
        match &self.0 {
            Some(layer) => layer(folder, engine),
            None => engine,
        }
    }
}

impl fmt::Debug for EngineLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_there = self.0.is_some();
        write!(f, "EngineLayer({is_there})")
    }
}

/// Until all members have heard that a session is over.
const SESSION_SEEN: Duration = Duration::from_secs(2);

/// Numbers of the blocks of objects; every one has a default that works.
#[derive(Clone, Debug)]
pub struct BlockOptions {
    /// Bytes of memory that all uploads may have.
    pub memory_bytes: u64,
    /// Bytes of blocks that are read and compared with their checksums in a second, in the
    /// background; 0 for none.
    pub scrub_bytes_per_second: u64,
    /// Bytes of the disk that blocks leave free for the log, the engine and deletions.
    pub reserve_bytes: u64,
    /// Bytes of one segment.
    pub segment_bytes: u32,
    /// How long the bytes of a version stay after it was replaced or deleted, for reads that are
    /// under way.
    pub garbage_wait: Duration,
    /// How often it is looked for blocks that are to go.
    pub look: Duration,
}

impl Default for BlockOptions {
    fn default() -> Self {
        BlockOptions {
            memory_bytes: 256 << 20,
            scrub_bytes_per_second: 8 << 20,
            reserve_bytes: 1 << 30,
            segment_bytes: 256 << 20,
            garbage_wait: Duration::from_secs(15 * 60),
            look: Duration::from_secs(1),
        }
    }
}

/// Numbers of a node; every one has a default that works.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The folder of the node's data.
    pub data: PathBuf,
    /// When a write is acknowledged.
    pub durability: Durability,
    /// The limits of the services.
    pub limits: Limits,
    /// How long one page of a scan may take.
    pub page_time: Duration,
    /// Bytes of the engine's block cache.
    pub cache_bytes: u64,
    /// Bytes of one log segment.
    pub segment_bytes: u64,
    /// Bytes of applied log kept for members that catch up.
    pub log_retain_bytes: u64,
    /// How often the safe point of a chain may rise, below which marks and bytes of blocks go
    /// (GC-2): each time is an epoch.
    pub safe_point_interval: Duration,
    /// Bytes that this member compares and takes in a second while it is filled by another, so
    /// that clients have the rest (BP-4). Not 0.
    pub fill_bytes_per_second: u64,
    /// How long a member that died counts as one that incarnations (FN-2).
    pub session: Duration,
    /// How long a member may take to confirm, however fast the others are (SL-1).
    pub slow_after: Duration,
    /// The clock of members, their coordinator and their controller; that of several members of
    /// one process is one.
    pub clock: Clock,
    /// Requests waiting for the chain thread before new ones are refused.
    pub queue_depth_max: usize,
    /// The chain, and where collections are.
    pub placing: DomainSource,
    /// Those of blocks of objects.
    pub blocks: BlockOptions,
    /// What stands between a member and its engine.
    pub engine_layer: EngineLayer,
}

impl Settings {
    /// What the replica is told of it.
    pub(crate) fn settings(&self) -> ReplicaSettings {
        let session = self.session + SESSION_SEEN;
        let slow_after = self.slow_after.as_millis() as u64;
        ReplicaSettings {
            fill_bytes_per_second: self.fill_bytes_per_second,
            slow_ms: slow_after,
            head_slow_ms: session.as_millis() as u64,
            ..ReplicaSettings::default()
        }
    }

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
            safe_point_interval: Duration::from_secs(60),
            fill_bytes_per_second: 32 << 20,
            session: Duration::from_secs(2),
            slow_after: Duration::from_secs(1),
            clock: Clock::default(),
            queue_depth_max: 4096,
            placing: DomainSource::default(),
            blocks: BlockOptions::default(),
            engine_layer: EngineLayer::default(),
        }
    }
}
