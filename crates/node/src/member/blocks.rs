//! The blocks of a member: its store, opened when there is something in it, and what applied
//! entries say of blocks.
//!
//! ```text
//! applied ─┬─ row of a block removed ──▶ its bytes are free, once the safe point has the removal
//!          └─ row of garbage put ──────▶ the wait of the garbage begins, from the safe point on
//! ```
//!
//! Invariants:
//! - MB-1 bytes of a row that is in the log are not dropped. The chain's thread alone drops what
//!   has no row, between two iterations.
//! - MB-2 bytes are free when their row's removal is at or below the safe point, and no fixed
//!   snapshot is older.
//!
//! Deliberately absent: who asks for what is to go (`request/collect`), and members' messages
//! (`holding`, `sharing`).

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fader_chain::EntryId;
use fader_services::blocks::{self, GarbageAt, Seen, Standpoint};
use parking_lot::{Mutex, RwLock};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::clock;
use crate::settings::BlockOptions;
use crate::status::{BlockFigures, OpenError};
use crate::storage::blocks::{
    BlockBytes, BlockId, BlockRecovery, BlockSettings, Blocks, Origin, PutError,
};
use crate::storage::disk::Disk;
use crate::storage::engine::Pair;

/// Memory of uploads is lent in units of so many bytes.
const LENT_UNIT: u64 = 16 << 10;

fn clock_now() -> Duration {
    Duration::from_millis(clock::monotonic_ms())
}

/// What was done with blocks since the start.
#[derive(Debug, Default)]
pub(crate) struct BlockTally {
    pub(crate) reclaimed_bytes: AtomicU64,
    pub(crate) scrubbed_bytes: AtomicU64,
    pub(crate) missing: AtomicU64,
    pub(crate) removed: AtomicU64,
    pub(crate) garbage_waiting: AtomicU64,
}

/// The blocks of a member.
pub(crate) struct MemberBlocks {
    data: PathBuf,
    disk: Arc<dyn Disk>,
    options: BlockOptions,
    /// When the store was opened: what it found then is as old.
    opened: Duration,
    store: Mutex<Option<Arc<Blocks>>>,
    /// The memory of all uploads, for those who come first.
    memory: Arc<Semaphore>,
    /// Removals that the safe point has not passed.
    removed: Mutex<VecDeque<(EntryId, Vec<BlockId>)>>,
    garbage: Mutex<Seen>,
    /// Whether the member has ended: another incarnation may open the folder.
    is_closed: RwLock<bool>,
    pub(crate) counters: BlockTally,
}

/// Memory that an upload has.
pub(crate) type Lent = OwnedSemaphorePermit;

/// Memory for uploads of so many bytes in all.
pub(crate) fn upload_memory(bytes: u64) -> Arc<Semaphore> {
    let units = usize::try_from(bytes / LENT_UNIT).unwrap_or(usize::MAX);
    Arc::new(Semaphore::new(units.min(Semaphore::MAX_PERMITS)))
}

/// How many bytes of that memory uploads have.
pub(crate) fn lent_bytes(memory: &Semaphore, bytes: u64) -> u64 {
    let lent = (bytes / LENT_UNIT).saturating_sub(memory.available_permits() as u64);
    lent * LENT_UNIT
}

/// A part of it, for so many bytes of an upload: those who ask first have it first.
pub(crate) async fn lend(memory: &Arc<Semaphore>, bytes: u64) -> Option<Lent> {
    let units = u32::try_from(bytes.div_ceil(LENT_UNIT)).ok()?;
    memory.clone().acquire_many_owned(units).await.ok()
}

impl MemberBlocks {
    /// Those in a data folder: what a start finds, if there are any.
    ///
    /// # Errors
    /// [`OpenError`].
    pub(crate) fn open(
        data: PathBuf,
        options: BlockOptions,
        disk: Arc<dyn Disk>,
    ) -> Result<(MemberBlocks, BlockRecovery), OpenError> {
        let blocks = MemberBlocks {
            memory: upload_memory(options.memory_bytes),
            store: Mutex::default(),
            removed: Mutex::default(),
            garbage: Mutex::default(),
            is_closed: RwLock::new(false),
            counters: BlockTally::default(),
            opened: clock_now(),
            data,
            disk,
            options,
        };
        let mut recovery = BlockRecovery::default();
        if blocks.disk.list(&blocks.data.join("blocks")).is_ok() {
            let mut store = blocks.store.lock();
            let (opened, told) = blocks.open_store()?;
            (*store, recovery) = (Some(Arc::new(opened)), told);
        }
        Ok((blocks, recovery))
    }

    fn open_store(&self) -> Result<(Blocks, BlockRecovery), OpenError> {
        let settings = BlockSettings {
            segment_bytes: self.options.segment_bytes,
            memory_bytes: self.options.memory_bytes,
            reserve_bytes: self.options.reserve_bytes,
        };
        Blocks::open(&self.data, settings, &self.disk, self.opened)
    }

    /// When the store was opened, on its clock.
    pub(crate) fn opened(&self) -> Duration {
        self.opened
    }

    /// The time that the store is told: later than when it was opened.
    pub(crate) fn now(&self) -> Duration {
        clock_now().max(self.opened + Duration::from_millis(1))
    }

    /// Its numbers.
    pub(crate) fn options(&self) -> &BlockOptions {
        &self.options
    }

    /// The store, if there is anything in it.
    pub(crate) fn store(&self) -> Option<Arc<Blocks>> {
        self.store.lock().clone()
    }

    /// The store, which is made if absent.
    ///
    /// # Errors
    /// [`OpenError`].
    pub(crate) fn make_store(&self) -> Result<Arc<Blocks>, OpenError> {
        let mut store = self.store.lock();
        if let Some(store) = &*store {
            return Ok(store.clone());
        }
        let made = Arc::new(self.open_store()?.0);
        *store = Some(made.clone());
        Ok(made)
    }

    /// Bytes that are free on the disk.
    ///
    /// # Errors
    /// What the operating system says.
    pub(crate) fn bytes_free(&self) -> io::Result<u64> {
        self.disk.bytes_free(&self.data)
    }

    /// Makes a block durable, whose bytes come from there.
    ///
    /// # Errors
    /// [`PutError`].
    pub(crate) fn hold(&self, bytes: BlockBytes, origin: Origin) -> Result<(), PutError> {
        let is_closed = self.is_closed.read();
        if *is_closed {
            return Err(PutError::Ended);
        }
        let store = self.make_store();
        let store = store.map_err(|error| PutError::Unopened {
            code: error.code,
            words: error.to_string(),
        })?;
        let upload = store.gathered(bytes, origin)?;
        let answers = store.hold(vec![upload], self.now());
        answers.into_iter().collect()
    }

    /// The member has ended: nothing more is written by those who still ask.
    pub(crate) fn close(&self) {
        *self.is_closed.write() = true;
    }

    /// The memory for uploads.
    pub(crate) fn upload_memory(&self) -> Arc<Semaphore> {
        self.memory.clone()
    }

    /// Whether the bytes of all these blocks are held here.
    pub(crate) fn are_held(&self, ids: impl IntoIterator<Item = u128>) -> bool {
        let mut ids = ids.into_iter().peekable();
        if ids.peek().is_none() {
            return true;
        }
        match self.store() {
            None => false,
            Some(store) => ids.all(|id| store.is_held(BlockId(id))),
        }
    }

    /// Rows were changed by entries up to `last`.
    pub(crate) fn on_applied(&self, pairs: &[Pair<'_>], last: EntryId) {
        let mut removed = Vec::new();
        for (key, value) in pairs {
            match value {
                None => removed.extend(blocks::block_of(key).map(BlockId)),
                Some(_) => {
                    if let Some(garbage) = blocks::garbage_of(key) {
                        self.garbage.lock().note(last, garbage);
                    }
                }
            }
        }
        if !removed.is_empty() {
            self.removed.lock().push_back((last, removed));
        }
    }

    /// Drops bytes without a row. Those whose row was removed wait for the safe point.
    pub(crate) fn drop_rowless(&self, ids: &[BlockId]) {
        let removed = self.removed.lock();
        let waiting: BTreeSet<BlockId> = removed.iter().flat_map(|(_, ids)| ids).copied().collect();
        let ids = ids.iter().copied().filter(|id| !waiting.contains(id));
        let ids: Vec<BlockId> = ids.collect();
        if let Some(store) = self.store().filter(|_| !ids.is_empty()) {
            store.remove(&ids);
        }
    }

    /// Frees the bytes whose rows' removals the member's standpoint has passed (MB-2), unless they
    /// have a row again (MB-1).
    pub(crate) fn free(&self, standpoint: &Standpoint, has_row: impl Fn(&BlockId) -> bool) {
        let mut removed = self.removed.lock();
        if removed.is_empty() {
            return;
        }
        let store = self.store();
        while let Some((at, _)) = removed.front()
            && standpoint.may_reclaim(*at)
            && let Some((_, mut ids)) = removed.pop_front()
        {
            ids.retain(|id| !has_row(id));
            if let Some(store) = &store {
                let count = store.remove(&ids);
                self.counters.removed.fetch_add(count, Ordering::Relaxed);
            }
        }
    }

    /// Garbage whose rows the safe point has passed, and whether there is more that was not
    /// remembered.
    pub(crate) fn take_garbage(&self, safe_point: EntryId) -> (Vec<GarbageAt>, bool) {
        self.garbage.lock().take(safe_point)
    }

    /// What it holds and did.
    pub(crate) fn figures(&self) -> BlockFigures {
        let counters = self.store().map(|store| store.counters());
        let counters = counters.unwrap_or_default();
        let lent = lent_bytes(&self.memory, self.options.memory_bytes);
        let read = |number: &AtomicU64| number.load(Ordering::Relaxed);
        BlockFigures {
            blocks: counters.blocks,
            segments: counters.segments,
            alive_bytes: counters.alive_bytes,
            dead_bytes: counters.dead_bytes,
            bad: counters.bad_blocks,
            memory_bytes: counters.memory_bytes + lent,
            syncs: counters.syncs,
            reclaimed_bytes: read(&self.counters.reclaimed_bytes),
            scrubbed_bytes: read(&self.counters.scrubbed_bytes),
            missing: read(&self.counters.missing),
            removed: read(&self.counters.removed),
            garbage_waiting: read(&self.counters.garbage_waiting),
        }
    }
}
