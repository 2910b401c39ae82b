//! When a member that fails begins again, and on which folder.

use super::*;

/// How long a member rests after failures at these seconds, and after which it takes a new folder
/// of which the chain needs nothing.
fn rests(seconds: &[u64]) -> Vec<(u64, bool)> {
    let start = Instant::now();
    let mut failures = Failures::default();
    let rests = seconds.iter().map(|at| {
        let now = start + Duration::from_secs(*at);
        let rest = failures.on_failure(now, HealthCause::Broken);
        assert!(failures.rests() && !failures.is_due(now));
        assert!(failures.is_due(now + rest));
        let takes = failures.begin_again(now + rest, Need::Nothing) == Beginning::EmptyFolder;
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
fn a_member_waits_for_a_new_folder_while_another_one_serves() {
    let mut failures = Failures::default();
    let mut now = Instant::now();
    for _ in 1..FOLDER {
        now += failures.on_failure(now, HealthCause::Broken);
        for need in [Need::Passing, Need::Nothing, Need::Folder] {
            assert_eq!(failures.begin_again(now, need), Beginning::OwnFolder);
        }
    }
    now += failures.on_failure(now, HealthCause::Broken);
    // However long the next configuration takes.
    for _ in 0..100 {
        assert!(failures.is_due(now));
        assert_eq!(failures.begin_again(now, Need::Passing), Beginning::Later);
        assert!(failures.rests() && !failures.is_due(now));
        now += REST;
    }
    // The other one is gone, too: the chain may need this one to begin again.
    let (is_due, alone) = (
        failures.is_due(now),
        failures.begin_again(now, Need::Folder),
    );
    assert_eq!((is_due, alone), (true, Beginning::OwnFolder));
    now += failures.on_failure(now, HealthCause::Broken);
    assert_eq!(
        failures.begin_again(now, Need::Nothing),
        Beginning::EmptyFolder
    );
    now += failures.on_failure(now, HealthCause::Broken);
    assert_eq!(
        failures.begin_again(now, Need::Passing),
        Beginning::OwnFolder
    );
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
