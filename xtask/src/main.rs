//! Automation of the repository: `cargo xtask ci|tidy|bench|crash|nemesis|simulate|mutants|...`.
//!
//! What a person or a machine runs to know whether a change is good stands here, and nowhere else:
//! no shell scripts, no editor settings. Every command works from the root of the repository and
//! ends with an exit code that says whether all went well.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

mod bench;
mod ci;
mod clouds;
mod command;
mod crash;
mod differ;
mod fake_s3;
mod fuzz;
mod lines;
mod nemesis;
mod previous_build;
mod python;
mod reference;
mod simulate;
mod tidy;
mod upgrade;

/// Automation of the Fader repository.
#[derive(Parser)]
#[command(
    name = "cargo xtask",
    bin_name = "cargo xtask",
    after_help = "Before a commit:  cargo xtask tidy\n\
                  Before a merge:   cargo xtask ci\n\
                  After a change of the store:  cargo xtask crash process, cargo xtask crash power"
)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Everything that must pass before a merge; the last line is `N passed, N failed`.
    ///
    /// Format, tidy rules, clippy, docs, unit and integration tests, and the release binary against
    /// the AWS SDKs (Python, command line, Go, Java). Also a short crash run and a short benchmark.
    Ci(ci::Options),
    /// The house rules that neither rustfmt nor clippy knows. Takes a second.
    Tidy,
    /// Counts the lines of MapReduce without built-in jobs and tests: at most 6,000.
    Lines,
    /// Builds the release binary and measures it: `simpledb`, `select`, `memory`, `steps`,
    /// `one-node`, `sqs`, `window`, `client`, `cloud` or `database`. Clusters of it: `failover`,
    /// `delay`, `scaling` or `etcd`; one under `attacks`.
    Bench(bench::Options),
    /// Crashes a node, or processes on a bucket, on purpose and checks that nothing acknowledged is
    /// lost.
    #[command(subcommand)]
    Crash(crash::Kind),
    /// Tries a million mutations of good inputs on all that reads what strangers send.
    Fuzz(fuzz::Options),
    /// Kills, stops and partitions members of a real cluster, steps their clocks, fills and wipes
    /// their disks, while clients write a history. Porcupine and our own checks judge it.
    ///
    /// In namespaces of its own; where none can be made it says so and does nothing.
    Nemesis(nemesis::Options),
    /// Replaces the members of a cluster of an earlier version by members of this one, under load,
    /// and back.
    ///
    /// It begins with the version before, then with version 3. Builds those versions' binaries from
    /// the history of this clone.
    Upgrade(upgrade::Options),
    /// Runs the suites of conformance on servers that take minutes to build (MinIO and
    /// fake-gcs-server). Attacks databases on MinIO, ElasticMQ and Azurite through Toxiproxy, and
    /// kills their clients. Compares four streaming jobs and two indexes with Hadoop's, and the
    /// meter of 10,000 calls with a proxy before gofakes3. Needs Go, Java, Maven and Node.
    Clouds,
    /// Asks ElasticMQ and Fader the same by scripts of calls, and says what differs and is not in
    /// docs/reference/compatibility/sqs.md. Needs Java and Maven.
    Differ(differ::Options),
    /// Runs simulated clusters, or with `cloud` simulated clouds, each from a seed, and checks
    /// every guarantee: `--help` for more.
    #[command(disable_help_flag = true)]
    Simulate(simulate::Options),
    /// Searches every state that small chains can get into: `--help` for more. With `cloud` it
    /// searches every schedule of small clouds. With `database` it searches the models of its
    /// protocols, with `blocks` those of blocks of objects.
    #[command(disable_help_flag = true)]
    Model(simulate::Options),
    /// Removes each guard of the protocol once. A script, a simulated run or a scenario of the
    /// model must then tell.
    Mutants(simulate::Mutants),
    /// Writes the generated pages of docs/reference: cli.md, configuration.md, errors.md,
    /// metrics.md, xtask.md and ids.md. With `--check` it says whether they are as the code has
    /// them.
    Docs(reference::Options),
    /// Measures a release build of the binary from nothing (the promise: under 10 minutes on 2
    /// cores).
    ReleaseTime(ReleaseTime),
}

#[derive(Args)]
struct ReleaseTime {
    /// Where to build; the folder is deleted first and afterwards.
    #[arg(long, default_value = "target/release-time")]
    target_dir: PathBuf,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = std::env::set_current_dir(command::root())
        .map_err(anyhow::Error::from)
        .and_then(|()| match cli.task {
            Task::Ci(options) => ci::run(&options),
            Task::Tidy => tidy::run(),
            Task::Lines => lines::run(),
            Task::Bench(options) => bench::run(&options),
            Task::Crash(kind) => crash::run(&kind),
            Task::Fuzz(options) => fuzz::run(&options),
            Task::Nemesis(options) => nemesis::run(&options),
            Task::Upgrade(options) => upgrade::run(&options),
            Task::Clouds => clouds::run(),
            Task::Differ(options) => differ::run(&options),
            Task::Simulate(options) => simulate::run(&options),
            Task::Model(options) => simulate::model(&options),
            Task::Mutants(options) => simulate::mutants(&options),
            Task::Docs(options) => reference::run::<Cli>(&options),
            Task::ReleaseTime(options) => bench::release_time(&options.target_dir),
        });
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
