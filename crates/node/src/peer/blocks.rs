//! Bytes of blocks between nodes, over connections of their own (docs/reference/format/peer.md).
//!
//! ```text
//!  caller ── one question ──▶ host: the member's store of blocks
//!         ◀── its answer ────
//! ```
//!
//! A caller asks one thing at a time on a connection, and waits for the answer. What is under way
//! is bounded, nothing is dropped, and a slow disk holds up its askers. A question may be asked
//! again: it has the same answer.
//!
//! Invariants:
//! - a node has at most [`CALLS_MAX`] connections to another one; a further caller waits.
//! - of a caller at most [`HOSTED_MAX`] are served; one more ends the oldest.
//! - BCONN-3 an answer is that of the question before it: a connection on which anything failed
//!   ends.
//!
//! Deliberately absent: what is asked of whom, and when.

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufReader, Write};
use std::net::{Shutdown, TcpStream};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::Bytes;
use fader_chain::{ChainId, DecodeError, NodeId, Reader, Version, put_bytes, put_varint};
use fader_services::{ErrorCode, Reason};
use parking_lot::{Condvar, Mutex};

use super::handshake::{Purpose, call};
use super::noise::Cipher;
use super::outgoing::{CONNECT, WRITE};
use super::record::{Lane, Opener, Sealer, put_message};
use super::refusal::{PeerError, Who};
use super::{Peer, PeerContext};
use crate::storage::blocks::{BLOCK_BYTES_MAX, Block, BlockBytes, BlockId};

/// Connections to one node.
const CALLS_MAX: usize = 4;
/// Connections of one node: some may have ended without a word.
const HOSTED_MAX: usize = 2 * CALLS_MAX;
/// A question or an answer: a block, and what is told of it.
const MESSAGE_MAX: usize = BLOCK_BYTES_MAX as usize + 1024;
/// How long an answer may take: the sync of a block, behind those of others.
const ANSWER: Duration = Duration::from_secs(20);
/// How long a connection may be idle.
const IDLE: Duration = Duration::from_secs(60);
/// Bytes of what the store says of a failure.
const WORDS_MAX: usize = 500;
const BUFFER: usize = 128 << 10;

/// What is asked of a member's store of blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockAsked {
    /// To make this block durable, if these bytes are its own.
    Hold(Block, BlockBytes),
    /// For those of these blocks that are gone.
    Gone(Vec<BlockId>),
    /// For blocks that have rows, in the order of their ids, from behind this one on.
    List(Option<BlockId>),
    /// For bytes of a block; without a range for all of them.
    Fetch(BlockId, Option<Range<u32>>),
}

/// What comes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockTold {
    /// The block is durable here.
    Held,
    /// The bytes.
    Bytes(Bytes),
    /// These blocks are gone.
    These(Vec<BlockId>),
    /// A page of blocks that have rows, with their sizes; none behind the last.
    Rows(Vec<(BlockId, u32)>),
    /// The block has no row any more: its bytes were rightly reclaimed.
    Gone,
    /// The bytes are not here, or damaged, though the block may have a row.
    Missing,
    /// The disk has only its reserve left.
    Full,
    /// It failed.
    Failed {
        /// Which failure.
        code: ErrorCode,
        /// What the store or the operating system said of it.
        detail: String,
    },
    /// It failed with a code that this process does not know, and its name.
    UnknownCode(String),
}

/// ```text
/// asked := chain  1 id:u128be size sum bytes | 2 id:u128be | 3 id:u128be start end
///          | 4 id:u128be | 5 0:u128be | 6 0:u128be list of id:u128be
/// ```
impl BlockAsked {
    pub(super) fn encode(&self, chain: ChainId, out: &mut Vec<u8>) {
        put_varint(out, u64::from(chain.0));
        match self {
            BlockAsked::Hold(block, bytes) => {
                out.push(1);
                out.extend_from_slice(&block.id.0.to_be_bytes());
                put_varint(out, u64::from(block.size));
                put_varint(out, u64::from(block.sum));
                let parts = bytes.parts().iter();
                parts.for_each(|part| out.extend_from_slice(part));
            }
            BlockAsked::Gone(ids) => {
                out.push(6);
                out.extend_from_slice(&0_u128.to_be_bytes());
                put_ids(ids, out);
            }
            BlockAsked::List(after) => {
                out.push(if after.is_some() { 4 } else { 5 });
                let after = after.map_or(0, |id| id.0);
                out.extend_from_slice(&after.to_be_bytes());
            }
            BlockAsked::Fetch(id, None) => {
                out.push(2);
                out.extend_from_slice(&id.0.to_be_bytes());
            }
            BlockAsked::Fetch(id, Some(range)) => {
                out.push(3);
                out.extend_from_slice(&id.0.to_be_bytes());
                put_varint(out, u64::from(range.start));
                put_varint(out, u64::from(range.end));
            }
        }
    }

    pub(super) fn decode(bytes: Bytes) -> Result<(ChainId, BlockAsked), DecodeError> {
        let mut reader = Reader::new(bytes);
        let chain = ChainId(reader.varint_u32()?);
        let kind = reader.byte()?;
        let id = BlockId(reader.u128()?);
        let asked = match kind {
            1 => {
                let (size, sum) = (reader.varint_u32()?, reader.varint_u32()?);
                let bytes = reader.rest();
                if bytes.len() != size as usize {
                    return Err(DecodeError::new("the size of a block"));
                }
                let block = Block { id, size, sum };
                let bytes = BlockBytes::of(id, vec![bytes]);
                return Ok((chain, BlockAsked::Hold(block, bytes)));
            }
            2 => BlockAsked::Fetch(id, None),
            3 => {
                let (start, end) = (reader.varint_u32()?, reader.varint_u32()?);
                BlockAsked::Fetch(id, Some(start..end))
            }
            4 => BlockAsked::List(Some(id)),
            5 if id == BlockId(0) => BlockAsked::List(None),
            6 if id == BlockId(0) => BlockAsked::Gone(read_ids(&mut reader)?),
            _ => return Err(DecodeError::new("the kind of a question about blocks")),
        };
        reader.end()?;
        Ok((chain, asked))
    }
}

fn put_ids(ids: &[BlockId], out: &mut Vec<u8>) {
    put_varint(out, ids.len() as u64);
    ids.iter()
        .for_each(|id| out.extend_from_slice(&id.0.to_be_bytes()));
}

fn read_ids(reader: &mut Reader) -> Result<Vec<BlockId>, DecodeError> {
    let count = reader.count()?;
    (0..count).map(|_| Ok(BlockId(reader.u128()?))).collect()
}

/// ```text
/// told := 0 | 1 bytes | 2 | 3 | 4 | 5 words | 6 list of (id:u128be, size)
///         | 7 list of id:u128be | 8 code detail
/// ```
///
/// From version 7 of a cluster on 8 stands in place of 5.
impl BlockTold {
    pub(super) fn encode(&self, version: Version, out: &mut Vec<u8>) {
        match self {
            BlockTold::Held => out.push(0),
            BlockTold::Bytes(bytes) => {
                out.push(1);
                out.extend_from_slice(bytes);
            }
            BlockTold::These(ids) => {
                out.push(7);
                put_ids(ids, out);
            }
            BlockTold::Rows(rows) => {
                out.push(6);
                put_varint(out, rows.len() as u64);
                for (id, size) in rows {
                    out.extend_from_slice(&id.0.to_be_bytes());
                    put_varint(out, u64::from(*size));
                }
            }
            BlockTold::Gone => out.push(2),
            BlockTold::Missing => out.push(3),
            BlockTold::Full => out.push(4),
            BlockTold::Failed { detail, .. } if version < Version::SEVENTH => {
                out.push(5);
                out.extend_from_slice(cut(detail).as_bytes());
            }
            BlockTold::Failed { code, detail } => put_failed(code.name(), detail, out),
            BlockTold::UnknownCode(code) => put_failed(code, "", out),
        }
    }

    pub(super) fn decode(bytes: Bytes) -> Result<BlockTold, DecodeError> {
        let mut reader = Reader::new(bytes);
        let told = match reader.byte()? {
            0 => BlockTold::Held,
            1 => return Ok(BlockTold::Bytes(reader.rest())),
            2 => BlockTold::Gone,
            3 => BlockTold::Missing,
            4 => BlockTold::Full,
            5 => {
                let detail = String::from_utf8_lossy(&reader.rest()).into_owned();
                let code = ErrorCode::Refused(Reason::Store);
                return Ok(BlockTold::Failed { code, detail });
            }
            6 => {
                let count = reader.count()?;
                let rows = (0..count).map(|_| {
                    let id = BlockId(reader.u128()?);
                    Ok((id, reader.varint_u32()?))
                });
                BlockTold::Rows(rows.collect::<Result<_, DecodeError>>()?)
            }
            7 => BlockTold::These(read_ids(&mut reader)?),
            8 => {
                let (code, detail) = (text(&mut reader)?, text(&mut reader)?);
                match ErrorCode::of_name(&code) {
                    Some(code) => BlockTold::Failed { code, detail },
                    None => BlockTold::UnknownCode(code),
                }
            }
            _ => return Err(DecodeError::new("the kind of an answer about blocks")),
        };
        reader.end()?;
        Ok(told)
    }
}

fn put_failed(code: &str, detail: &str, out: &mut Vec<u8>) {
    out.push(8);
    put_bytes(out, code.as_bytes());
    put_bytes(out, cut(detail).as_bytes());
}

/// The first bytes of a text, as many whole characters as may be sent.
fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(WORDS_MAX)]
}

fn text(reader: &mut Reader) -> Result<String, DecodeError> {
    String::from_utf8(reader.bytes()?.into()).map_err(|_| DecodeError::new("a text"))
}

/// A connection on which one asks and the other answers.
struct Talk {
    stream: TcpStream,
    reader: BufReader<TcpStream>,
    sealer: Sealer,
    opener: Opener,
}

impl Talk {
    fn new(stream: &TcpStream, sealer: Sealer, opener: Opener) -> Result<Talk, PeerError> {
        Ok(Talk {
            stream: stream.try_clone()?,
            reader: BufReader::with_capacity(BUFFER, stream.try_clone()?),
            sealer,
            opener,
        })
    }

    fn say(&mut self, put: impl FnOnce(&mut Vec<u8>)) -> Result<(), PeerError> {
        let (mut message, mut out) = (Vec::new(), Vec::new());
        if !put_message(&mut message, put) {
            return Err(PeerError::TooLong);
        }
        self.sealer.frames(Lane::Prompt, &message, &mut out);
        Ok(self.stream.write_all(&out)?)
    }

    /// The next message: there is one at a time.
    fn hear(&mut self) -> Result<Bytes, PeerError> {
        let mut heard = None;
        while heard.is_none() {
            let mut take = |body| match heard.replace(body) {
                None => Ok(()),
                Some(_) => Err(PeerError::Frame),
            };
            self.opener.read(&mut self.reader, &mut take)?;
        }
        heard.ok_or(PeerError::Frame)
    }
}

/// The connections that this node makes, by node.
#[derive(Default)]
pub(super) struct BlockCalls(Mutex<BTreeMap<NodeId, Arc<Pool>>>);

#[derive(Default)]
struct Pool {
    state: Mutex<Calls>,
    freed: Condvar,
}

#[derive(Default)]
struct Calls {
    idle: Vec<(Peer, Talk)>,
    used: usize,
}

impl BlockCalls {
    /// Ends those that are idle.
    pub(super) fn close(&self) {
        for pool in self.0.lock().values() {
            pool.state.lock().idle.clear();
        }
    }

    /// Asks another node, and waits for its answer; nothing when none came.
    pub(super) fn ask(
        &self,
        common: &PeerContext,
        node: NodeId,
        chain: ChainId,
        asked: &BlockAsked,
    ) -> Option<BlockTold> {
        let peer = common.directory.read().get(&node).copied()?;
        let pool = self.0.lock().entry(node).or_default().clone();
        let place = Place::enter(&pool)?;
        while !common.is_closed() {
            let idle = place.idle(peer);
            let is_new = idle.is_none();
            let told = match idle {
                Some(talk) => Ok(talk),
                None => connect(common, node, peer),
            };
            let told = told.and_then(|mut talk| Ok((exchange(&mut talk, chain, asked)?, talk)));
            match told {
                Ok((told, talk)) => {
                    place.leave(peer, talk);
                    return Some(told);
                }
                // It may have ended long ago.
                Err(_) if !is_new => {}
                Err(error) => {
                    common.log_refusal(Who::Node(node), &error);
                    return None;
                }
            }
        }
        None
    }
}

/// One of the connections to a node.
struct Place<'a>(&'a Pool);

impl<'a> Place<'a> {
    fn enter(pool: &'a Pool) -> Option<Place<'a>> {
        let end = Instant::now() + ANSWER;
        let mut calls = pool.state.lock();
        while CALLS_MAX <= calls.used {
            if pool.freed.wait_until(&mut calls, end).timed_out() {
                return None;
            }
        }
        calls.used += 1;
        Some(Place(pool))
    }

    fn idle(&self, peer: Peer) -> Option<Talk> {
        let mut calls = self.0.state.lock();
        calls.idle.retain(|(of, _)| *of == peer);
        calls.idle.pop().map(|(_, talk)| talk)
    }

    fn leave(&self, peer: Peer, talk: Talk) {
        self.0.state.lock().idle.push((peer, talk));
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.state.lock().used -= 1;
        self.0.freed.notify_one();
    }
}

fn connect(common: &PeerContext, node: NodeId, peer: Peer) -> Result<Talk, PeerError> {
    let stream = TcpStream::connect_timeout(&peer.address, CONNECT)?;
    stream.set_nodelay(true)?;
    let (key, me) = (&common.key, common.me());
    let called = call(&stream, key, me, node, peer.disk, Purpose::Blocks)?;
    let (_, (sealing, opening)) = called;
    let mut sealer = Sealer::new(sealing);
    let mut first = Vec::new();
    sealer.sign_of_life(&mut first);
    stream.set_write_timeout(Some(WRITE))?;
    stream.set_read_timeout(Some(ANSWER))?;
    (&stream).write_all(&first)?;
    Talk::new(&stream, sealer, Opener::within(opening, MESSAGE_MAX))
}

fn exchange(talk: &mut Talk, chain: ChainId, asked: &BlockAsked) -> Result<BlockTold, PeerError> {
    talk.say(|out| asked.encode(chain, out))?;
    Ok(BlockTold::decode(talk.hear()?)?)
}

/// The connections that other nodes make.
#[derive(Default)]
pub(super) struct BlockHosts(Mutex<BTreeMap<NodeId, VecDeque<(u64, TcpStream)>>>);

impl BlockHosts {
    fn enter(
        &self,
        node: NodeId,
        serial: u64,
        stream: &TcpStream,
        common: &PeerContext,
    ) -> Result<(), PeerError> {
        let stream = stream.try_clone()?;
        let directory = common.directory.read();
        let mut hosted = self.0.lock();
        if common.is_closed() {
            return Err(PeerError::Ended);
        }
        if !directory.contains_key(&node) {
            return Err(PeerError::Stranger);
        }
        let streams = hosted.entry(node).or_default();
        streams.push_back((serial, stream));
        if HOSTED_MAX < streams.len()
            && let Some((_, oldest)) = streams.pop_front()
        {
            end(&oldest);
        }
        Ok(())
    }

    fn leave(&self, node: NodeId, serial: u64) {
        if let Some(streams) = self.0.lock().get_mut(&node) {
            streams.retain(|(other, _)| *other != serial);
        }
    }

    /// Ends the connections of a node that is no member any more.
    pub(super) fn end(&self, node: NodeId) {
        let streams = self.0.lock().remove(&node);
        streams.iter().flatten().for_each(|(_, stream)| end(stream));
    }

    /// Ends all.
    pub(super) fn close(&self) {
        let hosted = std::mem::take(&mut *self.0.lock());
        let streams = hosted.values().flatten();
        streams.for_each(|(_, stream)| end(stream));
    }
}

/// Ends a connection; one that has ended is as good.
fn end(stream: &TcpStream) {
    drop(stream.shutdown(Shutdown::Both));
}

/// Opens the questions of a caller.
pub(super) fn questions(cipher: Cipher) -> Opener {
    Opener::within(cipher, MESSAGE_MAX)
}

/// Answers what a caller asks, until the connection ends. Says why it did.
pub(super) fn serve(
    stream: &TcpStream,
    node: NodeId,
    serial: u64,
    opener: Opener,
    sealer: Sealer,
    common: &PeerContext,
) -> PeerError {
    if let Err(error) = common.block_hosts.enter(node, serial, stream, common) {
        return error;
    }
    let error = answer_all(stream, node, opener, sealer, common);
    common.block_hosts.leave(node, serial);
    error.err().unwrap_or(PeerError::Ended)
}

fn answer_all(
    stream: &TcpStream,
    node: NodeId,
    opener: Opener,
    sealer: Sealer,
    common: &PeerContext,
) -> Result<(), PeerError> {
    stream.set_read_timeout(Some(IDLE))?;
    stream.set_write_timeout(Some(WRITE))?;
    let mut talk = Talk::new(stream, sealer, opener)?;
    let traffic = common.traffic(node);
    while !common.is_closed() {
        let body = talk.hear()?;
        let size = body.len() as u64;
        traffic.bytes_received.fetch_add(size, Ordering::Relaxed);
        let (chain, asked) = BlockAsked::decode(body)?;
        let told = common.inbox.blocks(chain, asked);
        talk.say(|out| told.encode(common.version(), out))?;
    }
    Ok(())
}
