//! Simulated clusters: builds `fader-simulate` and hands over to it.

use std::ffi::OsString;

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

/// Runs what was asked for.
pub(crate) fn run(options: &Options) -> Result<bool> {
    let arguments = &options.arguments;
    let build = [
        "build",
        "--quiet",
        "--package",
        "fader-simulator",
        "--profile",
        "simulate",
    ];
    command::check(command::cargo().args(build))?;
    command::succeeds(std::process::Command::new("target/simulate/fader-simulate").args(arguments))
}
