//! The rule of the seed, word for word.
//!
//! - No slow start: from one request in flight the window grows linearly, by one each time that a
//!   window of requests was answered.
//! - Slow restart: where fewer requests than the window were in flight, the window falls to that
//!   number and one more. Up to the threshold it grows by one with each answer, which doubles it in
//!   a round trip.
//! - A failure (5xx, a broken connection, a timeout) halves: threshold and window become half of
//!   what was in flight *when the failed request was issued*. So all failures of one window cut
//!   once, and a timeout that comes late does not cut what has been cut since.
//!
//! Invariant: 1 <= window, 1 <= threshold.

use crate::controller::InFlight;

/// Bound: 1 upwards. The seed: half.
const KEPT: f64 = 0.5;

#[derive(Debug)]
pub(crate) struct Aimd {
    pub(crate) window: f64,
    pub(crate) threshold: f64,
}

impl Aimd {
    pub(crate) fn new() -> Aimd {
        Aimd {
            window: 1.0,
            threshold: 1.0,
        }
    }

    pub(crate) fn on_ok(&mut self, in_flight: u32) {
        let used = f64::from(in_flight) + 1.0;
        self.window = self.window.min(used).max(1.0);
        self.window += match self.window < self.threshold {
            true => 1.0,
            false => 1.0 / self.window,
        };
    }

    pub(crate) fn on_failure(&mut self, flight: &InFlight) {
        self.threshold = (f64::from(flight.in_flight) * KEPT).max(1.0);
        self.window = self.window.min(self.threshold);
    }
}
