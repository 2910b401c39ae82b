//! The session that a process keeps for all its members: one znode, one ping.
//!
//! Invariants:
//! - Z7 a life is in every write of the session that is acknowledged after it was opened, until it
//!   is closed: what is acknowledged holds for all lives that are open.
//! - Z8 with its session all lives of a process are over; a session that was ended is never written
//!   again.

use std::collections::BTreeMap;
use std::time::Duration;

use fader_chain::{ChainId, Identity, Progress, Report};

use super::record::{LifeRecord, SessionRecord};

/// What is known of a life that this process keeps.
struct Known {
    /// How far its disk's znode says that the disk came.
    noted: Progress,
    /// When the write was sent whose acknowledgement it was told last.
    told_ms: u64,
}

/// The process, its session, and the lives in it.
pub(super) struct Lives {
    pub(super) record: SessionRecord,
    /// Whether the session has a znode.
    pub(super) has_session: bool,
    known: BTreeMap<Identity, Known>,
    /// When the last write that was acknowledged was sent.
    pinged_ms: u64,
}

impl Lives {
    /// Those of a process that has none yet.
    pub(super) fn new(record: SessionRecord) -> Self {
        Lives {
            record,
            has_session: false,
            known: BTreeMap::new(),
            pinged_ms: 0,
        }
    }

    /// A life begins, on a disk whose znode says this.
    pub(super) fn begin(&mut self, chain: ChainId, identity: Identity, noted: Progress) {
        self.record.lives.push(LifeRecord {
            chain,
            identity,
            reports: Vec::new(),
        });
        let told_ms = 0;
        self.known.insert(identity, Known { noted, told_ms });
    }

    /// A life is over. Says whether it was there.
    pub(super) fn end(&mut self, identity: Identity) -> bool {
        self.record.lives.retain(|life| life.identity != identity);
        self.known.remove(&identity).is_some()
    }

    /// The session was ended: so are all lives (Z8).
    pub(super) fn end_all(&mut self) {
        self.record.lives.clear();
        self.known.clear();
        self.has_session = false;
    }

    pub(super) fn has(&self, identity: Identity) -> bool {
        self.known.contains_key(&identity)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// What this life reports. Says whether it lives.
    pub(super) fn note(&mut self, identity: Identity, report: Report) -> bool {
        let mut lives = self.record.lives.iter_mut();
        match lives.find(|life| life.identity == identity) {
            Some(life) => {
                note(&mut life.reports, report);
                true
            }
            None => false,
        }
    }

    /// The disks whose znodes lag behind what was adopted on them. Within an epoch the session says
    /// how far they came, and whoever ends it or a life in it notes that.
    pub(super) fn unnoted(&self) -> Vec<(Identity, Progress)> {
        let lives = self.record.lives.iter();
        let reported = lives.map(|life| (life.identity, life.progress()));
        let lags = |(identity, progress): &(Identity, Progress)| {
            let known = self.known.get(identity);
            known.is_some_and(|known| known.noted.epoch < progress.epoch)
        };
        reported.filter(lags).collect()
    }

    /// How far a life reported that its disk came.
    pub(super) fn progress(&self, identity: Identity) -> Progress {
        let mut lives = self.record.lives.iter();
        let life = lives.find(|life| life.identity == identity);
        life.map(LifeRecord::progress).unwrap_or_default()
    }

    /// The znode of this life's disk says that.
    pub(super) fn on_noted(&mut self, identity: Identity, progress: Progress) {
        if let Some(known) = self.known.get_mut(&identity) {
            known.noted = progress;
        }
    }

    /// The session was written, and that was acknowledged.
    pub(super) fn on_written(&mut self, sent_ms: u64) {
        self.has_session = true;
        self.pinged_ms = sent_ms;
    }

    /// The time of a ping that this life has not been told of yet, if others pinged not long ago:
    /// it is theirs too.
    pub(super) fn others_ping(
        &mut self,
        identity: Identity,
        now_ms: u64,
        age: Duration,
    ) -> Option<u64> {
        let pinged_ms = self.pinged_ms;
        let known = self.known.get_mut(&identity)?;
        let is_fresh = u128::from(now_ms - pinged_ms) < age.as_millis();
        let is_new = known.told_ms < pinged_ms;
        (is_fresh && is_new && self.has_session).then(|| {
            known.told_ms = pinged_ms;
            pinged_ms
        })
    }

    /// The time of the ping that this life has just sent.
    pub(super) fn own_ping(&mut self, identity: Identity) -> u64 {
        if let Some(known) = self.known.get_mut(&identity) {
            known.told_ms = self.pinged_ms;
        }
        self.pinged_ms
    }
}

/// Takes a report in: the newest epoch's, the last of each kind.
fn note(reports: &mut Vec<Report>, report: Report) {
    let epoch = report.epoch();
    if reports.iter().any(|other| epoch < other.epoch()) {
        return;
    }
    let kind = std::mem::discriminant(&report);
    reports.retain(|other| other.epoch() == epoch && std::mem::discriminant(other) != kind);
    reports.push(report);
}

#[cfg(test)]
mod tests;
