//! Modelled objects behave as their profile says, and are metered as a client's would be.

use std::time::Duration;

use fader_cloud::model::{
    Call, ETags, FaultRates, Latency, Model, ObjectProfile, Profile, RateLimit, Skew, Staleness,
};
use fader_cloud::{Clock, ErrorKind, RequestKind, object_error_kind};
use futures_util::TryStreamExt;
use object_store::path::Path;
use object_store::{GetOptions, ObjectStore, ObjectStoreExt, PutMode, PutOptions};

const SECOND: Duration = Duration::from_secs(1);

fn model(objects: ObjectProfile) -> Model {
    Model::new(Profile {
        seed: 1,
        objects,
        ..Profile::default()
    })
}

fn with_faults(faults: FaultRates) -> Call {
    Call {
        faults,
        ..Call::default()
    }
}

async fn create(objects: &dyn ObjectStore, key: &str) -> object_store::Result<()> {
    let options = PutOptions {
        mode: PutMode::Create,
        ..PutOptions::default()
    };
    let at = Path::from(key);
    let put = objects.put_opts(&at, "body".into(), options);
    put.await.map(drop)
}

/// It shows MSTORE-2.
#[test]
fn a_read_shows_no_older_state_than_the_profile_allows() {
    let model = model(ObjectProfile {
        reads: Staleness::Uniform(SECOND * 4),
        lists: Staleness::Constant(SECOND * 2),
        ..ObjectProfile::default()
    });
    let at = Path::from("a/counter");
    let mut ages = Vec::new();
    model.executor.run(async {
        for value in 0..100u64 {
            let put = model.objects.put(&at, value.to_string().into());
            put.await.unwrap();
            let shown = match model.objects.get(&at).await {
                Ok(found) => {
                    let body = found.bytes().await.unwrap();
                    let body = String::from_utf8(body.to_vec()).unwrap();
                    body.parse::<u64>().unwrap() + 1
                }
                Err(object_store::Error::NotFound { .. }) => 0,
                Err(other) => panic!("{other}"),
            };
            ages.push(value + 1 - shown);
            // A condition is decided on the newest state.
            let created = create(&*model.objects, "a/counter").await;
            assert!(matches!(
                created,
                Err(object_store::Error::AlreadyExists { .. })
            ));
            model.clock.sleep(SECOND).await;
        }
        model.objects.delete(&at).await.unwrap();
        let list = || async {
            let list: Vec<_> = model.objects.list(None).try_collect().await.unwrap();
            list.len()
        };
        assert_eq!(list().await, 1);
        model.clock.sleep(SECOND * 2).await;
        assert_eq!(list().await, 0);
    });
    assert_eq!(ages.iter().max(), Some(&4));
    assert_eq!(ages.iter().min(), Some(&0));
}

/// It shows LINK-1.
#[test]
fn a_put_without_an_answer_may_have_happened_or_may_happen_later() {
    for (faults, now, later) in [
        (
            FaultRates {
                lost_request: 1000,
                ..FaultRates::default()
            },
            false,
            false,
        ),
        (
            FaultRates {
                lost_answer: 1000,
                ..FaultRates::default()
            },
            true,
            true,
        ),
        (
            FaultRates {
                late: 1000,
                ..FaultRates::default()
            },
            false,
            true,
        ),
    ] {
        let call = Call {
            // With this seed the late put takes longer than the caller waits.
            timeout: Duration::from_millis(1),
            ..with_faults(faults)
        };
        let model = model(ObjectProfile {
            put: call,
            ..ObjectProfile::default()
        });
        model.executor.run(async {
            let error = create(&*model.objects, "a").await.unwrap_err();
            assert_eq!(object_error_kind(&error, true), ErrorKind::Ambiguous);
            assert_eq!(model.object_keys().len(), usize::from(now), "{faults:?}");
            model.clock.sleep(SECOND * 60).await;
            assert_eq!(model.object_keys().len(), usize::from(later), "{faults:?}");
        });
    }
}

#[test]
fn a_refusal_changes_nothing_and_is_no_lost_race() {
    let faults = FaultRates {
        conflict: 1000,
        ..FaultRates::default()
    };
    let model = model(ObjectProfile {
        put: with_faults(faults),
        ..ObjectProfile::default()
    });
    model.executor.run(async {
        let error = create(&*model.objects, "a").await.unwrap_err();
        let kind = ErrorKind::Unavailable { retry_after: None };
        assert_eq!(object_error_kind(&error, true), kind);
        assert_eq!(model.object_keys().len(), 0);
        model.objects.put(&"a".into(), "body".into()).await.unwrap();
    });
}

#[test]
fn a_call_takes_effect_though_its_caller_died() {
    let model = model(ObjectProfile {
        put: Call {
            latency: Latency::Constant(SECOND),
            ..Call::default()
        },
        ..ObjectProfile::default()
    });
    let process = model.executor.process("p", Skew::default());
    let cloud = model.cloud(&process);
    let objects = cloud.objects.clone();
    drop(cloud.runtime.spawn(async move {
        let _ = objects.put(&"a".into(), "body".into()).await;
        panic!("the process died before the answer");
    }));
    model.executor.run(async {
        model.clock.sleep(SECOND / 1000).await;
        process.crash();
        model.clock.sleep(SECOND * 2).await;
    });
    assert_eq!(model.object_keys(), ["a"]);
}

#[test]
fn rates_are_limited_by_prefix_and_by_object() {
    let model = model(ObjectProfile {
        prefix_writes: Some(RateLimit {
            per_second: 10,
            burst: 3,
        }),
        object_writes: Some(RateLimit {
            per_second: 1,
            burst: 1,
        }),
        ..ObjectProfile::default()
    });
    model.executor.run(async {
        let puts = ["p/a", "p/b", "p/c", "p/d", "q/a", "q/a"];
        let mut admitted = Vec::new();
        for key in puts {
            let put = model.objects.put(&Path::from(key), "body".into()).await;
            admitted.push(put.is_ok());
        }
        assert_eq!(admitted, [true, true, true, false, true, false]);
        model.clock.sleep(SECOND).await;
        model
            .objects
            .put(&"p/d".into(), "body".into())
            .await
            .unwrap();
    });
    let usage = model.meter.usage();
    let statuses: Vec<_> = usage
        .counts()
        .map(|(_, status, count)| (status, count.requests))
        .collect();
    assert_eq!(statuses, [(Some(200), 5), (Some(503), 2)]);
}

#[test]
fn last_modified_has_a_grain_of_a_second_and_e_tags_are_of_bytes_or_of_writes() {
    for (e_tags, are_equal) in [(ETags::OfBytes, true), (ETags::OfWrites, false)] {
        let model = model(ObjectProfile {
            e_tags,
            ..ObjectProfile::default()
        });
        model.executor.run(async {
            model.clock.sleep(Duration::from_millis(1_700)).await;
            let at = Path::from("a");
            let first = model.objects.put(&at, "body".into()).await.unwrap();
            let other = model.objects.put(&at, "other".into()).await.unwrap();
            let again = model.objects.put(&at, "body".into()).await.unwrap();
            assert_ne!(first.e_tag, other.e_tag);
            assert_eq!(first.e_tag == again.e_tag, are_equal);
            let meta = model.objects.head(&at).await.unwrap();
            let wall = model.clock.wall().as_secs() as i64;
            assert_eq!(meta.last_modified.timestamp(), wall);
            assert_eq!(meta.last_modified.timestamp_subsec_nanos(), 0);
        });
    }
}

/// It shows LINK-2.
#[test]
fn the_meter_counts_pages_parts_batches_and_refusals() {
    let model = model(ObjectProfile {
        list_page: 10,
        ..ObjectProfile::default()
    });
    let process = model.executor.process("p", Skew::default());
    let cloud = model.cloud(&process);
    let job = cloud.scope("job");
    model.executor.run(async {
        let objects = &cloud.objects;
        for key in 0..25 {
            create(&**objects, &format!("p/{key}")).await.unwrap();
        }
        create(&**objects, "p/3").await.unwrap_err();
        let keys: Vec<_> = job
            .objects
            .list(Some(&"p".into()))
            .try_collect()
            .await
            .unwrap();
        let keys = keys
            .into_iter()
            .map(|meta: object_store::ObjectMeta| Ok(meta.location));
        let keys = futures_util::stream::iter(keys.collect::<Vec<_>>());
        let deleted = job.objects.delete_stream(Box::pin(keys));
        assert_eq!(deleted.try_collect::<Vec<_>>().await.unwrap().len(), 25);
        let mut upload = job.objects.put_multipart(&"large".into()).await.unwrap();
        upload.put_part("one".into()).await.unwrap();
        upload.put_part("two".into()).await.unwrap();
        let put = upload.complete().await.unwrap();
        let options = GetOptions {
            if_none_match: put.e_tag,
            ..GetOptions::default()
        };
        job.objects
            .get_opts(&"large".into(), options)
            .await
            .unwrap_err();
        job.objects.get(&"nowhere".into()).await.unwrap_err();
    });
    let count = |kind| {
        let (job, process) = (job.meter.usage(), cloud.meter.usage());
        assert_eq!(process, model.meter.usage());
        (job.of(kind).requests, process.of(kind).requests)
    };
    assert_eq!(count(RequestKind::ObjectPut), (4, 26 + 4));
    assert_eq!(count(RequestKind::ObjectList), (3, 3));
    assert_eq!(count(RequestKind::ObjectDelete), (1, 1));
    assert_eq!(count(RequestKind::ObjectGet), (2, 2));
    let usage = job.meter.usage();
    let gets = usage
        .counts()
        .filter(|(kind, ..)| *kind == RequestKind::ObjectGet);
    let statuses: Vec<_> = gets.map(|(_, status, _)| status).collect();
    assert_eq!(statuses, [Some(304), Some(404)]);
}
