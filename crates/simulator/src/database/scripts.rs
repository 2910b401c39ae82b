//! Runs that are told step by step, each for a rule whose absence few seeds notice.

mod disk;
mod index;
mod leaves;
mod token;

use std::time::Duration;

use fader_cloud::model::{Model, Profile, Skew};
use fader_cloud::{Clock as _, Queues as _, Receive};
use fader_database::{CollectionSettings, Database, Guard, Guards, Level, Options};

use crate::cloud::Failure;

/// A script: what it finds broken under these rules.
type Script = fn(Guards) -> Option<Failure>;

/// The scripts, each with the rule that it needs.
pub(super) const SCRIPTS: [(Guard, Script); 8] = [
    (
        Guard::EntriesForUnaware,
        index::writer_that_does_not_know_the_index,
    ),
    (
        Guard::EntriesFirst,
        index::writer_that_is_cut_off_between_two_sends,
    ),
    (Guard::EntriesOfHidden, updates_before_insert),
    (Guard::ForwardFirst, leaves::no_sends_while_forwarding),
    (Guard::LeafOfTree, leaves::update_of_a_page_that_was_cut_off),
    (
        Guard::LeafQueuesCount,
        leaves::vacuum_beside_a_hidden_update,
    ),
    (
        Guard::TokenInTime,
        token::comparison_beyond_the_time_of_the_token,
    ),
    (Guard::ConfirmKept, disk::page_of_an_earlier_process),
];

const COLLECTION: &str = "books";
const WORKS: &str = "a cloud without faults";
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const INDEX: &str = "author";
const RECORD: [&[u8]; 2] = [
    br#"{"author": "Eco", "copies": 1}"#,
    br#"{"author": "Eco", "copies": 2}"#,
];

fn broken(text: String) -> Option<Failure> {
    Some(Failure {
        guarantee: "index",
        text,
    })
}

/// Options under which nothing happens but what a script says.
fn options(guards: Guards) -> Options {
    Options {
        guards,
        finish_after: DAY,
        checkpoint_after: DAY,
        ..Options::default()
    }
}

async fn open(model: &Model, name: &str, guards: Guards) -> Database {
    open_with(model, name, options(guards)).await
}

async fn open_with(model: &Model, name: &str, options: Options) -> Database {
    let cloud = model.cloud(&model.executor.process(name, Skew::default()));
    match Database::create(cloud.clone(), options.clone()).await {
        Ok(database) => database,
        Err(_) => Database::open(cloud, options).await.expect(WORKS),
    }
}

/// An Atomic insert is still on its way while two updates of its key reach the page one after the
/// other. Neither may take the entry away that makes the record be found when the insert arrives.
fn updates_before_insert(guards: Guards) -> Option<Failure> {
    let model = Model::new(Profile::default());
    let executor = model.executor.clone();
    let found = executor.run(async {
        let first = open(&model, "first", guards).await;
        let settings = CollectionSettings {
            indexes: [(INDEX.to_owned(), INDEX.to_owned())].into(),
            ..CollectionSettings::default()
        };
        let created = first.create_collection(COLLECTION, &settings).await;
        created.expect("a new collection");
        let mut insert = first.begin(Level::Atomic);
        let put = insert.put(COLLECTION, b"k", RECORD[0]).await;
        put.expect("a valid record");
        insert.commit().await.expect(WORKS);
        // Another client received it, and sleeps.
        let queues = model.queues.list("").await.expect(WORKS);
        let atomic = queues.iter().find(|queue| queue.ends_with("-atomic"));
        let how = Receive {
            max: 1,
            visibility: Some(Duration::from_secs(600)),
            wait: Duration::ZERO,
        };
        let held = model.queues.receive(atomic.expect("a queue"), &how).await;
        assert_eq!(held.expect(WORKS).len(), 1);
        let second = open(&model, "second", guards).await;
        for record in RECORD {
            let mut update = second.begin(Level::Basic);
            let put = update.update(COLLECTION, b"k", record).await;
            put.expect("a valid record");
            update.commit().await.expect(WORKS);
            second.settle().await.expect(WORKS);
            second.settle().await.expect(WORKS);
        }
        model.clock.sleep(Duration::from_secs(601)).await;
        second.settle().await.expect(WORKS);
        second.settle().await.expect(WORKS);
        let third = open(&model, "third", guards).await;
        let mut reader = third.begin(Level::Basic);
        let value = reader.get(COLLECTION, b"k").await;
        let value = value.expect(WORKS);
        if value.as_deref() != Some(RECORD[1]) {
            return broken(format!("the record is {value:?}"));
        }
        let report = third.verify_index(COLLECTION, INDEX).await;
        let report = report.expect(WORKS);
        match report.missing.is_empty() {
            true => None,
            false => broken(format!("no entry leads to {:?}", report.missing)),
        }
    });
    executor.shut_down();
    found
}
