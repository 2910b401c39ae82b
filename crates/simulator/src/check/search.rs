//! G1 as clients see it: is there any order of the strong operations that explains every answer?
//!
//! The search is that of `history`; here is its model. It looks at calls alone, and knows neither
//! entries nor stamps. So it catches what the checks of the log would miss by being wrong as the
//! log is.
//!
//! *The model* (semantics.md, sections 4 and 6) of a register is the set of its pairs.
//! - A strong operation acts at one place between invocation and end, on all its registers. Where
//!   its outcome is unknown it acts as a whole, at any place after its invocation, or never.
//! - An eventual operation has no end, and acts at one place or never. Which of its elements are
//!   superseded depends on stamps, which no client sees. So there it may put any of the values it
//!   adds, and remove any of those it clears.
//!
//! Registers are independent but for operations on several: each connected component is searched
//! alone. An eventual operation is tried only where an answer needs it, which loses nothing. No
//! other operation overwrites an element between its place and the first answer that shows the
//! element. So it may as well act just before that answer; and what was overwritten it need not do.
//!
//! Bounded: at most `effort` states per component, then it gives up and says so.

mod build;
mod model;

use fader_history::Rules;
use fader_history::check::{Found, explore, shortest};
use model::{Bits, Component, Version};

use super::{Violation, Witness};
use crate::history::History;
use crate::service::Service;

/// What a search has found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Searched {
    /// Operations in components for which an order was found.
    pub ordered: usize,
    /// Operations in components that were too much.
    pub given_up: usize,
}

/// Looks for an order of the strong operations, with at most `effort` states per component.
///
/// # Errors
/// G1, with the answers that no order explains.
pub fn search(history: &History, service: Service, effort: usize) -> Result<Searched, Violation> {
    let mut searched = Searched::default();
    for component in build::components(history, service) {
        let component = match component {
            Ok(component) => component,
            Err(calls) => {
                searched.given_up += calls;
                continue;
            }
        };
        let count = component.operations.len();
        match find(&component, effort) {
            Found::Order(_) => searched.ordered += count,
            Found::GaveUp => searched.given_up += count,
            Found::Impossible(_) => return Err(violation(history, component, effort)),
        }
    }
    Ok(searched)
}

/// The shortest part of the run that no order explains, without reads that do not matter.
fn violation(history: &History, mut component: Component, effort: usize) -> Violation {
    let is_end = |end| is_impossible(&component.until(end), effort);
    if let Some(end) = shortest(&component.timed(), is_end) {
        component = component.until(end);
    }
    let mut at = component.operations.len();
    while at > 0 {
        at -= 1;
        if component.operations[at].is_read() {
            let mut less = component.clone();
            less.operations.remove(at);
            if is_impossible(&less, effort) {
                component = less;
            }
        }
    }
    let Found::Impossible(stuck) = find(&component, effort) else {
        unreachable!("what was found impossible with this effort is so again");
    };
    let text = format!(
        "after {} answers none of the others can be next",
        stuck.answered
    );
    let text = format!("{text}, with {{{}}}", component.shown(&stuck.state.0));
    let involved = component
        .operations
        .iter()
        .enumerate()
        .filter(|(at, operation)| {
            stuck.left.contains(at) || operation.is_read() || !operation.is_required()
        });
    let calls = involved.flat_map(|(_, operation)| operation.calls.clone());
    calls.fold(Violation::new("G1 (search)", text), |violation, call| {
        violation.call(history, call)
    })
}

fn find(component: &Component, effort: usize) -> Found<(Bits, Vec<Version>)> {
    explore(component, &component.timed(), effort, &Rules::default())
}

fn is_impossible(component: &Component, effort: usize) -> bool {
    matches!(find(component, effort), Found::Impossible(_))
}

#[cfg(test)]
mod tests;
