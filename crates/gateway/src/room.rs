//! Memory for bodies that arrive: taken as they do, never for what is announced.
//!
//! When it is used up, the body that makes least progress is cut, and the others go on. One that
//! stands still goes before one that moves, then the slower. A body that has just begun, or is
//! whole, is never cut.
//!
//! Invariants:
//! - ROOM-1 bodies hold at most `bytes_max`, or one body alone what it has.
//! - ROOM-2 a body waits for no other one for longer than that one is young.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

/// How long a body has begun just now, and how long one that moves may pause.
const YOUNG: Duration = Duration::from_secs(1);
/// How often a body that waits looks whether another one is not young any more.
const LOOK: Duration = Duration::from_millis(50);

/// The body was cut for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut;

/// Memory for bodies.
pub(crate) struct Room {
    bytes_max: usize,
    state: Mutex<State>,
    /// Some was given back.
    freed: Notify,
}

#[derive(Default)]
struct State {
    used: usize,
    next: u64,
    bodies: BTreeMap<u64, Body>,
}

struct Body {
    bytes: usize,
    pace: Pace,
    /// All of it is there.
    is_whole: bool,
    cut: Arc<Signal>,
}

#[derive(Default)]
struct Signal {
    is_given: AtomicBool,
    given: Notify,
}

/// How fast a body arrives: its bytes, halved with each second that is over.
struct Pace {
    begun: Instant,
    moved: Instant,
    recent: u64,
}

impl Pace {
    fn new(now: Instant) -> Self {
        Pace {
            begun: now,
            moved: now,
            recent: 0,
        }
    }

    fn move_on(&mut self, bytes: usize, now: Instant) {
        self.recent = self.recent(now).saturating_add(bytes as u64);
        self.moved = now;
    }

    fn recent(&self, now: Instant) -> u64 {
        let seconds = now.saturating_duration_since(self.moved).as_secs();
        self.recent
            .checked_shr(u32::try_from(seconds).unwrap_or(u32::MAX))
            .unwrap_or_default()
    }

    /// Smaller for less progress; none for a body that has just begun.
    fn progress(&self, now: Instant) -> Option<(bool, u64)> {
        let age = |since| now.saturating_duration_since(since);
        let moves = age(self.moved) < YOUNG;
        (YOUNG <= age(self.begun)).then(|| (moves, self.recent(now)))
    }
}

impl State {
    /// Cuts the body with the least progress, unless one is being cut already.
    fn cut_one(&self, now: Instant) {
        let arriving = self.bodies.values().filter(|body| !body.is_whole);
        if arriving.clone().any(|body| body.cut.is_given()) {
            return;
        }
        let holding = arriving.filter(|body| 0 < body.bytes);
        let slowest = holding
            .filter_map(|body| Some((body.pace.progress(now)?, body)))
            .min_by_key(|(progress, _)| *progress);
        if let Some((_, body)) = slowest {
            body.cut.give();
        }
    }
}

impl Signal {
    fn is_given(&self) -> bool {
        self.is_given.load(Ordering::Relaxed)
    }

    fn give(&self) {
        self.is_given.store(true, Ordering::Relaxed);
        self.given.notify_one();
    }

    async fn given(&self) {
        while !self.is_given() {
            self.given.notified().await;
        }
    }
}

impl Room {
    /// Room for `bytes_max` bytes.
    pub(crate) fn new(bytes_max: usize) -> Room {
        Room {
            bytes_max,
            state: Mutex::default(),
            freed: Notify::new(),
        }
    }

    /// A body that begins to arrive. It holds nothing yet.
    pub(crate) fn enter(&self) -> Held<'_> {
        let cut = Arc::new(Signal::default());
        let mut state = self.state.lock();
        let id = state.next;
        state.next += 1;
        let body = Body {
            bytes: 0,
            pace: Pace::new(Instant::now()),
            is_whole: false,
            cut: Arc::clone(&cut),
        };
        state.bodies.insert(id, body);
        drop(state);
        Held {
            room: self,
            id,
            cut,
        }
    }

    /// Takes memory for a body if there is some; else sees to it that there will be.
    fn try_take(&self, id: u64, bytes: usize) -> bool {
        let now = Instant::now();
        let state = &mut *self.state.lock();
        let Some(body) = state.bodies.get_mut(&id) else {
            return true;
        };
        let is_alone = state.used == body.bytes;
        if is_alone || state.used.saturating_add(bytes) <= self.bytes_max {
            body.bytes += bytes;
            body.pace.move_on(bytes, now);
            state.used += bytes;
            return true;
        }
        state.cut_one(now);
        false
    }
}

/// What a body holds of a room, for as long as this lives.
pub(crate) struct Held<'a> {
    room: &'a Room,
    id: u64,
    cut: Arc<Signal>,
}

impl Held<'_> {
    /// Takes memory for bytes that have come, when there is some.
    ///
    /// # Errors
    /// [`Cut`] when this body makes least progress of all.
    pub(crate) async fn take(&self, bytes: usize) -> Result<(), Cut> {
        let mut cut = pin!(self.cut.given());
        loop {
            let mut freed = pin!(self.room.freed.notified());
            freed.as_mut().enable();
            if self.cut.is_given() {
                return Err(Cut);
            }
            if self.room.try_take(self.id, bytes) {
                return Ok(());
            }
            tokio::select! {
                () = &mut cut => return Err(Cut),
                _ = timeout(LOOK, freed) => {}
            }
        }
    }

    /// Resolves when this body is cut.
    pub(crate) async fn cut(&self) -> Cut {
        self.cut.given().await;
        Cut
    }

    /// All of the body is there.
    pub(crate) fn is_whole(&self) {
        if let Some(body) = self.room.state.lock().bodies.get_mut(&self.id) {
            body.is_whole = true;
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let mut state = self.room.state.lock();
        if let Some(body) = state.bodies.remove(&self.id) {
            state.used -= body.bytes;
        }
        drop(state);
        self.room.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests;
