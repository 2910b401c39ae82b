//! A group commit: sends that wait while others are under way share the next call. Pure.

use std::collections::VecDeque;

/// A send that waits.
pub(crate) trait Waits {
    /// The texts of its messages.
    fn bodies(&self) -> &[String];
}

/// How much goes at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Calls under way.
    pub(crate) in_flight: usize,
    /// Messages of a call. One send may have more.
    pub(crate) messages: usize,
    /// Bytes of a call. One send may have more.
    pub(crate) bytes: usize,
}

/// Sends to one queue that wait, and how many workers make calls.
#[derive(Debug)]
pub(crate) struct Group<S> {
    bounds: Bounds,
    waiting: VecDeque<S>,
    in_flight: usize,
}

impl<S: Waits> Group<S> {
    pub(crate) fn new(bounds: Bounds) -> Self {
        Group {
            bounds,
            waiting: VecDeque::new(),
            in_flight: 0,
        }
    }

    /// Lets a send wait; whether the caller has to start a worker.
    pub(crate) fn push(&mut self, send: S) -> bool {
        self.waiting.push_back(send);
        let starts = self.in_flight < self.bounds.in_flight;
        self.in_flight += usize::from(starts);
        starts
    }

    /// The next sends that share a call; none ends one of the workers.
    pub(crate) fn next(&mut self) -> Vec<S> {
        let (mut count, mut bytes) = (0, 0);
        let mut sends = Vec::new();
        while let Some(next) = self.waiting.front() {
            count += next.bodies().len();
            bytes += next.bodies().iter().map(String::len).sum::<usize>();
            let is_full = self.bounds.messages < count || self.bounds.bytes < bytes;
            if is_full && !sends.is_empty() {
                break;
            }
            sends.extend(self.waiting.pop_front());
        }
        if sends.is_empty() {
            self.in_flight -= 1;
        }
        sends
    }

    /// Whether no worker is left: nothing waits then.
    pub(crate) fn is_idle(&self) -> bool {
        self.in_flight == 0
    }
}
