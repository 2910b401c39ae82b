//! What requests of queues and domains in a bucket count for, where they serve callers of several
//! scopes.

#![allow(clippy::unwrap_used, reason = "a test may fail here")]

use std::time::Duration;

use fader_cloud::model::{Model, Profile, Skew};
use fader_cloud::{AttributePut, Clock, Cloud, ItemPut, QueueSettings, RequestKind};
use futures_util::future::join_all;
use object_store::ObjectStoreExt;
use object_store::path::Path;

/// A cloud whose queues and domains are in its bucket, as a client opens it.
fn open(model: &Model) -> Cloud {
    let process = model.executor.process("one", Skew::default());
    model.cloud(&process).in_bucket(&Path::from("b"))
}

async fn work(cloud: &Cloud, number: usize) {
    let body = ["text".to_owned()];
    cloud.queues.send("q", &body).await.unwrap();
    let put = ItemPut {
        name: format!("item{number}"),
        attributes: vec![AttributePut {
            name: "a".to_owned(),
            value: "1".to_owned(),
            replace: true,
        }],
    };
    cloud.domains.put("dom", &put, None).await.unwrap();
    for _ in 0..=number {
        let key = Path::from(format!("object{number}"));
        cloud.objects.put(&key, "x".into()).await.unwrap();
    }
}

#[test]
fn shared_requests_count_once_and_for_the_scope_of_the_opening() {
    let model = Model::new(Profile::of_2026(1).without_faults());
    model.executor.run(async {
        let cloud = open(&model);
        let settings = QueueSettings::default();
        cloud.queues.create("q", &settings).await.unwrap();
        cloud.domains.create("dom").await.unwrap();
        let before = cloud.meter.own_usage().requests();
        let scopes: Vec<Cloud> = (0..8).map(|at| cloud.scope(&format!("s{at}"))).collect();
        let calls = scopes.iter().enumerate();
        join_all(calls.map(|(number, scope)| work(scope, number))).await;
        model.clock.sleep(Duration::from_secs(5)).await;

        // Each scope has the requests that served it alone: its objects.
        for (number, scope) in scopes.iter().enumerate() {
            let used = scope.meter.usage();
            assert_eq!(used.requests(), 1 + number as u64, "scope {number}");
            assert_eq!(used.of(RequestKind::ObjectPut).requests, used.requests());
        }
        // The scope of the opening has the shared ones: fewer than calls.
        let shared = cloud.meter.own_usage().requests() - before;
        assert!((2..16).contains(&shared), "{shared} requests for 16 calls");
        // All together are the wire's.
        let within: u64 = scopes.iter().map(|one| one.meter.usage().requests()).sum();
        let own = cloud.meter.own_usage().requests();
        assert_eq!(own + within, cloud.meter.usage().requests());
        assert_eq!(cloud.meter.usage(), model.meter.usage());
    });
}
