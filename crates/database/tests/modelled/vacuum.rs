//! A vacuum deletes what nothing leads to, and nothing else.

use std::time::Duration;

use crate::stage;
use fader_cloud::Clock;
use fader_cloud::model::Model;
use fader_database::{CollectionSettings, Database, Level};
use stage::{client, database, on_all, small};

async fn put(database: &Database, collection: &str, keys: std::ops::Range<u32>, bytes: usize) {
    let mut transaction = database.begin(Level::Basic);
    for key in keys {
        let key = format!("{key:05}");
        let record = vec![b'1'; bytes];
        let put = transaction.put(collection, key.as_bytes(), &record);
        put.await.expect("a valid record");
    }
    transaction.commit().await.expect("a cloud without faults");
    database.settle().await.expect("a cloud without faults");
}

fn objects(model: &Model, kind: &str) -> usize {
    let keys = model.object_keys().into_iter();
    keys.filter(|key| key.starts_with(&format!("db/{kind}/")))
        .count()
}

/// It shows VACUUM-2.
#[test]
fn unreachable_pages_are_deleted_once_they_are_old() {
    on_all(|model, backend| async move {
        let writer = database(&model, "writer", backend).await;
        let settings = CollectionSettings {
            indexes: [("f".to_owned(), "f".to_owned())].into(),
            ..small()
        };
        let created = writer.create_collection("second", &settings).await;
        created.expect("a new collection");
        put(&writer, "books", 0..100, 10).await;
        put(&writer, "books", 100..103, 70_000).await;
        put(&writer, "books", 100..102, 70_001).await;
        put(&writer, "second", 0..30, 10).await;
        writer
            .drop_index("second", "f")
            .await
            .expect("a cloud without faults");
        assert_eq!(objects(&model, "values"), 5);
        let pages = objects(&model, "pages");

        let young = writer
            .vacuum(Duration::from_secs(3_600))
            .await
            .expect("nothing is pending");
        assert_eq!(young.objects, 0);
        assert!(young.young >= 3, "{young:?}");
        model.clock.sleep(Duration::from_secs(7_200)).await;
        let done = writer
            .vacuum(Duration::from_secs(3_600))
            .await
            .expect("nothing is pending");
        assert_eq!(done.objects, young.young);
        assert_eq!(objects(&model, "values"), 3);
        assert!(objects(&model, "pages") < pages, "the pages of the index");
        let again = writer
            .vacuum(Duration::ZERO)
            .await
            .expect("nothing is pending");
        assert_eq!((again.objects, again.queues), (0, 0));

        let reader = client(&model, "reader", backend).await;
        let mut transaction = reader.begin(Level::Basic);
        let all = transaction
            .range("books", b"", None, usize::MAX)
            .await
            .expect("readable");
        assert_eq!(all.len(), 103);
        assert_eq!(all[100].1.len(), 70_001);
        assert_eq!(
            reader.verify("second").await.expect("readable").problems,
            []
        );
    });
}

/// It shows VACUUM-1.
#[test]
fn a_vacuum_settles_first_and_keeps_what_was_pending() {
    on_all(|model, backend| async move {
        let writer = database(&model, "writer", backend).await;
        let mut transaction = writer.begin(Level::Atomic);
        transaction
            .put("books", b"k", &vec![b'1'; 70_000])
            .await
            .expect("valid");
        transaction.commit().await.expect("a cloud without faults");
        let done = writer
            .vacuum(Duration::ZERO)
            .await
            .expect("it settles first");
        assert_eq!(done.objects, 0);
        let mut transaction = writer.begin(Level::Monotonic);
        let found = transaction.get("books", b"k").await.expect("readable");
        assert_eq!(found.map(|value| value.len()), Some(70_000));
    });
}
