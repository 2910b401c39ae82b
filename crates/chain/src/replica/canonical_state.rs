//! What of a replica can still make a difference to what it does: by this the exhaustive model
//! tells states apart (docs/internals/testing.md).
//!
//! Left out is what is derived from the rest at the end of a step that flushed. Also left out are
//! counts for people, and the numbers of records that are durable. Also left out is what takes a
//! day (`client_expiry`), and what only inputs look at that [`PossibleInputs`] rules out. Two
//! replicas that hash alike answer all other inputs alike.
//!
//! Deliberately absent: mutants. A guard that is removed may make what is left out matter. The
//! model then searches fewer states than there are, and what it finds is still there.

use std::hash::{Hash, Hasher};

use super::{Phase, Replica};
use crate::entry::RequestId;

/// What may still come to a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PossibleInputs {
    /// Eventual writes.
    pub writes: bool,
    /// Reads with a quorum, and barriers.
    pub claims: bool,
    /// Requests that arrive again.
    pub retries: bool,
    /// Time: ticks, leases' ends, bounds in milliseconds.
    pub time: bool,
}

impl Replica {
    /// Hashes what can still make a difference, if no more than `ahead` comes.
    pub fn hash_future<H: Hasher>(&self, ahead: &PossibleInputs, state: &mut H) {
        (self.me, self.phase, self.goes_on).hash(state);
        (&self.configuration, self.lease_until).hash(state);
        self.log.hash_future(ahead, self.persisted, state);
        (self.persisted, self.commit, self.applying).hash(state);
        let inherits = self.phase == Phase::Ready && self.commit < self.inherited;
        inherits.then_some(self.inherited).hash(state);
        self.early.hash(state);
        let joining = self.adopted().and_then(|adopted| adopted.syncing());
        self.writes.hash_future(ahead, self.commit, joining, state);
        self.reads.hash(state);
        self.joining.hash(state);
        let is_settled = |name: &RequestId| self.log.named(name).is_some();
        self.eventual.hash_future(ahead, is_settled, state);
        let size = self.configuration.as_ref().map_or(0, |it| it.size());
        self.eventual.hash_exchange(ahead, size, state);
        if ahead.time {
            (&self.collect, &self.digests, &self.slowness, self.lsn).hash(state);
        }
    }
}
