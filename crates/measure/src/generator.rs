//! The load generator: which operation begins when. A state machine with time as input, the same
//! for raw connections in real time ([`crate::run`]) and any [`crate::Provider`] in any time
//! ([`crate::drive`]).
//!
//! Closed loop: each client begins its next operation when it has the answer to the last. Open
//! loop: operations are due by a schedule, answered or not. The first free client takes the oldest
//! that is due, and its response time counts from when it was due.
//!
//! ```text
//!  free client ── step(now) ──▶ Start: do this operation, then ended()
//!                           ├─▶ Wait: nothing is due before then
//!                           └─▶ End: there is nothing more to do
//! ```
//!
//! Invariants:
//! - LOOP-1 no due operation is dropped or begun twice, however late clients are.
//! - LOOP-2 a run ends early after as many errors as were allowed, and only then.
//! - LOOP-3 operations have the numbers 0, 1, 2 and so on, in the order of their intended starts.

use std::time::Duration;

use crate::schedule::{Schedule, Starts};

/// When operations start.
#[derive(Clone, Debug, PartialEq)]
pub enum Load {
    /// When a client has its answer.
    Closed,
    /// By a schedule.
    Open(Starts),
}

/// When a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// When that many operations are done.
    Operations(u64),
    /// When no more operations are started.
    Elapsed(Duration),
}

/// An operation that begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// Its number.
    pub sequence: u64,
    /// When it was meant to begin, in nanoseconds since the run's start; in a closed loop, now.
    pub intended: u64,
}

/// What a free client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Begins an operation.
    Start(Start),
    /// Asks again at this time, in nanoseconds since the run's start.
    Wait(u64),
    /// Ends.
    End,
}

/// The state of a run.
#[derive(Debug)]
pub struct Generator {
    /// Of an open loop, with the next time of it.
    schedule: Option<(Schedule, Option<u64>)>,
    operations_max: u64,
    elapsed_max: u64,
    errors_max: Option<u64>,
    sequence: u64,
    done: u64,
    errors: u64,
    is_stopped: bool,
}

impl Generator {
    /// A run that has not begun; without `errors_max` errors are data, and end nothing.
    pub fn new(load: &Load, until: Until, errors_max: Option<u64>) -> Self {
        let (operations_max, elapsed_max) = match until {
            Until::Operations(count) => (count, u64::MAX),
            Until::Elapsed(elapsed) => (u64::MAX, nanoseconds(elapsed)),
        };
        let schedule = match load {
            Load::Closed => None,
            Load::Open(starts) => {
                let mut schedule = Schedule::new(starts.clone());
                let first = schedule.next();
                Some((schedule, first))
            }
        };
        Generator {
            schedule,
            operations_max,
            elapsed_max,
            errors_max,
            sequence: 0,
            done: 0,
            errors: 0,
            is_stopped: false,
        }
    }

    /// What a free client does at this time, in nanoseconds since the run's start.
    pub fn step(&mut self, now: u64) -> Step {
        let is_given_up = self.errors_max.is_some_and(|max| max <= self.errors);
        if self.is_stopped || is_given_up || self.operations_max <= self.sequence {
            return Step::End;
        }
        let intended = match &mut self.schedule {
            None => now,
            Some((schedule, next)) => match *next {
                Some(due) if due <= now && due < self.elapsed_max => {
                    *next = schedule.next();
                    due
                }
                Some(due) if due < self.elapsed_max => return Step::Wait(due),
                _ => return Step::End,
            },
        };
        if self.elapsed_max <= intended {
            return Step::End;
        }
        let sequence = self.sequence;
        self.sequence += 1;
        Step::Start(Start { sequence, intended })
    }

    /// An operation ended, as it should or not.
    pub fn ended(&mut self, is_done: bool) {
        match is_done {
            true => self.done += 1,
            false => self.errors += 1,
        }
    }

    /// Begins no more operations.
    pub fn stop(&mut self) {
        self.is_stopped = true;
    }

    /// Operations that ended as they should.
    pub fn done(&self) -> u64 {
        self.done
    }
}

pub(crate) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
