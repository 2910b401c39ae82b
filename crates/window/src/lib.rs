//! The congestion window: how many requests may be in flight to a service, and when the next may
//! leave. `docs/explanation/congestion-window.md` has the why and the figures.
//!
//! A caller submits requests and reports how attempts ended; a [`Window`] says when to send and
//! when to give up. The contract: `step`, perform the effects in order, step again at the latest
//! when `wake_at` says. [`Windows`] keeps one for each host and class of operations.
//!
//! Invariants: no request is sent while the limit is in flight. A permit is given back by a report
//! or a cancellation, once. As long as requests wait, a send is at most `wake_at` or a report away.
//!
//! Deliberately absent: sockets, clocks, threads; chance but from a seed; hedging.

mod adaptive;
mod aimd;
mod budget;
mod controller;
mod delay;
mod message;
mod queue;
mod small_window;
mod window;
mod windows;

pub use controller::Rule;
pub use message::{Effect, Input, Outcome, Request, RequestError, RequestId, Time};
pub use window::{Counts, Settings, State, Window};
pub use windows::Windows;

#[cfg(test)]
mod tests;
