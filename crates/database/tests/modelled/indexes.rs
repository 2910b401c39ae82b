//! Secondary indexes: lookups, writers that do not know an index, and what is left behind.

use std::time::Duration;

use crate::stage;
use fader_cloud::model::Model;
use fader_cloud::{Clock, ErrorKind};
use fader_database::{
    CollectionSettings, Database, IndexRange, IndexReport, IndexValue, Level, Options,
};
use stage::{Backend, client, database, on_all, small};

fn is(text: &str) -> IndexRange {
    IndexRange::Is(IndexValue::Text(text.to_owned()))
}

fn book(author: &str) -> String {
    format!(r#"{{"author": "{author}"}}"#)
}

async fn with_index(model: &Model, backend: Backend) -> Database {
    let database = database(model, "writer", backend).await;
    let settings = CollectionSettings {
        indexes: [("author".to_owned(), "author".to_owned())].into(),
        ..small()
    };
    let created = database.create_collection("indexed", &settings).await;
    created.expect("a new collection");
    database
}

async fn put(database: &Database, collection: &str, level: Level, key: &str, author: &str) {
    let mut transaction = database.begin(level);
    let record = book(author);
    let put = transaction.put(collection, key.as_bytes(), record.as_bytes());
    put.await.expect("a valid record");
    transaction.commit().await.expect("a cloud without faults");
}

async fn find(
    database: &Database,
    collection: &str,
    level: Level,
    range: &IndexRange,
) -> Vec<String> {
    let mut transaction = database.begin(level);
    let hits = transaction.lookup(collection, "author", range, None, usize::MAX);
    let hits = hits.await.expect("a readable index").into_iter();
    hits.map(|hit| String::from_utf8_lossy(&hit.key).into_owned())
        .collect()
}

#[test]
fn a_lookup_finds_records_by_their_field_at_each_level() {
    on_all(|model, backend| async move {
        let writer = with_index(&model, backend).await;
        for (level, key) in Level::ALL.into_iter().skip(1).zip(["a", "b", "c"]) {
            put(&writer, "indexed", level, key, "Eco").await;
        }
        put(&writer, "indexed", Level::Basic, "d", "Lem").await;
        let own = find(&writer, "indexed", Level::Monotonic, &is("Eco")).await;
        assert_eq!(own, ["a", "b", "c"], "a session finds its own records");
        writer.settle().await.expect("a cloud without faults");
        let reader = client(&model, "reader", backend).await;
        assert_eq!(
            find(&reader, "indexed", Level::Basic, &is("Eco")).await,
            ["a", "b", "c"]
        );
        assert_eq!(
            find(&reader, "indexed", Level::Basic, &is("Ec")).await,
            [""; 0]
        );
        let from = IndexRange::Between(Some(IndexValue::Text("F".to_owned())), None);
        assert_eq!(find(&reader, "indexed", Level::Basic, &from).await, ["d"]);
    });
}

#[test]
fn a_transaction_finds_its_own_writes_and_not_what_it_overwrote() {
    on_all(|model, backend| async move {
        let writer = with_index(&model, backend).await;
        put(&writer, "indexed", Level::Basic, "a", "Eco").await;
        put(&writer, "indexed", Level::Basic, "b", "Eco").await;
        writer.settle().await.expect("a cloud without faults");
        let mut transaction = writer.begin(Level::Basic);
        transaction
            .put("indexed", b"a", book("Lem").as_bytes())
            .await
            .expect("valid");
        transaction
            .put("indexed", b"c", book("Eco").as_bytes())
            .await
            .expect("valid");
        let hits = transaction
            .lookup("indexed", "author", &is("Eco"), None, 10)
            .await;
        let keys: Vec<_> = hits
            .expect("readable")
            .into_iter()
            .map(|hit| hit.key)
            .collect();
        assert_eq!(keys, ["b", "c"]);
        let first = transaction
            .lookup("indexed", "author", &is("Eco"), None, 1)
            .await;
        let place = first.expect("readable").remove(0).place;
        let rest = transaction
            .lookup("indexed", "author", &is("Eco"), Some(&place), 10)
            .await;
        assert_eq!(
            rest.expect("readable").len(),
            1,
            "a lookup goes on behind a place"
        );
    });
}

/// It shows INDEX-2.
#[test]
fn a_changed_record_leaves_its_old_entry_and_a_checkpoint_removes_it() {
    on_all(|model, backend| async move {
        let writer = with_index(&model, backend).await;
        for number in 0..30 {
            put(
                &writer,
                "indexed",
                Level::Basic,
                &format!("{number:03}"),
                "Eco",
            )
            .await;
        }
        writer.settle().await.expect("a cloud without faults");
        for number in 0..10 {
            put(
                &writer,
                "indexed",
                Level::Atomic,
                &format!("{number:03}"),
                "Lem",
            )
            .await;
        }
        let mut transaction = writer.begin(Level::Basic);
        transaction
            .delete("indexed", b"010")
            .await
            .expect("a valid key");
        transaction.commit().await.expect("a cloud without faults");
        writer.settle().await.expect("a cloud without faults");
        assert_eq!(
            find(&writer, "indexed", Level::Monotonic, &is("Eco"))
                .await
                .len(),
            19
        );
        assert_eq!(
            find(&writer, "indexed", Level::Monotonic, &is("Lem"))
                .await
                .len(),
            10
        );
        let report = writer
            .verify_index("indexed", "author")
            .await
            .expect("readable");
        let expected = IndexReport {
            entries: 29,
            ..IndexReport::default()
        };
        assert_eq!(report, expected);
    });
}

/// It shows DB-12 and INDEXING-1.
#[test]
fn writers_that_do_not_know_an_index_lose_no_entry() {
    on_all(|model, backend| async move {
        let builder = database(&model, "builder", backend).await;
        for number in 0..30 {
            put(
                &builder,
                "books",
                Level::Basic,
                &format!("a{number:03}"),
                "Eco",
            )
            .await;
        }
        builder.settle().await.expect("a cloud without faults");
        // These clients read the catalogue now, and write just before they must read it again.
        let basic = client(&model, "basic", backend).await;
        let atomic = client(&model, "atomic", backend).await;
        let told = std::sync::atomic::AtomicU64::new(0);
        let tell = |count| told.store(count, std::sync::atomic::Ordering::Relaxed);
        let building = builder.create_index("books", "author", "author", &tell);
        let writing = async {
            model.clock.sleep(Duration::from_millis(4_000)).await;
            put(&basic, "books", Level::Basic, "b", "Eco").await;
            put(&atomic, "books", Level::Atomic, "c", "Eco").await;
            let mut early = builder.begin(Level::Basic);
            let early = early.lookup("books", "author", &is("Eco"), None, 1).await;
            let refused = early.expect_err("it is being built");
            assert!(
                matches!(refused.kind, ErrorKind::Unavailable { .. }),
                "{refused}"
            );
        };
        let (built, ()) = futures_util::future::join(building, writing).await;
        built.expect("a cloud without faults");
        assert!(30 <= told.load(std::sync::atomic::Ordering::Relaxed));
        for client in [&basic, &atomic, &builder] {
            client.settle().await.expect("a cloud without faults");
        }
        let reader = client(&model, "reader", backend).await;
        assert_eq!(
            find(&reader, "books", Level::Monotonic, &is("Eco"))
                .await
                .len(),
            32
        );
        let report = reader
            .verify_index("books", "author")
            .await
            .expect("readable");
        assert_eq!((report.entries, report.missing.len()), (32, 0));
        let again = builder
            .create_index("books", "author", "author", &tell)
            .await;
        assert_eq!(
            again.expect_err("it is there").kind,
            ErrorKind::Precondition
        );
    });
}

#[test]
fn a_dropped_index_is_gone_and_writers_go_on() {
    on_all(|model, backend| async move {
        let writer = with_index(&model, backend).await;
        let other = client(&model, "other", backend).await;
        put(&other, "indexed", Level::Basic, "a", "Eco").await;
        writer
            .drop_index("indexed", "author")
            .await
            .expect("a cloud without faults");
        // The other client still knows the index.
        put(&other, "indexed", Level::Atomic, "b", "Eco").await;
        other.settle().await.expect("a cloud without faults");
        let mut transaction = other.begin(Level::Basic);
        let gone = transaction
            .lookup("indexed", "author", &is("Eco"), None, 1)
            .await;
        assert_eq!(gone.expect_err("it is gone").kind, ErrorKind::NotFound);
        let record = transaction.get("indexed", b"b").await.expect("readable");
        assert!(record.is_some());
    });
}

#[test]
fn long_keys_and_values_are_refused_or_compared() {
    on_all(|model, backend| async move {
        let writer = with_index(&model, backend).await;
        let mut transaction = writer.begin(Level::Basic);
        let long = transaction.put("indexed", &[b'k'; 513], b"{}").await;
        assert_eq!(
            long.expect_err("too long for an index").kind,
            ErrorKind::Invalid
        );
        let fits = transaction
            .put("indexed", &[b'k'; 512], book("").as_bytes())
            .await;
        fits.expect("a key within the bound");
        let (one, other) = ("x".repeat(900), "x".repeat(901));
        for (key, author) in [("1", &one), ("2", &other)] {
            let record = book(author);
            let put = transaction.put("indexed", key.as_bytes(), record.as_bytes());
            put.await.expect("a valid record");
        }
        transaction.commit().await.expect("a cloud without faults");
        writer.settle().await.expect("a cloud without faults");
        assert_eq!(
            find(&writer, "indexed", Level::Basic, &is(&other)).await,
            ["2"]
        );
        assert_eq!(
            find(&writer, "indexed", Level::Basic, &is("")).await.len(),
            1
        );
    });
}

#[test]
fn a_client_that_does_not_know_a_collection_finishes_its_transactions() {
    on_all(|model, backend| async move {
        let creator = database(&model, "creator", backend).await;
        let finisher = client(&model, "finisher", backend).await;
        creator
            .create_collection("new", &small())
            .await
            .expect("a new collection");
        put(&creator, "new", Level::Atomic, "a", "Eco").await;
        // Its own commit makes it finish all that is in the ATOMIC queue.
        put(&finisher, "books", Level::Atomic, "b", "Lem").await;
        model.clock.sleep(Options::default().finish_after * 2).await;
        creator.settle().await.expect("a cloud without faults");
        finisher.settle().await.expect("a cloud without faults");
        let mut transaction = creator.begin(Level::Monotonic);
        let found = transaction.get("new", b"a").await.expect("readable");
        assert!(
            found.is_some(),
            "a collection that a client does not know is not dropped"
        );
    });
}
