//! What went between this node and another, counted.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of the traffic with one node since this one's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerCounters {
    /// Whether there is a connection to it.
    pub is_connected: bool,
    /// How often there was a new one.
    pub connections: u64,
    /// Messages sent to it.
    pub sent: u64,
    /// Messages that it was not sent, since the queue was full or the connection lost.
    pub lost: u64,
    /// Bytes sent to it.
    pub bytes_sent: u64,
    /// Messages that came from it.
    pub received: u64,
    /// Bytes that came from it.
    pub bytes_received: u64,
}

#[derive(Default)]
pub(super) struct Traffic {
    pub(super) connections: AtomicU64,
    pub(super) sent: AtomicU64,
    pub(super) lost: AtomicU64,
    pub(super) bytes_sent: AtomicU64,
    pub(super) received: AtomicU64,
    pub(super) bytes_received: AtomicU64,
}

impl Traffic {
    pub(super) fn counters(&self, is_connected: bool) -> PeerCounters {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        PeerCounters {
            is_connected,
            connections: read(&self.connections),
            sent: read(&self.sent),
            lost: read(&self.lost),
            bytes_sent: read(&self.bytes_sent),
            received: read(&self.received),
            bytes_received: read(&self.bytes_received),
        }
    }
}
