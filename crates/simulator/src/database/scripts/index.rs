//! Scripts of indexes: a writer that does not know one, and a writer that is cut off in a commit.

use std::time::Duration;

use fader_cloud::Clock as _;
use fader_cloud::model::{Call, FaultRates, Latency, Model, Profile};
use fader_database::{CollectionSettings, Database, Guards, Level, Options};
use futures_util::future::join;

use super::{COLLECTION, DAY, INDEX, RECORD, WORKS, broken, open, open_with, options};
use crate::cloud::Failure;

/// Half of the collections at least have ids above that of their index.
const COLLECTIONS: u32 = 8;
const SEND: Duration = Duration::from_secs(1);

/// What is broken where a record has no entry, by a client that brings all into pages.
async fn judge(judge: &Database, collection: &str) -> Option<Failure> {
    for _ in 0..3 {
        judge.settle().await.expect(WORKS);
    }
    let report = judge.verify_index(collection, INDEX).await;
    let missing = report.expect(WORKS).missing;
    match missing.is_empty() {
        true => None,
        false => broken(format!("{collection}: no entry leads to {missing:?}")),
    }
}

async fn put(database: &Database, collection: &str) {
    let mut transaction = database.begin(Level::Basic);
    let put = transaction.put(collection, b"k", RECORD[0]).await;
    put.expect("a valid record");
    transaction.commit().await.expect(WORKS);
}

/// A writer commits while it believes an older catalogue. Its record waits in a queue, where the
/// builder of the index does not see it.
pub(super) fn writer_that_does_not_know_the_index(guards: Guards) -> Option<Failure> {
    let model = Model::new(Profile::default());
    let executor = model.executor.clone();
    let found = executor.run(async {
        let builder = open(&model, "builder", guards).await;
        let settings = CollectionSettings::default();
        let created = builder.create_collection(COLLECTION, &settings).await;
        created.expect("a new collection");
        let writer = open(&model, "writer", guards).await;
        let write = async {
            model.clock.sleep(Duration::from_secs(1)).await;
            put(&writer, COLLECTION).await;
        };
        let build = builder.create_index(COLLECTION, INDEX, INDEX, &|_| ());
        let (built, ()) = join(build, write).await;
        built.expect(WORKS);
        judge(&builder, COLLECTION).await
    });
    executor.shut_down();
    found
}

/// Sends that take a time, of which so many of a thousand are lost.
fn sends(time: Duration, lost_request: u16) -> Profile {
    let mut profile = Profile::default();
    profile.queues.send = Call {
        latency: Latency::Constant(time),
        faults: FaultRates {
            lost_request,
            ..FaultRates::default()
        },
        ..Call::default()
    };
    profile
}

/// The first of a writer's two sends is answered, then it is cut off.
pub(super) fn writer_that_is_cut_off_between_two_sends(guards: Guards) -> Option<Failure> {
    let model = Model::new(Profile::default());
    let executor = model.executor.clone();
    let found = executor.run(async {
        let first = open(&model, "first", guards).await;
        let names: Vec<String> = (0..COLLECTIONS)
            .map(|number| format!("c{number}"))
            .collect();
        for name in &names {
            let settings = CollectionSettings {
                indexes: [(INDEX.to_owned(), INDEX.to_owned())].into(),
                ..CollectionSettings::default()
            };
            let created = first.create_collection(name, &settings).await;
            created.expect("a new collection");
        }
        // Longer than any writer may not know the indexes.
        model.clock.sleep(DAY).await;
        for name in &names {
            let in_turn = Options {
                is_one_by_one: true,
                ..options(guards)
            };
            let writer = open_with(&model, "writer", in_turn).await;
            // Afterwards it has compared its clock with the store's.
            put(&writer, name).await;
            model.set_profile(sends(SEND, 0));
            let mut transaction = writer.begin(Level::Basic);
            let put = transaction.put(name, b"late", RECORD[0]).await;
            put.expect("a valid record");
            let deafen = async {
                model.clock.sleep(SEND / 2).await;
                model.set_profile(sends(SEND, 1_000));
            };
            let (committed, ()) = join(transaction.commit(), deafen).await;
            assert!(committed.is_err(), "a half was sent at most");
            model.set_profile(Profile::default());
        }
        for name in &names {
            if let Some(failure) = judge(&first, name).await {
                return Some(failure);
            }
        }
        None
    });
    executor.shut_down();
    found
}
