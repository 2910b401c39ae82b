//! One replica of one chain, as a pure state machine, and the data model of everything replicated.
//!
//! Deliberately absent: sockets, disks, clocks, threads, randomness. See ARCHITECTURE.md.

mod change;
pub mod clocks;
mod codec;
mod config;
pub mod controller;
mod dedup;
mod entry;
mod epoch_history;
mod guard;
mod host;
mod keys;
mod log;
pub mod membership;
mod message;
mod mode;
mod operation;
pub mod placement;
mod progress;
mod range_diff;
mod record;
mod register;
mod replica;
mod session;
mod stamp;
mod version;
mod view;
pub mod wait_messages;
mod wait_reason;

pub use change::{ApplyContext, Change, ElementOp, Mutation, TombstonePolicy, apply};
pub use codec::{DecodeError, Reader, put_bytes, put_varint};
pub use config::{
    AbsentMember, ChainId, ChainMember, Configuration, DiskId, Incarnation, NodeId, Role,
    UncleanRecovery, Wiring,
};
pub use dedup::DedupCursor;
pub use entry::{Client, Entry, RequestId};
pub use epoch_history::EpochHistory;
pub use guard::{ALL_GUARDS, Guard, Guards};
pub use host::{Accepted, CorrelationId, Decided, Host, Refusal, Settled};
pub use keys::{
    COLLECTION, END as KEYS_END, ROWS, client_key, parse_client_key, parse_result_key,
    parse_row_key, result_key, row_key,
};
pub use message::{Envelope, Message, RangeContent, RangeHash, Scope};
pub use mode::{Mode, ModeState, UnknownMode};
pub use operation::{Digest, Operation, Outcome, Settlement};
pub use progress::Progress;
pub use record::{Lsn, Record, RecoveredState};
pub use register::{Element, ElementSet, Register};
pub use replica::{
    Effect, EventualCounts, Forgotten, Identity, Input, Level, Now, OperationStatus,
    PossibleInputs, QuorumRead, Replica, ReplicaCounters, ReplicaSettings, ReplicationLag, Reply,
    Report, Session, Stop, TransferStep, WriteAck, Written, compute, is_forgotten,
};
pub use stamp::{EntryId, Stamp};
pub use version::Version;
pub use view::{Direction, Inconsistency, Layered, Mutations, Scan, View, ViewError};
pub use wait_reason::{TransferProgress, WaitReason, wait_reasons};
