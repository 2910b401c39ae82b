//! Requests that wait to be sent: first come, first served, those to be sent again behind the rest.
//!
//! Invariants:
//! 1. A request is in the line or it is delayed, never both; `places` knows which.
//! 2. Every waiting request with a deadline, and no other, is in `deadlines`.

use std::collections::{BTreeMap, BTreeSet};

use crate::message::{Request, RequestId, Time};

/// A waiting request, with the attempts it had.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) request: Request,
    pub(crate) attempts: u32,
}

#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// Those that may be sent, by when they came.
    line: BTreeMap<u64, Waiting>,
    /// Those that must not be sent yet.
    delayed: BTreeMap<(Time, u64), Waiting>,
    places: BTreeMap<RequestId, Place>,
    deadlines: BTreeSet<(Time, RequestId)>,
    next: u64,
}

#[derive(Clone, Copy, Debug)]
enum Place {
    Line(u64),
    Delayed(Time, u64),
}

impl Queue {
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    pub(crate) fn has_ready(&self) -> bool {
        !self.line.is_empty()
    }

    pub(crate) fn contains(&self, id: RequestId) -> bool {
        self.places.contains_key(&id)
    }

    /// Puts a request behind all that are in the line.
    pub(crate) fn push(&mut self, waiting: Waiting) {
        let number = self.number();
        self.enter(&waiting, Place::Line(number));
        self.line.insert(number, waiting);
    }

    /// Keeps a request back until `due`; then it goes to the end of the line.
    pub(crate) fn delay(&mut self, waiting: Waiting, due: Time) {
        let number = self.number();
        self.enter(&waiting, Place::Delayed(due, number));
        self.delayed.insert((due, number), waiting);
    }

    /// The first in the line.
    pub(crate) fn pop(&mut self) -> Option<Waiting> {
        let (_, waiting) = self.line.pop_first()?;
        self.leave(&waiting.request);
        Some(waiting)
    }

    /// Takes a request out, wherever it waits; whether it did.
    pub(crate) fn remove(&mut self, id: RequestId) -> bool {
        let taken = match self.places.get(&id) {
            None => None,
            Some(Place::Line(number)) => self.line.remove(number),
            Some(Place::Delayed(due, number)) => self.delayed.remove(&(*due, *number)),
        };
        match taken {
            None => false,
            Some(waiting) => {
                self.leave(&waiting.request);
                true
            }
        }
    }

    /// Lets those whose time has come into the line.
    pub(crate) fn release(&mut self, now: Time) {
        while let Some(entry) = self.delayed.first_entry() {
            if now < entry.key().0 {
                break;
            }
            let waiting = entry.remove();
            self.leave(&waiting.request);
            self.push(waiting);
        }
    }

    /// Takes out one whose deadline has passed.
    pub(crate) fn expire(&mut self, now: Time) -> Option<RequestId> {
        let (deadline, id) = *self.deadlines.first()?;
        if now < deadline {
            return None;
        }
        let was_there = self.remove(id);
        assert!(was_there, "a deadline is of a waiting request");
        Some(id)
    }

    /// When `release` or `expire` will next find something.
    pub(crate) fn wake_at(&self) -> Option<Time> {
        let delayed = self.delayed.first_key_value().map(|((due, _), _)| *due);
        let deadline = self.deadlines.first().map(|(deadline, _)| *deadline);
        delayed.into_iter().chain(deadline).min()
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn enter(&mut self, waiting: &Waiting, place: Place) {
        let request = &waiting.request;
        let former = self.places.insert(request.id, place);
        assert!(former.is_none(), "a request waits once");
        if let Some(deadline) = request.deadline {
            self.deadlines.insert((deadline, request.id));
        }
    }

    fn leave(&mut self, request: &Request) {
        self.places.remove(&request.id);
        if let Some(deadline) = request.deadline {
            self.deadlines.remove(&(deadline, request.id));
        }
    }
}
