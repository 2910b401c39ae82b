//! How fast a gap is filled (BP-4): a bucket of bytes that fills with time. After each part it
//! rests, longer the longer the part took.
//!
//! A part takes longer where there is other work. It waits in the donor's queue and in the member's
//! own behind what clients ask for, and for the disk. So the transfer gives way to clients without
//! knowing of them, on either side, and is fast where no client asks for anything.

/// How much of a second's bytes may be spent at once.
const BURST_MS: u64 = 100;
const SECOND_MS: u64 = 1_000;
/// After a part that took some time, so many times as long nothing is asked for.
const REST_TIMES: u64 = 2;
/// The longest rest: a fill ends, however busy everyone is.
const REST_MS_MAX: u64 = 200;

/// What was spent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Rate {
    /// Until when the rate is used up by what was spent.
    until: u64,
    /// Bytes that come to no whole millisecond yet.
    rest: u64,
    /// When the part that is under way was asked for.
    since: Option<u64>,
    /// When the rest after the last part is over.
    rested: u64,
}

impl Rate {
    /// Whether more may be spent.
    pub(super) fn allows(&self, now: u64) -> bool {
        self.until <= now + BURST_MS && self.rested <= now
    }

    /// A part is asked for, maybe again.
    pub(super) fn begin(&mut self, now: u64) {
        self.since.get_or_insert(now);
    }

    /// The part has been taken.
    pub(super) fn end(&mut self, now: u64) {
        if let Some(since) = self.since.take() {
            let took = now.saturating_sub(since);
            self.rested = now + REST_MS_MAX.min(REST_TIMES * took);
        }
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
