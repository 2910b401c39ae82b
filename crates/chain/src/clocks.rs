//! Whether the lease clock of a process goes on as those of its peers do
//! (docs/internals/protocol/failures.md, section 6).
//!
//! Leases assume clock *rates* within rho (FN-3). A virtual machine that is paused stops even the
//! clock that counts suspended time. So processes show each other their lease clocks, and one that
//! fell behind gives up its leases.
//!
//! A peer's *offset* is its clock less this one's. A frame takes time, so what it shows is at most
//! the true offset. The *best* is the greatest offset that was seen, less 2 rho for each second
//! since. It is never above the true one, while both rates are within rho.
//!
//! Invariants:
//! - (CK-1) the offsets of a peer are compared with the best that was known at least one lease
//!   before. So a stop since the ping of any lease that still holds counts in full.
//! - (CK-2) after an alarm a lease holds only if its ping was sent later, by this clock.
//! - (CK-3) a peer is compared with itself only: with the same incarnation, since whose clock had
//!   no alarm.
//!
//! - (CK-4) a peer that says that this process has no session saw more than a session pass.
//!
//! Deliberately absent: comparison of wall clocks, correction of a clock.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::config::{Incarnation, NodeId};
use crate::guard::{Guard, Guards};

/// rho: by how much a clock's rate may be wrong, in parts of a million.
pub const RHO_PPM: u64 = 1_000;
/// A process is behind a peer by this part of a session.
const BEHIND: u64 = 4;
/// Frames in the time of a session.
pub const FRAMES: u32 = 10;
/// For how long offsets are gathered before their drift is judged, in milliseconds.
const DRIFT_MS: u64 = 120_000;
/// The greatest reading of a clock, in milliseconds: 35,000 years.
const READING_MAX: u64 = 1 << 50;

/// What a process shows of its lease clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The incarnation of the process.
    pub incarnation: Incarnation,
    /// How often its clock fell behind in this incarnation, as far as it knows.
    pub stops: u64,
    /// What the clock shows, in milliseconds.
    pub clock_ms: u64,
}

/// What a frame of a peer gave away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alarm {
    /// This clock fell behind half of the peers by at least so many milliseconds: all leases are
    /// given up.
    Behind {
        /// In milliseconds.
        by_ms: u64,
    },
    /// It runs slower than those of half of the peers by so many parts of a million; faster, if
    /// this is negative.
    Drift {
        /// In parts of a million.
        ppm: i64,
    },
}

/// What is known of a peer's clock. Offsets are in microseconds.
#[derive(Clone, Debug)]
struct Peer {
    incarnation: Incarnation,
    stops: u64,
    heard_ms: u64,
    /// The best; that of at least one lease ago, with which it is compared; and the one between,
    /// which is the next to be that.
    best: i64,
    compared: i64,
    next: i64,
    /// The greatest offset in this time of gathering and in the one before.
    gathered: i64,
    before: Option<i64>,
    /// Whether it has said since that this process has no session.
    has_refused: bool,
}

/// The clocks of the peers, as one process saw them. Times are milliseconds of its lease clock.
#[derive(Clone, Debug)]
pub struct Clocks {
    session_ms: u64,
    peers: BTreeMap<NodeId, Peer>,
    turned_ms: u64,
    gathering_ms: u64,
    /// How long the gathering before this one lasted.
    gathered_for_ms: u64,
    alarm_ms: Option<u64>,
    stops: u64,
    guards: Guards,
}

impl Clocks {
    /// Those of a process whose sessions last so long (S).
    pub fn new(session: Duration) -> Self {
        Clocks {
            session_ms: session.as_millis() as u64,
            peers: BTreeMap::new(),
            turned_ms: 0,
            gathering_ms: 0,
            gathered_for_ms: 0,
            alarm_ms: None,
            stops: 0,
            guards: Guards::default(),
        }
    }

    /// The same without some guards.
    #[cfg(feature = "mutants")]
    pub fn with_guards(mut self, guards: Guards) -> Self {
        self.guards = guards;
        self
    }

    /// How often a process shows its clock to each peer.
    pub fn pace(session: Duration) -> Duration {
        session / FRAMES
    }

    /// What this incarnation of the process shows at `now_ms`.
    pub fn frame(&self, incarnation: Incarnation, now_ms: u64) -> Frame {
        Frame {
            incarnation,
            stops: self.stops,
            clock_ms: now_ms,
        }
    }

    /// A frame of a peer came at `now_ms`. At most one alarm; `Behind` goes first.
    pub fn on_frame(&mut self, now_ms: u64, node: NodeId, frame: Frame) -> Option<Alarm> {
        if READING_MAX < frame.clock_ms.max(now_ms) {
            return None;
        }
        self.turn(now_ms);
        let offset = micros(frame.clock_ms) - micros(now_ms);
        let known = self.peers.get_mut(&node);
        match known
            .filter(|peer| (peer.incarnation, peer.stops) == (frame.incarnation, frame.stops))
        {
            Some(peer) => peer.see(now_ms, offset),
            None => {
                self.peers.insert(node, Peer::new(frame, now_ms, offset));
            }
        }
        self.behind(now_ms).or_else(|| self.drift(now_ms))
    }

    /// CK-4: at `now_ms` a peer refused a connection, since this process has no session.
    pub fn on_refused(&mut self, now_ms: u64, node: NodeId) -> Option<Alarm> {
        self.turn(now_ms);
        let peer = self.peers.get_mut(&node)?;
        (peer.has_refused, peer.heard_ms) = (true, now_ms);
        self.behind(now_ms)
    }

    /// Peers that are none any more do not count.
    pub fn retain(&mut self, is_peer: impl Fn(NodeId) -> bool) {
        self.peers.retain(|node, _| is_peer(*node));
    }

    /// CK-2: whether a lease holds whose ping was sent at `sent_ms`, as far as clocks go.
    pub fn holds(&self, sent_ms: u64) -> bool {
        let holds = self.alarm_ms.is_none_or(|alarm_ms| alarm_ms < sent_ms);
        holds || !self.guards.has(Guard::LeaseEndsAtAlarm)
    }

    /// The peers whose clocks are known: the incarnation of each, and how often its clock fell
    /// behind.
    pub fn heard(&self) -> impl Iterator<Item = (NodeId, Incarnation, u64)> {
        let peers = self.peers.iter();
        peers.map(|(node, peer)| (*node, peer.incarnation, peer.stops))
    }

    /// CK-1: what was the best a lease ago is compared with from now on.
    fn turn(&mut self, now_ms: u64) {
        if now_ms < self.turned_ms + self.session_ms / 2 {
            return;
        }
        self.turned_ms = now_ms;
        for peer in self.peers.values_mut() {
            (peer.compared, peer.next) = (peer.next, peer.best);
        }
    }

    /// Whether it fell behind half of the peers that were heard of within a session.
    fn behind(&mut self, now_ms: u64) -> Option<Alarm> {
        let heard = |peer: &&Peer| now_ms < peer.heard_ms + self.session_ms.max(1);
        let limit = micros(self.session_ms / BEHIND);
        let peers = self.peers.values().filter(heard).count();
        let ahead = self.peers.values().filter(heard);
        let ahead = ahead.map(|peer| match peer.has_refused {
            true => limit.max(peer.gained()),
            false => peer.gained(),
        });
        let ahead: Vec<i64> = ahead.filter(|gained| limit <= *gained).collect();
        if ahead.is_empty() || 2 * ahead.len() < peers {
            return None;
        }
        self.alarm_ms = Some(now_ms);
        self.stops += 1;
        self.gathering_ms = now_ms;
        for peer in self.peers.values_mut() {
            (peer.compared, peer.next) = (peer.best, peer.best);
            (peer.gathered, peer.before) = (peer.best, None);
            peer.has_refused = false;
        }
        let by_us = ahead.into_iter().min().unwrap_or_default();
        let by_ms = by_us.unsigned_abs() / 1_000;
        Some(Alarm::Behind { by_ms })
    }

    /// Whether it drifts against half of the peers that were gathered of twice.
    fn drift(&mut self, now_ms: u64) -> Option<Alarm> {
        let time_ms = now_ms.saturating_sub(self.gathering_ms);
        if time_ms < DRIFT_MS {
            return None;
        }
        // Of a rise the greatest offsets are one gathering apart at the end, of a fall at the
        // beginning.
        let apart_ms = time_ms.max(self.gathered_for_ms);
        (self.gathering_ms, self.gathered_for_ms) = (now_ms, time_ms);
        let rate = |risen_us: i64| risen_us.saturating_mul(1_000) / apart_ms.cast_signed();
        let rates = self.peers.values().filter_map(|peer| {
            let risen = peer.gathered - peer.before?;
            Some(rate(risen))
        });
        let mut rates: Vec<i64> = rates.collect();
        for peer in self.peers.values_mut() {
            peer.before = Some(peer.gathered);
            peer.gathered = peer.best;
        }
        rates.sort_unstable();
        // With half of the peers beyond the limit on one side the one in the middle is.
        let limit = (RHO_PPM / 2).cast_signed();
        let (low, high) = match rates.len() {
            0 => return None,
            count => (rates[(count - 1) / 2], rates[count / 2]),
        };
        let ppm = match low < -limit {
            true => low,
            false => high,
        };
        (limit < ppm.abs()).then_some(Alarm::Drift { ppm })
    }
}

impl Peer {
    fn new(frame: Frame, now_ms: u64, offset: i64) -> Self {
        Peer {
            incarnation: frame.incarnation,
            stops: frame.stops,
            heard_ms: now_ms,
            best: offset,
            compared: offset,
            next: offset,
            gathered: offset,
            before: None,
            has_refused: false,
        }
    }

    /// By how much its clock gained since a lease ago.
    fn gained(&self) -> i64 {
        self.best - self.compared
    }

    fn see(&mut self, now_ms: u64, offset: i64) {
        // Two clocks that are wrong in opposite directions part by twice rho.
        let since_ms = now_ms.saturating_sub(self.heard_ms);
        let parted = (since_ms.saturating_mul(2 * RHO_PPM).div_ceil(1_000)).cast_signed();
        (self.heard_ms, self.has_refused) = (now_ms, false);
        self.best = offset.max(self.best - parted);
        self.compared -= parted;
        self.next -= parted;
        self.gathered = self.gathered.max(offset);
    }
}

/// Milliseconds that are at most [`READING_MAX`] or a session, in microseconds.
fn micros(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX / 1_000) * 1_000
}

#[cfg(test)]
mod tests;
