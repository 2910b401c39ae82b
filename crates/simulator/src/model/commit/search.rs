//! Breadth first over the states of a scope, then backwards from the ends.

use fader_chain::Guards;

use super::{CommitScope, Model, Pending, State, Step};
use crate::model::ends::Ends;
use crate::model::explore::{Found, Limits, Outcome};
use crate::model::table::{Table, hash};

/// Searches `scope` with these guards in place.
pub(in crate::model) fn explore(scope: &CommitScope, guards: &Guards, limits: Limits) -> Found {
    let mut search = Search {
        model: Model::new(scope, guards),
        steps: vec![(0, Step::Settle)],
        visited: Table::new(),
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

struct Search {
    model: Model,
    /// By a state's number: the state before, and the step from it.
    steps: Vec<(u32, Step)>,
    visited: Table<u32>,
    ends: Ends,
    transitions: usize,
    depth: usize,
}

impl Search {
    /// Level by level; whether it came to the end.
    fn run(&mut self, limits: Limits) -> Result<bool, (String, u32)> {
        let first = self.model.first();
        self.visited.insert(key_of(&first), 0);
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
        state: &State,
        next: &mut Vec<(u32, State)>,
    ) -> Result<(), (String, u32)> {
        self.model.check(state).map_err(|what| (what, number))?;
        if self.model.is_clean(state) {
            self.ends.end(number);
        }
        for step in self.model.steps(state) {
            let after = self.model.take(state, step);
            self.transitions += 1;
            let key = key_of(&after);
            let fresh = self.steps.len() as u32;
            let reached = match self.visited.insert(key, fresh) {
                true => {
                    self.steps.push((number, step));
                    next.push((fresh, after));
                    fresh
                }
                false => self.visited.get(key).unwrap_or(fresh),
            };
            if step.is_due() {
                self.ends.step(number, reached);
            }
        }
        Ok(())
    }

    /// The way to a state, one step a line.
    fn trace(&self, mut at: u32) -> String {
        let mut steps = Vec::new();
        while at != 0 {
            let (before, step) = self.steps[at as usize];
            steps.push(format!("{step:?}"));
            at = before;
        }
        steps.reverse();
        steps.join("\n")
    }
}

/// What two states differ in.
fn key_of(state: &State) -> u64 {
    let State {
        rows,
        pending,
        uploads,
        asked,
        told,
        dropping,
        puts,
        heads,
        deletes,
        version_deletes,
        remakes,
        notes,
        completions,
    } = state;
    let (mut asked, mut told) = (asked.clone(), told.clone());
    asked.sort_unstable();
    told.sort_unstable_by_key(|(at, number, fate)| (*at, *number, *fate as u8));
    let told: Vec<(usize, u64, u8)> = told
        .into_iter()
        .map(|(at, number, fate)| (at, number, fate as u8))
        .collect();
    let rows: Vec<_> = rows.iter().collect();
    let of_pending = |it: &Pending| {
        let before: Vec<_> = it.before.iter().collect();
        hash(&(before, it.step, format!("{:?}", it.effect)))
    };
    let pending: Vec<u64> = pending.iter().map(of_pending).collect();
    let dropping = format!("{dropping:?}");
    let counts = (
        puts,
        heads,
        deletes,
        version_deletes,
        remakes,
        notes,
        completions,
    );
    hash(&(rows, pending, uploads, asked, told, dropping, counts))
}
