//! What a log says, on a log written by hand.

use super::*;
use fader_history::object::{Outcome, Reply, Request, Text, Verb};
use fader_history::{Header, Moment};

const MS: u64 = 1_000_000;
const ELAPSED: Duration = Duration::from_millis(100);

fn operation(intended: u64, called: u64, returned: u64, outcome: Outcome) -> Operation<Request> {
    Operation {
        process: 1,
        session: None,
        endpoint: Text::default(),
        name: None,
        attempt: 1,
        level: Text::default(),
        intended: Moment::at(intended * MS),
        called: Moment::at(called * MS),
        action: Request {
            key: "x".into(),
            verb: Verb::Read,
        },
        end: Some((Moment::at(returned * MS), outcome)),
        price: None,
    }
}

fn log() -> Log<Request> {
    let done = || Outcome::Done(Reply::default());
    let operations = vec![
        operation(0, 0, 10, done()),
        // Due while the first was under way: it waited 9 ms, and those count.
        operation(1, 10, 20, done()),
        operation(90, 90, 101, done()),
        operation(5, 5, 6, Outcome::Refused("503".into())),
        operation(5, 5, 99, Outcome::Unknown),
    ];
    Log {
        header: Header::default(),
        operations,
    }
}

fn is_about(observed: u64, expected: u64) -> bool {
    observed.abs_diff(expected) * 1000 <= expected
}

#[test]
fn errors_count_and_say_nothing_about_latency() {
    let summary = Summary::of(&log(), ELAPSED);
    assert_eq!((summary.done, summary.errors), (3, 2));
    // The third ended after the run.
    assert_eq!(summary.rate, 20.0);
    assert_eq!(summary.response.len(), 3);
}

#[test]
fn waiting_counts_from_the_intended_start() {
    let summary = Summary::of(&log(), ELAPSED);
    assert!(is_about(summary.response.max(), 19 * MS));
    assert!(is_about(summary.service.max(), 11 * MS));
    assert!(is_about(summary.slip.max(), 9 * MS));
    assert!(is_about(summary.response.value_at_quantile(0.5), 11 * MS));
}

#[test]
fn an_empty_log_is_no_rate() {
    let empty: Log<Request> = Log::default();
    assert_eq!(Summary::of(&empty, Duration::ZERO).rate, 0.0);
}
