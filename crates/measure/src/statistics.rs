//! Estimates, and how sure one can be of them.
//!
//! The interval of a ratio of medians is the percentile bootstrap. Both sides are drawn anew from
//! their own samples, with replacement, and the middle 95 % of the ratios of medians is the
//! interval. It assumes nothing about the distribution; with five samples a side it is nearly the
//! samples' whole range.

mod band;
mod batches;
mod quartiles;
mod steady;

pub use band::{Cluster, band, wilson};
pub use batches::{mean, quantile, quantile_of, rate, student_at};
pub use quartiles::Quartiles;
pub use steady::{WarmUp, warm_up};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const RESAMPLES: usize = 10_000;

/// An estimate with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Interval {
    /// The estimate from the samples themselves.
    pub estimate: f64,
    /// The interval's lower end.
    pub low: f64,
    /// The interval's upper end.
    pub high: f64,
}

impl Interval {
    /// A figure that was measured once.
    pub fn single(value: f64) -> Self {
        Interval {
            estimate: value,
            low: value,
            high: value,
        }
    }
}

/// The middle value, or the mean of the two in the middle; NaN of nothing.
pub fn median(samples: &[f64]) -> f64 {
    median_in(&mut samples.to_vec())
}

/// The ratio of the medians of two sets of samples, neither empty.
pub fn ratio_of_medians(numerator: &[f64], denominator: &[f64], seed: u64) -> Interval {
    assert!(
        !numerator.is_empty() && !denominator.is_empty(),
        "a median needs samples"
    );
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let (mut above, mut below) = (numerator.to_vec(), denominator.to_vec());
    let mut ratios: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            draw(numerator, &mut above, &mut random);
            draw(denominator, &mut below, &mut random);
            median_in(&mut above) / median_in(&mut below)
        })
        .collect();
    ratios.sort_unstable_by(f64::total_cmp);
    Interval {
        estimate: median(numerator) / median(denominator),
        low: ratios[RESAMPLES / 40],
        high: ratios[RESAMPLES - 1 - RESAMPLES / 40],
    }
}

/// The median of samples, which are not empty.
pub fn interval_of_median(samples: &[f64], seed: u64) -> Interval {
    ratio_of_medians(samples, &vec![1.0; samples.len()], seed)
}

fn median_in(samples: &mut [f64]) -> f64 {
    samples.sort_unstable_by(f64::total_cmp);
    match samples.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => samples[count / 2],
        count => f64::midpoint(samples[count / 2 - 1], samples[count / 2]),
    }
}

fn draw(source: &[f64], drawn: &mut [f64], random: &mut ChaCha8Rng) {
    for sample in drawn {
        *sample = source[random.random_range(0..source.len())];
    }
}

#[cfg(test)]
mod tests;
