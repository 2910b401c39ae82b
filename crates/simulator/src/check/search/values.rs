//! The search on one register that holds one value: reads and conditional writes of a cloud.

use bytes::Bytes;

use super::explore::{Explorer, Verdict};
use super::model::{Action, Bits, Component, Effect, Operation, PAIRS_MAX, Strong, Test, Told};
use crate::history::Moment;

/// A call on a register that holds a value, or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueCall {
    /// When it was sent.
    pub invoked: Moment,
    /// When its outcome was known; `None` if it never was.
    pub ended: Option<Moment>,
    /// What it did.
    pub action: ValueAction,
}

/// What a call on a register does, and what it answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueAction {
    /// It read this value, or none.
    Read(Option<String>),
    /// It writes a value that no other call writes, if the register holds the expected one.
    Write {
        /// What must be there.
        expected: Option<String>,
        /// What it writes.
        value: String,
        /// Whether the condition held; of no account if the outcome is unknown.
        held: bool,
    },
}

/// Whether some order of the calls explains every answer; `None` if `effort` states did not decide
/// it.
///
/// # Errors
/// The calls that none of the orders explains.
pub fn search_values(calls: &[ValueCall], effort: usize) -> Result<Option<usize>, Vec<ValueCall>> {
    let mut values: Vec<&String> = calls.iter().flat_map(ValueCall::values).collect();
    values.sort_unstable();
    values.dedup();
    if PAIRS_MAX < values.len() {
        return Ok(None);
    }
    let bit = |value: &String| {
        values
            .binary_search(&value)
            .map(Bits::one)
            .unwrap_or_default()
    };
    let shown = |value: &Option<String>| value.as_ref().map(bit).unwrap_or_default();
    let all = (0..values.len()).fold(Bits::default(), |all, at| all.or(Bits::one(at)));
    let operation = |(at, call): (usize, &ValueCall)| Operation {
        calls: vec![at],
        invoked: call.invoked,
        ended: call.ended,
        action: Action::Strong(call.strong(all, bit, shown)),
    };
    let mut indexed: Vec<(usize, &ValueCall)> = calls.iter().enumerate().collect();
    indexed
        .retain(|(_, call)| call.ended.is_some() || !matches!(call.action, ValueAction::Read(_)));
    indexed.sort_by_key(|(_, call)| call.invoked);
    let name = |value: &&String| (Bytes::new(), Bytes::new(), Bytes::from((*value).clone()));
    let component = Component {
        operations: indexed.into_iter().map(operation).collect(),
        keys: vec![all],
        names: values.iter().map(name).collect(),
        versioned: vec![false],
        pairs_max: 1,
    };
    match Explorer::new(&component, effort).run() {
        Verdict::Ordered => Ok(Some(component.operations.len())),
        Verdict::GaveUp => Ok(None),
        Verdict::Impossible(_) => {
            let component = super::shortest(component, effort);
            let kept = component.operations.iter().map(|one| one.calls[0]);
            Err(kept.map(|at| calls[at].clone()).collect())
        }
    }
}

impl ValueCall {
    fn values(&self) -> impl Iterator<Item = &String> {
        let (one, other) = match &self.action {
            ValueAction::Read(value) => (value.as_ref(), None),
            ValueAction::Write {
                expected, value, ..
            } => (expected.as_ref(), Some(value)),
        };
        one.into_iter().chain(other)
    }

    fn strong(
        &self,
        all: Bits,
        bit: impl Fn(&String) -> Bits,
        shown: impl Fn(&Option<String>) -> Bits,
    ) -> Strong {
        let (conditions, reads, writes, told) = match &self.action {
            ValueAction::Read(value) => (vec![], vec![0], vec![], Told::Done(vec![shown(value)])),
            ValueAction::Write {
                expected,
                value,
                held,
            } => {
                let test = expected
                    .as_ref()
                    .map_or(Test::Absent, |value| Test::Has(bit(value)));
                let effect = Effect {
                    key: 0,
                    drops: all,
                    adds: bit(value),
                };
                let told = match held {
                    true => Told::Done(vec![]),
                    false => Told::ConditionFailed,
                };
                (vec![(0, test)], vec![], vec![effect], told)
            }
        };
        Strong {
            conditions,
            reads,
            writes,
            answer: self.ended.map(|_| told),
            entry: None,
        }
    }
}

#[cfg(test)]
mod tests;
