//! Requests that wait at the head for their collection to change: long polls.
//!
//! ```text
//!  decide ── Wait ──▶ wait ──▶ [waits] ── touched, or due ──▶ pop ──▶ decide
//!                        ▲                                             │ │
//!                        └──────────────── again ◀─────────────────────┘ └─▶ served
//! ```
//!
//! Waiters of one collection that wait for the same thing are *alike*: where the first of them
//! waits again, the others would too. So an entry has as many of them decided again as it serves,
//! and one more.
//!
//! Invariants:
//! - WAITER-1 waiters that are alike are decided again in the order in which they came.
//! - WAITER-2 a waiter that is not served keeps its place.
//! - WAITER-3 a waiter that left is nowhere: neither in its queue, nor among deadlines, nor in what
//!   is counted.
//! - WAITER-4 a waiter is given out at most once until its fate is told.
//! - WAITER-5 waiters that are alike wait for the same. When something is due that they wait for,
//!   the first of them is decided again, as where an entry touched the collection.
//! - WAITER-6 a change that can serve none of them has none of them decided again.
//!
//! Deliberately absent: clocks and threads, and what rows mean. A member says when entries touched
//! a collection, how ([`Stir`]), and what time it is. While nothing changes and no deadline passes,
//! a waiter costs nothing.

use std::collections::{BTreeMap, BTreeSet};

use fader_chain::CorrelationId;

use crate::service::{WAIT_MAX, Wait};
use crate::{CollectionId, Reason};

/// How many may wait, and how much they may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Waiters of one member.
    pub waiters: usize,
    /// Bytes of their requests.
    pub bytes: usize,
}

impl Default for Bounds {
    /// Ten thousand long polls, as many as a member of SQS has in flight, and 16 MiB.
    fn default() -> Self {
        Bounds {
            waiters: 10_000,
            bytes: 16 << 20,
        }
    }
}

/// What the change of a row means to those who wait for its collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stir {
    /// Nothing: it can serve none of them.
    Nothing,
    /// The first of those who are alike may be served by it.
    Now,
    /// The same, from this time on, in milliseconds since 1970.
    At(u64),
}

/// A place in the order of arrivals.
type Place = u64;
/// Those who are alike: their collection, and what they wait for.
type Queue = (CollectionId, u64);

/// Those who wait.
#[derive(Clone, Debug)]
pub struct Waiters {
    bounds: Bounds,
    waiters: BTreeMap<CorrelationId, Waiter>,
    queues: BTreeMap<Queue, BTreeMap<Place, CorrelationId>>,
    deadlines: BTreeSet<(u64, Place, CorrelationId)>,
    /// The firsts of their queues that are to be decided again, the earliest first.
    ready: BTreeSet<(Place, Queue)>,
    /// Those whose deadline has passed.
    due: BTreeMap<Place, CorrelationId>,
    /// When something is due for those who are alike, and the same by time.
    alarms: BTreeMap<Queue, u64>,
    alarm_times: BTreeSet<(u64, Queue)>,
    bytes: usize,
    arrivals: Place,
}

#[derive(Clone, Copy, Debug)]
struct Waiter {
    queue: Queue,
    place: Place,
    until_ms: u64,
    size: usize,
    /// Whether it was given out, and its fate is not told yet.
    is_out: bool,
    /// Whether that was because of a change.
    is_woken: bool,
}

impl Waiters {
    /// None.
    pub fn new(bounds: Bounds) -> Self {
        Waiters {
            bounds,
            waiters: BTreeMap::new(),
            queues: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            ready: BTreeSet::new(),
            due: BTreeMap::new(),
            alarms: BTreeMap::new(),
            alarm_times: BTreeSet::new(),
            bytes: 0,
            arrivals: 0,
        }
    }

    /// How many wait.
    pub fn count(&self) -> usize {
        self.waiters.len()
    }

    /// Takes a request of `size` bytes that was decided at `now_ms` and is to wait.
    ///
    /// # Errors
    /// [`Reason::TooManyWaiting`], or [`Reason::WaitTooLong`] beyond [`WAIT_MAX`].
    pub fn wait(
        &mut self,
        token: CorrelationId,
        collection: CollectionId,
        wait: Wait,
        now_ms: u64,
        size: usize,
    ) -> Result<(), Reason> {
        let longest = u64::try_from(WAIT_MAX.as_millis()).expect("it is a minute");
        if now_ms.saturating_add(longest) < wait.until_ms {
            return Err(Reason::WaitTooLong);
        }
        let bytes = self.bytes.saturating_add(size);
        if self.bounds.waiters <= self.waiters.len() || self.bounds.bytes < bytes {
            return Err(Reason::TooManyWaiting);
        }
        self.bytes = bytes;
        self.arrivals += 1;
        let waiter = Waiter {
            queue: (collection, wait.alike),
            place: self.arrivals,
            until_ms: wait.until_ms,
            size,
            is_out: false,
            is_woken: false,
        };
        let known = self.waiters.insert(token, waiter);
        assert!(known.is_none(), "a request waits once");
        self.deadlines.insert((wait.until_ms, waiter.place, token));
        let queue = self.queues.entry(waiter.queue).or_default();
        queue.insert(waiter.place, token);
        self.alarm(collection, wait);
        Ok(())
    }

    /// Sets when the first of alike waiters is decided again though nothing changes. The last
    /// decision of one of them says it (WAITER-5).
    pub fn alarm(&mut self, collection: CollectionId, wait: Wait) {
        let queue = (collection, wait.alike);
        if let Some(at_ms) = self.alarms.remove(&queue) {
            self.alarm_times.remove(&(at_ms, queue));
        }
        if let Some(at_ms) = wait.wake_ms.filter(|_| self.queues.contains_key(&queue)) {
            self.alarms.insert(queue, at_ms);
            self.alarm_times.insert((at_ms, queue));
        }
    }

    /// An entry that was applied changed a row of this collection.
    pub fn stirred(&mut self, collection: CollectionId, stir: Stir) {
        match stir {
            Stir::Nothing => {}
            Stir::Now => self.touched(collection),
            Stir::At(at_ms) => self.due_at(collection, at_ms),
        }
    }

    /// Something is due in this collection then, or before, as their last decisions have it.
    fn due_at(&mut self, collection: CollectionId, at_ms: u64) {
        let queues = self.queues.range((collection, 0)..=(collection, u64::MAX));
        for (queue, _) in queues {
            let known = self.alarms.get(queue).copied();
            if known.is_none_or(|known| at_ms < known) {
                known.map(|known| self.alarm_times.remove(&(known, *queue)));
                self.alarm_times.insert((at_ms, *queue));
                self.alarms.insert(*queue, at_ms);
            }
        }
    }

    fn touched(&mut self, collection: CollectionId) {
        let queues = self.queues.range((collection, 0)..=(collection, u64::MAX));
        for (queue, waiters) in queues {
            if let Some((place, _)) = waiters.first_key_value() {
                self.ready.insert((*place, *queue));
            }
        }
    }

    /// It is so late. Says when it matters next.
    pub fn pass(&mut self, now_ms: u64) -> Option<u64> {
        while let Some((at_ms, queue)) = self.alarm_times.first().copied() {
            if now_ms < at_ms {
                break;
            }
            self.alarm_times.pop_first();
            self.alarms.remove(&queue);
            let first = self.queues.get(&queue).and_then(|it| it.first_key_value());
            if let Some((place, _)) = first {
                self.ready.insert((*place, queue));
            }
        }
        let alarm_ms = self.alarm_times.first().map(|(at_ms, _)| *at_ms);
        let deadline_ms = self.pass_deadlines(now_ms);
        deadline_ms.into_iter().chain(alarm_ms).min()
    }

    fn pass_deadlines(&mut self, now_ms: u64) -> Option<u64> {
        while let Some((until_ms, place, token)) = self.deadlines.first().copied() {
            if now_ms < until_ms {
                return Some(until_ms);
            }
            self.deadlines.pop_first();
            self.due.insert(place, token);
        }
        None
    }

    /// The next that is to be decided again, if there is one. What becomes of it is told by
    /// [`Waiters::again`] or [`Waiters::leave`].
    pub fn pop(&mut self) -> Option<CorrelationId> {
        while let Some((place, queue)) = self.ready.pop_first() {
            let token = self.queues.get(&queue).and_then(|them| them.get(&place));
            if let Some(token) = token.copied()
                && self.give_out(token, true)
            {
                return Some(token);
            }
        }
        while let Some((_, token)) = self.due.pop_first() {
            if self.give_out(token, false) {
                return Some(token);
            }
        }
        None
    }

    fn give_out(&mut self, token: CorrelationId, is_woken: bool) -> bool {
        match self.waiters.get_mut(&token) {
            Some(waiter) if !waiter.is_out => {
                (waiter.is_out, waiter.is_woken) = (true, is_woken);
                true
            }
            _ => false,
        }
    }

    /// One that was given out waits again: it keeps its place. Past its deadline it may not, and
    /// leaves.
    ///
    /// # Errors
    /// [`Reason::WaitTooLong`] past its deadline.
    pub fn again(&mut self, token: CorrelationId, now_ms: u64) -> Result<(), Reason> {
        let Some(waiter) = self.waiters.get_mut(&token) else {
            return Ok(());
        };
        (waiter.is_out, waiter.is_woken) = (false, false);
        if waiter.until_ms <= now_ms {
            self.leave(token);
            return Err(Reason::WaitTooLong);
        }
        Ok(())
    }

    /// One is served, refused, or its client has gone. If it was to be served by what changed, the
    /// next one that is alike is.
    pub fn leave(&mut self, token: CorrelationId) {
        let Some(waiter) = self.waiters.remove(&token) else {
            return;
        };
        let Waiter {
            queue,
            place,
            until_ms,
            size,
            is_out: _,
            is_woken,
        } = waiter;
        self.bytes -= size;
        self.deadlines.remove(&(until_ms, place, token));
        self.due.remove(&place);
        let was_ready = self.ready.remove(&(place, queue));
        let waiters = self
            .queues
            .get_mut(&queue)
            .expect("WAITER-3: it was in its queue");
        waiters.remove(&place);
        match waiters.first_key_value() {
            None => {
                self.queues.remove(&queue);
                if let Some(at_ms) = self.alarms.remove(&queue) {
                    self.alarm_times.remove(&(at_ms, queue));
                }
            }
            Some((next, _)) if is_woken || was_ready => drop(self.ready.insert((*next, queue))),
            Some(_) => {}
        }
    }

    /// Ends all waiting, as where the member is no head any more: who waited, in order.
    pub fn end(&mut self) -> Vec<CorrelationId> {
        let waiters = std::mem::take(&mut self.waiters);
        let mut all: Vec<_> = waiters
            .iter()
            .map(|(token, it)| (it.place, *token))
            .collect();
        all.sort_unstable();
        let bounds = self.bounds;
        *self = Waiters::new(bounds);
        all.into_iter().map(|(_, token)| token).collect()
    }
}

#[cfg(test)]
mod tests;
