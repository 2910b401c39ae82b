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

use fader_chain::{ChainId, Configuration, DiskId, Identity};
use parking_lot::{Condvar, Mutex, RwLock};

use super::connection::{Asker, Changed, Failure};
use super::record::{ClusterRecord, Content, SessionRecord};

/// How often everything is read, if no watch fires.
const LOOK: Duration = Duration::from_millis(100);

/// What was read last.
#[derive(Clone, Debug, Default)]
pub(super) struct Reading {
    /// The configuration of each chain that has one.
    pub(super) configurations: BTreeMap<ChainId, Arc<Configuration>>,
    pub(super) sessions: Vec<SessionRecord>,
    /// Whether the servers can be asked.
    pub(super) is_current: bool,
}

/// What the watcher and the coordinator's handle share.
pub(super) struct Shared {
    pub(super) root: String,
    pub(super) cluster: ClusterRecord,
    reading: RwLock<Arc<Reading>>,
    is_ending: AtomicBool,
    changes: Mutex<u64>,
    changed: Condvar,
}

impl Shared {
    pub(super) fn new(root: String, cluster: ClusterRecord) -> Self {
        Shared {
            root,
            cluster,
            reading: RwLock::default(),
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
        format!("{}/chains/{}", self.root, chain.0)
    }

    pub(super) fn disk(&self, disk: DiskId) -> String {
        format!("{}/disks/{:032x}", self.root, disk.0)
    }

    pub(super) fn session(&self, life: Identity) -> String {
        let (node, incarnation) = (life.node.0, life.incarnation.0);
        format!("{}/sessions/{node}-{incarnation:032x}", self.root)
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
enum Trouble {
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
        let mut news = Vec::new();
        for chain in self.shared.cluster.chains() {
            news.extend(self.news(chain)?);
        }
        let sessions = self.sessions(session)?;
        self.read_at = Instant::now();
        let before = self.shared.view();
        if !(before.is_current && news.is_empty() && before.sessions == sessions) {
            self.shared.store(|reading| {
                for (chain, configuration) in news {
                    reading.take(chain, configuration);
                }
                reading.sessions = sessions;
                reading.is_current = true;
            });
        }
        Ok(())
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
    fn sessions(&mut self, session: Duration) -> Result<Vec<SessionRecord>, Trouble> {
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
            let seen = (znode.version, Instant::now());
            let since = self.seen.entry(name).or_insert(seen);
            if since.0 != znode.version {
                *since = seen;
            }
            // One that was pinged meanwhile has another version, and lives.
            if session <= since.1.elapsed()
                && self.asker.delete(&path, znode.version)? != Changed::Stale
            {
                continue;
            }
            sessions.push((znode.created, decode(&path, &znode.data)?));
        }
        sessions.sort_by_key(|(created, _)| *created);
        Ok(sessions.into_iter().map(|(_, session)| session).collect())
    }
}

fn decode<T: Content>(path: &str, data: &[u8]) -> Result<T, Trouble> {
    T::decode(data).map_err(|why| Trouble::Content(format!("the znode {path} {why}")))
}
