//! A run in numbers: a function of its log.

use hdrhistogram::Histogram;

use crate::log::{Log, Operation, Outcome};

/// One hour: no latency is longer.
const LATENCY_NS_MAX: u64 = 3_600_000_000_000;
/// Three digits: an error of at most 0.1 %.
const DIGITS: u8 = 3;

/// Counts, rate and latencies of a run.
pub struct Summary {
    /// Operations that ended as they should.
    pub done: u64,
    /// The others.
    pub errors: u64,
    /// Operations done within the run's time, per second.
    pub rate: f64,
    /// Latency from the intended start, in nanoseconds.
    pub response: Histogram<u64>,
    /// Latency from the actual start.
    pub service: Histogram<u64>,
    /// By how much operations started late: large when the connections, or the generator itself,
    /// could not keep to the schedule.
    pub slip: Histogram<u64>,
}

impl Summary {
    /// Summarizes a run.
    pub fn of(log: &Log) -> Self {
        let mut summary = Summary {
            done: 0,
            errors: log.errors(),
            rate: 0.0,
            response: histogram(),
            service: histogram(),
            slip: histogram(),
        };
        let mut within = 0_u64;
        let is_done = |operation: &&Operation| operation.outcome == Outcome::Done;
        for operation in log.operations.iter().filter(is_done) {
            summary.done += 1;
            within += u64::from(operation.end_ns <= log.elapsed_ns);
            summary.response.saturating_record(operation.response_ns());
            summary.service.saturating_record(operation.service_ns());
            summary
                .slip
                .saturating_record(operation.start_ns - operation.intended_ns);
        }
        if 0 < log.elapsed_ns {
            summary.rate = within as f64 / (log.elapsed_ns as f64 / 1e9);
        }
        summary
    }
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_max(LATENCY_NS_MAX, DIGITS).expect("the bounds are sound")
}

#[cfg(test)]
mod tests;
