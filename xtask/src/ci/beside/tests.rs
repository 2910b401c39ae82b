//! The output of a step, as a run of its own prints it.

use super::split;

#[test]
fn the_output_of_a_step_is_told_from_its_summary() {
    let said = "samples are drawn from seed 7: ...\n\n--- crash ---\n100 kills, 0 lost\n\n\
                crash: ok after 3 s\n\ncrash    ok         3.1 s\n\nthe slowest tests:\n\n\
                5 passed, 1 failed\n";
    let (body, score) = split("crash", said);
    assert_eq!(body, "100 kills, 0 lost");
    assert_eq!((score.passed, score.failed), (5, 1));
}

#[test]
fn the_output_of_a_step_that_was_ended_stands_whole() {
    let (body, score) = split(
        "crash",
        "--- crash ---\n3 kills\nxtask was ended: it ran for 60 minutes\n",
    );
    assert_eq!(body, "3 kills\nxtask was ended: it ran for 60 minutes");
    assert_eq!((score.passed, score.failed), (0, 0));
}
