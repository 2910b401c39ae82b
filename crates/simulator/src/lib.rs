//! A deterministic world for chains, the history of a run in it, and a check for every guarantee of
//! docs/protocol.
//!
//! Deliberately absent: sockets, disks, clocks, threads; randomness but from a seed.

mod history;

pub use history::{
    Bound, Call, Condition, Event, Fact, Fate, History, Level, MemberState, Moment, NodeId,
    Outcome, Reply, Request, Shown, Stamping, Write,
};
