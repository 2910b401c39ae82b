//! AWS wire protocols to service commands and back, on one port.
//!
//! A request is read (bounded), told apart by its content, authenticated, parsed into a service's
//! request, carried out by the node and rendered. Nothing here decides what a service means.
//!
//! Deliberately absent: SimpleDB's rules (`services`), storage (`node`).

mod server;
mod settings;
mod tls;

pub use server::Gateway;
pub use settings::Settings;
pub use tls::{TlsError, tls_config};
