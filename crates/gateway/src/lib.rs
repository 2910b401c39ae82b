//! AWS wire protocols to service commands and back, on one port.
//!
//! ```text
//! socket ─▶ connection ─▶ door ─▶ parameters ─▶ signature ─▶ simpledb ─▶ node
//!            (limits)            (decoded)      (who)        (what)       │
//! socket ◀──────────────────────────────────── simpledb (XML) ◀───────────┘
//! ```
//!
//! A request is read (bounded), told apart by its content, authenticated, parsed into a service's
//! request, carried out by the node and rendered. Nothing here decides what a service means.
//!
//! Deliberately absent: SimpleDB's rules (`services`), storage (`node`), HTTP framing (hyper).

mod asked;
mod body;
mod connection;
mod consistency;
mod control;
mod exports;
#[cfg(test)]
mod fuzz;
mod limit;
mod log_limiter;
mod metrics;
mod origin;
mod outgoing;
mod parameters;
mod percent;
mod places;
mod refusal;
mod request_handler;
mod room;
mod s3;
mod server;
mod settings;
mod signature;
mod simpledb;
mod sqs;
mod tls;

pub use limit::{Capacity, Limit, LimitError};
pub use metrics::{About, Kind, metrics_reference};
pub use server::Gateway;
pub use settings::Settings;
pub use tls::{Tls, TlsError};
