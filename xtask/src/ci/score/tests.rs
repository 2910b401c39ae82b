//! Lines as the runners print them.

use super::Score;

#[test]
fn cargo_test_is_counted() {
    let line = "test result: FAILED. 12 passed; 3 failed; 1 ignored; 0 measured; 0 filtered out; \
                finished in 0.50s";
    assert_eq!(
        Score::of_cargo(line),
        Score {
            passed: 12,
            failed: 3
        }
    );
    assert_eq!(Score::of_cargo("test tests::one ... ok"), Score::default());
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
        assert_eq!(Score::of_pytest(line), Score { passed, failed }, "{line}");
    }
}
