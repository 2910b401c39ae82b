//! A run in numbers: a function of its log.

use std::time::Duration;

use fader_history::{Action, Log, Operation};
use hdrhistogram::Histogram;

/// One hour: no latency is longer.
const LATENCY_NS_MAX: u64 = 3_600_000_000_000;
/// Three digits: an error of at most 0.1 %.
const DIGITS: u8 = 3;

/// Counts, rate and latencies of a run.
pub struct Summary {
    /// Operations that ended as they should.
    pub done: u64,
    /// The others: refused, or of unknown outcome.
    pub errors: u64,
    /// Operations done within the run's time, per second.
    pub rate: f64,
    /// Response time, from the intended start, in nanoseconds.
    pub response: Histogram<u64>,
    /// Service time, from the actual start.
    pub service: Histogram<u64>,
    /// By how much operations started late: large when the connections, or the generator itself,
    /// could not keep to the schedule.
    pub slip: Histogram<u64>,
}

impl Summary {
    /// Summarizes a run whose operations began within `elapsed`.
    pub fn of<A: Action>(log: &Log<A>, elapsed: Duration) -> Self {
        Summary::of_some(&log.operations, elapsed, |_| true)
    }

    /// The same of some of a run's operations.
    pub fn of_some<'a, A: Action + 'a>(
        operations: impl IntoIterator<Item = &'a Operation<A>>,
        elapsed: Duration,
        is_wanted: impl Fn(&Operation<A>) -> bool,
    ) -> Self {
        let mut summary = Summary {
            done: 0,
            errors: 0,
            rate: 0.0,
            response: histogram(),
            service: histogram(),
            slip: histogram(),
        };
        let mut within = 0_u64;
        for operation in operations.into_iter().filter(|one| is_wanted(one)) {
            let Some((returned, _)) = operation.done() else {
                summary.errors += 1;
                continue;
            };
            let (intended, called) = (operation.intended.nanos, operation.called.nanos);
            let returned = returned.nanos;
            summary.done += 1;
            within += u64::from(u128::from(returned) <= elapsed.as_nanos());
            summary
                .response
                .saturating_record(returned.saturating_sub(intended));
            summary
                .service
                .saturating_record(returned.saturating_sub(called));
            summary
                .slip
                .saturating_record(called.saturating_sub(intended));
        }
        if !elapsed.is_zero() {
            summary.rate = within as f64 / elapsed.as_secs_f64();
        }
        summary
    }
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_max(LATENCY_NS_MAX, DIGITS).expect("the bounds are sound")
}

#[cfg(test)]
mod tests;
