//! Where few requests are in flight: what the refusals of a client have taught it.
//!
//! Each refusal is a large part of what such a client sends. So it cannot learn from refusals for
//! ever as a client of hundreds does. It learns once. At first many refusals are borne, the more
//! the slower the client, so that clients of one service come to equal rates. Each takes away some
//! of what is unknown. From then on few are borne, and what a refusal takes is small, unless there
//! were many of late.
//!
//! Invariants: `unknown` is from 0 to 1 and never rises; `refusals` is at least 0.

/// The share of refused requests at rest, for a window of one; it falls as the window to the power
/// below. Bound: 0 to 0.01. A fifth of a percent at a window of nine.
const SHARE: f64 = 0.004;
/// Bound: above 0, so that clients of one service come to equal windows; below 0.5, or the slowest
/// would be refused a hundredth.
const SHARE_POWER: f64 = 0.3;
/// The share while all is unknown: the square of this over the rate, in requests a second. Bound:
/// above 0. At 19 requests a second 5 %, at ten 18 %. So steep, few refusals make rates equal.
const LEARNING: f64 = 4.25;
/// The most of it. Bound: below 1.
const LEARNING_MAX: f64 = 0.6;
/// Refusals from which all is learnt, where they come as often as is borne; those that come sooner
/// count less. Bound: 4 upwards. The root of it says how equal rates become.
const LESSONS: f64 = 16.0;
/// What a refusal takes from the window, as a part, for each refusal of late. Bound: 0 to 0.1. The
/// spread of the rates of clients that know all is as the root of it.
const CUT: f64 = 0.02;
/// Answers that are of late. Bound: 16 upwards. So a service that refuses each tenth request lowers
/// the rate by a tenth with each of them.
const LATE: f64 = 50.0;

#[derive(Debug)]
pub(crate) struct SmallWindow {
    unknown: f64,
    refusals: f64,
}

impl SmallWindow {
    pub(crate) fn new() -> SmallWindow {
        SmallWindow {
            unknown: 1.0,
            refusals: 0.0,
        }
    }

    /// What is still to be learnt, from 1 down to 0.
    pub(crate) fn unknown(&self) -> f64 {
        self.unknown
    }

    /// The part of the window that a refusal takes.
    pub(crate) fn cut(&self) -> f64 {
        CUT * self.refusals.max(1.0)
    }

    pub(crate) fn on_ok(&mut self) {
        self.refusals -= self.refusals / LATE;
    }

    /// `silence` is how many refusals were due since the one before.
    pub(crate) fn on_refusal(&mut self, silence: f64) {
        self.refusals += 1.0;
        self.unknown = (self.unknown - silence.min(1.0) / LESSONS).max(0.0);
    }
}

/// The share of refused requests at rest.
pub(crate) fn share(window: f64) -> f64 {
    SHARE / window.powf(SHARE_POWER)
}

/// The same while all is unknown, for so many requests a second.
pub(crate) fn learning_share(rate: f64) -> f64 {
    (LEARNING / rate).powi(2).min(LEARNING_MAX)
}
