//! One member with its disk: its folder, its engine, its log, and the thread that drives it.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fader_chain::{
    Behind, DiskId, EntryId, Identity, Incarnation, Layered, Progress, Replica, Wait,
};
use fader_services::catalog::AccountId;
use fader_services::level::{Bound, Demand, Level, Receipt};
use fader_services::simpledb::{self, Answered, Context, Error, Request};
use fader_services::{Pace, Reason, View};
use parking_lot::{Mutex, RwLock};

use crate::chain_thread::{ChainThread, Company, Job};
use crate::closing::Waitings;
use crate::desk::{domain_of, in_context};
use crate::disk::{Disk, RealDisk};
use crate::engine::{Engine, LsmEngine, Snapshot};
use crate::eventual::Quorum;
use crate::gate::Gate;
use crate::keys::KeyCache;
use crate::lock::FolderLock;
use crate::log::{Log, LogStats};
use crate::quorum::{Members, check_level, check_quorum};
use crate::recovery::{self, Recovered, creating, open_log};
use crate::seal::{self, SealError};
use crate::settings::{Durability, Settings};
use crate::showing::Showing;
use crate::status::{Counters, Health, OpenError, Recovery};

/// Messages of other members that wait for the chain thread; what comes beyond is lost.
const MESSAGES_MAX: usize = 4096;

/// What the chain thread and the handles share.
pub(crate) struct Shared {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) keys: KeyCache,
    pub(crate) gate: Gate,
    health: RwLock<Health>,
    is_damaged: AtomicBool,
    queue_depth: AtomicU64,
    /// How many members the chain has.
    members: AtomicUsize,
    members_whole: AtomicUsize,
    /// How many operations of its overlay are not settled.
    unsettled: AtomicUsize,
    /// By how many committed entries it is ahead of its chain; 0 while it takes part (LD-2).
    ahead: AtomicU64,
    counters: Mutex<Counters>,
    /// How far the others are behind, if it is the head.
    behind: Mutex<Vec<Behind>>,
    /// What it waits for, and when it said so.
    waits: Mutex<(Vec<Wait>, Option<Instant>)>,
    pub(crate) waitings: Waitings,
    /// Last, so that the folder is held until everything else is gone.
    _lock: Option<FolderLock>,
}

impl Shared {
    /// Why no write is taken, if none is.
    pub(crate) fn refusal(&self) -> Option<String> {
        match &*self.health.read() {
            Health::Serving => None,
            Health::ReadOnly(reason) | Health::Failed(reason) => Some(reason.clone()),
        }
    }

    /// Why nothing is sure any more, if nothing is.
    pub(crate) fn failure(&self) -> Option<String> {
        match &*self.health.read() {
            Health::Failed(reason) => Some(reason.clone()),
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

    pub(crate) fn on_dequeued(&self) {
        self.queue_depth.fetch_sub(1, Ordering::Relaxed);
    }

    /// The chain has so many members now.
    pub(crate) fn on_members(&self, members: Members) {
        self.members.store(members.now, Ordering::Relaxed);
        self.members_whole.store(members.whole, Ordering::Relaxed);
    }

    fn members(&self) -> Members {
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

    /// The epoch it adopted last.
    pub(crate) fn epoch(&self) -> u64 {
        self.counters.lock().epoch
    }

    pub(crate) fn publish(&self, log: LogStats, log_disk_bytes: u64, replica: &Replica) {
        let eventual = replica.eventual_counts();
        self.on_unsettled(eventual.held);
        let ahead = replica.ahead().unwrap_or_default();
        self.ahead.store(ahead, Ordering::Relaxed);
        let mut counters = self.counters.lock();
        counters.epoch = replica.epoch();
        counters.commit_index = replica.commit().index;
        counters.tally = replica.tally();
        counters.eventual = eventual;
        counters.log_entries = log.entries;
        counters.log_bytes = log.bytes;
        counters.log_syncs = log.syncs;
        counters.log_sync_us = log.sync_us;
        counters.log_disk_bytes = log_disk_bytes;
    }

    /// By how many committed entries it is ahead of its chain, if it has stopped for that.
    pub(crate) fn ahead(&self) -> Option<u64> {
        Some(self.ahead.load(Ordering::Relaxed)).filter(|entries| *entries != 0)
    }

    /// So far the others are behind.
    pub(crate) fn on_behind(&self, behind: Vec<Behind>) {
        *self.behind.lock() = behind;
    }

    /// This is waited for now.
    pub(crate) fn on_waits(&self, waits: Vec<Wait>) {
        *self.waits.lock() = (waits, Some(Instant::now()));
    }

    /// What is waited for, and how long ago the member's thread said so; nothing before the first
    /// time.
    pub(crate) fn waits(&self) -> (Vec<Wait>, Option<Duration>) {
        let (waits, said_at) = &*self.waits.lock();
        (waits.clone(), said_at.map(|at| at.elapsed()))
    }

    /// For how long the member's thread has done nothing.
    pub(crate) fn still_for(&self) -> Duration {
        let said_at = self.waits.lock().1;
        said_at.map_or(Duration::ZERO, |at| at.elapsed())
    }
}

/// A member's folder, opened and recovered, before it lives.
pub(crate) struct Folder {
    settings: Settings,
    engine: Arc<dyn Engine>,
    log: Log,
    recovered: Recovered,
    is_new: bool,
    unfinished: Option<String>,
    lock: Option<FolderLock>,
    start: Instant,
}

impl Folder {
    /// Opens the data folder, creating it if absent, and recovers.
    pub(crate) fn open(settings: Settings) -> Result<Folder, OpenError> {
        let start = Instant::now();
        let folder = settings.data.clone();
        let creating = |source| creating(&folder, source);
        RealDisk.create_folder(&folder).map_err(creating)?;
        let lock = FolderLock::take(&folder)?;
        let engine = Arc::new(LsmEngine::open(
            &folder.join("engine"),
            settings.cache_bytes,
        )?);
        let engine = settings.engine_layer.over(&folder, engine);
        let disk: Arc<dyn Disk> = Arc::new(RealDisk);
        Self::recover(settings, &disk, engine, Some(lock), start)
    }

    /// As [`Folder::open`], on a disk and an engine of the caller's choice, without a lock.
    pub(crate) fn open_with(
        settings: Settings,
        disk: &Arc<dyn Disk>,
        engine: Arc<dyn Engine>,
    ) -> Result<Folder, OpenError> {
        let start = Instant::now();
        disk.create_folder(&settings.data)
            .map_err(|error| creating(&settings.data, error))?;
        Self::recover(settings, disk, engine, None, start)
    }

    fn recover(
        settings: Settings,
        disk: &Arc<dyn Disk>,
        engine: Arc<dyn Engine>,
        lock: Option<FolderLock>,
        start: Instant,
    ) -> Result<Folder, OpenError> {
        let (mut log, unfinished) = open_log(&settings, disk)?;
        let is_new = log.is_new();
        let id = DiskId(u128::from(log.identity()));
        let recovered = recovery::recover(&mut log, &*engine, id)?;
        Ok(Folder {
            settings,
            engine,
            log,
            recovered,
            is_new,
            unfinished,
            lock,
            start,
        })
    }

    /// Where it is.
    pub(crate) fn data(&self) -> &Path {
        &self.settings.data
    }

    /// Whether it was empty.
    pub(crate) fn is_new(&self) -> bool {
        self.is_new
    }

    /// The disk's name: random, and as old as the folder.
    pub(crate) fn disk(&self) -> DiskId {
        DiskId(u128::from(self.log.identity()))
    }

    /// Whether the member that lived here had no company.
    pub(crate) fn is_alone(&self) -> bool {
        recovery::is_alone(self.log.kept(), self.disk())
    }

    /// How far it has come. Of a log that was not synced nothing can be asked: a power cut may
    /// have taken what was there, and that it is an old copy does not show.
    pub(crate) fn progress(&self) -> Progress {
        let (kept, applied) = (self.log.kept(), self.recovered.applied);
        let applied = match self.engine.is_filling() {
            true => EntryId::ZERO,
            false => applied,
        };
        let epoch = self.recovered.epoch;
        let last = match self.settings.durability {
            Durability::Disk => Progress::of_disk(kept, applied).last,
            Durability::Os => Progress::UNCERTAIN,
        };
        Progress { epoch, last }
    }

    /// Begins a life.
    pub(crate) fn live(
        self,
        me: Identity,
        company: Option<Company>,
    ) -> Result<(Member, Recovery), OpenError> {
        let Folder {
            settings,
            engine,
            log,
            recovered,
            is_new,
            unfinished,
            lock,
            start,
        } = self;
        let shared = Arc::new(Shared {
            engine,
            keys: KeyCache::default(),
            gate: Gate::default(),
            health: RwLock::new(Health::Serving),
            is_damaged: AtomicBool::new(false),
            queue_depth: AtomicU64::new(0),
            members: AtomicUsize::new(Members::ONE.now),
            members_whole: AtomicUsize::new(Members::ONE.whole),
            unsettled: AtomicUsize::new(0),
            ahead: AtomicU64::new(0),
            counters: Mutex::default(),
            behind: Mutex::default(),
            waits: Mutex::default(),
            waitings: Waitings::default(),
            _lock: lock,
        });
        let (jobs, queue) = sync_channel(settings.queue_depth_max + MESSAGES_MAX);
        let known = (recovered.applied, recovered.epoch);
        let thread = ChainThread::new(
            queue,
            settings.clone(),
            shared.clone(),
            log,
            known,
            me,
            company,
        );
        if let Some(reason) = shared.failure() {
            return Err(OpenError::Io {
                context: "adopting an epoch".to_owned(),
                source: io::Error::other(reason),
            });
        }
        let builder = std::thread::Builder::new().name("chain".to_owned());
        let thread = builder
            .spawn(|| thread.run())
            .map_err(|source| OpenError::Io {
                context: "starting the chain thread".to_owned(),
                source,
            })?;
        let recovery = Recovery {
            is_first_start: is_new,
            segments: recovered.replayed.segments,
            bytes_verified: recovered.replayed.bytes,
            entries_replayed: recovered.entries_replayed,
            torn: recovered.replayed.torn.or(unfinished),
            elapsed: start.elapsed(),
        };
        let member = Member {
            shared,
            jobs,
            settings,
            thread: Mutex::new(Some(thread)),
        };
        Ok((member, recovery))
    }
}

/// A member that lives.
pub(crate) struct Member {
    shared: Arc<Shared>,
    jobs: SyncSender<Job>,
    settings: Settings,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Member {
    /// What it shares with its thread.
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// The way to its thread, for messages and configurations.
    pub(crate) fn jobs(&self) -> SyncSender<Job> {
        self.jobs.clone()
    }

    /// The state that it has applied.
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.shared.engine.snapshot()
    }

    /// Queues a client's request; the error says in words why not.
    pub(crate) fn enqueue(&self, job: Job) -> Result<(), String> {
        let waiting = self.shared.queue_depth.fetch_add(1, Ordering::Relaxed);
        let sent = match waiting < self.settings.queue_depth_max as u64 {
            true => self.jobs.try_send(job),
            false => Err(TrySendError::Full(job)),
        };
        sent.map_err(|error| {
            self.shared.on_dequeued();
            match error {
                TrySendError::Full(_) => Reason::QueueFull.sentence().to_owned(),
                TrySendError::Disconnected(_) => Reason::Stopping.sentence().to_owned(),
            }
        })
    }

    /// What a write asks if it is eventual, as far as this member knows its domain.
    pub(crate) fn quorum(
        &self,
        account: &AccountId,
        request: &Request,
        demand: &Demand,
    ) -> Result<Option<Quorum>, Error> {
        let Some(entry) = domain_of(&*self.snapshot(), account, request, demand)? else {
            return Ok(None);
        };
        let level = check_level(Some(&entry), demand, request, self.shared.members())?;
        Ok(Quorum::of(level))
    }

    /// How a read is answered that is not strong. Of a domain that is not known here, only who
    /// carries the request out can say.
    pub(crate) fn shows(
        &self,
        account: &AccountId,
        request: &Request,
        demand: &Demand,
    ) -> Result<Option<fader_chain::Level>, Error> {
        let Some(entry) = domain_of(&*self.snapshot(), account, request, demand)? else {
            return Ok(None);
        };
        let (level, bound) =
            simpledb::permits(Some(entry.mode), entry.preference, demand, request)?;
        check_quorum(level, self.shared.members())?;
        Ok(match (level, bound) {
            (Level::Barrier, _) => Some(fader_chain::Level::Barrier),
            (Level::Eventual { .. }, Some(Bound::Versions(versions))) => {
                Some(fader_chain::Level::BoundVersions(versions))
            }
            (Level::Eventual { .. }, Some(Bound::Millis(millis))) => {
                Some(fader_chain::Level::BoundMillis(millis))
            }
            (Level::Eventual { r, sloppy, .. }, None) => Some(fader_chain::Level::Eventual {
                r: usize::from(r),
                // One member alone claims no quorum.
                sloppy: sloppy || r == 1,
            }),
            (Level::Strong | Level::Default, _) => None,
        })
    }

    /// Answers a request that changes nothing on `view`.
    pub(crate) fn answer(
        &self,
        view: &dyn View,
        account: &AccountId,
        request: &Request,
        demand: &Demand,
    ) -> Result<Answered, Error> {
        self.with_context(view, account, (request, demand), |context| {
            simpledb::answer(view, context, request)
        })
    }

    /// Answers a request that changes nothing from what is shown to it.
    pub(crate) fn answer_from(
        &self,
        showing: Showing,
        account: &AccountId,
        request: &Request,
        demand: &Demand,
    ) -> Result<(Answered, Receipt), Error> {
        let asked = (request, demand);
        match showing {
            Showing::Answered(answered) => *answered,
            Showing::Snapshot(snapshot) => {
                let answered = self.answer(&*snapshot, account, request, demand)?;
                Ok((answered, Receipt::default()))
            }
            Showing::Item(snapshot, item) => {
                let receipt = item.receipt(request);
                let answered = self.with_context(&*snapshot, account, asked, |context| {
                    simpledb::answer_item(&*snapshot, context, request, item.shown)
                })?;
                Ok((answered, receipt))
            }
            Showing::Tentative(snapshot, tentative) => {
                let view = Layered::new(&*snapshot, tentative.mutations());
                let answered = self.with_context(&*snapshot, account, asked, |context| {
                    let items = |collection| tentative.items(collection);
                    let context = Context {
                        unsettled_items: context.collection.map_or(0, items),
                        ..*context
                    };
                    simpledb::answer(&view, &context, request)
                })?;
                let receipt = Receipt {
                    tentative: !tentative.mutations().is_empty(),
                    ..Receipt::default()
                };
                Ok((answered, receipt))
            }
        }
    }

    fn with_context<T>(
        &self,
        view: &dyn View,
        account: &AccountId,
        asked: (&Request, &Demand),
        run: impl FnOnce(&Context<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let pace = Deadline {
            end: Instant::now() + self.settings.page_time,
        };
        let around = (
            self.shared.members(),
            &self.settings.limits,
            &pace as &dyn Pace,
        );
        in_context(view, account, asked, around, |context, _| run(context))
    }

    /// Whether it can do its work.
    pub(crate) fn health(&self) -> Health {
        self.shared.health.read().clone()
    }

    /// How far the other members are behind, if this one is the head.
    pub(crate) fn behind(&self) -> Vec<Behind> {
        self.shared.behind.lock().clone()
    }

    /// Counters since the start.
    pub(crate) fn counters(&self) -> Counters {
        let counters = *self.shared.counters.lock();
        Counters {
            queue_depth: self.shared.queue_depth.load(Ordering::Relaxed),
            engine_disk_bytes: self.shared.engine.disk_bytes(),
            ..counters
        }
    }

    /// Finishes what is queued, makes everything durable and ends the member's threads.
    pub(crate) fn close(&self) {
        self.shared.gate.open();
        self.end(Job::Close);
    }

    /// Ends its thread at once: what it was doing stays undone.
    pub(crate) fn kill(&self) {
        self.shared.gate.open();
        self.end(Job::Kill);
    }

    fn end(&self, how: Job) {
        let Some(thread) = self.thread.lock().take() else {
            return;
        };
        // Without a receiver the thread has ended already.
        drop(self.jobs.send(how));
        if thread.join().is_err() {
            tracing::error!("the chain thread ended by a broken invariant");
        }
    }
}

/// A life's name.
pub(crate) fn random_incarnation() -> Result<Incarnation, SealError> {
    let halves = [seal::random_number()?, seal::random_number()?];
    Ok(Incarnation(
        u128::from(halves[0]) << 64 | u128::from(halves[1]),
    ))
}

struct Deadline {
    end: Instant,
}

impl Pace for Deadline {
    fn is_over(&self) -> bool {
        self.end <= Instant::now()
    }
}
