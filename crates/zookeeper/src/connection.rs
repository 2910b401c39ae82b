//! One connection to one server, and whoever keeps one: each request waits for its reply, no longer
//! than a given time.
//!
//! Invariants:
//! - W2 a connection of which a request was not answered in time is given up: what came of the
//!   request is not known.
//! - W4 a request goes over a connection that the server has not ended for all that is known: one
//!   that was idle for half of its time is replaced.
//! - W3 a server that is behind what was seen before refuses the connection (its own rule; we say
//!   what we saw).
//!
//! A session of ZooKeeper stands for nothing here, so a new connection is a new one.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

use zeroize::Zeroizing;

use crate::stream::{Stream, Tls};
use crate::wire::{AUTH_XID, FRAME_MAX, In, Malformed, Op, Out, WATCH_XID, code};

/// How long a session of ZooKeeper is to outlive its last request: it serves to end connections
/// that are dead, and for nothing else.
const CONNECTION_MS: i32 = 10_000;
/// How long a server may take to accept a connection: it is busy later, or not there.
const CONNECT: Duration = Duration::from_secs(2);
/// All that a znode's access list can allow.
const ALL: i32 = 31;

/// `user:password`. It is wiped from memory and never shown by `Debug`.
#[derive(Clone)]
pub struct Credentials(Zeroizing<String>);

impl Credentials {
    /// These.
    pub fn new(user_and_password: &str) -> Self {
        Credentials(Zeroizing::new(user_and_password.to_owned()))
    }
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Credentials(..)")
    }
}

/// Where the servers are, and how they are asked.
#[derive(Clone, Debug)]
pub struct Place {
    /// `host:port` of each.
    pub hosts: Vec<String>,
    /// With which znodes are made ours.
    pub credentials: Option<Credentials>,
    /// How servers are known, if the way to them is TLS.
    pub tls: Option<Tls>,
    /// How long a request may take.
    pub patience: Duration,
}

/// Why a request was not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The server refused it.
    Refused(i32),
    /// There is no connection, or none any more: what came of the request is not known.
    Lost(String),
}

impl From<Malformed> for Failure {
    fn from(error: Malformed) -> Self {
        Failure::Lost(error.to_string())
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Failure::Lost(match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "no answer in time".to_owned(),
            io::ErrorKind::UnexpectedEof => "the server closed the connection".to_owned(),
            _ => error.to_string(),
        })
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Refused(code::NO_AUTH) => {
                f.write_str("the credentials do not open the cluster's znodes")
            }
            Failure::Refused(code::AUTH_FAILED) => f.write_str("the credentials are refused"),
            Failure::Refused(code) => write!(f, "the server answered with error {code}"),
            Failure::Lost(reason) => f.write_str(reason),
        }
    }
}

/// A znode as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Znode {
    /// What it holds.
    pub data: Vec<u8>,
    /// How often that was changed.
    pub version: i32,
    /// When it was made, in the order of all changes.
    pub created: i64,
}

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

struct Connection {
    stream: Stream,
    patience: Duration,
    /// For how long the server keeps it without a request, and when the last one was answered.
    timeout: Duration,
    used_at: Instant,
    inbox: Vec<u8>,
    xid: i32,
    /// The newest change seen.
    seen: i64,
    /// Whether a watch fired that nobody was told of.
    is_notified: bool,
}

impl Connection {
    fn open(host: &str, place: &Place, seen: i64) -> Result<Self, Failure> {
        let mut stream = None;
        for address in host.to_socket_addrs()? {
            stream = Some(TcpStream::connect_timeout(
                &address,
                place.patience.min(CONNECT),
            ));
            if matches!(stream, Some(Ok(_))) {
                break;
            }
        }
        let stream = stream.ok_or_else(|| Failure::Lost(format!("{host} has no address")))??;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(place.patience))?;
        // With TLS the first write waits for the handshake.
        stream.set_read_timeout(Some(place.patience))?;
        let stream = Stream::new(stream, host, place.tls.as_ref())?;
        let mut connection = Connection {
            stream,
            patience: place.patience,
            timeout: Duration::ZERO,
            used_at: Instant::now(),
            inbox: Vec::new(),
            xid: 0,
            seen,
            is_notified: false,
        };
        connection.greet()?;
        if let Some(credentials) = &place.credentials {
            connection.authenticate(credentials)?;
        }
        Ok(connection)
    }

    fn greet(&mut self) -> Result<(), Failure> {
        let mut out = Out::new();
        out.int(0);
        out.long(self.seen);
        out.int(CONNECTION_MS);
        out.long(0);
        out.buffer(&[0; 16]);
        out.bool(false);
        self.stream.write_all(&out.frame())?;
        let reply = self.frame(Instant::now() + self.patience);
        let reply = reply.map_err(|failure| match failure {
            Failure::Lost(reason) => Failure::Lost(format!(
                "{reason} before a session began (a server does that while it is behind what was \
                 seen of the cluster, or when its data was lost)"
            )),
            refused @ Failure::Refused(_) => refused,
        })?;
        let mut reply = In::new(&reply);
        let (_version, timeout) = (reply.int()?, reply.int()?);
        match u64::try_from(timeout) {
            Ok(timeout @ 1..) => {
                self.timeout = Duration::from_millis(timeout);
                Ok(())
            }
            _ => Err(Failure::Lost("the server gives no session".to_owned())),
        }
    }

    /// Whether a request can go over it.
    fn is_usable(&self) -> bool {
        self.used_at.elapsed() < self.timeout / 2 && !self.stream.has_ended()
    }

    fn authenticate(&mut self, credentials: &Credentials) -> Result<(), Failure> {
        let mut out = Out::request(AUTH_XID, Op::Auth);
        out.int(0);
        out.string("digest");
        out.string(&credentials.0);
        self.stream.write_all(&out.frame())?;
        self.reply(AUTH_XID).map(drop)
    }

    /// Asks, and waits for the reply.
    fn call(&mut self, op: Op, write: impl FnOnce(&mut Out)) -> Result<Vec<u8>, Failure> {
        self.xid = self.xid.checked_add(1).unwrap_or(1);
        let mut out = Out::request(self.xid, op);
        write(&mut out);
        self.stream.write_all(&out.frame())?;
        self.reply(self.xid)
    }

    fn reply(&mut self, to: i32) -> Result<Vec<u8>, Failure> {
        let end = Instant::now() + self.patience;
        loop {
            let frame = self.frame(end)?;
            let mut head = In::new(&frame);
            let (xid, zxid, error) = (head.int()?, head.long()?, head.int()?);
            if xid == WATCH_XID {
                self.is_notified = true;
                continue;
            }
            if xid != to {
                return Err(Failure::Lost(
                    "a reply to nothing that was asked".to_owned(),
                ));
            }
            self.seen = self.seen.max(zxid);
            self.used_at = Instant::now();
            return match error {
                0 => Ok(frame[16..].to_vec()),
                code::SESSION_EXPIRED => Err(Failure::Lost("the session expired".to_owned())),
                error => Err(Failure::Refused(error)),
            };
        }
    }

    /// The next frame, if it comes before `end`.
    fn frame(&mut self, end: Instant) -> Result<Vec<u8>, Failure> {
        loop {
            if let Some(frame) = self.buffered()? {
                return Ok(frame);
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::Error::from(io::ErrorKind::TimedOut).into());
            }
            self.stream.set_read_timeout(left)?;
            let mut bytes = [0; 4096];
            match self.stream.read(&mut bytes)? {
                0 => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                count => self.inbox.extend_from_slice(&bytes[..count]),
            }
        }
    }

    fn buffered(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        let Some((size, rest)) = self.inbox.split_first_chunk() else {
            return Ok(None);
        };
        let size = usize::try_from(i32::from_be_bytes(*size));
        let size = size.ok().filter(|size| *size <= FRAME_MAX);
        let size = size.ok_or_else(|| Failure::Lost("a frame too large".to_owned()))?;
        if rest.len() < size {
            return Ok(None);
        }
        let frame = rest[..size].to_vec();
        self.inbox.drain(..4 + size);
        Ok(Some(frame))
    }

    /// Waits until a watch fires, or until the time is over.
    fn wait(&mut self, time: Duration) -> Result<(), Failure> {
        let end = Instant::now() + time;
        while !std::mem::take(&mut self.is_notified) {
            if let Some(frame) = self.buffered()? {
                self.is_notified = In::new(&frame).int()? == WATCH_XID;
                continue;
            }
            match self.frame(end) {
                Ok(frame) => self.is_notified = In::new(&frame).int()? == WATCH_XID,
                Err(_) if end <= Instant::now() => return Ok(()),
                Err(failure) => return Err(failure),
            }
        }
        Ok(())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let close = Out::request(self.xid.wrapping_add(1), Op::CloseSession);
        // A courtesy to the server, which would find out by itself.
        drop(self.stream.write_all(&close.frame()));
    }
}

/// Asks one server as long as it answers, and then another.
pub struct Asker {
    place: Arc<Place>,
    /// The host that is asked, or was.
    at: usize,
    connection: Option<Connection>,
    seen: i64,
}

impl Asker {
    /// One that asks at first a server chosen at random.
    pub fn new(place: Arc<Place>) -> Self {
        // Members spread over the servers.
        let at = rand::random_range(0..place.hosts.len().max(1));
        Asker {
            place,
            at,
            connection: None,
            seen: 0,
        }
    }

    /// Whether the last request was answered.
    pub fn is_connected(&self) -> bool {
        self.connection.is_some()
    }

    fn connect(&mut self) -> Result<Connection, Failure> {
        let mut failures = Vec::new();
        for _ in 0..self.place.hosts.len() {
            let host = &self.place.hosts[self.at];
            match Connection::open(host, &self.place, self.seen) {
                Ok(connection) => return Ok(connection),
                Err(failure) => failures.push(format!("{host}: {failure}")),
            }
            self.at = (self.at + 1) % self.place.hosts.len();
        }
        Err(Failure::Lost(failures.join("; ")))
    }

    fn with<T>(
        &mut self,
        act: impl FnOnce(&mut Connection) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let usable = self.connection.take().filter(Connection::is_usable);
        let mut connection = match usable {
            Some(connection) => connection,
            None => self.connect()?,
        };
        let result = act(&mut connection);
        self.seen = connection.seen;
        if !matches!(result, Err(Failure::Lost(_))) {
            self.connection = Some(connection);
        }
        result
    }

    /// Waits until a watch fires, or until the time is over.
    ///
    /// # Errors
    /// [`Failure`].
    pub fn wait(&mut self, time: Duration) -> Result<(), Failure> {
        self.with(|connection| connection.wait(time))
    }

    /// A znode, if it is there; `watches` for its next change.
    ///
    /// # Errors
    /// [`Failure`].
    pub fn get(&mut self, path: &str, watches: bool) -> Result<Option<Znode>, Failure> {
        let reply = self.with(|connection| {
            connection.call(Op::GetData, |out| {
                out.string(path);
                out.bool(watches);
            })
        });
        let reply = match reply {
            Err(Failure::Refused(code::NO_NODE)) => return Ok(None),
            other => other?,
        };
        let mut reply = In::new(&reply);
        let data = reply.buffer()?.to_vec();
        let (created, version) = reply.stat()?;
        Ok(Some(Znode {
            data,
            version,
            created,
        }))
    }

    /// The names of a znode's children; `watches` for the next that comes or goes.
    ///
    /// # Errors
    /// [`Failure`].
    pub fn children(&mut self, path: &str, watches: bool) -> Result<Vec<String>, Failure> {
        let reply = self.with(|connection| {
            connection.call(Op::GetChildren, |out| {
                out.string(path);
                out.bool(watches);
            })
        })?;
        let mut reply = In::new(&reply);
        let count = reply.int()?;
        (0..count.max(0))
            .map(|_| Ok(reply.string()?.to_owned()))
            .collect()
    }

    /// Makes a znode. Says whether it was not there.
    ///
    /// # Errors
    /// [`Failure`].
    pub fn create(&mut self, path: &str, data: &[u8]) -> Result<bool, Failure> {
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
            Err(Failure::Refused(code::NODE_EXISTS)) => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    /// Changes a znode of that version.
    ///
    /// # Errors
    /// [`Failure`].
    pub fn set(&mut self, path: &str, data: &[u8], version: i32) -> Result<Changed, Failure> {
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
    /// [`Failure`].
    pub fn delete(&mut self, path: &str, version: i32) -> Result<Changed, Failure> {
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
    /// [`Failure`].
    pub fn sync(&mut self, path: &str) -> Result<(), Failure> {
        self.with(|connection| connection.call(Op::Sync, |out| out.string(path)))
            .map(drop)
    }
}

fn changed(reply: Result<Vec<u8>, Failure>) -> Result<Changed, Failure> {
    match reply {
        Ok(_) => Ok(Changed::Done),
        Err(Failure::Refused(code::BAD_VERSION)) => Ok(Changed::Stale),
        Err(Failure::Refused(code::NO_NODE)) => Ok(Changed::Missing),
        Err(failure) => Err(failure),
    }
}
