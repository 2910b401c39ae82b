//! The hybrid clock of a member's stamps (docs/internals/protocol/semantics.md, section 3).
//!
//! Invariants:
//! - HYBRID-1 no two stamps of one disk have the same clock and counter.
//! - HYBRID-2 I18: a stamp leaves the member when a bound at or above its clock is durable. After a
//!   restart the clock goes on from that bound.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

use crate::config::NodeId;
use crate::record::Lsn;
use crate::replica::Now;

/// See the module's description.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Clock {
    /// The clock and counter given last.
    last: (u64, u32),
    /// The bound that is durable.
    durable: u64,
    /// A greater bound on its way to the disk, with its record.
    reserved: Option<(Lsn, u64)>,
    /// What each peer's clock showed at the start of this member's monotonic clock. It is the
    /// greatest seen, since a message that was delayed makes its sender look late.
    peers: BTreeMap<NodeId, i128>,
}

impl Clock {
    /// A clock that has been used up to `bound` at most.
    pub(super) fn after(bound: u64) -> Self {
        Clock {
            last: (bound, u32::MAX),
            durable: bound,
            ..Clock::default()
        }
    }

    /// The clock and counter of a new stamp, above `above`.
    pub(super) fn next(&mut self, now: Now, above: u64) -> (u64, u32) {
        let clock = now.wall.max(above.saturating_add(1)).max(1);
        self.last = match self.last {
            (last, counter) if clock <= last => match counter.checked_add(1) {
                Some(counter) => (last, counter),
                None => (last + 1, 0),
            },
            _ => (clock, 0),
        };
        self.last
    }

    /// A bound to make durable, if less than half of `reserve` is left of the one there is.
    pub(super) fn bound_due(&self, reserve: u64) -> Option<u64> {
        let bound = self.reserved.map_or(self.durable, |(_, bound)| bound);
        let is_short = bound < self.last.0.saturating_add(reserve / 2);
        is_short.then(|| self.last.0.saturating_add(reserve))
    }

    /// The bound is on its way to the disk.
    pub(super) fn reserve(&mut self, bound: u64, lsn: Lsn) {
        self.reserved = Some((lsn, bound));
    }

    /// Records up to `lsn` are durable.
    pub(super) fn on_persisted(&mut self, lsn: Lsn) {
        if let Some((_, bound)) = self.reserved.take_if(|(reserved, _)| *reserved <= lsn) {
            self.durable = bound;
        }
    }

    /// Whether a stamp with this clock may leave the member (I18).
    pub(super) fn covers(&self, clock: u64) -> bool {
        clock <= self.durable
    }

    /// A peer said what its clock shows.
    pub(super) fn on_peer(&mut self, peer: NodeId, clock: u64, now: Now) {
        let offset = i128::from(clock) - i128::from(now.monotonic);
        let known = self.peers.entry(peer).or_insert(offset);
        *known = offset.max(*known);
    }

    /// See [`PossibleInputs`](crate::replica::PossibleInputs): peers whose clocks are all equal say
    /// nothing.
    pub(super) fn hash_future<H: Hasher>(&self, state: &mut H) {
        (self.last, self.durable, self.reserved).hash(state);
        let mut offsets = self.peers.values();
        let first = offsets.next();
        if offsets.any(|offset| Some(offset) != first) {
            self.peers.hash(state);
        }
    }

    /// Peers' clocks are compared anew in every epoch.
    pub(super) fn forget_peers(&mut self) {
        self.peers.clear();
    }

    /// Whether it differs from the clocks of most peers by more than `drift_max`. Of two members it
    /// is unknown whose is wrong, and neither stamps.
    pub(super) fn drifts(&self, now: Now, drift_max: u64) -> bool {
        let ours = i128::from(now.wall) - i128::from(now.monotonic);
        let differs = |offset: &&i128| i128::from(drift_max) < (ours - **offset).abs();
        self.peers.len() < 2 * self.peers.values().filter(differs).count()
    }
}

#[cfg(test)]
mod tests;
