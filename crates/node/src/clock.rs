//! The clocks of a node.
//!
//! Members of one process, their coordinator and their controller share a [`Clock`], which a test
//! moves. What reaches other processes reads the system's clock.

#[cfg(debug_assertions)]
use std::path::PathBuf;
use std::sync::Arc;
#[cfg(debug_assertions)]
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

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

/// Milliseconds since 1970; 0 before.
pub(crate) fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| {
        let seconds_ms = now.as_secs().saturating_mul(1000);
        seconds_ms.saturating_add(u64::from(now.subsec_millis()))
    })
}

/// The system's clock, or one that a test moves ahead of it. Copies are one clock.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    /// By how much it is ahead, in milliseconds.
    ahead_ms: Arc<AtomicU64>,
}

impl Clock {
    /// So much time passes at once.
    pub fn advance(&self, time: Duration) {
        let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.ahead_ms.fetch_add(ms, Ordering::Relaxed);
    }

    fn ahead_ms(&self) -> u64 {
        self.ahead_ms.load(Ordering::Relaxed)
    }

    /// Milliseconds by which leases are counted, as [`monotonic_ms`].
    pub(crate) fn monotonic_ms(&self) -> u64 {
        monotonic_ms() + self.ahead_ms()
    }

    /// Milliseconds since 1970, as [`now_ms`].
    pub(crate) fn now_ms(&self) -> u64 {
        now_ms() + self.ahead_ms()
    }

    /// Both clocks of a step.
    pub(crate) fn now(&self) -> Now {
        let ahead_ms = self.ahead_ms();
        Now {
            monotonic: monotonic_ms() + ahead_ms,
            wall: now_ms() + ahead_ms,
        }
    }

    /// The moment that this is, for the process's own waits.
    pub(crate) fn instant(&self) -> Instant {
        Instant::now() + Duration::from_millis(self.ahead_ms())
    }
}
