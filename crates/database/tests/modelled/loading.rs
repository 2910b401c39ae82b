//! Bulk loads: all at once, or not at all.

use crate::stage;
use fader_cloud::ErrorKind;
use fader_cloud::model::Model;
use fader_database::{CollectionSettings, Database, IndexRange, IndexValue, Level};
use stage::{Backend, client, database, model, small};

fn run<F: Future<Output = ()> + Send + 'static>(test: fn(Model) -> F) {
    stage::run(model(1), test);
}

async fn indexed(model: &Model) -> Database {
    let writer = database(model, "writer", Backend::Bucket).await;
    let settings = CollectionSettings {
        indexes: [("n".to_owned(), "n".to_owned())].into(),
        ..small()
    };
    let created = writer.create_collection("indexed", &settings).await;
    created.expect("a new collection");
    writer
}

fn record(number: u32) -> (String, String) {
    // Some records are objects of their own.
    let size = if number.is_multiple_of(100) {
        70_000
    } else {
        3
    };
    let value = format!(
        r#"{{"n": {}, "more": "{}"}}"#,
        number % 10,
        "-".repeat(size)
    );
    (format!("{number:05}"), value)
}

/// It shows LOAD-2.
#[test]
fn a_load_is_visible_at_once_with_its_entries() {
    run(|model| async move {
        let writer = indexed(&model).await;
        let mut load = writer.load("indexed").await.expect("an empty collection");
        for number in 0..1_000 {
            let (key, value) = record(number);
            let pushed = load.push(key.as_bytes(), value.as_bytes()).await;
            pushed.expect("ascending keys");
        }
        let again = load
            .push(b"00000", b"{}")
            .await
            .expect_err("it is not ascending");
        assert_eq!(again.kind, ErrorKind::Invalid);
        let reader = client(&model, "reader", Backend::Bucket).await;
        let mut transaction = reader.begin(Level::Basic);
        let early = transaction
            .get("indexed", b"00001")
            .await
            .expect("readable");
        assert_eq!(early, None);
        assert_eq!(load.finish().await.expect("no other client writes"), 1_000);

        let reader = client(&model, "second", Backend::Bucket).await;
        let mut transaction = reader.begin(Level::Monotonic);
        let all = transaction
            .range("indexed", b"", None, usize::MAX)
            .await
            .expect("readable");
        assert_eq!(all.len(), 1_000);
        for (number, (key, value)) in (0..).zip(&all) {
            let (expected_key, expected) = record(number);
            assert_eq!(
                (&key[..], &value[..]),
                (expected_key.as_bytes(), expected.as_bytes())
            );
        }
        let range = IndexRange::Is(IndexValue::Number(3.0));
        let hits = transaction
            .lookup("indexed", "n", &range, None, usize::MAX)
            .await;
        assert_eq!(hits.expect("readable").len(), 100);
        let report = reader.verify("indexed").await.expect("readable");
        assert_eq!((report.problems, report.visible), (Vec::new(), 1_000));
        let report = reader.verify_index("indexed", "n").await.expect("readable");
        assert_eq!(
            (report.entries, report.missing.len(), report.dangling),
            (1_000, 0, 0)
        );

        // The records are as others: later writes win.
        let mut transaction = reader.begin(Level::Atomic);
        transaction
            .put("indexed", b"00003", b"{}")
            .await
            .expect("valid");
        transaction
            .delete("indexed", b"00004")
            .await
            .expect("valid");
        transaction.commit().await.expect("a cloud without faults");
        reader.settle().await.expect("a cloud without faults");
        let report = reader.verify("indexed").await.expect("readable");
        assert_eq!((report.problems, report.visible), (Vec::new(), 999));
        let full = reader.load("indexed").await.expect_err("it has records");
        assert_eq!(full.kind, ErrorKind::Precondition);
    });
}

/// It shows LOAD-1.
#[test]
fn a_load_gives_way_to_a_writer() {
    run(|model| async move {
        let writer = indexed(&model).await;
        let other = client(&model, "other", Backend::Bucket).await;
        let mut load = writer.load("indexed").await.expect("an empty collection");
        load.push(b"a", br#"{"n": 1}"#)
            .await
            .expect("ascending keys");
        let mut transaction = other.begin(Level::Basic);
        transaction
            .put("indexed", b"b", br#"{"n": 2}"#)
            .await
            .expect("valid");
        transaction.commit().await.expect("a cloud without faults");
        other.settle().await.expect("a cloud without faults");
        let refused = load.finish().await.expect_err("another wrote");
        assert_eq!(refused.kind, ErrorKind::Precondition, "{refused}");
        let reader = client(&model, "reader", Backend::Bucket).await;
        let mut transaction = reader.begin(Level::Basic);
        let all = transaction
            .range("indexed", b"", None, 10)
            .await
            .expect("readable");
        assert_eq!(all.len(), 1);
    });
}

#[test]
fn a_load_gives_way_to_a_new_index() {
    run(|model| async move {
        let writer = database(&model, "writer", Backend::Bucket).await;
        let other = client(&model, "other", Backend::Bucket).await;
        let mut load = writer.load("books").await.expect("an empty collection");
        load.push(b"a", br#"{"n": 1}"#)
            .await
            .expect("ascending keys");
        let created = other.create_index("books", "n", "n", &|_| ()).await;
        created.expect("a cloud without faults");
        let refused = load
            .finish()
            .await
            .expect_err("the index does not know its records");
        assert_eq!(refused.kind, ErrorKind::Precondition, "{refused}");
    });
}

#[test]
fn pending_records_keep_their_place_in_the_order() {
    run(|model| async move {
        let writer = database(&model, "writer", Backend::Bucket).await;
        let mut before = writer.begin(Level::Basic);
        before.put("books", b"a", b"old").await.expect("valid");
        before.commit().await.expect("a cloud without faults");
        let mut load = writer.load("books").await.expect("its pages are empty");
        load.push(b"a", b"loaded").await.expect("ascending keys");
        load.push(b"b", b"loaded").await.expect("ascending keys");
        let mut after = writer.begin(Level::Basic);
        after.put("books", b"b", b"new").await.expect("valid");
        after.commit().await.expect("a cloud without faults");
        load.finish().await.expect("no page was changed");
        writer.settle().await.expect("a cloud without faults");
        let reader = client(&model, "reader", Backend::Bucket).await;
        let mut transaction = reader.begin(Level::Basic);
        let values: Vec<_> = transaction
            .range("books", b"", None, 10)
            .await
            .expect("readable");
        let values: Vec<&[u8]> = values.iter().map(|(_, value)| &value[..]).collect();
        assert_eq!(values, [&b"loaded"[..], b"new"]);
    });
}
