//! Simulated clouds: processes that send, receive, count and batch on the real asynchronous code of
//! crate `cloud`. They have every fault from a seed, and a check for every promise.
//!
//! ```text
//!  plan ──▶ producers, consumers, counters, batchers, followers ──▶ history ──▶ checks
//!    │            │ queues, domains, objects
//!    └── faults ──┴──▶ model: latency, loss, crashes, pauses, skewed clocks
//! ```
//!
//! A run has two phases. Until `Plan::faults` is over all faults happen. Then the cloud behaves,
//! all processes live, and a last process drains the queues.

mod actors;
mod checks;
mod history;
pub(crate) mod plan;
pub(crate) mod run;
mod scopes;
mod search;
mod slots;

pub(crate) use checks::strong_call;
pub use history::{Failure, History};
pub use plan::{Backend, Plan};
pub use run::{Run, run};
pub use scopes::{Explored, Scope, explore, scopes};
pub use search::Budget;

#[cfg(test)]
mod tests;
