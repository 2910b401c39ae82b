//! Requests that wait at the head for their collection to change, on the chain thread
//! (`fader_services::waiters` has their order).
//!
//! ```text
//!  submit ──▶ decided to wait ──▶ parked ── entry applied, or deadline ──▶ submit
//!                                   │
//!                                   └── client gone, no head any more, end ──▶ nothing, or refused
//! ```
//!
//! A request that waits costs nothing while its collection does not change, but for a look once a
//! second whether its client is there.

use std::time::Duration;

use fader_services::{Reason, request};

use super::pending::{PendingRequest, Stage};
use super::refusal::{Kind, Refusal};
use super::request_table::RequestTable;
use super::thread::ChainThread;
use crate::storage::engine::Pair;

/// How often it is looked for clients that have gone.
const LOOK_MS: u64 = 1000;

impl RequestTable {
    /// Whether any request waits.
    pub(super) fn has_waiters(&self) -> bool {
        !self.parked.is_empty()
    }

    /// Has a request wait that was decided to; one that did already keeps its place.
    fn park(&mut self, mut work: Box<PendingRequest>) {
        let Some((collection, wait)) = work.waits() else {
            return;
        };
        let now_ms = self.settings.clock.now_ms();
        let PendingRequest::Write { call, waiter, .. } = &mut *work else {
            return;
        };
        let size = call.request.size();
        let (token, waits) = match *waiter {
            Some(token) => {
                let waiters = self.waiters.get_mut();
                let again = waiters.again(token, now_ms);
                waiters.alarm(collection, wait);
                (token, again)
            }
            None => {
                let token = self.token();
                let mut waiters = self.waiters.borrow_mut();
                (token, waiters.wait(token, collection, wait, now_ms, size))
            }
        };
        match waits {
            Ok(()) => {
                *waiter = Some(token);
                call.note_waits();
                drop(self.parked.insert(token, work));
            }
            Err(reason) => {
                let kind = match reason {
                    Reason::WaitTooLong => Kind::Never,
                    _ => Kind::Again,
                };
                work.fail(Refusal::new(kind, reason));
            }
        }
    }

    /// Entries that were applied changed these keys.
    pub(super) fn on_changed(&mut self, pairs: &[Pair<'_>]) {
        if !self.has_waiters() {
            return;
        }
        let waiters = self.waiters.get_mut();
        let mut last = None;
        for (key, value) in pairs {
            let stir = request::stir(key, *value).filter(|stir| last != Some(*stir));
            if let Some((collection, stir)) = stir {
                waiters.stirred(collection, stir);
                last = Some((collection, stir));
            }
        }
    }

    /// The next request that is to be decided again. One whose client has gone leaves.
    fn next_woken(&mut self) -> Option<Box<PendingRequest>> {
        while let Some(token) = self.waiters.get_mut().pop() {
            match self.parked.remove(&token) {
                Some(mut work) if !work.is_hung_up() => {
                    if let PendingRequest::Write { stage, .. } = &mut *work {
                        *stage = Stage::Strong;
                    }
                    return Some(work);
                }
                _ => self.waiters.get_mut().leave(token),
            }
        }
        None
    }

    /// Requests whose clients have gone leave.
    fn forget_hung_up(&mut self) {
        let waiters = self.waiters.get_mut();
        self.parked.retain(|token, work| {
            let is_there = !work.is_hung_up();
            if !is_there {
                waiters.leave(*token);
            }
            is_there
        });
    }
}

impl ChainThread {
    /// A request was decided to wait.
    pub(super) fn wait(&mut self, work: Box<PendingRequest>) {
        self.requests.park(work);
    }

    /// Has those decided again that may be served now. Says whether there were any.
    pub(super) fn wake(&mut self) -> bool {
        let mut has_woken = false;
        while let Some(work) = self.requests.next_woken() {
            has_woken = true;
            self.submit(work);
        }
        has_woken
    }

    /// Time passes for those that wait: deadlines, clients that go, and the end of being the head.
    pub(super) fn attend(&mut self) {
        if !self.requests.has_waiters() {
            return;
        }
        if !self.is_sweeper() {
            return self.dismiss(&Refusal::new(Kind::Elsewhere, Reason::NoMember));
        }
        let now_ms = self.settings.clock.monotonic_ms();
        if self.looked_at + LOOK_MS <= now_ms {
            self.looked_at = now_ms;
            self.requests.forget_hung_up();
        }
        let wall_ms = self.settings.clock.now_ms();
        self.until_ms = self.requests.waiters.get_mut().pass(wall_ms);
        if self.wake() {
            self.flush();
        }
    }

    /// All that wait are refused.
    pub(super) fn dismiss(&mut self, refusal: &Refusal) {
        for token in self.requests.waiters.get_mut().end() {
            if let Some(work) = self.requests.parked.remove(&token) {
                work.fail(refusal.clone());
            }
        }
    }

    /// For how long the thread may rest, at most a tick: until the next deadline.
    pub(super) fn rest(&self, tick: Duration) -> Duration {
        match self.until_ms.filter(|_| self.requests.has_waiters()) {
            None => tick,
            Some(until_ms) => {
                let left_ms = until_ms.saturating_sub(self.settings.clock.now_ms());
                Duration::from_millis(left_ms).min(tick)
            }
        }
    }
}
