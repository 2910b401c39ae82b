//! Eight processes on one folder, killed (kill -9) at random moments. Counters are exact, no
//! acknowledged object is lost, none is half there, and nothing is left over.
//!
//! `cargo xtask crash cloud` runs all rounds; `FADER_CRASH_ROUNDS` says how many.

#![allow(clippy::unwrap_used, reason = "a test may fail here")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path as FilePath;

use fader_client::Folder;
use futures_util::TryStreamExt;
use object_store::path::Path;
use object_store::{
    Error, GetResult, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload, UpdateVersion,
};

mod crash;

use self::crash::{Order, PROCESSES};

/// Rounds of a sample.
const SAMPLE: u64 = 8;

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

/// A body that tells whether it is whole.
fn sent(name: &str) -> String {
    format!("{name}\n").repeat(200)
}

type Counts = BTreeMap<u64, u64>;

async fn counts_of(found: GetResult) -> Counts {
    let bytes = found.bytes().await.unwrap();
    let text = std::str::from_utf8(&bytes).unwrap();
    let pairs = text.lines().map(|line| {
        let (worker, count) = line.split_once(' ').unwrap();
        (worker.parse().unwrap(), count.parse().unwrap())
    });
    pairs.collect()
}

/// Counts itself up in an object that all processes share.
async fn count(folder: &Folder, at: &Path, worker: u64) {
    loop {
        let (mut counts, mode) = match folder.get(at).await {
            Ok(found) => {
                let version = UpdateVersion {
                    e_tag: found.meta.e_tag.clone(),
                    version: None,
                };
                (counts_of(found).await, PutMode::Update(version))
            }
            Err(Error::NotFound { .. }) => (Counts::new(), PutMode::Create),
            Err(error) => panic!("{error}"),
        };
        *counts.entry(worker).or_default() += 1;
        let lines = counts
            .iter()
            .map(|(worker, count)| format!("{worker} {count}\n"));
        let body = PutPayload::from(lines.collect::<String>());
        match folder.put_opts(at, body, PutOptions::from(mode)).await {
            Ok(_) => return,
            Err(Error::Precondition { .. } | Error::AlreadyExists { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// One process, until it is killed.
async fn work(order: &Order) {
    let (worker, life) = (order.worker, order.life);
    let folder = Folder::open(&order.on).unwrap();
    let mut journal = order.journal();
    let counter = Path::from("counters/one");
    for serial in 0_u64.. {
        journal.say("tries");
        count(&folder, &counter, worker).await;
        journal.say("counted");
        let name = format!("{worker}-{life}-{serial}");
        let key = Path::from(format!("sent/{}/{name}", serial % 3));
        let mode = PutOptions::from(PutMode::Create);
        folder
            .put_opts(&key, sent(&name).into(), mode)
            .await
            .unwrap();
        journal.say(&format!("sent {key}"));
        // Every third is deleted again, so that folders come and go.
        if serial % 3 == 0 {
            journal.say(&format!("deletes {key}"));
            folder.delete(&key).await.unwrap();
            journal.say(&format!("deleted {key}"));
        }
    }
}

#[test]
#[ignore = "the processes that the other test kills"]
fn worker() {
    if let Some(order) = Order::given() {
        runtime().block_on(work(&order));
    }
}

/// What the journal of a process says.
#[derive(Debug, Default)]
struct Told {
    tries: u64,
    counted: u64,
    /// Of each object whether it is there; `None` when that is open.
    objects: BTreeMap<String, Option<bool>>,
}

fn told(journals: &FilePath, worker: u64) -> Told {
    let mut told = Told::default();
    for (what, key) in crash::lines(journals, worker) {
        let is_there = match what.as_str() {
            "sent" => Some(true),
            "deletes" => None,
            "deleted" => Some(false),
            "tries" => {
                told.tries += 1;
                continue;
            }
            "counted" => {
                told.counted += 1;
                continue;
            }
            _ => continue,
        };
        told.objects.insert(key, is_there);
    }
    told
}

/// Compares the folder with what the dead were told.
async fn check(at: &FilePath, journals: &FilePath) {
    let folder = Folder::open(at).unwrap();
    let counts = match folder.get(&Path::from("counters/one")).await {
        Ok(found) => counts_of(found).await,
        Err(Error::NotFound { .. }) => Counts::new(),
        Err(error) => panic!("{error}"),
    };
    let mut known = BTreeMap::new();
    for worker in 0..PROCESSES {
        let told = told(journals, worker);
        let count = counts.get(&worker).copied().unwrap_or_default();
        assert!(
            (told.counted..=told.tries).contains(&count),
            "{worker} counted {} times of {} tries; the counter has {count}",
            told.counted,
            told.tries
        );
        known.extend(told.objects);
    }
    let prefix = Path::from("sent");
    let listed: Vec<_> = folder.list(Some(&prefix)).try_collect().await.unwrap();
    let mut found = BTreeMap::new();
    for meta in listed {
        let body = folder.get(&meta.location).await.unwrap().bytes().await;
        let name = meta.location.filename().unwrap().to_owned();
        assert_eq!(
            body.unwrap(),
            sent(&name).as_bytes(),
            "{} is not whole",
            meta.location
        );
        found.insert(meta.location.to_string(), meta.e_tag);
    }
    for (key, is_there) in known {
        if let Some(is_there) = is_there {
            assert_eq!(found.contains_key(&key), is_there, "{key}");
        }
    }
    // The first write removes what the dead left.
    folder.put(&Path::from("probe"), "it".into()).await.unwrap();
    let stores = fs::read_dir(at.join(".fader/staged")).unwrap();
    assert_eq!(stores.count(), 1, "staged bodies are left over");
}

#[test]
fn processes_that_are_killed_lose_and_double_nothing() {
    let scratch = tempfile::tempdir().unwrap();
    let (at, journals) = (
        scratch.path().join("folder"),
        scratch.path().join("journals"),
    );
    fs::create_dir(&at).unwrap();
    fs::create_dir(&journals).unwrap();
    let (runtime, rounds) = (runtime(), crash::rounds(SAMPLE));
    let on = at.to_str().unwrap();
    crash::play(&journals, on, rounds, || {
        runtime.block_on(check(&at, &journals));
    });
    let counted = (0..PROCESSES).map(|worker| told(&journals, worker).counted);
    let counted: u64 = counted.sum();
    assert!(rounds <= counted, "only {counted} were counted");
    println!("objects: {rounds} rounds, {counted} counted");
}
