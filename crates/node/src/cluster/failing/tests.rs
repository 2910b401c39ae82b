//! When a member that fails begins again, and on which folder.

use super::*;

/// How long a member rests after failures at these seconds, and after which it takes a new folder.
fn rests(seconds: &[u64]) -> Vec<(u64, bool)> {
    let start = Instant::now();
    let mut failures = Failures::default();
    let rests = seconds.iter().map(|at| {
        let now = start + Duration::from_secs(*at);
        let rest = failures.on_failure(now, HealthCause::Broken);
        assert!(failures.rests() && !failures.is_due(now));
        assert!(failures.is_due(now + rest));
        let takes = failures.takes_new_folder();
        failures.on_started();
        assert!(!failures.rests() && !failures.is_due(now + rest));
        (rest.as_secs(), takes)
    });
    rests.collect()
}

#[test]
fn rests_double_and_the_third_failure_takes_a_new_folder_once() {
    let found = rests(&[0, 2, 5, 10, 20, 40, 80, 150, 220]);
    let (times, takes): (Vec<u64>, Vec<bool>) = found.into_iter().unzip();
    assert_eq!(times, [1, 2, 4, 8, 16, 32, 64, 64, 64]);
    let third = takes.iter().position(|takes| *takes);
    assert_eq!(
        (third, takes.iter().filter(|it| **it).count()),
        (Some(2), 1)
    );
}

#[test]
fn a_failure_long_after_the_last_one_begins_anew() {
    let found = rests(&[0, 2, 5, 700, 702, 705]);
    let first = [(1, false), (2, false), (4, true)];
    assert_eq!(found, [first, first].concat());
}

#[test]
fn the_message_names_the_count_and_the_reason() {
    let mut failures = Failures::default();
    assert_eq!(failures.newest(), None);
    failures.on_failure(Instant::now(), HealthCause::Broken);
    assert_eq!(
        failures.newest().unwrap().to_string(),
        "failed: an invariant of the chain was broken; see the log"
    );
    failures.on_failure(Instant::now(), HealthCause::Broken);
    assert_eq!(
        failures.newest().unwrap().to_string(),
        "failed 2 times: an invariant of the chain was broken; see the log"
    );
    assert_eq!(failures.total(), 2);
    failures.on_started();
    assert_eq!(failures.newest(), None);
}
