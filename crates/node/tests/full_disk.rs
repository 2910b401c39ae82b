//! A disk that has only its reserve left, filled with objects that lie in the index of a bucket.
//! They are refused, deletions are taken, and objects again once there is room.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "buckets/mod.rs"]
mod asked;
mod support;

use std::sync::Arc;
use std::time::Duration;

use asked::*;
use fader_node::disk::Disk;
use fader_node::{BlockOptions, Health, Node, Settings};
use fader_services::Reason;
use fader_services::s3::command::{
    Command, CreateBucket, CreateUpload, OneUpload, PutObjectTags, PutPart,
};
use fader_services::s3::rows::{Attempt, Content, Metadata};
use fader_services::s3::{Code, Error};
use support::{MemoryEngine, SimulatedDisk};

const RESERVE: usize = 4 << 20;
const OBJECT: usize = 8 << 10;
/// What a test waits for at most.
const PATIENCE: Duration = Duration::from_secs(120);

struct Machine {
    disk: SimulatedDisk,
    engine: Arc<MemoryEngine>,
    node: Node,
}

impl Machine {
    /// One whose disk has twice its reserve.
    fn new() -> Self {
        let disk = SimulatedDisk::new();
        let engine = Arc::new(MemoryEngine::new(disk.clone()));
        let settings = Settings {
            segment_bytes: 64 << 10,
            blocks: BlockOptions {
                reserve_bytes: RESERVE as u64,
                ..BlockOptions::default()
            },
            ..Settings::new("/data".into())
        };
        let of_node: Arc<dyn Disk> = Arc::new(disk.clone());
        let (node, _) = Node::open_with(settings, &of_node, engine.clone()).unwrap();
        disk.set_bytes_free(Some(2 * RESERVE));
        Machine { disk, engine, node }
    }

    fn free(&self) -> u64 {
        self.disk.bytes_free("/data".as_ref()).unwrap()
    }

    async fn put(&self, key: &str) -> Result<(), Error> {
        match put(&self.node, key, &bytes_of(1, OBJECT)).await {
            Ok(_) => Ok(()),
            Err(NotPut::Command(error)) => Err(error),
            Err(NotPut::Body(trouble)) => panic!("{trouble:?}"),
        }
    }

    /// Puts objects until one is refused; how many there are.
    async fn fill(&self) -> u32 {
        for number in 0.. {
            if let Err(error) = self.put(&key(number)).await {
                assert_refused(&error);
                return number;
            }
        }
        unreachable!("a disk has an end")
    }

    async fn until(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let waiting = async {
            while !is_so(self) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let waited = tokio::time::timeout(PATIENCE, waiting).await;
        assert!(waited.is_ok(), "{what}");
    }
}

fn key(number: u32) -> String {
    format!("k{number}")
}

fn assert_refused(error: &Error) {
    let found = (error.code, error.code.status(), error.reason);
    let refused = (Code::ServiceUnavailable, 503, Some(Reason::BlocksFull));
    assert_eq!(found, refused, "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn small_objects_leave_the_reserve_to_deletions() {
    let machine = Machine::new();
    let node = &machine.node;
    create(node).await.unwrap();
    let count = machine.fill().await;
    assert!(100 < count);
    // One turn of the chain's thread is decided on what was free before.
    assert!(RESERVE as u64 / 4 * 3 < machine.free());
    assert_eq!(node.health(), Health::Serving);
    assert!(get(node, "k0").await.unwrap() == bytes_of(1, OBJECT));
    for number in 0..count {
        delete(node, &key(number)).await.unwrap();
    }
    assert!(keys(node).await.is_empty());
    assert_refused(&machine.put("k").await.unwrap_err());
    machine.disk.set_bytes_free(Some(2 * RESERVE));
    machine.put("k").await.unwrap();
    delete(node, "k").await.unwrap();
    delete_bucket(node).await.unwrap();
    node.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_that_adds_bytes_of_objects_is_refused_and_uploads_are_given_up() {
    let machine = Machine::new();
    let node = &machine.node;
    create(node).await.unwrap();
    create_mixed(node, "mixed").await;
    let of = upload(node, "upload").await.unwrap();
    let stored = store_in(node, "mixed", None, &bytes_of(1, OBJECT)).await;
    machine.fill().await;
    let eventual = name_eventually(node, "mixed", "k", stored.unwrap(), 1).await;
    assert_refused(&eventual.unwrap_err());
    let tags = |tags: &[(&str, &str)]| {
        let tags = tags.iter();
        let tags = tags.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Command::PutObjectTags(PutObjectTags {
            bucket: B.to_owned(),
            key: key(0),
            version: None,
            tags: tags.collect(),
        })
    };
    for adds in [
        Command::CreateBucket(CreateBucket {
            bucket: "other".to_owned(),
            ..CreateBucket::default()
        }),
        Command::CreateUpload(CreateUpload {
            bucket: B.to_owned(),
            key: "k".to_owned(),
            metadata: Metadata::default(),
            acl: None,
            algorithm: None,
        }),
        Command::PutPart(part_of(&of)),
        tags(&[("name", "value")]),
    ] {
        assert_refused(&ask(node, adds).await.unwrap_err());
    }
    ask(node, tags(&[])).await.unwrap();
    ask(node, Command::AbortUpload(of)).await.unwrap();
    assert!(uploads(node).await.is_empty());
    node.close().await;
}

fn part_of(of: &OneUpload) -> PutPart {
    PutPart {
        of: of.clone(),
        number: 1,
        attempt: Attempt::default(),
        content: Content::Inline(bytes_of(1, OBJECT)),
        etag: "0123456789abcdef0123456789abcdef".to_owned(),
        checksum: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_engine_reclaims_while_only_the_reserve_is_left() {
    let machine = Machine::new();
    create(&machine.node).await.unwrap();
    assert_eq!(machine.engine.little_room(), None);
    machine.fill().await;
    let is_little = |it: &Machine| {
        let free = it.engine.little_room();
        free.is_some_and(|free| free < RESERVE as u64)
    };
    machine.until("the engine reclaims", is_little).await;
    machine.disk.set_bytes_free(None);
    let is_much = |it: &Machine| it.engine.little_room().is_none();
    machine.until("it ends to reclaim", is_much).await;
    machine.node.close().await;
}

/// The engine deletes them when no snapshot reads them. The log may wait for their room.
#[tokio::test(flavor = "multi_thread")]
async fn merged_tables_go_while_the_log_has_no_room() {
    let machine = Machine::new();
    create(&machine.node).await.unwrap();
    machine.fill().await;
    machine.disk.set_bytes_free(Some(0));
    delete(&machine.node, "k0").await.unwrap_err();
    let is_refused = |it: &Machine| matches!(it.node.health(), Health::ReadOnly(_));
    machine.until("the log is full", is_refused).await;
    let merged = machine.engine.merge();
    let are_gone = |_: &Machine| merged.strong_count() == 0;
    machine.until("merged tables go", are_gone).await;
    machine.disk.set_bytes_free(None);
    let is_serving = |it: &Machine| it.node.health() == Health::Serving;
    machine.until("the log has room", is_serving).await;
    delete(&machine.node, "k0").await.unwrap();
    machine.node.close().await;
}
