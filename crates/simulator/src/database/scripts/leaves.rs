//! Scripts of collections with a queue for each leaf.

use std::sync::Arc;
use std::time::Duration;

use fader_cloud::model::{Call, FaultRates, Model, Profile, Skew};
use fader_cloud::{Clock as _, QueueSettings, Queues, Receive};
use fader_database::{CollectionSettings, Database, Guards, Level, PendingQueues};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload};

use super::{COLLECTION, WORKS, open};
use crate::cloud::Failure;

/// The id of a page that nothing leads to.
const ORPHAN: &str = "77777777777777777777777777777777";
/// Characters of a queue's name before those of its leaf's id.
const BEFORE_LEAF: usize = 34;

async fn write(database: &Database, keys: std::ops::Range<u32>, is_update: bool) {
    let mut transaction = database.begin(Level::Basic);
    for key in keys {
        let key = format!("{key:04}");
        let written = match is_update {
            true => transaction.update(COLLECTION, key.as_bytes(), b"new").await,
            false => transaction.put(COLLECTION, key.as_bytes(), b"old").await,
        };
        written.expect("a valid record");
    }
    transaction.commit().await.expect(WORKS);
}

/// A client that made a collection with small pages.
async fn first(model: &Model, guards: Guards) -> Database {
    let first = open(model, "first", guards).await;
    let settings = CollectionSettings {
        queues: PendingQueues::PerLeaf,
        leaf_bytes: 400,
        node_bytes: 400,
        ..CollectionSettings::default()
    };
    let created = first.create_collection(COLLECTION, &settings).await;
    created.expect("a new collection");
    first
}

/// What is broken unless a record has its update.
async fn judge(model: &Model, guards: Guards, key: &str) -> Option<Failure> {
    let judge = open(model, "judge", guards).await;
    for _ in 0..3 {
        judge.settle().await.expect(WORKS);
    }
    let mut reader = judge.begin(Level::Basic);
    let found = reader.get(COLLECTION, key.as_bytes()).await.expect(WORKS);
    match found.as_deref() {
        Some(b"new") => None,
        found => Some(Failure {
            guarantee: "kept",
            text: format!("{key} is {found:?} after an update that was acknowledged"),
        }),
    }
}

/// Runs a script on a cloud of its own.
fn on_model<F: Future<Output = Option<Failure>>>(
    script: impl FnOnce(Model) -> F,
) -> Option<Failure> {
    let model = Model::new(Profile::default());
    let executor = model.executor.clone();
    let found = executor.run(script(model));
    executor.shut_down();
    found
}

/// An update waits in the queue of a leaf that split. The checkpoint that sends it on cannot send.
pub(super) fn no_sends_while_forwarding(guards: Guards) -> Option<Failure> {
    on_model(async |model| {
        let first = first(&model, guards).await;
        write(&first, 0..8, false).await;
        first.settle().await.expect(WORKS);
        // It knows the tree as one page.
        let late = open(&model, "late", guards).await;
        let mut reader = late.begin(Level::Basic);
        reader.get(COLLECTION, b"0007").await.expect(WORKS);
        write(&first, 8..40, false).await;
        first.settle().await.expect(WORKS);
        model.clock.sleep(Duration::from_secs(1)).await;
        write(&late, 7..8, true).await;
        let mut deaf = Profile::default();
        deaf.queues.send = Call {
            faults: FaultRates {
                lost_request: 1_000,
                ..FaultRates::default()
            },
            ..Call::default()
        };
        model.set_profile(deaf);
        let other = open(&model, "other", guards).await;
        assert!(other.settle().await.is_err(), "it cannot send on");
        model.set_profile(Profile::default());
        judge(&model, guards, "0007").await
    })
}

/// A leaf's update is in the queue of a page that nothing leads to; the name of that queue. So it
/// is when an overwrite cut the page off. `has_page`: the page is there, a copy of the leaf.
async fn cut_off(model: &Model, database: &Database, has_page: bool) -> String {
    write(database, 0..40, false).await;
    database.settle().await.expect(WORKS);
    write(database, 7..8, true).await;
    let process = model.executor.process("hand", Skew::default());
    let cloud = model.cloud(&process);
    let queues: Arc<dyn Queues> = cloud.queues.clone();
    let how = Receive {
        max: 1,
        visibility: Some(Duration::from_secs(30)),
        wait: Duration::ZERO,
    };
    for name in queues.list("").await.expect(WORKS) {
        let Some(leaf) = name
            .get(BEFORE_LEAF..)
            .filter(|leaf| leaf.len() == ORPHAN.len())
        else {
            continue;
        };
        let received = queues.receive(&name, &how).await.expect(WORKS);
        let [message] = &received[..] else {
            continue;
        };
        let orphan = format!("{}{ORPHAN}", &name[..BEFORE_LEAF]);
        let settings = QueueSettings {
            visibility: Duration::from_secs(30),
            retention: Duration::from_secs(14 * 24 * 60 * 60),
        };
        queues.create(&orphan, &settings).await.expect(WORKS);
        let body = std::slice::from_ref(&message.body);
        queues.send(&orphan, body).await.expect(WORKS);
        let receipt = std::slice::from_ref(&message.receipt);
        queues.remove(&name, receipt).await.expect(WORKS);
        if has_page {
            let page = |id: &str| Path::from(format!("db/pages/{id}"));
            let objects: &dyn ObjectStore = &*cloud.objects;
            let copied = objects.get(&page(leaf)).await.expect(WORKS);
            let bytes = copied.bytes().await.expect(WORKS);
            let copy = page(ORPHAN);
            let put = objects.put(&copy, PutPayload::from(bytes)).await;
            put.expect(WORKS);
        }
        return orphan;
    }
    panic!("no queue of a leaf has a message");
}

/// A checkpoint finds an update in the queue of a page that nothing leads to.
pub(super) fn update_of_a_page_that_was_cut_off(guards: Guards) -> Option<Failure> {
    on_model(async |model| {
        let first = first(&model, guards).await;
        cut_off(&model, &first, true).await;
        judge(&model, guards, "0007").await
    })
}

/// Such a queue has a message that is hidden while another client vacuums.
pub(super) fn vacuum_beside_a_hidden_update(guards: Guards) -> Option<Failure> {
    on_model(async |model| {
        let first = first(&model, guards).await;
        let orphan = cut_off(&model, &first, false).await;
        let how = Receive {
            max: 1,
            visibility: Some(Duration::from_secs(600)),
            wait: Duration::ZERO,
        };
        let held = model.queues.receive(&orphan, &how).await.expect(WORKS);
        assert_eq!(held.len(), 1);
        let other = open(&model, "other", guards).await;
        // With the rule it is refused.
        drop(other.vacuum(Duration::ZERO).await);
        model.clock.sleep(Duration::from_secs(601)).await;
        judge(&model, guards, "0007").await
    })
}
