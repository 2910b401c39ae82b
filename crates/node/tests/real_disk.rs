//! A node on the operating system's file system and the real engine.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod asking;

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use fader_node::disk::{Disk, RealDisk};
use fader_node::engine::{Engine, LsmEngine};
use fader_node::{Call, Health, Node, Secret, Settings};
use fader_services::catalog::{AccountId, KeyNature};
use fader_services::level::ConsistencyOptions;
use fader_services::simpledb::{AttributePut, Code, Error, Expected, ItemPut, Reply, Request};
use fader_services::{Direction, ErrorCode};

use asking::Ask as _;

fn account() -> AccountId {
    AccountId("000000000001".to_owned())
}

fn settings(folder: &tempfile::TempDir) -> Settings {
    Settings {
        segment_bytes: 1 << 16,
        ..Settings::new(folder.path().join("data"))
    }
}

fn put(item: &str, value: &str, expected: Option<&str>) -> Request {
    let attribute = AttributePut {
        name: Some("n".to_owned()),
        value: Some(value.to_owned()),
        replace: true,
    };
    let expected = expected.map(|value| Expected {
        name: Some("n".to_owned()),
        value: Some(value.to_owned()),
        exists: None,
    });
    Request::PutAttributes {
        domain: "domain".to_owned(),
        put: ItemPut {
            item: Some(item.to_owned()),
            attributes: vec![attribute],
        },
        expected: expected.into_iter().collect(),
    }
}

fn create() -> Request {
    Request::CreateDomain {
        domain: "domain".to_owned(),
        mode: None,
        preference: None,
    }
}

async fn get(node: &Node, item: &str) -> Option<String> {
    let request = Request::GetAttributes {
        domain: "domain".to_owned(),
        item: item.to_owned(),
        names: Vec::new(),
        consistent: true,
    };
    let Reply::Attributes(attributes) = node
        .ask(Call::new(
            &account(),
            request,
            ConsistencyOptions::default(),
        ))
        .await
        .0
        .unwrap()
        .reply
    else {
        panic!("GetAttributes answers with attributes");
    };
    attributes
        .first()
        .map(|pair| String::from_utf8(pair.value.to_vec()).unwrap())
}

async fn do_put(node: &Node, item: &str, value: &str, expected: Option<&str>) -> Result<(), Error> {
    node.ask(Call::new(
        &account(),
        put(item, value, expected),
        ConsistencyOptions::default(),
    ))
    .await
    .0
    .map(drop)
}

/// The files of the log.
fn segments(folder: &tempfile::TempDir) -> usize {
    let log = folder.path().join("data").join("log");
    std::fs::read_dir(log).unwrap().count()
}

/// Bytes of memory that this process has.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1));
    kib.unwrap().parse::<u64>().unwrap() << 10
}

/// A start costs neither a file nor memory that stays.
#[tokio::test]
async fn a_hundred_idle_restarts_leave_few_files_and_no_more_memory() {
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings {
        segment_bytes: 8 << 20,
        ..Settings::new(folder.path().join("data"))
    };
    let (node, _) = Node::open(settings.clone()).unwrap();
    node.ask(Call::new(
        &account(),
        create(),
        ConsistencyOptions::default(),
    ))
    .await
    .0
    .unwrap();
    do_put(&node, "item", "value", None).await.unwrap();
    node.close().await;
    drop(node);
    let mut resident = 0;
    for start in 0..100 {
        let (node, recovery) = Node::open(settings.clone()).unwrap();
        assert_eq!(recovery.torn, None, "start {start}");
        if start == 10 {
            resident = resident_bytes();
        }
        node.close().await;
    }
    assert!(segments(&folder) <= 3, "{} segments", segments(&folder));
    let (node, _) = Node::open(settings).unwrap();
    let more = resident_bytes().saturating_sub(resident);
    assert!(more < 32 << 20, "{} MiB more", more >> 20);
    assert_eq!(get(&node, "item").await.as_deref(), Some("value"));
    node.close().await;
}

#[tokio::test]
async fn acknowledged_writes_are_there_after_an_orderly_end() {
    let folder = tempfile::tempdir().unwrap();
    let (node, recovery) = Node::open(settings(&folder)).unwrap();
    assert!(recovery.is_first_start);
    node.ask(Call::new(
        &account(),
        create(),
        ConsistencyOptions::default(),
    ))
    .await
    .0
    .unwrap();
    for number in 0..300 {
        do_put(&node, &format!("item{number}"), &number.to_string(), None)
            .await
            .unwrap();
    }
    do_put(&node, "item7", "seven", Some("7")).await.unwrap();
    let refused = do_put(&node, "item7", "eight", Some("7"))
        .await
        .unwrap_err();
    assert_eq!(refused.code, Code::ConditionalCheckFailed);
    let epoch = node.counters().epoch;
    node.close().await;
    drop(node);

    let (node, recovery) = Node::open(settings(&folder)).unwrap();
    assert!(!recovery.is_first_start);
    assert_eq!(
        recovery.entries_replayed, 0,
        "an orderly end leaves nothing to do"
    );
    assert_eq!(recovery.torn, None);
    assert!(epoch < node.counters().epoch);
    assert_eq!(get(&node, "item7").await.as_deref(), Some("seven"));
    assert_eq!(get(&node, "item299").await.as_deref(), Some("299"));
    assert_eq!(node.health(), Health::Serving);
}

#[tokio::test]
async fn most_writes_of_the_log_find_their_blocks() {
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings::new(folder.path().join("data"));
    let segment = settings.data.join("log/0000000000000001.log");
    let (node, _) = Node::open(settings).unwrap();
    node.ask(Call::new(
        &account(),
        create(),
        ConsistencyOptions::default(),
    ))
    .await
    .0
    .unwrap();
    let blocks = || std::fs::metadata(&segment).unwrap().blocks();
    let before = blocks();
    for number in 0..50 {
        do_put(&node, &format!("item{number}"), &number.to_string(), None)
            .await
            .unwrap();
    }
    assert_eq!(blocks(), before);
    assert!(before < 4096, "not the whole segment: {before} blocks");
}

#[tokio::test]
async fn acknowledged_writes_are_there_after_a_crash() {
    let folder = tempfile::tempdir().unwrap();
    let (node, _) = Node::open(settings(&folder)).unwrap();
    node.ask(Call::new(
        &account(),
        create(),
        ConsistencyOptions::default(),
    ))
    .await
    .0
    .unwrap();
    for number in 0..50 {
        do_put(&node, &format!("item{number}"), &number.to_string(), None)
            .await
            .unwrap();
    }
    let copy = tempfile::tempdir().unwrap();
    copy_folder(folder.path(), copy.path());
    drop(node);
    let (node, recovery) = Node::open(settings(&copy)).unwrap();
    assert_eq!(recovery.entries_replayed, 51);
    assert_eq!(get(&node, "item49").await.as_deref(), Some("49"));
}

fn copy_folder(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

#[tokio::test]
async fn a_folder_is_open_once() {
    let folder = tempfile::tempdir().unwrap();
    let (node, _) = Node::open(settings(&folder)).unwrap();
    let Err(error) = Node::open(settings(&folder)) else {
        panic!("the second start is refused");
    };
    let message = format!("process {} holds its lock", std::process::id());
    assert_eq!(
        (error.code, error.to_string()),
        (ErrorCode::DataLocked, message)
    );
    node.close().await;
    drop(node);
    Node::open(settings(&folder)).unwrap();
}

#[tokio::test]
async fn secrets_are_sealed_and_keys_rotate() {
    let folder = tempfile::tempdir().unwrap();
    let (node, _) = Node::open(settings(&folder)).unwrap();
    let pair = (
        "AKIAEXAMPLEEXAMPLE00".to_owned(),
        Secret::new("a secret of mine".to_owned()),
    );
    node.create_key(
        &account(),
        Some(pair.clone()),
        "first",
        KeyNature::default(),
    )
    .await
    .unwrap();
    let random = node
        .create_key(&account(), None, "second", KeyNature::default())
        .await
        .unwrap();
    assert_eq!(
        (random.key.id.len(), random.secret.reveal().len()),
        (20, 40)
    );
    let open = node.open_key(&pair.0).await.unwrap().unwrap();
    assert_eq!(open.secret.reveal(), "a secret of mine");
    let rotated = node.rotate_key(&pair.0).await.unwrap();
    let old = node.open_key(&pair.0).await.unwrap().unwrap();
    assert_eq!(old.key.status, fader_services::catalog::KeyStatus::Disabled);
    node.close().await;
    drop(node);
    let (node, _) = Node::open(settings(&folder)).unwrap();
    let open = node.open_key(&rotated.key.id).await.unwrap().unwrap();
    assert_eq!(open.secret.reveal(), rotated.secret.reveal());
    assert_eq!(node.keys().await.unwrap().len(), 3);
    assert!(node.open_key("AKIANONE").await.unwrap().is_none());
    let bytes = std::fs::read_dir(folder.path().join("data/log")).unwrap();
    for file in bytes {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        assert!(
            !bytes
                .windows(16)
                .any(|window| window == b"a secret of mine")
        );
    }
}

/// Everything the engine in `data` holds, after a start and an orderly end.
async fn all_after_start(data: &Path) -> (Vec<(Bytes, Bytes)>, u64) {
    let engine = Arc::new(LsmEngine::open(&data.join("engine"), 1 << 20).unwrap());
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let opened = Node::open_with(Settings::new(data.to_owned()), &disk, engine.clone());
    let (node, recovery) = opened.unwrap();
    let view = engine.snapshot();
    let all = view
        .scan(&[], &[0xfe], Direction::Forward)
        .collect::<Result<Vec<_>, _>>();
    node.close().await;
    (all.unwrap(), recovery.entries_replayed)
}

/// It shows ENGINE-3.
#[tokio::test]
async fn each_tree_is_brought_to_the_end_of_the_log_from_where_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let older = tempfile::tempdir().unwrap();
    for round in 0..2 {
        let (node, _) = Node::open(settings(&folder)).unwrap();
        node.ask(Call::new(
            &account(),
            create(),
            ConsistencyOptions::default(),
        ))
        .await
        .0
        .unwrap();
        for number in 0..20 {
            let value = format!("{round}-{number}");
            do_put(&node, &format!("item{}", number % 7), &value, None)
                .await
                .unwrap();
        }
        node.close().await;
        drop(node);
        if round == 0 {
            copy_folder(&data.join("engine"), older.path());
        }
    }
    let (expected, replayed) = all_after_start(&data).await;
    assert_eq!(replayed, 0);
    for trees in [vec!["index"], vec!["registers"], vec!["counters", "index"]] {
        for tree in trees {
            let tree = Path::new(tree);
            std::fs::remove_dir_all(data.join("engine").join(tree)).unwrap();
            copy_folder(&older.path().join(tree), &data.join("engine").join(tree));
        }
        let (all, replayed) = all_after_start(&data).await;
        assert_eq!(replayed, 20);
        assert_eq!(all, expected);
    }
}
