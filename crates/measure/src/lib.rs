//! Measuring: load of a known shape, a log of every operation, and what the log says.
//!
//! A run is a [`Workload`] (what is asked) under a [`Load`] (when it is asked), and yields a log of
//! `fader_history`. Rates, latencies and intervals are functions of logs. One [`Generator`] decides
//! what begins when; [`run`] drives it on raw connections, [`drive`] on any [`Provider`].
//!
//! Deliberately absent: correction of latencies after the fact. An open loop takes them from the
//! intended start. A closed loop says what its clients saw and nothing about those that would have
//! come meanwhile.

pub mod calibrate;
mod compare;
mod connection;
mod curve;
mod domain;
mod drive;
mod floor;
pub mod formats;
mod generator;
mod items;
mod keys;
pub mod model;
mod pacer;
mod phases;
mod plot;
mod providers;
mod run;
mod schedule;
mod simpledb;
pub mod statistics;
mod stress;
mod summary;
mod workload;
mod ycsb;

pub use compare::{Compared, Measure, compare, responses};
pub use curve::{Curve, Point};
pub use domain::{COUNT, COUNTER, DomainLog, Noted, content};
pub use drive::{Party, Provider, drive, drive_all};
pub use floor::{Constant, Floor, serve_floor};
pub use generator::{Generator, Load, Start, Step, Until};
pub use items::{DIGITS, Items, key_of, mix};
pub use keys::{Chooser, Draw, Keys};
pub use phases::{ClientKind, Phase, Phases, Recording, Sender, THREADS, chart, run as run_phases};
pub use plot::{Axis, Boxes, Plot, Scale, Series, Whiskers, timeline};
pub use providers::{
    CONDITIONAL, CreateError, EVENTUAL, Etcd, InDomain, InSimpleDb, Redis, STRONG,
};
pub use run::{ERRORS_MAX, Plan, Ran, RunError, Target, run, sample};
pub use schedule::{Arrivals, Rate, Schedule, Starts, rounds};
pub use simpledb::{BatchPut, Get, Put, Select, acknowledged};
pub use statistics::{Interval, interval_of_median, median, ratio_of_medians};
pub use stress::{Remaining, Stress, Variant};
pub use summary::Summary;
pub use workload::{Act, Form, Heard, Intent, Verdict, Wire, Workload};
pub use ycsb::{FILL_FIRST, Fill, Mix, Ycsb};
