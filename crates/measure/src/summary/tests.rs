//! What a log says, on a log written by hand.

use super::*;
use crate::log::Kind;

const MS: u64 = 1_000_000;

fn operation(intended: u64, start: u64, end: u64, outcome: Outcome) -> Operation {
    Operation {
        session: 1,
        kind: Kind::Get,
        outcome,
        intended_ns: intended * MS,
        start_ns: start * MS,
        end_ns: end * MS,
        key: 1,
        value: (outcome == Outcome::Done).then_some(end),
    }
}

fn log() -> Log {
    Log {
        name: String::from("by hand"),
        start_unix_ns: 1,
        elapsed_ns: 100 * MS,
        refusals: [(String::from("no-member"), 1)].into(),
        operations: vec![
            operation(0, 0, 10, Outcome::Done),
            // Due while the first was under way: it waited 9 ms, and those count.
            operation(1, 10, 20, Outcome::Done),
            operation(90, 90, 101, Outcome::Done),
            operation(5, 5, 6, Outcome::Refused(503)),
            operation(5, 5, 99, Outcome::Wrong),
            operation(5, 5, 99, Outcome::Lost),
        ],
    }
}

fn is_about(observed: u64, expected: u64) -> bool {
    observed.abs_diff(expected) * 1000 <= expected
}

#[test]
fn errors_count_and_say_nothing_about_latency() {
    let summary = Summary::of(&log());
    assert_eq!((summary.done, summary.errors), (3, 3));
    // The third ended after the run.
    assert_eq!(summary.rate, 20.0);
    assert_eq!(summary.response.len(), 3);
}

#[test]
fn waiting_counts_from_the_intended_start() {
    let summary = Summary::of(&log());
    assert!(is_about(summary.response.max(), 19 * MS));
    assert!(is_about(summary.service.max(), 11 * MS));
    assert!(is_about(summary.slip.max(), 9 * MS));
    assert!(is_about(summary.response.value_at_quantile(0.5), 11 * MS));
}

#[test]
fn an_empty_log_is_no_rate() {
    let empty = Log {
        elapsed_ns: 0,
        operations: Vec::new(),
        ..log()
    };
    assert_eq!(Summary::of(&empty).rate, 0.0);
}

#[test]
fn logs_come_back_as_they_were_written() {
    let mut text = Vec::new();
    log().write(&mut text).unwrap();
    assert_eq!(Log::read(text.as_slice()).unwrap(), log());
    expect_test::expect_file!["a_log.jsonl"].assert_eq(std::str::from_utf8(&text).unwrap());
    for cut in ["", "{", "{}\n"] {
        assert!(Log::read(cut.as_bytes()).is_err(), "{cut:?}");
    }
    text.truncate(text.len() - 9);
    assert!(Log::read(text.as_slice()).is_err());
}
