//! Dead letters, on one chain and between two.

use fader_chain::{ALL_GUARDS, ChainId};

use super::fixture::*;
use crate::Kind;
use crate::catalog::Name;
use crate::service::Service as _;
use crate::sqs::command::*;
use crate::sqs::{Code, Reply, Sqs};
use crate::steps;

fn arn(queue: &str) -> String {
    format!("arn:aws:sqs:us-east-1:{ACCOUNT}:{queue}")
}

fn policy(queue: &str, count: u32) -> String {
    format!(
        r#"{{"deadLetterTargetArn":"{}","maxReceiveCount":{count}}}"#,
        arn(queue)
    )
}

fn source_of(chain: &mut Chain, queue: &str) -> Option<String> {
    let shown = chain.receive_with(ReceiveMessage {
        system_names: texts(&["DeadLetterQueueSourceArn"]),
        ..receive(queue, 1)
    });
    let (_, arn) = shown.first()?.system.first()?.clone();
    Some(arn)
}

#[test]
fn a_message_received_too_often_moves_and_keeps_what_it_is() {
    let mut chain = Chain::new(0);
    chain.create("failed", &[]).unwrap();
    let redrive = policy("failed", 2);
    let attributes = [("VisibilityTimeout", "0"), ("RedrivePolicy", &*redrive)];
    chain.create(Q, &attributes).unwrap();
    let sent = chain.send(Q, "bad");
    for _ in 0..2 {
        assert_eq!(chain.bodies(Q, 1), ["bad"]);
        assert_eq!(chain.counts("failed"), [0, 0, 0]);
    }
    assert_eq!(chain.bodies(Q, 1), texts(&[]));
    assert_eq!(chain.counts(Q), [0, 0, 0]);
    assert_eq!(chain.rows_of(Q), 0);
    let moved = chain.receive_with(ReceiveMessage {
        system_names: texts(&["All"]),
        visibility_timeout: Some(0),
        ..receive("failed", 1)
    });
    assert_eq!(moved[0].id, sent.id);
    let value = |name: &str| {
        let found = moved[0].system.iter().find(|(it, _)| it == name);
        found.map(|(_, value)| value.clone())
    };
    assert_eq!(value("DeadLetterQueueSourceArn"), Some(arn(Q)));
    assert_eq!(value("SentTimestamp"), Some(START.to_string()));
    assert_eq!(value("ApproximateReceiveCount"), Some("3".to_owned()));
    let sources = Command::ListDeadLetterSourceQueues(List {
        queue: "failed".to_owned(),
        max_results: None,
        next_token: None,
    });
    let Ok(Reply::Queues(page)) = chain.run(sources.clone()) else {
        panic!("queues");
    };
    assert_eq!(page.names, [Q]);
    chain.set(Q, &[("RedrivePolicy", "")]).unwrap();
    let Ok(Reply::Queues(page)) = chain.run(sources) else {
        panic!("queues");
    };
    assert_eq!(page.names, texts(&[]));
}

#[test]
fn a_dead_letter_keeps_its_age() {
    let mut chain = Chain::new(0);
    chain
        .create("failed", &[("MessageRetentionPeriod", "100")])
        .unwrap();
    let redrive = policy("failed", 1);
    chain
        .create(
            Q,
            &[("VisibilityTimeout", "0"), ("RedrivePolicy", &redrive)],
        )
        .unwrap();
    chain.send(Q, "old");
    assert_eq!(chain.bodies(Q, 1), ["old"]);
    chain.pass(10);
    chain.send("failed", "young");
    chain.pass(50);
    assert_eq!(chain.bodies(Q, 1), texts(&[]));
    assert_eq!(
        chain.bodies("failed", 1),
        ["old"],
        "it is entered below the low mark"
    );
    chain.pass(50);
    chain.upkeep(10);
    assert_eq!(chain.rows_of("failed"), 0);
}

#[test]
fn a_policy_names_a_queue_that_is_there_of_the_same_type_and_allows_it() {
    let mut chain = Chain::new(0);
    chain.create("failed", &[]).unwrap();
    chain
        .create("failed.fifo", &[("FifoQueue", "true")])
        .unwrap();
    chain
        .create(
            "deny",
            &[("RedriveAllowPolicy", r#"{"redrivePermission":"denyAll"}"#)],
        )
        .unwrap();
    let by_queue = format!(
        r#"{{"redrivePermission":"byQueue","sourceQueueArns":["{}"]}}"#,
        arn(Q)
    );
    chain
        .create("by-queue", &[("RedriveAllowPolicy", &by_queue)])
        .unwrap();
    for (target, is_taken) in [
        ("failed", true),
        ("absent", false),
        ("failed.fifo", false),
        ("deny", false),
        ("by-queue", true),
    ] {
        let redrive = policy(target, 3);
        let made = chain.create(Q, &[("RedrivePolicy", &redrive)]);
        match is_taken {
            true => drop(made.unwrap()),
            false => assert_eq!(
                made.unwrap_err().code,
                Code::InvalidParameterValue,
                "{target}"
            ),
        }
        if is_taken {
            chain.run(Command::DeleteQueue(named(Q))).unwrap();
            chain.pass(61);
        }
    }
    let redrive = policy("by-queue", 3);
    let refused = chain
        .create("stranger", &[("RedrivePolicy", &redrive)])
        .unwrap_err();
    assert_eq!(refused.code, Code::InvalidParameterValue);
    for bad in [
        "x",
        "[]",
        "{}",
        r#"{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000001:failed"}"#,
        &policy("failed", 0),
        &policy("failed", 1001),
        r#"{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000002:failed",
            "maxReceiveCount":3}"#,
    ] {
        assert!(
            chain.create("bad", &[("RedrivePolicy", bad)]).is_err(),
            "{bad}"
        );
    }
}

#[test]
fn without_its_target_a_message_is_received_as_ever() {
    let mut chain = Chain::new(0);
    chain.create("failed", &[]).unwrap();
    let redrive = policy("failed", 1);
    chain
        .create(
            Q,
            &[("VisibilityTimeout", "0"), ("RedrivePolicy", &redrive)],
        )
        .unwrap();
    chain.run(Command::DeleteQueue(named("failed"))).unwrap();
    chain.send(Q, "bad");
    for _ in 0..3 {
        assert_eq!(chain.bodies(Q, 1), ["bad"]);
    }
}

#[test]
fn many_dead_letters_move_in_bounded_entries() {
    let mut chain = Chain::new(0);
    chain.create("failed", &[]).unwrap();
    let redrive = policy("failed", 1);
    chain
        .create(
            Q,
            &[("VisibilityTimeout", "0"), ("RedrivePolicy", &redrive)],
        )
        .unwrap();
    let big = "x".repeat(400_000);
    for _ in 0..10 {
        chain.send(Q, &big);
    }
    assert_eq!(chain.receive(Q, 10).len(), 10);
    let mut moved = Vec::new();
    for _ in 0..4 {
        assert_eq!(chain.receive(Q, 10).len(), 0);
        moved.push(chain.counts("failed")[0]);
    }
    assert_eq!(moved, [3, 6, 9, 10]);
    assert_eq!(chain.counts(Q), [0, 0, 0]);
}

#[test]
fn dead_letters_of_a_group_go_in_order_and_free_it() {
    let mut chain = Chain::new(0);
    chain
        .create("failed.fifo", &[("FifoQueue", "true")])
        .unwrap();
    let redrive = policy("failed.fifo", 1);
    let attributes = [
        ("FifoQueue", "true"),
        ("VisibilityTimeout", "0"),
        ("RedrivePolicy", &*redrive),
    ];
    chain.create("jobs.fifo", &attributes).unwrap();
    for body in ["1", "2"] {
        chain.send_to("a", body);
    }
    assert_eq!(chain.bodies("jobs.fifo", 1), ["1"]);
    assert_eq!(chain.bodies("jobs.fifo", 1), ["2"]);
    assert_eq!(chain.bodies("failed.fifo", 10), ["1"]);
    assert_eq!(chain.bodies("jobs.fifo", 10), texts(&[]));
    assert_eq!(chain.rows_of("jobs.fifo"), 0);
}

/// Two chains, each with a queue: letters of the first go to the second.
fn two_chains(name: &str, failed: &str, is_fifo: bool) -> (Chain, Chain) {
    let (mut here, mut there) = (Chain::new(1), Chain::new(2));
    let mut attributes = vec![("VisibilityTimeout", "0")];
    if is_fifo {
        attributes.push(("FifoQueue", "true"));
    }
    there.create(failed, &attributes).unwrap();
    here.towards = there.place(failed);
    let redrive = policy(failed, 1);
    attributes.push(("RedrivePolicy", &redrive));
    here.create(name, &attributes).unwrap();
    assert_eq!(finish_steps(&mut here, &mut there), 1, "the link");
    (here, there)
}

#[test]
fn between_chains_a_move_is_a_step_and_the_message_is_in_one_queue() {
    let (mut here, mut there) = two_chains(Q, "failed", false);
    let sources = Command::ListDeadLetterSourceQueues(List {
        queue: "failed".to_owned(),
        max_results: None,
        next_token: None,
    });
    let Ok(Reply::Queues(page)) = there.run(sources) else {
        panic!("queues");
    };
    assert_eq!(page.names, [Q]);
    for body in ["1", "2", "3"] {
        here.send(Q, body);
    }
    assert_eq!(here.receive(Q, 10).len(), 3);
    let request = here.request(Command::ReceiveMessage(receive(Q, 10)));
    let decision = here.decide(&request).unwrap();
    here.apply(&decision.changes);
    let reply = decision.outcome.unwrap();
    assert!(Sqs::begun(&reply).is_some());
    assert_eq!(here.bodies(Q, 10), texts(&[]), "they are hidden");
    assert_eq!(there.counts("failed"), [0, 0, 0]);
    assert_eq!(finish_steps(&mut here, &mut there), 1);
    assert_eq!(
        there.bodies("failed", 10),
        ["1", "2", "3"],
        "once, though asked twice"
    );
    assert_eq!(here.rows_of(Q), 0);
    assert_eq!(steps::unsettled(&here.rows, 9).unwrap(), []);
    assert_eq!(source_of(&mut there, "failed"), Some(arn(Q)));
}

#[test]
fn a_source_that_is_deleted_on_another_chain_is_forgotten() {
    let (mut here, mut there) = two_chains(Q, "failed", false);
    assert_eq!(sources(&mut there, "failed"), [Q]);
    let place = here.place(Q).unwrap();
    let name = Name::new(Kind::Queue, &here.account, Q).to_owned();
    let raze = steps::Step {
        number: place.collection.0,
        to: here.id,
        floor: 0,
        action: steps::Action::Raze(name, place.collection),
    };
    for _ in 0..2 {
        let taken = steps::take(&here.rows, &ALL_GUARDS, ChainId::SYSTEM, &raze).unwrap();
        here.apply(&taken.changes);
    }
    assert!(here.place(Q).is_none());
    assert_eq!(
        finish_steps(&mut here, &mut there),
        1,
        "the end of the link"
    );
    assert_eq!(sources(&mut there, "failed"), texts(&[]));
}

fn sources(chain: &mut Chain, queue: &str) -> Vec<String> {
    let list = List {
        queue: queue.to_owned(),
        max_results: None,
        next_token: None,
    };
    match chain.run(Command::ListDeadLetterSourceQueues(list)) {
        Ok(Reply::Queues(page)) => page.names,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_queue_that_names_another_dead_letter_queue_is_listed_there_alone() {
    let (mut here, mut there) = two_chains(Q, "failed", false);
    let mut third = Chain::new(3);
    third.create("spoiled", &[]).unwrap();
    assert_eq!(sources(&mut there, "failed"), [Q]);
    here.towards = third.place("spoiled");
    let redrive = policy("spoiled", 1);
    here.set(Q, &[("RedrivePolicy", &redrive)]).unwrap();
    let finished = finish_among(&mut here, &mut [&mut there, &mut third]);
    assert_eq!(finished, 2, "the end of a link, and a link");
    assert_eq!(sources(&mut there, "failed"), texts(&[]));
    assert_eq!(sources(&mut third, "spoiled"), [Q]);
    // The same again is no change.
    here.set(Q, &[("RedrivePolicy", &redrive)]).unwrap();
    finish_among(&mut here, &mut [&mut there, &mut third]);
    assert_eq!(sources(&mut third, "spoiled"), [Q]);
    assert_eq!(steps::unsettled(&here.rows, 9).unwrap(), []);
}

#[test]
fn a_dead_letter_queue_on_the_same_chain_after_one_elsewhere_is_its_only_one() {
    let (mut here, mut there) = two_chains(Q, "failed", false);
    here.create("own", &[]).unwrap();
    let redrive = policy("own", 1);
    here.set(Q, &[("RedrivePolicy", &redrive)]).unwrap();
    assert_eq!(finish_steps(&mut here, &mut there), 1);
    assert_eq!(sources(&mut there, "failed"), texts(&[]));
    assert_eq!(sources(&mut here, "own"), [Q]);
}

#[test]
fn a_peek_goes_on_behind_messages_on_their_way() {
    const HIDDEN: usize = 300;
    let (mut here, mut there) = two_chains(Q, "failed", false);
    for _ in 0..HIDDEN {
        here.send(Q, "bad");
    }
    while here.counts(Q) != [0, 0, 0] {
        here.receive(Q, 10);
    }
    here.send(Q, "good");
    let mut peek = |after| {
        let peek = PeekMessages {
            queue: Q.to_owned(),
            after,
            max_messages: None,
        };
        match here.run(Command::PeekMessages(peek)) {
            Ok(Reply::Peeked(it)) => it,
            other => panic!("{other:?}"),
        }
    };
    let first = peek(0);
    assert_eq!(first.messages, []);
    assert!(0 < first.after);
    let second = peek(first.after);
    let bodies: Vec<_> = second.messages.iter().map(|it| &it.body).collect();
    assert_eq!(bodies, ["good"]);
    assert_eq!(peek(second.after).after, second.after, "the end");
    assert!(0 < finish_steps(&mut here, &mut there));
    assert_eq!(there.counts("failed")[0], HIDDEN as u64);
}

#[test]
fn a_message_comes_back_when_the_other_chain_takes_none() {
    for is_fifo in [false, true] {
        let (name, failed) = match is_fifo {
            true => ("jobs.fifo", "failed.fifo"),
            false => (Q, "failed"),
        };
        let (mut here, mut there) = two_chains(name, failed, is_fifo);
        there.run(Command::DeleteQueue(named(failed))).unwrap();
        match is_fifo {
            true => drop(here.send_to("a", "bad")),
            false => drop(here.send(Q, "bad")),
        }
        assert_eq!(here.bodies(name, 10), ["bad"]);
        assert_eq!(here.bodies(name, 10), texts(&[]));
        assert_eq!(finish_steps(&mut here, &mut there), 1);
        assert_eq!(here.counts(name), [1, 0, 0], "{name}");
        here.set(name, &[("RedrivePolicy", "")]).unwrap();
        assert_eq!(here.bodies(name, 10), ["bad"]);
    }
}

#[test]
fn a_group_waits_for_a_message_that_is_on_its_way_to_another_chain() {
    for is_refused in [false, true] {
        let (mut here, mut there) = two_chains("jobs.fifo", "failed.fifo", true);
        if is_refused {
            there
                .run(Command::DeleteQueue(named("failed.fifo")))
                .unwrap();
        }
        here.send_to("a", "bad");
        here.send_to("b", "other");
        assert_eq!(here.bodies("jobs.fifo", 1), ["bad"]);
        here.send_to("a", "good");
        // It may come back: what is behind it in its group is not given before that is known.
        assert_eq!(here.bodies("jobs.fifo", 10), ["other"]);
        assert_eq!(finish_steps(&mut here, &mut there), 1);
        here.set("jobs.fifo", &[("RedrivePolicy", "")]).unwrap();
        let mut all = here.bodies("jobs.fifo", 10);
        all.retain(|body| body != "other");
        let left: &[&str] = if is_refused {
            &["bad", "good"]
        } else {
            &["good"]
        };
        assert_eq!(all, left);
    }
}

#[test]
fn a_purge_takes_messages_on_their_way_too() {
    let (mut here, mut there) = two_chains(Q, "failed", false);
    here.send(Q, "bad");
    assert_eq!(here.bodies(Q, 10), ["bad"]);
    assert_eq!(here.bodies(Q, 10), texts(&[]));
    here.run(Command::PurgeQueue(named(Q))).unwrap();
    finish_steps(&mut here, &mut there);
    here.upkeep(10);
    assert_eq!(here.counts(Q), [0, 0, 0]);
    assert_eq!(here.rows_of(Q), 0);
}
