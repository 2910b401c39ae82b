//! The way between members.

use fader_chain::{Envelope, NodeId};

/// What takes a member's messages to others: queues within a process, connections between nodes.
pub(crate) trait Outbox: Send + Sync {
    /// Sends what may be lost, at once: whoever sends waits for nobody.
    fn send(&self, to: NodeId, envelope: Envelope);
}
