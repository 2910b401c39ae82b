//! Everything that must pass before a merge, step after step.
//!
//! Invariants:
//! 1. The last line is `N passed, N failed`, alone on its line: the test cases of all suites. A
//!    step that fails without having counted a failed case adds one, so `0 failed` means success.
//! 2. A failed step does not hide what later steps would say, unless they need what it builds.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;

use crate::{bench, command, crash, python, simulate, tidy};

mod score;

use score::Score;

/// Which part to run.
#[derive(Args)]
pub(crate) struct Options {
    /// Only these steps, such as `--only tidy,clippy`.
    #[arg(long, value_delimiter = ',', value_parser = NAMES)]
    only: Vec<String>,
}

struct Step {
    name: &'static str,
    run: fn(&mut Score) -> Result<bool>,
    /// Whether it starts what the step `release` builds.
    needs_release: bool,
}

const NAMES: [&str; 11] = [
    "format", "tidy", "python", "clippy", "doc", "test", "simulate", "release", "sdk", "crash",
    "bench",
];

const STEPS: [Step; 11] = [
    Step {
        name: NAMES[0],
        run: format,
        needs_release: false,
    },
    Step {
        name: NAMES[1],
        run: |_| tidy::run(),
        needs_release: false,
    },
    Step {
        name: NAMES[2],
        run: |_| python::check(),
        needs_release: false,
    },
    Step {
        name: NAMES[3],
        run: clippy,
        needs_release: false,
    },
    Step {
        name: NAMES[4],
        run: doc,
        needs_release: false,
    },
    Step {
        name: NAMES[5],
        run: test,
        needs_release: false,
    },
    Step {
        name: NAMES[6],
        run: simulated,
        needs_release: false,
    },
    Step {
        name: NAMES[7],
        run: |_| bench::build().map(|()| true),
        needs_release: false,
    },
    Step {
        name: NAMES[8],
        run: sdk,
        needs_release: true,
    },
    Step {
        name: NAMES[9],
        run: crashes,
        needs_release: true,
    },
    Step {
        name: NAMES[10],
        run: benchmark,
        needs_release: true,
    },
];

/// Runs the steps; whether all went well.
pub(crate) fn run(options: &Options) -> Result<bool> {
    let mut total = Score::default();
    let mut times: Vec<(&str, &str, Duration)> = Vec::new();
    let mut has_release = true;
    for step in &STEPS {
        let is_wanted = options.only.is_empty() || options.only.iter().any(|n| n == step.name);
        if !is_wanted || (step.needs_release && !has_release) {
            continue;
        }
        println!("\n--- {} ---", step.name);
        let start = Instant::now();
        let mut score = Score::default();
        let is_good = (step.run)(&mut score).unwrap_or_else(|error| {
            println!("{}: {error:#}", step.name);
            false
        });
        if !is_good && score.failed == 0 {
            score.failed = 1;
        }
        has_release &= is_good || step.name != "release";
        let verdict = if score.failed == 0 { "ok" } else { "FAILED" };
        times.push((step.name, verdict, start.elapsed()));
        total.add(score);
    }
    println!();
    for (name, verdict, time) in times {
        println!("{name:<8} {verdict:<6} {:>7.1} s", time.as_secs_f64());
    }
    println!("{} passed, {} failed", total.passed, total.failed);
    Ok(total.failed == 0)
}

fn format(_: &mut Score) -> Result<bool> {
    command::succeeds(command::cargo().args(["fmt", "--all", "--check"]))
}

fn clippy(_: &mut Score) -> Result<bool> {
    let arguments = [
        "clippy",
        "--workspace",
        "--all-targets",
        "--",
        "--deny",
        "warnings",
    ];
    command::succeeds(command::cargo().args(arguments))
}

fn doc(_: &mut Score) -> Result<bool> {
    let mut doc = command::cargo();
    doc.args(["doc", "--workspace", "--no-deps"])
        .env("RUSTDOCFLAGS", "--deny warnings");
    command::succeeds(&mut doc)
}

fn test(score: &mut Score) -> Result<bool> {
    let mut test = command::cargo();
    test.args(["test", "--workspace", "--no-fail-fast"]);
    command::watch(&mut test, |line| score.add(Score::of_cargo(line)))
}

/// Clusters in simulated worlds.
fn simulated(score: &mut Score) -> Result<bool> {
    let is_good = simulate::ci()?;
    score.add(Score::of_one(is_good));
    Ok(is_good)
}

/// The release binary against the SDKs, and the command line from outside.
fn sdk(score: &mut Score) -> Result<bool> {
    python::prepare()?;
    let mut pytest = python::program("pytest");
    pytest
        .args(["-q", "-rs", "--durations=10", "--color=no", "tests"])
        .env("FADER_BIN", command::root().join("target/release/fader"));
    command::watch(&mut pytest, |line| score.add(Score::of_pytest(line)))
}

fn crashes(score: &mut Score) -> Result<bool> {
    let is_good = crash::process(10, 1)?;
    score.add(Score::of_one(is_good));
    Ok(is_good)
}

fn benchmark(score: &mut Score) -> Result<bool> {
    let mut is_good = true;
    for name in [
        "simpledb", "select", "memory", "steps", "one-node", "window", "client", "cloud",
    ] {
        let mut quick = Command::new("target/release/fader-bench");
        quick.args([name, "--quick", "--fader", "target/release/fader"]);
        let succeeded = command::succeeds(&mut quick)?;
        score.add(Score::of_one(succeeded));
        is_good &= succeeded;
    }
    for succeeded in bench::small_clusters()? {
        score.add(Score::of_one(succeeded));
        is_good &= succeeded;
    }
    Ok(is_good)
}
