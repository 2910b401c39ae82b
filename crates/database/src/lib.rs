//! A database on object storage: many writers, no server, and a level for each transaction.
//!
//! ```text
//!  Transaction ── reads ──▶ buffer pool ──▶ pages (objects)
//!       │                                     ▲ If-Match
//!       └─ commit ──▶ ATOMIC queue ──▶ pending-update queues ──▶ checkpoint
//! ```
//!
//! It is Brantner and others (2008) on today's clouds. A commit appends redo records to queues and
//! never waits for another client. Any client brings the records of a queue into the pages of a
//! B-link tree. Truth is in the objects; a client may end at any moment.
//!
//! docs/how-to/database.md has the rules with their reasons; docs/reference/format/database.md the
//! bytes.
//!
//! Deliberately absent: sockets, threads, real clocks ([`fader_cloud::Cloud`] has them); snapshots
//! and serializable transactions, which need one order of commits.

mod atomic;
mod catalogue;
mod claim;
mod collections;
mod costs;
mod database;
mod disk;
mod expiry;
mod fresh;
mod granting;
mod guard;
mod hint;
mod index;
mod indexing;
mod layout;
mod level;
mod loading;
mod lookup;
mod maintenance;
mod message;
#[cfg(test)]
mod models;
mod options;
mod pending;
mod pool;
mod readers;
mod recency;
mod reflect;
mod reviewing;
mod routing;
mod sealing;
mod session;
mod store;
mod timed;
mod token;
mod transaction;
mod tree;
mod vacuum;
mod verifying;

pub use catalogue::{
    Collection, CollectionId, CollectionSettings, INDEXES_MAX, Index, NAME_BYTES_MAX, QUEUES_MAX,
};
pub use costs::Cost;
pub use database::Database;
pub use disk::{DiskTier, PageFiles};
pub use fader_blink::{Problem, Report};
pub use granting::Right;
pub use guard::{Guard, Guards};
pub use index::{INDEXED_KEY_BYTES_MAX, IndexRange, IndexValue};
pub use indexing::IndexReport;
pub use layout::PendingQueues;
pub use level::Level;
pub use loading::Load;
pub use lookup::Hit;
pub use maintenance::Checkpointed;
pub use options::Options;
pub use reviewing::{Proposal, ProposedChange, Reviewed, Verdict};
pub use sealing::{Identity, PublicIdentity};
pub use timed::Fencing;
pub use transaction::{
    Committed, INLINE_BYTES, KEY_BYTES_MAX, KeyValue, RECORD_BYTES_MAX, RECORDS_MAX, Transaction,
};
pub use vacuum::Vacuumed;
pub use verifying::{QueueReport, Verified};
