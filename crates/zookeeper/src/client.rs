//! The keeper of connections: it asks one server as long as that answers, and then another.
//!
//! Invariants:
//! - a request goes over a connection that the server has not ended for all that is known.
//!   One that was idle for half of its time is replaced.

use std::sync::Arc;
use std::time::Duration;

use crate::connection::{Connection, EnsembleConfig, EnsembleError, Znode};
use crate::wire::{Op, code};

/// All that a znode's access list can allow.
const ALL: i32 = 31;

/// What became of a conditional change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changed {
    /// It was made.
    Done,
    /// The version is another one.
    Stale,
    /// There is no such znode.
    Missing,
}

/// A connection, and how many watches have fired on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchMark {
    connection: u64,
    notices: u64,
}

/// Asks one server as long as it answers, and then another.
pub struct EnsembleClient {
    place: Arc<EnsembleConfig>,
    /// The host that is asked, or was.
    at: usize,
    connection: Option<Connection>,
    /// How many connections there were.
    connections: u64,
    seen: i64,
}

impl EnsembleClient {
    /// One that asks at first a server chosen at random.
    pub fn new(place: Arc<EnsembleConfig>) -> Self {
        // Members spread over the servers.
        let at = rand::random_range(0..place.hosts.len().max(1));
        EnsembleClient {
            place,
            at,
            connection: None,
            connections: 0,
            seen: 0,
        }
    }

    /// Whether the last request was answered.
    pub fn is_connected(&self) -> bool {
        self.connection.is_some()
    }

    /// As long as it is the same, what was read with watches since is what was read before.
    /// Nothing without a connection.
    pub fn mark(&self) -> Option<WatchMark> {
        self.connection.as_ref().map(|connection| WatchMark {
            connection: self.connections,
            notices: connection.notices(),
        })
    }

    fn connect(&mut self) -> Result<Connection, EnsembleError> {
        self.connections += 1;
        let mut failures = Vec::new();
        for _ in 0..self.place.hosts.len() {
            let host = &self.place.hosts[self.at];
            match Connection::open(host, &self.place, self.seen) {
                Ok(connection) => return Ok(connection),
                Err(failure) => failures.push(format!("{host}: {failure}")),
            }
            self.at = (self.at + 1) % self.place.hosts.len();
        }
        Err(EnsembleError::Lost(failures.join("; ")))
    }

    fn with<T>(
        &mut self,
        act: impl FnOnce(&mut Connection) -> Result<T, EnsembleError>,
    ) -> Result<T, EnsembleError> {
        let usable = self.connection.take().filter(Connection::is_usable);
        let mut connection = match usable {
            Some(connection) => connection,
            None => self.connect()?,
        };
        let result = act(&mut connection);
        self.seen = connection.seen;
        if !matches!(result, Err(EnsembleError::Lost(_))) {
            self.connection = Some(connection);
        }
        result
    }

    /// Waits until a watch fires, or until the time is over.
    ///
    /// # Errors
    /// [`EnsembleError`].
    pub fn wait(&mut self, time: Duration) -> Result<(), EnsembleError> {
        self.with(|connection| connection.wait(time))
    }

    /// A znode, if it is there; `watches` for its next change.
    ///
    /// # Errors
    /// [`EnsembleError`].
    pub fn get(&mut self, path: &str, watches: bool) -> Result<Option<Znode>, EnsembleError> {
        self.with(|connection| connection.znode(path, watches))
    }

    /// A znode, if it is there, as it was read last on this connection. It is read with a watch,
    /// and again when that has fired. A change that this client was not told of yet is not in it.
    ///
    /// # Errors
    /// [`EnsembleError`].
    pub fn watched(&mut self, path: &str) -> Result<Option<Znode>, EnsembleError> {
        self.with(|connection| connection.watched(path))
    }

    /// [`EnsembleClient::watched`] reads this znode the next time.
    pub fn forget(&mut self, path: &str) {
        if let Some(connection) = &mut self.connection {
            connection.forget(path);
        }
    }

    /// The names of a znode's children; `watches` for the next that comes or goes.
    ///
    /// # Errors
    /// [`EnsembleError`].
    pub fn children(&mut self, path: &str, watches: bool) -> Result<Vec<String>, EnsembleError> {
        self.with(|connection| connection.children(path, watches))
    }

    /// The same, read as [`EnsembleClient::watched`] does.
    ///
    /// # Errors
    /// [`EnsembleError`].
    pub fn watched_children(&mut self, path: &str) -> Result<Vec<String>, EnsembleError> {
        self.with(|connection| connection.watched_children(path))
    }

    /// Makes a znode. Says whether it was not there.
    ///
    /// # Errors
    /// [`EnsembleError`].
    pub fn create(&mut self, path: &str, data: &[u8]) -> Result<bool, EnsembleError> {
        let (scheme, id) = match self.place.credentials {
            Some(_) => ("auth", ""),
            None => ("world", "anyone"),
        };
        let created = self.with(|connection| {
            connection.call(Op::Create, |out| {
                out.string(path);
                out.buffer(data);
                out.int(1);
                out.int(ALL);
                out.string(scheme);
                out.string(id);
                out.int(0);
            })
        });
        match created {
            Ok(_) => Ok(true),
            Err(EnsembleError::Refused(code::NODE_EXISTS)) => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    /// Changes a znode of that version.
    ///
    /// # Errors
    /// [`EnsembleError`].
    pub fn set(&mut self, path: &str, data: &[u8], version: i32) -> Result<Changed, EnsembleError> {
        let set = self.with(|connection| {
            connection.call(Op::SetData, |out| {
                out.string(path);
                out.buffer(data);
                out.int(version);
            })
        });
        changed(set)
    }

    /// Removes a znode of that version.
    ///
    /// # Errors
    /// [`EnsembleError`].
    pub fn delete(&mut self, path: &str, version: i32) -> Result<Changed, EnsembleError> {
        let deleted = self.with(|connection| {
            connection.call(Op::Delete, |out| {
                out.string(path);
                out.int(version);
            })
        });
        changed(deleted)
    }

    /// What is read from now on is at least as new as what the leader has now.
    ///
    /// # Errors
    /// [`EnsembleError`].
    pub fn sync(&mut self, path: &str) -> Result<(), EnsembleError> {
        self.with(|connection| connection.call(Op::Sync, |out| out.string(path)))
            .map(drop)
    }
}

fn changed(reply: Result<Vec<u8>, EnsembleError>) -> Result<Changed, EnsembleError> {
    match reply {
        Ok(_) => Ok(Changed::Done),
        Err(EnsembleError::Refused(code::BAD_VERSION)) => Ok(Changed::Stale),
        Err(EnsembleError::Refused(code::NO_NODE)) => Ok(Changed::Missing),
        Err(failure) => Err(failure),
    }
}
