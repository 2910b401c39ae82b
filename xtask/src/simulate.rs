//! Simulated and modelled clusters: builds `fader-simulate` or `fader-model` and hands over.

use std::ffi::OsString;
use std::process::Command;

use anyhow::Result;
use clap::Args;

use crate::command::{self, Profile};

/// How often and what.
#[derive(Args)]
pub(crate) struct Options {
    /// For the program.
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

/// What simulates and models.
pub(crate) const PACKAGE: &str = "fader-simulator";

/// Runs what was asked for.
pub(crate) fn run(options: &Options) -> Result<bool> {
    Profile::Checked.build(&[PACKAGE])?;
    start("fader-simulate", &options.arguments)
}

/// Searches what was asked for.
pub(crate) fn model(options: &Options) -> Result<bool> {
    Profile::Checked.build(&[PACKAGE])?;
    start("fader-model", &options.arguments)
}

/// Themes that seeds do not draw, and how many runs of them every merge makes.
const APART: [(&str, &str); 6] = [
    ("leavings", "100"),
    ("moves", "100"),
    ("borrowings", "50"),
    ("retractions", "50"),
    ("races", "50"),
    ("idlers", "50"),
];

/// The runs and searches of every merge, with programs that are built already.
pub(crate) fn ci() -> Result<bool> {
    let simulated = start("fader-simulate", &["--seeds".into(), "300".into()])?;
    let mut are_good = simulated;
    for (theme, seeds) in APART {
        let arguments = ["--theme", theme, "--seeds", seeds].map(OsString::from);
        are_good &= start("fader-simulate", &arguments)?;
    }
    let clouds = ["cloud", "--seeds", "300"].map(OsString::from);
    are_good &= start("fader-simulate", &clouds)?;
    Ok(start("fader-model", &["--quick".into()])? && are_good)
}

/// Runs without each guard, in a build of their own: the feature must not reach any other.
pub(crate) fn mutants(options: &Mutants) -> Result<bool> {
    let target = ["--target-dir", "target/mutants", "--features", "mutants"];
    // The scripts that each show one guard at work.
    let scripts = ["test", "--quiet", "--package", "fader-chain"];
    let filter = ["--lib", "replica::tests::mutants"];
    command::check(command::cargo().args(scripts).args(target).args(filter))?;
    // The guards of queues and domains in a bucket, each with its scenario.
    let bucket = ["test", "--quiet", "--package", "fader-cloud"];
    let shown = ["--test", "bucket_mutants", "--", "--nocapture"];
    command::check(command::cargo().args(bucket).args(target).args(shown))?;
    // The folder store's syncs and locks, each left out on a disk that loses what was not synced.
    let folder = ["test", "--quiet", "--package", "fader-client", "--lib"];
    let filter = ["folder::tests::power::mutants", "--", "--nocapture"];
    command::check(command::cargo().args(folder).args(filter))?;
    // The histories that each show one rule of a check at work.
    let histories = ["test", "--quiet", "--package", "fader-history"];
    let filter = ["--lib", "check::tests::named", "--", "--nocapture"];
    command::check(command::cargo().args(histories).args(target).args(filter))?;
    // The searches that take the rules of pages away.
    let searches = ["test", "--quiet", "--package", "fader-blink", "--lib"];
    command::check(command::cargo().args(searches).args(target).arg("_caught"))?;
    let build = ["build", "--quiet", "--profile", Profile::Checked.name()];
    let package = ["--package", PACKAGE];
    command::check(command::cargo().args(build).args(package).args(target))?;
    command::succeeds(
        Command::new("target/mutants/checked/fader-simulate")
            .args(["--mutants", "--seeds"])
            .arg(options.seeds.to_string()),
    )
}

fn start(program: &str, arguments: &[OsString]) -> Result<bool> {
    let program = Profile::Checked.program(program);
    command::succeeds(Command::new(program).args(arguments))
}
