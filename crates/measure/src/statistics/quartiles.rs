//! Five numbers and more of a set of observations: what tables and box plots show.

use super::quantile_of;

/// Interquartile ranges beyond the box that whiskers reach.
const REACH: f64 = 1.5;

/// What a table says of observations.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Quartiles {
    /// How many there are.
    pub count: usize,
    /// The least.
    pub min: f64,
    /// The first quartile.
    pub q1: f64,
    /// The median.
    pub median: f64,
    /// The third quartile.
    pub q3: f64,
    /// The greatest.
    pub max: f64,
    /// Their mean.
    pub mean: f64,
    /// Their standard deviation.
    pub deviation: f64,
    /// The last observations within 1.5 interquartile ranges of the box.
    pub observed: (f64, f64),
    /// The share of observations beyond them.
    pub outliers: f64,
}

impl Quartiles {
    /// Of observations in any order; none of none.
    pub fn of(observations: &[f64]) -> Option<Quartiles> {
        let mut values = observations.to_vec();
        let count = values.len();
        let of = |values: &mut Vec<f64>, share| quantile_of(values, share);
        let [min, q1, median, q3, max] =
            [0.0, 0.25, 0.5, 0.75, 1.0].map(|share| of(&mut values, share));
        let mean = values.iter().sum::<f64>() / count as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let mut found = Quartiles {
            count,
            min,
            q1,
            median,
            q3,
            max,
            mean,
            deviation: (squares / (count.max(2) - 1) as f64).sqrt(),
            observed: (q1, q3),
            outliers: 0.0,
        };
        let (low, high) = found.formula();
        let within = || values.iter().filter(|value| (low..=high).contains(*value));
        found.observed = within().fold((q1, q3), |ends, value| {
            (ends.0.min(*value), ends.1.max(*value))
        });
        found.outliers = 1.0 - within().count() as f64 / count as f64;
        (0 < count).then_some(found)
    }

    /// The interquartile range.
    pub fn range(&self) -> f64 {
        self.q3 - self.q1
    }

    /// 1.5 interquartile ranges beyond the box, whether anything was observed there or not.
    pub fn formula(&self) -> (f64, f64) {
        let reach = REACH * self.range();
        (self.q1 - reach, self.q3 + reach)
    }
}

#[cfg(test)]
mod tests;
