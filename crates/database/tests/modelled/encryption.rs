//! Encrypted collections: the store sees no record, and clients need the key.

use crate::stage;
use fader_cloud::model::Model;
use fader_cloud::{Entropy, ErrorKind};
use fader_database::{
    CollectionSettings, Database, Identity, IndexRange, IndexValue, Level, Options,
};
use futures_util::TryStreamExt;
use stage::{Backend, cloud, database, on_all, process, small};

const SECRET: &str = "xyzzy";

fn identity(model: &Model, name: &str) -> Identity {
    let process = process(model, name);
    let entropy: &dyn Entropy = &*model.cloud(&process).runtime.entropy;
    Identity::new(entropy)
}

async fn open(model: &Model, backend: Backend, identity: Option<&Identity>) -> Database {
    let cloud = cloud(model, &process(model, "client"), backend);
    let options = Options {
        identity: identity.cloned(),
        ..Options::default()
    };
    Database::open(cloud, options).await.expect("the database")
}

/// A client with an encrypted collection that has an index.
async fn owner(model: &Model, backend: Backend, identity: &Identity) -> Database {
    drop(database(model, "creator", backend).await);
    let owner = open(model, backend, Some(identity)).await;
    let settings = CollectionSettings {
        is_encrypted: true,
        indexes: [("word".to_owned(), "word".to_owned())].into(),
        ..small()
    };
    let created = owner.create_collection("secrets", &settings).await;
    created.expect("a new collection");
    owner
}

async fn put(database: &Database, level: Level, keys: std::ops::Range<u32>) {
    let mut transaction = database.begin(level);
    for key in keys {
        // Some records are objects of their own.
        let size = if key.is_multiple_of(10) { 70_000 } else { 5 };
        let record = format!(r#"{{"word": "{SECRET}", "more": "{}"}}"#, "-".repeat(size));
        let key = format!("{SECRET}{key:03}");
        let put = transaction.put("secrets", key.as_bytes(), record.as_bytes());
        put.await.expect("a valid record");
    }
    transaction.commit().await.expect("a cloud without faults");
}

async fn count(database: &Database) -> fader_cloud::Result<usize> {
    let mut transaction = database.begin(Level::Basic);
    let all = transaction.range("secrets", b"", None, usize::MAX).await?;
    let range = IndexRange::Is(IndexValue::Text(SECRET.to_owned()));
    let hits = transaction
        .lookup("secrets", "word", &range, None, usize::MAX)
        .await?;
    assert_eq!(hits.len(), all.len());
    Ok(all.len())
}

/// Whether any object has the bytes, in clear or in base64 at any offset.
async fn is_anywhere(model: &Model, text: &str) -> bool {
    let objects = model.cloud(&process(model, "thief")).objects;
    let all: Vec<_> = objects.list(None).try_collect().await.expect("a list");
    let mut is_found = false;
    for meta in all {
        let found = objects
            .get_opts(&meta.location, object_store::GetOptions::default())
            .await;
        let bytes = found
            .expect("it is listed")
            .bytes()
            .await
            .expect("its bytes");
        is_found |= bytes
            .windows(text.len())
            .any(|part| part == text.as_bytes());
    }
    is_found
}

/// It shows SEAL-1.
#[test]
fn the_store_sees_no_record_and_a_client_without_the_key_gets_none() {
    on_all(|model, backend| async move {
        let own = identity(&model, "own");
        let owner = owner(&model, backend, &own).await;
        put(&owner, Level::Basic, 0..30).await;
        put(&owner, Level::Atomic, 30..60).await;
        assert!(!is_anywhere(&model, SECRET).await, "in messages");
        owner.settle().await.expect("a cloud without faults");
        put(&owner, Level::Naive, 60..61).await;
        assert_eq!(count(&owner).await.expect("the key"), 61);
        assert!(!is_anywhere(&model, SECRET).await, "in pages");
        let other = identity(&model, "other");
        for stranger in [None, Some(&other)] {
            let stranger = open(&model, backend, stranger).await;
            let refused = count(&stranger).await.expect_err("no key");
            assert_eq!(refused.kind, ErrorKind::Denied, "{refused}");
            let mut transaction = stranger.begin(Level::Basic);
            transaction
                .put("secrets", b"k", b"v")
                .await
                .expect("nothing is sent yet");
            let refused = transaction.commit().await.expect_err("no key");
            assert_eq!(refused.kind, ErrorKind::Denied, "{refused}");
        }
    });
}

#[test]
fn a_client_without_the_key_finishes_transactions_of_others() {
    on_all(|model, backend| async move {
        let own = identity(&model, "own");
        let owner = owner(&model, backend, &own).await;
        put(&owner, Level::Atomic, 1..9).await;
        let stranger = open(&model, backend, None).await;
        stranger
            .settle()
            .await
            .expect("it leaves what it cannot read");
        owner.settle().await.expect("a cloud without faults");
        assert_eq!(count(&owner).await.expect("the key"), 8);
    });
}

#[test]
fn a_grant_lets_another_read_and_a_rotation_takes_what_is_new() {
    on_all(|model, backend| async move {
        let (own, other) = (identity(&model, "own"), identity(&model, "other"));
        let owner = owner(&model, backend, &own).await;
        put(&owner, Level::Basic, 0..30).await;
        owner.settle().await.expect("a cloud without faults");
        owner
            .grant("secrets", other.public())
            .await
            .expect("the owner has the key");
        let reader = open(&model, backend, Some(&other)).await;
        assert_eq!(count(&reader).await.expect("granted"), 30);
        put(&reader, Level::Basic, 30..40).await;
        reader.settle().await.expect("a cloud without faults");

        owner
            .rotate_key("secrets", Some(other.public()))
            .await
            .expect("the owner has the key");
        put(&owner, Level::Basic, 40..50).await;
        owner.settle().await.expect("a cloud without faults");
        let resealed = owner
            .reseal("secrets")
            .await
            .expect("the owner has the key");
        assert!(resealed > 0, "pages that no checkpoint wrote");
        assert_eq!(owner.reseal("secrets").await.expect("nothing is left"), 0);
        let reader = open(&model, backend, Some(&other)).await;
        let refused = count(&reader).await.expect_err("left out");
        assert_eq!(refused.kind, ErrorKind::Denied, "{refused}");
        let owner = open(&model, backend, Some(&own)).await;
        assert_eq!(count(&owner).await.expect("the key"), 50);
        assert_eq!(owner.verify("secrets").await.expect("the key").problems, []);
    });
}

/// It shows VACUUM-3.
#[test]
fn a_vacuum_without_the_key_deletes_nothing() {
    on_all(|model, backend| async move {
        let own = identity(&model, "own");
        let owner = owner(&model, backend, &own).await;
        put(&owner, Level::Basic, 0..30).await;
        owner.settle().await.expect("a cloud without faults");
        let before = model.object_keys();
        let stranger = open(&model, backend, None).await;
        let refused = stranger.vacuum(std::time::Duration::ZERO).await;
        let refused = refused.expect_err("its key is missing");
        assert_eq!(refused.kind, ErrorKind::Denied, "{refused}");
        let after = model.object_keys();
        let is_gone = |key: &&String| !after.contains(*key);
        let is_kept = |key: &&String| key.contains("/pages/") || key.contains("/values/");
        assert_eq!(before.iter().filter(is_kept).find(is_gone), None);
    });
}
