//! Intended starts and orders of rounds.

use super::*;

#[test]
fn constant_arrivals_do_not_drift() {
    let mut schedule = Schedule::new(Arrivals::Constant, 3000.0, 1);
    let first: Vec<u64> = schedule.by_ref().take(4).collect();
    assert_eq!(first, [0, 333_333, 666_666, 1_000_000]);
    // Number 3,000,000 of 3,000 a second is due after 1,000 seconds, to the nanosecond.
    assert_eq!(schedule.nth(3_000_000 - 4), Some(1_000 * 1_000_000_000));
}

#[test]
fn poisson_arrivals_have_the_rate_and_the_spread() {
    const COUNT: usize = 100_000;
    let times: Vec<u64> = Schedule::new(Arrivals::Poisson, 1000.0, 7)
        .take(COUNT)
        .collect();
    assert!(times.is_sorted());
    let gaps: Vec<f64> = times
        .windows(2)
        .map(|pair| (pair[1] - pair[0]) as f64 / 1e6)
        .collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
    // Both are 1 ms for exponential gaps; the seed is fixed, so this cannot fail by chance.
    assert!((mean - 1.0).abs() < 0.01, "{mean}");
    assert!((variance.sqrt() - 1.0).abs() < 0.02, "{variance}");
}

#[test]
fn a_seed_is_a_schedule() {
    let start = |seed| {
        Schedule::new(Arrivals::Poisson, 1000.0, seed)
            .take(3)
            .collect::<Vec<_>>()
    };
    assert_eq!(start(7), start(7));
    assert_ne!(start(7), start(8));
    // Frozen: an old log's schedule can be made again.
    assert_eq!(start(7), [171_733, 355_643, 1_573_972]);
}

#[test]
fn every_round_has_every_side_once() {
    let rounds = rounds(3, 100, 1);
    let mut firsts = [0; 3];
    for round in &rounds {
        firsts[round[0]] += 1;
        let mut sorted = round.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, [0, 1, 2]);
    }
    assert_eq!(rounds.len(), 100);
    assert!(firsts.iter().all(|count| *count > 15), "{firsts:?}");
}
