//! The session that a process keeps for all its members: one znode, one request at a time.
//!
//! ```text
//!        Create            Write: acknowledged
//! none ─────────▶ at v ◀──────────────────────┐
//!   ▲               │ ─────────────────────▶ at v + 1
//!   │ Delete,       │ answer lost, or another version
//!   │ Missing       ▼
//!   └─────────── unknown ── Find ──▶ at the version found
//! ```
//!
//! Invariants:
//! - (ZNODE-7) an incarnation is in every write of the session that is acknowledged after it was
//!   opened, until it is closed. What is acknowledged holds for all incarnations that are open.
//! - (ZNODE-8) with its session all incarnations of a process are over. A session that was ended is
//!   never written again, for each name is used for one `Create`.
//! - (ZNODE-10) a write and a removal name the version that they follow. Where an answer was lost,
//!   or the version was another one, it is found before the next. Of the writes that name one
//!   version one takes effect, so none of them does after a later one was acknowledged.
//!
//! A version that is found gives no lease: what it says is said again.
//!
//! A process that is to be given members has a session without one, too: it stays.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{IncarnationRecord, SessionRecord};
use crate::config::{ChainId, Incarnation};
use crate::progress::Progress;
use crate::replica::{Identity, Report};

/// A ping of one incarnation counts for the others of its process for this part of a session.
const SHARED: u32 = 20;

/// What a process asks of the coordinator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Makes a znode, under a name that was never used.
    Create(SessionRecord),
    /// Replaces what its znode says, if it is of this version.
    Write {
        /// What it says then.
        record: SessionRecord,
        /// The version that it replaces.
        version: i32,
    },
    /// Removes its znode, if it is of this version.
    Delete {
        /// Whose.
        session: Identity,
        /// The version.
        version: i32,
    },
    /// Reads the version of its znode, after a `sync`.
    Find {
        /// Whose.
        session: Identity,
    },
}

/// What came of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It was carried out.
    Done,
    /// The version is another one.
    Stale,
    /// There is no such znode.
    Missing,
    /// There is one already.
    Exists,
    /// The version that was found, if there is such a znode.
    Found(Option<i32>),
    /// No answer came: it was carried out, or will be, or never.
    Lost,
}

/// A change of what the session says, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Change(u64);

/// What an incarnation's ping came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ping {
    /// The incarnation is over.
    Over,
    /// A write that has it was acknowledged; it was sent at this time, in milliseconds.
    At(u64),
    /// Something is to be written first.
    Due,
}

/// What is known of an incarnation that this process keeps.
#[derive(Clone, Debug)]
struct Known {
    /// The change with which it was opened, or that it reported last.
    changed: Change,
    /// How far its disk's znode says that the disk came.
    noted: Progress,
    /// When the write was sent whose acknowledgement it was told last.
    told_ms: u64,
    is_closing: bool,
}

/// The session's znode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Znode {
    /// There is none.
    None,
    /// It is of this version, or a late write will have changed it.
    At(i32),
    /// Its version is to be found; of one whose `Create` was not answered, whether it is there.
    Unknown { is_new: bool },
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Create,
    Write(i32),
    Delete,
    Find { is_new: bool },
}

/// A request that was not answered yet.
#[derive(Clone, Debug)]
struct UnderWay {
    kind: Kind,
    change: Change,
    sent_ms: u64,
}

/// The process, its session, and the incarnations in it.
#[derive(Clone, Debug)]
pub struct Keeper {
    /// For how long a ping of one incarnation is that of others, in milliseconds.
    shared_ms: u64,
    record: SessionRecord,
    known: BTreeMap<Identity, Known>,
    znode: Znode,
    under_way: Option<UnderWay>,
    /// The newest change of what is to be said, and the newest that was acknowledged.
    change: Change,
    acknowledged: Change,
    /// When the last write that was acknowledged was sent.
    pinged_ms: u64,
    /// Whether it has a session also without an incarnation.
    stays: bool,
}

impl Keeper {
    /// That of a process that has no session yet; sessions last so long.
    pub fn new(record: SessionRecord, session: Duration) -> Self {
        Keeper {
            shared_ms: (session / SHARED).as_millis() as u64,
            record,
            known: BTreeMap::new(),
            znode: Znode::None,
            under_way: None,
            change: Change::default(),
            acknowledged: Change::default(),
            pinged_ms: 0,
            stays: false,
        }
    }

    /// From now on the process has a session also without an incarnation, or only with one. The
    /// change that says so.
    pub fn stay(&mut self, stays: bool) -> Change {
        self.stays = stays;
        self.changes()
    }

    /// The change that the next write without an incarnation says: a ping of the process alone.
    /// None is due while an incarnation pings, or where the process does not stay.
    pub fn ping_alone(&mut self) -> Option<Change> {
        (self.stays && self.known.is_empty()).then(|| self.changes())
    }

    /// What the next write says.
    pub fn record(&self) -> &SessionRecord {
        &self.record
    }

    /// An incarnation begins, on a disk whose znode says this. It has a session with its first
    /// ping.
    pub fn open(&mut self, chain: ChainId, identity: Identity, noted: Progress) {
        self.record.incarnations.push(IncarnationRecord {
            chain,
            identity,
            reports: Vec::new(),
        });
        let known = Known {
            changed: self.changes(),
            noted,
            told_ms: 0,
            is_closing: false,
        };
        self.known.insert(identity, known);
    }

    /// An incarnation answers no request any more: its disk's progress is noted before the
    /// incarnation is removed. Nothing if it is over.
    pub fn close(&mut self, identity: Identity) -> Option<Progress> {
        let known = self.known.get_mut(&identity).filter(|it| !it.is_closing)?;
        known.is_closing = true;
        let mut incarnations = self.record.incarnations.iter();
        let incarnation = incarnations.find(|incarnation| incarnation.identity == identity);
        Some(
            incarnation
                .map(IncarnationRecord::progress)
                .unwrap_or_default(),
        )
    }

    /// An incarnation is in no write from now on; with the last one the session ends.
    pub fn leave_out(&mut self, identity: Identity) -> Change {
        self.record
            .incarnations
            .retain(|incarnation| incarnation.identity != identity);
        self.known.remove(&identity);
        self.changes()
    }

    /// Takes what an incarnation reports. The change that is to be written at once; none if the
    /// next ping may say it, or the incarnation is over.
    pub fn report(&mut self, identity: Identity, report: Report) -> Option<Change> {
        let change = self.changes();
        let known = self.known.get_mut(&identity);
        known.filter(|it| !it.is_closing)?.changed = change;
        let mut incarnations = self.record.incarnations.iter_mut();
        let incarnation = incarnations.find(|incarnation| incarnation.identity == identity)?;
        note(&mut incarnation.reports, report);
        (!matches!(report, Report::Floor { .. })).then_some(change)
    }

    /// What the ping of an incarnation comes to that asked at `asked_ms`. A write that was sent not
    /// long before counts, once, if it says all that the incarnation reported.
    pub fn ping(&mut self, identity: Identity, asked_ms: u64) -> Ping {
        let known = self.known.get_mut(&identity);
        let Some(known) = known.filter(|it| !it.is_closing) else {
            return Ping::Over;
        };
        let is_in = known.changed <= self.acknowledged;
        let is_fresh = asked_ms < self.pinged_ms + self.shared_ms.max(1);
        let is_new = known.told_ms < self.pinged_ms;
        if !(is_in && is_fresh && is_new) {
            return Ping::Due;
        }
        known.told_ms = self.pinged_ms;
        Ping::At(self.pinged_ms)
    }

    /// Whether what was said with this change is acknowledged, or the session has ended.
    pub fn is_acknowledged(&self, change: Change) -> bool {
        let has_ended = !self.has_session() && self.znode == Znode::None;
        change <= self.acknowledged || (has_ended && self.under_way.is_none())
    }

    /// The next request on the way to an acknowledged write of what is to be said, or to the end of
    /// the session. There is none while one is under way. `fresh` names a session that never was.
    pub fn next(&mut self, now_ms: u64, fresh: Incarnation) -> Option<Request> {
        if self.under_way.is_some() {
            return None;
        }
        let session = self.record.identity;
        let is_empty = !self.has_session();
        let (kind, request) = match self.znode {
            Znode::None if is_empty => return None,
            Znode::None => {
                self.record.identity.incarnation = fresh;
                (Kind::Create, Request::Create(self.record.clone()))
            }
            Znode::Unknown { is_new } => (Kind::Find { is_new }, Request::Find { session }),
            Znode::At(version) if is_empty => (Kind::Delete, Request::Delete { session, version }),
            Znode::At(version) => {
                let record = self.record.clone();
                (Kind::Write(version), Request::Write { record, version })
            }
        };
        self.under_way = Some(UnderWay {
            kind,
            change: self.change,
            sent_ms: now_ms,
        });
        Some(request)
    }

    /// What came of the request that is under way.
    pub fn on_answer(&mut self, answer: Answer) {
        let Some(it) = self.under_way.take() else {
            return;
        };
        self.znode = match (it.kind, answer) {
            (Kind::Create, Answer::Done) => {
                self.on_acknowledged(&it);
                Znode::At(0)
            }
            (Kind::Write(version), Answer::Done) => {
                self.on_acknowledged(&it);
                Znode::At(version.wrapping_add(1))
            }
            // Another process has the name: another one is tried.
            (Kind::Create, Answer::Exists) => Znode::None,
            (Kind::Create, _) => Znode::Unknown { is_new: true },
            (Kind::Find { .. }, Answer::Found(Some(version))) => Znode::At(version),
            // It may still come. No process pings it, and its name is not used again.
            (Kind::Find { is_new: true }, Answer::Found(None)) => Znode::None,
            (Kind::Find { is_new: false }, Answer::Found(None))
            | (Kind::Write(_), Answer::Missing) => {
                self.record.incarnations.clear();
                self.known.clear();
                Znode::None
            }
            (Kind::Find { is_new }, _) => Znode::Unknown { is_new },
            (Kind::Write(_), _) | (Kind::Delete, Answer::Stale) => Znode::Unknown { is_new: false },
            // What is left of it ends when its time is over.
            (Kind::Delete, _) => Znode::None,
        };
    }

    /// The disks whose znodes lag behind what was adopted on them. Within an epoch the session says
    /// how far they came, and the process that ends it or an incarnation in it notes that.
    pub fn unnoted(&self) -> Vec<(Identity, Progress)> {
        let incarnations = self.record.incarnations.iter();
        let reported =
            incarnations.map(|incarnation| (incarnation.identity, incarnation.progress()));
        let lags = |(identity, progress): &(Identity, Progress)| {
            let known = self.known.get(identity);
            known.is_some_and(|known| known.noted.epoch < progress.epoch)
        };
        reported.filter(lags).collect()
    }

    /// The znode of this incarnation's disk says that.
    pub fn on_noted(&mut self, identity: Identity, progress: Progress) {
        if let Some(known) = self.known.get_mut(&identity) {
            known.noted = known.noted.max(progress);
        }
    }

    /// Whether it is to have a session.
    fn has_session(&self) -> bool {
        self.stays || !self.known.is_empty()
    }

    fn on_acknowledged(&mut self, it: &UnderWay) {
        self.acknowledged = it.change;
        self.pinged_ms = it.sent_ms;
    }

    fn changes(&mut self) -> Change {
        self.change.0 += 1;
        self.change
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
