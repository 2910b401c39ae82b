//! A promise that a run did not keep.

use std::fmt;

use crate::{Action, Moment, Operation};

/// A promise that a run did not keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The promise: its name in docs/internals/protocol, or the check's.
    pub guarantee: &'static str,
    /// What is wrong.
    pub explanation: String,
    /// The operations involved, by their places in the log.
    pub operations: Vec<usize>,
    /// What was involved, in words.
    evidence: Vec<(Moment, String)>,
}

impl Violation {
    /// A violation without evidence yet.
    pub fn new(guarantee: &'static str, explanation: impl Into<String>) -> Self {
        Violation {
            guarantee,
            explanation: explanation.into(),
            operations: Vec::new(),
            evidence: Vec::new(),
        }
    }

    /// With the operation at this place of the log.
    #[must_use]
    pub fn operation<A: Action>(mut self, operations: &[Operation<A>], at: usize) -> Self {
        if !self.operations.contains(&at) {
            let operation = &operations[at];
            self.operations.push(at);
            self.evidence
                .push((operation.called, operation.to_string()));
        }
        self
    }

    /// With the operations at these places of the log.
    #[must_use]
    pub fn operations<A: Action>(
        self,
        operations: &[Operation<A>],
        places: impl IntoIterator<Item = usize>,
    ) -> Self {
        let places = places.into_iter();
        places.fold(self, |violation, at| violation.operation(operations, at))
    }

    /// With a line about something else that happened then.
    #[must_use]
    pub fn line(mut self, at: Moment, line: impl Into<String>) -> Self {
        self.evidence.push((at, line.into()));
        self
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} violated: {}", self.guarantee, self.explanation)?;
        let mut evidence: Vec<_> = self.evidence.iter().collect();
        evidence.sort();
        evidence.dedup();
        evidence
            .into_iter()
            .try_for_each(|(_, line)| write!(f, "\n  {line}"))
    }
}
