//! The clocks of one machine. One is steady and its rate is wrong by a little (I7); one is on the
//! wall and may be put to any time (I18).

use fader_chain::Now;

/// The clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Clock {
    /// What the steady clock shows at the beginning, in microseconds.
    pub(crate) origin: u64,
    /// How much faster than real time it runs, in parts of a million.
    pub(crate) drift_ppm: i64,
    /// How far the wall's clock is ahead, in milliseconds.
    pub(crate) ahead_ms: i64,
}

/// Where the wall's clock stands when a world begins: late enough to be put back.
const BEGINNING_MS: i64 = 1_000_000;

impl Clock {
    /// The steady clock at the real time `now`, in microseconds.
    pub(crate) fn steady(&self, now: u64) -> u64 {
        let drifted = i128::from(now) * i128::from(self.drift_ppm) / 1_000_000;
        let shown = i128::from(self.origin) + i128::from(now) + drifted;
        u64::try_from(shown).expect("a clock that begins late enough never shows less than nothing")
    }

    /// What a step at the real time `now` is told.
    pub(crate) fn read(&self, now: u64) -> Now {
        let wall = BEGINNING_MS + i64::try_from(now / 1_000).unwrap_or(i64::MAX) + self.ahead_ms;
        Now {
            monotonic: self.steady(now) / 1_000,
            wall: u64::try_from(wall).unwrap_or(0),
        }
    }
}
