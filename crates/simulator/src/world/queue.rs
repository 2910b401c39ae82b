//! What is going to happen, in order: by time, and within one moment in the order of planning.

use std::collections::BTreeMap;

/// A queue of events.
#[derive(Debug)]
pub(crate) struct Queue<E> {
    events: BTreeMap<(u64, u64), E>,
    planned: u64,
}

impl<E> Default for Queue<E> {
    fn default() -> Self {
        Queue {
            events: BTreeMap::new(),
            planned: 0,
        }
    }
}

impl<E> Queue<E> {
    /// Plans `event` for the time `at`.
    pub(crate) fn plan(&mut self, at: u64, event: E) {
        self.planned += 1;
        self.events.insert((at, self.planned), event);
    }

    /// The next event, with its time.
    pub(crate) fn next(&mut self) -> Option<(u64, E)> {
        let ((at, _), event) = self.events.pop_first()?;
        Some((at, event))
    }
}
