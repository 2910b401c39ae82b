//! `fader measure`: instruments for any endpoint. One file per instrument.

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;
use fader_services::ErrorCode;

use crate::failure::Report;
use crate::interrupt::EXIT_INTERRUPTED;

mod bookstore;
mod calibrate;
mod check;
mod compare;
mod conformance;
mod consistency;
mod latency;
pub(crate) mod overload;
mod own;
mod staleness;
mod target;
mod threads;
mod window;
mod workload;

/// Which instrument.
#[derive(Subcommand)]
pub(crate) enum Options {
    /// Does a service keep what the systems of Fader rely on? Says it promise by promise.
    Conformance(conformance::Options),
    /// Does a log of operations keep what a service promises? Names the operations that break it.
    Check(check::Options),
    /// Writes a log in another format.
    Convert(check::Convert),
    /// Is one run worse than another? Compares the response times of their logs.
    Compare(compare::Options),
    /// Loads a model or a service with a workload of YCSB, and says how long it took.
    Run(workload::Options),
    /// How old is what eventual reads show? The experiment of Ampaporn and Gertphol, ours beside
    /// the paper's.
    Staleness(staleness::Options),
    /// What does a consistent read or a conditional put cost? The first experiment of "The cost of
    /// eventual consistency", ours beside the paper's.
    Latency(latency::Options),
    /// Do threads hide what strong requests cost? The second experiment of "The cost of eventual
    /// consistency", each of its claims judged.
    Threads(threads::Options),
    /// When does a service refuse with 503? The third experiment of "The cost of eventual
    /// consistency".
    Overload(overload::Options),
    /// How good are these measurements themselves? Measures what is known.
    Calibrate(calibrate::Options),
    /// What does a transaction of the database take and cost, level by level? The experiments of
    /// "Building a database on S3" in virtual time, ours beside the paper's.
    Bookstore(bookstore::Options),
    /// How fast is a service used whose capacity is unknown? Runs the article's five phases.
    Window(window::Options),
    /// What does each level cost when members are far apart, and when is it available? Draws the
    /// figures of CRAQamo, ours beside the paper's.
    Consistency(consistency::Options),
}

/// Carries out one `fader measure` command.
pub(crate) async fn run(options: Options) -> Result<ExitCode> {
    match options {
        Options::Check(options) => Ok(check::run(&options)),
        Options::Bookstore(options) => measured(bookstore::run(&options)),
        Options::Convert(options) => Ok(check::convert(&options)),
        Options::Compare(options) => Ok(compare::run(&options)),
        Options::Calibrate(options) => Ok(calibrate::run(&options)),
        Options::Run(options) => measured(workload::run(&options).await),
        Options::Staleness(options) => measured(staleness::run(&options).await),
        Options::Latency(options) => measured(latency::run(&options).await),
        Options::Threads(options) => measured(threads::run(&options).await),
        Options::Overload(options) => measured(overload::run(&options).await),
        Options::Conformance(options) => conformance::run(&options).await,
        Options::Window(options) => window::run(options).await,
        Options::Consistency(options) => consistency::run(&options).await,
    }
}

/// A measurement that failed is told from one that found something bad by its exit code, 2.
fn measured(done: Result<ExitCode>) -> Result<ExitCode> {
    done.or_else(|error| Ok(unusable(&error)))
}

/// Says the failure of a measurement, with its code and what to do. An interrupt ends it as it ends
/// any other command.
fn unusable(error: &anyhow::Error) -> ExitCode {
    let report = Report::of(error);
    note!("{report}");
    match report.code {
        ErrorCode::Interrupted => ExitCode::from(EXIT_INTERRUPTED),
        _ => ExitCode::from(2),
    }
}
