//! Watches the cluster's znodes on a connection of its own ([`Watch`] says what is read and which
//! sessions are over), keeps what was read last, and notes how far this process's disks came.
//!
//! What was read last stays when nothing can be read.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fader_chain::membership::{
    Ask, Newest, Seen, Session, SessionRecord, Told, Trouble as Unseen, Watch, further,
};
use fader_chain::placement::layout::Layout;
use fader_chain::{ChainId, Configuration, DiskId, Progress, Version};
use fader_zookeeper::{Asker, Changed, Failure};
use parking_lot::{Condvar, Mutex, RwLock};

use super::TRIES;
use super::record::{ClusterRecord, Content, DiskRecord};
use super::session::OwnSession;

/// How often everything is read, if no watch fires.
const LOOK: Duration = Duration::from_millis(100);

/// What was read last.
#[derive(Clone, Debug)]
pub(super) struct Reading {
    /// What the cluster was made with, and its version.
    pub(super) cluster: Arc<ClusterRecord>,
    /// The configuration of each chain that has one.
    pub(super) configurations: Newest,
    /// Those that speak the cluster's version.
    pub(super) sessions: Vec<Session>,
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
    reading: RwLock<Arc<Reading>>,
    is_ending: AtomicBool,
    changes: Mutex<u64>,
    changed: Condvar,
}

impl Shared {
    pub(super) fn new(
        root: String,
        cluster: ClusterRecord,
        (layout, speaks): (Layout, Version),
    ) -> Self {
        let reading = Reading {
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
            changes: Mutex::new(0),
            changed: Condvar::new(),
        }
    }

    pub(super) fn view(&self) -> Arc<Reading> {
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

    /// Notes how far a disk came, where that is news (C5).
    pub(super) fn note_progress(
        &self,
        asker: &mut Asker,
        disk: DiskId,
        progress: Progress,
    ) -> Result<(), Trouble> {
        let version = self.view().cluster.version;
        note_progress(asker, &self.disk(disk), progress, version)
    }

    /// We published a configuration.
    pub(super) fn on_published(&self, chain: ChainId, next: Configuration) {
        self.store(|reading| reading.configurations.take(chain, Arc::new(next)));
    }

    /// Changes what was read, and wakes who waits, if that is news.
    fn store(&self, change: impl FnOnce(&mut Reading)) {
        let mut reading = self.reading.write();
        let mut next = Reading::clone(&reading);
        change(&mut next);
        *reading = Arc::new(next);
        drop(reading);
        *self.changes.lock() += 1;
        self.changed.notify_all();
    }

    pub(super) fn wait(&self, time: Duration) {
        let mut changes = self.changes.lock();
        let before = *changes;
        let is_old = |changes: &mut u64| *changes == before;
        self.changed.wait_while_for(&mut changes, is_old, time);
    }

    pub(super) fn end(&self) {
        self.is_ending.store(true, Ordering::Relaxed);
    }
}

/// Why a reading is none.
pub(super) enum Trouble {
    Failure(Failure),
    /// A znode is not what it should be.
    Content(String),
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Trouble::Failure(failure)
    }
}

/// The watcher.
pub(super) struct Watcher {
    shared: Arc<Shared>,
    asker: Asker,
    watch: Watch,
    started: Instant,
    /// The trouble that was told, so that it is told once.
    told: Option<String>,
}

impl Watcher {
    /// Starts it; it ends with its coordinator.
    pub(super) fn start(shared: Arc<Shared>, asker: Asker) -> io::Result<JoinHandle<()>> {
        let watcher = Watcher {
            watch: Watch::new(shared.cluster.session, shared.speaks),
            shared,
            asker,
            started: Instant::now(),
            told: None,
        };
        let builder = std::thread::Builder::new().name("coordinator".to_owned());
        builder.spawn(move || watcher.run())
    }

    fn run(mut self) {
        let look = LOOK.min(self.shared.cluster.session / 20);
        while !self.shared.is_ending.load(Ordering::Relaxed) {
            match self.look() {
                Ok(()) => self.on_answered(),
                Err(Trouble::Failure(failure)) => {
                    self.on_trouble(format!("ZooKeeper cannot be asked: {failure}"));
                }
                Err(Trouble::Content(why)) => self.on_trouble(why),
            }
            // Waiting also asks: not where nobody answers.
            let waited = match self.asker.is_connected() {
                true => self.asker.wait(look),
                false => Err(Failure::Lost(String::new())),
            };
            if waited.is_err() {
                std::thread::sleep(look);
            }
        }
    }

    fn on_answered(&mut self) {
        if self.told.take().is_some() {
            tracing::info!("ZooKeeper answers again");
        }
    }

    fn on_trouble(&mut self, why: String) {
        if self.shared.view().is_current {
            self.shared.store(|reading| reading.is_current = false);
        }
        if self.told.as_ref() != Some(&why) {
            tracing::warn!("{why}; what was read last stays in force");
        }
        self.told = Some(why);
    }

    /// Reads everything, ends what is over, and tells.
    fn look(&mut self) -> Result<(), Trouble> {
        self.note_own()?;
        self.watch.begin(self.started.elapsed());
        let (mut cluster, mut layout) = (None, None);
        while let Some(ask) = self.watch.ask().cloned() {
            let told = match ask {
                Ask::Cluster => {
                    let read = cluster.insert(self.cluster()?);
                    Told::Cluster(read.version)
                }
                Ask::Layout => {
                    let read = layout.insert(self.layout()?);
                    Told::Layout(read.chains.keys().copied().collect())
                }
                Ask::Configuration(chain) => self.configuration(chain)?,
                Ask::Sessions => {
                    let names = self.asker.children(&self.sessions(), true)?;
                    Told::Sessions(names)
                }
                Ask::Session(name) => Told::Session(self.session(&name)?),
                Ask::Note { disk, progress } => {
                    self.note_end(disk, progress)?;
                    Told::Noted
                }
                Ask::End { name, version } => {
                    let path = format!("{}/{name}", self.sessions());
                    match self.asker.delete(&path, version)? {
                        Changed::Stale => Told::Outlived,
                        Changed::Done | Changed::Missing => Told::Ended,
                    }
                }
            };
            let told = self.watch.on_told(self.started.elapsed(), told);
            told.map_err(|unseen| self.trouble(unseen))?;
        }
        let seen = self.watch.end(self.started.elapsed());
        let seen = seen.map_err(|unseen| self.trouble(unseen))?;
        let before = self.shared.view();
        let cluster = cluster.map_or_else(|| before.cluster.clone(), Arc::new);
        let layout = layout.map_or_else(|| before.layout.clone(), Arc::new);
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
        Ok(())
    }

    fn sessions(&self) -> String {
        format!("{}/sessions", self.shared.root)
    }

    /// The record of the cluster.
    fn cluster(&mut self) -> Result<ClusterRecord, Trouble> {
        let root = &self.shared.root;
        let znode = self.asker.get(root, true)?;
        let znode = znode.ok_or_else(|| Trouble::Content(format!("there is no znode {root}")))?;
        decode(root, &znode.data)
    }

    /// The nodes and the places of chains.
    fn layout(&mut self) -> Result<Layout, Trouble> {
        let path = layout_path(&self.shared.root);
        match self.asker.get(&path, true)? {
            Some(znode) => decode(&path, &znode.data),
            None => Ok(self.shared.cluster.founded()),
        }
    }

    /// The newest configuration of a chain, and what was known before it was read.
    fn configuration(&mut self, chain: ChainId) -> Result<Told, Trouble> {
        let path = self.shared.chain(chain);
        let known = self.shared.view().configurations.epoch(chain);
        let newest = match self.asker.get(&path, true)? {
            Some(znode) => Some(Arc::new(decode::<Configuration>(&path, &znode.data)?)),
            None => None,
        };
        Ok(Told::Configuration(newest, known))
    }

    /// A session, if it is there.
    fn session(&mut self, name: &str) -> Result<Option<Seen>, Failure> {
        let path = format!("{}/{name}", self.sessions());
        let znode = self.asker.get(&path, false)?;
        Ok(znode.map(|znode| Seen {
            version: znode.version,
            created: znode.created,
            record: SessionRecord::decode(&znode.data)
                .map_err(|why| format!("the znode {path} {why}")),
        }))
    }

    /// Notes a disk's progress before a session that tells it is ended: afterwards it is unknown
    /// (C5). That a disk's znode is not what it should be is no reason to keep the session.
    fn note_end(&mut self, disk: DiskId, progress: Progress) -> Result<(), Failure> {
        let noted = self.shared.note_progress(&mut self.asker, disk, progress);
        match noted {
            Err(Trouble::Failure(failure)) => Err(failure),
            Err(Trouble::Content(why)) => {
                tracing::warn!("how far a disk came is not noted: {why}");
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// Notes what was adopted on this process's own disks. No ping waits for that: until it is
    /// noted the session says it.
    fn note_own(&mut self) -> Result<(), Failure> {
        for (member, progress) in self.shared.session.unnoted() {
            self.note_end(member.disk, progress)?;
            self.shared.session.on_noted(member, progress);
        }
        Ok(())
    }

    fn trouble(&self, unseen: Unseen) -> Trouble {
        Trouble::Content(match unseen {
            Unseen::Unspoken(version) => unspoken(version, self.shared.speaks),
            Unseen::Older {
                chain,
                epoch,
                known,
            } => format!(
                "ZooKeeper knows epoch {epoch} of {chain}, but this node epoch {known}: it lags \
                 behind, or its history was lost"
            ),
            Unseen::Damaged(why) => why,
            Unseen::Unasked => "the coordinator's watcher lost its place".to_owned(),
        })
    }
}

/// Notes in a disk's znode how far it came, where that is news.
pub(super) fn note_progress(
    asker: &mut Asker,
    path: &str,
    said: Progress,
    version: Version,
) -> Result<(), Trouble> {
    for _ in 0..TRIES {
        let Some(znode) = asker.get(path, false)? else {
            return Err(Trouble::Content(format!("there is no znode {path}")));
        };
        let known: DiskRecord = decode(path, &znode.data)?;
        let Some(progress) = further(known.progress, said, version) else {
            return Ok(());
        };
        let record = DiskRecord { progress, ..known };
        if asker.set(path, &record.encode(), znode.version)? == Changed::Done {
            return Ok(());
        }
    }
    Err(Trouble::Content(format!(
        "too many write to the znode {path}"
    )))
}

/// Why a process cannot be in a cluster.
pub(super) fn unspoken(version: Version, speaks: Version) -> String {
    format!(
        "the cluster is of version {version}, but this process speaks {speaks} at most: start it \
         with a newer version of Fader"
    )
}

/// The znode of a chain's configuration.
pub(super) fn chain_path(root: &str, chain: ChainId) -> String {
    format!("{root}/chains/{}", chain.0)
}

/// The znode of a disk's record.
pub(super) fn disk_path(root: &str, disk: DiskId) -> String {
    format!("{root}/disks/{:032x}", disk.0)
}

/// The znode of the nodes and places.
pub(super) fn layout_path(root: &str) -> String {
    format!("{root}/layout")
}

fn decode<T: Content>(path: &str, data: &[u8]) -> Result<T, Trouble> {
    T::decode(data).map_err(|why| Trouble::Content(format!("the znode {path} {why}")))
}
