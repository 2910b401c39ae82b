//! One connection to one server: each request waits for its reply, no longer than a given time.
//!
//! Invariants:
//! - ZKWIRE-2 a connection of which a request was not answered in time is given up: what came of
//!   the request is not known.
//! - a server that is behind what was seen before refuses the connection (its own rule; we
//!   say what we saw).
//! - (ZKWIRE-5) what is kept was read on this connection, with a watch that has not fired.
//!
//! A session of ZooKeeper stands for nothing here, so a new connection is a new one.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use fader_chain::ALL_GUARDS;
use fader_chain::membership::WatchCache;
use zeroize::Zeroizing;

use crate::stream::{Stream, Tls};
use crate::wire::{AUTH_XID, FRAME_MAX, In, Malformed, Op, Out, WATCH_XID, code};

/// How long a session of ZooKeeper is to outlive its last request: it serves to end connections
/// that are dead, and for nothing else.
const CONNECTION_MS: i32 = 10_000;
/// How long a server may take to accept a connection: it is busy later, or not there.
const CONNECT: Duration = Duration::from_secs(2);
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
pub struct EnsembleConfig {
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
pub enum EnsembleError {
    /// The server refused it.
    Refused(i32),
    /// There is no connection, or none any more: what came of the request is not known.
    Lost(String),
}

impl From<Malformed> for EnsembleError {
    fn from(error: Malformed) -> Self {
        EnsembleError::Lost(error.to_string())
    }
}

impl From<io::Error> for EnsembleError {
    fn from(error: io::Error) -> Self {
        EnsembleError::Lost(match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "no answer in time".to_owned(),
            io::ErrorKind::UnexpectedEof => "the server closed the connection".to_owned(),
            _ => error.to_string(),
        })
    }
}

impl std::fmt::Display for EnsembleError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            EnsembleError::Refused(code::NO_AUTH) => {
                f.write_str("the credentials do not open the cluster's znodes")
            }
            EnsembleError::Refused(code::AUTH_FAILED) => f.write_str("the credentials are refused"),
            EnsembleError::Refused(code) => write!(f, "the server answered with error {code}"),
            EnsembleError::Lost(reason) => f.write_str(reason),
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

/// A connection to one server.
pub(crate) struct Connection {
    stream: Stream,
    patience: Duration,
    /// For how long the server keeps it without a request, and when the last one was answered.
    timeout: Duration,
    used_at: Instant,
    inbox: Vec<u8>,
    xid: i32,
    /// The newest change seen.
    pub(crate) seen: i64,
    /// Whether a watch fired that no caller was told of.
    is_notified: bool,
    /// Znodes, and the names of children, that are as they were read.
    znodes: WatchCache<String, Option<Znode>>,
    children: WatchCache<String, Vec<String>>,
}

impl Connection {
    /// Connects to a host; the server has seen all that was `seen`.
    pub(crate) fn open(
        host: &str,
        place: &EnsembleConfig,
        seen: i64,
    ) -> Result<Self, EnsembleError> {
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
        let stream =
            stream.ok_or_else(|| EnsembleError::Lost(format!("{host} has no address")))??;
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
            znodes: WatchCache::new(ALL_GUARDS.clone()),
            children: WatchCache::new(ALL_GUARDS.clone()),
        };
        connection.greet()?;
        if let Some(credentials) = &place.credentials {
            connection.authenticate(credentials)?;
        }
        Ok(connection)
    }

    fn greet(&mut self) -> Result<(), EnsembleError> {
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
            EnsembleError::Lost(reason) => EnsembleError::Lost(format!(
                "{reason} before a session began (a server does that while it is behind what was \
                 seen of the cluster, or when its data was lost)"
            )),
            refused @ EnsembleError::Refused(_) => refused,
        })?;
        let mut reply = In::new(&reply);
        let (_version, timeout) = (reply.int()?, reply.int()?);
        match u64::try_from(timeout) {
            Ok(timeout @ 1..) => {
                self.timeout = Duration::from_millis(timeout);
                Ok(())
            }
            _ => Err(EnsembleError::Lost(
                "the server gives no session".to_owned(),
            )),
        }
    }

    /// Whether a request can go over it.
    pub(crate) fn is_usable(&self) -> bool {
        self.used_at.elapsed() < self.timeout / 2 && !self.stream.has_ended()
    }

    fn authenticate(&mut self, credentials: &Credentials) -> Result<(), EnsembleError> {
        let mut out = Out::request(AUTH_XID, Op::Auth);
        out.int(0);
        out.string("digest");
        out.string(&credentials.0);
        self.stream.write_all(&out.frame())?;
        self.reply(AUTH_XID).map(drop)
    }

    /// Asks, and waits for the reply.
    pub(crate) fn call(
        &mut self,
        op: Op,
        write: impl FnOnce(&mut Out),
    ) -> Result<Vec<u8>, EnsembleError> {
        self.xid = self.xid.checked_add(1).unwrap_or(1);
        let mut out = Out::request(self.xid, op);
        write(&mut out);
        self.stream.write_all(&out.frame())?;
        self.reply(self.xid)
    }

    fn reply(&mut self, to: i32) -> Result<Vec<u8>, EnsembleError> {
        let end = Instant::now() + self.patience;
        loop {
            let frame = self.frame(end)?;
            let mut head = In::new(&frame);
            let (xid, zxid, error) = (head.int()?, head.long()?, head.int()?);
            if xid == WATCH_XID {
                self.on_notice(&frame)?;
                continue;
            }
            if xid != to {
                return Err(EnsembleError::Lost(
                    "a reply to nothing that was asked".to_owned(),
                ));
            }
            self.seen = self.seen.max(zxid);
            self.used_at = Instant::now();
            return match error {
                0 => Ok(frame[16..].to_vec()),
                code::SESSION_EXPIRED => Err(EnsembleError::Lost("the session expired".to_owned())),
                error => Err(EnsembleError::Refused(error)),
            };
        }
    }

    /// A watch fired: what it watched has changed, or the server says how the connection is.
    fn on_notice(&mut self, frame: &[u8]) -> Result<(), EnsembleError> {
        let mut notice = In::new(frame);
        let (_xid, _zxid, _error) = (notice.int()?, notice.long()?, notice.int()?);
        let (_kind, _state) = (notice.int()?, notice.int()?);
        let path = notice.string()?;
        self.znodes.on_notice(path);
        self.children.on_notice(path);
        self.is_notified = true;
        Ok(())
    }

    /// Reads this znode, and its children, the next time.
    pub(crate) fn forget(&mut self, path: &str) {
        self.znodes.forget(path);
        self.children.forget(path);
    }

    /// A znode, if it is there.
    pub(crate) fn znode(
        &mut self,
        path: &str,
        watches: bool,
    ) -> Result<Option<Znode>, EnsembleError> {
        let reply = self.call(Op::GetData, |out| {
            out.string(path);
            out.bool(watches);
        });
        let reply = match reply {
            Err(EnsembleError::Refused(code::NO_NODE)) => return Ok(None),
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

    /// A znode, kept until its watch fires.
    pub(crate) fn watched(&mut self, path: &str) -> Result<Option<Znode>, EnsembleError> {
        if let Some(kept) = self.znodes.get(path) {
            return Ok(kept.clone());
        }
        let read = self.znodes.begin(path);
        let mut znode = self.znode(path, read.watches)?;
        // Reading one that is missing sets no watch.
        if znode.is_none() && self.exists(path, read.watches)? {
            znode = self.znode(path, read.watches)?;
        }
        self.znodes.on_read(path.to_owned(), read, znode.clone());
        Ok(znode)
    }

    /// How many watches fired.
    pub(crate) fn notices(&self) -> u64 {
        self.znodes.notices()
    }

    /// Whether a znode is there; `watches` for its next change.
    fn exists(&mut self, path: &str, watches: bool) -> Result<bool, EnsembleError> {
        let reply = self.call(Op::Exists, |out| {
            out.string(path);
            out.bool(watches);
        });
        match reply {
            Ok(_) => Ok(true),
            Err(EnsembleError::Refused(code::NO_NODE)) => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    /// The names of a znode's children.
    pub(crate) fn children(
        &mut self,
        path: &str,
        watches: bool,
    ) -> Result<Vec<String>, EnsembleError> {
        let reply = self.call(Op::GetChildren, |out| {
            out.string(path);
            out.bool(watches);
        })?;
        let mut reply = In::new(&reply);
        let count = reply.int()?;
        (0..count.max(0))
            .map(|_| Ok(reply.string()?.to_owned()))
            .collect()
    }

    /// The same, kept until their watch fires.
    pub(crate) fn watched_children(&mut self, path: &str) -> Result<Vec<String>, EnsembleError> {
        if let Some(kept) = self.children.get(path) {
            return Ok(kept.clone());
        }
        let read = self.children.begin(path);
        let names = self.children(path, read.watches)?;
        self.children.on_read(path.to_owned(), read, names.clone());
        Ok(names)
    }

    /// The next frame, if it comes before `end`.
    fn frame(&mut self, end: Instant) -> Result<Vec<u8>, EnsembleError> {
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

    fn buffered(&mut self) -> Result<Option<Vec<u8>>, EnsembleError> {
        let Some((size, rest)) = self.inbox.split_first_chunk() else {
            return Ok(None);
        };
        let size = usize::try_from(i32::from_be_bytes(*size));
        let size = size.ok().filter(|size| *size <= FRAME_MAX);
        let size = size.ok_or_else(|| EnsembleError::Lost("a frame too large".to_owned()))?;
        if rest.len() < size {
            return Ok(None);
        }
        let frame = rest[..size].to_vec();
        self.inbox.drain(..4 + size);
        Ok(Some(frame))
    }

    /// Waits until a watch fires, or until the time is over.
    pub(crate) fn wait(&mut self, time: Duration) -> Result<(), EnsembleError> {
        let end = Instant::now() + time;
        while !std::mem::take(&mut self.is_notified) {
            let frame = match self.buffered()? {
                Some(frame) => frame,
                None => match self.frame(end) {
                    Ok(frame) => frame,
                    Err(_) if end <= Instant::now() => return Ok(()),
                    Err(failure) => return Err(failure),
                },
            };
            if In::new(&frame).int()? == WATCH_XID {
                self.on_notice(&frame)?;
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
