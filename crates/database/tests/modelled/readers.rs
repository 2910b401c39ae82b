//! Readers begin checkpoints for writers that ended.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::stage;
use fader_cloud::model::Model;
use fader_cloud::{Clock, Queues};
use fader_database::{CollectionSettings, Database, Level, Options, PendingQueues};
use stage::{Backend, model, process, run};

/// The interval between a commit and its checkpoint.
const INTERVAL: Duration = Duration::from_secs(15);
/// Longer than any test.
const NEVER: Duration = Duration::from_secs(400 * 24 * 60 * 60);
/// Reads that are made, one in two intervals.
const READS: u32 = 500;

/// What decides the draws of readers.
const SEEDS: std::ops::Range<u64> = 1..5;

/// A test on both kinds of queues, with queues of leaves and without, for each seed.
fn on_all<F: Future<Output = ()> + Send + 'static>(test: fn(Model, Backend, PendingQueues) -> F) {
    for backend in Backend::ALL {
        for queues in [PendingQueues::PerCollection(1), PendingQueues::PerLeaf] {
            for seed in SEEDS {
                run(model(seed), |model| test(model, backend, queues));
            }
        }
    }
}

/// A database with a record and an update of it, whose client checkpoints the record alone.
async fn of_writer(model: &Model, backend: Backend, queues: PendingQueues) {
    let options = Options {
        checkpoint_after: NEVER,
        ..Options::default()
    };
    let cloud = stage::cloud(model, &process(model, "writer"), backend);
    let writer = Database::create(cloud, options).await;
    let writer = writer.expect("a new database");
    let settings = CollectionSettings {
        queues,
        ..stage::small()
    };
    let created = writer.create_collection("books", &settings).await;
    created.expect("a new collection");
    let mut transaction = writer.begin(Level::Basic);
    let put = transaction.put("books", b"a", b"1").await;
    put.expect("a valid record");
    transaction.commit().await.expect("a cloud without faults");
    writer.settle().await.expect("a cloud without faults");
    let mut transaction = writer.begin(Level::Basic);
    let put = transaction.update("books", b"a", b"2").await;
    put.expect("a valid record");
    transaction.commit().await.expect("a cloud without faults");
}

/// Messages in all queues of collections.
async fn pending(queues: &dyn Queues) -> u64 {
    let mut sum = 0;
    for name in queues.list("").await.expect("a cloud without faults") {
        let counts = queues.counts(&name).await.expect("a queue");
        sum += counts.total();
    }
    sum
}

/// What a client reads at last, and after how many reads nothing is pending.
async fn read(
    model: &Model,
    backend: Backend,
    has_reader_checkpoints: bool,
) -> (Option<u32>, Vec<u8>) {
    let options = Options {
        has_reader_checkpoints,
        checkpoint_after: INTERVAL,
        ..Options::default()
    };
    let cloud = stage::cloud(model, &process(model, "reader"), backend);
    let queues = cloud.queues.clone();
    let reader = Database::open(cloud, options).await;
    let reader = reader.expect("a database");
    let mut done = None;
    let mut last = Vec::new();
    for count in 1..=READS {
        let mut transaction = reader.begin(Level::Basic);
        let value = transaction.get("books", b"a").await;
        let value = value.expect("a cloud without faults");
        last = value.expect("it is there").to_vec();
        model.clock.sleep(2 * INTERVAL).await;
        if done.is_none() && pending(&*queues).await == 0 {
            done = Some(count);
        }
    }
    (done, last)
}

#[test]
fn a_reader_brings_what_a_writer_left_into_pages() {
    // One of 40 readers draws none in so many reads: their share is of the leaf's age.
    static LUCKY: AtomicU32 = AtomicU32::new(0);
    on_all(|model, backend, queues| async move {
        of_writer(&model, backend, queues).await;
        let (done, last) = read(&model, backend, true).await;
        let expected: &[u8] = if done.is_some() { b"2" } else { b"1" };
        assert_eq!(last, expected, "{backend:?}, {queues}");
        LUCKY.fetch_add(u32::from(done.is_some()), Ordering::Relaxed);
    });
    let lucky = LUCKY.load(Ordering::Relaxed);
    assert!((12..=16).contains(&lucky), "{lucky} of 16");
}

#[test]
fn without_the_option_readers_leave_all_to_writers() {
    on_all(|model, backend, queues| async move {
        of_writer(&model, backend, queues).await;
        let (done, last) = read(&model, backend, false).await;
        assert_eq!((done, &*last), (None, &b"1"[..]), "{backend:?}, {queues}");
    });
}
