//! The contract that the systems are written to: what any cloud of the S3, SQS and SimpleDB kind
//! promises, and no more.
//!
//! ```text
//!  database, mapreduce  ──▶  Objects   Queues   Domains   Clock
//!                               │         │        │         │
//!              client (HTTP) or a model in memory: no system above can tell
//! ```
//!
//! Objects are the `object_store` crate's trait as it is. Queues and domains are traits of ours,
//! since no crate has them; each has the minimum that AWS and its likes keep. `conformance` says
//! what a service must hold to be used below the systems, and runs against any of them. `model`
//! holds it in memory, in virtual time, and no better than promised when told so.
//!
//! Invariants:
//! - an [`ErrorKind`] says what the caller does next, for every service.
//! - nothing here names a runtime, a socket or a real clock.
//!
//! Deliberately absent: retries (the client's, which knows the congestion window); FIFO queues;
//! Fader's levels beyond strong and eventual: the contract is what all services have.

pub mod bucket;
mod clock;
mod cloud;
pub mod conformance;
mod domains;
mod error;
mod group;
mod grouped;
mod meter;
pub mod model;
mod objects;
mod permissions;
mod prices;
pub mod probe;
mod queues;
mod runtime;
mod simpledb;

pub use clock::Clock;
pub use cloud::{Cloud, Metered, Services};
pub use domains::{
    Attribute, AttributePut, DomainMetadata, Domains, Expected, Item, ItemDelete, ItemPut, Page,
    ReadConsistency,
};
pub use error::{Error, ErrorKind, Result};
pub use meter::{Count, Meter, QUEUE_CHUNK_BYTES, RequestKind, Usage, WireRequest};
pub use objects::object_error_kind;
pub use permissions::Permissions;
pub use prices::{Dollars, PriceBook};
pub use queues::{
    MESSAGE_BYTES_MAX, MESSAGES_MAX, PEEKED_BYTES_MAX, Peeked, QueueCounts, QueueSettings, Queues,
    Receipt, Receive, Received, VISIBILITY_MAX, WAIT_MAX,
};
pub use runtime::{Entropy, Runtime, Tasks};
