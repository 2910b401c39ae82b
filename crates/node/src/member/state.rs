//! What a member's thread and its handles share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use fader_chain::{EntryId, Replica, ReplicationLag, WaitReason};
use fader_services::Table;
use fader_services::catalog::DomainEntry;
use parking_lot::{Mutex, RwLock};

use super::blocks::MemberBlocks;
use super::cluster_links::Lease;
use super::mode_drain::DrainBlockers;
use super::pause::PausePoint;
use super::quorum::Members;
use super::turns::Turns;
use crate::clock::Clock;
use crate::secrets::seal::OpenKey;
use crate::status::{Counters, Health, HealthCause};
use crate::storage::cache::Cache;
use crate::storage::engine::Engine;
use crate::storage::lock::FolderLock;
use crate::storage::log::LogStats;

/// How often the thread looks after itself where nothing is under way. It is the shortest period of
/// what its replica does by itself (REST-1).
pub(super) const TICK_AT_REST: Duration = Duration::from_secs(1);

/// The end of a head's role (HM-4): whether the thread was asked for it, and whether no strong
/// write is under way.
#[derive(Default)]
pub(super) struct HandOver {
    pub(super) is_asked: AtomicBool,
    pub(super) is_ready: AtomicBool,
}

/// What the chain thread and the handles share.
pub(crate) struct Shared {
    pub(crate) engine: Arc<dyn Engine>,
    /// Open access keys, so that a signature costs no decryption.
    pub(crate) keys: Cache<Arc<OpenKey>>,
    /// Collections, so that a name costs no look into the engine.
    pub(super) collections: Cache<DomainEntry>,
    pub(crate) blocks: Arc<MemberBlocks>,
    pub(crate) clock: Clock,
    pub(crate) gate: PausePoint,
    /// Those of the keeper of its session.
    pub(crate) turns: Turns,
    pub(super) health: RwLock<Health>,
    is_damaged: AtomicBool,
    pub(super) queue_depth: AtomicU64,
    /// Requests that wait for their collection to change.
    pub(super) parked: AtomicU64,
    /// How many members the chain has.
    members: AtomicUsize,
    members_whole: AtomicUsize,
    /// How many operations of its overlay are not settled.
    unsettled: AtomicUsize,
    /// By how many committed entries it is ahead of its chain; 0 while it takes part (LD-2).
    ahead: AtomicU64,
    pub(super) counters: Mutex<Counters>,
    known: Mutex<Known>,
    /// How far the others are behind, if it is the head.
    pub(super) behind: Mutex<Vec<ReplicationLag>>,
    /// What it waits for, and when it said so.
    waits: Mutex<(Vec<WaitReason>, Option<Instant>)>,
    /// The newest lease that the coordinator gave. The thread takes it before each job, and after a
    /// tick without one.
    lease: Mutex<Lease>,
    /// Whether the thread does nothing since there is nothing to do.
    is_at_rest: AtomicBool,
    pub(super) hand_over: HandOver,
    pub(crate) blockers: DrainBlockers,
    /// Last, so that the folder is held until everything else is gone.
    _lock: Option<FolderLock>,
}

/// Entries that a member knows of.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// The last one that is committed.
    committed: EntryId,
    /// The last one that its engine has.
    applied: EntryId,
    /// The safe point of its configuration.
    safe_point: EntryId,
}

impl Shared {
    /// What an incarnation begins with, on an engine in a folder that is held.
    pub(super) fn new(
        engine: Arc<dyn Engine>,
        blocks: MemberBlocks,
        clock: Clock,
        lock: Option<FolderLock>,
    ) -> Self {
        Shared {
            engine,
            blocks: Arc::new(blocks),
            keys: Cache::of(&[Table::AccessKeys]),
            collections: Cache::of(&[Table::Domains, Table::Names]),
            gate: PausePoint::new(clock.clone()),
            clock,
            turns: Turns::default(),
            health: RwLock::new(Health::Serving),
            is_damaged: AtomicBool::new(false),
            queue_depth: AtomicU64::new(0),
            parked: AtomicU64::new(0),
            members: AtomicUsize::new(Members::ONE.now),
            members_whole: AtomicUsize::new(Members::ONE.whole),
            unsettled: AtomicUsize::new(0),
            ahead: AtomicU64::new(0),
            counters: Mutex::default(),
            known: Mutex::default(),
            behind: Mutex::default(),
            waits: Mutex::default(),
            lease: Mutex::default(),
            is_at_rest: AtomicBool::new(false),
            hand_over: HandOver::default(),
            blockers: DrainBlockers::default(),
            _lock: lock,
        }
    }

    /// Why no write is taken, if none is.
    pub(crate) fn refusal(&self) -> Option<HealthCause> {
        match &*self.health.read() {
            Health::Serving => None,
            Health::ReadOnly(cause) | Health::Failed(cause) => Some(cause.clone()),
        }
    }

    /// Why nothing is sure any more, if nothing is.
    pub(crate) fn failure(&self) -> Option<HealthCause> {
        match &*self.health.read() {
            Health::Failed(cause) => Some(cause.clone()),
            Health::Serving | Health::ReadOnly(_) => None,
        }
    }

    /// A failed node stays failed.
    pub(crate) fn set_health(&self, health: Health) {
        let mut current = self.health.write();
        if !matches!(*current, Health::Failed(_)) {
            *current = health;
        }
    }

    /// The log or the engine is not what it was.
    pub(crate) fn on_damage(&self) {
        self.is_damaged.store(true, Ordering::Relaxed);
    }

    /// Whether the log or the engine is not what it was.
    pub(crate) fn is_damaged(&self) -> bool {
        self.is_damaged.load(Ordering::Relaxed)
    }

    /// A request has left the queue.
    pub(crate) fn on_dequeued(&self) {
        self.queue_depth.fetch_sub(1, Ordering::Relaxed);
    }

    /// So many requests wait for their collection to change.
    pub(super) fn on_parked(&self, count: usize) {
        self.parked.store(count as u64, Ordering::Relaxed);
    }

    /// The chain has so many members now.
    pub(crate) fn on_members(&self, members: Members) {
        self.members.store(members.now, Ordering::Relaxed);
        self.members_whole.store(members.whole, Ordering::Relaxed);
    }

    /// How many members the chain has.
    pub(super) fn members(&self) -> Members {
        Members {
            now: self.members.load(Ordering::Relaxed),
            whole: self.members_whole.load(Ordering::Relaxed),
        }
    }

    /// So many operations are not settled; of those that were, a snapshot taken from now on tells.
    pub(crate) fn on_unsettled(&self, count: usize) {
        self.unsettled.store(count, Ordering::Release);
    }

    /// Whether a snapshot taken from now on is all that this member shows.
    pub(crate) fn is_settled(&self) -> bool {
        self.unsettled.load(Ordering::Acquire) == 0
    }

    /// The last entry that it knows committed.
    pub(crate) fn newest(&self) -> EntryId {
        self.known.lock().committed
    }

    /// Up to where all members have applied the log, as its configuration says.
    pub(super) fn safe_point(&self) -> EntryId {
        self.known.lock().safe_point
    }

    /// An entry that each snapshot has which is taken from now on.
    pub(super) fn applied(&self) -> EntryId {
        self.known.lock().applied
    }

    /// The epoch it adopted last.
    pub(crate) fn epoch(&self) -> u64 {
        self.counters.lock().epoch
    }

    /// What the thread's log and its replica count; its engine has the entry `applied`.
    pub(crate) fn publish(
        &self,
        log: LogStats,
        log_disk_bytes: u64,
        applied: EntryId,
        replica: &Replica,
    ) {
        let eventual = replica.eventual_counts();
        self.on_unsettled(eventual.held);
        let ahead = replica.ahead().unwrap_or_default();
        self.ahead.store(ahead, Ordering::Relaxed);
        let adopted = replica.configuration();
        let safe_point = adopted.map_or(EntryId::ZERO, |adopted| adopted.safe_point);
        *self.known.lock() = Known {
            committed: replica.commit(),
            applied,
            safe_point,
        };
        let mut counters = self.counters.lock();
        counters.epoch = replica.epoch();
        counters.commit_index = replica.commit().index;
        counters.counters = replica.counters();
        counters.eventual = eventual;
        counters.log_entries = log.entries;
        counters.log_bytes = log.bytes;
        counters.log_syncs = log.syncs;
        counters.log_sync_us = log.sync_us;
        counters.log_possibly_lost_bytes = log.possibly_lost;
        counters.log_disk_bytes = log_disk_bytes;
    }

    /// By how many committed entries it is ahead of its chain, if it has stopped for that.
    pub(crate) fn ahead(&self) -> Option<u64> {
        Some(self.ahead.load(Ordering::Relaxed)).filter(|entries| *entries != 0)
    }

    /// So far the others are behind.
    pub(crate) fn on_behind(&self, behind: Vec<ReplicationLag>) {
        *self.behind.lock() = behind;
    }

    /// This is waited for now.
    pub(crate) fn on_waits(&self, waits: Vec<WaitReason>) {
        *self.waits.lock() = (waits, Some(self.clock.instant()));
    }

    /// What is waited for, and how long ago the member's thread said so; nothing before the first
    /// time.
    pub(crate) fn wait_reasons(&self) -> (Vec<WaitReason>, Option<Duration>) {
        let (waits, said_at) = &*self.waits.lock();
        (waits.clone(), said_at.map(|at| self.since(at)))
    }

    fn since(&self, at: Instant) -> Duration {
        self.clock.instant().saturating_duration_since(at)
    }

    /// There is a newer lease. It wakes no thread: one at rest answers nothing before it wakes.
    pub(crate) fn on_lease(&self, lease: Lease) {
        *self.lease.lock() = lease;
    }

    /// The newest lease.
    pub(super) fn lease(&self) -> Lease {
        *self.lease.lock()
    }

    /// The member's thread begins to rest, or moves again. No other thread writes this.
    pub(super) fn on_rest(&self, is_at_rest: bool) {
        if self.is_at_rest.load(Ordering::Relaxed) == is_at_rest {
            return;
        }
        if !is_at_rest && let Some(said_at) = &mut self.waits.lock().1 {
            *said_at = self.clock.instant();
        }
        self.is_at_rest.store(is_at_rest, Ordering::Release);
    }

    /// For how long the member's thread has done nothing although it had to (SL-6). One at rest has
    /// to look up now and then, so one that is held there is noticed, too.
    pub(crate) fn still_for(&self) -> Duration {
        let rest = match self.is_at_rest.load(Ordering::Acquire) {
            true => TICK_AT_REST,
            false => Duration::ZERO,
        };
        let said_at = self.waits.lock().1;
        let still = said_at.map_or(Duration::ZERO, |at| self.since(at));
        still.saturating_sub(rest)
    }
}
