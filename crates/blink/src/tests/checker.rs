//! An exhaustive breadth-first search over a model's states: the shortest trace to a violation.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::fmt::Debug;
use std::hash::Hash;
use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;

use crate::Page;

/// A system that takes one step at a time, in any order.
pub(crate) trait Model {
    type State: Clone + Eq + Hash;
    type Label: Copy + Debug;
    fn init(&self) -> Self::State;
    /// Every state that may come next.
    fn next(&mut self, state: &Self::State, out: &mut Vec<(Self::Label, Self::State)>);
    /// What must never be, checked in every state.
    fn violation(&self, state: &Self::State) -> Option<&'static str>;
    /// What must not be in a state without a next one.
    fn end(&self, state: &Self::State) -> Option<&'static str>;
}

/// How a search ended.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// Number of states.
    Passed(usize),
    /// The rule and the shortest trace.
    Violated(&'static str, String),
}

impl Outcome {
    pub(crate) fn states(&self) -> usize {
        match self {
            Outcome::Passed(states) => *states,
            Outcome::Violated(what, trace) => panic!("{what}: {trace}"),
        }
    }
}

/// Whether to search the whole scope, which takes minutes in a debug build: `FADER_MODELS=full`.
pub(crate) fn is_full() -> bool {
    std::env::var_os("FADER_MODELS").is_some_and(|scope| scope == "full")
}

pub(crate) fn search<M: Model>(model: &mut M) -> Outcome {
    let mut seen = HashSet::new();
    let mut nodes: Vec<(usize, Option<M::Label>)> = vec![(0, None)];
    let first = model.init();
    seen.insert(first.clone());
    let mut queue = VecDeque::from([(first, 0)]);
    let mut out = Vec::new();
    while let Some((state, node)) = queue.pop_front() {
        let mut what = model.violation(&state);
        if what.is_none() {
            model.next(&state, &mut out);
            what = if out.is_empty() {
                model.end(&state)
            } else {
                None
            };
        }
        if let Some(what) = what {
            return Outcome::Violated(what, trace(&nodes, node));
        }
        for (label, next) in out.drain(..) {
            if seen.insert(next.clone()) {
                nodes.push((node, Some(label)));
                queue.push_back((next, nodes.len() - 1));
            }
        }
    }
    Outcome::Passed(seen.len())
}

fn trace<L: Copy + Debug>(nodes: &[(usize, Option<L>)], mut node: usize) -> String {
    let mut steps = Vec::new();
    while let (parent, Some(label)) = nodes[node] {
        steps.push(format!("{label:?}"));
        node = parent;
    }
    steps.reverse();
    steps.join(" -> ")
}

/// The search must find a violation, or an assertion of the code under test must.
pub(crate) fn assert_caught<M: Model>(name: &str, mut model: M) {
    let outcome = catch_unwind(AssertUnwindSafe(|| search(&mut model)));
    match outcome {
        Ok(Outcome::Passed(states)) => panic!("{name} is not caught in {states} states"),
        Ok(Outcome::Violated(what, trace)) => println!("caught: {name}: {what}: {trace}"),
        Err(_) => println!("caught: {name}: an assertion"),
    }
}

/// Numbers for versions of pages, so that states are small. Equal bodies are one version, with any
/// their nonce.
#[derive(Debug, Default)]
pub(crate) struct Versions {
    pages: Vec<Page>,
    numbers: BTreeMap<(Bytes, u64), u16>,
    with_lsn: bool,
}

impl Versions {
    /// Versions that differ in their LSN are different.
    pub(crate) fn with_lsn() -> Self {
        Versions {
            with_lsn: true,
            ..Versions::default()
        }
    }

    pub(crate) fn number(&mut self, page: &Page) -> u16 {
        let lsn = if self.with_lsn { page.lsn() } else { 0 };
        *self
            .numbers
            .entry((page.body().clone(), lsn))
            .or_insert_with(|| {
                self.pages.push(page.clone());
                u16::try_from(self.pages.len() - 1).expect("a small scope")
            })
    }

    pub(crate) fn page(&self, number: u16) -> &Page {
        &self.pages[usize::from(number)]
    }
}
