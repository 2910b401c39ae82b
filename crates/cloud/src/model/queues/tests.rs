//! Queues with faults, which the conformance suite cannot ask for.

use super::super::{Call, FaultRates, Model, Profile, run};
use super::*;
use crate::clock::Clock;

fn received(model: &Model, wait: Duration) -> Vec<Received> {
    let how = Receive {
        max: 10,
        visibility: Some(Duration::from_secs(5)),
        wait,
    };
    run(&model.clock, model.queues.receive("q", &how)).unwrap()
}

fn with_messages(queues: QueueProfile, bodies: &[&str]) -> Model {
    let profile = Profile {
        queues,
        ..Profile::default()
    };
    let model = Model::new(profile);
    let bodies: Vec<String> = bodies.iter().map(|body| (*body).to_owned()).collect();
    run(&model.clock, async {
        model
            .queues
            .create("q", &QueueSettings::default())
            .await
            .unwrap();
        model.queues.send("q", &bodies).await.unwrap();
    });
    model
}

#[test]
fn a_removed_message_comes_back_once_at_most() {
    let queues = QueueProfile {
        resurrections: 1000,
        ..QueueProfile::default()
    };
    let model = with_messages(queues, &["a"]);
    for expected in [1, 1, 0] {
        let found = received(&model, Duration::from_secs(6));
        assert_eq!(found.len(), expected);
        if let Some(found) = found.first() {
            let receipts = [found.receipt.clone()];
            run(&model.clock, model.queues.remove("q", &receipts)).unwrap();
        }
    }
}

#[test]
fn a_message_is_dropped_when_its_retention_is_over() {
    let model = with_messages(QueueProfile::default(), &["a"]);
    let retention = QueueSettings::default().retention;
    run(
        &model.clock,
        model.clock.sleep(retention - Duration::from_secs(10)),
    );
    assert_eq!(received(&model, Duration::ZERO).len(), 1);
    run(&model.clock, model.clock.sleep(Duration::from_secs(10)));
    assert_eq!(received(&model, Duration::ZERO), []);
}

/// It shows MQUEUE-2.
#[test]
fn a_long_receive_ends_when_a_hidden_message_is_shown_again() {
    let model = with_messages(QueueProfile::default(), &["a"]);
    assert_eq!(received(&model, Duration::ZERO).len(), 1);
    let before = model.clock.monotonic();
    assert_eq!(received(&model, Duration::from_secs(20)).len(), 1);
    assert_eq!(model.clock.monotonic() - before, Duration::from_secs(5));
}

#[test]
fn a_long_receive_ends_without_a_message_when_its_wait_is_over() {
    let model = with_messages(QueueProfile::default(), &["a"]);
    let receipts = [received(&model, Duration::ZERO)[0].receipt.clone()];
    run(&model.clock, model.queues.remove("q", &receipts)).unwrap();
    let before = model.clock.monotonic();
    assert_eq!(received(&model, Duration::from_secs(20)), []);
    assert_eq!(model.clock.monotonic() - before, Duration::from_secs(20));
}

#[test]
fn a_refused_send_sends_nothing_and_an_unanswered_one_may_have_sent() {
    let refused = FaultRates {
        unavailable: 1000,
        ..FaultRates::default()
    };
    let unanswered = FaultRates {
        lost_answer: 1000,
        ..FaultRates::default()
    };
    for (faults, kind, count) in [
        (refused, ErrorKind::Unavailable { retry_after: None }, 0),
        (unanswered, ErrorKind::Ambiguous, 1),
    ] {
        let queues = QueueProfile {
            send: Call {
                faults,
                ..Call::default()
            },
            ..QueueProfile::default()
        };
        let model = Model::new(Profile {
            queues,
            ..Profile::default()
        });
        run(
            &model.clock,
            model.queues.create("q", &QueueSettings::default()),
        )
        .unwrap();
        let sent = run(&model.clock, model.queues.send("q", &["a".to_owned()]));
        assert_eq!(sent.unwrap_err().kind, kind);
        assert_eq!(model.queues.queues()["q"].messages.len(), count);
    }
}

#[test]
fn a_duplicated_message_has_two_receivers_and_an_old_receipt_removes_nothing() {
    let queues = QueueProfile {
        duplicates: 1000,
        stale_receipts: 1000,
        ..QueueProfile::default()
    };
    let model = with_messages(queues, &["a"]);
    let first = received(&model, Duration::ZERO);
    let second = received(&model, Duration::ZERO);
    assert_eq!(first[0].id, second[0].id);
    let receipts = [first[0].receipt.clone()];
    run(&model.clock, model.queues.remove("q", &receipts)).unwrap();
    assert_eq!(received(&model, Duration::ZERO).len(), 1);
}

#[test]
fn a_partial_receive_gives_some_of_what_is_there() {
    let queues = QueueProfile {
        partial_receives: 1000,
        ..QueueProfile::default()
    };
    let model = with_messages(queues, &["a", "b", "c"]);
    let found = received(&model, Duration::ZERO).len();
    assert!((1..3).contains(&found), "{found}");
}
