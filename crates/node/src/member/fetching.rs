//! What of other members waits for bytes of blocks, and the thread that fetches them.
//!
//! Deliberately absent: who waits, and what is done with what may go on (`holding`).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use fader_chain::{EntryId, Envelope, NodeId};
use fader_services::blocks::Intake;
use parking_lot::Mutex;

use super::blocks::MemberBlocks;
use crate::clock;
use crate::peer::{BlockAsked, BlockTold, Outbox};
use crate::storage::blocks::{BlockBytes, BlockId, Origin};

/// Blocks that do not come until it is looked again: another member may have them by then.
const FAILED_MAX: usize = 4;
/// When it is tried again after nothing came, in milliseconds.
const AGAIN_MS: u64 = 200;
/// What waits for bytes.
#[derive(Default)]
pub(super) struct Holding {
    /// Messages.
    pub(super) intake: Intake,
    fetch: Option<Arc<Fetch>>,
    again_at_ms: u64,
}

/// A fetch under way.
#[derive(Default)]
struct Fetch {
    is_over: AtomicBool,
    /// The member has ended.
    is_vain: AtomicBool,
    /// Another epoch has begun: the bytes are as good, what is gone is asked again.
    is_of_past: AtomicBool,
    came: AtomicU64,
    gone: Mutex<Vec<BlockId>>,
}

impl Drop for Holding {
    fn drop(&mut self) {
        if let Some(fetch) = &self.fetch {
            fetch.is_vain.store(true, Ordering::Relaxed);
        }
    }
}

impl Holding {
    /// Whether bytes are missing, none are being fetched, and it is time for that.
    pub(super) fn wants_fetch(&self) -> bool {
        !self.is_empty() && self.fetch.is_none() && self.again_at_ms <= clock::monotonic_ms()
    }

    /// Fetches beside the member's thread.
    pub(super) fn fetch(&mut self, fetching: Fetching) {
        let fetch = Arc::new(Fetch::default());
        let of_thread = fetch.clone();
        let thread = std::thread::Builder::new().name("fetch".to_owned());
        match thread.spawn(move || fetching.run(&of_thread)) {
            Ok(_) => self.fetch = Some(fetch),
            Err(error) => {
                tracing::warn!(%error, "no thread to fetch blocks");
                self.again_at_ms = clock::monotonic_ms() + AGAIN_MS;
            }
        }
    }

    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.intake.is_empty()
    }

    /// A new epoch, or incarnation. A fetch goes on: a member that was left out, since it lacked
    /// much, lacks less when it comes back.
    pub(super) fn forget(&mut self) {
        self.intake.forget();
        if let Some(fetch) = &self.fetch {
            fetch.is_of_past.store(true, Ordering::Relaxed);
        }
        self.again_at_ms = 0;
    }

    /// What may be taken now.
    pub(super) fn ready(&mut self, blocks: &MemberBlocks, safe_point: EntryId) -> Vec<Envelope> {
        let ended = self.fetch.take_if(|it| it.is_over.load(Ordering::Acquire));
        let fetch = ended.as_ref().or(self.fetch.as_ref());
        if let Some(fetch) = fetch.filter(|it| !it.is_of_past.load(Ordering::Relaxed)) {
            let gone: Vec<BlockId> = fetch.gone.lock().drain(..).collect();
            self.intake
                .on_gone(gone.into_iter().map(|id| id.0), safe_point);
        }
        if ended.is_some_and(|fetch| fetch.came.load(Ordering::Relaxed) == 0) {
            self.again_at_ms = clock::monotonic_ms() + AGAIN_MS;
        }
        self.intake.ready(|id| blocks.are_held([id]))
    }
}

/// What a fetch has.
pub(super) struct Fetching {
    pub(super) ids: Vec<BlockId>,
    pub(super) me: NodeId,
    /// Who sent the records: what that has no more is gone.
    pub(super) source: NodeId,
    pub(super) others: Vec<NodeId>,
    pub(super) outbox: Arc<dyn Outbox>,
    pub(super) blocks: Arc<MemberBlocks>,
    /// How much of a fill may come.
    pub(super) bytes_per_second: Option<u64>,
}

impl Fetching {
    fn run(self, fetch: &Fetch) {
        let gone = self.gone();
        fetch.came.fetch_add(gone.len() as u64, Ordering::Relaxed);
        fetch.gone.lock().extend(gone.iter().copied());
        let mut failed = 0;
        for id in self.ids.iter().filter(|id| !gone.contains(id)) {
            if fetch.is_vain.load(Ordering::Relaxed) {
                break;
            }
            let size = match self.ask(self.source, *id) {
                Some(BlockTold::Bytes(bytes)) => self.hold(*id, &bytes),
                _ => self.ask_others(*id),
            };
            fetch.came.fetch_add(u64::from(0 < size), Ordering::Relaxed);
            let is_of_past = fetch.is_of_past.load(Ordering::Relaxed);
            failed += usize::from(size == 0);
            if FAILED_MAX <= failed || (is_of_past && size == 0) {
                break;
            }
            if let Some(rate) = self.bytes_per_second {
                std::thread::sleep(Duration::from_secs_f64(size as f64 / rate.max(1) as f64));
            }
        }
        fetch.is_over.store(true, Ordering::Release);
    }

    /// Those that the sender of the records has reclaimed: of much that was missed, most.
    fn gone(&self) -> BTreeSet<BlockId> {
        let asked = BlockAsked::Gone(self.ids.clone());
        match self.outbox.ask_blocks(self.me, self.source, &asked) {
            Some(BlockTold::These(gone)) => gone.into_iter().collect(),
            _ => BTreeSet::new(),
        }
    }

    fn ask(&self, whom: NodeId, id: BlockId) -> Option<BlockTold> {
        let asked = BlockAsked::Fetch(id, None);
        self.outbox.ask_blocks(self.me, whom, &asked)
    }

    fn ask_others(&self, id: BlockId) -> usize {
        for other in &self.others {
            if let Some(BlockTold::Bytes(bytes)) = self.ask(*other, id) {
                return self.hold(id, &bytes);
            }
        }
        0
    }

    /// The bytes that are durable then; none when they are not.
    fn hold(&self, id: BlockId, bytes: &Bytes) -> usize {
        let block = BlockBytes::of(id, vec![bytes.clone()]);
        match self.blocks.hold(block, Origin::Member) {
            Ok(()) => bytes.len(),
            Err(error) => {
                tracing::warn!(%error, block = %id, "a block that was fetched was not stored");
                0
            }
        }
    }
}
