//! A deterministic world for chains, the history of a run in it, and a check for every guarantee of
//! docs/internals/protocol. The same for clouds (`cloud`), clients of a database (`database`), jobs
//! (`mapreduce`), queues (`sqs`) and buckets (`s3`) of the store. `registers` has the judges of
//! linearizability judge the same runs.
//!
//! Deliberately absent: sockets, disks, clocks, threads; randomness but from a seed.

pub mod check;
pub mod cloud;
pub mod database;
mod history;
pub mod mapreduce;
pub mod membership;
pub mod model;
pub mod registers;
pub mod s3;
mod service;
mod shrink;
pub mod sqs;
#[cfg(feature = "steps")]
pub mod steps;
pub mod traffic;
pub mod world;

pub use history::{
    Bound, Call, Condition, Event, Fact, History, Level, MemberState, Moment, Outcome, Refusal,
    Reply, Request, Shown, Stamping, Write, WriteStatus,
};
pub use service::{Answer, Decision, PAIRS, Pairs, Service, State, pairs_of, pairs_value};
