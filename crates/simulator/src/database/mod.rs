//! Simulated clients of one database: the real code of crate `database` on modelled clouds. They
//! have every fault from a seed, and a check for every promise.
//!
//! ```text
//!  cloud::Plan ──▶ clients: transactions, reads, checkpoints ──▶ history ──▶ checks
//!       └── faults ──▶ model: latency, loss, late PUTs, crashes, pauses, skewed clocks
//! ```
//!
//! A run has two phases. Until the plan's faults end all faults happen; then the cloud behaves, and
//! a last client settles the database and reads all of it.

mod checks;
mod client;
mod files;
mod history;
mod run;
mod shrink;

pub use run::{Plan, Run, run};
pub use shrink::shrink;

#[cfg(test)]
mod scripts;
#[cfg(test)]
mod tests;
