//! What happened in one run: what clients asked and were told, and, at no cost to the run, what the
//! members did.
//!
//! The world writes a history while it runs; checkers read it when the run is over. Clients'
//! [`Call`]s are all that the black-box checks look at. [`Event`]s are what no client can see.
//!
//! Invariants:
//! - moments are distinct and grow. `step` counts the events of the run, so "acknowledged
//!   before it was invoked" is never a matter of two equal times.
//! - an entry is recorded each time a member learns that it is committed, in order. What a
//!   state transfer gives a member is not.
//!
//! Deliberately absent: messages, and everything a check can derive.

pub(crate) mod display;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use fader_chain::{Configuration, ElementOp, Entry, EntryId, NodeId, Register, RequestId, Stamp};
pub use fader_history::Moment;

/// The run. An operator who gives up what was acknowledged (AL-4) ends it: no check can tell what
/// is lost by choice from what is lost.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// What clients asked, in the order of invocation.
    pub calls: Vec<Call>,
    /// What members did, in order.
    pub events: Vec<Event>,
    /// Clocks' rates differ from real time by at most this many parts in a million (I7).
    pub drift_ppm: u64,
    /// Every member when nothing was left to happen; empty if the run was cut off before.
    pub rest: Vec<MemberState>,
}

/// One request of a client. A retry is another call with the same name.
#[derive(Clone, Debug)]
pub struct Call {
    /// Who asked; a client may have several calls under way.
    pub client: u32,
    /// The session whose token the call carried and whose token the reply renewed.
    pub session: Option<u32>,
    /// The request's name; write `k` of an eventual batch is its part `k`.
    pub name: Option<RequestId>,
    /// The name that it was sent under where that is another request's: `name` is none then.
    pub borrowed: Option<RequestId>,
    /// Who was asked.
    pub node: NodeId,
    /// When it was sent.
    pub invoked: Moment,
    /// At which level.
    pub level: Level,
    /// What was asked.
    pub request: Request,
    /// When it ended, and how; `None` if the client still waits.
    pub end: Option<(Moment, Outcome)>,
}

/// The level of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Linearizable.
    Strong,
    /// Linearizable, and above every eventual write acknowledged before (G8).
    Barrier,
    /// Any member.
    Eventual {
        /// R or W.
        quorum: usize,
        /// A write that may be accepted without a lease (G7); a read that claims no quorum
        /// (ER-2).
        sloppy: bool,
    },
    /// A read at any member that proves how stale it is at most.
    Bounded(Bound),
}

/// How stale a bounded read may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// `bound=T ms`, in microseconds.
    Micros(u64),
    /// `bound=K v`.
    Versions(usize),
}

/// What a call asks: if all conditions hold, read and then write, as one. A plain read has neither
/// conditions nor writes; a plain write has writes only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Registers and what must hold of them.
    pub conditions: Vec<(Bytes, Condition)>,
    /// Registers to show.
    pub reads: Vec<Bytes>,
    /// What to change; at most one write per register.
    pub writes: Vec<Write>,
}

/// What a conditional operation compares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The register shows something.
    Exists,
    /// The register shows nothing.
    Absent,
    /// The group shows the value.
    Has {
        /// The group.
        group: Bytes,
        /// The value.
        value: Bytes,
    },
    /// The register's newest change is this entry.
    Version(EntryId),
}

/// What a call does to one register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// The register.
    pub key: Bytes,
    /// In the order of the request.
    pub ops: Vec<ElementOp>,
}

/// How a call ended.
pub type Outcome = fader_history::Outcome<Reply, Refusal>;

/// Why a call was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Nothing was done, now or later.
    Said(&'static str),
    /// A read ended because eventual operations that its token names are lost (TRACE-37).
    Lost(Vec<RequestId>),
}

/// What a client was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// To a strong write, a conditional operation or a mini-transaction: its entry is committed.
    Decided {
        /// The entry.
        entry: EntryId,
        /// The service's answer, as the entry keeps it.
        result: Bytes,
    },
    /// To a read of any level.
    Shown {
        /// The epoch it ran in.
        epoch: u64,
        /// All entries up to this one are in what is shown. A strong read has exactly these, others
        /// also what overlays and other members add.
        commit: EntryId,
        /// The safe point in force: what is absent has this stamp (GC-6). In a `strong` collection,
        /// where no mark is kept, it is `commit`.
        safe_point: EntryId,
        /// In the order of the request.
        registers: Vec<Shown>,
    },
    /// To an eventual write.
    Accepted {
        /// The stamp of each write, in the order of the request.
        stamps: Vec<Stamp>,
        /// Acknowledged under a live lease; otherwise `detached`.
        attached: bool,
        /// The status of each write, if the client asked for it.
        statuses: Vec<WriteStatus>,
    },
}

/// One register as a read showed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The register.
    pub key: Bytes,
    /// Its state; without anything in it if it is absent.
    pub register: Register,
    /// Whether an unsettled element decided what is shown.
    pub tentative: bool,
}

/// How an eventual operation was settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteStatus {
    /// At least one element entered the chain.
    Applied,
    /// All elements met greater stamps.
    Superseded,
    /// A limit forbade it as a whole.
    Refused,
    /// Its collection has closed for eventual writers since it was accepted.
    Gone,
}

/// Something that a member, a disk or the coordinator did.
#[derive(Clone, Debug)]
pub struct Event {
    /// When.
    pub at: Moment,
    /// What.
    pub fact: Fact,
}

/// What an [`Event`] says.
#[derive(Clone, Debug)]
pub enum Fact {
    /// A member's commit id passed this entry.
    Committed {
        /// The member.
        node: NodeId,
        /// The entry.
        entry: Arc<Entry>,
    },
    /// A member stamped an attempt of an eventual write (EV-2). A retry that found its name is not
    /// stamped again.
    Stamped(Stamping),
    /// An attempt is durable at a member, the stamping member included (EV-3). That is when it was
    /// synced, or when a member that starts finds it on its disk.
    Held {
        /// The member.
        node: NodeId,
        /// The operation.
        name: RequestId,
    },
    /// A returning member forgot an operation that it held (GC-5).
    Forgotten {
        /// The member.
        node: NodeId,
        /// The operation.
        name: RequestId,
    },
    /// A member gave an eventual write its acknowledgement.
    Acknowledged {
        /// The member.
        node: NodeId,
        /// The operation.
        name: RequestId,
        /// The W it claims.
        quorum: usize,
        /// Whether it says so: otherwise `detached`.
        attached: bool,
        /// Whether its lease was live.
        lease: bool,
    },
    /// The entry that settles an eventual operation was committed for the first time.
    Settled {
        /// The operation.
        name: RequestId,
        /// The entry.
        entry: EntryId,
        /// The outcome that it carries.
        status: WriteStatus,
    },
    /// The coordinator published a configuration.
    Published(Arc<Configuration>),
    /// A serving member became ready in an epoch.
    Ready {
        /// The member.
        node: NodeId,
        /// The epoch.
        epoch: u64,
        /// The last entry in its log.
        last: EntryId,
    },
    /// A member lost its disk, and with it all it had.
    DiskLost {
        /// The member.
        node: NodeId,
    },
}

/// One stamping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamping {
    /// The member.
    pub node: NodeId,
    /// Whether its lease was live.
    pub lease: bool,
    /// The operation.
    pub name: RequestId,
    /// Its place.
    pub stamp: Stamp,
    /// The last entry in the member's log.
    pub accept: EntryId,
    /// The register.
    pub key: Bytes,
    /// All it does.
    pub ops: Vec<ElementOp>,
    /// The greatest stamp on the register that the member could show: its engine and its overlay.
    pub shown: Stamp,
}

/// A member of the newest configuration at the end of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberState {
    /// The member.
    pub node: NodeId,
    /// The last entry applied; all that is committed.
    pub applied: EntryId,
    /// The service's derived key: the number of pairs.
    pub pairs: u64,
    /// Every register of its engine.
    pub registers: BTreeMap<Bytes, Register>,
    /// Unsettled operations in its overlay.
    pub overlay: Vec<RequestId>,
    /// And in its quarantine.
    pub quarantine: Vec<RequestId>,
}

impl Request {
    /// Whether nothing is decided or changed.
    pub fn is_read(&self) -> bool {
        self.conditions.is_empty() && self.writes.is_empty()
    }

    /// The registers it names, each once, in order.
    pub fn keys(&self) -> Vec<&Bytes> {
        let conditions = self.conditions.iter().map(|(key, _)| key);
        let writes = self.writes.iter().map(|write| &write.key);
        let mut keys: Vec<&Bytes> = conditions.chain(&self.reads).chain(writes).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }
}

impl Call {
    /// The reply, with its moment, if it was done.
    pub fn done(&self) -> Option<(Moment, &Reply)> {
        match &self.end {
            Some((at, Outcome::Done(reply))) => Some((*at, reply)),
            _ => None,
        }
    }

    /// The name of its write `part`: its own, or that of an item of an eventual batch (D19).
    pub fn part(&self, part: usize) -> Option<RequestId> {
        let name = self.name?;
        let part = u32::try_from(part).ok()?;
        Some(RequestId { part, ..name })
    }

    /// Whether the client was told that nothing was done.
    pub fn is_refused(&self) -> bool {
        matches!(self.end, Some((_, Outcome::Refused(Refusal::Said(_)))))
    }

    /// Whether it is linearizable.
    pub fn is_strong(&self) -> bool {
        matches!(self.level, Level::Strong | Level::Barrier)
    }
}

#[cfg(test)]
mod tests;
