//! The test programs of the workspace: built once, then run side by side.
//!
//! Invariants:
//! - PROGRAM-1 programs that wait for real time run one at a time. Those beside them take only the
//!   time of the cores that they leave.
//! - PROGRAM-2 the output of a program is printed whole, when it has ended.
//! - PROGRAM-3 a program that does not end is ended, and has failed.
//! - PROGRAM-4 what properties draw follows from the seed of the run.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::SEED;
use super::lanes::{self, LANES};
use super::score::Score;
use crate::command;

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

/// Programs of minutes, the longest first: none is left over when the others have ended.
const LONGEST: [&str; 4] = [
    "simulator fader_simulator",
    "blink fader_blink",
    "services fader_services",
    "chain fader_chain",
];

/// A program that cargo built.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Program {
    /// The package with the target, such as `fader-node sessions`.
    name: String,
    executable: PathBuf,
    /// The folder of the package: where its tests expect to be.
    folder: PathBuf,
    runs_alone: bool,
}

/// Runs these test programs, from this seed; whether all succeeded.
pub(super) fn run(programs: Vec<Program>, score: &mut Score, seed: u64) -> Result<bool> {
    let (alone, mut together): (Vec<_>, Vec<_>) =
        programs.into_iter().partition(|program| program.runs_alone);
    lanes::put_first(&mut together, &LONGEST, |program| &program.name);
    let total = Mutex::new((score, true));
    let run = |program: Program| -> Result<()> {
        let (said, is_good) = output(&program, seed)?;
        let mut total = total.lock().map_err(lanes::panicked)?;
        println!("\n{}\n{said}", program.name);
        for line in said.lines() {
            total.0.add_libtest(&program.name, line);
        }
        total.1 &= is_good;
        Ok(())
    };
    thread::scope(|scope| {
        let beside = scope.spawn(|| lanes::each(together, LANES, run));
        lanes::each(alone, 1, run)?;
        beside.join().map_err(lanes::panicked)?
    })?;
    Ok(total.into_inner().map_err(lanes::panicked)?.1)
}

/// Builds all test programs of the workspace.
pub(super) fn build() -> Result<Vec<Program>> {
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

/// Runs a program to its end, from this seed: its output, and whether it succeeded.
fn output(program: &Program, seed: u64) -> Result<(String, bool)> {
    let mut run = match program.runs_alone {
        true => Command::new(&program.executable),
        false => command::giving_way(&program.executable),
    };
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
