//! How two nodes get to know each other, before anything else is said
//! (docs/reference/format/peer.md).
//!
//! ```text
//!  caller                                       host
//!    │ preamble, size, e, sealed(who, whom)       │  bounded in size, time and number
//!    │ ─────────────────────────────────────────▶ │  opens: the caller had the key, once
//!    │            size, e, sealed(who | refusal)  │
//!    │ ◀───────────────────────────────────────── │
//!    │ frame 0                                    │
//!    │ ─────────────────────────────────────────▶ │  opens: the caller has it now
//! ```
//!
//! Invariants:
//! - SHAKE-1 who cannot prove to have the key learns nothing, not even why: the connection ends.
//! - SHAKE-2 a repeated first message gets no further than an answer that only the key opens.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use bytes::Bytes;
use fader_chain::{DecodeError, DiskId, Identity, Incarnation, NodeId, Reader, put_varint};
use ring::agreement::{self, EphemeralPrivateKey, UnparsedPublicKey, X25519};
use ring::rand::SystemRandom;

use super::noise::{Cipher, Handshake, KEY_SIZE, TAG_SIZE};
use super::refusal::PeerError;
use crate::secrets::cluster::ClusterKey;

/// What a connection is for. It begins with eight bytes that say so, of which the last is the
/// generation of the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// What members say, and requests that are handed off.
    Messages,
    /// Bytes of blocks.
    Blocks,
}

impl Purpose {
    const fn preamble(self) -> [u8; 8] {
        match self {
            Purpose::Messages => *b"FADPEER\x01",
            Purpose::Blocks => *b"FADBLOX\x01",
        }
    }

    fn of(preamble: [u8; 8]) -> Result<Purpose, PeerError> {
        let all = [Purpose::Messages, Purpose::Blocks];
        let known = all.into_iter().find(|it| it.preamble() == preamble);
        known.ok_or(PeerError::NotAPeer)
    }
}

/// What seals and opens what follows: of the caller, and of the host.
pub(super) type Ciphers = (Cipher, Cipher);

/// A handshake's message: more than any of this generation has.
const MESSAGE_MAX: usize = 512;
/// How long a handshake may take altogether.
pub(super) const HANDSHAKE: Duration = Duration::from_secs(2);

/// Versions of the protocol, both included. Of two ranges the greatest common one is spoken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Versions {
    pub(super) min: u64,
    pub(super) max: u64,
}

impl Versions {
    fn common(self, other: Versions) -> Result<u64, PeerError> {
        let (min, max) = (self.min.max(other.min), self.max.min(other.max));
        if min <= max {
            Ok(max)
        } else {
            Err(PeerError::Version)
        }
    }
}

/// What this node says of itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct LocalIdentity {
    /// What it can speak.
    pub(super) versions: Versions,
    /// Which cluster it belongs to.
    pub(super) cluster: u128,
    /// Who it is.
    pub(super) identity: Identity,
}

/// Who is at the other side, and what is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RemoteIdentity {
    pub(super) identity: Identity,
    pub(super) version: u64,
}

/// Calls a node: what is sealed from now on it will open.
pub(super) fn call(
    stream: &TcpStream,
    key: &ClusterKey,
    me: LocalIdentity,
    node: NodeId,
    disk: DiskId,
    purpose: Purpose,
) -> Result<(RemoteIdentity, Ciphers), PeerError> {
    let mut stream = Timed::new(stream);
    let preamble = purpose.preamble();
    let mut handshake = Handshake::new(key.reveal(), &preamble);
    let (private, public) = key_pair()?;
    handshake.mix_public(&public);
    let mut sealed = Vec::new();
    handshake.seal(&Hello::encode(me, node), &mut sealed);
    stream.write_all(&[&preamble, &framed(&public, &sealed)[..]].concat())?;

    let (theirs, sealed) = read_message(&mut stream).map_err(|error| match error {
        PeerError::Truncated => PeerError::Closed,
        other => other,
    })?;
    handshake.mix_public(&theirs);
    agree(&mut handshake, private, &theirs)?;
    let answer = handshake.open(&sealed).map_err(|_| PeerError::Key)?;
    let met = decode_answer(Bytes::from(answer), me)?;
    match (met.identity.node == node, met.identity.disk == disk) {
        (false, _) => Err(PeerError::NotMe),
        (true, false) => Err(PeerError::Disk),
        (true, true) => Ok((met, handshake.split())),
    }
}

/// Answers a caller: what it seals from now on can be opened. It has proved to have the key when
/// its first frame is. `disk` tells which one a member has.
pub(super) fn answer(
    stream: &TcpStream,
    key: &ClusterKey,
    me: LocalIdentity,
    disk: impl FnOnce(NodeId) -> Option<DiskId>,
) -> Result<(RemoteIdentity, Purpose, Ciphers), PeerError> {
    let mut stream = Timed::new(stream);
    let mut preamble = [0; 8];
    stream.read_exact(&mut preamble)?;
    let purpose = Purpose::of(preamble)?;
    let mut handshake = Handshake::new(key.reveal(), &preamble);
    let (theirs, sealed) = read_message(&mut stream)?;
    handshake.mix_public(&theirs);
    let hello = handshake.open(&sealed).map_err(|_| PeerError::Key)?;
    let hello = Hello::decode(Bytes::from(hello), me.versions);
    let judged = hello.and_then(|hello| judge(&hello, me, disk));

    let (private, public) = key_pair()?;
    handshake.mix_public(&public);
    agree(&mut handshake, private, &theirs)?;
    let mut sealed = Vec::new();
    handshake.seal(&encode_answer(&judged, me), &mut sealed);
    stream.write_all(&framed(&public, &sealed))?;
    Ok((judged?, purpose, handshake.split()))
}

/// Whether a caller with the key may come in.
fn judge(
    hello: &Hello,
    me: LocalIdentity,
    disk: impl FnOnce(NodeId) -> Option<DiskId>,
) -> Result<RemoteIdentity, PeerError> {
    let Hello { met, .. } = *hello;
    if hello.cluster != me.cluster {
        return Err(PeerError::Cluster);
    }
    if hello.whom != me.identity.node {
        return Err(PeerError::NotMe);
    }
    match disk(met.identity.node) {
        None => Err(PeerError::Stranger),
        Some(disk) if disk != met.identity.disk => Err(PeerError::Disk),
        Some(_) => Ok(met),
    }
}

/// ```text
/// hello := version_min version_max cluster:u128be identity whom
/// ```
struct Hello {
    met: RemoteIdentity,
    cluster: u128,
    whom: NodeId,
}

impl Hello {
    fn encode(me: LocalIdentity, whom: NodeId) -> Vec<u8> {
        let mut out = Vec::new();
        put_varint(&mut out, me.versions.min);
        put_varint(&mut out, me.versions.max);
        out.extend_from_slice(&me.cluster.to_be_bytes());
        put_identity(&mut out, &me.identity);
        put_varint(&mut out, u64::from(whom.0));
        out
    }

    /// What stands behind is a later version's.
    fn decode(bytes: Bytes, versions: Versions) -> Result<Self, PeerError> {
        let mut reader = Reader::new(bytes);
        let (min, max) = (reader.varint()?, reader.varint()?);
        let version = versions.common(Versions { min, max })?;
        let cluster = reader.u128()?;
        let identity = read_identity(&mut reader)?;
        Ok(Hello {
            met: RemoteIdentity { identity, version },
            cluster,
            whom: NodeId(reader.varint_u32()?),
        })
    }
}

/// ```text
/// answer   := 0 version identity | refusal:u8
/// identity := node incarnation:u128be disk:u128be
/// ```
fn encode_answer(judged: &Result<RemoteIdentity, PeerError>, me: LocalIdentity) -> Vec<u8> {
    match judged {
        Ok(met) => {
            let mut out = vec![0];
            put_varint(&mut out, met.version);
            put_identity(&mut out, &me.identity);
            out
        }
        Err(PeerError::Version) => vec![1],
        Err(PeerError::Cluster) => vec![2],
        Err(PeerError::NotMe) => vec![3],
        Err(PeerError::Stranger) => vec![4],
        Err(PeerError::Disk) => vec![5],
        Err(_) => vec![u8::MAX],
    }
}

fn decode_answer(bytes: Bytes, me: LocalIdentity) -> Result<RemoteIdentity, PeerError> {
    let mut reader = Reader::new(bytes);
    match reader.byte()? {
        0 => {}
        1 => return Err(PeerError::Version),
        2 => return Err(PeerError::Cluster),
        3 => return Err(PeerError::NotMe),
        4 => return Err(PeerError::Stranger),
        5 => return Err(PeerError::Disk),
        _ => return Err(PeerError::Unknown),
    }
    let version = reader.varint()?;
    if !(me.versions.min..=me.versions.max).contains(&version) {
        return Err(PeerError::Version);
    }
    let identity = read_identity(&mut reader)?;
    Ok(RemoteIdentity { identity, version })
}

fn put_identity(out: &mut Vec<u8>, identity: &Identity) {
    put_varint(out, u64::from(identity.node.0));
    out.extend_from_slice(&identity.incarnation.0.to_be_bytes());
    out.extend_from_slice(&identity.disk.0.to_be_bytes());
}

fn read_identity(reader: &mut Reader) -> Result<Identity, DecodeError> {
    Ok(Identity {
        node: NodeId(reader.varint_u32()?),
        incarnation: Incarnation(reader.u128()?),
        disk: DiskId(reader.u128()?),
    })
}

fn key_pair() -> Result<(EphemeralPrivateKey, [u8; KEY_SIZE]), PeerError> {
    let failed = |_| PeerError::Io(io::Error::other("no randomness for a key"));
    let private = EphemeralPrivateKey::generate(&X25519, &SystemRandom::new()).map_err(failed)?;
    let public = private.compute_public_key().map_err(failed)?;
    let mut bytes = [0; KEY_SIZE];
    bytes.copy_from_slice(public.as_ref());
    Ok((private, bytes))
}

fn agree(
    handshake: &mut Handshake,
    private: EphemeralPrivateKey,
    theirs: &[u8; KEY_SIZE],
) -> Result<(), PeerError> {
    let theirs = UnparsedPublicKey::new(&X25519, theirs);
    agreement::agree_ephemeral(private, &theirs, |secret| handshake.mix_secret(secret))
        .map_err(|_| PeerError::Key)
}

/// ```text
/// message := size:u16le e[32] sealed
/// ```
fn framed(public: &[u8; KEY_SIZE], sealed: &[u8]) -> Vec<u8> {
    let size = u16::try_from(KEY_SIZE + sealed.len()).expect("a handshake's messages are short");
    [&size.to_le_bytes(), &public[..], sealed].concat()
}

fn read_message(stream: &mut Timed<'_>) -> Result<([u8; KEY_SIZE], Vec<u8>), PeerError> {
    let mut size = [0; 2];
    stream.read_exact(&mut size)?;
    let size = usize::from(u16::from_le_bytes(size));
    if !(KEY_SIZE + TAG_SIZE..=MESSAGE_MAX).contains(&size) {
        return Err(PeerError::TooLong);
    }
    let mut public = [0; KEY_SIZE];
    stream.read_exact(&mut public)?;
    let mut sealed = vec![0; size - KEY_SIZE];
    stream.read_exact(&mut sealed)?;
    Ok((public, sealed))
}

/// A stream on which everything together is over in time, however slowly the other side speaks.
pub(super) struct Timed<'a> {
    stream: &'a TcpStream,
    end: Instant,
}

impl<'a> Timed<'a> {
    pub(super) fn new(stream: &'a TcpStream) -> Self {
        let end = Instant::now() + HANDSHAKE;
        Timed { stream, end }
    }

    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.end.saturating_duration_since(Instant::now());
        match left.is_zero() {
            true => Err(io::ErrorKind::TimedOut.into()),
            false => Ok(Some(left)),
        }
    }
}

impl Read for Timed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        self.stream.read(buffer)
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

#[cfg(test)]
mod tests;
