//! A database on a store that keeps no conditions of PUTs: a token and its time stand for them.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::stage;
use fader_cloud::model::{Conditions, Latency, Model, Profile};
use fader_cloud::{Clock, ErrorKind, Receive};
use fader_database::{Database, Fencing, Level, Options};
use stage::{Backend, process, run};

/// A test on stores that ignore conditions, and on those that refuse them.
fn on_all<F: Future<Output = ()> + Send + 'static>(test: fn(Model) -> F) {
    for conditions in [Conditions::Ignored, Conditions::Refused] {
        run(Model::new(profile(conditions)), test);
    }
}

fn profile(conditions: Conditions) -> Profile {
    let mut profile = Profile::default();
    profile.objects.conditions = conditions;
    profile
}

/// A client that works only when it is told to.
fn patient() -> Options {
    Options {
        checkpoint_after: Duration::from_secs(24 * 60 * 60),
        finish_after: Duration::from_secs(24 * 60 * 60),
        ..Options::default()
    }
}

async fn database(model: &Model) -> Database {
    let cloud = stage::cloud(model, &process(model, "first"), Backend::Service);
    let database = Database::create(cloud, patient()).await;
    let database = database.expect("a new database");
    let created = database.create_collection("books", &stage::small()).await;
    created.expect("a new collection");
    database
}

async fn open(model: &Model, name: &str) -> Database {
    let cloud = stage::cloud(model, &process(model, name), Backend::Service);
    Database::open(cloud, patient())
        .await
        .expect("the database")
}

async fn put(database: &Database, level: Level, keys: std::ops::Range<u32>, bytes: usize) {
    let mut transaction = database.begin(level);
    for key in keys {
        let key = format!("{key:04}");
        let value = vec![b'1'; bytes];
        let put = transaction.put("books", key.as_bytes(), &value).await;
        put.expect("a valid record");
    }
    transaction.commit().await.expect("a cloud without faults");
}

async fn all(model: &Model) -> BTreeMap<String, usize> {
    let reader = open(model, "reader").await;
    let mut transaction = reader.begin(Level::Basic);
    let all = transaction.range("books", b"", None, usize::MAX).await;
    let all = all.expect("a readable tree").into_iter();
    let text = |bytes: bytes::Bytes| String::from_utf8(bytes.to_vec()).expect("text");
    all.map(|(key, value)| (text(key), value.len())).collect()
}

#[test]
fn a_store_without_conditions_is_found_and_said() {
    on_all(|model| async move {
        assert_eq!(database(&model).await.fencing(), Fencing::Timed);
        assert_eq!(open(&model, "other").await.fencing(), Fencing::Timed);
    });
    let model = stage::model(1);
    let executor = model.executor.clone();
    executor.run(async {
        assert_eq!(database(&model).await.fencing(), Fencing::Conditional);
        assert_eq!(open(&model, "other").await.fencing(), Fencing::Conditional);
    });
    executor.shut_down();
}

#[test]
fn two_clients_at_once_lose_nothing() {
    on_all(|model| async move {
        let first = database(&model).await;
        let second = open(&model, "second").await;
        let mut slow = profile(Conditions::Ignored);
        slow.objects.get.latency = Latency::Constant(Duration::from_millis(70));
        slow.objects.put.latency = Latency::Constant(Duration::from_millis(110));
        model.set_profile(slow);
        for round in 0..10 {
            let from = round * 20;
            put(&first, Level::Basic, from..from + 10, 10).await;
            put(&second, Level::Atomic, from + 10..from + 20, 10).await;
            let (one, other) = futures_util::join!(first.settle(), second.settle());
            one.expect("a cloud without faults");
            other.expect("a cloud without faults");
        }
        first.settle().await.expect("a cloud without faults");
        assert_eq!(all(&model).await.len(), 200);
        let report = first.verify("books").await.expect("readable");
        assert_eq!(report.problems, []);
    });
}

#[test]
fn collections_claims_and_vacuums_work() {
    on_all(|model| async move {
        let first = database(&model).await;
        // Over a message's bound: a claim object, created by its name.
        put(&first, Level::Atomic, 0..6, 50_000).await;
        let second = open(&model, "second").await;
        let created = second.create_collection("more", &stage::small()).await;
        created.expect("a new collection");
        let again = first.create_collection("more", &stage::small()).await;
        assert_eq!(again.expect_err("taken").kind, ErrorKind::Precondition);
        second.settle().await.expect("a cloud without faults");
        let vacuumed = second.vacuum(Duration::ZERO).await;
        vacuumed.expect("nothing is pending");
        assert_eq!(all(&model).await.values().sum::<usize>(), 300_000);
    });
}

/// Receives the token, as a client does that never shows it again.
async fn take_token(model: &Model, time: Duration) -> Option<fader_cloud::Receipt> {
    let how = Receive {
        max: 1,
        visibility: Some(time),
        wait: Duration::ZERO,
    };
    let cloud = stage::cloud(model, &process(model, "hand"), Backend::Service);
    let names = cloud.queues.list("").await.expect("a cloud without faults");
    let lock = names.iter().find(|name| name.ends_with("-lock"));
    let lock = lock.expect("a LOCK queue");
    let received = cloud.queues.receive(lock, &how).await.expect("a queue");
    let receipt = received.into_iter().next()?.receipt;
    if time.is_zero() {
        let receipts = std::slice::from_ref(&receipt);
        cloud.queues.remove(lock, receipts).await.expect("a queue");
    }
    Some(receipt)
}

#[test]
fn the_token_of_a_client_that_ended_shows_again() {
    on_all(|model| async move {
        let first = database(&model).await;
        put(&first, Level::Basic, 0..3, 10).await;
        let taken = take_token(&model, Duration::from_secs(30)).await;
        assert!(taken.is_some());
        let begun = model.clock.monotonic();
        first.settle().await.expect("it waits for the token");
        let waited = model.clock.monotonic() - begun;
        assert!(Duration::from_secs(29) < waited, "{waited:?}");
        assert_eq!(all(&model).await.len(), 3);
        // It was shown again at once.
        let taken = take_token(&model, Duration::from_secs(1)).await;
        assert!(taken.is_some());
    });
}

#[test]
fn a_lost_token_is_named_and_a_vacuum_makes_a_new_one() {
    on_all(|model| async move {
        let first = database(&model).await;
        put(&first, Level::Basic, 0..3, 10).await;
        assert!(take_token(&model, Duration::ZERO).await.is_some());
        let stuck = first.settle().await.expect_err("there is no token");
        assert!(
            matches!(stuck.kind, ErrorKind::Unavailable { .. }),
            "{stuck}"
        );
        let vacuumed = first.vacuum(Duration::ZERO).await;
        vacuumed.expect("nothing else is wrong");
        assert_eq!(all(&model).await.len(), 3);
    });
}

#[test]
fn a_token_is_replaced_before_its_queue_forgets_it() {
    on_all(|model| async move {
        let first = database(&model).await;
        for day in 0..20 {
            put(&first, Level::Basic, day..day + 1, 10).await;
            first.settle().await.expect("a cloud without faults");
            model.clock.sleep(Duration::from_secs(24 * 60 * 60)).await;
        }
        assert_eq!(all(&model).await.len(), 20);
    });
}

/// Outside the assumption: the reason why `open` says that the database is timed.
#[test]
fn a_put_that_is_later_than_the_margin_loses_writes() {
    on_all(|model| async move {
        let first = database(&model).await;
        put(&first, Level::Basic, 0..1, 10).await;
        let second = open(&model, "second").await;
        put(&second, Level::Basic, 1..2, 10).await;
        let mut late = profile(Conditions::Ignored);
        late.objects.put.faults.late = 1_000;
        late.objects.put.late_max = Duration::from_secs(10_000);
        model.set_profile(late);
        drop(first.settle().await);
        model.set_profile(profile(Conditions::Ignored));
        second.settle().await.expect("a cloud without faults");
        put(&second, Level::Basic, 2..3, 10).await;
        second.settle().await.expect("a cloud without faults");
        assert_eq!(all(&model).await.len(), 3);
        model.clock.sleep(Duration::from_secs(20_000)).await;
        assert!(all(&model).await.len() < 3, "the late put did not land");
    });
}
