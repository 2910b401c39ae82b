//! A gateway on a real node and real sockets, driven by raw bytes.
//!
//! Time limits are short here so that being late is quick. No test depends on how long anything
//! takes, only on what happens in the end.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod consistency;
mod control;
mod limit;
mod limits;
mod server;
mod simpledb;
mod tls;
