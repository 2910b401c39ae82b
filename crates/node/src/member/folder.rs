//! A member's folder: opened, recovered, and the incarnation that begins on it.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Instant;

use fader_chain::{DiskId, EntryId, Identity, Progress};
use fader_services::ErrorCode;
use parking_lot::Mutex;

use super::Member;
use super::blocks::MemberBlocks;
use super::cluster_links::ClusterLinks;
use super::state::Shared;
use super::thread::{ChainThread, RecoveryPoint};
use crate::settings::Settings;
use crate::status::{OpenError, Recovery};
use crate::storage::care;
use crate::storage::disk::{Disk, RealDisk};
use crate::storage::engine::{self, Engine, LsmEngine, Snapshot};
use crate::storage::lock::FolderLock;
use crate::storage::log::{Durability, Log};
use crate::storage::recovery::{self, Recovered, creating, open_log};

/// Messages of other members that wait for the chain thread; what comes beyond is lost.
const MESSAGES_MAX: usize = 4096;

/// A member's folder, opened and recovered, before it lives.
pub(crate) struct Folder {
    settings: Settings,
    engine: Arc<dyn Engine>,
    log: Log,
    blocks: MemberBlocks,
    recovered: Recovered,
    is_new: bool,
    unfinished: Option<String>,
    is_rebuilt: bool,
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
        let opened = LsmEngine::open(&folder.join("engine"), settings.cache_bytes);
        let engine = opened.map_err(damaged_engine)?;
        if let Some(damage) = engine.damage().first() {
            return Err(engine::damaged(damage));
        }
        Self::open_on(engine, settings, lock, start)
    }

    /// As [`Folder::open`], for a single member, which no other can fill. An engine that is damaged
    /// is made anew from the log, where that has everything. Where it has not, and the damage is in
    /// blocks of tables alone, the member goes on with all that can be read.
    pub(crate) fn open_alone(settings: Settings) -> Result<Folder, OpenError> {
        let start = Instant::now();
        let folder = settings.data.clone();
        let creating = |source| creating(&folder, source);
        RealDisk.create_folder(&folder).map_err(creating)?;
        let lock = FolderLock::take(&folder)?;
        let place = folder.join("engine");
        let opened = LsmEngine::open(&place, settings.cache_bytes);
        let damage: Vec<String> = match &opened {
            Ok(engine) => engine.damage().to_vec(),
            Err(error) if error.is_damage() => vec![error.context.clone()],
            Err(_) => Vec::new(),
        };
        for damage in &damage {
            tracing::error!(damage, "the engine is damaged");
        }
        if damage.is_empty() || !can_rebuild(&settings)? {
            if !damage.is_empty() && opened.is_ok() {
                tracing::error!(
                    "the log does not reach back to the first entry, so the engine cannot be made \
                     anew: what the damaged blocks hold is neither read nor written, all else is. \
                     Restore the data folder from a copy"
                );
            }
            let engine = opened.map_err(damaged_engine)?;
            engine.tolerate_damage();
            return Self::open_on(engine, settings, lock, start);
        }
        drop(opened);
        Self::rebuild(settings, lock, start)
    }

    /// As [`Folder::open_alone`], with an engine that is made anew in any case.
    pub(crate) fn open_anew(settings: Settings) -> Result<Folder, OpenError> {
        let lock = Self::lock(&settings.data)?;
        Self::rebuild(settings, lock, Instant::now())
    }

    /// Takes a folder that is there.
    pub(crate) fn lock(folder: &Path) -> Result<FolderLock, OpenError> {
        match folder.is_dir() {
            true => FolderLock::take(folder),
            false => Err(OpenError::new(
                ErrorCode::DataMissing,
                format!("there is no folder {}", folder.display()),
            )),
        }
    }

    fn rebuild(settings: Settings, lock: FolderLock, start: Instant) -> Result<Folder, OpenError> {
        let place = settings.data.join("engine");
        let aside = care::set_aside(&place).map_err(|source| {
            OpenError::io(format!("setting {} aside", place.display()), source)
        })?;
        tracing::warn!(
            aside = %aside.display(),
            "the engine is made anew from the log; what was damaged is set aside, yours to look \
             at or delete"
        );
        let engine = LsmEngine::open(&place, settings.cache_bytes)?;
        engine.tolerate_damage();
        let mut folder = Self::open_on(engine, settings, lock, start)?;
        folder.is_rebuilt = true;
        Ok(folder)
    }

    /// Whether its engine was made anew.
    pub(crate) fn is_rebuilt(&self) -> bool {
        self.is_rebuilt
    }

    fn open_on(
        engine: LsmEngine,
        settings: Settings,
        lock: FolderLock,
        start: Instant,
    ) -> Result<Folder, OpenError> {
        let (folder, engine) = (settings.data.clone(), Arc::new(engine));
        let damage = engine.damage().join("; ");
        let engine = settings.engine_layer.over(&folder, engine);
        let disk: Arc<dyn Disk> = Arc::new(RealDisk);
        let recovered = Self::recover(settings, &disk, engine, Some(lock), start);
        recovered.map_err(|error| match error.is_damage() && !damage.is_empty() {
            true => OpenError::damaged(format!("{damage}; so the start ends: {error}")),
            false => error,
        })
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
        let (mut log, unfinished) = open_log(
            &settings.data,
            settings.durability,
            settings.segment_bytes,
            disk,
        )?;
        let is_new = log.is_new();
        let id = DiskId(u128::from(log.identity()));
        let recovered = recovery::recover(&mut log, &*engine, id)?;
        let (data, options) = (settings.data.clone(), settings.blocks.clone());
        let (blocks, told) = MemberBlocks::open(data, options, disk.clone())?;
        for note in &told.notes {
            tracing::info!(note, "recovered blocks");
        }
        for damage in &told.damage {
            tracing::error!(%damage, "blocks are damaged: other blocks are found");
        }
        Ok(Folder {
            settings,
            engine,
            log,
            blocks,
            recovered,
            is_new,
            unfinished,
            is_rebuilt: false,
            lock,
            start,
        })
    }

    /// The state that was recovered.
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.engine.snapshot()
    }

    /// The numbers of its member.
    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
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

    /// How far it has come. Of a log that was not synced nothing can be asked. A power cut may have
    /// taken what was there, and that it is an old copy does not show.
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

    /// Begins an incarnation.
    pub(crate) fn live(
        self,
        me: Identity,
        links: Option<ClusterLinks>,
    ) -> Result<(Member, Recovery), OpenError> {
        let Folder {
            settings,
            engine,
            log,
            blocks,
            recovered,
            is_new,
            unfinished,
            is_rebuilt,
            lock,
            start,
        } = self;
        let shared = Arc::new(Shared::new(engine, blocks, settings.clock.clone(), lock));
        let is_alone = links.is_none();
        let (jobs, queue) = sync_channel(settings.queue_depth_max + MESSAGES_MAX);
        let known = RecoveryPoint {
            applied: recovered.applied,
            epoch: recovered.epoch,
        };
        let thread = ChainThread::new(
            queue,
            settings.clone(),
            shared.clone(),
            log,
            known,
            me,
            links,
        );
        if let Some(cause) = shared.failure() {
            return Err(OpenError::io("adopting an epoch", io::Error::other(cause)));
        }
        let builder = std::thread::Builder::new().name("chain".to_owned());
        let thread = builder
            .spawn(|| thread.run())
            .map_err(|source| OpenError::io("starting the chain thread", source))?;
        let recovery = Recovery {
            is_first_start: is_new,
            segments: recovered.replayed.segments,
            bytes_verified: recovered.replayed.bytes,
            entries_replayed: recovered.entries_replayed,
            possibly_lost: recovered.replayed.torn.as_ref().map_or(0, |torn| torn.lost),
            torn: recovered
                .replayed
                .torn
                .map(|torn| torn.words)
                .or(unfinished),
            is_rebuilt,
            elapsed: start.elapsed(),
        };
        let member = Member {
            shared,
            jobs,
            settings,
            is_alone,
            thread: Mutex::new(Some(thread)),
        };
        Ok((member, recovery))
    }
}

/// What is said where the engine cannot be made anew.
fn damaged_engine(error: OpenError) -> OpenError {
    match error.is_damage() {
        true => engine::damaged(&error.context),
        false => error,
    }
}

/// Whether the log of the folder has everything that its engine came to.
fn can_rebuild(settings: &Settings) -> Result<bool, OpenError> {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let (durability, segment_bytes) = (settings.durability, settings.segment_bytes);
    let (log, _) = open_log(&settings.data, durability, segment_bytes, &disk)?;
    Ok(log.reaches_back())
}
