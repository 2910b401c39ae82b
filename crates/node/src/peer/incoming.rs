//! The connections that other nodes make to this one.
//!
//! Invariants:
//! - GUEST-1 of those that have proved nothing there are few, each for a short time. One more ends
//!   the oldest, so that open connections keep no member out.
//! - GUEST-2 of each member there is one: the newest that has proved to have the key.
//! - GUEST-3 nothing is delivered in the name of another node than the one that has the connection.

use std::collections::VecDeque;
use std::io::BufReader;
use std::net::{IpAddr, Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use fader_chain::clocks::Frame;
use fader_chain::{ChainId, DecodeError, Envelope, Incarnation, NodeId, Reader};
use fader_services::forward::{ForwardedReply, ForwardedRequest};
use fader_services::service::WAIT_MAX;
use parking_lot::Mutex;

use super::blocks;
use super::handshake::{Purpose, Timed, answer};
use super::outgoing::{KIND_ANSWER, KIND_CLOCK, KIND_ENVELOPE, KIND_REQUEST, KIND_WITHDRAWAL};
use super::record::{Opener, Sealer};
use super::refusal::{PeerError, Who};
use super::traffic::Traffic;
use super::{PeerContext, Reply};
use crate::clock;

/// Connections that have proved nothing yet.
const UNKNOWN_MAX: usize = 16;
/// How long a connection may say nothing at all.
const SILENCE: Duration = Duration::from_secs(3);
/// How long another node may want to wait for an answer: the longest wait, and the time of a
/// request.
const PATIENCE_MAX: Duration = WAIT_MAX.saturating_add(Duration::from_secs(15));
/// Bytes read at once.
const BUFFER: usize = 128 << 10;
/// How long to wait when the system gives no connection, such as for want of descriptors.
const AGAIN: Duration = Duration::from_millis(100);

/// Those that have proved nothing, oldest first.
#[derive(Default)]
pub(super) struct UnauthenticatedPool {
    next: AtomicU64,
    streams: Mutex<VecDeque<(u64, TcpStream)>>,
}

impl UnauthenticatedPool {
    fn enter(&self, stream: &TcpStream) -> std::io::Result<u64> {
        let serial = self.next.fetch_add(1, Ordering::Relaxed);
        let stream = stream.try_clone()?;
        let mut streams = self.streams.lock();
        streams.push_back((serial, stream));
        if UNKNOWN_MAX < streams.len()
            && let Some((_, oldest)) = streams.pop_front()
        {
            end(&oldest);
        }
        Ok(serial)
    }

    fn leave(&self, serial: u64) {
        self.streams.lock().retain(|(other, _)| *other != serial);
    }

    pub(super) fn close(&self) {
        self.streams
            .lock()
            .iter()
            .for_each(|(_, stream)| end(stream));
    }
}

/// Ends a connection; one that has ended is as good.
pub(super) fn end(stream: &TcpStream) {
    drop(stream.shutdown(Shutdown::Both));
}

/// Takes connections until this node is closed.
pub(super) fn run(listener: &TcpListener, common: &PeerContext) {
    std::thread::scope(|scope| {
        while !common.is_closed() {
            let (stream, address) = match listener.accept() {
                Ok(accepted) => accepted,
                Err(_) if common.is_closed() => return,
                Err(error) => {
                    tracing::warn!(%error, "no connection of a node was taken");
                    std::thread::sleep(AGAIN);
                    continue;
                }
            };
            // Here, so that the oldest is the one that came first.
            let Ok(serial) = common.unknown.enter(&stream) else {
                continue;
            };
            let serve = move || serve(&stream, serial, address.ip(), common);
            let thread = std::thread::Builder::new().name("peer-in".to_owned());
            if let Err(error) = thread.spawn_scoped(scope, serve) {
                common.unknown.leave(serial);
                tracing::warn!(%error, "no thread for a connection of a node");
            }
        }
    });
}

fn serve(stream: &TcpStream, serial: u64, address: IpAddr, common: &PeerContext) {
    let met = meet(stream, common);
    common.unknown.leave(serial);
    let (who, error) = match met {
        Ok((node, opener, None)) => {
            common.log_once.forget(Who::Address(address));
            let error = receive(stream, node, serial, opener, common);
            // The answers that it owes would have come this way.
            common.asks.fail(node);
            common.inbox.withdraw(node, None);
            (Who::Node(node), error)
        }
        Ok((node, opener, Some(sealer))) => {
            let error = blocks::serve(stream, node, serial, opener, sealer, common);
            // An idle one ends without complaint.
            return match error {
                PeerError::Silent | PeerError::Ended => end(stream),
                error => {
                    common.log_refusal(Who::Node(node), &error);
                    end(stream);
                }
            };
        }
        Err(error) => {
            common.refused.fetch_add(1, Ordering::Relaxed);
            (Who::Address(address), error)
        }
    };
    if !common.is_closed() {
        common.log_refusal(who, &error);
    }
    end(stream);
}

/// Who it is, when it has proved it; and what seals answers, where it asks about blocks.
fn meet(
    stream: &TcpStream,
    common: &PeerContext,
) -> Result<(NodeId, Opener, Option<Sealer>), PeerError> {
    stream.set_nodelay(true)?;
    let disk = |node| common.directory.read().get(&node).map(|peer| peer.disk);
    let (met, purpose, (caller, host)) = answer(stream, &common.key, common.me(), disk)?;
    let mut opener = match purpose {
        Purpose::Messages => Opener::new(caller),
        Purpose::Blocks => blocks::questions(caller),
    };
    // SHAKE-2: only now it is known that this was not said before, by another.
    let nothing = &mut |_| Err(PeerError::Frame);
    opener.read(&mut Timed::new(stream), nothing)?;
    let answers = (purpose == Purpose::Blocks).then(|| Sealer::new(host));
    Ok((met.identity.node, opener, answers))
}

/// Delivers what comes, until the connection ends. Says why it did.
fn receive(
    stream: &TcpStream,
    node: NodeId,
    serial: u64,
    mut opener: Opener,
    common: &PeerContext,
) -> PeerError {
    if let Err(error) = common.sessions.enter(node, serial, stream, common) {
        return error;
    }
    let error = read(stream, node, &mut opener, common);
    common.sessions.leave(node, serial);
    error.err().unwrap_or(PeerError::Ended)
}

fn read(
    stream: &TcpStream,
    node: NodeId,
    opener: &mut Opener,
    common: &PeerContext,
) -> Result<(), PeerError> {
    stream.set_read_timeout(Some(SILENCE))?;
    let mut buffered = BufReader::with_capacity(BUFFER, stream);
    let traffic = common.traffic(node);
    loop {
        let take = &mut |body| take(body, node, &traffic, common);
        let size = opener.read(&mut buffered, take)? as u64;
        traffic.bytes_received.fetch_add(size, Ordering::Relaxed);
    }
}

/// Understands one message, and hands it on.
pub(super) fn take(
    body: Bytes,
    node: NodeId,
    traffic: &Arc<Traffic>,
    common: &PeerContext,
) -> Result<(), PeerError> {
    traffic.received.fetch_add(1, Ordering::Relaxed);
    let mut reader = Reader::new(body);
    match reader.byte()? {
        KIND_ENVELOPE => {
            let chain = ChainId(reader.varint_u32()?);
            let envelope = Envelope::decode(reader.rest())?;
            let home = common.home(envelope.from);
            if home == node {
                common.inbox.deliver(chain, envelope);
            } else if home != envelope.from || common.directory.read().contains_key(&home) {
                return Err(PeerError::Impostor);
            }
            // A member that is not known yet says it again.
        }
        KIND_REQUEST => {
            let chain = ChainId(reader.varint_u32()?);
            let (number, patience) = (reader.varint()?, reader.varint()?);
            let asked = ForwardedRequest::decode(reader.rest())?;
            let reply = Reply::new(node, number, common.outgoing(node), common.version());
            let patience = PATIENCE_MAX.min(Duration::from_millis(patience));
            common.inbox.serve(chain, asked, patience, reply);
        }
        KIND_ANSWER => {
            let number = reader.varint()?;
            let told = ForwardedReply::decode(reader.rest())?;
            common.asks.answer(node, number, told);
        }
        KIND_WITHDRAWAL => {
            let number = reader.varint()?;
            reader.end()?;
            common.inbox.withdraw(node, Some(number));
        }
        KIND_CLOCK => {
            let frame = Frame {
                incarnation: Incarnation(reader.u128()?),
                stops: reader.varint()?,
                clock_ms: reader.varint()?,
            };
            reader.end()?;
            let now_ms = clock::monotonic_ms();
            common.clocks.on_frame(now_ms, node, frame);
        }
        _ => return Err(DecodeError::new("the kind of what is in a frame").into()),
    }
    Ok(())
}
