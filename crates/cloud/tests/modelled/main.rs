//! Clouds, modelled and in buckets. One program, since each would be linked with all.

#![allow(clippy::unwrap_used, reason = "a test may fail here")]

mod bad_input;
mod bucket_domains;
mod bucket_faults;
mod bucket_lists;
mod bucket_meter;
mod bucket_mutants;
mod bucket_queues;
mod conformance;
mod executor;
mod grouped;
mod model_objects;
#[path = "../stage/mod.rs"]
mod stage;
