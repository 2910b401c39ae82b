//! A client of ZooKeeper, as far as a coordinator needs one. It sends one request at a time, each
//! with its time, asks the next server when one does not answer, and waits for watches.
//!
//! Deliberately absent: sessions that stand for something (a connection's ends with it),
//! transactions, quotas, SASL.

mod client;
mod connection;
mod stream;
mod wire;

pub use client::{Changed, EnsembleClient, WatchMark};
pub use connection::{Credentials, EnsembleConfig, EnsembleError, Znode};
pub use stream::{Tls, TlsError};
