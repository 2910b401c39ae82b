//! When the version of a cluster rises.

use super::Version;

fn risen(version: u32, spoken: &[u32]) -> u32 {
    let spoken = spoken.iter().map(|it| (*it != 0).then_some(Version(*it)));
    Version(version).risen(spoken).0
}

#[test]
fn it_is_the_greatest_that_all_speak() {
    assert_eq!(risen(2, &[3, 3, 3]), 3);
    assert_eq!(risen(2, &[3, 2, 3]), 2);
    assert_eq!(risen(2, &[5, 4, 9]), 4, "versions may be skipped");
}

#[test]
fn a_process_that_is_missing_may_come_back_as_an_older_one() {
    assert_eq!(risen(2, &[3, 0, 3]), 2);
    assert_eq!(risen(2, &[0, 0, 0]), 2);
    assert_eq!(risen(2, &[]), 2);
}

#[test]
fn it_never_falls() {
    assert_eq!(risen(3, &[2, 2, 2]), 3);
    assert_eq!(risen(3, &[3, 2, 3]), 3);
}
