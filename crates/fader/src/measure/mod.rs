//! `fader measure`: instruments for any endpoint. One file per instrument.

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

mod conformance;

/// Which instrument.
#[derive(Subcommand)]
pub(crate) enum Options {
    /// Does a service keep what the systems of Fader rely on? Says it promise by promise.
    Conformance(conformance::Options),
}

/// Carries out one `fader measure` command.
pub(crate) async fn run(options: Options) -> Result<ExitCode> {
    match options {
        Options::Conformance(options) => conformance::run(&options).await,
    }
}
