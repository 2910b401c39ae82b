//! Breadth-first search over the states of a scenario.

use std::collections::VecDeque;

use fader_chain::Guards;

use super::actions::Action;
use super::ends::Ends;
use super::scenarios::{PreparedScenario, Scenario};
use super::table::{Numbers, hash};
use super::world::{PackedState, State, World};

/// When a search is cut off.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// States visited.
    pub states: usize,
}

/// How a search ended.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// Every state was visited.
    Exhausted,
    /// The limit was met first.
    CutOff,
    /// Something that must not happen happened.
    Violated {
        /// What.
        what: String,
        /// The steps to it, one a line.
        trace: String,
    },
}

/// What a search found.
#[derive(Clone, Debug)]
pub struct Found {
    /// How it ended.
    pub outcome: Outcome,
    /// States visited.
    pub states: usize,
    /// Steps taken between them.
    pub transitions: usize,
    /// The length of the longest shortest way to a state.
    pub depth: usize,
    /// How many different parts the states are made of.
    pub sizes: String,
}

/// Searches `scenario` with these guards in place.
pub fn explore(scenario: &Scenario, guards: &Guards, limits: Limits) -> Found {
    let mut world = World::new(PreparedScenario::new(scenario, guards));
    let mut search = Search {
        found: Found {
            outcome: Outcome::Exhausted,
            states: 0,
            transitions: 0,
            depth: 0,
            sizes: String::new(),
        },
        steps: Vec::new(),
        visited: Numbers::new(),
        ends: scenario.bytes.map(|_| Ends::default()),
    };
    let searched = search.run(&mut world, limits);
    let mut found = search.found;
    found.states = search.steps.len();
    found.sizes = world.sizes();
    match searched {
        Ok(true) => {}
        Ok(false) => found.outcome = Outcome::CutOff,
        Err(Violation { what, at, last }) => {
            let trace = trace(&mut world, &search.steps, at, last);
            found.outcome = Outcome::Violated { what, trace };
        }
    }
    found
}

/// What went wrong after which state, by which step if by one.
struct Violation {
    what: String,
    at: u32,
    last: Option<Action>,
}

struct Search {
    found: Found,
    /// By a state's number: the state before, and the place of the step among those it allows.
    steps: Vec<(u32, u16)>,
    visited: Numbers,
    /// In scenarios from every state of which an end is to be reached: the steps that are due.
    ends: Option<Ends>,
}

impl Search {
    /// Level by level; whether it came to the end.
    fn run(&mut self, world: &mut World, limits: Limits) -> Result<bool, Violation> {
        let first = world.first().map_err(|what| Violation {
            what,
            at: 0,
            last: None,
        })?;
        self.visited.put(hash(&first));
        self.steps.push((0, 0));
        // By number: each state is behind those that were found before.
        let mut frontier = VecDeque::from([world.pack(&first)]);
        let mut level = 1;
        let mut number = 0;
        while let Some(state) = frontier.pop_front() {
            if number == level {
                self.found.depth += 1;
                level = self.visited.len();
            }
            let state = world.unpack(&state);
            self.expand(world, number as u32, &state, &mut frontier)?;
            if limits.states <= self.visited.len() {
                return Ok(false);
            }
            number += 1;
        }
        self.check_ends()
    }

    /// From every state an end is reached, where one is to be.
    fn check_ends(&mut self) -> Result<bool, Violation> {
        let states = self.visited.len();
        let lost = self.ends.as_mut().and_then(|ends| ends.lost(states));
        match lost {
            None => Ok(true),
            Some(at) => Err(Violation {
                what: "no step of members and collectors leads to the end from here".to_owned(),
                at,
                last: None,
            }),
        }
    }

    fn expand(
        &mut self,
        world: &mut World,
        number: u32,
        state: &State,
        frontier: &mut VecDeque<PackedState>,
    ) -> Result<(), Violation> {
        if let Some(ends) = self.ends.as_mut().filter(|_| world.is_end(state)) {
            ends.end(number);
        }
        let mut is_at_rest = true;
        let mut actions = Vec::new();
        world.actions(state, &mut actions);
        for (place, action) in actions.into_iter().enumerate() {
            let after = world.after(state, action).map_err(|what| Violation {
                what,
                at: number,
                last: Some(action),
            })?;
            let Some(after) = after else { continue };
            let is_due = world.is_due(action);
            is_at_rest &= !is_due;
            self.found.transitions += 1;
            let (reached, is_new) = self.visited.put(hash(&after));
            if is_new {
                self.steps.push((number, place as u16));
                frontier.push_back(world.pack(&after));
            }
            if let Some(ends) = self.ends.as_mut().filter(|_| is_due) {
                ends.step(number, reached);
            }
        }
        if is_at_rest {
            world.check_rest(state).map_err(|what| Violation {
                what,
                at: number,
                last: None,
            })?;
        }
        Ok(())
    }
}

/// The way to a violation, told step by step.
fn trace(world: &mut World, steps: &[(u32, u16)], at: u32, last: Option<Action>) -> String {
    let mut way = Vec::new();
    let mut number = at;
    while number != 0 {
        let (before, place) = steps[number as usize];
        way.push(place);
        number = before;
    }
    let mut lines = Vec::new();
    let Ok(mut state) = world.first() else {
        return String::new();
    };
    let mut actions = Vec::new();
    for place in way.into_iter().rev() {
        world.actions(&state, &mut actions);
        let action = actions[usize::from(place)];
        lines.push(world.describe_action(action));
        if let Ok(Some(after)) = world.after(&state, action) {
            state = after;
        }
        lines.push(world.describe(&state));
    }
    lines.extend(last.map(|action| world.describe_action(action)));
    lines.join("\n")
}
