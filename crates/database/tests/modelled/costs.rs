//! What a client used counts for the collections that its requests were for.

use std::collections::BTreeMap;

use crate::stage;
use fader_cloud::model::Model;
use fader_database::{Database, Level};
use stage::{Backend, client, database, on_all, small};

/// Requests of the costs that are kept, by access key and collection.
async fn kept(database: &Database) -> BTreeMap<(String, String), u64> {
    let mut sums = BTreeMap::new();
    for cost in database.costs().await.expect("a cloud without faults") {
        let sum = sums.entry((cost.who, cost.collection)).or_default();
        *sum += cost.usage.requests();
    }
    sums
}

async fn put(database: &Database, level: Level, collections: &[&str]) {
    let mut transaction = database.begin(level);
    for collection in collections {
        let put = transaction.put(collection, b"key", b"{}").await;
        put.expect("a valid record");
    }
    transaction.commit().await.expect("a cloud without faults");
}

async fn two_collections(model: &Model, backend: Backend) -> Database {
    let database = database(model, "first", backend).await;
    let created = database.create_collection("customers", &small()).await;
    created.expect("a new collection");
    database
}

#[test]
fn requests_count_for_their_collections() {
    on_all(|model, backend| async move {
        let database = two_collections(&model, backend).await;
        put(&database, Level::Basic, &["books"]).await;
        put(&database, Level::Atomic, &["books", "customers"]).await;
        database.settle().await.expect("a cloud without faults");
        let created = database.create_index("books", "by", "by", &|_| ()).await;
        created.expect("a new index");
        let used = database.used();
        let of = |stage: &str, collection: Option<&str>| {
            let place = (stage.to_owned(), collection.map(str::to_owned));
            used.get(&place).map_or(0, |usage| usage.requests())
        };
        for collection in ["books", "customers"] {
            assert!(of("checkpoint", Some(collection)) >= 2, "{used:?}");
        }
        assert!(of("index", Some("books")) > 0, "{used:?}");
        assert_eq!(of("index", Some("customers")), 0, "{used:?}");
        if backend == Backend::Service {
            // One message, and one for two collections.
            assert_eq!(of("commit", Some("books")), 1, "{used:?}");
            assert_eq!(of("commit", Some("customers")), 0, "{used:?}");
            assert!(of("commit", None) >= 1, "{used:?}");
        }
        let all: u64 = used.values().map(|usage| usage.requests()).sum();
        assert_eq!(all, database.meter().usage().requests());
    });
}

#[test]
fn what_is_kept_twice_counts_once() {
    on_all(|model, backend| async move {
        let database = two_collections(&model, backend).await;
        put(&database, Level::Basic, &["books"]).await;
        database.settle().await.expect("a cloud without faults");
        let keep = async |collection| {
            let kept = database.keep_cost("alice", collection).await;
            kept.expect("a cloud without faults");
        };
        keep("books").await;
        put(&database, Level::Basic, &["customers"]).await;
        database.settle().await.expect("a cloud without faults");
        // The collection is gone, its requests stay.
        let dropped = database.drop_collection("books").await;
        dropped.expect("a cloud without faults");
        keep("customers").await;
        keep("customers").await;
        let used = database.meter().usage().requests();
        let other = client(&model, "other", backend).await;
        let kept = kept(&other).await;
        assert_eq!(kept.values().sum::<u64>(), used, "{kept:?}");
        for collection in ["books", "customers"] {
            let place = ("alice".to_owned(), collection.to_owned());
            assert!(kept[&place] > 3, "{kept:?}");
        }
    });
}
