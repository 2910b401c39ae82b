//! What the services mean, as pure functions on a view of one member's data.
//!
//! Two kinds of entry: `decide(view, context, command)`, for all that may change state, gives an
//! outcome and *changes*; `answer(view, context, query)` gives an outcome only. A decision names no
//! stamps and reads no clock: time is in the [`simpledb::Context`], stamps are the chain's.
//!
//! Deliberately absent: wire formats (gateway), storage and routing (node), time, randomness.

pub mod blocks;
mod call;
pub mod catalog;
#[cfg(feature = "counter")]
pub mod counter;
mod error_code;
pub mod exports;
mod failure;
pub mod figures;
pub mod forward;
mod key;
mod kind;
pub mod level;
mod map_view;
pub mod policy;
mod poll;
mod reason;
pub mod request;
mod rule;
pub mod s3;
pub mod service;
pub mod simpledb;
pub mod sqs;
pub mod steps;
mod view;
pub mod waiters;

pub use call::Call;
pub use error_code::{ErrorCode, ErrorKind, ErrorRow};
pub use fader_chain::{Mode, UnknownMode};
pub use failure::{Failure, Unavailable};
pub use key::{
    CollectionId, KeyBuilder, SYSTEM, Table, index_key, item_key, split_item_key, split_text,
};
pub use kind::Kind;
pub use map_view::MapView;
pub use poll::Poll;
pub use reason::Reason;
pub use rule::Rule;
pub use simpledb::Tentative;
pub use view::{Direction, Inconsistency, PageBudget, Scan, UnlimitedBudget, View, ViewError};

use fader_chain::Change;

/// What a decision came to: the outcome for the client, and what changes if it is made durable.
///
/// A refusal has no changes. One that depends on the state is an entry all the same
/// ([`simpledb::depends_on_state`]), and answered at that entry's commit (CO-4).
#[derive(Debug)]
pub struct Decision<O> {
    /// The reply or the refusal.
    pub outcome: O,
    /// What the entry changes, in order; empty for a refusal or a write that changes nothing.
    pub changes: Vec<Change>,
}
