//! What members of a chain tell each other (docs/internals/protocol/chain.md, section 4).
//!
//! Every message travels in an [`Envelope`]; a receiver handles it only in the epoch and between
//! the incarnations that it names (I1).

mod encoding;

use std::sync::Arc;

use bytes::Bytes;

use crate::config::{Incarnation, NodeId};
use crate::entry::{Entry, RequestId};
use crate::epoch_history::EpochHistory;
use crate::operation::Operation;
use crate::register::Register;
use crate::stamp::EntryId;

/// A message with where it belongs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Envelope {
    /// The sender's adopted epoch.
    pub epoch: u64,
    /// The sender.
    pub from: NodeId,
    /// The sender's incarnation.
    pub incarnation: Incarnation,
    /// What it says.
    pub message: Message,
}

/// What a read, or a question about it, is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// These registers.
    Keys(Vec<Bytes>),
    /// All registers: a query, a list.
    All,
}

impl Scope {
    /// Whether it is about no register: asked to see whether a member is there.
    pub fn is_nothing(&self) -> bool {
        matches!(self, Scope::Keys(keys) if keys.is_empty())
    }
}

/// The messages.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Message {
    /// Donor to member: here is what I hold (AD-3, JN-2).
    Hello {
        /// The ids of the donor's log, as far as it is persisted.
        epoch_history: EpochHistory,
        /// The id after which the donor can still send entries.
        base: EntryId,
        /// J: the donor's commit id.
        commit: EntryId,
        /// L: the donor's last persisted id.
        last: EntryId,
        /// The donor's wall clock, in milliseconds.
        clock: u64,
    },
    /// Entries in order, the first of which follows `after`.
    Append {
        /// The id before the first entry; where there are none, the last one sent.
        after: EntryId,
        /// The entries.
        entries: Vec<Arc<Entry>>,
        /// The sender's commit id.
        commit: EntryId,
    },
    /// Everything up to `id` is persisted here, in this epoch. Cumulative.
    Confirm {
        /// The last persisted entry.
        id: EntryId,
    },
    /// Everything up to `id` is committed. Cumulative.
    Commit {
        /// The commit id.
        id: EntryId,
    },
    /// Send again what follows `after`.
    Resend {
        /// The last entry that is here.
        after: EntryId,
    },
    /// What is committed of this? (RD-3)
    Query {
        /// The asker's number.
        number: u64,
        /// What it is about.
        scope: Scope,
    },
    /// The answer to a `Query`.
    QueryAnswer {
        /// The asker's number.
        number: u64,
        /// The commit id.
        commit: EntryId,
    },
    /// Hold these (EV-3, ER-4, JN-7).
    Offer {
        /// The operations.
        operations: Vec<Arc<Operation>>,
    },
    /// These are held durably, or settled.
    Held {
        /// Their names.
        names: Vec<RequestId>,
    },
    /// Settle these (PR-1).
    Promote {
        /// The operations.
        operations: Vec<Arc<Operation>>,
    },
    /// What do you show? (ER-1)
    Show {
        /// The asker's number.
        number: u64,
        /// The register.
        key: Bytes,
    },
    /// The answer to a `Show`.
    Shown {
        /// The asker's number.
        number: u64,
        /// The committed register, if there is one.
        register: Option<Register>,
        /// The overlay's operations on it.
        operations: Vec<Arc<Operation>>,
        /// The commit id it was read at.
        commit: EntryId,
    },
    /// What my overlay holds, once per epoch (EX-1).
    Overlay {
        /// Whether the sender still lacks the receiver's: it is then sent back.
        asks: bool,
        /// The sender's commit id.
        commit: EntryId,
        /// The sender's wall clock, in milliseconds.
        clock: u64,
        /// All of its overlay.
        operations: Vec<Arc<Operation>>,
    },
    /// Which unsettled operations do you hold on these? (BR-1)
    Gather {
        /// The asker's number.
        number: u64,
        /// The registers.
        scope: Scope,
    },
    /// The answer to a `Gather`.
    Gathered {
        /// The asker's number.
        number: u64,
        /// The operations.
        operations: Vec<Arc<Operation>>,
    },
    /// Syncing member to donor: my state has these ranges (JN-4).
    TransferRequest {
        /// The gap's top: the donor's state must not be below it.
        above: EntryId,
        /// Where the first range begins.
        start: Bytes,
        /// Ranges, each from the end of the one before.
        ranges: Vec<RangeHash>,
    },
    /// Donor to syncing member.
    TransferChunk {
        /// S: the id of the donor's state.
        at: EntryId,
        /// The `start` that was asked for.
        start: Bytes,
        /// The ranges that differ, with what the donor has there, in order.
        ranges: Vec<RangeContent>,
        /// Up to where it was compared, excluded; behind the last key when that is all.
        end: Bytes,
    },
    /// Commit point to all: the digest of a piece of my state at the commit id `id` (I21).
    Digest {
        /// The commit point's number.
        number: u64,
        /// The commit id.
        id: EntryId,
        /// The first key of the piece.
        start: Bytes,
        /// The key after its last.
        end: Bytes,
        /// The digest of its keys and values.
        digest: u128,
    },
    /// The answer to a `Digest`, of a member that could compare.
    Compared {
        /// The commit point's number.
        number: u64,
        /// Whether the sender's piece is the same.
        is_same: bool,
    },
}

/// The hash of what a member holds in a range of keys, from the end of the range before.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RangeHash {
    /// The key after the last.
    pub end: Bytes,
    /// The hash of the keys and values in between.
    pub hash: u128,
}

/// What a member holds in a range of keys.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RangeContent {
    /// The first key.
    pub start: Bytes,
    /// The key after the last.
    pub end: Bytes,
    /// All keys and values in between, in order.
    pub rows: Vec<(Bytes, Bytes)>,
}

#[cfg(test)]
mod tests;
