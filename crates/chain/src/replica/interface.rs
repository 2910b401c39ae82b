//! What goes into a replica and what comes out of it.

use std::sync::Arc;

use bytes::Bytes;

use super::eventual::{QuorumRead, WriteAck};
use crate::change::Mutation;
use crate::config::{Configuration, DiskId, Incarnation, NodeId};
use crate::entry::RequestId;
use crate::host::{CorrelationId, Refusal};
use crate::message::{Envelope, RangeContent, Scope};
use crate::operation::{Digest, Outcome};
use crate::record::{Lsn, Record, RecoveredState};
use crate::stamp::{EntryId, Stamp};

/// Who a replica is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    /// The node.
    pub node: NodeId,
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// Its disk.
    pub disk: DiskId,
}

/// What can be chosen about a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReplicaSettings {
    /// Entries kept in memory after they were applied, so that a member that lags is brought up by
    /// entries. A chain of one keeps none.
    pub window_entries: usize,
    /// Entries that may be uncommitted at the head before it refuses (BP-1).
    pub uncommitted_max: usize,
    /// Entries in one `Append`.
    pub append_entries_max: usize,
    /// Bytes of the entries in one `Append`, beyond which no further entry is taken. With the
    /// largest entry it is a message that can be sent.
    pub append_bytes_max: usize,
    /// Milliseconds after which something unanswered is said again.
    pub retry_ms: u64,
    /// ER-6: milliseconds after which a read of R members asks all others.
    pub hedge_ms: u64,
    /// SL-1: milliseconds that a member may take to confirm, with any speed of the others.
    pub slow_ms: u64,
    /// SL-1: and how many times as long as the median of the chain's members.
    pub slow_times: u64,
    /// SL-2: milliseconds for which more than half of the members have to be late before the head
    /// is thought to be. Of a chain that is all, and none answers. By then the sessions of those
    /// that are gone are over: it is not for them. SL-1: and for which one may owe without whom
    /// another would serve alone.
    pub head_slow_ms: u64,
    /// SL-1: milliseconds for which a member that was made syncing has to keep its budget before
    /// it says that it holds everything.
    pub probation_ms: u64,
    /// Milliseconds between two pieces of the commit point's digest.
    pub digest_ms: u64,
    /// Milliseconds by which a clock may differ from its peers' before its member stops stamping.
    pub max_drift_ms: u64,
    /// Milliseconds that an eventual operation rests before the head settles it: what is written
    /// beside it then shares the disk's sync with its settlement.
    pub promote_after_ms: u64,
    /// Unsettled operations that a member coordinates before it refuses (BP-2).
    pub own_operations_max: usize,
    /// BP-4: bytes that a joining member compares and takes in a second while it is filled; not 0.
    pub fill_bytes_per_second: u64,
    /// JN-5: entries held above a gap that are computed at one tick when it is closed; not 0. For
    /// as long as that takes the chain waits for this member's next confirmation.
    pub catch_up_max: usize,
    /// XO-4: milliseconds without a request after which a client's results are dropped; at most
    /// twice as many. More than requests are believed to be old, by sessions (24 hours) and by
    /// their signatures.
    pub idle_ms: u64,
    /// Bytes of an overlay before its member refuses and delays (BP-2): one message holds it.
    pub overlay_bytes_max: usize,
}

impl Default for ReplicaSettings {
    fn default() -> Self {
        ReplicaSettings {
            window_entries: 8_192,
            uncommitted_max: 4_096,
            append_entries_max: 512,
            append_bytes_max: 1 << 20,
            retry_ms: 200,
            hedge_ms: 50,
            slow_ms: 1_000,
            slow_times: 10,
            head_slow_ms: 4_000,
            probation_ms: 5_000,
            digest_ms: 1_000,
            max_drift_ms: 500,
            promote_after_ms: 20,
            own_operations_max: 4_096,
            fill_bytes_per_second: 32 << 20,
            catch_up_max: 512,
            idle_ms: 25 * 60 * 60 * 1_000,
            overlay_bytes_max: 16 << 20,
        }
    }
}

/// The clocks of a step. Neither is compared with another member's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Now {
    /// Milliseconds of a clock that never falls and counts suspended time: leases, retries, bounds.
    pub monotonic: u64,
    /// Milliseconds since 1970, as this machine believes: the hybrid clock's source.
    pub wall: u64,
}

/// How a read is to be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// The newest commit (RD).
    Strong,
    /// At most this many acknowledged writes behind (D11).
    BoundVersions(u64),
    /// Behind by writes acknowledged at most this many milliseconds ago (D11).
    BoundMillis(u64),
    /// What `r` members show (ER); more than one for single registers only.
    Eventual {
        /// How many members, this one included.
        r: usize,
        /// Whether it may be answered without a lease, and before overlays are exchanged: then it
        /// claims no quorum (ER-2).
        sloppy: bool,
    },
    /// After everything tentative on these registers is settled (BR).
    Barrier,
}

/// What happens to a replica.
#[derive(Clone, Debug)]
pub enum Input {
    /// What the disk holds, and the id to which the engine was applied. Once, and first.
    Recovered {
        /// The records, folded; entries at or below `applied` may be released.
        durable: RecoveredState,
        /// The engine's applied id.
        applied: EntryId,
        /// Whether the engine was being filled: it then answers nothing until it is filled anew.
        filling: bool,
    },
    /// The coordinator's newest configuration of the chain.
    Configuration(Arc<Configuration>),
    /// The lease holds until then, in the milliseconds of [`Now::monotonic`] (FN-1).
    Lease {
        /// The end.
        until: u64,
    },
    /// Records up to this one are durable.
    Persisted(Lsn),
    /// The engine has all entries up to this one.
    Applied(EntryId),
    /// The engine has taken the oldest [`Effect::Fill`] that was not answered: it shows it,
    /// and of [`TransferStep::Begin`] and [`TransferStep::End`] it is durable.
    Filled,
    /// No record will become durable any more: fail everything that waits.
    PersistFailed,
    /// A strong write, conditional operation or mini-transaction; decided by the host.
    Submit {
        /// Who waits.
        token: CorrelationId,
        /// The request's name, where it has one.
        request: Option<RequestId>,
        /// Registers to settle first, for a conditional operation with a barrier (BR); else empty.
        barrier: Vec<Bytes>,
    },
    /// The strong request that takes a draining collection the next step to the mode `strong`. The
    /// host decides it once no member can hold eventual operations of it (MD-4), and again once
    /// tombstones need not be kept (MD-6). Refused as [`Refusal::NotDrained`](crate::Refusal)
    /// before.
    Close {
        /// Who waits.
        token: CorrelationId,
        /// The collection.
        collection: u64,
    },
    /// An eventual write; accepted by the host.
    Write {
        /// Who waits.
        token: CorrelationId,
        /// The request's name without part, where it has one.
        request: Option<RequestId>,
        /// The request's digest, where it has a name: this is refused to another one (XO-6).
        digest: Option<Digest>,
        /// W: how many members must hold it.
        w: usize,
        /// Whether it may be accepted without a lease, as detached (G7).
        sloppy: bool,
        /// What the session has seen of the registers.
        session: Session,
    },
    /// A read or a query.
    Read {
        /// Who waits.
        token: CorrelationId,
        /// What it is about.
        scope: Scope,
        /// How it is to be answered.
        level: Level,
        /// What the session has seen, if it is of one.
        session: Option<Session>,
    },
    /// Asks how eventual writes ended, once all of them have (PR-7).
    Outcome {
        /// Who waits.
        token: CorrelationId,
        /// Their names.
        names: Vec<RequestId>,
        /// The digest of the request that they are of, where it has one.
        digest: Option<Digest>,
    },
    /// The client is gone, or its deadline passed: all that waits under the token is forgotten
    /// without a reply.
    Abandon(CorrelationId),
    /// A message arrived.
    Message(Envelope),
    /// Time passed.
    Tick,
    /// Nothing more is queued: send what has gathered.
    Flush,
}

/// What a session has seen of one chain (semantics.md, section 7).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Session {
    /// The greatest committed id.
    pub committed: EntryId,
    /// Tentative operations not known to be settled: the register, the stamp, the name.
    pub tentative: Vec<(Bytes, Stamp, RequestId)>,
}

/// Why a member stops without a fault of its own disk (LD-2). Some disk of the chain is an old copy
/// that passed for what it was copied from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stop {
    /// It knows so many entries committed that its donor has not: its chain went on without them.
    Ahead(u64),
    /// It served, and lacks so many entries that its donor knows committed: its own disk is the
    /// copy. It joins again, and is sent what it lacks.
    Behind(u64),
}

/// What is to be done, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Make the record durable, after all earlier ones.
    Persist {
        /// Its place.
        lsn: Lsn,
        /// The record.
        record: Record,
    },
    /// Send it; it may be lost, repeated, late.
    Send {
        /// To whom.
        to: NodeId,
        /// The message.
        envelope: Envelope,
    },
    /// Write to the engine, atomically with the applied id.
    Apply {
        /// The entry.
        id: EntryId,
        /// What it does.
        mutations: Arc<Vec<Mutation>>,
    },
    /// Change the engine while it is filled (JN-4).
    Fill(TransferStep),
    /// Answer.
    Reply {
        /// Who waits.
        token: CorrelationId,
        /// The answer.
        reply: Reply,
    },
    /// Tell the coordinator.
    Coordinator(Report),
    /// This member does not belong to what its chain is now (LD-2): it takes part in nothing more,
    /// and its disk stays as it is.
    Stop(Stop),
    /// Tell the log: a message of another incarnation, or of an epoch before the last one, was
    /// dropped (I1). Once for each.
    StaleMessage {
        /// Who sent it.
        from: NodeId,
        /// In which epoch.
        epoch: u64,
    },
}

/// A step of filling the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransferStep {
    /// From here the engine stands for nothing until `End`; durable before the first range.
    Begin,
    /// All that the range holds.
    Range(RangeContent),
    /// The engine is the state at this id; durable, with all ranges, before `Filled` says so.
    End {
        /// The id.
        at: EntryId,
    },
}

/// What a replica tells the coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Report {
    /// The epoch is adopted, durably.
    Adopted {
        /// The epoch.
        epoch: u64,
    },
    /// The syncing member holds everything (JN-6).
    SyncDone {
        /// For a compare-and-set on this epoch.
        epoch: u64,
        /// L: what it holds.
        last: EntryId,
    },
    /// The state of a member is not that of the others (I21), as the commit point counted. The
    /// member is to serve no more until it was filled anew.
    Differs {
        /// In this epoch.
        epoch: u64,
        /// The commit id at which they were compared.
        id: EntryId,
        /// The member; the commit point itself, if most others differ from it.
        node: NodeId,
    },
    /// The commit point hears the syncing member's confirmations (JN-6).
    Heard {
        /// In this epoch.
        epoch: u64,
        /// The syncing member.
        node: NodeId,
    },
    /// The chain waits for a member longer than its budget (SL-1), as the head measured: for the
    /// head itself, if most others are late.
    Slow {
        /// In this epoch.
        epoch: u64,
        /// The member.
        node: NodeId,
    },
    /// The leaving member holds nothing that any other member lacks, and takes nothing more in this
    /// epoch (LV-2).
    HandoffDone {
        /// For a compare-and-set on this epoch.
        epoch: u64,
    },
    /// This member knows entries committed that its donor has not (LD-2), and has stopped: it
    /// serves nothing, and gives up its membership.
    Ahead {
        /// In this epoch.
        epoch: u64,
        /// How many.
        entries: u64,
    },
    /// For the safe point (GC-1).
    Floor {
        /// In this epoch.
        epoch: u64,
        /// The applied id.
        applied: EntryId,
        /// Whether a gap is open.
        gap: bool,
    },
}

impl Report {
    /// The epoch that it is about.
    pub fn epoch(&self) -> u64 {
        match *self {
            Report::Adopted { epoch }
            | Report::SyncDone { epoch, .. }
            | Report::Differs { epoch, .. }
            | Report::Heard { epoch, .. }
            | Report::Slow { epoch, .. }
            | Report::HandoffDone { epoch }
            | Report::Ahead { epoch, .. }
            | Report::Floor { epoch, .. } => epoch,
        }
    }
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The strong request took effect as the host decided it; its entry, if it needed one.
    Decided {
        /// The entry.
        id: Option<EntryId>,
    },
    /// It had been decided before, under its name.
    Repeated {
        /// The entry.
        id: EntryId,
        /// The outcome kept.
        result: Bytes,
    },
    /// Read the state at this id now ([`Replica::view_at`](super::Replica::view_at)).
    Show {
        /// A commit id.
        at: EntryId,
    },
    /// The join of what R members show.
    ShowRegister(QuorumRead),
    /// Read the committed state with these operations over it now.
    ShowTentative {
        /// The state's id.
        at: EntryId,
    },
    /// The eventual write is held by W members.
    Held(WriteAck),
    /// How the eventual writes ended, with the entry that settled each, in the order asked.
    Outcomes(Vec<(EntryId, Outcome)>),
    /// A tentative value of the session was lost (TRACE-37).
    Lost(RequestId),
    /// What the session has seen committed was lost when an operator had the chain go on without it
    /// (AL-4). The session goes on from what there is.
    Forgotten,
    /// Nothing was done.
    Refused(Refusal),
    /// It takes effect later, at most once, or never.
    Unknown,
}

impl Input {
    /// Whether it is a request of a client, which is answered under its token.
    pub fn token(&self) -> Option<CorrelationId> {
        match self {
            Input::Submit { token, .. }
            | Input::Close { token, .. }
            | Input::Write { token, .. }
            | Input::Read { token, .. }
            | Input::Outcome { token, .. } => Some(*token),
            _ => None,
        }
    }
}
