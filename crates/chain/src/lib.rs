//! One replica of one chain, as a pure state machine, and the data model of everything replicated.
//!
//! Deliberately absent: sockets, disks, clocks, threads, randomness. See ARCHITECTURE.md.

mod change;
pub mod clocks;
mod codec;
mod config;
pub mod controller;
mod entry;
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
mod ranges;
mod record;
mod register;
mod replica;
mod results;
mod runs;
mod session;
mod stamp;
mod version;
mod view;
mod waiting;
pub mod words;

pub use change::{Change, ElementOp, Marks, Mutation, Under, apply};
pub use codec::{DecodeError, Reader, put_bytes, put_varint};
pub use config::{
    Away, ChainId, Configuration, DiskId, Incarnation, Lossy, NodeId, Role, Seat, Wiring,
};
pub use entry::{Client, Entry, RequestId};
pub use guard::{ALL_GUARDS, Guard, Guards};
pub use host::{Accepted, Decided, Host, Refusal, Settled, Token};
pub use keys::{
    COLLECTION, END as KEYS_END, ROWS, client_key, parse_client_key, parse_result_key,
    parse_row_key, result_key, row_key,
};
pub use message::{Envelope, Message, RangeContent, RangeHash, Scope};
pub use mode::{Mode, Standing, UnknownMode};
pub use operation::{Digest, Operation, Outcome, Settlement};
pub use progress::Progress;
pub use record::{Durable, Lsn, Record};
pub use register::{Group, Member, Register};
pub use replica::{
    Ahead, Behind, Effect, EventualCounts, Fate, Fill, Forgotten, Identity, Input, Level, Now,
    Receipt, Replica, Reply, Report, Session, Shown, Stop, Tally, Tuning, Written, compute,
};
pub use results::Swept;
pub use runs::Runs;
pub use stamp::{EntryId, Stamp};
pub use version::Version;
pub use view::{Direction, Layered, Mutations, Scan, View, ViewError};
pub use waiting::{Filling, Wait, waits};
