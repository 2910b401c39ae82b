//! One replica of one chain, as a pure state machine, and the data model of everything replicated.
//!
//! Deliberately absent: sockets, disks, clocks, threads, randomness. See ARCHITECTURE.md.

mod change;
mod codec;
mod entry;
mod keys;
mod register;
mod replica;
mod stamp;

pub use change::{Change, ElementOp, Marks, Mutation, Under, apply};
pub use codec::{DecodeError, Reader, put_bytes, put_varint};
pub use entry::{Entry, RequestId};
pub use keys::{
    COLLECTION, ROWS, client_key, parse_client_key, parse_result_key, parse_row_key, result_key,
    row_key,
};
pub use register::{Group, Member, Register};
pub use replica::{Effect, Input, Replica, Token};
pub use stamp::{EntryId, Stamp};
