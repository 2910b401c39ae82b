//! Transactions of one client and of several, at each level, on both kinds of queues.

use std::time::Duration;

use crate::stage;
use fader_cloud::model::{Latency, Model, Profile};
use fader_cloud::{Clock, ErrorKind, RequestKind, Usage};
use fader_database::{Database, Level, Options, Transaction};
use stage::{Backend, client, database, model, on_all, process, run};

async fn pause(model: &Model, ms: u64) {
    model.clock.sleep(Duration::from_millis(ms)).await;
}

async fn get(transaction: &mut Transaction, key: &str) -> Option<String> {
    let value = transaction
        .get("books", key.as_bytes())
        .await
        .expect("a readable tree");
    value.map(|value| String::from_utf8(value.to_vec()).expect("text"))
}

async fn put_all(database: &Database, level: Level, records: &[(&str, &str)]) {
    let mut transaction = database.begin(level);
    for (key, value) in records {
        let put = transaction
            .put("books", key.as_bytes(), value.as_bytes())
            .await;
        put.expect("a valid record");
    }
    transaction.commit().await.expect("a cloud without faults");
}

async fn all(database: &Database) -> Vec<String> {
    let mut transaction = database.begin(Level::Basic);
    let all = transaction
        .range("books", b"", None, usize::MAX)
        .await
        .expect("a readable tree");
    let line = |(key, value): (bytes::Bytes, bytes::Bytes)| {
        format!(
            "{}={}",
            String::from_utf8_lossy(&key),
            String::from_utf8_lossy(&value)
        )
    };
    all.into_iter().map(line).collect()
}

#[test]
fn records_come_back_at_each_level() {
    on_all(|model, backend| async move {
        let writer = database(&model, "writer", backend).await;
        for (level, key) in Level::ALL.into_iter().zip(["a", "b", "c", "d"]) {
            put_all(&writer, level, &[(key, level.name())]).await;
        }
        writer.settle().await.expect("a cloud without faults");
        let reader = client(&model, "reader", backend).await;
        let found = all(&reader).await;
        assert_eq!(found, ["a=naive", "b=basic", "c=monotonic", "d=atomic"]);
    });
}

#[test]
fn a_session_reads_its_own_writes_before_any_checkpoint() {
    on_all(|model, backend| async move {
        let writer = database(&model, "writer", backend).await;
        put_all(&writer, Level::Monotonic, &[("a", "1")]).await;
        let mut monotonic = writer.begin(Level::Monotonic);
        assert_eq!(get(&mut monotonic, "a").await.as_deref(), Some("1"));
        let mut basic = writer.begin(Level::Basic);
        assert_eq!(
            get(&mut basic, "a").await,
            None,
            "Basic does not promise it"
        );
    });
}

#[test]
fn a_transaction_sees_its_own_writes() {
    on_all(|model, backend| async move {
        let writer = database(&model, "writer", backend).await;
        put_all(&writer, Level::Basic, &[("a", "1"), ("b", "1"), ("c", "1")]).await;
        writer.settle().await.expect("a cloud without faults");
        let mut transaction = writer.begin(Level::Basic);
        transaction
            .update("books", b"a", b"2")
            .await
            .expect("a valid record");
        transaction
            .update("books", b"x", b"2")
            .await
            .expect("a valid record");
        transaction
            .delete("books", b"b")
            .await
            .expect("a valid key");
        transaction
            .put("books", b"d", b"2")
            .await
            .expect("a valid record");
        assert_eq!(get(&mut transaction, "a").await.as_deref(), Some("2"));
        assert_eq!(get(&mut transaction, "b").await, None);
        assert_eq!(
            get(&mut transaction, "x").await,
            None,
            "there is nothing to update"
        );
        let seen = transaction
            .range("books", b"", None, 10)
            .await
            .expect("a readable tree");
        let keys: Vec<_> = seen.iter().map(|(key, _)| &key[..]).collect();
        assert_eq!(keys, [b"a", b"c", b"d"]);
        transaction.abort();
        assert_eq!(
            all(&writer).await,
            ["a=1", "b=1", "c=1"],
            "an abort leaves nothing"
        );
    });
}

#[test]
fn many_records_split_pages_and_stay_in_order() {
    on_all(|model, backend| async move {
        let writer = database(&model, "writer", backend).await;
        let mut expected = Vec::new();
        for part in 0..20 {
            let mut transaction = writer.begin(Level::Basic);
            for number in 0..20 {
                let key = format!("{:05}", (number * 20 + part) * 7919 % 100_000);
                transaction
                    .put("books", key.as_bytes(), b"v")
                    .await
                    .expect("a valid record");
                expected.push(format!("{key}=v"));
            }
            transaction.commit().await.expect("a cloud without faults");
            if part % 5 == 0 {
                writer.settle().await.expect("a cloud without faults");
            }
        }
        let done = writer.settle().await.expect("a cloud without faults");
        assert!(done.splits > 0, "{done:?}");
        expected.sort();
        let reader = client(&model, "reader", backend).await;
        assert_eq!(all(&reader).await, expected);
        let report = reader.verify("books").await.expect("a readable tree");
        assert!(report.problems.is_empty(), "{report:?}");
    });
}

#[test]
fn deleted_and_updated_records_follow_the_order_of_commits() {
    on_all(|model, backend| async move {
        let one = database(&model, "one", backend).await;
        let other = client(&model, "other", backend).await;
        put_all(&one, Level::Basic, &[("a", "1"), ("b", "1")]).await;
        pause(&model, 10).await;
        let mut transaction = other.begin(Level::Basic);
        transaction
            .update("books", b"a", b"2")
            .await
            .expect("a valid record");
        transaction
            .delete("books", b"b")
            .await
            .expect("a valid key");
        transaction.commit().await.expect("a cloud without faults");
        pause(&model, 10).await;
        let mut transaction = one.begin(Level::Basic);
        transaction
            .update("books", b"b", b"3")
            .await
            .expect("a valid record");
        transaction.commit().await.expect("a cloud without faults");
        one.settle().await.expect("a cloud without faults");
        assert_eq!(
            all(&one).await,
            ["a=2"],
            "an update does not revive a deleted record"
        );
    });
}

#[test]
fn a_client_that_is_silent_has_checkpointed_soon_after() {
    on_all(|model, backend| async move {
        let writer = database(&model, "writer", backend).await;
        put_all(&writer, Level::Atomic, &[("a", "1")]).await;
        pause(&model, 2 * 15_000).await;
        let reader = client(&model, "reader", backend).await;
        assert_eq!(all(&reader).await, ["a=1"]);
    });
}

#[test]
fn an_idle_database_costs_no_request() {
    on_all(|model, backend| async move {
        let writer = database(&model, "writer", backend).await;
        put_all(&writer, Level::Atomic, &[("a", "1")]).await;
        pause(&model, 60_000).await;
        let before = model.meter.usage();
        pause(&model, 7 * 24 * 60 * 60 * 1000).await;
        assert_eq!(model.meter.usage().since(&before).requests(), 0);
    });
}

#[test]
fn a_transaction_whose_client_never_returns_is_finished_by_another() {
    on_all(|model, backend| async move {
        let process = stage::process(&model, "first");
        let cloud = stage::cloud(&model, &process, backend);
        let first = Database::create(cloud, Options::default())
            .await
            .expect("a new database");
        let created = first.create_collection("books", &stage::small()).await;
        created.expect("a new collection");
        put_all(&first, Level::Atomic, &[("a", "1"), ("z", "1")]).await;
        process.crash();
        let second = client(&model, "second", backend).await;
        assert!(all(&second).await.is_empty());
        second.settle().await.expect("a cloud without faults");
        pause(&model, 20_000).await;
        assert_eq!(all(&second).await, ["a=1", "z=1"]);
    });
}

#[test]
fn a_transaction_too_large_for_a_message_commits_by_a_claim() {
    on_all(|model, backend| async move {
        let writer = database(&model, "writer", backend).await;
        let value = "v".repeat(50_000);
        let records: Vec<(String, &str)> = (0..10).map(|n| (format!("k{n}"), &value[..])).collect();
        let records: Vec<(&str, &str)> = records.iter().map(|(k, v)| (&k[..], *v)).collect();
        put_all(&writer, Level::Atomic, &records).await;
        writer.settle().await.expect("a cloud without faults");
        assert_eq!(all(&writer).await.len(), 10);
        let claims = model
            .object_keys()
            .into_iter()
            .filter(|key| key.contains("claims"));
        assert_eq!(
            claims.count(),
            0,
            "a claim is freed when its records were sent on"
        );
    });
}

#[test]
fn a_record_larger_than_a_page_is_an_object_of_its_own() {
    on_all(|model, backend| async move {
        let writer = database(&model, "writer", backend).await;
        let value = "v".repeat(1_000_000);
        put_all(&writer, Level::Basic, &[("large", &value)]).await;
        writer.settle().await.expect("a cloud without faults");
        let reader = client(&model, "reader", backend).await;
        assert_eq!(
            get(&mut reader.begin(Level::Basic), "large").await,
            Some(value)
        );
    });
}

#[test]
fn a_collection_refuses_weaker_levels_than_its_own() {
    on_all(|model, backend| async move {
        let writer = database(&model, "writer", backend).await;
        let settings = fader_database::CollectionSettings {
            minimum: Level::Atomic,
            ..stage::small()
        };
        writer
            .create_collection("orders", &settings)
            .await
            .expect("a new collection");
        let refused = writer.begin(Level::Basic).put("orders", b"a", b"1").await;
        assert_eq!(refused.expect_err("it is weaker").kind, ErrorKind::Invalid);
        let again = writer.create_collection("orders", &settings).await;
        assert_eq!(
            again.expect_err("the name is taken").kind,
            ErrorKind::Precondition
        );
        let missing = writer.begin(Level::Basic).get("films", b"a").await;
        assert_eq!(
            missing.expect_err("there is none").kind,
            ErrorKind::NotFound
        );
    });
}

#[test]
fn a_dropped_collection_is_gone_and_its_name_is_free() {
    on_all(|model, backend| async move {
        let writer = database(&model, "writer", backend).await;
        put_all(&writer, Level::Basic, &[("a", "1")]).await;
        writer.settle().await.expect("a cloud without faults");
        writer
            .drop_collection("books")
            .await
            .expect("a cloud without faults");
        let created = writer.create_collection("books", &stage::small()).await;
        created.expect("a free name");
        assert!(all(&writer).await.is_empty());
    });
}

#[test]
fn a_client_whose_clock_is_off_sends_nothing() {
    on_all(|model, backend| async move {
        let first = database(&model, "first", backend).await;
        let skew = fader_cloud::model::Skew {
            offset_ms: 120_000,
            drift_ppm: 0,
        };
        let process = model.executor.process("ahead", skew);
        let cloud = stage::cloud(&model, &process, backend);
        let ahead = Database::open(cloud, Options::default())
            .await
            .expect("the database");
        let mut transaction = ahead.begin(Level::Basic);
        transaction
            .put("books", b"a", b"1")
            .await
            .expect("a valid record");
        let refused = transaction
            .commit()
            .await
            .expect_err("its clock is two minutes ahead");
        assert_eq!(refused.kind, ErrorKind::Invalid);
        first.settle().await.expect("a cloud without faults");
        assert!(all(&first).await.is_empty());
    });
}

#[test]
fn naive_transactions_lose_updates() {
    let mut profile = Profile::default();
    profile.objects.get.latency = Latency::Constant(Duration::from_millis(25));
    profile.objects.put.latency = Latency::Constant(Duration::from_millis(30));
    let model = Model::new(profile);
    let executor = model.executor.clone();
    executor.run(async move {
        let one = database(&model, "one", Backend::Service).await;
        let other = client(&model, "other", Backend::Service).await;
        for (client, key) in [(&one, "w"), (&other, "x")] {
            // Afterwards each has compared its clock with the store's.
            put_all(client, Level::Naive, &[(key, "1")]).await;
        }
        let commits = [(&one, "a"), (&other, "b")].map(|(client, key)| async move {
            put_all(client, Level::Naive, &[(key, "1")]).await;
        });
        futures_util::future::join_all(commits).await;
        let reader = client(&model, "reader", Backend::Service).await;
        assert_eq!(all(&reader).await.len(), 3, "one of the two is lost");
    });
    executor.shut_down();
}

#[test]
fn naive_transactions_that_split_a_page_at_once_leave_a_tree_that_works() {
    let mut profile = Profile::default();
    let latency = Latency::LogNormal {
        median: Duration::from_millis(25),
        sigma: 0.5,
    };
    profile.objects.get.latency = latency.clone();
    profile.objects.put.latency = latency;
    let model = Model::new(profile);
    let executor = model.executor.clone();
    executor.run(async move {
        let first = database(&model, "first", Backend::Service).await;
        let mut clients = Vec::new();
        for number in 0..8 {
            clients.push(client(&model, &format!("client{number}"), Backend::Service).await);
        }
        let commits = clients.iter().enumerate().map(async |(own, client)| {
            for round in 0..30 {
                let key = format!("{:03}", (round * 37 + own) % 240);
                put_all(client, Level::Naive, &[(&key, "of a naive transaction")]).await;
            }
        });
        futures_util::future::join_all(commits).await;
        let after: Vec<String> = (0..240).map(|key| format!("{key:03}")).collect();
        let after: Vec<(&str, &str)> = after.iter().map(|key| (key.as_str(), "basic")).collect();
        put_all(&first, Level::Basic, &after).await;
        first.settle().await.expect("the tree takes records");
        let reader = client(&model, "reader", Backend::Service).await;
        let found = all(&reader).await;
        let kept = found.iter().filter(|line| line.ends_with("=basic")).count();
        assert_eq!(kept, 240, "records of a basic transaction are there");
    });
    executor.shut_down();
}

#[test]
fn requests_count_for_the_stage_of_their_work() {
    let model = model(1);
    let executor = model.executor.clone();
    let of_model = model.clone();
    executor.run(async move {
        let writer = database(&of_model, "writer", Backend::Service).await;
        let records: Vec<(String, String)> = (0..40)
            .map(|number| (format!("key{number:03}"), "x".repeat(60)))
            .collect();
        let records: Vec<(&str, &str)> = records
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
            .collect();
        put_all(&writer, Level::Atomic, &records).await;
        let done = writer.settle().await.expect("a cloud without faults");
        assert!(0 < done.splits, "{done:?}");
        let own = writer.meter().within_usage();
        for stage in ["commit", "atomic", "checkpoint", "split"] {
            assert!(0 < own[stage].requests(), "{stage}: {own:?}");
        }
        assert!(!own.contains_key("sweep"), "{own:?}");
        // Each page that splits created is one request, and posting separators takes some more.
        assert!(done.splits <= own["split"].requests(), "{own:?}");
        let sweeper = client(&of_model, "sweeper", Backend::Service).await;
        put_all(&writer, Level::Basic, &[("key000", "new")]).await;
        let done = sweeper.settle().await.expect("a cloud without faults");
        assert_eq!(done.messages, 1);
        let swept = sweeper.meter().within_usage();
        assert!(0 < swept["sweep"].requests(), "{swept:?}");
        assert!(!swept.contains_key("checkpoint"), "{swept:?}");
    });
    executor.shut_down();
}

#[test]
fn a_queue_that_takes_long_to_read_is_checkpointed() {
    let mut profile = Profile {
        seed: 1,
        ..Profile::default()
    };
    // Longer than the catalogue is believed, and than a round may write.
    profile.queues.receive.latency = Latency::Constant(Duration::from_secs(15));
    profile.queues.receive.timeout = Duration::from_secs(60);
    run(Model::new(profile), |model| async move {
        let writer = database(&model, "writer", Backend::Service).await;
        put_all(&writer, Level::Basic, &[("a", "1")]).await;
        writer.settle().await.expect("a cloud without faults");
        let reader = client(&model, "reader", Backend::Service).await;
        let mut transaction = reader.begin(Level::Basic);
        assert_eq!(get(&mut transaction, "a").await.as_deref(), Some("1"));
    });
}

/// Requests of a kind that were answered since a reading of the meter.
fn requests(model: &Model, before: &Usage, kind: RequestKind) -> u64 {
    let used = model.meter.usage().since(before);
    let of_kind = used.counts().filter(|(own, ..)| *own == kind);
    of_kind.map(|(_, _, count)| count.requests).sum()
}

#[test]
fn a_checkpoint_takes_all_messages_of_a_queue_in_a_bucket_at_once() {
    for level in [Level::Basic, Level::Atomic] {
        let model = model(1);
        let executor = model.executor.clone();
        let of_model = model.clone();
        executor.run(async move {
            let writer = database(&of_model, "writer", Backend::Bucket).await;
            for count in 0..30 {
                put_all(&writer, level, &[("key", &count.to_string())]).await;
            }
            let before = of_model.meter.usage();
            let done = writer.settle().await.expect("a cloud without faults");
            let of_kind = |kind| requests(&of_model, &before, kind);
            assert_eq!((done.applied, done.pages), (30, 1), "{level}");
            // The page; at Atomic also the message that takes the records to their queue.
            let puts = 1 + u64::from(level == Level::Atomic);
            assert_eq!(of_kind(RequestKind::ObjectPut), puts, "{level}");
            // Each queue once, the ATOMIC queue too.
            assert_eq!(of_kind(RequestKind::ObjectList), 2, "{level}");
            assert_eq!(all(&writer).await, ["key=29"]);
        });
        executor.shut_down();
    }
}

#[test]
fn many_damaged_messages_do_not_keep_a_client_from_its_end() {
    on_all(|model, backend| async move {
        let writer = database(&model, "writer", backend).await;
        let queues = stage::cloud(&model, &process(&model, "other"), backend).queues;
        let names = queues.list("").await.expect("a cloud without faults");
        let garbage = vec!["no transaction".to_owned(); 10];
        for name in names {
            for _ in 0..101 {
                queues.send(&name, &garbage).await.expect("a queue");
            }
        }
        put_all(&writer, Level::Atomic, &[("key", "1")]).await;
        writer.settle().await.expect("damaged messages stay");
        writer.settle().await.expect("damaged messages stay");
    });
}
