//! Everything that must pass before a merge, step after step.
//!
//! Invariants:
//! 1. The last line is `N passed, N failed`, alone on its line: the test cases of all suites. A
//!    step that fails without having counted a failed case adds one, so `0 failed` means success.
//! 2. A failed step does not hide what later steps would say, unless they need what it builds.
//! 3. Small benchmarks judge nothing, so they run side by side, and are what a slow machine leaves
//!    out: those that would begin after [`BENCHES_BEGIN`]. A benchmark that does not end is ended,
//!    and has failed.

use std::os::unix::process::CommandExt as _;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;

use crate::command::{self, Profile};
use crate::{bench, crash, fake_s3, python, simulate, tidy};

mod lanes;
mod programs;
mod score;

use lanes::LANES;
use score::Score;

/// How long after the start of a run a benchmark may begin.
const BENCHES_BEGIN: Duration = Duration::from_mins(65);
/// How long a small benchmark may run: many times as long as the slowest does.
const BENCH_LIMIT: Duration = Duration::from_mins(10);

/// Which part to run.
#[derive(Args)]
pub(crate) struct Options {
    /// Only these steps, such as `--only tidy,clippy`.
    #[arg(long, value_delimiter = ',', value_parser = NAMES)]
    only: Vec<String>,
}

struct Step {
    name: &'static str,
    run: fn(&mut Score, Instant) -> Result<bool>,
    /// Whether it starts a program that the step `build` builds.
    needs_build: bool,
}

const NAMES: [&str; 11] = [
    "format", "tidy", "python", "clippy", "doc", "test", "build", "simulate", "sdk", "crash",
    "bench",
];

const STEPS: [Step; 11] = [
    Step {
        name: NAMES[0],
        run: format,
        needs_build: false,
    },
    Step {
        name: NAMES[1],
        run: |_, _| tidy::run(),
        needs_build: false,
    },
    Step {
        name: NAMES[2],
        run: |_, _| python::check(),
        needs_build: false,
    },
    Step {
        name: NAMES[3],
        run: clippy,
        needs_build: false,
    },
    Step {
        name: NAMES[4],
        run: doc,
        needs_build: false,
    },
    Step {
        name: NAMES[5],
        run: test,
        needs_build: false,
    },
    Step {
        name: NAMES[6],
        run: build,
        needs_build: false,
    },
    Step {
        name: NAMES[7],
        run: simulated,
        needs_build: true,
    },
    Step {
        name: NAMES[8],
        run: sdk,
        needs_build: true,
    },
    Step {
        name: NAMES[9],
        run: crashes,
        needs_build: true,
    },
    Step {
        name: NAMES[10],
        run: benchmark,
        needs_build: true,
    },
];

/// Runs the steps; whether all went well.
pub(crate) fn run(options: &Options) -> Result<bool> {
    let begun = Instant::now();
    let mut total = Score::default();
    let mut times: Vec<(&str, &str, Duration)> = Vec::new();
    let mut is_built = true;
    for step in &STEPS {
        let is_wanted = options.only.is_empty() || options.only.iter().any(|n| n == step.name);
        if !is_wanted || (step.needs_build && !is_built) {
            continue;
        }
        println!("\n--- {} ---", step.name);
        let start = Instant::now();
        let mut score = Score::default();
        let is_good = (step.run)(&mut score, begun).unwrap_or_else(|error| {
            println!("{}: {error:#}", step.name);
            false
        });
        if !is_good && score.failed == 0 {
            score.failed = 1;
        }
        is_built &= is_good || step.name != "build";
        let verdict = if score.failed == 0 { "ok" } else { "FAILED" };
        let elapsed = start.elapsed();
        // A run that is cut off says so far how long its steps took.
        println!(
            "\n{}: {verdict} after {:.0} s",
            step.name,
            elapsed.as_secs_f64()
        );
        times.push((step.name, verdict, elapsed));
        total.add(score);
    }
    println!();
    for (name, verdict, time) in times {
        println!("{name:<8} {verdict:<6} {:>7.1} s", time.as_secs_f64());
    }
    let (passed, failed) = (total.passed, total.failed);
    println!("\nthe slowest tests:");
    for (seconds, name) in total.slowest() {
        println!("{seconds:>7.1} s  {name}");
    }
    println!("\n{passed} passed, {failed} failed");
    Ok(failed == 0)
}

fn format(_: &mut Score, _: Instant) -> Result<bool> {
    command::succeeds(command::cargo().args(["fmt", "--all", "--check"]))
}

/// The crates that have guards to take away, by the feature that no other step compiles.
const MUTANTS: &str = "fader-blink/mutants,fader-chain/mutants,fader-cloud/mutants,\
    fader-database/mutants,fader-history/mutants,fader-mapreduce/mutants,fader-services/mutants,\
    fader-simulator/mutants";

/// The workspace with its mutants; then the released program alone, without the features that tests
/// turn on.
fn clippy(_: &mut Score, _: Instant) -> Result<bool> {
    let lint = |which: &[&str]| {
        let mut clippy = command::cargo();
        clippy
            .arg("clippy")
            .args(which)
            .args(["--", "--deny", "warnings"]);
        command::succeeds(&mut clippy)
    };
    let is_good = lint(&["--workspace", "--all-targets", "--features", MUTANTS])?;
    Ok(lint(&["--package", "fader-fader"])? && is_good)
}

fn doc(_: &mut Score, _: Instant) -> Result<bool> {
    let mut doc = command::cargo();
    doc.args(["doc", "--workspace", "--no-deps"])
        .env("RUSTDOCFLAGS", "--deny warnings");
    command::succeeds(&mut doc)
}

fn test(score: &mut Score, _: Instant) -> Result<bool> {
    let is_good = programs::run(score)?;
    let mut examples = command::cargo();
    examples.args(["test", "--workspace", "--doc", "--quiet"]);
    let run = command::watch(&mut examples, |line| score.add_libtest("doc", line))?;
    Ok(run && is_good)
}

/// Builds the programs that the next steps start.
fn build(_: &mut Score, _: Instant) -> Result<bool> {
    let packages = [&bench::PACKAGES[..], &[simulate::PACKAGE]].concat();
    Profile::Checked.build(&packages).map(|()| true)
}

/// Clusters in simulated worlds.
fn simulated(score: &mut Score, _: Instant) -> Result<bool> {
    let is_good = simulate::ci()?;
    score.add_one(is_good);
    Ok(is_good)
}

/// The binary against the SDKs, and the command line from outside: files of tests side by side,
/// then the tests that run alone.
fn sdk(score: &mut Score, _: Instant) -> Result<bool> {
    python::prepare()?;
    python::prepare_clients()?;
    // On two cores: at any time some tests wait for clocks and leases.
    let lanes = [
        "-n",
        "4",
        "--dist",
        "loadfile",
        // The order of tests/conftest.py: files of minutes first.
        "--no-loadscope-reorder",
        "-m",
        "not alone and not clouds",
    ];
    let together = pytest(&lanes, score)?;
    Ok(pytest(&["-m", "alone"], score)? && together)
}

fn pytest(which: &[&str], score: &mut Score) -> Result<bool> {
    let mut pytest = python::program("pytest");
    pytest
        .args(["-q", "-rs", "--durations=20", "--color=no"])
        .args(which)
        .arg("tests")
        .env("FADER_BIN", Profile::Checked.program("fader"));
    command::watch(&mut pytest, |line| score.add_pytest(line))
}

fn crashes(score: &mut Score, _: Instant) -> Result<bool> {
    let mut are_good = true;
    let processes = [
        crash::process(Profile::Checked, 10, 1)?,
        crash::queues(Profile::Checked, 5, 1)?,
        crash::objects(Profile::Checked, 3, 1)?,
        crash::databases(Profile::Checked, 5, 1)?,
        fake_s3::sample()?,
    ];
    for is_good in processes {
        score.add_one(is_good);
        are_good &= is_good;
    }
    Ok(are_good)
}

fn benchmark(score: &mut Score, begun: Instant) -> Result<bool> {
    let native = [
        "simpledb",
        "select",
        "memory",
        "steps",
        "one-node",
        "window",
        "client",
        "generator",
        "checker",
        "cloud",
        "database",
        "s3",
    ];
    let native = native.map(|name| {
        let mut quick = bench::fader_bench(Profile::Checked, name);
        quick.arg("--quick");
        (name.to_owned(), quick)
    });
    let benches: Vec<_> = native
        .into_iter()
        .chain(bench::small_by_python(Profile::Checked)?)
        .collect();
    let total = Mutex::new((score, true));
    lanes::each(benches, LANES, |(name, mut quick)| {
        if BENCHES_BEGIN <= begun.elapsed() {
            println!("bench {name}: left out, for this run takes long already");
            return Ok(());
        }
        quick.process_group(0);
        let kept = command::root().join(format!("target/bench-{name}.output"));
        let (said, is_good) = command::output(&mut quick, &kept, BENCH_LIMIT)?;
        let mut total = total.lock().map_err(lanes::panicked)?;
        println!("\nbench {name}\n{said}");
        total.0.add_one(is_good);
        total.1 &= is_good;
        Ok(())
    })?;
    Ok(total.into_inner().map_err(lanes::panicked)?.1)
}
