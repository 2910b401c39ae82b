//! MapReduce without a master: workers that are all alike, on a cloud's objects, queues and
//! domains.
//!
//! ```text
//!  register ── names the job, decides its end
//!     │
//!  plan ──▶ splits ──▶ map attempts ──▶ runs ──▶ reduce attempts ──▶ parts, _SUCCESS
//!                          └── rows: the first commit of a task wins, for ever ──┘
//! ```
//!
//! It is Cloud MapReduce (Liu and Orban) on today's clouds. Any worker may die at any moment, the
//! submitter too; any worker goes on with what is left.
//!
//! docs/how-to/mapreduce.md has the rules with their reasons; docs/reference/format/shuffle.md the
//! bytes between map and reduce.
//!
//! Deliberately absent: sockets, threads, real clocks ([`fader_cloud::Cloud`] and [`Compute`] have
//! them); streams without an end.

mod attempt;
mod builtin;
mod clean;
mod commit;
mod compute;
mod failure;
mod forecast;
mod guard;
mod input;
mod job;
mod lease;
mod map;
mod merge;
mod messages;
mod mutant;
mod plan;
mod planner;
mod publish;
mod queue;
mod reconcile;
mod reduce;
mod rows;
mod shuffle;
mod sort;
mod status;
mod store;
mod table;
mod user;
mod view;
mod work;
mod worker;

pub use builtin::BuiltIn;
pub use clean::Cleaned;
pub use compute::{Compute, Inline};
pub use failure::{Failure, Outcome};
pub use forecast::{Forecast, forecast, registers};
pub use guard::{Guard, Guards};
pub use input::{Format, Inputs, Pattern, RECORD_BYTES_MAX};
pub use job::{
    Definition, JobId, Lap, Output, PublishedFile, REDUCES_MAX, Register, SHARDS_MAX, State,
    Success, read_success,
};
pub use rows::{Phase, Row, Task};
pub use shuffle::{Codec, Run, Shuffle};
pub use status::{PhaseStatus, Status};
pub use user::{
    Batch, Code, Combine, Combining, Context, Emit, KEY_BYTES_MAX, Library, Map, Part, Program,
    Records, Reduce, VALUE_BYTES_MAX,
};
pub use work::Places;
pub use worker::{Settings, Tools, Worker};
