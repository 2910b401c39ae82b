//! The handle of a node: writes go to the chain thread, reads are answered where they are asked.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Instant;

use fader_services::catalog::{self, AccessKey, AccountId, DomainEntry, KeyStatus, Refusal};
use fader_services::level::{Demand, Level, Preference, Receipt};
use fader_services::simpledb::{self, Answered, Context, Error, Request};
use fader_services::{CollectionId, Mode, Pace, ViewError};
use parking_lot::{Mutex, RwLock};
use tokio::sync::{Semaphore, oneshot};

use crate::chain_thread::{ChainThread, Job, catalog_unavailable, now_ms, unavailable};
use crate::disk::{Disk, RealDisk, SyncSite};
use crate::engine::{Engine, LsmEngine};
use crate::keys::KeyCache;
use crate::lock::FolderLock;
use crate::log::{Log, LogStats};
use crate::recovery;
use crate::seal::{self, OpenKey, Seal, SealError, Secret};
use crate::settings::Settings;
use crate::status::{Counters, Health, OpenError, Recovery};

/// Scans answered at once; more wait.
const SCANS_MAX: usize = 8;

/// What the chain thread and the handles share.
pub(crate) struct Shared {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) keys: KeyCache,
    health: RwLock<Health>,
    queue_depth: AtomicU64,
    counters: Mutex<Counters>,
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

    pub(crate) fn on_dequeued(&self) {
        self.queue_depth.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn publish(&self, log: LogStats, log_disk_bytes: u64, epoch: u64, committed: u64) {
        let mut counters = self.counters.lock();
        counters.log_entries = log.entries;
        counters.log_bytes = log.bytes;
        counters.log_syncs = log.syncs;
        counters.log_sync_us = log.sync_us;
        counters.log_disk_bytes = log_disk_bytes;
        counters.epoch = epoch;
        counters.commit_index = committed;
    }
}

struct Inner {
    shared: Arc<Shared>,
    jobs: SyncSender<Job>,
    settings: Settings,
    seal: Seal,
    scans: Semaphore,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// One member with its disk. Cheap to clone; all clones are one node.
#[derive(Clone)]
pub struct Node {
    inner: Arc<Inner>,
}

impl Node {
    /// Opens the data folder, creating it if absent, and recovers.
    ///
    /// # Errors
    /// [`OpenError`]: locked by another process, damaged, or refused by the operating system.
    pub fn open(settings: Settings) -> Result<(Node, Recovery), OpenError> {
        let start = Instant::now();
        let folder = settings.data.clone();
        let creating = |source| creating(&folder, source);
        RealDisk.create_folder(&folder).map_err(creating)?;
        let lock = FolderLock::take(&folder)?;
        let engine = Arc::new(LsmEngine::open(
            &folder.join("engine"),
            settings.cache_bytes,
        )?);
        let disk: Arc<dyn Disk> = Arc::new(RealDisk);
        Self::assemble(settings, &disk, engine, Some(lock), start)
    }

    /// As [`Node::open`], on a disk and an engine of the caller's choice, without a lock.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open_with(
        settings: Settings,
        disk: &Arc<dyn Disk>,
        engine: Arc<dyn Engine>,
    ) -> Result<(Node, Recovery), OpenError> {
        let start = Instant::now();
        disk.create_folder(&settings.data)
            .map_err(|error| creating(&settings.data, error))?;
        Self::assemble(settings, disk, engine, None, start)
    }

    fn assemble(
        settings: Settings,
        disk: &Arc<dyn Disk>,
        engine: Arc<dyn Engine>,
        lock: Option<FolderLock>,
        start: Instant,
    ) -> Result<(Node, Recovery), OpenError> {
        let (mut log, unfinished) = open_log(&settings, disk)?;
        let is_first_start = log.is_new();
        let seal = Seal::load(&**disk, &settings.data, is_first_start)?;
        let (replayed, entries_replayed) = recovery::replay(&mut log, &*engine)?;
        let shared = Arc::new(Shared {
            engine,
            keys: KeyCache::default(),
            health: RwLock::new(Health::Serving),
            queue_depth: AtomicU64::new(0),
            counters: Mutex::default(),
            _lock: lock,
        });
        let (jobs, queue) = sync_channel(settings.queue_depth_max);
        let known = (replayed.epoch, replayed.last);
        let thread = ChainThread::new(queue, settings.clone(), shared.clone(), log, known);
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
            is_first_start,
            segments: replayed.segments,
            bytes_verified: replayed.bytes,
            entries_replayed,
            torn: replayed.torn.or(unfinished),
            elapsed: start.elapsed(),
        };
        let scans = Semaphore::new(SCANS_MAX);
        let thread = Mutex::new(Some(thread));
        let inner = Inner {
            shared,
            jobs,
            settings,
            seal,
            scans,
            thread,
        };
        Ok((
            Node {
                inner: Arc::new(inner),
            },
            recovery,
        ))
    }

    /// Carries out one SimpleDB request for `account`, at the level that it demands.
    ///
    /// # Errors
    /// [`simpledb::Error`]: a refusal never took effect; `ServiceUnavailable` or `InternalError` on
    /// a write means unknown.
    pub async fn simpledb(
        &self,
        account: &AccountId,
        request: Request,
        demand: Demand,
    ) -> Result<(Answered, Receipt), Error> {
        let answered = self.answered(account, request, demand).await?;
        Ok((answered, Receipt::default()))
    }

    async fn answered(
        &self,
        account: &AccountId,
        request: Request,
        demand: Demand,
    ) -> Result<Answered, Error> {
        if request.is_write() {
            let account = account.clone();
            let (reply, answer) = oneshot::channel();
            self.enqueue(Job::SimpleDb {
                account,
                request,
                demand,
                reply,
            })
            .map_err(|e| unavailable(&e))?;
            return answer.await.unwrap_or_else(|_| Err(unavailable(STOPPED)));
        }
        if matches!(
            request,
            Request::GetAttributes { .. } | Request::DomainMetadata { .. }
        ) {
            return self.inner.answer(account, &request, &demand);
        }
        let permit = self.inner.scans.acquire().await;
        let _permit = permit.map_err(|_| unavailable(STOPPED))?;
        let (inner, account) = (self.inner.clone(), account.clone());
        let answer = tokio::task::spawn_blocking(move || inner.answer(&account, &request, &demand));
        answer
            .await
            .unwrap_or_else(|error| Err(ViewError(error.to_string()).into()))
    }

    /// Carries out a catalog command.
    ///
    /// # Errors
    /// [`catalog::Refusal`].
    pub async fn catalog(&self, command: catalog::Command) -> Result<(), Refusal> {
        let (reply, answer) = oneshot::channel();
        self.enqueue(Job::Catalog { command, reply })
            .map_err(|e| catalog_unavailable(&e))?;
        answer
            .await
            .unwrap_or_else(|_| Err(catalog_unavailable(STOPPED)))
    }

    /// The key with this id and its secret; `None` when there is none. Cached; a change of the
    /// catalog is seen by the next call. Disabled keys are returned as such.
    ///
    /// # Errors
    /// [`catalog::Refusal::View`] when the store or the seal fails.
    pub fn open_key(&self, id: &str) -> Result<Option<Arc<OpenKey>>, Refusal> {
        let inner = &self.inner;
        let generation = match inner.shared.keys.get(id) {
            Ok(key) => return Ok(Some(key)),
            Err(generation) => generation,
        };
        let Some(key) = catalog::key(&*inner.shared.engine.snapshot(), id)? else {
            return Ok(None);
        };
        let secret = inner
            .seal
            .open(id, &key.sealed_secret)
            .map_err(|error| seal_failed(&error))?;
        let key = Arc::new(OpenKey { key, secret });
        inner.shared.keys.put(generation, key.clone());
        Ok(Some(key))
    }

    /// All access keys, by id.
    ///
    /// # Errors
    /// [`catalog::Refusal::View`] when the store fails.
    pub fn keys(&self) -> Result<Vec<AccessKey>, Refusal> {
        Ok(catalog::keys(&*self.inner.shared.engine.snapshot())?)
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
        preference: Option<Preference>,
    ) -> Result<OpenKey, Refusal> {
        let key = self
            .inner
            .new_key(account, pair, note, preference)
            .map_err(|error| seal_failed(&error))?;
        self.catalog(catalog::Command::CreateKey(key.key.clone()))
            .await?;
        Ok(key)
    }

    /// Creates a key in place of `id`, which is disabled in the same step.
    ///
    /// # Errors
    /// [`catalog::Refusal`].
    pub async fn rotate_key(&self, id: &str) -> Result<OpenKey, Refusal> {
        let old = catalog::key(&*self.inner.shared.engine.snapshot(), id)?;
        let old = old.ok_or_else(|| Refusal::NoSuchKey(id.to_owned()))?;
        let key = self
            .inner
            .new_key(&old.account, None, &old.note, old.preference)
            .map_err(|error| seal_failed(&error))?;
        let replacement = key.key.clone();
        self.catalog(catalog::Command::RotateKey {
            id: id.to_owned(),
            replacement,
        })
        .await?;
        Ok(key)
    }

    /// Whether the node can do its work.
    pub fn health(&self) -> Health {
        self.inner.shared.health.read().clone()
    }

    /// Counters since the start.
    pub fn counters(&self) -> Counters {
        let shared = &self.inner.shared;
        let counters = *shared.counters.lock();
        let queue_depth = shared.queue_depth.load(Ordering::Relaxed);
        Counters {
            queue_depth,
            engine_disk_bytes: shared.engine.disk_bytes(),
            ..counters
        }
    }

    /// Finishes what is queued, makes everything durable and ends the node's threads.
    pub async fn close(&self) {
        let inner = self.inner.clone();
        let closing = tokio::task::spawn_blocking(move || inner.close());
        if closing.await.is_err() {
            tracing::error!("closing the node failed");
        }
    }

    fn enqueue(&self, job: Job) -> Result<(), String> {
        let inner = &self.inner;
        inner.shared.queue_depth.fetch_add(1, Ordering::Relaxed);
        inner.jobs.try_send(job).map_err(|error| {
            inner.shared.on_dequeued();
            match error {
                std::sync::mpsc::TrySendError::Full(_) => "too many writes are waiting".to_owned(),
                std::sync::mpsc::TrySendError::Disconnected(_) => STOPPED.to_owned(),
            }
        })
    }
}

const STOPPED: &str = "the node is stopping";

impl Inner {
    fn answer(
        &self,
        account: &AccountId,
        request: &Request,
        demand: &Demand,
    ) -> Result<Answered, Error> {
        let view = self.shared.engine.snapshot();
        let entry = match request.domain() {
            Some(name) => catalog::domain(&*view, account, name)?,
            None => None,
        };
        check_level(entry.as_ref(), demand, request)?;
        let (collection, mode) = placed(entry);
        let pace = Deadline {
            end: Instant::now() + self.settings.page_time,
        };
        let limits = &self.settings.limits;
        let context = Context {
            account,
            collection,
            mode,
            unsettled_items: 0,
            now_ms: now_ms(),
            limits,
            pace: &pace,
        };
        simpledb::answer(&*view, &context, request)
    }

    fn new_key(
        &self,
        account: &AccountId,
        pair: Option<(String, Secret)>,
        note: &str,
        preference: Option<Preference>,
    ) -> Result<OpenKey, SealError> {
        let (id, secret) = match pair {
            Some(pair) => pair,
            None => (seal::random_id()?, seal::random_secret()?),
        };
        let key = AccessKey {
            sealed_secret: self.seal.seal(&id, &secret)?,
            id,
            account: account.clone(),
            status: KeyStatus::Active,
            created_ms: now_ms(),
            note: note.to_owned(),
            preference,
        };
        Ok(OpenKey { key, secret })
    }

    fn close(&self) {
        let Some(thread) = self.thread.lock().take() else {
            return;
        };
        self.shared.queue_depth.fetch_add(1, Ordering::Relaxed);
        // Without a receiver the thread has ended already.
        drop(self.jobs.send(Job::Close));
        if thread.join().is_err() {
            tracing::error!("the chain thread ended by a broken invariant");
        }
    }
}

/// Refuses what is asked of consistency and cannot be had. The rest a chain of one keeps by what it
/// does anyway.
pub(crate) fn check_level(
    entry: Option<&DomainEntry>,
    demand: &Demand,
    request: &Request,
) -> Result<(), Error> {
    let mode = entry.map(|entry| entry.mode);
    let preference = entry.and_then(|entry| entry.preference);
    let (level, _) = simpledb::permits(mode, preference, demand, request)?;
    simpledb::permits_quorum(level, 1)?;
    match level {
        Level::Eventual { .. } if request.is_write() && entry.is_some() => {
            Err(unavailable("eventual writes are not served yet"))
        }
        _ => Ok(()),
    }
}

/// Where the data of a request's domain is, and in which mode.
pub(crate) fn placed(entry: Option<DomainEntry>) -> (Option<CollectionId>, Mode) {
    match entry {
        Some(entry) => (Some(entry.collection), entry.mode),
        None => (None, Mode::Strong),
    }
}

struct Deadline {
    end: Instant,
}

impl Pace for Deadline {
    fn is_over(&self) -> bool {
        self.end <= Instant::now()
    }
}

fn open_log(settings: &Settings, disk: &Arc<dyn Disk>) -> Result<(Log, Option<String>), OpenError> {
    let folder = settings.data.join("log");
    let failed = |source| creating(&folder, source);
    disk.create_folder(&folder).map_err(failed)?;
    let chain = seal::random_chain().map_err(|error| failed(io::Error::other(error)))?;
    let Settings {
        durability,
        segment_bytes,
        ..
    } = *settings;
    let (log, unfinished) = Log::open(disk.clone(), &folder, durability, segment_bytes, chain)?;
    if log.is_new() {
        // An earlier first start may have been cut short before this.
        sync_names(&**disk, &settings.data).map_err(failed)?;
    }
    Ok((log, unfinished))
}

/// Makes durable that the data folder is there, and the log's folder in it.
fn sync_names(disk: &dyn Disk, data: &Path) -> io::Result<()> {
    disk.sync_folder(data, SyncSite::DataFolder)?;
    match data.parent() {
        Some(parent) if parent == Path::new("") => {
            disk.sync_folder(Path::new("."), SyncSite::DataFolder)
        }
        Some(parent) => disk.sync_folder(parent, SyncSite::DataFolder),
        None => Ok(()),
    }
}

fn creating(folder: &Path, source: io::Error) -> OpenError {
    OpenError::Io {
        context: format!("creating {}", folder.display()),
        source,
    }
}

fn seal_failed(error: &SealError) -> Refusal {
    Refusal::View(ViewError(error.to_string()))
}
