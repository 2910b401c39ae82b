//! Queues in weather, which the conformance suite cannot ask for.

use super::super::{Executor, Model, run};
use super::*;

fn received(model: &Model, wait: Duration) -> Vec<Received> {
    let how = Receive {
        max: 10,
        visibility: Some(Duration::from_secs(5)),
        wait,
    };
    run(&model.clock, model.queues.receive("q", &how)).unwrap()
}

fn with_messages(weather: Weather, bodies: &[&str]) -> Model {
    let model = Model::new(weather);
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
    let weather = Weather {
        resurrections: 1000,
        ..Weather::default()
    };
    let model = with_messages(weather, &["a"]);
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
    let model = with_messages(Weather::default(), &["a"]);
    let retention = QueueSettings::default().retention;
    run(
        &model.clock,
        model.clock.sleep(retention - Duration::from_secs(10)),
    );
    assert_eq!(received(&model, Duration::ZERO).len(), 1);
    run(&model.clock, model.clock.sleep(Duration::from_secs(10)));
    assert_eq!(received(&model, Duration::ZERO), []);
}

#[test]
fn a_long_receive_ends_when_a_hidden_message_is_shown_again() {
    let model = with_messages(Weather::default(), &["a"]);
    assert_eq!(received(&model, Duration::ZERO).len(), 1);
    let before = model.clock.monotonic();
    assert_eq!(received(&model, Duration::from_secs(20)).len(), 1);
    assert_eq!(model.clock.monotonic() - before, Duration::from_secs(5));
}

#[test]
fn a_long_receive_ends_without_a_message_when_its_wait_is_over() {
    let model = with_messages(Weather::default(), &["a"]);
    let receipts = [received(&model, Duration::ZERO)[0].receipt.clone()];
    run(&model.clock, model.queues.remove("q", &receipts)).unwrap();
    let before = model.clock.monotonic();
    assert_eq!(received(&model, Duration::from_secs(20)), []);
    assert_eq!(model.clock.monotonic() - before, Duration::from_secs(20));
}

#[test]
fn a_refused_send_sends_nothing_and_an_unanswered_one_may_have_sent() {
    for (refused, unanswered, kind, count) in [
        (1000, 0, ErrorKind::Unavailable { retry_after: None }, 0),
        (0, 1000, ErrorKind::Ambiguous, 1),
    ] {
        let weather = Weather {
            refused,
            unanswered,
            ..Weather::default()
        };
        let queues = ModelQueues::new(weather, Executor::new(0).harness().clock());
        let fair = Queue {
            settings: QueueSettings::default(),
            messages: BTreeMap::new(),
            sent: 0,
            waiting: Vec::new(),
        };
        queues.queues().insert("q".to_owned(), fair);
        let sent = run(&queues.clock, queues.send("q", &["a".to_owned()]));
        assert_eq!(sent.unwrap_err().kind, kind);
        assert_eq!(queues.queues()["q"].messages.len(), count);
    }
}
