//! Sends of one process that go together.

#![allow(clippy::unwrap_used, reason = "a test may fail here")]

use std::time::Duration;

use fader_cloud::conformance::{SystemUnderTest, judge, queues};
use fader_cloud::model::{Call, FaultRates, Latency, Model, Profile, Skew, run};
use fader_cloud::{Clock, Cloud, Error, QueueSettings, Queues, RequestKind};
use futures_util::future::{join_all, select};

const QUEUE: &str = "q";

/// Sends take 10 ms, of which so many of a thousand are lost.
fn profile(lost_request: u16) -> Profile {
    let mut profile = Profile::default();
    profile.queues.send = Call {
        latency: Latency::Constant(Duration::from_millis(10)),
        faults: FaultRates {
            lost_request,
            ..FaultRates::default()
        },
        ..Call::default()
    };
    profile
}

async fn start(model: &Model) -> Cloud {
    let process = model.executor.process("p", Skew::default());
    let cloud = model.cloud(&process).grouped();
    let settings = QueueSettings::default();
    cloud.queues.create(QUEUE, &settings).await.unwrap();
    cloud
}

fn on_model<F: Future<Output = ()>>(profile: Profile, test: impl FnOnce(Model) -> F) {
    let model = Model::new(profile);
    let executor = model.executor.clone();
    executor.run(test(model));
    executor.shut_down();
}

/// Requests to send so far.
fn sends(model: &Model) -> u64 {
    model.meter.usage().of(RequestKind::QueueSend).requests
}

/// One message a send, from handles of two scopes.
async fn send_all(cloud: &Cloud, count: usize) -> Vec<Result<String, Error>> {
    let scopes = [cloud.scope("one"), cloud.scope("other")];
    let scopes = &scopes;
    let sends = (0..count).map(|number| async move {
        let queues = &scopes[number % 2].queues;
        let mut sent = queues.send(QUEUE, &[number.to_string()]).await?;
        sent.remove(0)
    });
    join_all(sends).await
}

/// It shows GROUP-1.
#[test]
fn sends_that_wait_share_calls_and_each_has_its_own_id() {
    on_model(profile(0), |model| async move {
        let cloud = start(&model).await;
        let begun = model.clock.monotonic();
        let ids = send_all(&cloud, 108).await;
        let mut ids: Vec<String> = ids.into_iter().map(Result::unwrap).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 108);
        // Ten messages a call, eight calls at once: 80 messages, then 28.
        assert_eq!(sends(&model), 11);
        let taken = model.clock.monotonic() - begun;
        assert_eq!(taken, Duration::from_millis(20));
        assert_eq!(cloud.queues.counts(QUEUE).await.unwrap().visible, 108);
        // Alone, at once.
        send_all(&cloud, 1).await.remove(0).unwrap();
        assert_eq!(sends(&model), 12);
    });
}

/// It shows GROUP-2.
#[test]
fn a_caller_that_ends_takes_no_other_send_with_it() {
    on_model(profile(0), |model| async move {
        let cloud = start(&model).await;
        let first = Box::pin(send_all(&cloud, 8));
        drop(select(first, model.clock.sleep(Duration::from_millis(1))).await);
        let others = send_all(&cloud, 30).await;
        assert!(others.iter().all(Result::is_ok), "{others:?}");
        assert_eq!(cloud.queues.counts(QUEUE).await.unwrap().visible, 38);
    });
}

#[test]
fn a_call_that_fails_fails_each_of_its_sends() {
    on_model(profile(1_000), |model| async move {
        let process = model.executor.process("setup", Skew::default());
        let setup = model.cloud(&process);
        let settings = QueueSettings::default();
        setup.queues.create(QUEUE, &settings).await.unwrap();
        let cloud = model.cloud(&process).grouped();
        let outcomes = send_all(&cloud, 20).await;
        assert!(outcomes.iter().all(Result::is_err), "{outcomes:?}");
        model.set_profile(profile(0));
        let outcomes = send_all(&cloud, 20).await;
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    });
}

#[test]
fn grouping_changes_no_promise() {
    let model = Model::new(Profile::default());
    let mut verdicts = Vec::new();
    run(&model.clock, async {
        let process = model.executor.process("p", Skew::default());
        let cloud = model.cloud(&process).grouped();
        let subject = SystemUnderTest {
            service: &*cloud.queues as &dyn Queues,
            clock: &*model.clock,
            prefix: "t",
        };
        queues(&subject, &mut |verdict| verdicts.push(verdict)).await;
    });
    judge(&verdicts, &[]).unwrap();
}
