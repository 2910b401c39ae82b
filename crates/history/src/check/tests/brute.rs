//! A search that tries every order of every part of the operations.

use crate::check::{Model, Timed};

/// Whether some order explains every answer.
pub(super) fn is_possible<M: Model>(model: &M, operations: &[Timed<M::Operation>]) -> bool {
    let left: Vec<&Timed<M::Operation>> = operations.iter().collect();
    order(model, &left, &model.initial())
}

fn order<M: Model>(model: &M, left: &[&Timed<M::Operation>], state: &M::State) -> bool {
    if !left.iter().any(|one| one.is_required()) {
        return true;
    }
    (0..left.len()).any(|at| {
        let mut rest = left.to_vec();
        let one = rest.remove(at);
        let is_late = rest
            .iter()
            .any(|other| other.returned.is_some_and(|end| end < one.called));
        let states = model.after(state, &one.operation);
        !is_late && states.iter().any(|state| order(model, &rest, state))
    })
}
