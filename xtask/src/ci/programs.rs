//! The test programs of the workspace: built once, then run, side by side where that is safe.
//!
//! Invariants:
//! - PROGRAM-1 a program that waits for real time runs alone: its neighbours cannot make it late.
//! - PROGRAM-2 the output of a program is printed whole, when it has ended.
//! - PROGRAM-3 a program that does not end is ended, and has failed.
//! - PROGRAM-4 what properties draw follows from one seed, which is printed first.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::lanes::{self, LANES};
use super::score::Score;
use crate::command;

/// Where proptest looks for its seed, and where a run is told to take an earlier one's.
const SEED: &str = "PROPTEST_RNG_SEED";

/// How long a program may run: many times as long as the slowest does. One that takes longer hangs.
const LIMIT: Duration = Duration::from_mins(20);

/// Programs whose tests wait for leases, sockets or other processes in real time.
const ALONE: [&str; 12] = [
    "client",
    "cloud_crash",
    "coordinator",
    "eventual",
    "failing",
    "faults",
    "folder_crash",
    "generator",
    "it",
    "layer",
    "restore",
    "sessions",
];

/// A program that cargo built.
#[derive(Debug, PartialEq, Eq)]
struct Program {
    /// The package with the target, such as `fader-node sessions`.
    name: String,
    executable: PathBuf,
    /// The folder of the package: where its tests expect to be.
    folder: PathBuf,
    runs_alone: bool,
}

/// Builds and runs all test programs; whether all succeeded.
pub(super) fn run(score: &mut Score) -> Result<bool> {
    let seed = seed()?;
    println!("properties are drawn from seed {seed}: `{SEED}={seed} cargo xtask ci --only test`");
    let programs = build()?;
    let (alone, together): (Vec<_>, Vec<_>) =
        programs.into_iter().partition(|program| program.runs_alone);
    let is_good = run_in_lanes(together, LANES, seed, score)?;
    Ok(run_in_lanes(alone, 1, seed, score)? && is_good)
}

fn build() -> Result<Vec<Program>> {
    let mut build = command::cargo();
    build
        .args(["test", "--workspace", "--no-run"])
        .args(["--message-format", "json-render-diagnostics"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    let mut child = build.spawn().context("cannot start cargo")?;
    let mut programs = Vec::new();
    if let Some(output) = child.stdout.take() {
        for line in BufReader::new(output).lines() {
            let message = serde_json::from_str(&line?).context("cargo prints JSON")?;
            programs.extend(program(&message));
        }
    }
    if !child.wait()?.success() {
        bail!("the tests do not compile");
    }
    Ok(programs)
}

/// The test program that a message of cargo names, if it names one.
fn program(message: &Value) -> Option<Program> {
    let is_test = message["reason"] == "compiler-artifact" && message["profile"]["test"] == true;
    let executable = message["executable"].as_str().filter(|_| is_test)?;
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?;
    let package = folder.file_name()?.to_string_lossy();
    let target = message["target"]["name"].as_str()?;
    let is_integration = message["target"]["kind"][0] == "test";
    Some(Program {
        name: format!("{package} {target}"),
        executable: executable.into(),
        folder: folder.into(),
        runs_alone: is_integration && ALONE.contains(&target),
    })
}

/// The seed of this run: a new one each time, unless one is given.
fn seed() -> Result<u64> {
    match std::env::var(SEED) {
        Ok(given) => given.parse().with_context(|| format!("{SEED} is a number")),
        Err(_) => Ok(u64::try_from(
            SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis(),
        )?),
    }
}

/// Runs programs, at most `lanes` at a time, from this seed; whether all succeeded.
fn run_in_lanes(
    programs: Vec<Program>,
    lanes: usize,
    seed: u64,
    score: &mut Score,
) -> Result<bool> {
    let total = Mutex::new((score, true));
    lanes::each(programs, lanes, |program| {
        let (said, is_good) = output(&program, seed)?;
        let mut total = total.lock().map_err(lanes::panicked)?;
        println!("\n{}\n{said}", program.name);
        for line in said.lines() {
            total.0.add_libtest(&program.name, line);
        }
        total.1 &= is_good;
        Ok(())
    })?;
    Ok(total.into_inner().map_err(lanes::panicked)?.1)
}

/// Runs a program to its end, from this seed: its output, and whether it succeeded.
fn output(program: &Program, seed: u64) -> Result<(String, bool)> {
    let mut run = Command::new(&program.executable);
    // The time of each test is an unstable option of the test harness, which this admits.
    run.args(["-Zunstable-options", "--report-time"])
        .env("RUSTC_BOOTSTRAP", "1")
        .env(SEED, seed.to_string())
        .env("CARGO_MANIFEST_DIR", &program.folder)
        .current_dir(&program.folder);
    let kept = program.executable.with_extension("output");
    command::output(&mut run, &kept, LIMIT)
}

#[cfg(test)]
mod tests;
