//! Objects that are damaged, newer or foreign: errors name them, and nothing is deleted.

#![allow(clippy::unwrap_used, reason = "a test may fail here")]

use std::time::Duration;

use crate::stage;
use fader_cloud::{Domains, Error, ErrorKind, Queues, ReadConsistency};
use stage::Stage;
use stage::domains::{item, put};
use stage::queues::{now, send, texts};

/// What is wrong with an object: what the error says, and the bytes.
type Damage = (&'static str, fn(&[u8]) -> Vec<u8>);

const DAMAGES: [Damage; 5] = [
    ("is damaged", |whole| {
        let mut bytes = whole.to_vec();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        bytes
    }),
    ("is damaged", |whole| whole[..whole.len() - 1].to_vec()),
    ("is damaged: it is cut short", |whole| whole[..9].to_vec()),
    ("has format 200: this Fader reads 1", |whole| {
        let mut bytes = whole.to_vec();
        bytes[6] = 200;
        bytes
    }),
    ("is not Fader's", |_| b"mine".to_vec()),
];

/// The kinds of objects by a part of their keys; the newest of each is damaged.
const OBJECTS: [&str; 6] = [
    "p/queues/",
    "1-segment",
    "0-state",
    "p/domains/",
    "p/logs/",
    "p/snapshots/",
];

/// A bucket with an object of each kind.
async fn furnish(stage: &Stage) {
    let queues = stage::queues::start(stage).await;
    send(&queues, 3).await;
    queues.receive("q", &now(1, 3600)).await.unwrap();
    let domains = stage::domains::start(stage).await;
    for number in 0..258 {
        let value = number.to_string();
        put(&domains, "i", "a", &value).await.unwrap();
    }
    stage.sleep(Duration::from_secs(60)).await;
}

/// Asks all there is to ask, as a new process; what failed.
async fn ask(stage: &Stage) -> Vec<Error> {
    let queues = stage::queues::new(stage, "queues");
    let domains = stage::domains::new(stage, "domains");
    let select = "select * from dom";
    let strong = ReadConsistency::Strong;
    let outcomes = [
        queues.receive("q", &now(10, 1)).await.map(drop),
        queues.receive("q", &now(10, 0)).await.map(drop),
        queues.send("q", &texts(1)).await.map(drop),
        queues.counts("q").await.map(drop),
        queues.list("").await.map(drop),
        queues.report().await.map(drop),
        queues.sweep(true).await.map(drop),
        queues.sweep(false).await.map(drop),
        domains.get("dom", "i", &[], strong).await.map(drop),
        domains.select(select, None, strong).await.map(drop),
        domains.metadata("dom").await.map(drop),
        domains.put("dom", &item("j", "a", "1"), None).await,
        domains.list().await.map(drop),
        domains.report().await.map(drop),
        domains.sweep(true).await.map(drop),
        domains.sweep(false).await.map(drop),
    ];
    outcomes.into_iter().filter_map(Result::err).collect()
}

/// Sees that errors name an object and say `what`, and that all that was there is there still.
async fn is_named(stage: &Stage, key: &str, what: &str) {
    let (bytes, before) = (stage.bytes(key), stage.keys());
    let errors = ask(stage).await;
    assert!(!errors.is_empty(), "{key} {what}: nothing failed");
    for error in errors {
        assert_eq!(error.kind, ErrorKind::Malformed, "{error}");
        let is_said = error.context.contains(key) && error.context.contains(what);
        assert!(is_said, "{key} {what}: {}", error.context);
    }
    assert_eq!(stage.bytes(key), bytes, "{key} was written");
    let after = stage.keys();
    let gone = before.iter().find(|key| !after.contains(key));
    assert_eq!(gone, None, "deleted, while {key} {what}");
}

#[test]
fn a_damaged_object_is_named_and_nothing_is_deleted() {
    let stage = Stage::new(1);
    stage.run(async {
        furnish(&stage).await;
        for part in OBJECTS {
            let key = stage.keys_with(part).pop().unwrap();
            let whole = stage.bytes(&key).unwrap();
            for (what, damage) in DAMAGES {
                stage.set(&key, damage(&whole));
                is_named(&stage, &key, what).await;
                stage.set(&key, whole.clone());
            }
        }
        let errors = ask(&stage).await;
        assert!(errors.is_empty(), "{errors:?}");
    });
}

#[test]
fn a_foreign_object_is_named_and_nothing_is_deleted() {
    let stage = Stage::new(1);
    stage.run(async {
        furnish(&stage).await;
        let folder = |part: &str| {
            let key = stage.keys_with(part).pop().unwrap();
            key.rsplit_once('/').unwrap().0.to_owned()
        };
        let folders = OBJECTS.map(folder);
        let below = ["p/messages/q", "p/logs/dom", "p/snapshots/dom"];
        let folders = folders.iter().map(String::as_str).chain(below);
        for folder in folders {
            let key = format!("{folder}/notes.txt");
            stage.set(&key, "mine");
            is_named(&stage, &key, "is not Fader's").await;
            stage.unset(&key);
        }
    });
}
