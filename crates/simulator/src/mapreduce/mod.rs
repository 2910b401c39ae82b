//! Simulated jobs on one output: the real code of crate `mapreduce` on a modelled cloud. They have
//! every fault from a seed, and a check for every promise.
//!
//! ```text
//!  Plan ──▶ runs, workers, cleaners, cancels ──▶ register, rows, parts ──▶ checks
//!    └── faults ──▶ model: latency, loss, late PUTs, crashes, pauses, changed input
//! ```
//!
//! A run has two phases. Until the plan's faults end all faults happen; then the cloud behaves, and
//! one last process brings the output to its end.

mod actors;
mod checks;
mod plan;
mod program;
mod rows;
mod run;

pub use plan::Plan;
pub use run::{Run, run};

#[cfg(test)]
mod scripts;
#[cfg(test)]
mod tests;
