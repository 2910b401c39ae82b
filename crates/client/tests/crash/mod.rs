//! Processes that are killed (kill -9) round after round, and what each was told before.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Processes at once.
pub(crate) const PROCESSES: u64 = 8;
/// Says how many rounds there are: `cargo xtask crash cloud` does.
const ROUNDS: &str = "FADER_CRASH_ROUNDS";
/// Set in the processes that are killed: what they are to do.
const ORDER: &str = "FADER_CRASH_ORDER";
/// With this line a journal says that its process begins a life.
const BEGINS: &str = "begins";

/// How many rounds are played: `sample` unless all were asked for.
pub(crate) fn rounds(sample: u64) -> u64 {
    std::env::var(ROUNDS).map_or(sample, |rounds| rounds.parse().unwrap())
}

/// What one process is to do.
pub(crate) struct Order {
    pub(crate) worker: u64,
    pub(crate) life: u64,
    /// Where its journal is.
    journals: PathBuf,
    /// What it works on.
    pub(crate) on: String,
}

impl Order {
    /// The order of this process, if it is one of those that are killed.
    pub(crate) fn given() -> Option<Order> {
        let order = std::env::var(ORDER).ok()?;
        let mut words = order.splitn(4, ' ');
        let mut word = || words.next().unwrap().to_owned();
        Some(Order {
            worker: word().parse().unwrap(),
            life: word().parse().unwrap(),
            journals: word().into(),
            on: word(),
        })
    }

    /// One more process, which is never killed.
    pub(crate) fn of(journals: &Path, worker: u64) -> Order {
        Order {
            worker,
            life: 0,
            journals: journals.to_owned(),
            on: String::new(),
        }
    }

    /// The journal of this process, with the beginning of this life in it.
    pub(crate) fn journal(&self) -> Journal {
        let path = path(&self.journals, self.worker);
        let file = OpenOptions::new().create(true).append(true).open(path);
        let mut journal = Journal(file.unwrap());
        journal.say(BEGINS);
        journal
    }
}

/// What one process was told, a line each, written before it goes on. A killed process's writes to
/// a file stay.
pub(crate) struct Journal(File);

impl Journal {
    pub(crate) fn say(&mut self, line: &str) {
        self.0.write_all(format!("{line}\n").as_bytes()).unwrap();
    }
}

fn path(journals: &Path, worker: u64) -> PathBuf {
    journals.join(worker.to_string())
}

/// The lines of a process's journal: the first word, and the rest.
pub(crate) fn lines(journals: &Path, worker: u64) -> Vec<(String, String)> {
    let text = fs::read_to_string(path(journals, worker)).unwrap_or_default();
    let split = |line: &str| {
        let (what, of) = line.split_once(' ').unwrap_or((line, ""));
        (what.to_owned(), of.to_owned())
    };
    text.lines().map(split).collect()
}

/// How often a process's journal says a word.
pub(crate) fn count(journals: &Path, worker: u64, word: &str) -> u64 {
    let lines = lines(journals, worker);
    lines.iter().filter(|(what, _)| what == word).count() as u64
}

/// Starts this test's processes, kills them at a random moment, and checks, round after round.
pub(crate) fn play(journals: &Path, on: &str, rounds: u64, mut check: impl FnMut()) {
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let counted = || {
        let each = (0..PROCESSES).map(|worker| count(journals, worker, "counted"));
        each.sum::<u64>()
    };
    for round in 0..rounds {
        let before = counted();
        let workers = (0..PROCESSES).map(|worker| start(journals, worker, round, on));
        let mut workers: Vec<Child> = workers.collect();
        // Until all are at work and one has counted, and then some.
        let is_at_work = |worker| count(journals, worker, BEGINS) == round + 1;
        while !(0..PROCESSES).all(is_at_work) || counted() == before {
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
        check();
        if round % 20 == 19 {
            println!("{} of {rounds} rounds", round + 1);
        }
    }
}

/// A process of its own: this test program's `worker`.
fn start(journals: &Path, worker: u64, life: u64, on: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "worker", "--ignored", "--nocapture"])
        .env(
            ORDER,
            format!("{worker} {life} {} {on}", journals.display()),
        )
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// A process that ends by itself has met an error, which it says.
fn assert_all_run(workers: &mut [Child]) {
    for worker in workers {
        assert_eq!(worker.try_wait().unwrap(), None);
    }
}
