//! Medians and intervals on data whose answer is known.

use super::*;

#[test]
fn medians() {
    assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
    assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
    assert_eq!(median(&[7.0]), 7.0);
    assert!(median(&[]).is_nan());
}

#[test]
fn equal_samples_leave_no_doubt() {
    let interval = ratio_of_medians(&[6.0; 5], &[3.0; 5], 1);
    assert_eq!(
        interval,
        Interval {
            estimate: 2.0,
            low: 2.0,
            high: 2.0
        }
    );
}

#[test]
fn a_seed_is_an_interval() {
    let (above, below) = ([5.0, 6.0, 7.0, 9.0, 4.0], [1.0, 2.0, 3.0, 2.5, 1.5]);
    let interval = ratio_of_medians(&above, &below, 1);
    assert_eq!(interval, ratio_of_medians(&above, &below, 1));
    assert_eq!(interval.estimate, 3.0);
    assert!(interval.low < 3.0 && 3.0 < interval.high);
}

/// The interval of one median holds the true one in about 95 of 100 experiments.
#[test]
fn intervals_hold_what_they_promise() {
    const EXPERIMENTS: u64 = 100;
    let mut random = ChaCha8Rng::seed_from_u64(42);
    let mut held = 0;
    for seed in 0..EXPERIMENTS {
        // Uniform around 10: the true median is 10, and the ratio to a constant 5 is 2.
        let samples: Vec<f64> = (0..11)
            .map(|_| 9.0 + 2.0 * random.random::<f64>())
            .collect();
        let interval = ratio_of_medians(&samples, &[5.0], seed);
        held += u64::from(interval.low <= 2.0 && 2.0 <= interval.high);
    }
    let share = held as f64 / EXPERIMENTS as f64;
    assert!((0.90..=0.99).contains(&share), "{share}");
}
