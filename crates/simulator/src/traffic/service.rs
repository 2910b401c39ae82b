//! Services with a limited capacity, of the kinds that clients meet.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::chance::Chance;
use super::scenario::{Kind, Moment, Shape};

/// What becomes of an attempt that arrives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Arrival {
    /// Refused at once.
    Refused,
    /// Its answer leaves then.
    Answered(Moment),
    /// It waits; `advance` will say when it is done.
    Held,
}

/// A service at work. Jobs are attempts, by their numbers.
#[derive(Debug)]
pub(super) struct Service {
    kind: Kind,
    /// Seconds of work of a request, on average.
    work: f64,
    /// What its capacity is multiplied by.
    pub(super) factor: f64,
    chance: Chance,
    tokens: f64,
    filled: Moment,
    busy: Vec<(Moment, u32)>,
    waiting: VecDeque<u32>,
    /// Of sharing: how much each job got so far, and those to be done by how much they need.
    given: f64,
    shared: BinaryHeap<Reverse<(u64, u32)>>,
    shared_at: Moment,
}

impl Service {
    pub(super) fn new(shape: &Shape, seed: u64) -> Service {
        let tokens = match shape.kind {
            Kind::Rate { burst, .. } => burst,
            _ => 0.0,
        };
        Service {
            kind: shape.kind,
            work: shape.work,
            factor: 1.0,
            chance: Chance::new(seed),
            tokens,
            filled: 0,
            busy: Vec::new(),
            waiting: VecDeque::new(),
            given: 0.0,
            shared: BinaryHeap::new(),
            shared_at: 0,
        }
    }

    pub(super) fn set_factor(&mut self, now: Moment, factor: f64) {
        self.fill(now);
        self.factor = factor;
    }

    pub(super) fn arrive(&mut self, now: Moment, job: u32) -> Arrival {
        match self.kind {
            Kind::Rate { .. } => {
                self.fill(now);
                if self.tokens < 1.0 {
                    return Arrival::Refused;
                }
                self.tokens -= 1.0;
                Arrival::Answered(now + self.work())
            }
            Kind::Slots { slots, queue } => {
                let slots = (f64::from(slots) * self.factor) as usize;
                if self.busy.len() < slots {
                    self.begin(now, job);
                    Arrival::Held
                } else if self.waiting.len() < queue as usize {
                    self.waiting.push_back(job);
                    Arrival::Held
                } else {
                    Arrival::Refused
                }
            }
            Kind::Sharing { .. } => {
                self.share(now);
                let need = self.given + self.chance.exponential(self.work);
                self.shared.push(Reverse((need.to_bits(), job)));
                Arrival::Held
            }
        }
    }

    /// When `advance` will next find something done.
    pub(super) fn due(&self) -> Option<Moment> {
        match self.kind {
            Kind::Rate { .. } => None,
            Kind::Slots { .. } => self.busy.iter().map(|(end, _)| *end).min(),
            Kind::Sharing { .. } => {
                let Reverse((need, _)) = self.shared.peek()?;
                let left = (f64::from_bits(*need) - self.given).max(0.0);
                Some(self.shared_at + seconds(left / self.speed()) + 1)
            }
        }
    }

    /// What is done by now.
    pub(super) fn advance(&mut self, now: Moment, done: &mut Vec<u32>) {
        match self.kind {
            Kind::Rate { .. } => {}
            Kind::Slots { .. } => {
                while let Some(at) = self.busy.iter().position(|(end, _)| *end <= now) {
                    let (_, job) = self.busy.swap_remove(at);
                    done.push(job);
                    if let Some(next) = self.waiting.pop_front() {
                        self.begin(now, next);
                    }
                }
            }
            Kind::Sharing { .. } => {
                self.share(now);
                while let Some(Reverse((need, job))) = self.shared.peek().copied() {
                    if self.given < f64::from_bits(need) {
                        break;
                    }
                    self.shared.pop();
                    done.push(job);
                }
            }
        }
    }

    fn begin(&mut self, now: Moment, job: u32) {
        let end = now + self.work();
        self.busy.push((end, job));
    }

    fn work(&mut self) -> Moment {
        seconds(self.chance.exponential(self.work))
    }

    fn fill(&mut self, now: Moment) {
        if let Kind::Rate { rate, burst } = self.kind {
            let span = (now - self.filled) as f64 / 1e9;
            self.tokens = (self.tokens + span * rate * self.factor).min(burst);
            self.filled = now;
        }
    }

    /// How fast each job is worked on.
    fn speed(&self) -> f64 {
        match self.kind {
            Kind::Sharing { slots } => {
                (f64::from(slots) * self.factor / self.shared.len().max(1) as f64).min(1.0)
            }
            _ => 1.0,
        }
    }

    fn share(&mut self, now: Moment) {
        self.given += (now - self.shared_at) as f64 / 1e9 * self.speed();
        self.shared_at = now;
    }
}

/// Seconds as a span of moments.
pub(super) fn seconds(span: f64) -> Moment {
    (span * 1e9) as Moment
}
