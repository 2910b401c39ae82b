//! Logs whose promises are known.

use fader_history::object::{Operation, Outcome, Place, Reply, Request, Value, Verb};
use fader_history::{Header, Moment, Order};

use super::*;
use crate::measure::consistency::load::LEVELS;

const STRONG: &str = LEVELS[0];
const READ: &str = LEVELS[1];
const WRITE: &str = LEVELS[2];

/// An operation of one item from a time to another, in milliseconds, with the version that it shows
/// or writes.
fn operation(level: &str, verb: Verb, [called, returned]: [u64; 2], version: i64) -> Operation {
    let reply = Reply {
        place: Some(Place(vec![version.unsigned_abs()])),
        ..match verb {
            Verb::Read => Reply::shows(Value::Number(version)),
            _ => Reply::default(),
        }
    };
    let at = |millis: u64| Moment::at(1_000_000 * millis);
    Operation {
        process: 0,
        session: None,
        endpoint: "".into(),
        name: None,
        attempt: 1,
        level: level.into(),
        intended: at(called),
        called: at(called),
        action: Request {
            key: "x".into(),
            verb,
        },
        end: Some((at(returned), Outcome::Done(reply))),
        price: None,
    }
}

fn write(level: &str, times: [u64; 2], version: i64) -> Operation {
    operation(level, Verb::Write(Value::Number(version)), times, version)
}

fn read(level: &str, times: [u64; 2], version: i64) -> Operation {
    operation(level, Verb::Read, times, version)
}

fn judged(operations: Vec<Operation>) -> Promises {
    let header = Header {
        order: Order::Told,
        ..Header::default()
    };
    let mut promises = Promises::default();
    promises.add(&Log { header, operations }).unwrap();
    promises
}

#[test]
fn an_eventual_read_may_miss_what_was_acknowledged() {
    let found = judged(vec![
        write(WRITE, [0, 10], 1),
        write(WRITE, [20, 30], 2),
        write(WRITE, [40, 50], 3),
        read(READ, [60, 70], 3),
        read(READ, [80, 90], 1),
    ]);
    let expected = Promises {
        reads: 2,
        missed: 1,
        versions_most: 2,
        oldest_ms: 50.0,
        ..Promises::default()
    };
    assert_eq!(found, expected);
    let line = "missed an acknowledged write: 1 of 2, by at most 2 versions and 50.0 ms";
    assert!(found.text().contains(line), "{}", found.text());
}

#[test]
fn strong_operations_have_one_order_or_a_violation_is_told() {
    let writes = || vec![write(STRONG, [0, 10], 1), write(STRONG, [20, 30], 2)];
    let good = judged([writes(), vec![read(STRONG, [40, 50], 2)]].concat());
    assert_eq!((good.strong_logs, good.violations.len()), (1, 0));
    assert!(
        good.text()
            .contains("holds          SC operations have one order in all of 1 logs")
    );
    let bad = judged([writes(), vec![read(STRONG, [40, 50], 1)]].concat());
    assert_eq!((bad.strong_logs, bad.violations.len()), (1, 1));
    let both = good.with(&bad);
    let told = both.text();
    assert!(
        told.contains("DOES NOT HOLD  SC operations have no order in 1 of 2 logs"),
        "{told}"
    );
    assert!(
        told.contains("linearizability of registers violated: x: "),
        "{told}"
    );
    // Eventual reads promise no order.
    let eventual = judged([writes(), vec![read(READ, [40, 50], 1)]].concat());
    assert_eq!((eventual.missed, eventual.violations.len()), (1, 0));
}
