//! The clocks of a step (`fader_chain::Now`).

use std::time::{SystemTime, UNIX_EPOCH};

use fader_chain::Now;
use rustix::time::{ClockId, clock_gettime};

/// Milliseconds of a clock that never falls and counts the time that the machine was suspended.
pub(crate) fn monotonic_ms() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000
}

/// Both clocks.
pub(crate) fn now() -> Now {
    Now {
        monotonic: monotonic_ms(),
        wall: now_ms(),
    }
}

/// Milliseconds since 1970; 0 before.
pub(crate) fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
}
