//! What a run asks: operations, and their form as requests of SimpleDB.

use std::fmt::{Display, Write};
use std::ops::Range;

use fader_history::object::{Operation, Outcome, Reply, Request, Text, Value, Verb};

use crate::items::Name;

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Reads one item.
    Read,
    /// Writes one item.
    Write,
    /// Reads one item, then writes it if it is still as it was read.
    Modify,
    /// Writes many items.
    Batch,
    /// Reads many items.
    Scan,
}

/// One operation as planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Intent {
    /// What it does.
    pub act: Act,
    /// Which item, which items from the first, or which question it is about.
    pub key: u64,
    /// The stamp it writes or must observe, if it has one.
    pub value: Option<u64>,
    /// At which of the plan's levels.
    pub level: usize,
}

/// What an answer came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// As expected, with the stamp observed, if there is one.
    Right(Option<u64>),
    /// Not as expected.
    Wrong,
}

/// The operations of a run, each a function of its number: any client may take any of them.
pub trait Workload: Send + Sync {
    /// What operation number `sequence` does.
    fn plan(&self, sequence: u64) -> Intent;

    /// Hears of an operation that was done.
    fn done(&self, _intent: &Intent) {}

    /// Hears of every operation that ended; false ends the run.
    fn goes_on(&self, _operation: &Operation) -> bool {
        true
    }
}

/// A workload in the form of SimpleDB's requests and replies.
pub trait Wire: Workload {
    /// Its action.
    fn action(&self) -> &'static str;

    /// Its parameters.
    fn parameters(&self, intent: &Intent, form: &mut Form);

    /// Judges the body of a reply with status 200.
    fn verify(&self, intent: &Intent, body: &[u8]) -> Verdict;

    /// Hears of a reply with another status.
    fn refused(&self, _intent: &Intent, _status: u16, _body: &[u8]) {}
}

impl Intent {
    /// The operation as a request to one object, as it stands in logs; that of [`Act::Modify`] is
    /// the read.
    pub fn request(&self) -> Request {
        let value = self.value.map_or(Value::None, value);
        let key = Name(self.key);
        let (key, verb) = match self.act {
            Act::Read | Act::Modify => (key.to_string(), Verb::Read),
            Act::Write => (key.to_string(), Verb::Write(value)),
            Act::Batch => (format!("batch of {key}"), Verb::Write(value)),
            Act::Scan => (format!("scan of {key}"), Verb::Read),
        };
        Request {
            key: key.into(),
            verb,
        }
    }

    /// Whether it may change something.
    pub fn is_write(&self) -> bool {
        matches!(self.act, Act::Write | Act::Modify | Act::Batch)
    }

    /// The outcome of a judged answer: one that is not as expected says nothing.
    pub(crate) fn outcome(&self, verdict: Verdict) -> Outcome {
        match verdict {
            Verdict::Wrong => Outcome::Unknown,
            Verdict::Right(_) if self.is_write() => Outcome::Done(Reply::default()),
            Verdict::Right(stamp) => Outcome::Done(Reply::shows(stamp.map_or(Value::None, value))),
        }
    }
}

/// A stamp as it stands in logs.
pub(crate) fn value(stamp: u64) -> Value {
    Value::Number(i64::try_from(stamp).unwrap_or(i64::MAX))
}

/// What a service said, or that it said nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// Success.
    Reply(Reply),
    /// A status that is none, with the service's code for it.
    Status(u16, Text),
    /// Nothing: the request was sent, or may have been.
    Silence,
    /// The request was never sent.
    Unsent,
}

impl Heard {
    /// The one way from replies to outcomes. A status from 400 on other than 408 is refused; 408,
    /// 5xx and silence are unknown of a write. A read changes nothing, so its status is kept.
    pub fn outcome(self, is_write: bool) -> Outcome {
        match self {
            Heard::Reply(reply) => Outcome::Done(reply),
            Heard::Status(status, _) if is_write && (status == 408 || 500 <= status) => {
                Outcome::Unknown
            }
            Heard::Status(status, code) if code.is_empty() => {
                Outcome::Refused(status.to_string().into())
            }
            Heard::Status(status, code) => Outcome::Refused(format!("{status} {code}").into()),
            Heard::Silence => Outcome::Unknown,
            Heard::Unsent => Outcome::Refused("not sent".into()),
        }
    }
}

/// Parameters in one growing text, so that building a request allocates nothing once warm.
#[derive(Default)]
pub struct Form {
    text: String,
    pairs: Vec<(Range<usize>, Range<usize>)>,
}

impl Form {
    /// Empties the form.
    pub fn clear(&mut self) {
        self.text.clear();
        self.pairs.clear();
    }

    /// Adds a parameter.
    pub fn push(&mut self, name: impl Display, value: impl Display) {
        let name = self.write(name);
        let value = self.write(value);
        self.pairs.push((name, value));
    }

    /// The parameters in the order in which they were added.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        let text = |range: &Range<usize>| &self.text[range.clone()];
        self.pairs
            .iter()
            .map(move |(name, value)| (text(name), text(value)))
    }

    fn write(&mut self, part: impl Display) -> Range<usize> {
        let start = self.text.len();
        write!(self.text, "{part}").expect("a string takes any text");
        start..self.text.len()
    }
}

#[cfg(test)]
mod tests;
