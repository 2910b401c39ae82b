//! The operation log: what was meant, sent and heard, one record for each operation.
//!
//! Times are nanoseconds since the run's start by the monotonic clock. On disk the log is JSON
//! lines: the header, then one operation a line, in the order in which they ended per session.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};

use serde::{Deserialize, Serialize};

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Reads one item.
    Get,
    /// Writes one item.
    Put,
    /// Writes many items.
    BatchPut,
    /// Searches.
    Select,
}

/// How an operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Answered, and the answer is the one expected.
    Done,
    /// Answered with success, but not with what was expected.
    Wrong,
    /// Refused with this HTTP status.
    Refused(u16),
    /// Sent or not, without an answer: a write may have happened.
    Lost,
}

/// One operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation {
    /// The connection that carried it.
    pub session: u32,
    /// What it does.
    pub kind: Kind,
    /// How it ended.
    pub outcome: Outcome,
    /// When it was meant to start; in a closed loop, when it started.
    pub intended_ns: u64,
    /// When it started.
    pub start_ns: u64,
    /// When its answer was complete.
    pub end_ns: u64,
    /// Which item or question it is about.
    pub key: u64,
    /// The stamp written or observed, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<u64>,
}

/// A run's operations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Log {
    /// What ran.
    pub name: String,
    /// The run's start, in nanoseconds since 1970.
    pub start_unix_ns: u64,
    /// How long operations were started.
    pub elapsed_ns: u64,
    /// Refusals by the reason that Fader's header `x-fader-reason` names, else by the status.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub refusals: BTreeMap<String, u64>,
    /// The operations.
    #[serde(skip)]
    pub operations: Vec<Operation>,
}

impl Operation {
    /// From the intended start to the answer: what a client that must not wait would have seen.
    pub fn response_ns(&self) -> u64 {
        self.end_ns - self.intended_ns
    }

    /// From the actual start to the answer.
    pub fn service_ns(&self) -> u64 {
        self.end_ns - self.start_ns
    }
}

impl Log {
    /// Operations that did not end as they should have.
    pub fn errors(&self) -> u64 {
        let is_error = |operation: &&Operation| operation.outcome != Outcome::Done;
        self.operations.iter().filter(is_error).count() as u64
    }

    /// Writes the log as JSON lines.
    pub fn write(&self, mut out: impl Write) -> io::Result<()> {
        serde_json::to_writer(&mut out, self)?;
        out.write_all(b"\n")?;
        for operation in &self.operations {
            serde_json::to_writer(&mut out, operation)?;
            out.write_all(b"\n")?;
        }
        out.flush()
    }

    /// Reads what [`Log::write`] wrote.
    pub fn read(input: impl BufRead) -> io::Result<Log> {
        let mut lines = input.lines();
        let header = lines.next().ok_or(io::ErrorKind::UnexpectedEof)??;
        let mut log: Log = serde_json::from_str(&header)?;
        for line in lines {
            log.operations.push(serde_json::from_str(&line?)?);
        }
        Ok(log)
    }
}
