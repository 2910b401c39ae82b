//! Requests that wait to be sent: first come, first served, those to be sent again behind the rest.
//!
//! Each time that a request begins to wait it gets a number. The lines hold numbers, and what is
//! not waiting under its number any more has left. So leaving costs nothing, and lines are swept
//! when most of what is in them has left.
//!
//! Invariants:
//! 1. A request is in the line or it is delayed, never both; `waiting` knows which.
//! 2. Every waiting request with a deadline is in `deadlines` under its number.
//! 3. What is first in `delayed` and in `deadlines` waits.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use crate::message::{Request, RequestId, Time};

/// A waiting request, with the attempts it had.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) request: Request,
    pub(crate) attempts: u32,
}

/// A place in a line: when it is due, its number, and whose it is.
type Entry = Reverse<(Time, u64, RequestId)>;

/// What leaves a line may stay in it, up to as much again as waits, and so many more.
const LEFT_MAX: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct Queue {
    waiting: BTreeMap<RequestId, (Waiting, Place)>,
    /// Those that may be sent, by when they came.
    line: VecDeque<(u64, RequestId)>,
    /// How many of the line wait.
    ready: usize,
    /// Those that must not be sent yet.
    delayed: BinaryHeap<Entry>,
    deadlines: BinaryHeap<Entry>,
    next: u64,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    number: u64,
    is_ready: bool,
}

impl Queue {
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn has_ready(&self) -> bool {
        0 < self.ready
    }

    pub(crate) fn contains(&self, id: RequestId) -> bool {
        self.waiting.contains_key(&id)
    }

    /// Puts a request behind all that are in the line.
    pub(crate) fn push(&mut self, waiting: Waiting) {
        let number = self.enter(waiting, true);
        self.line.push_back((number, waiting.request.id));
        self.ready += 1;
    }

    /// Keeps a request back until `due`; then it goes to the end of the line.
    pub(crate) fn delay(&mut self, waiting: Waiting, due: Time) {
        let number = self.enter(waiting, false);
        let entry = Reverse((due, number, waiting.request.id));
        self.delayed.push(entry);
    }

    /// The first in the line.
    pub(crate) fn pop(&mut self) -> Option<Waiting> {
        while let Some((number, id)) = self.line.pop_front() {
            if waits(&self.waiting, number, id) {
                return self.take(id);
            }
        }
        None
    }

    /// Takes a request out, wherever it waits; whether it did.
    pub(crate) fn remove(&mut self, id: RequestId) -> bool {
        self.take(id).is_some()
    }

    /// Lets those whose time has come into the line.
    pub(crate) fn release(&mut self, now: Time) {
        while let Some(Reverse((due, _, id))) = self.delayed.peek().copied() {
            if now < due {
                break;
            }
            let waiting = self.take(id).expect("what is first waits");
            self.push(waiting);
        }
    }

    /// Takes out one whose deadline has passed.
    pub(crate) fn expire(&mut self, now: Time) -> Option<RequestId> {
        let Reverse((deadline, _, id)) = *self.deadlines.peek()?;
        if now < deadline {
            return None;
        }
        let was_there = self.remove(id);
        assert!(was_there, "a deadline is of a waiting request");
        Some(id)
    }

    /// When `release` or `expire` will next find something.
    pub(crate) fn wake_at(&self) -> Option<Time> {
        let delayed = self.delayed.peek().map(|Reverse((due, ..))| *due);
        let deadline = self
            .deadlines
            .peek()
            .map(|Reverse((deadline, ..))| *deadline);
        delayed.into_iter().chain(deadline).min()
    }

    fn enter(&mut self, waiting: Waiting, is_ready: bool) -> u64 {
        self.next += 1;
        let number = self.next;
        let request = &waiting.request;
        let place = Place { number, is_ready };
        let former = self.waiting.insert(request.id, (waiting, place));
        assert!(former.is_none(), "a request waits once");
        if let Some(deadline) = request.deadline {
            self.deadlines.push(Reverse((deadline, number, request.id)));
        }
        number
    }

    fn take(&mut self, id: RequestId) -> Option<Waiting> {
        let (waiting, place) = self.waiting.remove(&id)?;
        if place.is_ready {
            self.ready -= 1;
        }
        self.sweep(place.number);
        Some(waiting)
    }

    /// Lets go of what has left: what is first if that has, all when it is most of a line.
    fn sweep(&mut self, left: u64) {
        let most = 2 * self.waiting.len() + LEFT_MAX;
        let waiting = &self.waiting;
        if most < self.line.len() {
            self.line
                .retain(|(number, id)| waits(waiting, *number, *id));
        }
        for entries in [&mut self.delayed, &mut self.deadlines] {
            if most < entries.len() {
                entries.retain(|Reverse((_, number, id))| waits(waiting, *number, *id));
            }
            let is_first = |Reverse((_, number, _)): &Entry| *number == left;
            if entries.peek().is_some_and(is_first) {
                entries.pop();
                while let Some(Reverse((_, number, id))) = entries.peek() {
                    if waits(waiting, *number, *id) {
                        break;
                    }
                    entries.pop();
                }
            }
        }
    }
}

/// Whether a request waits, and did not begin to wait again since it got this number.
fn waits(waiting: &BTreeMap<RequestId, (Waiting, Place)>, number: u64, id: RequestId) -> bool {
    let place = waiting.get(&id).map(|(_, place)| place.number);
    place == Some(number)
}
