//! Warm-ups of known length.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;

fn noise(count: usize, seed: u64) -> Vec<f64> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    (0..count).map(|_| random.random::<f64>()).collect()
}

#[test]
fn a_steady_series_is_kept() {
    for seed in 0..20 {
        let found = warm_up(noise(2000, seed).into_iter());
        assert!(found.is_steady && found.cut <= 600, "{found:?}");
    }
}

#[test]
fn a_slow_beginning_is_cut_off() {
    for seed in 0..20 {
        let slow = noise(2000, seed).into_iter().enumerate();
        let slow = slow.map(|(at, noise)| noise + 20.0 * (-(at as f64) / 60.0).exp());
        let found = warm_up(slow);
        // After 300 observations the beginning still adds 0.13, after 500 nothing to speak of.
        assert!(found.is_steady, "{found:?}");
        assert!((150..1000).contains(&found.cut), "{found:?}");
    }
}

#[test]
fn a_rising_series_is_not_steady() {
    let rising = (0..2000).map(|at| (f64::from(at) / 300.0).exp());
    assert_eq!(
        warm_up(rising),
        WarmUp {
            cut: 1000,
            is_steady: false
        }
    );
}

#[test]
fn a_few_observations_are_kept() {
    let all = |count| {
        warm_up(noise(count, 1).into_iter())
            == WarmUp {
                cut: 0,
                is_steady: true,
            }
    };
    assert!(all(0) && all(19));
}
