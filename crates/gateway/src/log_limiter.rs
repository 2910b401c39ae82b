//! Lines of the log about what is refused: the first of a reason at once, the others counted, and
//! told together. However much is refused, the log grows by a few lines in an interval.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{MissedTickBehavior, interval};

/// How often those are told that were counted.
const INTERVAL: Duration = Duration::from_secs(10);
/// Reasons that are kept apart; all others are one.
const REASONS_MAX: usize = 64;
const OTHERS: &str = "others";

/// How often what was refused since the last line that said so, by reason.
#[derive(Default)]
pub(crate) struct LogLimiter(Mutex<BTreeMap<String, u64>>);

impl LogLimiter {
    /// Something was refused, for one of a closed list of reasons.
    pub(crate) fn add(&self, reason: &str) {
        if self.is_first(reason) {
            tracing::info!(reason, "refused");
        }
    }

    /// Whether a line about this one is to be written now. All others are counted.
    fn is_first(&self, reason: &str) -> bool {
        let mut counts = self.0.lock();
        if let Some(count) = counts.get_mut(reason) {
            *count += 1;
            return false;
        }
        if REASONS_MAX <= counts.len() {
            *counts.entry(OTHERS.to_owned()).or_default() += 1;
            return false;
        }
        counts.insert(reason.to_owned(), 0);
        true
    }

    /// What was counted since the last time; a reason that rested begins anew.
    fn take(&self) -> Vec<(String, u64)> {
        let mut counts = self.0.lock();
        counts.retain(|_, count| 0 < *count);
        let told = counts
            .iter_mut()
            .map(|(reason, count)| (reason.clone(), std::mem::take(count)));
        told.collect()
    }

    /// Tells what was counted, for ever.
    pub(crate) async fn tell(&self) {
        let mut ticks = interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            for (reason, count) in self.take() {
                let seconds = INTERVAL.as_secs();
                tracing::info!(reason, count, seconds, "refused more of the same");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_told_and_the_others_are_counted() {
        let log_limiter = LogLimiter::default();
        let told: Vec<bool> = ["a", "a", "b", "a"]
            .map(|it| log_limiter.is_first(it))
            .into();
        assert_eq!(told, [true, false, true, false]);
        assert_eq!(log_limiter.take(), [("a".to_owned(), 2)]);
        // It goes on, and is counted; then it rests, and begins anew.
        assert!(!log_limiter.is_first("a"));
        assert!(log_limiter.is_first("b"));
        assert_eq!(log_limiter.take(), [("a".to_owned(), 1)]);
        assert_eq!(log_limiter.take(), []);
        assert!(log_limiter.is_first("a"));
    }

    #[test]
    fn reasons_are_bounded() {
        let log_limiter = LogLimiter::default();
        for number in 0..10 * REASONS_MAX {
            log_limiter.is_first(&number.to_string());
        }
        assert!(log_limiter.0.lock().len() <= REASONS_MAX + 1);
    }
}
