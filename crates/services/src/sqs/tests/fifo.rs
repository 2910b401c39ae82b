//! FIFO queues: order in groups, exclusivity, deduplication, attempts.

use super::fixture::*;
use crate::sqs::Code;
use crate::sqs::command::*;

const F: &str = "jobs.fifo";

/// It shows QG-1.
#[test]
fn a_group_is_in_order_and_blocked_while_one_of_its_messages_is_in_flight() {
    let mut chain = Chain::with_fifo(&[("VisibilityTimeout", "10")]);
    for body in ["1", "2", "3"] {
        chain.send_to("a", body);
    }
    chain.send_to("b", "4");
    let first = chain.receive(F, 1);
    assert_eq!(first[0].body, "1");
    assert_eq!(chain.bodies(F, 10), ["4"], "the other group is free");
    chain.delete(F, &first[0].handle).unwrap();
    assert_eq!(chain.bodies(F, 10), ["2", "3"]);
    chain.pass(10);
    let again = chain.receive(F, 10);
    let bodies: Vec<_> = again.iter().map(|it| it.body.as_str()).collect();
    assert_eq!(bodies, ["2", "3", "4"]);
    chain.delete(F, &again[1].handle).unwrap();
    assert_eq!(chain.bodies(F, 10), texts(&[]), "2 is still in flight");
    chain.pass(10);
    assert_eq!(chain.bodies(F, 10), ["2", "4"]);
}

#[test]
fn a_group_stays_blocked_until_its_last_message_in_flight_ends() {
    let mut chain = Chain::with_fifo(&[("VisibilityTimeout", "10")]);
    chain.send_to("a", "1");
    chain.send_to("a", "2");
    let held = chain.receive(F, 10);
    chain.visibility(F, &held[0].handle, 0).unwrap();
    assert_eq!(chain.bodies(F, 10), texts(&[]), "2 is in flight");
    chain.visibility(F, &held[1].handle, 0).unwrap();
    assert_eq!(chain.bodies(F, 10), ["1", "2"]);
}

#[test]
fn a_message_whose_retention_ends_in_flight_blocks_its_group_no_more() {
    let retention = [
        ("MessageRetentionPeriod", "60"),
        ("VisibilityTimeout", "600"),
    ];
    let mut chain = Chain::with_fifo(&retention);
    chain.send_to("a", "1");
    assert_eq!(chain.bodies(F, 10), ["1"]);
    chain.pass(10);
    chain.send_to("a", "2");
    assert_eq!(chain.bodies(F, 10), texts(&[]));
    let waits = receive(F, 10);
    let until = chain.now_ms + 50_000;
    let wait = ReceiveMessage {
        wait_seconds: Some(20),
        arrived_ms: chain.now_ms + 40_000,
        ..waits
    };
    chain.pass(40);
    let request = chain.request(Command::ReceiveMessage(wait));
    let Err(wait) = chain.decide(&request) else {
        panic!("it waits");
    };
    assert_eq!(wait.wake_ms, Some(until), "a long poll looks then");
    chain.pass(9);
    assert_eq!(chain.bodies(F, 10), texts(&[]));
    chain.pass(1);
    assert_eq!(chain.bodies(F, 10), ["2"]);
    assert_eq!(chain.counts(F), [0, 1, 0]);
}

#[test]
fn duplicates_answer_the_first_send_for_five_minutes() {
    let mut chain = Chain::with_fifo(&[]);
    let first = chain.send_to("a", "1");
    let held = chain.receive(F, 1);
    chain.delete(F, &held[0].handle).unwrap();
    chain.pass(299);
    let again = chain.send_to("a", "1");
    assert_eq!((again.id, again.sequence), (first.id, first.sequence));
    assert_eq!(chain.counts(F), [0, 0, 0], "after its deletion too");
    chain.pass(1);
    let later = chain.send_to("a", "1");
    assert_ne!(later.id, first.id);
    assert!(first.sequence < later.sequence);
    assert_eq!(chain.bodies(F, 1), ["1"]);
}

#[test]
fn expired_deduplication_ids_are_removed() {
    let mut chain = Chain::with_fifo(&[]);
    for round in 0..50 {
        chain.send_to("a", &round.to_string());
        chain.pass(100);
    }
    let is_recent = |key: &bytes::Bytes| matches!(key.get(8), Some(b'D' | b'E'));
    let count = chain.rows.live().filter(|(key, _)| is_recent(key)).count();
    assert!(count <= 8, "{count}");
}

#[test]
fn the_body_is_the_deduplication_id_where_the_queue_says_so() {
    let mut chain = Chain::with_fifo(&[("ContentBasedDeduplication", "true")]);
    let message = |group: &str| SendEntry {
        group_id: Some(group.to_owned()),
        ..entry("same")
    };
    let first = chain.send_entry(F, message("a")).unwrap();
    let second = chain.send_entry(F, message("b")).unwrap();
    assert_eq!(first.id, second.id, "the scope is the queue");
    let named = SendEntry {
        deduplication_id: Some("other".to_owned()),
        ..message("a")
    };
    let third = chain.send_entry(F, named).unwrap();
    assert_ne!(first.id, third.id, "an id goes before the body");
}

#[test]
fn deduplication_ids_may_be_those_of_a_group() {
    let mut chain = Chain::with_fifo(&[
        ("ContentBasedDeduplication", "true"),
        ("DeduplicationScope", "messageGroup"),
        ("FifoThroughputLimit", "perMessageGroupId"),
    ]);
    let message = |group: &str| SendEntry {
        group_id: Some(group.to_owned()),
        ..entry("same")
    };
    let first = chain.send_entry(F, message("a")).unwrap();
    let second = chain.send_entry(F, message("b")).unwrap();
    assert_ne!(first.id, second.id);
    assert_eq!(chain.bodies(F, 10), ["same", "same"]);
    let alone = [("DeduplicationScope", "queue")];
    assert_eq!(
        chain.set(F, &alone).unwrap_err().code,
        Code::InvalidAttributeValue
    );
}

#[test]
fn a_send_to_a_fifo_queue_needs_a_group_and_an_id_and_has_no_delay() {
    let mut chain = Chain::with_fifo(&[]);
    let whole = SendEntry {
        group_id: Some("a".to_owned()),
        deduplication_id: Some("1".to_owned()),
        ..entry("x")
    };
    let no_group = SendEntry {
        group_id: None,
        ..whole.clone()
    };
    let no_id = SendEntry {
        deduplication_id: None,
        ..whole.clone()
    };
    let delayed = SendEntry {
        delay_seconds: Some(1),
        ..whole.clone()
    };
    let bad_group = SendEntry {
        group_id: Some("a b".to_owned()),
        ..whole.clone()
    };
    for (message, code) in [
        (no_group.clone(), Code::MissingParameter),
        (no_id, Code::InvalidParameterValue),
        (delayed, Code::InvalidParameterValue),
        (bad_group, Code::InvalidParameterValue),
    ] {
        assert_eq!(chain.send_entry(F, message).unwrap_err().code, code);
    }
    let batch = Command::SendMessage(SendMessage {
        queue: F.to_owned(),
        is_batch: true,
        entries: vec![
            SendEntry {
                id: "a".to_owned(),
                ..whole
            },
            SendEntry {
                id: "b".to_owned(),
                ..no_group
            },
        ],
    });
    assert_eq!(
        chain.code(batch),
        Code::MissingParameter,
        "the batch is refused whole"
    );
    assert_eq!(chain.counts(F), [0, 0, 0]);
}

#[test]
fn an_expired_handle_of_a_fifo_queue_is_refused() {
    let mut chain = Chain::with_fifo(&[("VisibilityTimeout", "10")]);
    chain.send_to("a", "1");
    let held = chain.receive(F, 1);
    chain.pass(10);
    let refused = chain.delete(F, &held[0].handle).unwrap_err();
    assert_eq!(refused.code, Code::InvalidParameterValue);
    assert!(
        refused.message.ends_with("The receipt handle has expired."),
        "{refused}"
    );
    assert_eq!(chain.bodies(F, 1), ["1"]);
}

#[test]
fn an_attempt_that_is_repeated_shows_the_same_messages_and_handles() {
    let mut chain = Chain::with_fifo(&[("VisibilityTimeout", "10")]);
    chain.send_to("a", "1");
    chain.send_to("b", "2");
    let attempt = ReceiveMessage {
        attempt_id: Some("try".to_owned()),
        ..receive(F, 1)
    };
    let first = chain.receive_with(attempt.clone());
    chain.pass(9);
    let again = chain.receive_with(attempt.clone());
    assert_eq!(first, again);
    chain.pass(9);
    assert_eq!(chain.bodies(F, 10), ["2"], "the deadline began anew");
    chain.delete(F, &again[0].handle).unwrap();
    assert_eq!(
        chain.receive_with(attempt.clone()),
        [],
        "it was changed since"
    );
    let standard = ReceiveMessage {
        queue: Q.to_owned(),
        ..attempt
    };
    chain.create(Q, &[]).unwrap();
    assert_eq!(
        chain.code(Command::ReceiveMessage(standard)),
        Code::InvalidParameterValue
    );
}

#[test]
fn a_delayed_message_of_a_fifo_queue_blocks_those_behind_it() {
    let mut chain = Chain::with_fifo(&[("DelaySeconds", "10")]);
    chain.send_to("a", "1");
    chain.set(F, &[("DelaySeconds", "0")]).unwrap();
    chain.send_to("a", "2");
    chain.send_to("b", "3");
    assert_eq!(chain.bodies(F, 10), ["3"]);
    assert_eq!(chain.counts(F), [1, 1, 1]);
    chain.pass(10);
    assert_eq!(chain.bodies(F, 10), ["1", "2"]);
}

#[test]
fn a_full_fifo_queue_refuses_nothing_and_gives_nothing() {
    let mut chain = Chain::with_fifo(&[("VisibilityTimeout", "10")]);
    chain.limits.in_flight = 2;
    for group in ["a", "b", "c"] {
        chain.send_to(group, "1");
    }
    assert_eq!(chain.receive(F, 10).len(), 2);
    assert_eq!(chain.receive(F, 10).len(), 0);
    chain.pass(10);
    assert_eq!(chain.receive(F, 10).len(), 2);
}

#[test]
fn messages_of_a_group_end_with_their_retention() {
    let mut chain = Chain::with_fifo(&[("MessageRetentionPeriod", "60")]);
    for number in 0..30 {
        chain.send_to("a", &number.to_string());
    }
    chain.pass(30);
    chain.send_to("a", "young");
    chain.pass(30);
    assert_eq!(chain.bodies(F, 10), ["young"]);
    chain.upkeep(7);
    assert_eq!(chain.counts(F), [0, 1, 0]);
}
