//! Bands of shares on data whose truth is known.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;

#[test]
fn wilsons_interval_is_that_of_the_tables() {
    // Newcombe, 1998: 81 of 263, and 0 of 20.
    let found = wilson(81.0 / 263.0, 263.0);
    assert!((found.low - 0.2553).abs() < 1e-4 && (found.high - 0.3662).abs() < 1e-4);
    let found = wilson(0.0, 20.0);
    assert!(found.low == 0.0 && (found.high - 0.1611).abs() < 1e-4);
}

#[test]
fn one_cluster_says_nothing() {
    let one = Cluster { all: 9, counted: 3 };
    assert_eq!(band(&[]), None);
    assert_eq!(band(&[one, Cluster::default()]), None);
    assert!(band(&[one, one]).is_some());
}

/// How often bands hold the truth, if all reads of a write see the same with this chance.
fn coverage(alike: f64, of: impl Fn(&[Cluster]) -> Interval) -> f64 {
    const RUNS: u64 = 400;
    const SHARE: f64 = 0.3;
    let mut held = 0;
    for seed in 0..RUNS {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let clusters: Vec<Cluster> = (0..60)
            .map(|_| {
                let common = random.random::<f64>() < SHARE;
                let mut one = Cluster::default();
                for _ in 0..4 {
                    let own = random.random::<f64>() < SHARE;
                    let sees = if random.random::<f64>() < alike {
                        common
                    } else {
                        own
                    };
                    one.all += 1;
                    one.counted += u64::from(sees);
                }
                one
            })
            .collect();
        let found = of(&clusters);
        held += u64::from(found.low <= SHARE && SHARE <= found.high);
    }
    held as f64 / RUNS as f64
}

#[test]
fn bands_hold_the_truth_however_alike_reads_of_a_write_are() {
    let naive = |clusters: &[Cluster]| {
        let all: u64 = clusters.iter().map(|one| one.all).sum();
        let counted: u64 = clusters.iter().map(|one| one.counted).sum();
        wilson(counted as f64 / all as f64, all as f64)
    };
    for alike in [0.0, 0.5, 1.0] {
        let found = coverage(alike, |clusters| band(clusters).unwrap());
        assert!((0.925..0.985).contains(&found), "{alike}: {found}");
    }
    assert!(coverage(1.0, naive) < 0.75);
}
