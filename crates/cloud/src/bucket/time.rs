//! Times of the store and of processes, and how long a claim hides its message (rule BQUEUE-11).
//!
//! A claim hides for its visibility after the Last-Modified of the state that made it. Its holder
//! counts on its own clock, from before the claim landed. Other processes compare with a lower
//! bound of the store's time. So neither needs to know how far its clock is off.
//!
//! Invariants:
//! - TIME-1 while a holder holds, no process finds the claim over.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use fader_chain::{DecodeError, Reader, put_varint};

use super::guard::{Guard, Guards};

/// The grain of Last-Modified.
pub(super) const GRAIN: Duration = Duration::from_secs(1);
/// Clocks of processes run at the rate of the store's, but for one part in so many.
const DRIFT: u32 = 1000;

/// What a process's clock may be too fast or too slow by in this time.
pub(super) fn drift(time: Duration) -> Duration {
    time / DRIFT
}

/// How long a message is hidden.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Hidden {
    /// Not at all.
    #[default]
    Not,
    /// For this long after the state that says so landed.
    For(Duration),
    /// Until this time of the store, since 1970.
    Until(Duration),
}

/// When a state landed, as far as a process knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Landed {
    /// Its Last-Modified: the store's time since 1970.
    Modified(Duration),
    /// Before this moment of the process's monotonic clock, at which the answer came.
    Answered(Duration),
}

/// What the clocks say.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    /// The process's monotonic clock.
    pub(super) now: Duration,
    /// The process's wall clock. Only dry runs and mutants look at it.
    pub(super) wall: Duration,
    /// A lower bound of the store's time since 1970; zero if none is known.
    pub(super) store: Duration,
}

impl Hidden {
    /// Whether a message is hidden still.
    pub(super) fn is_hidden(self, landed: Landed, at: &Moment, guards: &Guards) -> bool {
        let store = match guards.has(Guard::TakerByStoreClock) {
            true => at.store,
            false => at.wall,
        };
        match (self, landed) {
            (Hidden::Not, _) => false,
            (Hidden::For(time), Landed::Modified(modified)) => {
                store < end_of(time, modified, guards)
            }
            (Hidden::For(time), Landed::Answered(answered)) => {
                at.now < answered + time + drift(time)
            }
            (Hidden::Until(end), _) => store < end,
        }
    }

    /// The same end, for a state that will land after `now` of the process's monotonic clock.
    ///
    /// With the Last-Modified the end is a time of the store. Without it the new state hides for
    /// what is left at least: as it lands after `now`, its end is not before the old one.
    pub(super) fn carried(self, landed: Landed, now: Duration, guards: &Guards) -> Self {
        match (self, landed) {
            (Hidden::For(time), Landed::Modified(modified)) => {
                Hidden::Until(end_of(time, modified, guards))
            }
            (Hidden::For(time), Landed::Answered(answered)) => {
                let passed = now.saturating_sub(answered);
                match time.checked_sub(passed - drift(passed)) {
                    Some(left) if !left.is_zero() => Hidden::For(left),
                    _ => Hidden::Not,
                }
            }
            (other, _) => other,
        }
    }

    pub(super) fn encode(self, out: &mut Vec<u8>) {
        match self {
            Hidden::Not => out.push(0),
            Hidden::For(time) => {
                out.push(1);
                put_varint(out, millis_up(time));
            }
            Hidden::Until(end) => {
                out.push(2);
                put_varint(out, millis_up(end));
            }
        }
    }

    pub(super) fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        match reader.byte()? {
            0 => Ok(Hidden::Not),
            1 => Ok(Hidden::For(Duration::from_millis(reader.varint()?))),
            2 => Ok(Hidden::Until(Duration::from_millis(reader.varint()?))),
            _ => Err(DecodeError::new("a message hidden in an unknown way")),
        }
    }
}

fn end_of(time: Duration, modified: Duration, guards: &Guards) -> Duration {
    let grain = match guards.has(Guard::Grain) {
        true => GRAIN,
        false => Duration::ZERO,
    };
    modified.saturating_add(grain).saturating_add(time)
}

/// Whole milliseconds, rounded up.
fn millis_up(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// The end of a holder's time by its own clock, if its claim was sent at `sent`.
pub(super) fn holder_end(sent: Duration, visibility: Duration) -> Duration {
    sent + visibility - drift(visibility)
}

/// A lower bound of the store's time: the largest of the times that its answers showed, each with
/// the time that has passed since.
#[derive(Debug, Default)]
pub(super) struct StoreClock {
    known: Mutex<Option<Known>>,
    /// Whether an object was written to learn it.
    is_learned: AtomicBool,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    /// The store's time since 1970, or less.
    store: Duration,
    /// The monotonic clock of the process when that was known.
    at: Duration,
}

impl StoreClock {
    /// Takes a time that an answer showed, which has come by `now` of the monotonic clock.
    pub(super) fn observe(&self, store: Duration, now: Duration) {
        let mut known = self.known();
        if known.is_none_or(|known| known.at_time(now) < store) {
            *known = Some(Known { store, at: now });
        }
    }

    /// The lower bound; zero if no answer has shown a time.
    pub(super) fn lower(&self, now: Duration) -> Duration {
        self.known()
            .map_or(Duration::ZERO, |known| known.at_time(now))
    }

    /// Whether the caller should write an object to learn the time: once in a process, since time
    /// that passes afterwards is counted.
    pub(super) fn should_learn(&self) -> bool {
        !self.is_learned.swap(true, Ordering::Relaxed)
    }

    fn known(&self) -> MutexGuard<'_, Option<Known>> {
        self.known
            .lock()
            .expect("nothing panics while it is locked")
    }
}

impl Known {
    fn at_time(&self, now: Duration) -> Duration {
        let passed = now.saturating_sub(self.at);
        self.store + (passed - drift(passed))
    }
}

#[cfg(test)]
mod tests;
