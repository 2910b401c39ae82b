//! The congestion window around any client: each request waits for its turn in its lane, and how
//! it ended tells the window. `docs/explanation/congestion-window.md` has the why.
//!
//! ```text
//!  request ──▶ Limiter::run ──turn──▶ attempt ──verdict──▶ window
//!                   ▲                      │
//!                   └── behind the others ◀┘  refused, or failed and repeatable: up to 5 attempts
//! ```
//!
//! A [`Limiter`] holds the windows of all lanes behind a lock, and a timer while anything waits.
//! It needs a tokio runtime, and runs requests on the tasks of those who make them.
//!
//! Invariants:
//! - LIMIT-1 an attempt begins only after its turn was called, and is reported once; a request that
//!   is dropped gives its place back.
//! - LIMIT-2 what may have taken effect and is not repeatable is never attempted again.
//!
//! [`WindowLayer`] puts all of it around any [tower](https://docs.rs/tower) service; what it must
//! know of requests and replies a [`Classify`] tells it, for plain HTTP [`ByMethod`].
//!
//! Deliberately absent: connections; hedging.

mod attempts;
mod http;
mod layer;
mod limiter;

pub use attempts::{RequestResult, Verdict};
pub use http::{ByMethod, HostLane, judge_reply};
pub use layer::{Classify, Error, WindowLayer, Windowed};
pub use limiter::{Limiter, LimiterRequest, Ticket};

#[cfg(test)]
mod tests;
