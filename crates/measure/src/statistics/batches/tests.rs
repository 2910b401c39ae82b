//! Intervals of batches on data whose truth is known.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;

#[test]
fn students_t_is_that_of_the_tables() {
    for (freedom, expected) in [
        (1.0, 12.706),
        (2.0, 4.303),
        (4.0, 2.776),
        (9.0, 2.262),
        (19.0, 2.093),
        (1e9, 1.960),
    ] {
        let found = student(freedom);
        assert!((found - expected).abs() < 0.004, "{freedom}: {found}");
    }
}

#[test]
fn quantiles_are_observations() {
    let mut values = [5.0, 1.0, 3.0, 2.0, 4.0];
    assert_eq!(quantile_of(&mut values, 0.5), 3.0);
    assert_eq!(quantile_of(&mut values, 0.99), 5.0);
    assert_eq!(quantile_of(&mut values, 0.0), 1.0);
    assert!(quantile_of(&mut [], 0.5).is_nan());
}

#[test]
fn a_short_series_has_no_interval() {
    assert_eq!(mean(&[1.0; 39]), None);
    assert!(mean(&[1.0; 40]).is_some());
    // 50 observations beyond the quantile in five batches.
    assert_eq!(quantile(&[1.0; 4_900], 0.99), None);
    assert!(quantile(&[1.0; 5_100], 0.99).is_some());
    assert_eq!(rate([].into_iter(), 0.0), None);
}

#[test]
fn a_steady_rate_is_sure() {
    let found = rate((0..1000).map(|at| (f64::from(at) + 0.5) / 100.0), 10.0).unwrap();
    assert!((found.estimate - 100.0).abs() < 1e-9 && found.high - found.low < 1e-6);
}

/// How often the intervals of autocorrelated data hold the truth.
fn coverage(of: impl Fn(&[f64]) -> Option<Interval>, truth: f64) -> f64 {
    const RUNS: u64 = 300;
    let mut held = 0;
    for seed in 0..RUNS {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut normal = move || {
            let (one, two): (f64, f64) = (1.0 - random.random::<f64>(), random.random());
            (-2.0 * one.ln()).sqrt() * (std::f64::consts::TAU * two).cos()
        };
        // Each knows half of the one before; the variance of all is 1.
        let mut value = normal();
        let values: Vec<f64> = (0..10_000)
            .map(|_| {
                value = 0.5 * value + 0.75_f64.sqrt() * normal();
                value
            })
            .collect();
        let found = of(&values).unwrap();
        held += u64::from(found.low <= truth && truth <= found.high);
    }
    held as f64 / RUNS as f64
}

#[test]
fn intervals_of_what_is_autocorrelated_hold_the_truth() {
    let of_mean = coverage(mean, 0.0);
    assert!((0.92..0.985).contains(&of_mean), "{of_mean}");
    let of_median = coverage(|values| quantile(values, 0.5), 0.0);
    assert!((0.92..0.985).contains(&of_median), "{of_median}");
    let of_tail = coverage(|values| quantile(values, 0.99), 2.326_347_874);
    assert!(0.90 < of_tail, "{of_tail}");
    // As if they were independent: far too sure.
    let naive = |values: &[f64]| {
        let half = NORMAL / (values.len() as f64).sqrt();
        let estimate = values.iter().sum::<f64>() / values.len() as f64;
        Some(Interval {
            estimate,
            low: estimate - half,
            high: estimate + half,
        })
    };
    assert!(coverage(naive, 0.0) < 0.85);
}
