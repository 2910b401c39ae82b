//! Is one run worse than another? Welch's test on the means of batches.
//!
//! Response times in the order of their intended starts go into batches; the batches' own values
//! are nearly independent. The question is one-sided, at 5 %: a run that is as good is called worse
//! in one of twenty comparisons.

use fader_history::{Action, Log};

use crate::statistics::{Interval, quantile_of, student_at};

/// Batches of a run.
const BATCHES: usize = 20;
/// The percentiles of the standard normal distribution beyond which there are 5 %, a half and a
/// third of it.
const ONE_SIDED: [f64; 3] = [1.644_853_627, 1.959_963_985, 2.128_045_234];

/// What of a run's response times is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Their mean.
    Mean,
    /// Their median.
    P50,
    /// Their 99th percentile.
    P99,
}

/// What a comparison found.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Compared {
    /// The base's value, in nanoseconds.
    pub base: f64,
    /// The other run's.
    pub new: f64,
    /// The other's excess over what is allowed, in parts of the base, with its interval: the lower
    /// end is what the verdict is about.
    pub excess: Interval,
    /// Whether the other is worse, by more than is allowed.
    pub is_worse: bool,
}

/// The response times of operations that were done, in the order of their intended starts.
pub fn responses<A: Action>(log: &Log<A>) -> Vec<f64> {
    let mut all: Vec<(u64, f64)> = log
        .operations
        .iter()
        .filter_map(|one| {
            let (returned, _) = one.done()?;
            let intended = one.intended.nanos;
            Some((intended, returned.nanos.saturating_sub(intended) as f64))
        })
        .collect();
    all.sort_by_key(|(intended, _)| *intended);
    all.into_iter().map(|(_, response)| response).collect()
}

/// Whether `new` is worse than `base` by more than a share of it, such as 0.05; none of fewer than
/// 40 response times. Of several comparisons each has its share of the 5 %.
pub fn compare(
    base: &[f64],
    new: &[f64],
    measure: Measure,
    worse_by: f64,
    comparisons: usize,
) -> Option<Compared> {
    let (one, other) = (Batched::new(base, measure)?, Batched::new(new, measure)?);
    let allowed = 1.0 + worse_by;
    let excess = other.mean - allowed * one.mean;
    let (of_one, of_other) = (allowed * allowed * one.error, other.error);
    let error = of_one + of_other;
    // Welch and Satterthwaite's degrees of freedom.
    let last = BATCHES as f64 - 1.0;
    let freedom = match 0.0 < error {
        true => error * error * last / (of_one * of_one + of_other * of_other),
        false => last,
    };
    let half = student_at(one_sided(comparisons), freedom) * error.sqrt();
    Some(Compared {
        base: one.mean,
        new: other.mean,
        excess: Interval {
            estimate: excess / one.mean,
            low: (excess - half) / one.mean,
            high: (excess + half) / one.mean,
        },
        is_worse: half < excess,
    })
}

fn one_sided(comparisons: usize) -> f64 {
    ONE_SIDED[comparisons.clamp(1, ONE_SIDED.len()) - 1]
}

/// The mean of batches' values, and the square of its standard error.
struct Batched {
    mean: f64,
    error: f64,
}

impl Batched {
    fn new(responses: &[f64], measure: Measure) -> Option<Self> {
        let length = responses.len() / BATCHES;
        if length < 2 {
            return None;
        }
        let value = |batch: &[f64]| match measure {
            Measure::Mean => batch.iter().sum::<f64>() / batch.len() as f64,
            Measure::P50 => quantile_of(&mut batch.to_vec(), 0.5),
            Measure::P99 => quantile_of(&mut batch.to_vec(), 0.99),
        };
        let rest = responses.len() - length * BATCHES;
        let values: Vec<f64> = responses[rest..].chunks_exact(length).map(value).collect();
        let count = BATCHES as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Some(Batched {
            mean,
            error: squares / (count * (count - 1.0)),
        })
    }
}
