//! A model of ZooKeeper: one order of changes, servers that lag behind it, and requests that are
//! carried out late.
//!
//! Invariants:
//! - a change is carried out once, at one place in the order, if at all; conditions are judged
//!   there.
//! - a server's state is one that the order went through, and never goes back.
//! - a server tells a connection that a watch fired before it shows it the change.
//!
//! Deliberately absent: watches of children; access lists; the servers' own sessions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fader_chain::membership::SessionRecord;
use fader_chain::{ChainId, Configuration, Guard, Guards, Version};

/// Where a znode is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Path {
    Cluster,
    Next,
    Chain(ChainId),
    Session(String),
}

/// What a znode says.
#[derive(Clone, Debug)]
pub(super) enum Data {
    Cluster(Version),
    Next(u32),
    Chain(Arc<Configuration>),
    Session(Arc<SessionRecord>),
}

/// A znode.
#[derive(Clone, Debug)]
pub(super) struct Znode {
    pub(super) data: Data,
    pub(super) version: i32,
    /// Its place in the order of changes.
    pub(super) created: i64,
}

/// A request.
#[derive(Clone, Debug)]
pub(super) enum Op {
    Get(Path),
    /// The same, and a watch for the next change.
    Watched(Path),
    Sessions,
    Sync,
    Create(Path, Data),
    Set(Path, Data, i32),
    Delete(Path, i32),
}

/// What came of it.
#[derive(Clone, Debug)]
pub(super) enum Outcome {
    Got(Option<Znode>),
    Names(Vec<String>),
    Done,
    Stale,
    Missing,
    Exists,
    Lost,
}

/// A change that was carried out.
#[derive(Clone, Debug)]
struct Change {
    path: Path,
    /// None where the znode was removed.
    znode: Option<Znode>,
}

type Tree = BTreeMap<Path, Znode>;

/// A connection: the process that made it, and its number of it.
pub(super) type Link = (usize, u64);

#[derive(Clone, Debug, Default)]
struct Server {
    tree: Tree,
    /// How many changes it has applied.
    applied: usize,
    /// Until when it hears nothing of others.
    lags_until: u64,
    watches: BTreeSet<(Path, Link)>,
    /// Watches that fired, and were not told.
    fired: Vec<(Link, Path)>,
}

/// The servers.
#[derive(Clone, Debug)]
pub(super) struct ZooKeeper {
    changes: Vec<Change>,
    newest: Tree,
    servers: Vec<Server>,
    leader: usize,
    /// Until when none leads.
    elected_at: u64,
    /// Who led before, and until when it does not know that it does not.
    deposed: (usize, u64),
    guards: Guards,
}

impl ZooKeeper {
    /// With a cluster of this version, and no number given.
    pub(super) fn new(servers: usize, version: Version, guards: Guards) -> Self {
        let mut zookeeper = ZooKeeper {
            changes: Vec::new(),
            newest: Tree::new(),
            servers: vec![Server::default(); servers],
            leader: 0,
            elected_at: 0,
            deposed: (0, 0),
            guards,
        };
        zookeeper.put(Path::Cluster, Data::Cluster(version), 0);
        zookeeper.put(Path::Next, Data::Next(1), 0);
        for server in 0..servers {
            zookeeper.catch_up(server, usize::MAX);
        }
        zookeeper
    }

    pub(super) fn servers(&self) -> usize {
        self.servers.len()
    }

    /// What is true.
    pub(super) fn newest(&self, path: &Path) -> Option<&Data> {
        self.newest.get(path).map(|znode| &znode.data)
    }

    /// How many changes a server has applied.
    pub(super) fn applied(&self, server: usize) -> usize {
        self.servers[server].applied
    }

    /// How many changes a server lacks.
    pub(super) fn lag(&self, server: usize) -> usize {
        self.changes.len() - self.servers[server].applied
    }

    /// When a server can reach the leader.
    pub(super) fn reaches_at(&self, server: usize) -> u64 {
        self.elected_at.max(self.servers[server].lags_until)
    }

    /// Whether a server takes itself for the leader, and is not.
    pub(super) fn is_deposed(&self, server: usize, now: u64) -> bool {
        let (deposed, until) = self.deposed;
        server == deposed && now < until && server != self.leader
    }

    /// A server hears nothing of others until then.
    pub(super) fn lag_until(&mut self, server: usize, until: u64) {
        self.servers[server].lags_until = until;
    }

    /// Another server leads from then on; the one before does not know it for some time.
    pub(super) fn elect(&mut self, leader: usize, at: u64, known_at: u64) {
        self.deposed = (self.leader, known_at);
        self.servers[self.leader].lags_until = known_at;
        self.catch_up(leader, usize::MAX);
        (self.leader, self.elected_at) = (leader, at);
    }

    /// A server applies so many changes.
    pub(super) fn catch_up(&mut self, server: usize, count: usize) {
        let server = &mut self.servers[server];
        let upto = server.applied.saturating_add(count).min(self.changes.len());
        for change in &self.changes[server.applied..upto] {
            match &change.znode {
                Some(znode) => server.tree.insert(change.path.clone(), znode.clone()),
                None => server.tree.remove(&change.path),
            };
            let first = (change.path.clone(), (0, 0));
            let fired = server.watches.range(first..);
            let fired = fired.take_while(|(path, _)| *path == change.path);
            for watch in fired.cloned().collect::<Vec<_>>() {
                server.watches.remove(&watch);
                server.fired.push((watch.1, watch.0));
            }
        }
        server.applied = upto;
    }

    /// The watches of a connection to a server that fired since it was told of some.
    pub(super) fn notices(&mut self, server: usize, link: Link) -> Vec<Path> {
        let fired = self.servers[server].fired.extract_if(.., |it| it.0 == link);
        fired.map(|(_, path)| path).collect()
    }

    /// What a server answers by itself over a connection.
    pub(super) fn read(&mut self, server: usize, link: Link, op: &Op) -> Outcome {
        let Server { tree, watches, .. } = &mut self.servers[server];
        match op {
            Op::Get(path) => Outcome::Got(tree.get(path).cloned()),
            Op::Watched(path) => {
                watches.insert((path.clone(), link));
                Outcome::Got(tree.get(path).cloned())
            }
            _ => {
                let names = tree.keys().filter_map(|path| match path {
                    Path::Session(name) => Some(name.clone()),
                    _ => None,
                });
                Outcome::Names(names.collect())
            }
        }
    }

    /// The leader carries a change out.
    pub(super) fn change(&mut self, op: &Op) -> Outcome {
        // Without the guard a session is changed at any version.
        let is_any =
            |path: &Path| matches!(path, Path::Session(_)) && !self.guards.has(Guard::AnyVersion);
        match op {
            Op::Create(path, _) if self.newest.contains_key(path) => Outcome::Exists,
            Op::Create(path, data) => {
                self.put(path.clone(), data.clone(), 0);
                Outcome::Done
            }
            Op::Set(path, _, version) | Op::Delete(path, version) => {
                let Some(znode) = self.newest.get(path) else {
                    return Outcome::Missing;
                };
                let found = znode.version;
                if found != *version && !is_any(path) {
                    return Outcome::Stale;
                }
                match op {
                    Op::Set(_, data, _) => self.put(path.clone(), data.clone(), found + 1),
                    _ => {
                        self.newest.remove(path);
                        let path = path.clone();
                        self.changes.push(Change { path, znode: None });
                    }
                }
                Outcome::Done
            }
            _ => Outcome::Lost,
        }
    }

    fn put(&mut self, path: Path, data: Data, version: i32) {
        let created = match self.newest.get(&path) {
            Some(znode) => znode.created,
            None => self.changes.len() as i64,
        };
        let znode = Znode {
            data,
            version,
            created,
        };
        self.newest.insert(path.clone(), znode.clone());
        let znode = Some(znode);
        self.changes.push(Change { path, znode });
    }
}
