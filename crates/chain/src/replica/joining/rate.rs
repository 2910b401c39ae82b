//! How fast a gap is filled (BP-4): a bucket of bytes that fills with time.

/// How much of a second's bytes may be spent at once.
const BURST_MS: u64 = 100;
const SECOND_MS: u64 = 1_000;

/// What was spent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Rate {
    /// Until when the rate is used up by what was spent.
    until: u64,
    /// Bytes that come to no whole millisecond yet.
    rest: u64,
}

impl Rate {
    /// Whether more may be spent.
    pub(super) fn allows(&self, now: u64) -> bool {
        self.until <= now + BURST_MS
    }

    /// Notes bytes that were spent; the rate is not 0.
    pub(super) fn spend(&mut self, bytes: usize, per_second: u64, now: u64) {
        let bytes = self.rest + bytes as u64;
        let spent_ms = bytes * SECOND_MS / per_second;
        self.rest = bytes - spent_ms * per_second / SECOND_MS;
        if 0 < spent_ms {
            self.until = self.until.max(now) + spent_ms;
        }
    }
}

#[cfg(test)]
mod tests;
