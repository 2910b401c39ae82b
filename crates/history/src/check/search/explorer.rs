//! The search itself.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::{Model, Timed};
use crate::{Moment, Rule, Rules};

/// How a search ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found<State> {
    /// An order: places of operations, the first to act first.
    Order(Vec<usize>),
    /// There is none.
    Impossible(SearchFailure<State>),
    /// Too many states.
    GaveUp,
}

/// The farthest point of a search that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchFailure<State> {
    /// Answers explained.
    pub answered: usize,
    /// The state then.
    pub state: State,
    /// Operations that might be next, but for their answers.
    pub left: Vec<usize>,
}

/// Looks for an order of `operations` with at most `effort` states.
pub fn explore<M: Model>(
    model: &M,
    operations: &[Timed<M::Operation>],
    effort: usize,
    rules: &Rules,
) -> Found<M::State> {
    Explorer::new(model, operations, effort, rules).run()
}

/// Some of the operations that the order must contain: all up to one, and some beyond it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Answered {
    /// All before this place, in the order of calls, are in.
    all: usize,
    /// Places beyond it, in order.
    beyond: Vec<usize>,
}

impl Answered {
    fn has(&self, place: usize) -> bool {
        place < self.all || self.beyond.binary_search(&place).is_ok()
    }

    fn insert(&mut self, place: usize) {
        if let Err(at) = self.beyond.binary_search(&place) {
            self.beyond.insert(at, place);
        }
        let in_row = self.beyond.iter().enumerate();
        let row = in_row
            .take_while(|(at, place)| self.all + at == **place)
            .count();
        self.beyond.drain(..row);
        self.all += row;
    }

    fn count(&self) -> usize {
        self.all + self.beyond.len()
    }
}

/// Operations that acted, and the state that they lead to.
struct Node<State> {
    answered: Answered,
    /// The others that acted, in order.
    used: Vec<usize>,
    state: State,
    /// How it was reached: the place in the trail.
    trail: usize,
}

struct Explorer<'a, M: Model> {
    model: &'a M,
    operations: &'a [Timed<M::Operation>],
    /// Those that the order must contain, by their calls.
    required: Vec<usize>,
    /// The others, by their calls.
    optional: Vec<usize>,
    effort: usize,
    rules: &'a Rules,
    /// States reached, by what they have answered, with what they have used: a state that has used
    /// less can do all that the others can.
    visited: BTreeMap<(Answered, M::State), Vec<Vec<usize>>>,
    visits: usize,
    open: Vec<Node<M::State>>,
    /// Each step: the operation, and the step before it.
    trail: Vec<(usize, usize)>,
    stuck: Option<SearchFailure<M::State>>,
    /// Whether something was left out that could have led to an order.
    is_incomplete: bool,
}

impl<'a, M: Model> Explorer<'a, M> {
    fn new(
        model: &'a M,
        operations: &'a [Timed<M::Operation>],
        effort: usize,
        rules: &'a Rules,
    ) -> Self {
        let mut sorted: Vec<usize> = (0..operations.len()).collect();
        sorted.sort_by_key(|at| operations[*at].called);
        let (required, optional) = sorted
            .into_iter()
            .partition(|at| operations[*at].is_required());
        Explorer {
            model,
            operations,
            required,
            optional,
            effort,
            rules,
            visited: BTreeMap::new(),
            visits: 0,
            open: vec![Node {
                answered: Answered::default(),
                used: Vec::new(),
                state: model.initial(),
                trail: usize::MAX,
            }],
            trail: Vec::new(),
            stuck: None,
            is_incomplete: false,
        }
    }

    fn run(mut self) -> Found<M::State> {
        while let Some(node) = self.open.pop() {
            if node.answered.all == self.required.len() {
                return Found::Order(self.order(node.trail));
            }
            if self.visits > self.effort {
                return Found::GaveUp;
            }
            self.expand(&node);
        }
        match self.stuck {
            Some(stuck) if !self.is_incomplete => Found::Impossible(stuck),
            _ => Found::GaveUp,
        }
    }

    fn order(&self, mut at: usize) -> Vec<usize> {
        let mut order = Vec::new();
        while let Some((operation, before)) = self.trail.get(at) {
            order.push(*operation);
            at = *before;
        }
        order.reverse();
        order
    }

    /// Opens every node that may come after `node`.
    fn expand(&mut self, node: &Node<M::State>) {
        let (required, optional) = self.next(node);
        let (mut acting, mut blocked) = (Vec::new(), Vec::new());
        for place in required {
            let at = self.required[place];
            let operation = &self.operations[at];
            let states = self.model.after(&node.state, &operation.operation);
            if states.is_empty() {
                blocked.push(at);
            } else if self.model.is_read(&operation.operation) {
                // Where its answer fits, an operation that changes nothing may as well be next.
                for state in states {
                    self.answer(node, place, state);
                }
                return;
            } else {
                acting.push((Some(place), at, states));
            }
        }
        let answered = node.answered.count();
        if self
            .stuck
            .as_ref()
            .is_none_or(|stuck| stuck.answered < answered)
        {
            let left = acting.iter().map(|(_, at, _)| *at);
            self.stuck = Some(SearchFailure {
                answered,
                state: node.state.clone(),
                left: blocked.iter().copied().chain(left).collect(),
            });
        }
        let is_waiting = |at: &usize| self.model.may_wait(&self.operations[*at].operation);
        let (waiting, eager): (Vec<usize>, Vec<usize>) = optional.into_iter().partition(is_waiting);
        for at in eager {
            let states = self
                .model
                .after(&node.state, &self.operations[at].operation);
            match states.is_empty() {
                true => blocked.push(at),
                false => acting.push((None, at, states)),
            }
        }
        for at in waiting {
            let waiting = &self.operations[at].operation;
            for blocked in &blocked {
                let blocked = &self.operations[*blocked].operation;
                match self.model.help(&node.state, blocked, waiting) {
                    None => self.is_incomplete = true,
                    Some(states) => {
                        for state in states {
                            self.act(node, at, state);
                        }
                    }
                }
            }
        }
        // The last to be opened is the first to be expanded: the operation that returned first.
        acting.sort_by_key(|(_, at, _)| {
            let returned = self.operations[*at].returned;
            (returned.is_some(), Reverse((returned, *at)))
        });
        for (place, at, states) in acting {
            for state in states {
                match place {
                    Some(place) => self.answer(node, place, state),
                    None => self.act(node, at, state),
                }
            }
        }
    }

    /// Operations none of whose predecessors in real time is left: places among the required ones,
    /// and operations among the others.
    fn next(&self, node: &Node<M::State>) -> (Vec<usize>, Vec<usize>) {
        let mut first_return: Option<Moment> = None;
        let is_late = |first: Option<Moment>, called: Moment| {
            first.is_some_and(|first| first < called) && self.rules.has(Rule::RealTime)
        };
        let mut required = Vec::new();
        for place in node.answered.all..self.required.len() {
            let operation = &self.operations[self.required[place]];
            if is_late(first_return, operation.called) {
                break;
            }
            if !node.answered.has(place) {
                required.push(place);
                first_return = [first_return, operation.returned]
                    .into_iter()
                    .flatten()
                    .min();
            }
        }
        let mut optional: Vec<usize> = Vec::new();
        if !self.rules.has(Rule::UnknownMayAct) {
            return (required, optional);
        }
        for at in &self.optional {
            let operation = &self.operations[*at];
            if is_late(first_return, operation.called) {
                break;
            }
            let is_used = node.used.binary_search(at).is_ok() && self.rules.has(Rule::Once);
            // Of two that do the same the first may as well act first.
            let is_twin = |other: &usize| self.operations[*other].operation == operation.operation;
            if !is_used && !optional.iter().any(is_twin) {
                optional.push(*at);
            }
        }
        (required, optional)
    }

    fn answer(&mut self, node: &Node<M::State>, place: usize, state: M::State) {
        let mut answered = node.answered.clone();
        answered.insert(place);
        self.push(
            node,
            self.required[place],
            answered,
            node.used.clone(),
            state,
        );
    }

    fn act(&mut self, node: &Node<M::State>, at: usize, state: M::State) {
        let mut used = node.used.clone();
        if let Err(place) = used.binary_search(&at) {
            used.insert(place, at);
        }
        self.push(node, at, node.answered.clone(), used, state);
    }

    /// Opens a node, unless one like it that has used no more was opened before.
    fn push(
        &mut self,
        from: &Node<M::State>,
        operation: usize,
        answered: Answered,
        used: Vec<usize>,
        state: M::State,
    ) {
        let key = (answered.clone(), state.clone());
        let known = self.visited.entry(key).or_default();
        if known.iter().any(|known| is_within(known, &used)) {
            return;
        }
        known.retain(|known| !is_within(&used, known));
        known.push(used.clone());
        self.visits += 1;
        self.trail.push((operation, from.trail));
        self.open.push(Node {
            answered,
            used,
            state,
            trail: self.trail.len() - 1,
        });
    }
}

/// Whether `all` contains `some`; both are in order.
fn is_within(some: &[usize], all: &[usize]) -> bool {
    some.len() <= all.len() && some.iter().all(|one| all.binary_search(one).is_ok())
}
