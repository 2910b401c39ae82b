//! Lines as the runners print them.

use super::Score;

fn of_pytest(line: &str) -> Score {
    let mut score = Score::default();
    score.add_pytest(line);
    score
}

#[test]
fn cases_of_a_test_program_are_counted() {
    let mut score = Score::default();
    score.add_libtest(
        "node",
        "test result: FAILED. 12 passed; 3 failed; 1 ignored; 0 measured; 0 filtered out; \
         finished in 0.50s",
    );
    assert_eq!((score.passed, score.failed), (12, 3));
    assert!(score.times.is_empty());
}

#[test]
fn the_time_of_a_case_is_read() {
    let mut score = Score::default();
    score.add_libtest("node", "test tests::one ... ok <1.250s>");
    score.add_libtest("node", "test tests::two ... FAILED <0.003s>");
    score.add_libtest("node", "test tests::three ... ok");
    score.add_libtest("node", "it was ... <3s>");
    let times = [(1.25, "node tests::one"), (0.003, "node tests::two")];
    let times = times.map(|(time, name)| (time, name.to_owned()));
    assert_eq!(score.times, times);
    assert_eq!(
        of_pytest("12.34s call     tests/test_a.py::test_b").times,
        [(12.34, "tests/test_a.py::test_b".to_owned())]
    );
    assert!(of_pytest("12.34s call me later, please").times.is_empty());
}

#[test]
fn the_slowest_cases_come_first() {
    let times = (0..30u32).map(|number| (f64::from(number), number.to_string()));
    let score = Score {
        times: times.collect(),
        ..Score::default()
    };
    let slowest = score.slowest();
    assert_eq!(slowest.len(), 20);
    assert_eq!(slowest[0], (29.0, "29".to_owned()));
}

#[test]
fn pytest_is_counted() {
    for (line, passed, failed) in [
        ("12 passed in 3.21s", 12, 0),
        ("1 failed, 12 passed, 2 skipped in 63.21s (0:01:03)", 12, 1),
        ("1 failed, 3 passed, 2 errors in 0.2s", 3, 3),
        ("1 error in 0.20s", 0, 1),
        ("2 passed by in a test's output", 0, 0),
        ("they passed in 3", 0, 0),
    ] {
        let score = of_pytest(line);
        assert_eq!((score.passed, score.failed), (passed, failed), "{line}");
    }
}
