//! Fuzzing on stable: mutations of a corpus, a million for each target.

use anyhow::{Result, bail};
use clap::Args;

use crate::command::{self, Profile};

/// What to run, and how much of it.
#[derive(Args)]
#[command(after_help = HELP)]
pub(crate) struct Options {
    /// Inputs for each target.
    #[arg(long, default_value_t = 1_000_000)]
    inputs: u64,
    /// Where inputs come from; the same seed gives the same inputs.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only these targets, with commas between them.
    #[arg(long, value_delimiter = ',', value_parser = NAMES)]
    only: Vec<String>,
    /// Only the input with this number: that which a run named. Needs one target.
    #[arg(long)]
    input: Option<u64>,
}

const HELP: &str = "\
Each target takes mutations of good inputs: heads, forms, signatures, tokens, handles, policies,
Selects, messages between nodes, records of the log, files of the engine. None may panic, and the
memory of the process may not grow by more than 256 MiB. An input that panics is printed with its
seed and number. Every test run tries 2,000.

Examples:
  cargo xtask fuzz                                     a million of each: half an hour on 2 cores
  cargo xtask fuzz --inputs 10000                      a look
  cargo xtask fuzz --only select --seed 2              other inputs of one target
  cargo xtask fuzz --only select --seed 2 --input 77   one input again";

const NAMES: [&str; 12] = [
    "heads",
    "forms",
    "signatures",
    "select",
    "tokens",
    "handles",
    "policies",
    "peer-messages",
    "peer-bodies",
    "peer-frames",
    "log-records",
    "engine-files",
];

/// The package that has a target.
fn package(name: &str) -> &'static str {
    match name {
        "heads" | "forms" | "signatures" => "fader-gateway",
        "select" | "tokens" | "handles" | "policies" => "fader-services",
        _ => "fader-node",
    }
}

/// Runs the targets one after the other; whether all are good.
pub(crate) fn run(options: &Options) -> Result<bool> {
    if options.input.is_some() && options.only.len() != 1 {
        bail!("--input is the number of an input of one target: name it with --only");
    }
    let is_wanted =
        |name: &&str| options.only.is_empty() || options.only.iter().any(|it| it == name);
    let mut failed = Vec::new();
    for name in NAMES.into_iter().filter(is_wanted) {
        let mut test = Profile::Checked.cargo("test");
        test.args(["--quiet", "--lib", "--package", package(name)]);
        test.arg(format!("fuzz_{}", name.replace('-', "_")));
        test.args(["--", "--nocapture"]);
        test.env("FADER_FUZZ_INPUTS", options.inputs.to_string());
        test.env("FADER_FUZZ_SEED", options.seed.to_string());
        if let Some(input) = options.input {
            test.env("FADER_FUZZ_ONLY", input.to_string());
        }
        if !command::succeeds(&mut test)? {
            failed.push(name);
        }
    }
    match failed.is_empty() {
        true => println!("fuzz: no target panicked"),
        false => println!("fuzz: failed: {}", failed.join(", ")),
    }
    Ok(failed.is_empty())
}
