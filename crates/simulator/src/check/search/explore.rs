//! The search itself, over the states of one component.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use fader_chain::EntryId;

use super::model::{Action, Bits, Component, Strong, Told};
use crate::history::Moment;

/// Subsets of more pairs than this are not tried.
const FLIPS_MAX: usize = 8;

/// The entry that last changed a register, if a client knows it.
pub(super) type Version = Option<EntryId>;

/// How a search ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// An order was found.
    Ordered,
    /// There is none.
    Impossible(Stuck),
    /// Too many states.
    GaveUp,
}

/// The farthest point of a search that failed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Stuck {
    /// Answers explained.
    pub(super) answered: usize,
    /// The pairs that are there.
    pub(super) state: Bits,
    /// Operations that might be next, but for their answers.
    pub(super) left: Vec<usize>,
}

/// Some of the operations.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Set(Vec<u64>);

impl Set {
    fn has(&self, operation: usize) -> bool {
        self.0[operation / 64] & 1 << (operation % 64) != 0
    }

    fn insert(&mut self, operation: usize) {
        self.0[operation / 64] |= 1 << (operation % 64);
    }

    fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    fn is_within(&self, other: &Set) -> bool {
        self.0
            .iter()
            .zip(&other.0)
            .all(|(one, other)| one & !other == 0)
    }
}

/// Operations done, and what they come to.
#[derive(Clone, Debug)]
struct Node {
    /// Those that the order must contain.
    answered: Set,
    /// The others.
    used: Set,
    state: Bits,
    versions: Vec<Version>,
}

pub(super) struct Explorer<'a> {
    component: &'a Component,
    effort: usize,
    /// States reached, by what they have answered, with what they have used: who has used less can
    /// do all that the others can.
    visited: BTreeMap<(Set, Bits, Vec<Version>), Vec<Set>>,
    visits: usize,
    open: Vec<Node>,
    stuck: Stuck,
    /// Whether something was left out that could have led to an order.
    is_incomplete: bool,
}

impl Node {
    fn has(&self, operation: usize) -> bool {
        self.answered.has(operation) || self.used.has(operation)
    }
}

impl<'a> Explorer<'a> {
    pub(super) fn new(component: &'a Component, effort: usize) -> Self {
        let none = Set(vec![0; component.operations.len().div_ceil(64)]);
        let first = Node {
            answered: none.clone(),
            used: none,
            state: Bits::default(),
            versions: vec![None; component.keys.len()],
        };
        Explorer {
            component,
            effort,
            visited: BTreeMap::new(),
            visits: 0,
            open: vec![first],
            stuck: Stuck::default(),
            is_incomplete: false,
        }
    }

    pub(super) fn run(mut self) -> Verdict {
        while let Some(node) = self.open.pop() {
            if self.visits > self.effort {
                return Verdict::GaveUp;
            }
            let next = self.next(&node);
            if next.is_empty() {
                return Verdict::Ordered;
            }
            self.expand(&node, &next);
        }
        match self.is_incomplete {
            true => Verdict::GaveUp,
            false => Verdict::Impossible(self.stuck),
        }
    }

    /// Opens every node that may come after `node`.
    fn expand(&mut self, node: &Node, next: &[usize]) {
        let strong = |at: &usize| match &self.component.operations[*at].action {
            Action::Strong(strong) => Some((*at, strong)),
            Action::Eventual(_) => None,
        };
        let candidates: Vec<(usize, &Strong)> = next.iter().filter_map(strong).collect();
        let answers = |strong: &Strong| strong.answers(self.component, node.state, &node.versions);
        let fits = |strong: &Strong| {
            let told = strong.answer.as_ref();
            told.is_none_or(|told| answers(strong).contains(told))
        };
        // Where it is right, what changes nothing may as well be next.
        let at_once = candidates.iter().find(|(_, strong)| {
            strong.answer.is_some() && strong.changes_nothing() && fits(strong)
        });
        if let Some((at, _)) = at_once {
            let mut child = node.clone();
            child.answered.insert(*at);
            self.push(child);
            return;
        }
        let answered = node.answered.count();
        if self.stuck.left.is_empty() || self.stuck.answered < answered {
            let required = candidates
                .iter()
                .filter(|(_, strong)| strong.answer.is_some());
            self.stuck = Stuck {
                answered,
                state: node.state,
                left: required.map(|(at, _)| *at).collect(),
            };
        }
        // The last to be opened is the first to be expanded: what ended first.
        let mut acting = Vec::new();
        for (at, strong) in candidates {
            let may_act = match strong.answer {
                Some(_) => fits(strong),
                None => answers(strong)
                    .iter()
                    .any(|one| matches!(one, Told::Done(_))),
            };
            if may_act {
                acting.push((self.component.operations[at].ended, at, strong));
            } else {
                self.mend(node, strong, next);
            }
        }
        acting.sort_by_key(|(ended, at, _)| (ended.is_some(), Reverse((*ended, *at))));
        for (_, at, strong) in acting {
            self.push(self.done(node, at, strong));
        }
    }

    /// Operations none of whose predecessors in real time is left; none if every answer is
    /// explained.
    fn next(&self, node: &Node) -> Vec<usize> {
        let mut first_end: Option<Moment> = None;
        let mut next = Vec::new();
        for (at, operation) in self.component.operations.iter().enumerate() {
            if first_end.is_some_and(|end| end < operation.invoked) {
                break;
            }
            if !node.has(at) {
                if !self.is_twin(&next, at) {
                    next.push(at);
                }
                first_end = [first_end, operation.ended].into_iter().flatten().min();
            }
        }
        if first_end.is_none() {
            next.clear();
        }
        next
    }

    /// Whether an operation without an end does just what one among `others` does, which may as
    /// well be used first.
    fn is_twin(&self, others: &[usize], at: usize) -> bool {
        let operation = &self.component.operations[at];
        let mut others = others
            .iter()
            .map(|other| &self.component.operations[*other]);
        operation.ended.is_none()
            && others.any(|other| other.ended.is_none() && other.action == operation.action)
    }

    /// Lets one eventual operation act, as the answer of `strong` needs it.
    fn mend(&mut self, node: &Node, strong: &Strong, next: &[usize]) {
        let keys = strong.keys();
        let mismatch = strong.mismatch(self.component, node.state);
        for at in next {
            let Action::Eventual(effect) = &self.component.operations[*at].action else {
                continue;
            };
            if !keys.contains(&effect.key) {
                continue;
            }
            let flips = effect.flips(node.state);
            match mismatch {
                Some(mismatch) => {
                    let first = mismatch.singles().next().unwrap_or_default();
                    let flips = flips.and(mismatch);
                    if !flips.and(first).is_empty() {
                        self.push(flipped(node, *at, flips));
                    }
                }
                None => self.flip_any(node, *at, flips),
            }
        }
    }

    /// Every part of what an eventual operation might do here.
    fn flip_any(&mut self, node: &Node, at: usize, flips: Bits) {
        let singles: Vec<Bits> = flips.singles().collect();
        if singles.len() > FLIPS_MAX {
            self.is_incomplete = true;
            return;
        }
        for subset in 1_u32..1 << singles.len() {
            let chosen = singles
                .iter()
                .enumerate()
                .filter(|(bit, _)| subset & 1 << bit != 0);
            let flips = chosen.fold(Bits::default(), |flips, (_, one)| flips.or(*one));
            self.push(flipped(node, at, flips));
        }
    }

    /// Opens a node, unless one like it that has used no more was opened before.
    fn push(&mut self, node: Node) {
        let key = (node.answered.clone(), node.state, node.versions.clone());
        let known = self.visited.entry(key).or_default();
        if known.iter().any(|used| used.is_within(&node.used)) {
            return;
        }
        known.retain(|used| !node.used.is_within(used));
        known.push(node.used.clone());
        self.visits += 1;
        self.open.push(node);
    }

    /// After a strong operation whose conditions hold.
    fn done(&self, node: &Node, at: usize, strong: &Strong) -> Node {
        let mut child = node.clone();
        match strong.answer {
            Some(_) => child.answered.insert(at),
            None => child.used.insert(at),
        }
        for effect in &strong.writes {
            child.state = effect.on(child.state);
            if self.component.versioned[effect.key] {
                child.versions[effect.key] = strong.entry;
            }
        }
        child
    }
}

/// After an eventual operation that changed these pairs.
fn flipped(node: &Node, at: usize, flips: Bits) -> Node {
    let mut child = node.clone();
    child.used.insert(at);
    child.state = child.state.differing(flips);
    child
}
