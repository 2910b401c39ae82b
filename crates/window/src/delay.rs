//! Whether requests queue at the service: their latency beside what it is without a queue.
//!
//! Latencies spread by factors, so their logarithm is averaged: one answer of ten seconds among
//! hundreds of ten milliseconds moves it little.
//!
//! The baseline is the lowest mean of a block of answers. It can be wrong when the way to the
//! service grows longer, and the cure is also the test. The window shrinks. If latency does not
//! follow, there was no queue, and what is seen is the baseline from now on.

/// Answers in the running average, in windows: two round trips. Bound: 1 upwards.
const AVERAGE_WINDOWS: f64 = 2.0;
/// The same, at least and at most. Bound: 16 upwards.
const AVERAGE_MIN: f64 = 64.0;
const AVERAGE_MAX: f64 = 4_096.0;
/// Answers in a block: with exponential service times its mean errs by 2 %. Bound: 64 upwards.
const BLOCK: f64 = 512.0;
/// The same in windows: answers of one moment share their luck. Bound: 1 upwards.
const BLOCK_WINDOWS: f64 = 8.0;
/// Answers in the first block, so that there is a baseline before there can be a queue.
const BLOCK_FIRST: f64 = 128.0;
/// Part of the window left when a test of the baseline is over. Bound: 0.5 to 0.9. A queue that
/// stays when 30 % of the requests go away is not made of them.
const TESTED: f64 = 0.7;
/// What the logarithm of latency must fall by in the test. Bound: above the average's error, below
/// ln(1 / `TESTED`).
const FALL_MIN: f64 = 0.10;

#[derive(Debug)]
pub(crate) struct Delay {
    answers: f64,
    average: f64,
    block: f64,
    sum: f64,
    /// Infinite before the first block.
    baseline: f64,
    test: Option<Test>,
}

/// The window shrinks because of latency.
#[derive(Clone, Copy, Debug)]
struct Test {
    /// The window at its start.
    window: f64,
    /// The highest average during it.
    peak: f64,
}

impl Delay {
    pub(crate) fn new() -> Delay {
        Delay {
            answers: 0.0,
            average: 0.0,
            block: 0.0,
            sum: 0.0,
            baseline: f64::INFINITY,
            test: None,
        }
    }

    /// Takes in a latency in seconds, seen with this window.
    pub(crate) fn add(&mut self, latency: f64, window: f64) {
        let log = latency.max(1e-9).ln();
        let most = (AVERAGE_WINDOWS * window).clamp(AVERAGE_MIN, AVERAGE_MAX);
        self.answers = (self.answers + 1.0).min(most);
        self.average += (log - self.average) / self.answers;
        self.block += 1.0;
        self.sum += log;
        let size = match self.baseline.is_finite() {
            true => BLOCK.max(BLOCK_WINDOWS * window),
            false => BLOCK_FIRST,
        };
        if size <= self.block {
            self.baseline = self.baseline.min(self.sum / self.block);
            (self.block, self.sum) = (0.0, 0.0);
        }
    }

    /// Latency now over latency without a queue.
    pub(crate) fn ratio(&self) -> f64 {
        match self.baseline.is_finite() {
            true => (self.average - self.baseline).exp(),
            false => 1.0,
        }
    }

    /// The window shrinks while latency `is_long`. Gives back the window of before when shrinking
    /// it did not help.
    pub(crate) fn watch(&mut self, is_long: bool, window: f64) -> Option<f64> {
        if !is_long {
            self.test = None;
            return None;
        }
        let average = self.average;
        let test = self.test.get_or_insert(Test {
            window,
            peak: average,
        });
        test.peak = test.peak.max(average);
        if test.window * TESTED < window {
            return None;
        }
        let test = *test;
        self.test = None;
        if average < test.peak - FALL_MIN {
            return None;
        }
        self.baseline = average;
        (self.block, self.sum) = (0.0, 0.0);
        Some(test.window)
    }
}
