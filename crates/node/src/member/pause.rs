//! Where a member can be held up, for people and tests who want to see what follows.

use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// Where a member can be held up, as a process that is stopped and continued.
#[derive(Default)]
pub(crate) struct PausePoint {
    closed_until: Mutex<Option<Instant>>,
    opened: Condvar,
}

impl PausePoint {
    /// Holds up each thread that passes, for a time.
    pub(crate) fn close_for(&self, time: Duration) {
        *self.closed_until.lock() = Some(Instant::now() + time);
        self.opened.notify_all();
    }

    /// Lets everyone pass.
    pub(crate) fn open(&self) {
        *self.closed_until.lock() = None;
        self.opened.notify_all();
    }

    /// Passes, when that is allowed.
    pub(crate) fn pass(&self) {
        let mut closed_until = self.closed_until.lock();
        while let Some(until) = *closed_until {
            if until <= Instant::now() {
                *closed_until = None;
            } else {
                self.opened.wait_until(&mut closed_until, until);
            }
        }
    }

    /// Whether it would let no thread pass now.
    pub(crate) fn is_closed(&self) -> bool {
        let closed_until = *self.closed_until.lock();
        closed_until.is_some_and(|until| Instant::now() < until)
    }
}
