//! One connection to one node, made when it is first needed, and then kept up: what is to be sent
//! waits here, for a moment.
//!
//! A thread of its own encodes, seals and writes, so that a sender pays for a place in a queue and
//! no more. All that has gathered while one write lasts goes with the next.
//!
//! Invariants:
//! - OUTBOX-1 what waits is bounded; what does not fit, or finds no connection when one is due, is
//!   lost.
//! - OUTBOX-2 a request that was taken is answered, or its asker hears that the connection was
//!   lost.

use std::collections::VecDeque;
use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::Bytes;
use fader_chain::clocks::Frame;
use fader_chain::{ChainId, Envelope, Message, NodeId, Version, put_varint};
use parking_lot::{Condvar, Mutex};
use rand::RngExt;
use rustix::net::RecvFlags;

use super::handshake::{Purpose, call};
use super::record::{Lane, PIECE_MAX, Sealer, put_message};
use super::refusal::{PeerError, Who};
use super::traffic::Traffic;
use super::{Peer, PeerContext};

/// Messages that may wait. Entries in them are those of the log's window: they are not copied.
const LETTERS_MAX: usize = 4096;
/// Bytes of long messages that may wait.
const BULK_BYTES_MAX: usize = 64 << 20;
/// A message that is longer lets others go before it.
const LONG: usize = 16 << 10;
/// What of the bulk lane goes with one write, beside all that is prompt.
const BULK_WRITE: usize = 4 * PIECE_MAX;
/// Kept of a buffer that was needed once.
const BUFFER_KEPT: usize = 1 << 20;
/// How long a connection may take to come about, before its handshake.
pub(super) const CONNECT: Duration = Duration::from_secs(1);
/// How long one write may take.
pub(super) const WRITE: Duration = Duration::from_secs(5);
/// How often an idle connection says that it is there.
const SIGN_OF_LIFE: Duration = Duration::from_millis(500);
/// When a lost connection is tried again, at first and at most.
const RETRY_MIN: Duration = Duration::from_millis(20);
const RETRY_MAX: Duration = Duration::from_millis(500);

pub(super) const KIND_ENVELOPE: u8 = 1;
pub(super) const KIND_REQUEST: u8 = 2;
pub(super) const KIND_ANSWER: u8 = 3;
pub(super) const KIND_WITHDRAWAL: u8 = 4;
pub(super) const KIND_CLOCK: u8 = 5;

/// What goes to another node.
pub(super) enum OutgoingMessage {
    /// What a member of a chain says.
    Envelope(ChainId, Envelope),
    /// What a client asks of a chain, under the asker's number, and how many milliseconds it waits.
    Request(ChainId, u64, u64, Bytes),
    /// What comes of it.
    Answer(u64, Bytes),
    /// The asker waits no more for what comes of the request with this number of its own. From
    /// version 4 on.
    Withdrawal(u64),
    /// The lease clock of this process. From version 5 on.
    Clock(Frame),
}

/// ```text
/// body := 1 chain envelope | 2 chain number patience_ms asked | 3 number told | 4 number
///       | 5 incarnation:u128be stops clock_ms
/// ```
impl OutgoingMessage {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            OutgoingMessage::Envelope(chain, envelope) => {
                out.push(KIND_ENVELOPE);
                put_varint(out, u64::from(chain.0));
                envelope.encode(out);
            }
            OutgoingMessage::Request(chain, number, patience, asked) => {
                out.push(KIND_REQUEST);
                put_varint(out, u64::from(chain.0));
                put_varint(out, *number);
                put_varint(out, *patience);
                out.extend_from_slice(asked);
            }
            OutgoingMessage::Answer(number, told) => {
                out.push(KIND_ANSWER);
                put_varint(out, *number);
                out.extend_from_slice(told);
            }
            OutgoingMessage::Withdrawal(number) => {
                out.push(KIND_WITHDRAWAL);
                put_varint(out, *number);
            }
            OutgoingMessage::Clock(frame) => {
                out.push(KIND_CLOCK);
                out.extend_from_slice(&frame.incarnation.0.to_be_bytes());
                put_varint(out, frame.stops);
                put_varint(out, frame.clock_ms);
            }
        }
    }

    /// Whether it must arrive in its place: an entry that comes before its predecessor is sent
    /// again.
    fn keeps_order(&self) -> bool {
        let OutgoingMessage::Envelope(_, envelope) = self else {
            return false;
        };
        matches!(
            envelope.message,
            Message::Append { .. } | Message::Hello { .. }
        )
    }
}

/// The way to one node.
pub(super) struct Outgoing {
    node: NodeId,
    peer: Peer,
    traffic: Arc<Traffic>,
    queue: Mutex<Queue>,
    due: Condvar,
}

#[derive(Default)]
struct Queue {
    outgoing: Vec<OutgoingMessage>,
    /// The connection, while there is one.
    stream: Option<TcpStream>,
    /// Whether a connection was needed.
    is_needed: bool,
    is_closed: bool,
}

/// What has been encoded and not written.
#[derive(Default)]
struct Lanes {
    prompt: Vec<u8>,
    bulk: VecDeque<Bytes>,
    bulk_bytes: usize,
}

impl Outgoing {
    pub(super) fn new(node: NodeId, peer: Peer, traffic: Arc<Traffic>) -> Self {
        Outgoing {
            node,
            peer,
            traffic,
            queue: Mutex::default(),
            due: Condvar::new(),
        }
    }

    /// Where it goes.
    pub(super) fn peer(&self) -> Peer {
        self.peer
    }

    /// Whether there is a connection.
    pub(super) fn is_connected(&self) -> bool {
        self.queue.lock().stream.is_some()
    }

    /// From now on there is to be a connection.
    pub(super) fn need(&self) {
        let mut queue = self.queue.lock();
        if !std::mem::replace(&mut queue.is_needed, true) {
            drop(queue);
            self.due.notify_one();
        }
    }

    /// Queues a letter. Says whether there was room.
    pub(super) fn send(&self, message: OutgoingMessage) -> bool {
        let mut queue = self.queue.lock();
        if LETTERS_MAX <= queue.outgoing.len() || queue.is_closed {
            self.traffic.lost.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        queue.is_needed = true;
        queue.outgoing.push(message);
        let is_first = queue.outgoing.len() == 1;
        drop(queue);
        // Its thread waits only for the first.
        if is_first {
            self.due.notify_one();
        }
        true
    }

    /// Ends the connection, and its thread soon.
    pub(super) fn close(&self) {
        let mut queue = self.queue.lock();
        queue.is_closed = true;
        if let Some(stream) = queue.stream.take() {
            // One that is not connected any more is as good.
            drop(stream.shutdown(std::net::Shutdown::Both));
        }
        self.due.notify_one();
    }

    /// Makes the connection when it is first needed, and keeps it up until it is closed.
    pub(super) fn run(&self, common: &PeerContext) {
        let mut queue = self.queue.lock();
        while !queue.is_needed && !queue.is_closed {
            self.due.wait(&mut queue);
        }
        drop(queue);
        let mut retry = RETRY_MIN;
        while !self.queue.lock().is_closed {
            let ended = match self.connect(common) {
                Ok((stream, sealer)) => {
                    retry = RETRY_MIN;
                    let ended = self.pump(&stream, sealer, common);
                    self.queue.lock().stream = None;
                    ended
                }
                Err(error) => {
                    if matches!(error, PeerError::Stranger) {
                        common.clocks.on_refused(self.node);
                    }
                    self.lose_all();
                    Err(error)
                }
            };
            common.asks.fail(self.node);
            if let Err(error) = ended {
                common.log_refusal(Who::Node(self.node), &error);
            }
            self.pause(retry.mul_f64(rand::rng().random_range(0.5..1.0)));
            retry = RETRY_MAX.min(2 * retry);
        }
    }

    fn connect(&self, common: &PeerContext) -> Result<(TcpStream, Sealer), PeerError> {
        let Peer { address, disk } = self.peer;
        let stream = TcpStream::connect_timeout(&address, CONNECT)?;
        stream.set_nodelay(true)?;
        let (key, me, node) = (&common.key, common.me(), self.node);
        let called = call(&stream, key, me, node, disk, Purpose::Messages)?;
        let (met, (cipher, _)) = called;
        let mut sealer = Sealer::new(cipher);
        let mut first = Vec::new();
        sealer.sign_of_life(&mut first);
        stream.set_write_timeout(Some(WRITE))?;
        (&stream).write_all(&first)?;
        let mut queue = self.queue.lock();
        if queue.is_closed {
            return Err(PeerError::Ended);
        }
        queue.stream = Some(stream.try_clone()?);
        drop(queue);
        self.traffic.connections.fetch_add(1, Ordering::Relaxed);
        common.log_once.forget(Who::Node(self.node));
        let (peer, version) = (common.name(Who::Node(self.node)), met.version);
        tracing::info!(%peer, %address, version, "connected to a node");
        Ok((stream, sealer))
    }

    /// Writes what there is, until the connection is lost, or closed.
    fn pump(
        &self,
        mut stream: &TcpStream,
        mut sealer: Sealer,
        common: &PeerContext,
    ) -> Result<(), PeerError> {
        let mut lanes = Lanes::default();
        let mut out = Vec::new();
        let mut showing_at = Instant::now();
        loop {
            if lanes.bulk.is_empty() {
                self.wait(showing_at, common);
                // A thread that is about to send, on a machine that is busy, does so first: one
                // write carries it all. On one that is idle this is nothing.
                std::thread::yield_now();
            }
            // Else the first write after its end would be lost without notice.
            is_silent(stream)?;
            let Some(outgoing) = self.take() else {
                return Ok(());
            };
            for message in outgoing {
                self.encode(&message, &mut lanes);
            }
            let now = Instant::now();
            if showing_at <= now && shows_clock(common) {
                let frame = common.clocks.frame(common.identity.incarnation);
                self.encode(&OutgoingMessage::Clock(frame), &mut lanes);
                showing_at = now + common.clocks.pace();
            }
            out.clear();
            lanes.seal(&mut sealer, &mut out);
            if out.is_empty() {
                sealer.sign_of_life(&mut out);
            }
            stream.write_all(&out)?;
            let written = out.len() as u64;
            self.traffic
                .bytes_sent
                .fetch_add(written, Ordering::Relaxed);
            out.shrink_to(BUFFER_KEPT);
        }
    }

    fn encode(&self, message: &OutgoingMessage, lanes: &mut Lanes) {
        let counter = match lanes.put(message) {
            true => &self.traffic.sent,
            false => &self.traffic.lost,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits for something to do: at the latest it is to say that it is there, or to show the
    /// clock.
    fn wait(&self, showing_at: Instant, common: &PeerContext) {
        let mut end = Instant::now() + SIGN_OF_LIFE;
        if shows_clock(common) {
            end = end.min(showing_at);
        }
        let mut queue = self.queue.lock();
        while queue.outgoing.is_empty() && !queue.is_closed {
            if self.due.wait_until(&mut queue, end).timed_out() {
                return;
            }
        }
    }

    /// All that has gathered; `None` at the end.
    fn take(&self) -> Option<Vec<OutgoingMessage>> {
        let mut queue = self.queue.lock();
        (!queue.is_closed).then(|| std::mem::take(&mut queue.outgoing))
    }

    /// Forgets what waited.
    fn lose_all(&self) {
        let outgoing = std::mem::take(&mut self.queue.lock().outgoing);
        let lost = outgoing.len() as u64;
        self.traffic.lost.fetch_add(lost, Ordering::Relaxed);
    }

    fn pause(&self, time: Duration) {
        let end = Instant::now() + time;
        let mut queue = self.queue.lock();
        while !queue.is_closed && !self.due.wait_until(&mut queue, end).timed_out() {}
    }
}

/// Whether every process of the cluster reads clocks.
fn shows_clock(common: &PeerContext) -> bool {
    Version::FIFTH <= common.version()
}

impl Lanes {
    /// Encodes a letter. Says whether it can be sent.
    fn put(&mut self, message: &OutgoingMessage) -> bool {
        let start = self.prompt.len();
        if !put_message(&mut self.prompt, |out| message.encode(out)) {
            tracing::error!("a message is too long to be sent");
            return false;
        }
        let size = self.prompt.len() - start;
        if size <= LONG || message.keeps_order() {
            return true;
        }
        let long = self.prompt.split_off(start);
        let has_room = self.bulk_bytes + size <= BULK_BYTES_MAX;
        if has_room {
            self.bulk_bytes += size;
            self.bulk.push_back(long.into());
        }
        has_room
    }

    /// Seals all that is prompt and some of what is not.
    fn seal(&mut self, sealer: &mut Sealer, out: &mut Vec<u8>) {
        sealer.frames(Lane::Prompt, &self.prompt, out);
        self.prompt.clear();
        self.prompt.shrink_to(BUFFER_KEPT);
        let mut room = BULK_WRITE;
        while let Some(long) = self.bulk.front_mut()
            && room != 0
        {
            let piece = long.split_to(room.min(long.len()));
            if long.is_empty() {
                self.bulk.pop_front();
            }
            room -= piece.len();
            self.bulk_bytes -= piece.len();
            sealer.frames(Lane::Bulk, &piece, out);
        }
    }
}

/// Whether the other side of a connection on which it says nothing is still there.
fn is_silent(stream: &TcpStream) -> Result<(), PeerError> {
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    match rustix::net::recv(stream, &mut [0_u8; 1], flags) {
        Ok((_, 0)) => Err(PeerError::Ended),
        Ok(_) => Err(PeerError::Frame),
        Err(rustix::io::Errno::AGAIN) => Ok(()),
        Err(error) => Err(PeerError::Io(error.into())),
    }
}
