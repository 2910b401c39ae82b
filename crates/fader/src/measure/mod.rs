//! `fader measure`: instruments for any endpoint. One file per instrument.

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

mod check;
mod conformance;
mod consistency;
mod window;

/// Which instrument.
#[derive(Subcommand)]
pub(crate) enum Options {
    /// Does a service keep what the systems of Fader rely on? Says it promise by promise.
    Conformance(conformance::Options),
    /// Does a log of operations keep what a service promises? Names the operations that break it.
    Check(check::Options),
    /// Writes a log in another format.
    Convert(check::Convert),
    /// How fast is a service used whose capacity nobody told? Runs the seed's five phases.
    Window(window::Options),
    /// What does each level cost when members are far apart, and when is it available? Draws the
    /// figures of CRAQamo, ours beside the paper's.
    Consistency(consistency::Options),
}

/// Carries out one `fader measure` command.
pub(crate) async fn run(options: Options) -> Result<ExitCode> {
    match options {
        Options::Check(options) => Ok(check::run(&options)),
        Options::Convert(options) => Ok(check::convert(&options)),
        Options::Conformance(options) => conformance::run(&options).await,
        Options::Window(options) => window::run(options).await,
        Options::Consistency(options) => consistency::run(&options).await,
    }
}
