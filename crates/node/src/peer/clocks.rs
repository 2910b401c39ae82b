//! The lease clocks of other processes, as this one saw them ([`Clocks`],
//! docs/internals/protocol/failures.md, section 6).

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fader_chain::clocks::{Alarm, Clocks, Frame};
use fader_chain::{Incarnation, NodeId};
use parking_lot::Mutex;

use crate::clock;

/// What all members of a process share.
#[derive(Debug)]
pub(crate) struct PeerClocks {
    clocks: Mutex<Clocks>,
    /// How often leases were given up.
    alarms: AtomicU64,
    /// How often each peer is shown this one.
    pace: Duration,
}

impl PeerClocks {
    /// Those of a process whose sessions last so long.
    pub(crate) fn new(session: Duration) -> Self {
        PeerClocks {
            clocks: Mutex::new(Clocks::new(session)),
            alarms: AtomicU64::new(0),
            pace: Clocks::pace(session),
        }
    }

    /// How often each peer is shown the clock.
    pub(super) fn pace(&self) -> Duration {
        self.pace
    }

    /// What this incarnation shows now.
    pub(super) fn frame(&self, incarnation: Incarnation) -> Frame {
        self.clocks.lock().frame(incarnation, clock::monotonic_ms())
    }

    /// A process of another node showed its clock; this one's shows `now_ms`.
    pub(crate) fn on_frame(&self, now_ms: u64, node: NodeId, frame: Frame) {
        self.heed(|clocks| clocks.on_frame(now_ms, node, frame));
    }

    /// Another node refused a connection, since it knows no session of this one.
    pub(super) fn on_refused(&self, node: NodeId) {
        let now_ms = clock::monotonic_ms();
        self.heed(|clocks| clocks.on_refused(now_ms, node));
    }

    fn heed(&self, look: impl FnOnce(&mut Clocks) -> Option<Alarm>) {
        let mut clocks = self.clocks.lock();
        match look(&mut clocks) {
            None => {}
            Some(Alarm::Behind { by_ms }) => {
                self.alarms.fetch_add(1, Ordering::Release);
                drop(clocks);
                tracing::warn!(
                    by_ms,
                    "the clock by which leases end stood still, as in a virtual machine that was \
                     paused: leases are given up until the next ping"
                );
            }
            Some(Alarm::Drift { ppm }) => {
                drop(clocks);
                tracing::warn!(
                    ppm,
                    "the clock by which leases end runs slower than those of half of the nodes by \
                     so many parts of a million (faster, if negative): leases bear 1000"
                );
            }
        }
    }

    /// These are the nodes, from now on.
    pub(super) fn retain(&self, is_peer: impl Fn(NodeId) -> bool) {
        self.clocks.lock().retain(is_peer);
    }

    /// The peers whose clocks are known, with their incarnations and how often they fell behind.
    #[cfg(test)]
    pub(super) fn heard(&self) -> Vec<(NodeId, Incarnation, u64)> {
        self.clocks.lock().heard().collect()
    }

    /// How often leases were given up.
    pub(crate) fn alarms(&self) -> u64 {
        self.alarms.load(Ordering::Acquire)
    }

    /// Whether a lease holds whose ping was sent then.
    pub(crate) fn holds(&self, sent_ms: u64) -> bool {
        self.clocks.lock().holds(sent_ms)
    }
}
