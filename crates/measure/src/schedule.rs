//! When operations are meant to start, and in which order sides of a comparison run.
//!
//! Arrivals of any rate come from arrivals of one a second: their times go through the inverse of
//! the rate's integral. Equal distances stay so while the rate stands; independent arrivals are a
//! Poisson process of that rate at every time.
//!
//! Invariants:
//! - ROUNDS-1 the same seed gives the same schedule, on every machine and version.
//! - ROUNDS-2 intended times never decrease.

use std::sync::Arc;
use std::time::Duration;

use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const NANOS: f64 = 1e9;

/// How arrivals are spread in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// At equal distances.
    Constant,
    /// At exponentially distributed distances: independent clients.
    Poisson,
}

/// Arrivals a second over time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// Always the same.
    Constant(f64),
    /// Another one from a time on.
    Step {
        /// Before.
        from: f64,
        /// After.
        to: f64,
        /// When it changes.
        at: Duration,
    },
    /// Rises or falls evenly, then stays.
    Ramp {
        /// At the beginning.
        from: f64,
        /// At the end.
        to: f64,
        /// For how long it changes.
        over: Duration,
    },
    /// Two rates in turn; each period begins with the burst.
    Burst {
        /// Between bursts.
        base: f64,
        /// Within a burst.
        peak: f64,
        /// A burst's length, less than the period.
        length: Duration,
        /// From the beginning of a burst to that of the next.
        period: Duration,
    },
}

/// The intended starts of an open loop.
#[derive(Clone, Debug, PartialEq)]
pub enum Starts {
    /// By a rate, without end.
    Rate {
        /// The rate.
        rate: Rate,
        /// How arrivals are spread.
        arrivals: Arrivals,
        /// Of the spread.
        seed: u64,
    },
    /// As they were recorded: nanoseconds since the run's start, rising.
    Replay(Arc<[u64]>),
}

/// The sequence of intended starts, in nanoseconds since the run's start.
#[derive(Clone, Debug)]
pub struct Schedule {
    starts: Starts,
    count: u64,
    /// Arrivals of one a second, the last one's time.
    unit: f64,
    random: ChaCha8Rng,
}

impl Rate {
    /// Whether arrivals never end: the rate is positive for ever, or again and again.
    pub fn is_valid(&self) -> bool {
        let is_rate = |rate: f64| rate.is_finite() && 0.0 <= rate;
        match *self {
            Rate::Constant(rate) => is_rate(rate) && 0.0 < rate,
            Rate::Step { from, to, .. } | Rate::Ramp { from, to, .. } => {
                is_rate(from) && is_rate(to) && 0.0 < to
            }
            Rate::Burst {
                base,
                peak,
                length,
                period,
            } => {
                let is_some = 0.0 < base || (0.0 < peak && !length.is_zero());
                is_rate(base) && is_rate(peak) && is_some && length < period
            }
        }
    }

    /// When this many arrivals have come, in nanoseconds: the inverse of the rate's integral.
    fn time_of(&self, count: f64) -> f64 {
        let seconds = match *self {
            // Multiplied first, so that whole times are exact.
            Rate::Constant(rate) => return count * NANOS / rate,
            Rate::Step { from, to, at } => {
                let at = at.as_secs_f64();
                let before = from * at;
                match count < before {
                    true => count / from,
                    false => at + (count - before) / to,
                }
            }
            Rate::Ramp { from, to, over } => {
                let over = over.as_secs_f64();
                let within = f64::midpoint(from, to) * over;
                // count = from t + slope t²/2, in the form that also holds for a slope of 0.
                let slope = (to - from) / over;
                match count < within {
                    true => {
                        2.0 * count / (from + (from * from + 2.0 * slope * count).max(0.0).sqrt())
                    }
                    false => over + (count - within) / to,
                }
            }
            Rate::Burst {
                base,
                peak,
                length,
                period,
            } => {
                let (length, period) = (length.as_secs_f64(), period.as_secs_f64());
                let of_burst = peak * length;
                let of_period = of_burst + base * (period - length);
                let periods = (count / of_period).floor();
                let rest = count - periods * of_period;
                let within = match rest < of_burst || base == 0.0 {
                    true => rest / peak,
                    false => length + (rest - of_burst) / base,
                };
                periods * period + within
            }
        };
        (seconds * NANOS).round()
    }
}

impl Schedule {
    /// A schedule of these starts.
    ///
    /// # Panics
    /// When the rate is not valid.
    pub fn new(starts: Starts) -> Self {
        let seed = match &starts {
            Starts::Rate { rate, seed, .. } => {
                assert!(rate.is_valid(), "a schedule has a positive rate: {rate:?}");
                *seed
            }
            Starts::Replay(_) => 0,
        };
        Schedule {
            starts,
            count: 0,
            unit: 0.0,
            random: ChaCha8Rng::seed_from_u64(seed),
        }
    }
}

impl Iterator for Schedule {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let number = self.count;
        self.count += 1;
        match &self.starts {
            Starts::Replay(times) => times.get(usize::try_from(number).ok()?).copied(),
            Starts::Rate { rate, arrivals, .. } => {
                match arrivals {
                    // Not a sum of gaps, which would collect their rounding.
                    Arrivals::Constant => self.unit = number as f64,
                    Arrivals::Poisson => {
                        let uniform: f64 = self.random.random();
                        self.unit += -(1.0 - uniform).ln();
                    }
                }
                Some(rate.time_of(self.unit) as u64)
            }
        }
    }
}

/// The order of `sides` in each of `count` rounds: shuffled anew. So drift of the machine, and what
/// one side leaves behind for the next, fall on all alike.
pub fn rounds(sides: usize, count: usize, seed: u64) -> Vec<Vec<usize>> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let round = |_| {
        let mut order: Vec<usize> = (0..sides).collect();
        order.shuffle(&mut random);
        order
    };
    (0..count).map(round).collect()
}

#[cfg(test)]
mod tests;
