//! Eight processes on one folder, killed (kill -9) at random moments: counters are exact, no
//! acknowledged object is lost, none is half there, and nothing is left over.
//!
//! `cargo xtask crash cloud` runs all rounds; `FADER_CRASH_ROUNDS` says how many.

#![allow(clippy::unwrap_used, reason = "a test may fail here")]

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path as FilePath, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fader_client::Folder;
use futures_util::TryStreamExt;
use object_store::path::Path;
use object_store::{
    Error, GetResult, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload, UpdateVersion,
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const PROCESSES: u64 = 8;
/// How many rounds, without the variable.
const ROUNDS: u64 = 8;
/// Set in the processes that are killed: the folder, and the process's number.
const WORKER: &str = "FADER_CRASH_WORKER";

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

fn rounds() -> u64 {
    std::env::var("FADER_CRASH_ROUNDS").map_or(ROUNDS, |rounds| rounds.parse().unwrap())
}

/// A body that tells whether it is whole.
fn sent(name: &str) -> String {
    format!("{name}\n").repeat(200)
}

/// What one process was told, a line each, written before it goes on. A killed process's writes to
/// a file stay.
struct Journal(File);

impl Journal {
    fn open(at: &FilePath, worker: u64) -> Journal {
        let path = Journal::path(at, worker);
        let file = OpenOptions::new().create(true).append(true).open(path);
        Journal(file.unwrap())
    }

    fn path(at: &FilePath, worker: u64) -> PathBuf {
        at.with_extension(format!("journal-{worker}"))
    }

    fn say(&mut self, line: &str) {
        self.0.write_all(format!("{line}\n").as_bytes()).unwrap();
    }
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
async fn work(at: &FilePath, worker: u64, life: u64) {
    let folder = Folder::open(at).unwrap();
    let mut journal = Journal::open(at, worker);
    journal.say("begins");
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

/// A process of its own: this test, started again.
fn start(at: &FilePath, worker: u64, life: u64) -> Child {
    let program = std::env::current_exe().unwrap();
    Command::new(program)
        .args(["--exact", "worker", "--ignored", "--nocapture"])
        .env(WORKER, format!("{worker} {life} {}", at.display()))
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
#[ignore = "the processes that the other test kills"]
fn worker() {
    let Ok(order) = std::env::var(WORKER) else {
        return;
    };
    let mut words = order.splitn(3, ' ');
    let worker = words.next().unwrap().parse().unwrap();
    let life = words.next().unwrap().parse().unwrap();
    let at = PathBuf::from(words.next().unwrap());
    runtime().block_on(work(&at, worker, life));
}

/// What the journal of a process says.
#[derive(Debug, Default)]
struct Told {
    begins: u64,
    tries: u64,
    counted: u64,
    /// Of each object whether it is there; `None` when that is open.
    objects: BTreeMap<String, Option<bool>>,
}

fn told(at: &FilePath, worker: u64) -> Told {
    let text = fs::read_to_string(Journal::path(at, worker)).unwrap_or_default();
    let mut told = Told::default();
    for line in text.lines() {
        match line.split_once(' ') {
            None if line == "begins" => told.begins += 1,
            None if line == "tries" => told.tries += 1,
            None => told.counted += 1,
            Some((what, key)) => {
                let is_there = match what {
                    "sent" => Some(true),
                    "deleted" => Some(false),
                    _ => None,
                };
                told.objects.insert(key.to_owned(), is_there);
            }
        }
    }
    told
}

/// Compares the folder with what the dead were told.
async fn check(at: &FilePath) {
    let folder = Folder::open(at).unwrap();
    let counts = match folder.get(&Path::from("counters/one")).await {
        Ok(found) => counts_of(found).await,
        Err(Error::NotFound { .. }) => Counts::new(),
        Err(error) => panic!("{error}"),
    };
    let mut known = BTreeMap::new();
    for worker in 0..PROCESSES {
        let told = told(at, worker);
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

/// A process that ends by itself has met an error, which it says.
fn assert_all_run(workers: &mut [Child]) {
    for worker in workers {
        assert_eq!(worker.try_wait().unwrap(), None);
    }
}

#[test]
fn processes_that_are_killed_lose_and_double_nothing() {
    let scratch = tempfile::tempdir().unwrap();
    let at = scratch.path().join("folder");
    fs::create_dir(&at).unwrap();
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let runtime = runtime();
    for round in 0..rounds() {
        let workers = (0..PROCESSES).map(|worker| start(&at, worker, round));
        let mut workers: Vec<Child> = workers.collect();
        // Until all are at work, and then some.
        let is_at_work = |worker| told(&at, worker).begins == round + 1;
        while !(0..PROCESSES).all(is_at_work) {
            assert_all_run(&mut workers);
            std::thread::sleep(Duration::from_millis(10));
        }
        std::thread::sleep(Duration::from_millis(random.random_range(0..300)));
        assert_all_run(&mut workers);
        for worker in &mut workers {
            // As `kill -9`.
            worker.kill().unwrap();
        }
        for worker in &mut workers {
            worker.wait().unwrap();
        }
        runtime.block_on(check(&at));
        if 20 < rounds() && round % 20 == 19 {
            println!("{} of {} rounds", round + 1, rounds());
        }
    }
    let total: u64 = (0..PROCESSES).map(|worker| told(&at, worker).counted).sum();
    assert!(rounds() <= total, "only {total} were counted");
    println!("{} rounds, {total} counted", rounds());
}
