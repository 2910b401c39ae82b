//! Services with a limited capacity and the clients that look for it, in virtual time.
//!
//! A [`Scenario`] is a service, how it changes and what is asked of it; an [`Algorithm`] is what
//! clients do. [`measure`] runs one with the other: the same seed gives every algorithm the same
//! service times, as far as the order of requests allows.
//!
//! Deliberately absent: bandwidth (requests are small), connections (there are always enough),
//! clients that fail.

mod aws;
mod chance;
mod client;
mod limiter;
mod network;
mod scenario;
mod service;
mod threads;
mod windowed;

pub use client::{ALGORITHMS, Algorithm};
pub use network::{Measured, measure};
pub use scenario::{Change, HOLDOUT, Kind, OfferedLoad, Refusal, SCENARIOS, Scenario, Shape};

#[cfg(test)]
mod tests;
