//! Clients that do not look for the capacity: threads that back off, a fixed number of requests in
//! flight, and one that knows.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use super::chance::Chance;
use super::client::{Client, Reply, Turn};
use super::scenario::{Kind, Moment, Shape};
use super::service::seconds;

/// The seed: five attempts.
const ATTEMPTS: u32 = 5;
/// The article's opponent.
const THREADS: u32 = 34;
/// Its delays: doubled with each attempt, 400 ms at most, at random below that.
const DELAY: f64 = 0.050;
const DELAY_MAX: f64 = 0.400;

/// So many threads, each with one request at a time.
pub(super) struct Threads {
    idle: u32,
    /// Attempts of the requests at hand.
    attempts: BTreeMap<u32, u32>,
    sleeping: BinaryHeap<Reverse<(Moment, u32)>>,
    /// None: what is refused goes behind the rest, at once.
    chance: Option<Chance>,
    again: VecDeque<u32>,
    is_fresh: bool,
}

impl Threads {
    pub(super) fn fixed(count: u32) -> Threads {
        Threads {
            idle: count,
            attempts: BTreeMap::new(),
            sleeping: BinaryHeap::new(),
            chance: None,
            again: VecDeque::new(),
            is_fresh: false,
        }
    }

    pub(super) fn backing_off(seed: u64) -> Threads {
        Threads {
            chance: Some(Chance::new(seed)),
            ..Threads::fixed(THREADS)
        }
    }
}

impl Client for Threads {
    fn turn(&mut self, turn: &mut Turn<'_>) {
        while let Some(Reverse((at, request))) = self.sleeping.peek().copied()
            && at <= turn.now
        {
            self.sleeping.pop();
            turn.sends.push(request);
        }
        while 0 < self.idle {
            // What was refused goes behind what was not tried: of an endless supply, one in two.
            self.is_fresh = !self.is_fresh && !turn.work.is_empty();
            let again = match self.is_fresh {
                true => None,
                false => self.again.pop_front(),
            };
            let Some(request) = again.or_else(|| turn.work.take()) else {
                break;
            };
            self.idle -= 1;
            turn.sends.push(request);
        }
        turn.wake = self.sleeping.peek().map(|Reverse((at, _))| *at);
    }

    fn reply(&mut self, turn: &mut Turn<'_>, request: u32, _sent: Moment, reply: Reply) {
        let attempts = self.attempts.get(&request).copied().unwrap_or(0) + 1;
        if reply == Reply::Ok || ATTEMPTS <= attempts {
            if reply != Reply::Ok {
                turn.failures.push(request);
            }
            self.attempts.remove(&request);
            self.idle += 1;
        } else {
            self.attempts.insert(request, attempts);
            match &mut self.chance {
                None => {
                    self.again.push_back(request);
                    self.idle += 1;
                }
                Some(chance) => {
                    let most = (DELAY * f64::from(1 << attempts)).min(DELAY_MAX);
                    let at = turn.now + seconds(most * chance.unit());
                    self.sleeping.push(Reverse((at, request)));
                }
            }
        }
        self.turn(turn);
    }
}

/// Knows the capacity at every moment and sends its share of it, one request after the other.
pub(super) struct Oracle {
    clients: f64,
    /// What can be in flight without a queue, and a little more.
    most: Option<f64>,
    in_flight: f64,
    next: Moment,
    again: Vec<u32>,
    /// Of a client that does not know the others: its intervals spread.
    alone: Option<Chance>,
}

impl Oracle {
    pub(super) fn new(shape: &Shape, index: u32, clients: u32) -> Oracle {
        let inside = shape.most() * (shape.round_trip + shape.work) * 1.1 / f64::from(clients);
        Oracle {
            clients: f64::from(clients),
            most: match shape.kind {
                Kind::Rate { .. } => None,
                Kind::Slots { .. } | Kind::Sharing { .. } => Some(inside.ceil()),
            },
            in_flight: 0.0,
            // Clients take turns.
            next: seconds(f64::from(index) / shape.most()),
            again: Vec::new(),
            alone: None,
        }
    }

    /// One that knows its share only: it begins at random, and sends a little out of step.
    pub(super) fn alone(shape: &Shape, clients: u32, seed: u64) -> Oracle {
        let mut chance = Chance::new(seed);
        let turn = f64::from(clients) / shape.most();
        Oracle {
            next: seconds(chance.unit() * turn),
            alone: Some(chance),
            ..Oracle::new(shape, 0, clients)
        }
    }
}

impl Client for Oracle {
    fn turn(&mut self, turn: &mut Turn<'_>) {
        let rate = turn.capacity / self.clients;
        if rate <= 0.0 {
            turn.wake = Some(turn.now + seconds(0.01));
            return;
        }
        while self.next <= turn.now {
            if self.most.is_some_and(|most| most <= self.in_flight) {
                return;
            }
            let Some(request) = self.again.pop().or_else(|| turn.work.take()) else {
                return;
            };
            turn.sends.push(request);
            self.in_flight += 1.0;
            let part = self
                .alone
                .as_mut()
                .map_or(1.0, |chance| 0.9 + 0.2 * chance.unit());
            self.next = turn.now.max(self.next) + seconds(part / rate);
        }
        turn.wake = Some(self.next.min(turn.now + seconds(0.01)));
    }

    fn reply(&mut self, turn: &mut Turn<'_>, request: u32, _sent: Moment, reply: Reply) {
        self.in_flight -= 1.0;
        if reply != Reply::Ok {
            self.again.push(request);
        }
        self.turn(turn);
    }
}
