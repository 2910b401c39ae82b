//! Watches the cluster's znodes on a connection of its own ([`Looker`]), keeps what was read last,
//! and notes how far this process's disks came.
//!
//! What was read last stays when nothing can be read.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fader_chain::membership::{Newest, ProcessSession, Watch};
use fader_chain::placement::layout::Layout;
use fader_chain::{ChainId, Configuration, DiskId, Progress, Version};
use fader_services::ErrorCode;
use fader_zookeeper::{EnsembleClient, EnsembleError, WatchMark};
use parking_lot::RwLock;

use super::looker::{LastRead, Looker, WatchError, note_end, note_progress};
use super::paths::{chain_path, disk_path};
use super::record::ClusterRecord;
use super::session::OwnSession;
use crate::coordinator::wakeup::Listeners;

/// How often sessions are read in the time of one, if no watch fires.
const LOOKS: u32 = 20;
/// They are read as often as this at least: so much later one may be found to be over.
const LOOK_MAX: Duration = Duration::from_millis(500);

/// What was read last.
#[derive(Clone, Debug)]
pub(super) struct CoordinatorView {
    /// What the cluster was made with, and its version.
    pub(super) cluster: Arc<ClusterRecord>,
    /// The configuration of each chain that has one.
    pub(super) configurations: Newest,
    /// Those that speak the cluster's version.
    pub(super) sessions: Vec<ProcessSession>,
    /// The nodes, and where chains are to be.
    pub(super) layout: Arc<Layout>,
    /// Whether the servers can be asked.
    pub(super) is_current: bool,
}

/// What the watcher and the coordinator's handle share.
pub(super) struct Shared {
    pub(super) root: String,
    /// What the cluster was when this process joined.
    pub(super) cluster: ClusterRecord,
    /// The greatest version that this process speaks.
    pub(super) speaks: Version,
    /// The session of this process.
    pub(super) session: OwnSession,
    reading: RwLock<Arc<CoordinatorView>>,
    is_ending: AtomicBool,
    pub(super) listeners: Listeners,
}

impl Shared {
    pub(super) fn new(
        root: String,
        cluster: ClusterRecord,
        layout: Layout,
        speaks: Version,
    ) -> Self {
        let reading = CoordinatorView {
            cluster: Arc::new(cluster.clone()),
            configurations: Newest::default(),
            sessions: Vec::new(),
            layout: Arc::new(layout),
            is_current: false,
        };
        Shared {
            root,
            cluster,
            speaks,
            session: OwnSession::default(),
            reading: RwLock::new(Arc::new(reading)),
            is_ending: AtomicBool::new(false),
            listeners: Listeners::default(),
        }
    }

    pub(super) fn view(&self) -> Arc<CoordinatorView> {
        self.reading.read().clone()
    }

    /// The znode of a chain's configuration.
    pub(super) fn chain(&self, chain: ChainId) -> String {
        chain_path(&self.root, chain)
    }

    pub(super) fn disk(&self, disk: DiskId) -> String {
        disk_path(&self.root, disk)
    }

    /// We changed the record of the cluster.
    pub(super) fn on_changed(&self, cluster: ClusterRecord) {
        self.store(|reading| reading.cluster = Arc::new(cluster));
    }

    /// Notes how far a disk came, where that is news (COORD-5).
    pub(super) fn note_progress(
        &self,
        asker: &mut EnsembleClient,
        disk: DiskId,
        progress: Progress,
    ) -> Result<(), WatchError> {
        let version = self.view().cluster.version;
        note_progress(asker, &self.disk(disk), progress, version)
    }

    /// We published a configuration.
    pub(super) fn on_published(&self, chain: ChainId, next: Configuration) {
        self.store(|reading| reading.configurations.take(chain, Arc::new(next)));
    }

    /// Changes what was read, and wakes who waits, if that is news.
    fn store(&self, change: impl FnOnce(&mut CoordinatorView)) {
        let mut reading = self.reading.write();
        let mut next = CoordinatorView::clone(&reading);
        change(&mut next);
        *reading = Arc::new(next);
        drop(reading);
        self.listeners.wake();
    }

    pub(super) fn end(&self) {
        self.is_ending.store(true, Ordering::Relaxed);
    }
}

/// The watcher.
pub(super) struct Watcher {
    shared: Arc<Shared>,
    asker: EnsembleClient,
    watch: Watch,
    started: Instant,
    /// Before the last look that found nothing damaged.
    marked: Option<WatchMark>,
    /// The trouble that was told, so that it is told once.
    told: Option<String>,
}

impl Watcher {
    /// Starts it; it ends with its coordinator.
    pub(super) fn start(shared: Arc<Shared>, asker: EnsembleClient) -> io::Result<JoinHandle<()>> {
        let watcher = Watcher {
            watch: Watch::new(shared.cluster.session, shared.speaks),
            shared,
            asker,
            started: Instant::now(),
            marked: None,
            told: None,
        };
        let builder = std::thread::Builder::new().name("coordinator".to_owned());
        builder.spawn(move || watcher.run())
    }

    fn run(mut self) {
        let look = LOOK_MAX.min(self.shared.cluster.session / LOOKS);
        while !self.shared.is_ending.load(Ordering::Relaxed) {
            match self.look() {
                Ok(damage) => self.on_answered(&damage),
                Err(WatchError::Failure(failure)) => {
                    self.on_trouble(format!("ZooKeeper cannot be asked: {failure}"));
                }
                Err(WatchError::Content(outage)) => self.on_trouble(outage.to_string()),
                Err(WatchError::Damaged(why)) => {
                    self.on_damage(&[why]);
                    self.on_unknown();
                }
            }
            // Waiting also asks: not where no server answers.
            let waited = match self.asker.is_connected() {
                true => self.asker.wait(look),
                false => Err(EnsembleError::Lost(String::new())),
            };
            if waited.is_err() {
                std::thread::sleep(look);
            }
        }
    }

    fn on_answered(&mut self, damage: &[String]) {
        if !damage.is_empty() {
            return self.on_damage(damage);
        }
        if self.told.take().is_some() {
            tracing::info!("ZooKeeper answers again");
        }
    }

    /// Tells once what is to be repaired.
    fn on_damage(&mut self, damage: &[String]) {
        let why = damage.join("; ");
        if self.told.as_ref() != Some(&why) {
            let code = ErrorCode::CoordinatorDamaged;
            let (row, code) = (code.row(), code.name());
            tracing::error!(
                code,
                "{why}. What was read last stays in force: {}",
                row.action
            );
        }
        self.told = Some(why);
    }

    /// What was read last may be old.
    fn on_unknown(&self) {
        if self.shared.view().is_current {
            self.shared.store(|reading| reading.is_current = false);
        }
    }

    fn on_trouble(&mut self, why: String) {
        self.on_unknown();
        if self.told.as_ref() != Some(&why) {
            tracing::warn!("{why}; what was read last stays in force");
        }
        self.told = Some(why);
    }

    /// Reads everything, ends what is over, and tells; the znodes that are damaged, in words.
    fn look(&mut self) -> Result<Vec<String>, WatchError> {
        self.note_own()?;
        let shared = self.shared.clone();
        let view = shared.view();
        let last = LastRead {
            cluster: view.cluster.clone(),
            layout: view.layout.clone(),
        };
        let mark = self.asker.mark();
        let looker = Looker {
            root: &shared.root,
            asker: &mut self.asker,
            watch: &mut self.watch,
            started: self.started,
            speaks: shared.speaks,
            is_told: true,
            last: Some(last),
            is_same: mark.is_some() && mark == self.marked.take(),
            damage: Vec::new(),
        };
        let looked = looker.look(|chain| shared.view().configurations.epoch(chain))?;
        self.marked = mark.filter(|_| looked.damage.is_empty());
        let (cluster, layout) = (Arc::new(looked.cluster), looked.layout);
        let seen = looked.reading;
        let before = self.shared.view();
        let is_same = before.cluster == cluster
            && before.sessions == seen.sessions
            && before.layout == layout;
        if !(before.is_current && seen.configurations.is_empty() && is_same) {
            self.shared.store(|reading| {
                for (chain, configuration) in seen.configurations {
                    reading.configurations.take(chain, configuration);
                }
                reading.cluster = cluster;
                reading.sessions = seen.sessions;
                reading.layout = layout;
                reading.is_current = true;
            });
        }
        Ok(looked.damage)
    }

    /// Notes what was adopted on this process's own disks. No ping waits for that: until it is
    /// noted the session says it.
    fn note_own(&mut self) -> Result<(), EnsembleError> {
        let version = self.shared.view().cluster.version;
        for (member, progress) in self.shared.session.unnoted() {
            let path = self.shared.disk(member.disk);
            note_end(&mut self.asker, &path, progress, version)?;
            self.shared.session.on_noted(member, progress);
        }
        Ok(())
    }
}
