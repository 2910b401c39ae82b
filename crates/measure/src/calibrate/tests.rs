//! Samples of the calibration; all of it: `fader measure calibrate`.

use super::*;

#[test]
fn bands_of_curves_hold_the_truth() {
    for (name, law) in laws() {
        for readers in [1, 4] {
            let found = bands(law, readers, 0..2);
            let share = found.clustered.value();
            assert!(20 < found.clustered.all, "{name}: {found:?}");
            assert!((0.86..=1.0).contains(&share), "{name}, {readers}: {share}");
        }
    }
}

/// Reads of one write are alike where replicas decide: as if they were independent, bands are too
/// narrow.
#[test]
fn four_readers_are_not_four_times_as_sure() {
    let [.., (_, replicas)] = laws();
    let found = bands(replicas, 4, 2..6);
    assert!(
        found.naive.value() < found.clustered.value() - 0.03,
        "{found:?}"
    );
}

#[test]
fn intervals_hold_the_truth() {
    for law in Times::all() {
        let [mean, p50, p99] = law.coverage(0..60).map(|share| share.value());
        assert!(0.86 < mean && 0.86 < p50, "{}: {mean}, {p50}", law.name);
        assert!(0.84 < p99, "{}: {p99}", law.name);
    }
}

#[test]
fn violations_are_counted_exactly() {
    for seed in 0..30 {
        let (injected, counted) = injected(seed);
        assert_eq!(Some(injected), counted, "seed {seed}");
    }
}

#[test]
fn equal_runs_are_seldom_called_worse() {
    let equal = alarms(1.0, 0..200).value();
    assert!((0.02..0.10).contains(&equal), "{equal}");
    assert!(0.95 <= alarms(1.1, 0..30).value());
}
