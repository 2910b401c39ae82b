//! Any executable as a mapper or reducer, as Hadoop Streaming has it: lines in, lines out.
//!
//! ```text
//!  records ─▶ │ mapper │ ─▶ key, value ─▶ shuffle ─▶ │ reducer │ ─▶ part
//!        stdin        stdout                  stdin          stdout
//! ```
//!
//! [`parse`] reads Hadoop's arguments. [`Library`] opens what came of them as the code of a job.
//! The meaning is Hadoop 3.4's: `hadoop-mapreduce-client-core` (partitions, comparators) and
//! `hadoop-streaming` (lines, separators, environment).
//!
//! `arguments`, `settings`, `keys` and `lines` are pure: words to a program, keys to their order
//! and partition, lines to pairs. `process`, `folder` and `code` are the shell: a child process for
//! each object of a map attempt and for each reduce attempt, in a folder of its own.

mod arguments;
mod code;
mod folder;
mod keys;
mod lines;
mod process;
mod program;
mod settings;

pub use arguments::{ArgumentError, Job, parse};
pub use code::Library;
pub use program::{FILES_BYTES_MAX, PROGRAM, Streaming};
