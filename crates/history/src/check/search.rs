//! Linearizability by search: is there an order of the operations that explains every answer?
//!
//! A search after Wing and Gong with Lowe's memory. An operation may be next if none that is left
//! ended before it was called. A state that was reached before with the same answers given is not
//! searched again. A [`Model`] says what operations do and answer. An operation without an answer
//! acts once, at any place after its call, or never.
//!
//! The problem is NP-complete, so the search is bounded: after `effort` states it gives no verdict.

mod explorer;
pub(super) mod objects;

pub use explorer::{Found, SearchFailure, explore};
use objects::Objects;

use super::{Fault, Levels};
use crate::object::Request;
use crate::{Log, Moment, Rules, Violation};

/// What operations do to a state, and what they may answer.
pub trait Model {
    /// What operations act on.
    type State: Clone + Ord;
    /// What was asked, and what was answered.
    type Operation: PartialEq;

    /// The state before every operation.
    fn initial(&self) -> Self::State;

    /// The states after `operation` acted in `state`: none if its answer does not fit.
    fn after(&self, state: &Self::State, operation: &Self::Operation) -> Vec<Self::State>;

    /// Whether the operation changes no state in which its answer fits.
    fn is_read(&self, operation: &Self::Operation) -> bool;

    /// Whether an operation without an answer may wait until an answer that does not fit needs it.
    /// Sound if no order needs it earlier. That is so if its effect is seen only by the first
    /// answer that differs, as in a register, and not in a queue.
    fn may_wait(&self, _operation: &Self::Operation) -> bool {
        false
    }

    /// The states after `waiting` acted, in whole or in part, so that the answer of `blocked` may
    /// fit. None if there are too many to try.
    fn help(
        &self,
        state: &Self::State,
        _blocked: &Self::Operation,
        waiting: &Self::Operation,
    ) -> Option<Vec<Self::State>> {
        Some(self.after(state, waiting))
    }
}

/// An operation of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timed<O> {
    /// When it was called.
    pub called: Moment,
    /// When its client knew its answer; none if the order need not contain it.
    pub returned: Option<Moment>,
    /// What was asked and answered.
    pub operation: O,
}

impl<O> Timed<O> {
    /// Whether the order must contain it.
    pub fn is_required(&self) -> bool {
        self.returned.is_some()
    }
}

/// What a search of a log has found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Searched {
    /// Keys.
    pub keys: usize,
    /// Operations of keys for which an order was found.
    pub ordered: usize,
    /// Operations of keys without a verdict: the effort was spent.
    pub given_up: usize,
}

/// Judges a log of objects, key by key, with at most `effort` states for each.
///
/// # Errors
/// The key for which there is no order, by a part of its operations that has none; or an operation
/// that returned before its call.
pub fn search(
    log: &Log<Request>,
    levels: Levels<'_, Request>,
    effort: usize,
    rules: &Rules,
) -> Result<Searched, Fault> {
    log.check()?;
    let mut searched = Searched::default();
    for (key, (objects, places)) in objects::of_log(log, levels, rules) {
        searched.keys += 1;
        match explore(&objects, &objects.operations, effort, rules) {
            Found::Order(_) => searched.ordered += objects.operations.len(),
            Found::GaveUp => searched.given_up += objects.operations.len(),
            Found::Impossible(_) => {
                return Err(violation(log, &key, objects, places, effort, rules).into());
            }
        }
    }
    Ok(searched)
}

/// The least part of a key's operations that the search can find and that has no order.
fn violation(
    log: &Log<Request>,
    key: &str,
    mut objects: Objects,
    mut places: Vec<usize>,
    effort: usize,
    rules: &Rules,
) -> Violation {
    let is_impossible = |operations: &[Timed<objects::Act>], objects: &Objects| {
        matches!(
            explore(objects, operations, effort, rules),
            Found::Impossible(_)
        )
    };
    let all = objects.operations.clone();
    if let Some(end) = shortest(&all, |end| is_impossible(&until(&all, end), &objects)) {
        let kept: Vec<usize> = (0..all.len()).filter(|at| all[*at].called <= end).collect();
        objects.operations = until(&all, end);
        places = kept.iter().map(|at| places[*at]).collect();
    }
    // Halves, quarters and so on, from the back, of what may be left out.
    let mut size = objects.operations.len().div_ceil(2);
    while 0 < size {
        let mut end = objects.operations.len();
        while 0 < end {
            let begin = end.saturating_sub(size);
            let keep = |at: usize| !(begin..end).contains(&at) || !objects.may_drop(at);
            let kept: Vec<usize> = (0..objects.operations.len())
                .filter(|at| keep(*at))
                .collect();
            let less: Vec<_> = kept
                .iter()
                .map(|at| objects.operations[*at].clone())
                .collect();
            if less.len() < objects.operations.len() && is_impossible(&less, &objects) {
                objects.operations = less;
                places = kept.iter().map(|at| places[*at]).collect();
            }
            end = begin.min(objects.operations.len());
        }
        size /= 2;
    }
    let state = match explore(&objects, &objects.operations, effort, rules) {
        Found::Impossible(stuck) => format!(
            ": after {} answers it is {}, and no other answer fits",
            stuck.answered, stuck.state
        ),
        _ => String::new(),
    };
    let text = format!("{key}: no order explains the answers{state}");
    Violation::new("linearizability", text).operations(&log.operations, places)
}

/// The operations up to `end`: those called later are left out, and those that returned later have
/// not returned.
pub(super) fn until<O: Clone>(operations: &[Timed<O>], end: Moment) -> Vec<Timed<O>> {
    let called = operations
        .iter()
        .filter(|operation| operation.called <= end);
    let cut = called.map(|operation| Timed {
        returned: operation.returned.filter(|returned| *returned <= end),
        ..operation.clone()
    });
    cut.collect()
}

/// The first return of `operations` up to which they have no order, as `is_impossible` says of a
/// moment.
pub fn shortest<O>(
    operations: &[Timed<O>],
    is_impossible: impl Fn(Moment) -> bool,
) -> Option<Moment> {
    let mut ends: Vec<Moment> = operations.iter().filter_map(|one| one.returned).collect();
    ends.sort_unstable();
    let first = ends.partition_point(|end| !is_impossible(*end));
    ends.get(first).copied()
}
