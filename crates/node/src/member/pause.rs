//! Where a member can be held up, for people and tests who want to see what follows.

use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::clock::Clock;

/// Where a member can be held up, as a process that is stopped and continued.
pub(crate) struct PausePoint {
    clock: Clock,
    state: Mutex<State>,
    opened: Condvar,
}

#[derive(Default)]
struct State {
    closed_until: Option<Instant>,
    /// How many threads it holds up.
    held: usize,
}

impl PausePoint {
    /// One that is open.
    pub(crate) fn new(clock: Clock) -> Self {
        PausePoint {
            clock,
            state: Mutex::default(),
            opened: Condvar::new(),
        }
    }

    /// Holds up each thread that passes, for a time.
    pub(crate) fn close_for(&self, time: Duration) {
        self.state.lock().closed_until = Some(self.clock.instant() + time);
        self.opened.notify_all();
    }

    /// Lets everyone pass.
    pub(crate) fn open(&self) {
        self.state.lock().closed_until = None;
        self.opened.notify_all();
    }

    /// The clock was moved: the time may be over.
    pub(crate) fn look(&self) {
        self.opened.notify_all();
    }

    /// Passes, when that is allowed.
    pub(crate) fn pass(&self) {
        let mut state = self.state.lock();
        while let Some(until) = state.closed_until {
            let left = until.saturating_duration_since(self.clock.instant());
            if left.is_zero() {
                state.closed_until = None;
            } else {
                state.held += 1;
                self.opened.wait_for(&mut state, left);
                state.held -= 1;
            }
        }
    }

    /// How many threads it holds up, if it would let none pass now.
    pub(crate) fn held(&self) -> Option<usize> {
        let state = self.state.lock();
        let now = self.clock.instant();
        let is_closed = state.closed_until.is_some_and(|until| now < until);
        is_closed.then_some(state.held)
    }

    /// Whether it would let no thread pass now.
    pub(crate) fn is_closed(&self) -> bool {
        self.held().is_some()
    }
}
