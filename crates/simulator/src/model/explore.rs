//! Breadth-first search over the states of a scenario.

use fader_chain::Guards;

use super::actions::Action;
use super::ends::Ends;
use super::scenarios::{PreparedScenario, Scenario};
use super::table::{Table, hash};
use super::world::{State, World};

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
        visited: Table::new(),
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
    visited: Table<u32>,
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
        self.visited.insert(hash(&first), 0);
        self.steps.push((0, 0));
        let mut frontier = vec![(0, first)];
        let mut next = Vec::new();
        loop {
            for (number, state) in frontier.drain(..) {
                self.expand(world, number, &state, &mut next)?;
                if limits.states <= self.steps.len() {
                    return Ok(false);
                }
            }
            if next.is_empty() {
                return self.check_ends();
            }
            self.found.depth += 1;
            std::mem::swap(&mut frontier, &mut next);
        }
    }

    /// From every state an end is reached, where one is to be.
    fn check_ends(&self) -> Result<bool, Violation> {
        let lost = self
            .ends
            .as_ref()
            .and_then(|ends| ends.lost(self.steps.len()));
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
        next: &mut Vec<(u32, State)>,
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
            let fresh = self.steps.len() as u32;
            let key = hash(&after);
            let reached = match self.visited.insert(key, fresh) {
                true => {
                    self.steps.push((number, place as u16));
                    next.push((fresh, after));
                    fresh
                }
                false => self.visited.get(key).unwrap_or(fresh),
            };
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
