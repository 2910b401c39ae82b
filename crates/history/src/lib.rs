//! One log of operations, and what it says about a service.
//!
//! A [`Log`] has a [`Header`] and [`Operation`]s: requests of clients, with their times and their
//! [`Outcome`]s. The type of the request, [`Action`], lists the keys and the versions that an
//! operation read and wrote. Checks are functions of a log ([`check`]). The simulator, the load
//! generator and outside tools write such logs.
//!
//! Invariants:
//! - an operation returns at or after its call; [`Log::check`] names the first that does
//!   not.
//! - equal times are concurrent: of two operations the first ended before the second only
//!   if its return is less than the second's call.
//!
//! Deliberately absent: files and their formats (`measure`), clocks, randomness.

pub mod check;
mod log;
mod moment;
pub mod object;
mod operation;
mod rule;
mod timeline;
mod violation;

pub use log::{Clock, Header, Log, Order, Unfit};
pub use moment::Moment;
pub use operation::{Access, Action, End, Operation, Outcome, Term};
pub use rule::{Rule, Rules};
pub use timeline::timeline;
pub use violation::Violation;
