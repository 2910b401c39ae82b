//! The token that is a hint: a client leaves a checkpoint to the client that has it, once.

use std::time::Duration;

use crate::stage;
use fader_cloud::model::Model;
use fader_cloud::{Clock, Queues, Receive};
use fader_database::{Database, Level, Options};
use stage::{Backend, on_all, process};

/// The interval between a commit and its checkpoint.
const INTERVAL: Duration = Duration::from_secs(15);

async fn database(model: &Model, backend: Backend, has_lock_hint: bool) -> Database {
    let options = Options {
        has_lock_hint,
        checkpoint_after: INTERVAL,
        ..Options::default()
    };
    let cloud = stage::cloud(model, &process(model, "writer"), backend);
    let database = Database::create(cloud, options).await;
    let database = database.expect("a new database");
    let created = database.create_collection("books", &stage::small()).await;
    created.expect("a new collection");
    database
}

async fn put(database: &Database, key: &str) {
    let mut transaction = database.begin(Level::Basic);
    let put = transaction.put("books", key.as_bytes(), b"1").await;
    put.expect("a valid record");
    transaction.commit().await.expect("a cloud without faults");
}

/// Messages in the queue whose name ends so; none without the queue.
async fn count(queues: &dyn Queues, end: &str) -> Option<u64> {
    let names = queues.list("").await.expect("a cloud without faults");
    let name = names.iter().find(|name| name.ends_with(end))?;
    let counts = queues.counts(name).await.expect("a queue");
    Some(counts.total())
}

#[test]
fn a_checkpoint_is_left_to_another_client_once() {
    on_all(|model, backend| async move {
        let database = database(&model, backend, true).await;
        let queues = stage::cloud(&model, &process(&model, "other"), backend).queues;
        put(&database, "a").await;
        model.clock.sleep(2 * INTERVAL).await;
        assert_eq!(count(&*queues, "-0").await, Some(0));
        assert_eq!(count(&*queues, "-hint").await, Some(1));
        // Another client has the token, and does nothing.
        let names = queues.list("").await.expect("a cloud without faults");
        let hint = names.iter().find(|name| name.ends_with("-hint"));
        let how = Receive {
            max: 1,
            visibility: Some(Duration::from_secs(3_600)),
            wait: Duration::ZERO,
        };
        let held = queues.receive(hint.expect("a queue"), &how).await;
        assert_eq!(held.expect("a queue").len(), 1);
        put(&database, "b").await;
        model.clock.sleep(INTERVAL + INTERVAL / 2).await;
        assert_eq!(count(&*queues, "-0").await, Some(1), "it waits");
        model.clock.sleep(INTERVAL).await;
        assert_eq!(count(&*queues, "-0").await, Some(0), "within two intervals");
    });
}

#[test]
fn there_is_no_token_unless_it_is_asked_for() {
    on_all(|model, backend| async move {
        let database = database(&model, backend, false).await;
        let queues = stage::cloud(&model, &process(&model, "other"), backend).queues;
        put(&database, "a").await;
        model.clock.sleep(2 * INTERVAL).await;
        assert_eq!(count(&*queues, "-0").await, Some(0));
        assert_eq!(count(&*queues, "-hint").await, None);
    });
}
