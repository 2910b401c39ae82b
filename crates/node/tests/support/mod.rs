//! A disk and an engine in memory, as bad as real ones may be.

#![allow(
    dead_code,
    unused_imports,
    reason = "each file of tests asks for a part of it"
)]

mod disk;
mod engine;

pub(crate) use disk::SimulatedDisk;
pub(crate) use engine::MemoryEngine;
