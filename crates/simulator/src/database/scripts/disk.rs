//! A script of pages that a process left on its machine.

use std::sync::Arc;
use std::time::Duration;

use fader_cloud::Clock as _;
use fader_cloud::model::{Model, Profile};
use fader_database::{CollectionSettings, Database, DiskTier, Guards, Level, Options};

use super::super::files::Files;
use super::{COLLECTION, WORKS, open_with};
use crate::cloud::Failure;

async fn open(model: &Model, name: &str, guards: Guards, disk: Option<&DiskTier>) -> Database {
    let options = Options {
        disk: disk.cloned(),
        ..super::options(guards)
    };
    open_with(model, name, options).await
}

async fn put(database: &Database, value: &[u8]) {
    let mut transaction = database.begin(Level::Basic);
    let put = transaction.put(COLLECTION, b"k", value).await;
    put.expect("a valid record");
    transaction.commit().await.expect(WORKS);
    database.settle().await.expect(WORKS);
    database.settle().await.expect(WORKS);
}

/// A process ends and leaves a page on its machine. Another client replaces the page. The next
/// process of that machine must not take the page that was left for the newest.
pub(super) fn page_of_an_earlier_process(guards: Guards) -> Option<Failure> {
    let model = Model::new(Profile::default());
    let executor = model.executor.clone();
    let disk = DiskTier {
        files: Arc::new(Files::sound()),
        bytes_max: 1 << 20,
    };
    let found = executor.run(async {
        let first = open(&model, "first", guards, Some(&disk)).await;
        let settings = CollectionSettings::default();
        let created = first.create_collection(COLLECTION, &settings).await;
        created.expect("a new collection");
        put(&first, b"1").await;
        drop(first);
        // Stamps of one millisecond are in the order of clients.
        model.clock.sleep(Duration::from_millis(1)).await;
        put(&open(&model, "second", guards, None).await, b"2").await;
        let third = open(&model, "third", guards, Some(&disk)).await;
        let mut reader = third.begin(Level::Basic);
        let value = reader.get(COLLECTION, b"k").await.expect(WORKS);
        let is_newest = value.as_deref() == Some(b"2".as_slice());
        (!is_newest).then(|| Failure {
            guarantee: "kept",
            text: format!("the page that was left is read: {value:?}"),
        })
    });
    executor.shut_down();
    found
}
