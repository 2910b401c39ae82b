//! The connections of members that have proved who they are: of each the newest.

use std::collections::BTreeMap;
use std::net::TcpStream;

use fader_chain::NodeId;
use parking_lot::Mutex;

use super::PeerContext;
use super::incoming::end;
use super::refusal::PeerError;

#[derive(Default)]
pub(super) struct AuthenticatedPeers(Mutex<State>);

#[derive(Default)]
struct State {
    /// With the number under which it was taken.
    streams: BTreeMap<NodeId, (u64, TcpStream)>,
    is_closed: bool,
}

impl AuthenticatedPeers {
    /// Takes the place of the connection that the node had, unless that is newer. The node may have
    /// ceased to be a member while it proved to be one.
    pub(super) fn enter(
        &self,
        node: NodeId,
        serial: u64,
        stream: &TcpStream,
        common: &PeerContext,
    ) -> Result<(), PeerError> {
        let stream = stream.try_clone()?;
        let directory = common.directory.read();
        let mut state = self.0.lock();
        let is_newer = |(other, _): &(u64, TcpStream)| serial < *other;
        if state.is_closed || state.streams.get(&node).is_some_and(is_newer) {
            return Err(PeerError::Ended);
        }
        if !directory.contains_key(&node) {
            return Err(PeerError::Stranger);
        }
        if let Some((_, older)) = state.streams.insert(node, (serial, stream)) {
            end(&older);
        }
        Ok(())
    }

    /// The connection has ended.
    pub(super) fn leave(&self, node: NodeId, serial: u64) {
        let mut state = self.0.lock();
        if state
            .streams
            .get(&node)
            .is_some_and(|(of, _)| *of == serial)
        {
            state.streams.remove(&node);
        }
    }

    /// Ends the node's connection.
    pub(super) fn end(&self, node: NodeId) {
        if let Some((_, stream)) = self.0.lock().streams.remove(&node) {
            end(&stream);
        }
    }

    /// Ends all connections, now and later.
    pub(super) fn close(&self) {
        let mut state = self.0.lock();
        state.is_closed = true;
        state.streams.values().for_each(|(_, stream)| end(stream));
    }
}
