//! Collections with a queue for each leaf: where records go, and what checkpoints, splits, loads
//! and vacuums do with these queues.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::stage;
use fader_cloud::model::{Latency, Model, Profile};
use fader_cloud::{Clock, ErrorKind, Queues, Receive, RequestKind};
use fader_database::{
    Checkpointed, CollectionSettings, Database, Level, Options, PendingQueues, Verdict,
};
use stage::{Backend, client, on_all, process};

fn per_leaf() -> CollectionSettings {
    CollectionSettings {
        queues: PendingQueues::PerLeaf,
        ..stage::small()
    }
}

/// A client that works only when it is told to.
fn patient() -> Options {
    Options {
        checkpoint_after: Duration::from_secs(24 * 60 * 60),
        finish_after: Duration::from_secs(24 * 60 * 60),
        ttl: Duration::from_secs(24 * 60 * 60),
        ..Options::default()
    }
}

async fn open(model: &Model, name: &str, backend: Backend) -> Database {
    let cloud = stage::cloud(model, &process(model, name), backend);
    let opened = Database::open(cloud, patient()).await;
    opened.expect("the database")
}

/// A database whose collection `books` has these settings.
async fn database(model: &Model, backend: Backend, settings: &CollectionSettings) -> Database {
    let cloud = stage::cloud(model, &process(model, "writer"), backend);
    let database = Database::create(cloud, patient()).await;
    let database = database.expect("a new database");
    let created = database.create_collection("books", settings).await;
    created.expect("a new collection");
    database
}

async fn put(database: &Database, level: Level, keys: std::ops::Range<u32>) {
    let mut transaction = database.begin(level);
    for key in keys {
        let key = format!("{key:04}");
        let put = transaction.put("books", key.as_bytes(), b"put");
        put.await.expect("a valid record");
    }
    transaction.commit().await.expect("a cloud without faults");
}

/// The database with records in its pages.
async fn filled(
    model: &Model,
    backend: Backend,
    settings: &CollectionSettings,
    keys: std::ops::Range<u32>,
) -> Database {
    let database = database(model, backend, settings).await;
    put(&database, Level::Basic, keys).await;
    settle(&database).await;
    database
}

async fn update(database: &Database, level: Level, keys: &[u32], value: &str) {
    let mut transaction = database.begin(level);
    for key in keys {
        let key = format!("{key:04}");
        let put = transaction.update("books", key.as_bytes(), value.as_bytes());
        put.await.expect("a valid record");
    }
    transaction.commit().await.expect("a cloud without faults");
}

async fn settle(database: &Database) -> Checkpointed {
    database.settle().await.expect("a cloud without faults")
}

/// The records by their keys, as a new client sees them.
async fn all(model: &Model, backend: Backend) -> BTreeMap<String, String> {
    let reader = client(model, "reader", backend).await;
    let mut transaction = reader.begin(Level::Basic);
    let all = transaction.range("books", b"", None, usize::MAX).await;
    let text = |bytes: bytes::Bytes| String::from_utf8(bytes.to_vec()).expect("text");
    let all = all.expect("a readable tree").into_iter();
    all.map(|(key, value)| (text(key), text(value))).collect()
}

/// The queues of the database.
fn queues(model: &Model, backend: Backend) -> std::sync::Arc<dyn Queues> {
    stage::cloud(model, &process(model, "observer"), backend).queues
}

/// The messages of each queue, by the last part of its name.
async fn pending(model: &Model, backend: Backend) -> BTreeMap<String, u64> {
    let queues = queues(model, backend);
    let mut all = BTreeMap::new();
    for name in queues.list("").await.expect("a cloud without faults") {
        let counts = queues.counts(&name).await.expect("a queue");
        let last = name.rsplit('-').next().expect("a part");
        all.insert(last.to_owned(), counts.total());
    }
    all
}

/// The queues of leaves, each with its messages.
async fn leaves(model: &Model, backend: Backend) -> BTreeMap<String, u64> {
    let mut all = pending(model, backend).await;
    all.retain(|last, _| last.len() == 32);
    all
}

#[test]
fn updates_go_to_the_queue_of_their_leaf_and_others_to_that_of_the_tree() {
    on_all(|model, backend| async move {
        let writer = database(&model, backend, &per_leaf()).await;
        put(&writer, Level::Basic, 0..40).await;
        assert_eq!(pending(&model, backend).await["0"], 1);
        settle(&writer).await;
        assert!(3 < leaves(&model, backend).await.len(), "a split tree");
        update(&writer, Level::Basic, &[0, 39], "new").await;
        let mut transaction = writer.begin(Level::Basic);
        let deleted = transaction.delete("books", b"0020").await;
        deleted.expect("a valid key");
        transaction.commit().await.expect("a cloud without faults");
        let of_leaves = leaves(&model, backend).await;
        assert_eq!(of_leaves.values().sum::<u64>(), 2, "{of_leaves:?}");
        assert_eq!(of_leaves.values().max(), Some(&1), "{of_leaves:?}");
        assert_eq!(pending(&model, backend).await["0"], 1);

        let done = settle(&writer).await;
        assert_eq!((done.messages, done.forwarded), (3, 0));
        assert_eq!(pending(&model, backend).await.values().sum::<u64>(), 0);
        let all = all(&model, backend).await;
        assert_eq!((&all["0000"][..], &all["0039"][..]), ("new", "new"));
        assert!(!all.contains_key("0020"));
    });
}

#[test]
fn each_leaf_of_a_split_and_of_a_load_has_its_queue() {
    on_all(|model, backend| async move {
        let writer = database(&model, backend, &per_leaf()).await;
        let mut load = writer.load("books").await.expect("it is empty");
        for key in 0..60 {
            let key = format!("{key:04}");
            load.push(key.as_bytes(), b"put").await.expect("in order");
        }
        load.finish().await.expect("no other client");
        let report = writer.verify_with_queues("books").await;
        let report = report.expect("readable").queues;
        assert_eq!(
            (&report.missing[..], &report.orphans[..]),
            (&[][..], &[][..])
        );
        let after_load = report.queues;
        assert!(2 < after_load, "{report:?}");
        put(&writer, Level::Atomic, 100..200).await;
        settle(&writer).await;
        let report = writer.verify_with_queues("books").await;
        let report = report.expect("readable").queues;
        assert_eq!(report.missing, []);
        assert!(after_load < report.queues, "{report:?}");
    });
}

/// SPREAD-1.
#[test]
fn the_queue_of_a_leaf_sends_on_what_a_split_moved() {
    on_all(|model, backend| async move {
        let writer = filled(&model, backend, &per_leaf(), 0..8).await;
        // It knows the leaf as it is now, and keeps that for a day.
        let late = open(&model, "late", backend).await;
        let mut transaction = late.begin(Level::Basic);
        let found = transaction.get("books", b"0007").await;
        assert!(found.expect("readable").is_some());
        put(&writer, Level::Basic, 8..40).await;
        settle(&writer).await;
        update(&late, Level::Basic, &[0, 7], "new").await;
        let of_leaves = leaves(&model, backend).await;
        assert!(3 < of_leaves.len(), "a split tree");
        // Both were sent to one leaf: the root, which is none any more.
        assert_eq!(of_leaves.values().max(), Some(&1), "{of_leaves:?}");
        assert_eq!(of_leaves.values().sum::<u64>(), 1, "{of_leaves:?}");

        let done = settle(&open(&model, "other", backend).await).await;
        assert_eq!((done.messages, done.forwarded), (2, 2));
        assert_eq!(pending(&model, backend).await.values().sum::<u64>(), 0);
        let all = all(&model, backend).await;
        assert_eq!((&all["0000"][..], &all["0007"][..]), ("new", "new"));
    });
}

#[test]
fn a_split_leaf_keeps_its_own_and_sends_on_the_others_right() {
    on_all(|model, backend| async move {
        let writer = filled(&model, backend, &per_leaf(), 0..20).await;
        let late = open(&model, "late", backend).await;
        let mut transaction = late.begin(Level::Basic);
        let found = transaction.range("books", b"", None, 100).await;
        assert_eq!(found.expect("readable").len(), 20);
        put(&writer, Level::Basic, 100..140).await;
        settle(&writer).await;
        // In the last leaf as the client knows it; the second is behind the split.
        put(&writer, Level::Basic, 19..20).await;
        model.clock.sleep(Duration::from_secs(1)).await;
        update(&late, Level::Basic, &[19, 139], "new").await;
        let done = settle(&open(&model, "other", backend).await).await;
        assert_eq!(done.forwarded, 1, "{done:?}");
        let all = all(&model, backend).await;
        assert_eq!((&all["0019"][..], &all["0139"][..]), ("new", "new"));
        assert_eq!(pending(&model, backend).await.values().sum::<u64>(), 0);
    });
}

#[test]
fn atomic_transactions_are_sent_on_to_leaves_and_fresh_reads_see_them() {
    on_all(|model, backend| async move {
        let writer = filled(&model, backend, &per_leaf(), 0..40).await;
        update(&writer, Level::Atomic, &[3, 33], "new").await;
        update(&writer, Level::Basic, &[20], "new").await;
        let reader = open(&model, "fresh", backend).await;
        let mut transaction = reader.begin(Level::Basic);
        let is_fresh = transaction.refresh("books").await;
        let is_fresh = is_fresh.expect("a cloud without faults");
        assert_eq!(is_fresh, backend == Backend::Bucket);
        if is_fresh {
            for key in ["0003", "0020", "0033"] {
                let found = transaction.get("books", key.as_bytes()).await;
                let found = found.expect("readable").expect("a record");
                assert_eq!(&found[..], b"new", "{key}");
            }
        }
        settle(&open(&model, "other", backend).await).await;
        let all = all(&model, backend).await;
        let new = all.values().filter(|value| *value == "new").count();
        assert_eq!(new, 3);
    });
}

#[test]
fn a_client_checkpoints_the_leaves_that_it_wrote_to() {
    on_all(|model, backend| async move {
        filled(&model, backend, &per_leaf(), 0..40).await;
        let quick = client(&model, "quick", backend).await;
        // Its stamps are above those of the records.
        model.clock.sleep(Duration::from_secs(1)).await;
        for level in [Level::Basic, Level::Atomic] {
            update(&quick, level, &[0, 20, 39], level.name()).await;
            model.clock.sleep(Duration::from_secs(40)).await;
            assert_eq!(pending(&model, backend).await.values().sum::<u64>(), 0);
            let all = all(&model, backend).await;
            assert_eq!(
                (&all["0000"][..], &all["0039"][..]),
                (level.name(), level.name())
            );
        }
    });
}

#[test]
fn a_slow_checkpoint_is_followed_by_the_next_and_not_joined_by_it() {
    on_all(|model, backend| async move {
        filled(&model, backend, &stage::small(), 0..40).await;
        let mut slow = Profile::default();
        slow.objects.get.latency = Latency::Constant(Duration::from_millis(500));
        model.set_profile(slow);
        // A queue of a few minutes, and a checkpoint that is due each second.
        let options = Options {
            checkpoint_after: Duration::from_secs(1),
            pool_bytes: 0,
            is_one_by_one: true,
            ..Options::default()
        };
        let cloud = stage::cloud(&model, &process(&model, "slow"), backend);
        let quick = Database::open(cloud, options).await.expect("the database");
        for value in 0..30 {
            let number = value.to_string();
            update(&quick, Level::Basic, &[0, 9, 19, 29, 39], &number).await;
            model.clock.sleep(Duration::from_secs(1)).await;
        }
        model.clock.sleep(Duration::from_secs(2_000)).await;
        assert_eq!(pending(&model, backend).await.values().sum::<u64>(), 0);
        let used = quick.meter().usage();
        let refused = used
            .counts()
            .filter(|(kind, status, _)| *kind == RequestKind::ObjectPut && *status == Some(412));
        // Puts of the queues in a bucket race, too: pages are what counts.
        let lost: u64 = refused.map(|(_, _, count)| count.requests).sum();
        assert!(backend == Backend::Bucket || lost == 0, "{lost} races");
    });
}

/// SPREAD-2.
#[test]
fn approved_records_go_to_the_queue_of_the_tree() {
    on_all(|model, backend| async move {
        let settings = CollectionSettings {
            is_curated: true,
            minimum: Level::Basic,
            ..per_leaf()
        };
        let writer = database(&model, backend, &settings).await;
        put(&writer, Level::Basic, 0..3).await;
        let review = writer.review("books", &mut |_| Verdict::Approve).await;
        assert_eq!(review.expect("a cloud without faults").approved, 3);
        settle(&writer).await;
        update(&writer, Level::Basic, &[1], "new").await;
        assert_eq!(pending(&model, backend).await["proposals"], 1);
        let review = writer.review("books", &mut |_| Verdict::Approve).await;
        assert_eq!(review.expect("a cloud without faults").approved, 1);
        assert_eq!(pending(&model, backend).await["0"], 1);
        settle(&writer).await;
        assert_eq!(all(&model, backend).await["0001"], "new");
    });
}

/// Moves the message of one queue of a leaf to a queue that no page has; the latter's name.
async fn move_to_orphan(queues: &dyn Queues, visibility: Duration) -> String {
    let names = queues.list("").await.expect("a cloud without faults");
    let how = Receive {
        max: 10,
        visibility: Some(Duration::from_secs(1)),
        wait: Duration::ZERO,
    };
    for name in names.iter().filter(|name| name.len() == 66) {
        let found = queues.receive(name, &how).await.expect("a queue");
        let [message] = &found[..] else {
            continue;
        };
        let orphan = format!("{}{}", &name[..34], "7".repeat(32));
        let settings = fader_cloud::QueueSettings {
            visibility: Duration::from_secs(30),
            retention: Duration::from_secs(14 * 24 * 60 * 60),
        };
        let created = queues.create(&orphan, &settings).await;
        created.expect("a new queue");
        let sent = queues.send(&orphan, std::slice::from_ref(&message.body));
        sent.await.expect("a queue");
        let receipts = std::slice::from_ref(&message.receipt);
        queues.remove(name, receipts).await.expect("a queue");
        if !visibility.is_zero() {
            let how = Receive {
                visibility: Some(visibility),
                ..how
            };
            let hidden = queues.receive(&orphan, &how).await;
            assert_eq!(hidden.expect("a queue").len(), 1);
        }
        return orphan;
    }
    panic!("no queue of a leaf has a message: {names:?}");
}

#[test]
fn a_queue_without_a_page_is_finished_and_then_removed() {
    on_all(|model, backend| async move {
        let writer = filled(&model, backend, &per_leaf(), 0..40).await;
        update(&writer, Level::Basic, &[9], "new").await;
        let queues = queues(&model, backend);
        let orphan = move_to_orphan(&*queues, Duration::ZERO).await;
        let report = writer.verify_with_queues("books").await;
        let report = report.expect("readable").queues;
        assert_eq!(report.orphans.len(), 1, "{report:?}");
        let done = writer.vacuum(Duration::ZERO).await;
        assert_eq!(done.expect("nothing is pending").queues, 1);
        let left = queues.list(&orphan).await.expect("a cloud without faults");
        assert_eq!(left, [""; 0]);
        assert_eq!(all(&model, backend).await["0009"], "new");
    });
}

#[test]
fn a_vacuum_waits_for_what_is_hidden_in_a_queue_without_a_page() {
    on_all(|model, backend| async move {
        let writer = filled(&model, backend, &per_leaf(), 0..40).await;
        update(&writer, Level::Basic, &[9], "new").await;
        let queues = queues(&model, backend);
        let orphan = move_to_orphan(&*queues, Duration::from_secs(600)).await;
        let done = writer.vacuum(Duration::ZERO).await;
        if backend == Backend::Bucket {
            // A peek there shows hidden messages too, so the update is finished before.
            assert_eq!(done.expect("nothing is pending").queues, 1);
            assert_eq!(all(&model, backend).await["0009"], "new");
            return;
        }
        let refused = done.expect_err("it is pending");
        assert!(
            matches!(refused.kind, ErrorKind::Unavailable { .. }),
            "{refused}"
        );
        assert!(refused.to_string().contains(&orphan), "{refused}");
    });
}

#[test]
fn a_dropped_collection_takes_the_queues_of_its_leaves() {
    on_all(|model, backend| async move {
        let writer = filled(&model, backend, &per_leaf(), 0..40).await;
        update(&writer, Level::Basic, &[9], "new").await;
        let dropped = writer.drop_collection("books").await;
        dropped.expect("a cloud without faults");
        let left = pending(&model, backend).await;
        assert_eq!(left.keys().collect::<Vec<_>>(), ["atomic"]);
    });
}
