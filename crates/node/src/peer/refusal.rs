//! Why a connection was refused or given up, and who hears of it: the log, once for each peer and
//! reason.

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;

use fader_chain::{DecodeError, NodeId};
use parking_lot::Mutex;

/// Reasons kept to be logged once; beyond them nothing more is logged.
const COMPLAINTS_MAX: usize = 1024;

/// Why a connection was refused or given up.
#[derive(Debug, thiserror::Error)]
pub(super) enum PeerError {
    /// It begins otherwise than a connection of this protocol.
    #[error("it does not speak the protocol between nodes, or another generation of it")]
    NotAPeer,
    /// A handshake that does not open.
    #[error("its cluster key is another one, or its message was changed")]
    Key,
    /// The right key, in the wrong cluster.
    #[error("it belongs to another cluster")]
    Cluster,
    /// No version that both know.
    #[error("there is no version of the protocol that both know")]
    Version,
    /// It is not known here.
    #[error("it is not a member of the cluster")]
    Stranger,
    /// It is known, with another disk.
    #[error("its disk is not the one that its number was given to")]
    Disk,
    /// It is not whom it was taken for.
    #[error("the connection was meant for another node")]
    NotMe,
    /// It speaks for another.
    #[error("it sent a message in another node's name")]
    Impostor,
    /// A frame that does not open.
    #[error("a frame was changed, repeated or left out")]
    Frame,
    /// A frame or message beyond its limit.
    #[error("a frame or message is longer than allowed")]
    TooLong,
    /// A message that is none.
    #[error("{0}")]
    Malformed(#[from] DecodeError),
    /// It did not say in time what was due.
    #[error("it was silent for too long")]
    Silent,
    /// It refused the handshake for a reason that this version does not know.
    #[error("it refused, for a reason that this version does not know")]
    Unknown,
    /// It closed during the handshake.
    #[error("it closed the connection in the handshake: its cluster key may be another one")]
    Closed,
    /// The connection ended between two frames.
    #[error("the connection ended")]
    Ended,
    /// The connection ended within a frame.
    #[error("the connection ended within a frame")]
    Truncated,
    /// What the system says.
    #[error("{0}")]
    Io(io::Error),
}

impl From<io::Error> for PeerError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => PeerError::Silent,
            io::ErrorKind::UnexpectedEof => PeerError::Truncated,
            _ => PeerError::Io(error),
        }
    }
}

/// Who is complained about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Who {
    /// Someone who has not proved to be anyone.
    Address(IpAddr),
    /// A node.
    Node(NodeId),
}

/// What was logged already.
#[derive(Default)]
pub(super) struct LogOnce(Mutex<BTreeSet<(Who, String)>>);

impl LogOnce {
    /// What was logged of a peer.
    #[cfg(test)]
    pub(super) fn of(&self, who: Who) -> Vec<String> {
        let logged = self.0.lock();
        let of = logged.iter().filter(|(other, _)| *other == who);
        of.map(|(_, reason)| reason.clone()).collect()
    }

    /// It is well: what it does wrong from now on is news.
    pub(super) fn forget(&self, who: Who) {
        self.0.lock().retain(|(other, _)| *other != who);
    }

    /// Whether this reason was not logged of this peer since it was last well.
    pub(super) fn is_new(&self, who: Who, reason: &str) -> bool {
        let mut logged = self.0.lock();
        logged.len() < COMPLAINTS_MAX && logged.insert((who, reason.to_owned()))
    }
}

#[cfg(test)]
mod tests;
