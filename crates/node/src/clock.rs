//! The clocks of a step (`fader_chain::Now`).

#[cfg(debug_assertions)]
use std::path::PathBuf;
#[cfg(debug_assertions)]
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use fader_chain::Now;
use rustix::time::{ClockId, clock_gettime};

/// Milliseconds of a clock that never falls and counts the time that the machine was suspended.
pub(crate) fn monotonic_ms() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    let shown = now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000;
    shown.saturating_sub(stopped_ms())
}

/// For how many milliseconds this clock stood still with its machine: never, as far as a process
/// can tell.
#[cfg(not(debug_assertions))]
fn stopped_ms() -> u64 {
    0
}

/// In builds with assertions a test says it, in a file. A real pause of a machine is not to be had
/// there, and what sets other clocks does not reach this one.
#[cfg(debug_assertions)]
fn stopped_ms() -> u64 {
    static FILE: OnceLock<Option<PathBuf>> = OnceLock::new();
    let file = FILE.get_or_init(|| std::env::var_os("FADER_TEST_STOPPED_MS").map(PathBuf::from));
    let text = file
        .as_ref()
        .and_then(|file| std::fs::read_to_string(file).ok());
    text.and_then(|text| text.trim().parse().ok()).unwrap_or(0)
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
