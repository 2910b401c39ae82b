//! Queues and domains in a bare bucket: any store of objects that creates if absent and updates by
//! If-Match, and no server.
//!
//! ```text
//! Queues ──▶ BucketQueues ─┐                     ┌─▶ segments, states, settings
//!                          ├──▶ ObjectStore ─────┤
//! Domains ─▶ BucketDomains ┘                     └─▶ slots, manifests, snapshots
//! ```
//!
//! docs/explanation/bucket.md has the rules, docs/reference/format/bucket.md the bytes. Decisions
//! are pure functions (`state`, `time`, the log's view); the rest does their requests.
//!
//! Deliberately absent: FIFO queues; one log slot for writes of several processes; retries of
//! requests that changed nothing (the client's).

mod catalog;
mod cloud;
mod domains;
mod frame;
mod guard;
mod listing;
mod log;
mod markers;
mod names;
mod operations;
mod pool;
mod queues;
mod receiver;
mod segment;
mod segment_handle;
mod sender;
mod settings;
mod state;
mod store;
mod time;

pub use domains::{BucketDomains, DomainReport};
pub use guard::{Guard, Guards};
pub use queues::{BucketQueues, QueueReport};
