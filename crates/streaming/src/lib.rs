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
//! With `-io frames` programs are spoken to in frames instead (docs/reference/format/frames.md):
//! libraries of other languages use them.
//!
//! `arguments`, `settings`, `keys`, `lines` and `frames` are pure: words to a program, keys to
//! their order and partition, bytes to pairs. `process`, `folder`, `framed` and `code` are the
//! shell: a child process in a folder of its own. There is one for each object of a map attempt and
//! for each reduce attempt; with frames, for each attempt.

mod arguments;
mod code;
mod folder;
mod framed;
mod frames;
mod keys;
mod lines;
mod process;
mod program;
mod settings;

pub use arguments::{ArgumentError, Job, parse};
pub use code::Library;
pub use program::{FILES_BYTES_MAX, Io, PROGRAM, Streaming};
