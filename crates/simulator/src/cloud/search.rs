//! Every schedule of the real asynchronous code, by depth-first search without stored states: each
//! run replays a path of choices and then makes new ones.
//!
//! A choice is which call takes effect next, which process crashes, what becomes of a write, or
//! that time passes. Tasks of one process run in the order in which they were woken: between two
//! calls they touch nothing that another process sees.
//!
//! *Reduction.* Two calls of different processes commute unless one may change an object that the
//! other names. Sleep sets (Godefroid) leave out orders that differ by such pairs alone: of each
//! class of equal runs one is completed.
//!
//! *Time.* A timer of a process ends when no call is under way; a timer of the harness, by which
//! time jumps, at any moment.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};

use fader_cloud::model::{Access, Alternative, Choice, Fate, Scheduler};

/// What a search may do beside ordering calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    /// Crashes, each of any process but the harness.
    pub crashes: usize,
    /// Writes of objects that are lost, or land at any later time, without an answer.
    pub ambiguous: usize,
}

/// A transition, by which a sleep set names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Label {
    /// A timer or event of this number.
    Number(u64),
    Crash(usize),
}

/// A transition that can be next.
#[derive(Clone, Debug)]
struct Move {
    label: Label,
    process: usize,
    access: Option<Access>,
    is_time: bool,
}

#[derive(Debug)]
enum Node {
    /// Which transition is next.
    Step {
        moves: Vec<Move>,
        sleep: BTreeSet<Label>,
        /// Moves of which all continuations are known.
        done: BTreeSet<Label>,
        chosen: usize,
    },
    /// What becomes of a write.
    Fate { chosen: usize },
}

/// The fates of a write, while the budget lasts.
const FATES: [Fate; 3] = [Fate::Answered, Fate::LostRequest, Fate::Late];

/// The tree of choices, of which one path is walked at a time.
#[derive(Debug)]
struct Tree {
    budget: Budget,
    /// Processes that may crash.
    mortal: BTreeSet<usize>,
    path: Vec<Node>,
    /// How far the present run has come.
    at: usize,
    left: Budget,
    /// The sleep set of the next node.
    sleep: BTreeSet<Label>,
    is_searching: bool,
    is_blocked: bool,
    dead: BTreeSet<usize>,
}

/// A search, shared with the executor of each run.
#[derive(Clone, Debug)]
pub(super) struct Search(Arc<Mutex<Tree>>);

impl Search {
    pub(super) fn new(budget: Budget) -> Self {
        Search(Arc::new(Mutex::new(Tree {
            budget,
            mortal: BTreeSet::new(),
            path: Vec::new(),
            at: 0,
            left: budget,
            sleep: BTreeSet::new(),
            is_searching: false,
            is_blocked: false,
            dead: BTreeSet::new(),
        })))
    }

    fn tree(&self) -> MutexGuard<'_, Tree> {
        self.0.lock().expect("nothing panics while it is locked")
    }

    /// From now on each order counts.
    pub(super) fn begin(&self, mortal: impl IntoIterator<Item = usize>) {
        let mut tree = self.tree();
        tree.mortal = mortal.into_iter().collect();
        tree.is_searching = true;
    }

    /// From now on any order will do.
    pub(super) fn end(&self) {
        self.tree().is_searching = false;
    }

    /// Whether the present run was left because equal ones are known.
    pub(super) fn is_blocked(&self) -> bool {
        self.tree().is_blocked
    }

    /// How many choices the present run has made.
    pub(super) fn depth(&self) -> usize {
        self.tree().at
    }

    /// Prepares the same run once more.
    pub(super) fn restart(&self) {
        let mut tree = self.tree();
        tree.left = tree.budget;
        tree.at = 0;
        tree.sleep = BTreeSet::new();
        tree.dead = BTreeSet::new();
        (tree.is_searching, tree.is_blocked) = (false, false);
    }

    /// Prepares the next run; whether there is one.
    pub(super) fn advance(&self) -> bool {
        self.restart();
        let mut tree = self.tree();
        while let Some(node) = tree.path.last_mut() {
            if node.advance() {
                return true;
            }
            tree.path.pop();
        }
        false
    }
}

impl Node {
    /// Chooses what was not chosen before; whether there is anything.
    fn advance(&mut self) -> bool {
        match self {
            Node::Fate { chosen } => {
                *chosen += 1;
                *chosen < FATES.len()
            }
            Node::Step {
                moves,
                sleep,
                done,
                chosen,
            } => {
                if *chosen < moves.len() {
                    done.insert(moves[*chosen].label.clone());
                }
                let fresh = |one: &Move| !done.contains(&one.label) && !sleep.contains(&one.label);
                match moves.iter().position(fresh) {
                    Some(next) => {
                        *chosen = next;
                        true
                    }
                    None => false,
                }
            }
        }
    }
}

impl Move {
    /// Whether the order of two moves makes a difference.
    fn conflicts(&self, other: &Move) -> bool {
        if self.is_time || other.is_time || self.process == other.process {
            return true;
        }
        match (&self.access, &other.access) {
            (Some(one), Some(other)) => one.conflicts(other),
            _ => false,
        }
    }
}

impl Tree {
    /// The moves that the search distinguishes.
    fn moves(&self, alternatives: &[Alternative]) -> Vec<Move> {
        let has_calls = alternatives.iter().any(|one| one.access.is_some());
        let is_harness = |one: &Alternative| one.process == 0;
        let mut offered: Vec<Move> = alternatives
            .iter()
            .filter(|one| one.access.is_some() || is_harness(one))
            .map(|one| Move {
                label: Label::Number(one.number),
                process: one.process,
                access: one.access.clone(),
                is_time: one.access.is_none(),
            })
            .collect();
        if !has_calls {
            // The first timer of the processes.
            let first = alternatives.iter().find(|one| !is_harness(one));
            offered.extend(first.map(|one| Move {
                label: Label::Number(one.number),
                process: one.process,
                access: None,
                is_time: true,
            }));
        }
        if 0 < self.left.crashes && has_calls {
            let alive = self.mortal.difference(&self.dead);
            offered.extend(alive.map(|process| Move {
                label: Label::Crash(*process),
                process: *process,
                access: None,
                is_time: false,
            }));
        }
        offered
    }

    fn step(&mut self, alternatives: &[Alternative]) -> Choice {
        if self.at == self.path.len() {
            let moves = self.moves(alternatives);
            let sleep = std::mem::take(&mut self.sleep);
            let awake = moves.iter().position(|one| !sleep.contains(&one.label));
            let Some(chosen) = awake else {
                self.is_blocked = true;
                return Choice::End;
            };
            self.path.push(Node::Step {
                moves,
                sleep,
                done: BTreeSet::new(),
                chosen,
            });
        }
        let Node::Step {
            moves,
            sleep,
            done,
            chosen,
        } = &self.path[self.at]
        else {
            unreachable!("a run repeats the kinds of its choices");
        };
        self.at += 1;
        let taken = moves[*chosen].clone();
        let known = moves
            .iter()
            .filter(|one| sleep.contains(&one.label) || done.contains(&one.label));
        let asleep = known.filter(|one| !one.conflicts(&taken));
        self.sleep = asleep.map(|one| one.label.clone()).collect();
        match taken.label {
            Label::Crash(process) => {
                self.left.crashes -= 1;
                self.dead.insert(process);
                Choice::Crash(process)
            }
            Label::Number(number) => {
                let place = alternatives.iter().position(|one| one.number == number);
                Choice::Next(place.expect("a run repeats its choices"))
            }
        }
    }

    fn fate(&mut self) -> Fate {
        if self.at == self.path.len() {
            self.path.push(Node::Fate { chosen: 0 });
        }
        let Node::Fate { chosen } = self.path[self.at] else {
            unreachable!("a run repeats the kinds of its choices");
        };
        self.at += 1;
        if chosen != 0 {
            self.left.ambiguous -= 1;
        }
        FATES[chosen]
    }
}

impl Scheduler for Search {
    fn choose(&mut self, alternatives: &[Alternative]) -> Choice {
        let mut tree = self.tree();
        match tree.is_searching {
            true => tree.step(alternatives),
            false => Choice::Next(0),
        }
    }

    fn fate(&mut self, access: &Access) -> Fate {
        let mut tree = self.tree();
        let may_fail = tree.is_searching && access.is_write && 0 < tree.left.ambiguous;
        match may_fail {
            true => tree.fate(),
            false => Fate::Answered,
        }
    }
}

#[cfg(test)]
mod tests;
