//! Watches the cluster's znodes on a connection of its own, keeps what was read last, and ends
//! sessions.
//!
//! Invariants:
//! - Z2 (see the module above) the time for which a version was seen counts from after it was read,
//!   and anew after each time in which nothing was read.
//! - Z6 what was read last stays when nothing can be read; a configuration is never replaced by an
//!   older one.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fader_chain::placement::layout::Layout;
use fader_chain::{ChainId, Configuration, DiskId, EntryId, Identity, Progress, Version};
use parking_lot::{Condvar, Mutex, RwLock};

use super::TRIES;
use super::connection::{Asker, Changed, Failure};
use super::record::{ClusterRecord, Content, DiskRecord, SessionRecord};
use super::standing::SILENT;

/// How often everything is read, if no watch fires.
const LOOK: Duration = Duration::from_millis(100);

/// What was read last.
#[derive(Clone, Debug)]
pub(super) struct Reading {
    /// What the cluster was made with, and its version.
    pub(super) cluster: Arc<ClusterRecord>,
    /// The configuration of each chain that has one.
    pub(super) configurations: BTreeMap<ChainId, Arc<Configuration>>,
    /// Those that speak the cluster's version.
    pub(super) sessions: Vec<Session>,
    /// The nodes, and where chains are to be.
    pub(super) layout: Arc<Layout>,
    /// Whether the servers can be asked.
    pub(super) is_current: bool,
}

/// A process that has a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Session {
    pub(super) record: SessionRecord,
    /// The greatest version that it speaks.
    pub(super) speaks: Version,
    /// Whether it was not heard of for longer than it should be.
    pub(super) is_silent: bool,
}

/// What the watcher and the coordinator's handle share.
pub(super) struct Shared {
    pub(super) root: String,
    /// What the cluster was when this process joined.
    pub(super) cluster: ClusterRecord,
    /// The greatest version that this process speaks.
    pub(super) speaks: Version,
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
            configurations: BTreeMap::new(),
            sessions: Vec::new(),
            layout: Arc::new(layout),
            is_current: false,
        };
        Shared {
            root,
            cluster,
            speaks,
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

    pub(super) fn session(&self, life: Identity) -> String {
        format!("{}/sessions/{}", self.root, session_name(life, self.speaks))
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
        // Nodes of before version 3 do not read an entry there.
        let progress = match self.view().cluster.version.is_third() {
            true => progress,
            false => Progress {
                last: EntryId::ZERO,
                ..progress
            },
        };
        note_progress(asker, &self.disk(disk), progress)
    }

    /// We published a configuration.
    pub(super) fn on_published(&self, chain: ChainId, next: Configuration) {
        self.store(|reading| reading.take(chain, Arc::new(next)));
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

impl Reading {
    fn take(&mut self, chain: ChainId, configuration: Arc<Configuration>) {
        if self.epoch(chain) < configuration.epoch {
            self.configurations.insert(chain, configuration);
        }
    }

    fn epoch(&self, chain: ChainId) -> u64 {
        self.configurations.get(&chain).map_or(0, |it| it.epoch)
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
    /// The version of each session's znode, and since when it was seen.
    seen: BTreeMap<String, (i32, Instant)>,
    read_at: Instant,
    /// The trouble that was told, so that it is told once.
    told: Option<String>,
}

impl Watcher {
    /// Starts it; it ends with its coordinator.
    pub(super) fn start(shared: Arc<Shared>, asker: Asker) -> io::Result<JoinHandle<()>> {
        let watcher = Watcher {
            shared,
            asker,
            seen: BTreeMap::new(),
            read_at: Instant::now(),
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
        let session = self.shared.cluster.session;
        if session / 2 <= self.read_at.elapsed() {
            // Others could not ping either, for all we know.
            self.seen.clear();
        }
        let cluster = self.cluster()?;
        let layout = self.layout()?;
        let mut news = Vec::new();
        for chain in layout.chains.keys().copied() {
            news.extend(self.news(chain)?);
        }
        let mut sessions = self.sessions(session)?;
        sessions.retain(|session| cluster.version <= session.speaks);
        self.read_at = Instant::now();
        let before = self.shared.view();
        let is_same =
            *before.cluster == cluster && before.sessions == sessions && *before.layout == layout;
        if !(before.is_current && news.is_empty() && is_same) {
            self.shared.store(|reading| {
                for (chain, configuration) in news {
                    reading.take(chain, configuration);
                }
                reading.cluster = Arc::new(cluster);
                reading.sessions = sessions;
                reading.layout = Arc::new(layout);
                reading.is_current = true;
            });
        }
        Ok(())
    }

    /// The record of the cluster, if this process speaks its version.
    fn cluster(&mut self) -> Result<ClusterRecord, Trouble> {
        let root = &self.shared.root;
        let znode = self.asker.get(root, true)?;
        let znode = znode.ok_or_else(|| Trouble::Content(format!("there is no znode {root}")))?;
        let cluster: ClusterRecord = decode(root, &znode.data)?;
        let speaks = self.shared.speaks;
        match cluster.version <= speaks {
            true => Ok(cluster),
            false => Err(Trouble::Content(unspoken(cluster.version, speaks))),
        }
    }

    /// The nodes and the places of chains.
    fn layout(&mut self) -> Result<Layout, Trouble> {
        let path = layout_path(&self.shared.root);
        match self.asker.get(&path, true)? {
            Some(znode) => decode(&path, &znode.data),
            None => Ok(self.shared.cluster.founded()),
        }
    }

    /// The configuration of a chain, if it is newer than what is known.
    fn news(&mut self, chain: ChainId) -> Result<Option<(ChainId, Arc<Configuration>)>, Trouble> {
        let path = self.shared.chain(chain);
        let known = self.shared.view().epoch(chain);
        let newest = match self.asker.get(&path, true)? {
            Some(znode) => Some(decode::<Configuration>(&path, &znode.data)?),
            None => None,
        };
        let epoch = newest.as_ref().map_or(0, |it| it.epoch);
        if epoch < known {
            return Err(Trouble::Content(format!(
                "ZooKeeper knows epoch {epoch} of {chain}, but this node epoch {known}: it lags \
                 behind, or its history was lost"
            )));
        }
        let newest = newest.filter(|_| known < epoch);
        Ok(newest.map(|newest| (chain, Arc::new(newest))))
    }

    /// The processes whose sessions are not over, in the order in which they began.
    fn sessions(&mut self, session: Duration) -> Result<Vec<Session>, Trouble> {
        let folder = format!("{}/sessions", self.shared.root);
        let mut names = self.asker.children(&folder, true)?;
        names.sort();
        self.seen
            .retain(|name, _| names.binary_search(name).is_ok());
        let mut sessions = Vec::with_capacity(names.len());
        for name in names {
            let path = format!("{folder}/{name}");
            let Some(znode) = self.asker.get(&path, false)? else {
                continue;
            };
            let speaks = spoken(&name);
            let seen = (znode.version, Instant::now());
            let since = self.seen.entry(name).or_insert(seen);
            if since.0 != znode.version {
                *since = seen;
            }
            let silence = since.1.elapsed();
            let (is_over, is_silent) = (session <= silence, session / SILENT <= silence);
            let record = decode(&path, &znode.data);
            if let Ok(record) = &record
                && is_over
            {
                self.note_end(record)?;
            }
            // One that was pinged meanwhile has another version, and lives.
            if is_over && self.asker.delete(&path, znode.version)? != Changed::Stale {
                continue;
            }
            let record = record?;
            let session = Session {
                record,
                speaks,
                is_silent,
            };
            sessions.push((znode.created, session));
        }
        sessions.sort_by_key(|(created, _)| *created);
        Ok(sessions.into_iter().map(|(_, session)| session).collect())
    }
}

/// Notes in a disk's znode how far it came, where that is news.
pub(super) fn note_progress(
    asker: &mut Asker,
    path: &str,
    progress: Progress,
) -> Result<(), Trouble> {
    for _ in 0..TRIES {
        let Some(znode) = asker.get(path, false)? else {
            return Err(Trouble::Content(format!("there is no znode {path}")));
        };
        let known: DiskRecord = decode(path, &znode.data)?;
        if progress <= known.progress {
            return Ok(());
        }
        let record = DiskRecord { progress, ..known };
        if asker.set(path, &record.encode(), znode.version)? == Changed::Done {
            return Ok(());
        }
    }
    Err(Trouble::Content(format!(
        "too many write to the znode {path}"
    )))
}

/// The name of a session's znode. Processes of version 2 do not look into it, but do not pass over
/// anything in what is written there: so it is the name that says what is spoken.
pub(super) fn session_name(life: Identity, speaks: Version) -> String {
    let (node, incarnation) = (life.node.0, life.incarnation.0);
    match speaks {
        Version::OLDEST => format!("{node}-{incarnation:032x}"),
        _ => format!("{node}-{incarnation:032x}-{speaks}"),
    }
}

/// The greatest version that the process with this session speaks.
pub(super) fn spoken(name: &str) -> Version {
    let number = name.split('-').nth(2).and_then(|it| it.parse().ok());
    number.map_or(Version::OLDEST, Version)
}

/// Why a process cannot be in a cluster.
pub(super) fn unspoken(version: Version, speaks: Version) -> String {
    format!(
        "the cluster is of version {version}, but this process speaks {speaks} at most: start it \
         with a newer version of Fader"
    )
}

impl Watcher {
    /// Notes how far the disks of a session came before it is ended: afterwards nobody knows (C5).
    /// That a disk's znode is not what it should be is nobody's reason to live for ever.
    fn note_end(&mut self, session: &SessionRecord) -> Result<(), Trouble> {
        for life in &session.lives {
            let (disk, progress) = (life.identity.disk, life.progress());
            let noted = self.shared.note_progress(&mut self.asker, disk, progress);
            match noted {
                Err(Trouble::Content(why)) => {
                    tracing::warn!("how far a disk came is not noted: {why}");
                }
                other => other?,
            }
        }
        Ok(())
    }
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
