//! Standard queues: send, receive, delete, visibility, delay, retention, batches, checksums.

use super::fixture::*;
use crate::sqs::command::*;
use crate::sqs::{Code, Reply, checksum};

#[test]
fn a_message_is_received_once_within_its_visibility_and_again_after_it() {
    let mut chain = Chain::with_queue(&[("VisibilityTimeout", "10")]);
    chain.send(Q, "one");
    let first = chain.receive(Q, 10);
    assert_eq!(first.len(), 1);
    assert_eq!(chain.counts(Q), [0, 1, 0]);
    chain.pass(9);
    assert_eq!(chain.bodies(Q, 10), texts(&[]));
    chain.pass(1);
    assert_eq!(chain.counts(Q), [1, 0, 0]);
    let again = chain.receive(Q, 10);
    assert_eq!(again[0].id, first[0].id);
    assert_ne!(again[0].handle, first[0].handle);
    chain.delete(Q, &again[0].handle).unwrap();
    chain.pass(100);
    assert_eq!(chain.bodies(Q, 10), texts(&[]));
    assert_eq!(chain.counts(Q), [0, 0, 0]);
    assert_eq!(chain.rows_of(Q), 0, "a deletion leaves no row");
}

#[test]
fn a_short_poll_returns_all_that_is_due_up_to_its_maximum() {
    let mut chain = Chain::with_queue(&[]);
    for number in 0..25 {
        chain.send(Q, &number.to_string());
    }
    assert_eq!(chain.receive(Q, 10).len(), 10);
    assert_eq!(chain.receive(Q, 10).len(), 10);
    assert_eq!(chain.receive(Q, 10).len(), 5);
    assert_eq!(chain.receive(Q, 10).len(), 0);
}

#[test]
fn the_message_that_is_due_longest_comes_first() {
    let mut chain = Chain::with_queue(&[("VisibilityTimeout", "5")]);
    chain.send(Q, "old");
    assert_eq!(chain.bodies(Q, 1), ["old"]);
    chain.pass(4);
    chain.send(Q, "new");
    chain.pass(2);
    chain.send(Q, "newest");
    assert_eq!(chain.bodies(Q, 10), ["new", "old", "newest"]);
}

#[test]
fn a_delayed_message_waits_and_its_own_delay_counts() {
    let mut chain = Chain::with_queue(&[("DelaySeconds", "10")]);
    chain.send(Q, "slow");
    let now = SendEntry {
        delay_seconds: Some(0),
        ..entry("now")
    };
    chain.send_entry(Q, now).unwrap();
    assert_eq!(chain.counts(Q), [1, 0, 1]);
    assert_eq!(chain.bodies(Q, 10), ["now"]);
    chain.pass(9);
    assert_eq!(chain.bodies(Q, 10), texts(&[]));
    chain.pass(1);
    assert_eq!(chain.bodies(Q, 10), ["slow"]);
    let long = SendEntry {
        delay_seconds: Some(901),
        ..entry("x")
    };
    let refused = chain.send_entry(Q, long).unwrap_err();
    assert_eq!(refused.code, Code::InvalidParameterValue);
}

#[test]
fn a_message_ends_with_its_retention_and_its_rows_are_swept() {
    let mut chain =
        Chain::with_queue(&[("MessageRetentionPeriod", "60"), ("VisibilityTimeout", "0")]);
    for number in 0..100 {
        chain.send(Q, &number.to_string());
    }
    assert_eq!(chain.receive(Q, 10).len(), 10);
    chain.pass(59);
    assert_eq!(chain.receive(Q, 1).len(), 1);
    chain.pass(1);
    assert_eq!(chain.receive(Q, 10).len(), 0);
    chain.upkeep(10);
    assert_eq!(chain.rows_of(Q), 0);
    assert_eq!(chain.counts(Q), [0, 0, 0]);
    assert_eq!(chain.upkeep(10), 0, "nothing more is to be done");
}

#[test]
fn a_longer_retention_shows_what_is_not_swept_again() {
    let mut chain = Chain::with_queue(&[("MessageRetentionPeriod", "60")]);
    chain.send(Q, "one");
    chain.pass(61);
    assert_eq!(chain.bodies(Q, 1), texts(&[]));
    chain.set(Q, &[("MessageRetentionPeriod", "600")]).unwrap();
    assert_eq!(chain.bodies(Q, 1), ["one"]);
}

#[test]
fn visibility_is_changed_up_to_twelve_hours_and_ends_at_once_with_zero() {
    let mut chain = Chain::with_queue(&[]);
    chain.send(Q, "one");
    let held = chain.receive(Q, 1);
    let handle = &held[0].handle;
    chain.visibility(Q, handle, 100).unwrap();
    chain.pass(99);
    assert_eq!(chain.bodies(Q, 1), texts(&[]));
    let refused = chain.visibility(Q, handle, 43_200).unwrap_err();
    assert_eq!(refused.code, Code::InvalidParameterValue, "{refused}");
    assert!(refused.message.contains("beyond the limit"));
    chain.visibility(Q, handle, 43_101).unwrap();
    chain.visibility(Q, handle, 0).unwrap();
    let refused = chain.visibility(Q, handle, 10).unwrap_err();
    assert_eq!(refused.code, Code::MessageNotInflight, "it is visible");
    assert_eq!(chain.bodies(Q, 1), ["one"]);
    let refused = chain.visibility(Q, handle, 10).unwrap_err();
    assert_eq!(
        refused.code,
        Code::InvalidParameterValue,
        "the handle is old"
    );
    for seconds in [-1, 43_201] {
        let refused = chain.visibility(Q, handle, seconds).unwrap_err();
        assert_eq!(refused.code, Code::InvalidParameterValue);
    }
}

#[test]
fn old_handles_delete_nothing_and_forged_and_foreign_ones_are_refused() {
    let mut chain = Chain::with_queue(&[("VisibilityTimeout", "0")]);
    chain.create("other", &[]).unwrap();
    chain.send(Q, "one");
    let first = chain.receive(Q, 1).remove(0);
    let second = chain.receive(Q, 1).remove(0);
    chain.delete(Q, &first.handle).unwrap();
    assert_eq!(chain.bodies(Q, 1), ["one"], "an old handle deletes nothing");
    chain.delete(Q, &second.handle).unwrap();
    let third = chain.receive(Q, 1).remove(0);
    for handle in [
        "",
        "x",
        "AAAA",
        &third.handle[1..],
        &format!("{}A", third.handle),
    ] {
        let refused = chain.delete(Q, handle).unwrap_err();
        assert_eq!(refused.code, Code::ReceiptHandleIsInvalid, "{handle:?}");
    }
    for at in 0..third.handle.len() {
        let mut forged = third.handle.clone().into_bytes();
        forged[at] = if forged[at] == b'A' { b'B' } else { b'A' };
        let forged = String::from_utf8(forged).unwrap();
        let refused = chain.delete(Q, &forged).map_err(|error| error.code);
        assert_eq!(refused, Err(Code::ReceiptHandleIsInvalid), "byte {at}");
    }
    let refused = chain.delete("other", &third.handle).unwrap_err();
    assert_eq!(refused.code, Code::ReceiptHandleIsInvalid);
    chain.delete(Q, &third.handle).unwrap();
    chain.delete(Q, &third.handle).unwrap();
    assert_eq!(chain.bodies(Q, 1), texts(&[]));
}

#[test]
fn so_many_messages_are_in_flight_at_most() {
    let mut chain = Chain::with_queue(&[("VisibilityTimeout", "10")]);
    chain.limits.in_flight = 3;
    for number in 0..5 {
        chain.send(Q, &number.to_string());
    }
    assert_eq!(chain.receive(Q, 10).len(), 3);
    assert_eq!(
        chain.code(Command::ReceiveMessage(receive(Q, 1))),
        Code::OverLimit
    );
    chain.pass(10);
    let again = chain.bodies(Q, 10);
    assert_eq!(again, ["0", "1", "2"], "those count already");
    assert_eq!(
        chain.code(Command::ReceiveMessage(receive(Q, 1))),
        Code::OverLimit
    );
}

#[test]
fn the_time_of_decisions_never_falls() {
    let mut chain = Chain::with_queue(&[("VisibilityTimeout", "10")]);
    chain.send(Q, "one");
    chain.pass(100);
    let held = chain.receive(Q, 1);
    assert_eq!(held.len(), 1);
    // The clock of another head.
    chain.now_ms -= 50_000;
    assert_eq!(chain.bodies(Q, 1), texts(&[]));
    chain.visibility(Q, &held[0].handle, 20).unwrap();
    chain.now_ms += 50_000 + 19_000;
    assert_eq!(chain.bodies(Q, 1), texts(&[]));
    chain.pass(1);
    assert_eq!(chain.bodies(Q, 1), ["one"]);
}

#[test]
fn a_long_poll_counts_by_the_clock_that_decides_it() {
    let mut chain = Chain::with_queue(&[]);
    for skew_ms in [45_000, 3_600_000, -45_000, -3_600_000] {
        let mut request = chain.request(Command::ReceiveMessage(ReceiveMessage {
            wait_seconds: Some(20),
            arrived_ms: chain.now_ms.strict_add_signed(skew_ms),
            ..receive(Q, 1)
        }));
        request.arrive(chain.now_ms);
        let Err(wait) = chain.decide(&request) else {
            panic!("it waits");
        };
        assert_eq!(wait.until_ms, chain.now_ms + 20_000);
    }
}

#[test]
fn a_long_poll_waits_for_a_change_a_deadline_or_its_end() {
    let mut chain = Chain::with_queue(&[("VisibilityTimeout", "10")]);
    let poll = ReceiveMessage {
        wait_seconds: Some(20),
        arrived_ms: START,
        ..receive(Q, 1)
    };
    let request = chain.request(Command::ReceiveMessage(poll.clone()));
    let wait = chain.decide(&request).expect_err("nothing is there");
    assert_eq!((wait.until_ms, wait.wake_ms), (START + 20_000, None));
    chain.send(Q, "one");
    let held = chain.receive(Q, 1);
    let wait = chain.decide(&request).expect_err("it is in flight");
    assert_eq!(
        (wait.until_ms, wait.wake_ms),
        (START + 20_000, Some(START + 10_000))
    );
    chain.pass(10);
    assert!(chain.decide(&request).is_ok(), "it is due");
    chain.delete(Q, &held[0].handle).unwrap();
    chain.pass(10);
    let decision = chain.decide(&request).expect("at its deadline none waits");
    assert!(decision.changes.is_empty());
    assert!(matches!(decision.outcome, Ok(Reply::Received(it)) if it.messages.is_empty()));
}

#[test]
fn the_queue_says_how_long_a_receive_waits_unless_it_says_so_itself() {
    let mut chain = Chain::with_queue(&[("ReceiveMessageWaitTimeSeconds", "7")]);
    let asked = |wait_seconds| {
        Command::ReceiveMessage(ReceiveMessage {
            wait_seconds,
            arrived_ms: START,
            ..receive(Q, 1)
        })
    };
    let request = chain.request(asked(None));
    assert_eq!(chain.decide(&request).unwrap_err().until_ms, START + 7_000);
    let request = chain.request(asked(Some(0)));
    assert!(chain.decide(&request).is_ok());
    assert_eq!(chain.code(asked(Some(21))), Code::InvalidParameterValue);
    for count in [0, 11, -1] {
        let receive = Command::ReceiveMessage(receive(Q, count));
        assert_eq!(chain.code(receive), Code::InvalidParameterValue);
    }
}

#[test]
fn a_message_deleted_before_its_reply_is_read_is_left_out() {
    let mut chain = Chain::with_queue(&[]);
    chain.send(Q, "one");
    chain.send(Q, "two");
    let request = chain.request(Command::ReceiveMessage(receive(Q, 10)));
    let decision = chain.decide(&request).unwrap();
    chain.apply(&decision.changes);
    let reply = decision.outcome.unwrap();
    let Ok(Reply::Messages(shown)) = chain.complete(reply.clone()) else {
        panic!("messages");
    };
    chain.delete(Q, &shown[0].handle).unwrap();
    let Ok(Reply::Messages(rest)) = chain.complete(reply) else {
        panic!("messages");
    };
    assert_eq!(rest, &shown[1..]);
}

fn text(name: &str, value: &str) -> Attribute {
    Attribute {
        name: name.to_owned(),
        data_type: "String".to_owned(),
        value: Value::Text(value.to_owned()),
    }
}

#[test]
fn checksums_are_those_of_aws() {
    let known = checksum::of_attributes(&[text("k", "v")]).unwrap();
    assert_eq!(format!("{known:032x}"), "0a77b0642718c3d9dd47090567d11e0d");
    assert_eq!(checksum::of_attributes(&[]), None);
    assert_eq!(
        format!("{:032x}", checksum::of_body("")),
        "d41d8cd98f00b204e9800998ecf8427e"
    );
    let binary = Attribute {
        name: "b".to_owned(),
        data_type: "Binary".to_owned(),
        value: Value::Binary(bytes::Bytes::from_static(b"v")),
    };
    let both = [binary.clone(), text("a", "1")];
    let sorted = [text("a", "1"), binary];
    assert_eq!(
        checksum::of_attributes(&both),
        checksum::of_attributes(&sorted)
    );
}

proptest::proptest! {
    #[test]
    fn sums_of_many_bodies_are_those_of_each(
        bodies in proptest::collection::vec("[a-z\u{e9}]{0,3000}", 0..12),
    ) {
        use md5::Digest as _;
        let sums = checksum::of_bodies(bodies.iter().map(|body| &**body));
        let each = bodies.iter().map(|body| {
            let sum = md5::Md5::digest(body.as_bytes());
            u128::from_be_bytes(sum.into())
        });
        let each: Vec<u128> = each.collect();
        proptest::prop_assert_eq!(&sums, &each);
        let alone: Vec<u128> = bodies.iter().map(|body| checksum::of_body(body)).collect();
        proptest::prop_assert_eq!(alone, each);
    }
}

#[test]
fn a_receive_shows_the_attributes_that_are_asked_for_and_sums_those() {
    let mut chain = Chain::with_queue(&[("VisibilityTimeout", "0")]);
    let attributes = vec![text("grad.x", "1"), text("gruen", "2"), text("other", "3")];
    let trace = text("AWSTraceHeader", "Root=1");
    let sent = chain
        .send_entry(
            Q,
            SendEntry {
                attributes: attributes.clone(),
                system_attributes: vec![trace.clone()],
                ..entry("x")
            },
        )
        .unwrap();
    assert_eq!(sent.md5_of_attributes, checksum::of_attributes(&attributes));
    assert_eq!(
        sent.md5_of_system_attributes,
        checksum::of_attributes(&[trace])
    );
    let shown = |chain: &mut Chain, names: &[&str]| {
        let message = chain
            .receive_with(ReceiveMessage {
                attribute_names: texts(names),
                ..receive(Q, 1)
            })
            .remove(0);
        assert_eq!(
            message.md5_of_attributes,
            checksum::of_attributes(&message.attributes)
        );
        let names = message.attributes.iter().map(|it| it.name.clone());
        names.collect::<Vec<_>>()
    };
    assert_eq!(shown(&mut chain, &[]), texts(&[]));
    assert_eq!(shown(&mut chain, &["other"]), ["other"]);
    assert_eq!(shown(&mut chain, &["gr.*"]), ["grad.x", "gruen"]);
    assert_eq!(shown(&mut chain, &["grad.*"]), ["grad.x"]);
    assert_eq!(shown(&mut chain, &["All"]).len(), 3);
    assert_eq!(shown(&mut chain, &[".*"]).len(), 3);
    let all = chain.receive_with(ReceiveMessage {
        system_names: texts(&["All"]),
        ..receive(Q, 1)
    });
    let names: Vec<&str> = all[0]
        .system
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    assert_eq!(
        names,
        [
            "SenderId",
            "SentTimestamp",
            "ApproximateReceiveCount",
            "ApproximateFirstReceiveTimestamp",
            "AWSTraceHeader",
        ]
    );
    let count = all[0]
        .system
        .iter()
        .find(|(name, _)| name == "ApproximateReceiveCount");
    assert_eq!(count.unwrap().1, "7");
}

#[test]
fn a_batch_is_judged_entry_by_entry_and_its_rules_as_a_whole() {
    let mut chain = Chain::with_queue(&[]);
    let batch = |entries: Vec<SendEntry>| {
        Command::SendMessage(SendMessage {
            queue: Q.to_owned(),
            is_batch: true,
            entries,
        })
    };
    let named = |id: &str, body: &str| SendEntry {
        id: id.to_owned(),
        ..entry(body)
    };
    let mixed = batch(vec![
        named("a", "good"),
        named("b", "bad\u{1}"),
        named("c", ""),
    ]);
    let Reply::Sent(sent) = chain.run(mixed).unwrap() else {
        panic!("sent");
    };
    let codes: Vec<_> = sent
        .iter()
        .map(|it| it.outcome.as_ref().map_err(|it| it.code))
        .collect();
    assert!(codes[0].is_ok());
    assert_eq!(codes[1], Err(Code::InvalidMessageContents));
    assert_eq!(codes[2], Err(Code::MissingParameter));
    assert_eq!(chain.counts(Q), [1, 0, 0]);
    let many = (0..11).map(|id| named(&id.to_string(), "x")).collect();
    let half = "x".repeat(1 << 19);
    let long = vec![named("a", &half), named("b", &half), named("c", "x")];
    for (entries, code) in [
        (vec![], Code::EmptyBatchRequest),
        (many, Code::TooManyEntriesInBatchRequest),
        (
            vec![named("a", "x"), named("a", "y")],
            Code::BatchEntryIdsNotDistinct,
        ),
        (vec![named("a b", "x")], Code::InvalidBatchEntryId),
        (vec![named("", "x")], Code::InvalidBatchEntryId),
        (long, Code::BatchRequestTooLong),
    ] {
        assert_eq!(chain.code(batch(entries)), code);
    }
    assert_eq!(chain.counts(Q), [1, 0, 0], "a refused batch sends nothing");
    let held = chain.receive(Q, 1);
    let delete = Command::DeleteMessage(DeleteMessage {
        queue: Q.to_owned(),
        is_batch: true,
        entries: vec![
            DeleteEntry {
                id: "a".to_owned(),
                receipt_handle: Some(held[0].handle.clone()),
            },
            DeleteEntry {
                id: "b".to_owned(),
                receipt_handle: Some("no".to_owned()),
            },
        ],
    });
    let Reply::Changed(changed) = chain.run(delete).unwrap() else {
        panic!("changed");
    };
    assert!(changed[0].outcome.is_ok());
    let refused = changed[1].outcome.as_ref().unwrap_err();
    assert_eq!(refused.code, Code::ReceiptHandleIsInvalid);
}

#[test]
fn a_refused_send_says_what_is_wrong() {
    let mut chain = Chain::with_queue(&[("MaximumMessageSize", "1024")]);
    let big = entry(&"x".repeat(1025));
    let bad = |attribute| SendEntry {
        attributes: vec![attribute],
        ..entry("x")
    };
    let number = Attribute {
        data_type: "Number".to_owned(),
        ..text("n", "one")
    };
    let list = Attribute {
        value: Value::List,
        ..text("n", "")
    };
    let of_type = |data_type: &str| Attribute {
        data_type: data_type.to_owned(),
        ..text("n", "1")
    };
    let many = SendEntry {
        attributes: (0..11).map(|n| text(&n.to_string(), "x")).collect(),
        ..entry("x")
    };
    let deduplicated = SendEntry {
        deduplication_id: Some("d".to_owned()),
        ..entry("x")
    };
    let system = SendEntry {
        system_attributes: vec![text("Other", "x")],
        ..entry("x")
    };
    for (message, code) in [
        (entry(""), Code::MissingParameter),
        (big, Code::InvalidParameterValue),
        (entry("\u{FFFE}"), Code::InvalidMessageContents),
        (bad(number), Code::InvalidParameterValue),
        (bad(list), Code::UnsupportedOperation),
        (bad(of_type("Real")), Code::InvalidParameterValue),
        (bad(of_type("")), Code::InvalidParameterValue),
        (bad(of_type("Binary")), Code::InvalidParameterValue),
        (bad(text("n", "")), Code::InvalidParameterValue),
        (bad(text("AWS.n", "x")), Code::InvalidParameterValue),
        (bad(text(".n", "x")), Code::InvalidParameterValue),
        (bad(text("n m", "x")), Code::InvalidParameterValue),
        (bad(text("", "x")), Code::InvalidParameterValue),
        (many, Code::InvalidParameterValue),
        (deduplicated, Code::InvalidParameterValue),
        (system, Code::InvalidParameterValue),
    ] {
        let refused = chain.send_entry(Q, message.clone()).unwrap_err();
        assert_eq!(refused.code, code, "{message:?}");
    }
    assert_eq!(chain.counts(Q), [0, 0, 0]);
    let group = SendEntry {
        group_id: Some("tenant".to_owned()),
        attributes: vec![of_type("Number.int"), of_type_named("s", "String.json")],
        ..entry("x")
    };
    chain.send_entry(Q, group).unwrap();
    let shown = chain.receive_with(ReceiveMessage {
        system_names: texts(&["MessageGroupId"]),
        ..receive(Q, 1)
    });
    assert_eq!(shown[0].system, pairs(&[("MessageGroupId", "tenant")]));
}

fn of_type_named(name: &str, data_type: &str) -> Attribute {
    Attribute {
        data_type: data_type.to_owned(),
        ..text(name, "1")
    }
}
