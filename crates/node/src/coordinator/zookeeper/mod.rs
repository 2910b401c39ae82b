//! A coordinator on ZooKeeper (docs/decisions/0007-zookeeper.md).
//!
//! ```text
//! /fader                         what the cluster was made with
//! /fader/next                    the number that the next disk gets
//! /fader/disks/DISK              its number, its node's name, the greatest epoch it adopted
//! /fader/sessions/NODE-LIFE      a life: who, where, what it reports; written anew by each ping
//! /fader/chains/0                the configuration
//! ```
//!
//! A life's session is its znode, and a ping is a write to it: acknowledged when a majority has it.
//! Whoever has seen one version of it for S removes it, on condition of that version, and so does
//! not remove one that was pinged meanwhile. Sessions of ZooKeeper and their time-outs, of which a
//! server that is cut off knows nothing, are not relied on.
//!
//! Invariants:
//! - Z2 a session's znode is removed by its own life, or at a version that was seen for S (C3).
//! - Z3 a configuration is replaced on condition of the version at which it was read (C1).
//! - Z4 a number is given away before it is used: none is given twice (C5).
//! - Z5 sessions are read after the configuration: those of its members who live are among them.
//!
//! Deliberately absent: several chains; TLS to ZooKeeper.

mod connection;
mod record;
mod watcher;
mod wire;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use fader_chain::controller::Reports;
use fader_chain::{Configuration, DiskId, Identity, Incarnation, NodeId, Report};
use parking_lot::Mutex;

use super::{Coordinator, CoordinatorError};
use crate::seal::Secret;
use connection::{ANY, Asker, Changed, Failure, Place, Znode};
use record::{Content, DiskRecord, NAME_MAX, NextNode, SessionRecord};
use watcher::{Shared, Watcher};

pub use record::ClusterRecord;

/// How long a request may take at most; half a session at most, for then a ping is of no use.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often a number is asked for, when others ask too.
const TRIES: usize = 64;

/// Where a cluster is kept.
#[derive(Clone, Debug)]
pub struct ZooKeeperSettings {
    /// `host:port` of each server.
    pub hosts: Vec<String>,
    /// The znode below which everything is, such as `/fader`.
    pub root: String,
    /// `user:password`, if the cluster's znodes are to be open to nobody else.
    pub credentials: Option<Secret>,
}

/// A node with a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Present {
    /// Who it is.
    pub identity: Identity,
    /// The name it was given.
    pub name: String,
    /// Where other members reach it.
    pub address: String,
}

impl Present {
    fn of(session: &SessionRecord) -> Self {
        Present {
            identity: session.identity,
            name: session.name.clone(),
            address: session.address.clone(),
        }
    }
}

/// How a cluster stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// What it was made with.
    pub cluster: ClusterRecord,
    /// The newest configuration; none before the first.
    pub configuration: Option<Configuration>,
    /// The nodes whose sessions nobody has ended yet.
    pub present: Vec<Present>,
}

/// A life that this process keeps.
struct Life {
    record: SessionRecord,
    /// The greatest epoch that its disk's znode has.
    noted: u64,
}

/// The coordinator.
pub struct ZooKeeperCoordinator {
    shared: Arc<Shared>,
    name: String,
    address: String,
    asker: Mutex<Asker>,
    lives: Mutex<BTreeMap<Identity, Life>>,
    watcher: Option<JoinHandle<()>>,
}

impl ZooKeeperCoordinator {
    /// Makes a cluster, once.
    ///
    /// # Errors
    /// [`CoordinatorError::Refused`] when there is one already, or its names are none.
    pub fn create(
        settings: &ZooKeeperSettings,
        cluster: &ClusterRecord,
    ) -> Result<(), CoordinatorError> {
        check_root(&settings.root)?;
        if let Some(name) = cluster.members.iter().find(|name| !is_name(name)) {
            return Err(CoordinatorError::Refused(format!(
                "{name:?} is no name: at most {NAME_MAX} letters, digits, '-', '.' or '_'"
            )));
        }
        let mut asker = Asker::new(Arc::new(place(settings, PATIENCE)));
        let parents = settings.root.char_indices().skip(1);
        for (at, _) in parents.filter(|(_, letter)| *letter == '/') {
            asker.create(&settings.root[..at], &[])?;
        }
        if asker.create(&settings.root, &cluster.encode())? {
            return Ok(());
        }
        Err(CoordinatorError::Refused(format!(
            "there is a cluster at {} already: another one needs another place",
            settings.root
        )))
    }

    /// Begins to watch the cluster, for a node with that name and address.
    ///
    /// # Errors
    /// [`CoordinatorError`]: `Refused` when there is no cluster, or the name is none of its.
    pub fn join(
        settings: &ZooKeeperSettings,
        name: &str,
        address: &str,
    ) -> Result<Self, CoordinatorError> {
        let root = &settings.root;
        let mut asker = Asker::new(Arc::new(place(settings, PATIENCE)));
        let cluster = cluster_at(root, &mut asker)?;
        if !cluster.members.iter().any(|member| member == name) {
            return Err(CoordinatorError::Refused(format!(
                "{name:?} is none of the cluster's members, which are {}",
                cluster.members.join(", ")
            )));
        }
        for path in ["disks", "sessions", "chains"] {
            asker.create(&format!("{root}/{path}"), &[])?;
        }
        asker.create(&format!("{root}/next"), &NextNode(1).encode())?;
        let patience = PATIENCE.min(cluster.session / 2);
        let place = Arc::new(place(settings, patience));
        let shared = Arc::new(Shared::new(root.clone(), cluster));
        let watcher = Watcher::start(shared.clone(), Asker::new(place.clone()))
            .map_err(|error| CoordinatorError::Unavailable(error.to_string()))?;
        Ok(ZooKeeperCoordinator {
            shared,
            name: name.to_owned(),
            address: address.to_owned(),
            asker: Mutex::new(Asker::new(place)),
            lives: Mutex::default(),
            watcher: Some(watcher),
        })
    }

    /// What the cluster was made with.
    pub fn cluster(&self) -> &ClusterRecord {
        &self.shared.cluster
    }

    /// The nodes whose sessions are not over, in the order in which they began.
    pub fn present(&self) -> Vec<Present> {
        let view = self.shared.view();
        view.sessions.iter().map(Present::of).collect()
    }

    /// How a cluster stands, for whoever is no member of it.
    ///
    /// # Errors
    /// [`CoordinatorError`]: `Refused` when there is no cluster.
    pub fn look(settings: &ZooKeeperSettings) -> Result<Standing, CoordinatorError> {
        let mut asker = Asker::new(Arc::new(place(settings, PATIENCE)));
        let root = &settings.root;
        let cluster = cluster_at(root, &mut asker)?;
        let chain = format!("{root}/chains/0");
        let configuration = match asker.get(&chain, false)? {
            Some(znode) => Some(read(&chain, &znode)?),
            None => None,
        };
        let folder = format!("{root}/sessions");
        let mut present = Vec::new();
        if asker.get(&folder, false)?.is_some() {
            for name in asker.children(&folder, false)? {
                let path = format!("{folder}/{name}");
                if let Some(znode) = asker.get(&path, false)? {
                    present.push(Present::of(&read(&path, &znode)?));
                }
            }
        }
        Ok(Standing {
            cluster,
            configuration,
            present,
        })
    }

    /// Whether the coordinator answered when it was asked last.
    pub fn is_reachable(&self) -> bool {
        self.shared.view().is_current
    }

    /// What is known of a disk; a new one gets a number.
    fn disk(&self, disk: DiskId, epoch: u64) -> Result<DiskRecord, CoordinatorError> {
        let path = self.shared.disk(disk);
        let mut asker = self.asker.lock();
        asker.sync(&self.shared.root)?;
        let newest = match asker.get(&self.shared.chain(), false)? {
            Some(znode) => read::<Configuration>(&self.shared.chain(), &znode)?.epoch,
            None => 0,
        };
        if newest < epoch {
            return Err(CoordinatorError::history_lost(epoch, newest));
        }
        if let Some(znode) = asker.get(&path, false)? {
            return read(&path, &znode);
        }
        if epoch != 0 {
            return Err(CoordinatorError::Refused(format!(
                "the folder has adopted epoch {epoch}, but this cluster does not know its disk: it \
                 is a folder of another cluster"
            )));
        }
        let record = DiskRecord {
            node: self.next_node(&mut asker)?,
            epoch,
            name: self.name.clone(),
        };
        match asker.create(&path, &record.encode())? {
            true => Ok(record),
            false => Err(CoordinatorError::Refused(
                "another process has just begun on a copy of this folder".to_owned(),
            )),
        }
    }

    /// A number that nobody has.
    fn next_node(&self, asker: &mut Asker) -> Result<NodeId, CoordinatorError> {
        let path = format!("{}/next", self.shared.root);
        for _ in 0..TRIES {
            let znode = asker.get(&path, false)?.ok_or_else(|| missing(&path))?;
            let NextNode(number) = read(&path, &znode)?;
            let next = NextNode(number.saturating_add(1)).encode();
            if asker.set(&path, &next, znode.version)? == Changed::Done {
                return Ok(NodeId(number));
            }
        }
        Err(CoordinatorError::Unavailable(
            "too many others want a number".to_owned(),
        ))
    }

    /// Writes what a life says of itself, which is its ping.
    fn say(&self, life: &mut Life) -> Result<(), CoordinatorError> {
        let adopted = life.record.reports.iter().map(|report| match report {
            Report::Adopted { epoch } => *epoch,
            _ => 0,
        });
        let adopted = adopted.max().unwrap_or_default();
        let mut asker = self.asker.lock();
        let member = life.record.identity;
        if life.noted < adopted {
            self.note_epoch(&mut asker, member.disk, adopted)?;
            life.noted = adopted;
        }
        let path = self.shared.session(member);
        match asker.set(&path, &life.record.encode(), ANY)? {
            Changed::Missing => Err(CoordinatorError::SessionOver),
            Changed::Done | Changed::Stale => Ok(()),
        }
    }

    /// The disk has adopted `epoch`.
    fn note_epoch(
        &self,
        asker: &mut Asker,
        disk: DiskId,
        epoch: u64,
    ) -> Result<(), CoordinatorError> {
        let path = self.shared.disk(disk);
        for _ in 0..TRIES {
            let znode = asker.get(&path, false)?.ok_or_else(|| missing(&path))?;
            let known: DiskRecord = read(&path, &znode)?;
            let record = DiskRecord {
                epoch: known.epoch.max(epoch),
                ..known
            };
            if asker.set(&path, &record.encode(), znode.version)? == Changed::Done {
                return Ok(());
            }
        }
        Err(CoordinatorError::Unavailable(
            "too many write to a disk's record".to_owned(),
        ))
    }
}

impl Drop for ZooKeeperCoordinator {
    fn drop(&mut self) {
        self.shared.end();
        if let Some(watcher) = self.watcher.take()
            && watcher.join().is_err()
        {
            tracing::error!("the coordinator's watcher ended by a broken invariant");
        }
    }
}

impl Coordinator for ZooKeeperCoordinator {
    fn session(&self) -> Duration {
        self.shared.cluster.session
    }

    fn open(
        &self,
        disk: DiskId,
        incarnation: Incarnation,
        epoch: u64,
    ) -> Result<Identity, CoordinatorError> {
        let known = self.disk(disk, epoch)?;
        if epoch < known.epoch {
            return Err(CoordinatorError::old_disk(known.node, epoch, known.epoch));
        }
        if known.name != self.name {
            return Err(CoordinatorError::Refused(format!(
                "the folder is that of {}, not of {}",
                known.name, self.name
            )));
        }
        let member = Identity {
            node: known.node,
            incarnation,
            disk,
        };
        let record = SessionRecord {
            identity: member,
            name: self.name.clone(),
            address: self.address.clone(),
            reports: Vec::new(),
        };
        let path = self.shared.session(member);
        if !self.asker.lock().create(&path, &record.encode())? {
            return Err(CoordinatorError::Unavailable(
                "the life has a session already".to_owned(),
            ));
        }
        let noted = known.epoch;
        self.lives.lock().insert(member, Life { record, noted });
        Ok(member)
    }

    fn ping(&self, member: Identity) -> Result<(), CoordinatorError> {
        let mut lives = self.lives.lock();
        let life = lives
            .get_mut(&member)
            .ok_or(CoordinatorError::SessionOver)?;
        self.say(life)
    }

    fn close(&self, member: Identity) {
        self.lives.lock().remove(&member);
        let deleted = self.asker.lock().delete(&self.shared.session(member), ANY);
        if let Err(failure) = deleted {
            tracing::debug!(%failure, "the session stays until its time is over");
        }
    }

    fn configuration(&self) -> Result<Option<Arc<Configuration>>, CoordinatorError> {
        Ok(self.shared.view().configuration.clone())
    }

    fn publish(&self, expected: u64, next: Configuration) -> Result<bool, CoordinatorError> {
        let path = self.shared.chain();
        let mut asker = self.asker.lock();
        let newest = asker.get(&path, false)?;
        let (epoch, version) = match &newest {
            Some(znode) => (read::<Configuration>(&path, znode)?.epoch, znode.version),
            None => (0, ANY),
        };
        if epoch != expected || next.epoch <= expected {
            return Ok(false);
        }
        let is_published = match newest {
            Some(_) => asker.set(&path, &next.encode(), version)? == Changed::Done,
            None => asker.create(&path, &next.encode())?,
        };
        if is_published {
            self.shared.on_published(next);
        }
        Ok(is_published)
    }

    fn report(&self, member: Identity, report: Report) {
        let mut lives = self.lives.lock();
        let Some(life) = lives.get_mut(&member) else {
            return;
        };
        note(&mut life.record.reports, report);
        // The floor is in no hurry: the next ping says it.
        if !matches!(report, Report::Floor { .. })
            && let Err(error) = self.say(life)
        {
            tracing::warn!(%error, "a report waits for the next ping");
        }
    }

    fn sessions(&self) -> Vec<Identity> {
        let view = self.shared.view();
        view.sessions.iter().map(|it| it.identity).collect()
    }

    fn reports(&self) -> Reports {
        let mut reports = Reports::default();
        for session in &self.shared.view().sessions {
            for report in &session.reports {
                reports.note(session.identity.node, *report);
            }
        }
        reports
    }

    fn wait(&self, time: Duration) {
        self.shared.wait(time);
    }
}

impl From<Failure> for CoordinatorError {
    fn from(failure: Failure) -> Self {
        CoordinatorError::Unavailable(failure.to_string())
    }
}

/// Takes a report in: the newest epoch's, the last of each kind.
fn note(reports: &mut Vec<Report>, report: Report) {
    let epoch = epoch(&report);
    if reports.iter().any(|other| epoch < self::epoch(other)) {
        return;
    }
    let kind = std::mem::discriminant(&report);
    reports.retain(|other| self::epoch(other) == epoch && std::mem::discriminant(other) != kind);
    reports.push(report);
}

fn epoch(report: &Report) -> u64 {
    match *report {
        Report::Adopted { epoch }
        | Report::SyncDone { epoch, .. }
        | Report::Differs { epoch, .. }
        | Report::Slow { epoch, .. }
        | Report::Heard { epoch, .. }
        | Report::Floor { epoch, .. } => epoch,
    }
}

/// What the cluster was made with.
fn cluster_at(root: &str, asker: &mut Asker) -> Result<ClusterRecord, CoordinatorError> {
    check_root(root)?;
    asker.sync(root)?;
    let record = asker.get(root, false)?.ok_or_else(|| {
        CoordinatorError::Refused(format!(
            "there is no cluster at {root}: make one with `fader cluster init`"
        ))
    })?;
    read(root, &record)
}

/// What a znode says.
fn read<T: Content>(path: &str, znode: &Znode) -> Result<T, CoordinatorError> {
    T::decode(&znode.data)
        .map_err(|why| CoordinatorError::Unavailable(format!("the znode {path} {why}")))
}

fn missing(path: &str) -> CoordinatorError {
    CoordinatorError::Unavailable(format!("there is no znode {path}"))
}

fn place(settings: &ZooKeeperSettings, patience: Duration) -> Place {
    Place {
        hosts: settings.hosts.clone(),
        credentials: settings.credentials.clone(),
        patience,
    }
}

fn is_name(name: &str) -> bool {
    let is_known = |letter: char| letter.is_ascii_alphanumeric() || "-._".contains(letter);
    !name.is_empty() && name.len() <= NAME_MAX && name.chars().all(is_known)
}

fn check_root(root: &str) -> Result<(), CoordinatorError> {
    let names = root.strip_prefix('/').map(|names| names.split('/'));
    let is_path = names.is_some_and(|mut names| {
        names.all(|name| is_name(name) && !name.trim_matches('.').is_empty())
    });
    match is_path {
        true => Ok(()),
        false => Err(CoordinatorError::Refused(format!(
            "{root:?} is no place in ZooKeeper, such as /fader"
        ))),
    }
}

#[cfg(test)]
mod tests;
