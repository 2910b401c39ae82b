//! Queues as a whole.

use super::fixture::*;
use crate::request::{self, Limits};
use crate::service::Service as _;
use crate::sqs::command::*;
use crate::sqs::{Code, Reply, Sqs};
use crate::steps;

fn names(
    chain: &mut Chain,
    prefix: &str,
    max: Option<i64>,
    token: Option<String>,
) -> (Vec<String>, Option<String>) {
    let list = Command::ListQueues(List {
        queue: prefix.to_owned(),
        max_results: max,
        next_token: token,
    });
    match chain.run(list).unwrap() {
        Reply::Queues(page) => (page.names, page.next_token),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_queue_is_created_once_and_again_with_what_it_is() {
    let mut chain = Chain::with_queue(&[("VisibilityTimeout", "10")]);
    for same in [
        &[][..],
        &[("VisibilityTimeout", "10")],
        &[("DelaySeconds", "0")],
    ] {
        assert_eq!(chain.create(Q, same), Ok(Reply::Queue(Q.to_owned())));
    }
    let refused = chain.create(Q, &[("VisibilityTimeout", "11")]).unwrap_err();
    assert_eq!(refused.code, Code::QueueNameExists);
    assert!(refused.message.ends_with("VisibilityTimeout"), "{refused}");
}

#[test]
fn names_and_attributes_have_their_rules() {
    let mut chain = Chain::new(0);
    for name in ["", "a b", "a.b", ".fifo", &"x".repeat(81), "ä"] {
        let refused = chain.create(name, &[]).unwrap_err();
        assert_eq!(refused.code, Code::InvalidParameterValue, "{name}");
    }
    for (name, value, code) in [
        ("DelaySeconds", "901", Code::InvalidAttributeValue),
        ("DelaySeconds", "-1", Code::InvalidAttributeValue),
        ("DelaySeconds", "x", Code::InvalidAttributeValue),
        ("MaximumMessageSize", "1023", Code::InvalidAttributeValue),
        ("MaximumMessageSize", "1048577", Code::InvalidAttributeValue),
        ("MessageRetentionPeriod", "59", Code::InvalidAttributeValue),
        (
            "MessageRetentionPeriod",
            "1209601",
            Code::InvalidAttributeValue,
        ),
        ("VisibilityTimeout", "43201", Code::InvalidAttributeValue),
        (
            "ReceiveMessageWaitTimeSeconds",
            "21",
            Code::InvalidAttributeValue,
        ),
        ("SqsManagedSseEnabled", "yes", Code::InvalidAttributeValue),
        (
            "KmsDataKeyReusePeriodSeconds",
            "59",
            Code::InvalidAttributeValue,
        ),
        ("Policy", "x", Code::InvalidAttributeValue),
        ("RedriveAllowPolicy", "x", Code::InvalidAttributeValue),
        (
            "RedriveAllowPolicy",
            r#"{"redrivePermission":"byQueue"}"#,
            Code::InvalidParameterValue,
        ),
        ("FifoQueue", "false", Code::InvalidAttributeName),
        ("FifoQueue", "true", Code::InvalidParameterValue),
        (
            "ContentBasedDeduplication",
            "true",
            Code::InvalidAttributeName,
        ),
        ("QueueArn", "x", Code::InvalidAttributeName),
        ("Nothing", "x", Code::InvalidAttributeName),
    ] {
        let refused = chain.create(Q, &[(name, value)]).unwrap_err();
        assert_eq!(refused.code, code, "{name}={value}");
    }
    let refused = chain.create("jobs.fifo", &[]).unwrap_err();
    assert_eq!(
        refused.code,
        Code::InvalidParameterValue,
        "a FIFO queue says so"
    );
    let absent = Command::GetQueueUrl(named(Q));
    assert_eq!(chain.code(absent), Code::QueueDoesNotExist);
}

#[test]
fn attributes_are_shown_as_they_were_set() {
    let mut chain = Chain::with_queue(&[]);
    let all = Command::GetQueueAttributes(GetQueueAttributes {
        queue: Q.to_owned(),
        names: texts(&["All"]),
    });
    let Ok(Reply::Pairs(shown)) = chain.run(all.clone()) else {
        panic!("attributes");
    };
    expect_test::expect![[r#"
        ApproximateNumberOfMessages=0
        ApproximateNumberOfMessagesNotVisible=0
        ApproximateNumberOfMessagesDelayed=0
        CreatedTimestamp=1700000000
        LastModifiedTimestamp=1700000000
        VisibilityTimeout=30
        MaximumMessageSize=1048576
        MessageRetentionPeriod=345600
        DelaySeconds=0
        ReceiveMessageWaitTimeSeconds=0
        SqsManagedSseEnabled=true
        QueueArn=arn:aws:sqs:us-east-1:000000000001:jobs
    "#]]
    .assert_eq(
        &shown
            .iter()
            .map(|(name, value)| format!("{name}={value}\n"))
            .collect::<String>(),
    );
    chain.pass(5);
    chain
        .set(
            Q,
            &[("DelaySeconds", "7"), ("KmsMasterKeyId", "alias/mine")],
        )
        .unwrap();
    assert_eq!(chain.attribute(Q, "DelaySeconds"), Some("7".to_owned()));
    assert_eq!(
        chain.attribute(Q, "LastModifiedTimestamp"),
        Some("1700000005".to_owned())
    );
    assert_eq!(
        chain.attribute(Q, "KmsDataKeyReusePeriodSeconds"),
        Some("300".to_owned())
    );
    assert_eq!(chain.attribute(Q, "Policy"), None);
    let unknown = Command::GetQueueAttributes(GetQueueAttributes {
        queue: Q.to_owned(),
        names: texts(&["Nothing"]),
    });
    assert_eq!(chain.code(unknown), Code::InvalidAttributeName);
}

#[test]
fn queues_are_listed_by_prefix_in_pages() {
    let mut chain = Chain::new(0);
    for name in ["b2", "a1", "b1", "b3", "c"] {
        chain.create(name, &[]).unwrap();
    }
    assert_eq!(
        names(&mut chain, "", None, None).0,
        ["a1", "b1", "b2", "b3", "c"]
    );
    let (first, token) = names(&mut chain, "b", Some(2), None);
    assert_eq!(first, ["b1", "b2"]);
    let (second, token) = names(&mut chain, "b", Some(2), token);
    assert_eq!((second, token), (texts(&["b3"]), None));
    let bad = |max, token: Option<&str>| {
        Command::ListQueues(List {
            queue: String::new(),
            max_results: max,
            next_token: token.map(str::to_owned),
        })
    };
    for wrong in [
        bad(Some(0), None),
        bad(Some(1001), None),
        bad(None, Some("!")),
    ] {
        assert_eq!(chain.code(wrong), Code::InvalidParameterValue);
    }
    chain.account = crate::catalog::AccountId("000000000002".to_owned());
    chain.caller = key_of("000000000002");
    assert_eq!(names(&mut chain, "", None, None).0, texts(&[]));
}

#[test]
fn a_deleted_queue_is_gone_at_once_and_its_name_waits_a_minute() {
    let mut chain = Chain::with_queue(&[]);
    chain.send(Q, "one");
    chain.run(Command::DeleteQueue(named(Q))).unwrap();
    assert_eq!(
        chain.code(Command::ReceiveMessage(receive(Q, 1))),
        Code::QueueDoesNotExist
    );
    assert_eq!(
        chain.code(Command::DeleteQueue(named(Q))),
        Code::QueueDoesNotExist
    );
    chain.pass(59);
    assert_eq!(
        chain.create(Q, &[]).unwrap_err().code,
        Code::QueueDeletedRecently
    );
    chain.pass(1);
    chain.create(Q, &[]).unwrap();
    assert_eq!(chain.bodies(Q, 1), texts(&[]), "it comes back empty");
    for number in 0..20 {
        let name = format!("q{number}");
        chain.create(&name, &[]).unwrap();
        chain.run(Command::DeleteQueue(named(&name))).unwrap();
        chain.pass(100);
    }
    chain.create("last", &[]).unwrap();
    let is_deleted = |key: &bytes::Bytes| key.starts_with(&[0, 0, 0, 0, 0, 0, 0, 0, b'Q']);
    assert_eq!(
        chain.rows.live().filter(|(key, _)| is_deleted(key)).count(),
        0
    );
}

/// It shows QL-3.
#[test]
fn a_purge_takes_all_that_was_sent_and_nothing_later() {
    for fifo in [false, true] {
        let mut chain = match fifo {
            true => Chain::with_fifo(&[]),
            false => Chain::with_queue(&[]),
        };
        let name = if fifo { "jobs.fifo" } else { Q };
        let send = |chain: &mut Chain, body: &str| match fifo {
            true => chain.send_to("a", body),
            false => chain.send(Q, body),
        };
        for number in 0..50 {
            send(&mut chain, &number.to_string());
        }
        let held = chain.receive(name, 5);
        chain.run(Command::PurgeQueue(named(name))).unwrap();
        assert_eq!(chain.counts(name), [0, 0, 0]);
        send(&mut chain, "later");
        assert_eq!(chain.bodies(name, 10), ["later"]);
        chain.delete(name, &held[0].handle).unwrap();
        let again = Command::PurgeQueue(named(name));
        assert_eq!(chain.code(again.clone()), Code::PurgeQueueInProgress);
        assert!(1 < chain.upkeep(20), "rows go in steps");
        let rows = if fifo { 4 } else { 3 };
        assert_eq!(
            chain.rows_of(name),
            rows,
            "those of the message that is in flight"
        );
        chain.pass(60);
        chain.run(again).unwrap();
        assert_eq!(chain.bodies(name, 10), texts(&[]));
    }
}

#[test]
fn tags_are_kept_up_to_fifty() {
    let mut chain = Chain::with_queue(&[]);
    let tag = |tags: &[(&str, &str)]| {
        Command::TagQueue(TagQueue {
            queue: Q.to_owned(),
            tags: pairs(tags),
        })
    };
    chain.run(tag(&[("b", "1"), ("a", "2")])).unwrap();
    chain.run(tag(&[("b", "3")])).unwrap();
    let tags = Command::ListQueueTags(named(Q));
    assert_eq!(
        chain.run(tags.clone()),
        Ok(Reply::Pairs(pairs(&[("a", "2"), ("b", "3")])))
    );
    let untag = Command::UntagQueue(UntagQueue {
        queue: Q.to_owned(),
        keys: texts(&["a", "x"]),
    });
    chain.run(untag).unwrap();
    assert_eq!(chain.run(tags), Ok(Reply::Pairs(pairs(&[("b", "3")]))));
    let numbers: Vec<String> = (0..50).map(|number| number.to_string()).collect();
    let many: Vec<(&str, &str)> = numbers.iter().map(|it| (it.as_str(), "")).collect();
    assert_eq!(chain.code(tag(&many)), Code::InvalidParameterValue);
    assert_eq!(
        chain.code(tag(&[("aws:x", "")])),
        Code::InvalidParameterValue
    );
    assert_eq!(chain.code(tag(&[])), Code::MissingParameter);
}

#[test]
fn a_named_request_keeps_ids_and_no_bodies() {
    let mut chain = Chain::with_queue(&[]);
    let body = "x".repeat(1000);
    chain.send(Q, &body);
    let request = chain.request(Command::ReceiveMessage(receive(Q, 1)));
    let decision = chain.decide(&request).unwrap();
    chain.apply(&decision.changes);
    let kept = Sqs::keep(decision.outcome.as_ref()).unwrap();
    assert!(kept.len() < 100, "{}", kept.len());
    let again = Sqs::kept(kept).unwrap().unwrap();
    let Ok(Reply::Messages(messages)) = chain.complete(again) else {
        panic!("messages");
    };
    assert_eq!(messages[0].body, body);
    let refused = crate::sqs::Error::no_such_queue();
    let kept = Sqs::keep(Err(&refused)).unwrap();
    assert_eq!(Sqs::kept(kept), Ok(Err(refused)));
    let later = crate::sqs::Error::unavailable(crate::Reason::Moved, "its member is elsewhere");
    assert_eq!(Sqs::keep(Err(&later)), None);
}

#[test]
fn names_come_and_go_on_the_system_chain_and_the_queue_is_made_on_its_own() {
    let (mut system, mut own) = (Chain::new(0), Chain::new(1));
    let create = CreateQueue {
        queue: Q.to_owned(),
        attributes: pairs(&[("VisibilityTimeout", "7")]),
        tags: Vec::new(),
        mode: None,
    };
    let ask = |system: &mut Chain, command: Command| {
        let request = system.request(command);
        let limits = system.limits.clone();
        let context = crate::service::Context {
            now_ms: system.now_ms,
            ..crate::service::Context::new(&system.account, &limits)
        };
        let decision = Sqs::decide_names(&system.rows, &context, 1, &request).unwrap();
        system.apply(&decision.changes);
        (decision.outcome, steps::unsettled(&system.rows, 9).unwrap())
    };
    let (created, begun) = ask(&mut system, Command::CreateQueue(create.clone()));
    assert_eq!(created, Ok(Reply::Queue(Q.to_owned())));
    assert_eq!(begun.len(), 1);
    finish_steps(&mut system, &mut own);
    assert_eq!(
        own.code(Command::ReceiveMessage(receive(Q, 1))),
        Code::QueueDoesNotExist
    );
    own.run(Command::CreateQueue(create.clone())).unwrap();
    assert_eq!(own.attribute(Q, "VisibilityTimeout"), Some("7".to_owned()));
    let (deleted, _) = ask(&mut system, Command::DeleteQueue(named(Q)));
    assert_eq!(deleted, Ok(Reply::Done));
    finish_steps(&mut system, &mut own);
    assert_eq!(
        own.code(Command::ReceiveMessage(receive(Q, 1))),
        Code::QueueDoesNotExist
    );
    let (refused, _) = ask(&mut system, Command::CreateQueue(create));
    assert_eq!(refused.unwrap_err().code, Code::QueueDeletedRecently);
}

#[test]
fn a_peek_shows_messages_and_receives_none() {
    let mut chain = Chain::with_queue(&[]);
    for body in ["1", "2", "3"] {
        chain.send(Q, body);
    }
    let held = chain.receive(Q, 1);
    let peek = |after| {
        Command::PeekMessages(PeekMessages {
            queue: Q.to_owned(),
            after,
            max_messages: Some(2),
        })
    };
    let shown = |chain: &mut Chain, after| match chain.run(peek(after)).unwrap() {
        Reply::Peeked(it) => it
            .messages
            .into_iter()
            .map(|it| it.body)
            .collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    assert_eq!(shown(&mut chain, 0), ["1", "2"]);
    assert_eq!(shown(&mut chain, 2), ["3"]);
    chain.delete(Q, &held[0].handle).unwrap();
    assert_eq!(shown(&mut chain, 0), ["2", "3"]);
    assert_eq!(chain.counts(Q), [2, 0, 0]);
    // Those that are over and not swept yet are no end of the queue.
    chain.pass(4 * 24 * 3600);
    chain.send(Q, "4");
    assert_eq!(shown(&mut chain, 0), ["4"]);
}

#[test]
fn figures_tell_what_a_queue_has_and_what_happened_to_it() {
    let mut chain = Chain::with_queue(&[
        ("MessageRetentionPeriod", "100"),
        ("VisibilityTimeout", "10"),
    ]);
    for body in ["1", "2", "3"] {
        chain.send(Q, body);
    }
    chain.pass(5);
    let held = chain.receive(Q, 2);
    chain.delete(Q, &held[0].handle).unwrap();
    assert_eq!(values(&chain), [1, 1, 0, 5, 3, 2, 1, 0, 0]);
    chain.pass(10);
    assert_eq!(values(&chain), [2, 0, 0, 15, 3, 2, 1, 0, 0]);
    chain.pass(85);
    chain.upkeep(100);
    assert_eq!(values(&chain), [0, 0, 0, 0, 3, 2, 1, 0, 2]);
}

fn values(chain: &Chain) -> Vec<u64> {
    let limits = Limits {
        sqs: chain.limits.clone(),
        ..Limits::default()
    };
    let figures = request::figures(&chain.rows, &limits, chain.id, chain.now_ms, 1);
    let mut figures = figures.unwrap();
    assert_eq!(figures.shown[0].name, Q);
    assert_eq!(figures.shown[0].account, chain.account);
    assert!(figures.others.is_empty());
    figures.shown.remove(0).values
}
