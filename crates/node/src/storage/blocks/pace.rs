//! How much may be read in the background by now. Pure: the caller gives the time.

use std::time::Duration;

/// A rate that is never made up for: what was not used in a second is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pace {
    bytes_per_second: u64,
    last: Duration,
    /// Bytes that may be read now; below zero after more was read than was granted.
    credit: i64,
}

impl Pace {
    /// A pace that begins at `now`.
    pub(super) fn new(bytes_per_second: u64, now: Duration) -> Self {
        Pace {
            bytes_per_second,
            last: now,
            credit: 0,
        }
    }

    /// Bytes that may be read at `now`.
    pub(super) fn granted(&mut self, now: Duration) -> u64 {
        let passed = now.saturating_sub(self.last).min(Duration::from_secs(3600));
        let earned = passed.as_micros() * u128::from(self.bytes_per_second) / 1_000_000;
        // Time too short for a byte is kept.
        if 0 < earned {
            self.last = now;
            let earned = i64::try_from(earned).unwrap_or(i64::MAX);
            let most = i64::try_from(self.bytes_per_second).unwrap_or(i64::MAX);
            self.credit = self.credit.saturating_add(earned).min(most);
        }
        u64::try_from(self.credit).unwrap_or(0)
    }

    /// So much was read: a block is read whole, so it may be more than was granted.
    pub(super) fn spend(&mut self, bytes: u64) {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        self.credit = self.credit.saturating_sub(bytes);
    }
}
