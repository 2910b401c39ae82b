//! Breadth first over the states of a model of few steps, then backwards from the ends.

use super::ends::Ends;
use super::explore::{Found, Limits, Outcome};
use super::table::Numbers;

/// What goes on by steps.
pub(super) trait Stepped {
    type State;
    type Step: Copy + std::fmt::Debug;

    /// The steps that can be taken from a state.
    fn steps(&self, state: &Self::State) -> Vec<Self::Step>;

    fn take(&self, state: &Self::State, step: Self::Step) -> Self::State;
}

/// What can be searched.
pub(super) trait Searched: Stepped {
    fn first(&self) -> Self::State;

    /// What is wrong with a state.
    fn check(&self, state: &Self::State) -> Result<(), String>;

    /// Whether a step is taken sooner or later, with any clients and faults.
    fn is_due(&self, step: Self::Step) -> bool;

    /// Whether there is nothing that is to go. From each state steps that are due lead to one.
    fn is_end(&self, state: &Self::State) -> bool;

    /// What two states differ in.
    fn key(&self, state: &Self::State) -> u64;
}

/// Searches all states of a model.
pub(super) fn search<M: Searched>(model: &M, limits: Limits) -> Found {
    let mut search = Search {
        model,
        steps: Vec::new(),
        visited: Numbers::new(),
        ends: Ends::default(),
        transitions: 0,
        depth: 0,
    };
    let outcome = match search.run(limits) {
        Ok(true) => match search.ends.lost(search.steps.len()) {
            None => Outcome::Exhausted,
            Some(at) => Outcome::Violated {
                what: "no step of collectors leads to the end from here".to_owned(),
                trace: search.trace(at),
            },
        },
        Ok(false) => Outcome::CutOff,
        Err((what, at)) => Outcome::Violated {
            what,
            trace: search.trace(at),
        },
    };
    Found {
        outcome,
        states: search.steps.len(),
        transitions: search.transitions,
        depth: search.depth,
        sizes: String::new(),
    }
}

struct Search<'a, M: Searched> {
    model: &'a M,
    /// By a state's number: the state before, and the step from it; none of the first.
    steps: Vec<Option<(u32, M::Step)>>,
    visited: Numbers,
    ends: Ends,
    transitions: usize,
    depth: usize,
}

impl<M: Searched> Search<'_, M> {
    /// Level by level; whether it came to the end.
    fn run(&mut self, limits: Limits) -> Result<bool, (String, u32)> {
        let first = self.model.first();
        self.visited.put(self.model.key(&first));
        self.steps.push(None);
        let mut frontier = vec![(0, first)];
        let mut next = Vec::new();
        loop {
            for (number, state) in frontier.drain(..) {
                self.expand(number, &state, &mut next)?;
                if limits.states <= self.steps.len() {
                    return Ok(false);
                }
            }
            if next.is_empty() {
                return Ok(true);
            }
            self.depth += 1;
            std::mem::swap(&mut frontier, &mut next);
        }
    }

    fn expand(
        &mut self,
        number: u32,
        state: &M::State,
        next: &mut Vec<(u32, M::State)>,
    ) -> Result<(), (String, u32)> {
        self.model.check(state).map_err(|what| (what, number))?;
        if self.model.is_end(state) {
            self.ends.end(number);
        }
        for step in self.model.steps(state) {
            let after = self.model.take(state, step);
            self.transitions += 1;
            let (reached, is_new) = self.visited.put(self.model.key(&after));
            if is_new {
                self.steps.push(Some((number, step)));
                next.push((reached, after));
            }
            if self.model.is_due(step) {
                self.ends.step(number, reached);
            }
        }
        Ok(())
    }

    /// The way to a state, one step a line.
    fn trace(&self, mut at: u32) -> String {
        let mut steps = Vec::new();
        while let Some((before, step)) = self.steps[at as usize] {
            steps.push(format!("{step:?}"));
            at = before;
        }
        steps.reverse();
        steps.join("\n")
    }
}
