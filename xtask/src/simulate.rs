//! Simulated clusters: builds `fader-simulate` and hands over to it.

use std::ffi::OsString;
use std::process::Command;

use anyhow::Result;
use clap::Args;

use crate::command;

/// How often and what.
#[derive(Args)]
pub(crate) struct Options {
    /// For `fader-simulate`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// How long to look for what catches a mutant.
#[derive(Args)]
pub(crate) struct Mutants {
    /// Runs for each, besides the one that is known to catch it.
    #[arg(long, default_value_t = 300)]
    seeds: u64,
}

const BUILD: [&str; 6] = [
    "build",
    "--quiet",
    "--package",
    "fader-simulator",
    "--profile",
    "simulate",
];

/// Runs what was asked for.
pub(crate) fn run(options: &Options) -> Result<bool> {
    simulate(&options.arguments)
}

/// The runs of every merge.
pub(crate) fn ci() -> Result<bool> {
    simulate(&["--seeds".into(), "300".into()])
}

/// Runs without each guard, in a build of their own: the feature must not reach any other.
pub(crate) fn mutants(options: &Mutants) -> Result<bool> {
    let target = ["--target-dir", "target/mutants", "--features", "mutants"];
    command::check(command::cargo().args(BUILD).args(target))?;
    command::succeeds(
        Command::new("target/mutants/simulate/fader-simulate")
            .args(["--mutants", "--seeds"])
            .arg(options.seeds.to_string()),
    )
}

fn simulate(arguments: &[OsString]) -> Result<bool> {
    command::check(command::cargo().args(BUILD))?;
    command::succeeds(Command::new("target/simulate/fader-simulate").args(arguments))
}
