//! Fresh reads: all that was acknowledged is seen, wherever it is on its way.

use std::time::Duration;

use crate::stage;
use fader_cloud::model::Model;
use fader_cloud::{Clock, Receive};
use fader_database::{CollectionSettings, Database, IndexRange, IndexValue, Level};
use stage::{Backend, client, cloud, database, model, process, run, small};

const COUNT: usize = 45;

fn on_bucket<F: Future<Output = ()> + Send + 'static>(test: fn(Model) -> F) {
    run(model(1), test);
}

fn key(number: usize) -> Vec<u8> {
    format!("k{number:03}").into_bytes()
}

async fn put(writer: &Database, collection: &str, level: Level, number: usize, text: &str) {
    let mut transaction = writer.begin(level);
    let key = key(number);
    let put = transaction.put(collection, &key, text.as_bytes()).await;
    put.expect("a valid record");
    transaction.commit().await.expect("a cloud without faults");
}

/// How many records a new transaction of a reader sees.
async fn seen(reader: &Database, is_fresh: bool) -> usize {
    let mut transaction = reader.begin(Level::Basic);
    if is_fresh {
        let allowed = transaction.refresh("books").await;
        assert!(allowed.expect("a cloud without faults"));
    }
    let rows = transaction.range("books", b"", None, 1_000).await;
    rows.expect("a cloud without faults").len()
}

#[test]
fn a_fresh_read_sees_more_messages_than_one_receive_gives() {
    on_bucket(|model| async move {
        let writer = database(&model, "writer", Backend::Bucket).await;
        let reader = client(&model, "reader", Backend::Bucket).await;
        for number in 0..COUNT {
            let level = [Level::Basic, Level::Atomic][number % 2];
            put(&writer, "books", level, number, "text").await;
        }
        assert_eq!(seen(&reader, false).await, 0, "no page has them");
        assert_eq!(seen(&reader, true).await, COUNT);
        let mut transaction = reader.begin(Level::Basic);
        assert!(
            transaction
                .refresh("books")
                .await
                .expect("a cloud without faults")
        );
        for number in 0..COUNT {
            let found = transaction.get("books", &key(number)).await;
            let found = found.expect("a cloud without faults");
            assert_eq!(found.as_deref(), Some(&b"text"[..]), "{number}");
        }
        writer.settle().await.expect("a cloud without faults");
        model.clock.sleep(Duration::from_millis(1)).await;
        // The reader's pool is older than the pages are.
        assert_eq!(seen(&reader, true).await, COUNT);
    });
}

#[test]
fn a_fresh_read_sees_updates_and_deletions() {
    on_bucket(|model| async move {
        let writer = database(&model, "writer", Backend::Bucket).await;
        for number in 0..3 {
            put(&writer, "books", Level::Basic, number, "old").await;
        }
        writer.settle().await.expect("a cloud without faults");
        let reader = client(&model, "reader", Backend::Bucket).await;
        assert_eq!(seen(&reader, false).await, 3);
        put(&writer, "books", Level::Atomic, 1, "new").await;
        let mut deletion = writer.begin(Level::Basic);
        let deleted = deletion.delete("books", &key(2)).await;
        deleted.expect("a valid key");
        deletion.commit().await.expect("a cloud without faults");
        let mut transaction = reader.begin(Level::Basic);
        assert!(
            transaction
                .refresh("books")
                .await
                .expect("a cloud without faults")
        );
        let rows = transaction.range("books", b"", None, 10).await;
        let rows = rows.expect("a cloud without faults").into_iter();
        let values: Vec<String> = rows
            .map(|(_, value)| String::from_utf8_lossy(&value).into_owned())
            .collect();
        assert_eq!(values, ["old", "new"]);
        assert_eq!(seen(&reader, false).await, 3, "others are as before");
    });
}

#[test]
fn a_fresh_read_sees_messages_that_another_client_received() {
    on_bucket(|model| async move {
        let writer = database(&model, "writer", Backend::Bucket).await;
        for number in 0..COUNT {
            put(&writer, "books", Level::Basic, number, "text").await;
        }
        let other = cloud(&model, &process(&model, "other"), Backend::Bucket);
        let queues = other.queues.list("").await.expect("a cloud without faults");
        let how = Receive {
            max: 10,
            visibility: Some(Duration::from_secs(600)),
            wait: Duration::ZERO,
        };
        for queue in &queues {
            drop(other.queues.receive(queue, &how).await.expect("a queue"));
        }
        model.clock.sleep(Duration::from_millis(10)).await;
        let reader = client(&model, "reader", Backend::Bucket).await;
        assert_eq!(seen(&reader, true).await, COUNT);
    });
}

#[test]
fn a_fresh_lookup_finds_what_is_pending() {
    on_bucket(|model| async move {
        let writer = database(&model, "writer", Backend::Bucket).await;
        let settings = CollectionSettings {
            indexes: [("author".to_owned(), "author".to_owned())].into(),
            ..small()
        };
        let created = writer.create_collection("indexed", &settings).await;
        created.expect("a new collection");
        for number in 0..COUNT {
            let level = [Level::Basic, Level::Atomic][number % 2];
            put(&writer, "indexed", level, number, r#"{"author": "Eco"}"#).await;
        }
        let reader = client(&model, "reader", Backend::Bucket).await;
        let mut transaction = reader.begin(Level::Basic);
        assert!(
            transaction
                .refresh("indexed")
                .await
                .expect("a cloud without faults")
        );
        let is = IndexRange::Is(IndexValue::Text("Eco".to_owned()));
        let hits = transaction
            .lookup("indexed", "author", &is, None, 1_000)
            .await;
        assert_eq!(hits.expect("a cloud without faults").len(), COUNT);
    });
}

#[test]
fn queues_of_a_service_do_not_show_all_and_say_so() {
    on_bucket(|model| async move {
        let writer = database(&model, "writer", Backend::Service).await;
        put(&writer, "books", Level::Basic, 1, "text").await;
        let mut transaction = writer.begin(Level::Basic);
        let allowed = transaction.refresh("books").await;
        assert!(!allowed.expect("a cloud without faults"));
    });
}
