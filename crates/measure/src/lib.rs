//! Measuring: load of a known shape, a log of every operation, and what the log says.
//!
//! A run is a [`Workload`] (what is asked and what must come back) under a [`Load`] (when it is
//! asked), and yields a [`Log`]. Rates, latencies and intervals are functions of logs.
//!
//! Deliberately absent: correction of latencies after the fact. An open loop takes them from the
//! intended start, a closed loop says what its clients saw and nothing about those that would have
//! come meanwhile.

mod connection;
mod floor;
pub mod formats;
mod generator;
mod items;
mod ledger;
mod log;
mod phases;
mod plot;
mod schedule;
mod simpledb;
mod statistics;
mod summary;
mod workload;

pub use floor::{Constant, Floor, serve_floor};
pub use generator::{Load, Plan, RunError, Target, Until, run, run_through, sample};
pub use items::{DIGITS, Items};
pub use ledger::{COUNT, COUNTER, Checked, Ledger, content};
pub use log::{Kind, Log, Operation, Outcome};
pub use phases::{Phase, Phases, Recording, Sender, THREADS, Way, chart, run as run_phases};
pub use plot::{Axis, Plot, Scale, Series};
pub use schedule::{Arrivals, Schedule, rounds};
pub use simpledb::{BatchPut, Get, Put, Select};
pub use statistics::{Interval, median, ratio_of_medians};
pub use summary::Summary;
pub use workload::{Form, Intent, Verdict, Workload};
