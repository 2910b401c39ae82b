//! Each check finds the smallest history that breaks its promise.

use super::super::history::{Append, Delivery, Follow, Hide, Remove, Seen, Send, Span};
use super::super::slots::Slot;
use super::*;

const STRICT: Promise = Promise {
    answers_at_once: true,
    ids_are_final: true,
};

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn span(invoked: u64, ended: u64) -> Span {
    Span {
        invoked: at(invoked),
        ended: Some(at(ended)),
    }
}

fn sent() -> History {
    History {
        sends: vec![Send {
            span: span(0, 1),
            bodies: vec!["body".to_owned()],
            outcome: Some(Ok(vec![Ok("id".to_owned())])),
        }],
        ..History::default()
    }
}

fn delivery(invoked: u64, answered: u64, by: usize) -> Delivery {
    Delivery {
        invoked: at(invoked),
        answered: at(answered),
        visibility: at(10),
        id: "id".to_owned(),
        body: "body".to_owned(),
        by: (by, invoked),
    }
}

fn remove(invoked: u64, ended: u64, succeeded: bool) -> Remove {
    Remove {
        span: span(invoked, ended),
        id: "id".to_owned(),
        body: "body".to_owned(),
        succeeded,
    }
}

fn broken(history: &History) -> Option<&'static str> {
    all(history, at(5), STRICT)
        .err()
        .map(|failure| failure.guarantee)
}

#[test]
fn an_acknowledged_message_that_is_never_received_is_lost() {
    let mut history = sent();
    assert_eq!(broken(&history), Some("lost"));
    history.deliveries.push(delivery(2, 3, 1));
    assert_eq!(broken(&history), None);
}

#[test]
fn a_message_that_is_received_after_its_remove_is_found() {
    let mut history = sent();
    history.deliveries = vec![delivery(2, 3, 1), delivery(20, 21, 2)];
    history.removes = vec![remove(4, 5, false)];
    assert_eq!(broken(&history), None);
    history.removes = vec![remove(4, 5, true)];
    assert_eq!(broken(&history), Some("removed"));
}

#[test]
fn a_receive_under_way_may_give_a_removed_message_where_answers_take_time() {
    let mut history = sent();
    history.deliveries = vec![delivery(2, 3, 1), delivery(14, 21, 2)];
    history.removes = vec![remove(15, 16, true)];
    assert_eq!(broken(&history), Some("removed"));
    let promise = Promise {
        answers_at_once: false,
        ..STRICT
    };
    assert!(all(&history, at(5), promise).is_ok());
}

#[test]
fn two_holders_at_once_are_found_unless_one_gave_it_back() {
    let mut history = sent();
    history.deliveries = vec![delivery(2, 3, 1), delivery(11, 13, 2)];
    assert_eq!(broken(&history), None);
    history.deliveries[1] = delivery(9, 11, 2);
    assert_eq!(broken(&history), Some("held"));
    history.hides.push(Hide {
        span: span(4, 5),
        id: "id".to_owned(),
        by: (1, 2),
        time: Duration::ZERO,
        succeeded: true,
    });
    assert_eq!(broken(&history), None);
}

fn access(invoked: u64, deed: Deed) -> Access {
    Access {
        span: span(invoked, invoked + 1),
        register: "r".to_owned(),
        deed,
    }
}

fn written(expected: Option<&str>, value: &str) -> Deed {
    Deed::Write {
        expected: expected.map(str::to_owned),
        value: value.to_owned(),
        held: Some(true),
    }
}

#[test]
fn two_winners_of_one_condition_are_found() {
    let mut history = History {
        accesses: vec![
            access(0, written(None, "a")),
            access(2, written(Some("a"), "b")),
        ],
        ..History::default()
    };
    assert_eq!(broken(&history), None);
    history.accesses.push(access(2, written(Some("a"), "c")));
    assert_eq!(broken(&history), Some("linear"));
}

#[test]
fn a_read_that_is_too_old_is_found() {
    let mut history = History {
        accesses: vec![
            access(0, written(None, "a")),
            access(2, written(Some("a"), "b")),
            access(8, Deed::Eventual(Some("a".to_owned()))),
        ],
        ..History::default()
    };
    assert_eq!(broken(&history), None);
    history.accesses[2].span = span(9, 10);
    assert_eq!(broken(&history), Some("fresh"));
}

#[test]
fn half_a_batch_is_found() {
    let history = History {
        batches: vec![Seen {
            answered: at(1),
            tags: vec![Some("a".to_owned()), None],
        }],
        ..History::default()
    };
    assert_eq!(broken(&history), Some("whole"));
}

/// Acknowledged writes, one a slot, in a log of these numbers.
fn logged(numbers: &[u64]) -> History {
    let slots = numbers.iter().map(|number| Slot {
        number: *number,
        entries: [number.to_string()].into(),
    });
    History {
        appends: (1..=3)
            .map(|number: u64| Append {
                span: span(0, 1),
                name: number.to_string(),
                outcome: Some(Ok(())),
            })
            .collect(),
        logs: [("log".to_owned(), slots.collect())].into(),
        ..History::default()
    }
}

#[test]
fn a_log_has_no_gap_and_each_write_once() {
    assert_eq!(broken(&logged(&[1, 2, 3])), None);
    assert_eq!(broken(&logged(&[1, 3])), Some("slots"));
    assert_eq!(broken(&logged(&[1, 2])), Some("slots"));
    let mut doubled = logged(&[1, 2, 3]);
    let slots = doubled.logs.values_mut().next().expect("there is one");
    slots[1].entries.insert("1".to_owned());
    assert_eq!(broken(&doubled), Some("slots"));
}

#[test]
fn a_follower_sees_whole_prefixes_in_time() {
    let followed = |is_strong: bool, seen: &[&[&str]]| {
        let mut history = logged(&[1, 2, 3]);
        history.follows = seen
            .iter()
            .map(|names| Follow {
                invoked: at(3),
                answered: at(4),
                is_strong,
                by: (1, 1),
                names: names.iter().map(|name| (*name).to_owned()).collect(),
            })
            .collect();
        broken(&history)
    };
    assert_eq!(followed(true, &[&["1", "2", "3"]]), None);
    assert_eq!(followed(false, &[&["1"], &["1", "2"]]), None);
    // Too old, with a gap, and back.
    assert_eq!(followed(true, &[&["1", "2"]]), Some("followed"));
    assert_eq!(followed(false, &[&["1", "3"]]), Some("followed"));
    assert_eq!(followed(false, &[&["1", "2"], &["1"]]), Some("followed"));
}
