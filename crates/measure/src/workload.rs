//! What a run asks and what must come back.

use std::fmt::{Display, Write};
use std::ops::Range;

use crate::log::Kind;

/// One operation as planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Intent {
    /// What it does.
    pub kind: Kind,
    /// Which item or question it is about.
    pub key: u64,
    /// The stamp it writes or must observe, if it has one.
    pub value: Option<u64>,
}

/// What an answer came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// As expected, with the stamp observed, if there is one.
    Right(Option<u64>),
    /// Not as expected.
    Wrong,
}

/// The operations of a run, each a function of its number: any connection may take any of them.
pub trait Workload: Send + Sync {
    /// What operation number `sequence` does.
    fn plan(&self, sequence: u64) -> Intent;

    /// Its action.
    fn action(&self) -> &'static str;

    /// Its parameters.
    fn parameters(&self, intent: &Intent, form: &mut Form);

    /// Judges the body of a reply with status 200.
    fn verify(&self, intent: &Intent, body: &[u8]) -> Verdict;
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
