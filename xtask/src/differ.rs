//! The same calls to ElasticMQ and to Fader: what differs, and whether it is known.

use anyhow::Result;
use clap::Args;

use crate::{bench, command, python};

/// How many scripts.
#[derive(Args)]
pub(crate) struct Options {
    /// How many scripts of calls.
    #[arg(long, default_value_t = 500)]
    scripts: u32,
    /// The first of them; a number gives the same script always.
    #[arg(long, default_value_t = 1)]
    seed: u32,
}

/// Runs scripts with the release binary. Needs Java and Maven.
pub(crate) fn run(options: &Options) -> Result<bool> {
    bench::build()?;
    python::prepare()?;
    let mut differ = python::program("python");
    differ
        .args(["-m", "queues.differ"])
        .args(["--scripts", &options.scripts.to_string()])
        .args(["--seed", &options.seed.to_string()])
        .env("PYTHONPATH", command::root().join("tests"));
    command::succeeds(&mut differ)
}
