//! A client of ZooKeeper, as far as a coordinator needs one: one request at a time, each with its
//! time; the next server when one does not answer; watches that are waited for.
//!
//! Deliberately absent: sessions that stand for something (a connection's ends with it),
//! transactions, quotas, SASL.

mod connection;
mod stream;
mod wire;

pub use connection::{Asker, Changed, Credentials, Failure, Place, Znode};
pub use stream::{Tls, TlsError};
