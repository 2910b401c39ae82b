//! When operations are meant to start, and in which order sides of a comparison run.
//!
//! Invariants:
//! - S1 the same seed gives the same schedule, on every machine and version.
//! - S2 intended times never decrease.

use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// How arrivals are spread in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// At equal distances.
    Constant,
    /// At exponentially distributed distances: independent clients.
    Poisson,
}

/// The endless sequence of intended starts, in nanoseconds since the run's start.
pub struct Schedule {
    arrivals: Arrivals,
    rate: f64,
    count: u64,
    next_ns: f64,
    random: ChaCha8Rng,
}

impl Schedule {
    /// `rate` arrivals a second, which must be positive.
    pub fn new(arrivals: Arrivals, rate: f64, seed: u64) -> Self {
        assert!(
            rate.is_finite() && 0.0 < rate,
            "a schedule has a positive rate"
        );
        let random = ChaCha8Rng::seed_from_u64(seed);
        Schedule {
            arrivals,
            rate,
            count: 0,
            next_ns: 0.0,
            random,
        }
    }
}

impl Iterator for Schedule {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        match self.arrivals {
            // A product, since a sum of gaps would collect their rounding.
            Arrivals::Constant => self.next_ns = self.count as f64 * 1e9 / self.rate,
            Arrivals::Poisson => {
                let uniform: f64 = self.random.random();
                self.next_ns += -(1.0 - uniform).ln() * 1e9 / self.rate;
            }
        }
        self.count += 1;
        Some(self.next_ns as u64)
    }
}

/// The order of `sides` in each of `count` rounds: shuffled anew, so that drift of the machine and
/// what one side leaves behind for the next fall on all alike.
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
