//! The binary `fader`: reads flags, environment and configuration, and hands over.
//!
//! Exit codes: 0 success; 1 failure, with its message, its code and what to do on stderr; 2 a wrong
//! command line. 70 the server's store failed while it ran; 130 an interrupt ended a command, or a
//! second one the server at once.
//!
//! Deliberately absent: decisions about data (`services`), sockets and disks (`gateway`, `node`).

#![warn(clippy::print_stdout, clippy::print_stderr)]

use std::process::ExitCode;

use anyhow::Result;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

// First: its macros are for all others.
#[macro_use]
mod output;

mod allocator;
mod care;
mod cloud;
mod cluster;
mod config;
mod credentials;
mod db;
mod dev;
mod endpoint;
mod failure;
mod interrupt;
mod keys;
mod mapreduce;
mod measure;
mod reference;
mod s3;
mod sdb;
mod serve;
mod sqs;

/// A request is read, decided on and answered by different threads. What one allocates another
/// frees, which the allocator of the C library takes locks for.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Threads of a worker of MapReduce for files.
const FILE_THREADS: usize = 4;

const EXAMPLES: &str = "\
Start here:
  fader serve           a server on 127.0.0.1:4566 with its data in ./fader-data; the first start
                        prints an access key
  fader dev             a cluster of three in one process, with members to kill
  fader sdb --help      a small SimpleDB client, for any endpoint
  fader sqs --help      a small SQS client, for any endpoint
  fader s3 --help       a small S3 client, for any endpoint
  fader cloud --help    queues and domains in a bare bucket: what it promises, and what is in it
  fader config show     every setting of the server, its value and where it comes from";

/// A cloud of your own: durable Amazon SimpleDB, SQS and S3 that unmodified AWS SDKs can use.
#[derive(Parser)]
#[command(
    name = "fader",
    version,
    after_help = EXAMPLES
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serves SimpleDB, SQS and S3 until it is told to stop.
    Serve(Box<serve::Options>),
    /// Serves a whole cluster in one process, to see what it does when members fail.
    Dev(Box<dev::Options>),
    /// Makes a cluster of processes, says how it stands, and changes modes of domains and queues.
    #[command(subcommand)]
    Cluster(cluster::Command),
    /// Reads all that is in a data folder, and says what is damaged.
    Check(care::CheckOptions),
    /// Has a damaged data folder work again.
    Repair(care::RepairOptions),
    /// Creates, lists, disables, enables and rotates access keys.
    Keys(keys::Options),
    /// A small client: domains, items, Select, import and export.
    Sdb(Box<sdb::Options>),
    /// A small client: queues, messages, dead letters.
    Sqs(Box<sqs::Options>),
    /// A small S3 client, for any endpoint.
    S3(Box<s3::Options>),
    /// Looks at a cloud by its URL: a bucket of S3, GCS or Azure, a folder, queues and domains.
    Cloud(Box<cloud::Options>),
    /// A database on a bucket, or in a folder, that many programs write at once, without a server.
    Db(Box<db::Options>),
    /// MapReduce on a bucket, or in a folder, by workers that are all alike, without a master.
    Mapreduce(Box<mapreduce::Options>),
    /// Instruments for any endpoint.
    #[command(subcommand)]
    Measure(measure::Options),
    /// Shows the configuration.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Prints a page of docs/reference as Markdown.
    #[command(hide = true)]
    Reference {
        /// Which page.
        page: reference::Page,
    },
}

#[derive(Subcommand)]
enum ConfigCommand {
    /// Prints every setting of `fader serve` with its value and where the value comes from.
    ///
    /// Takes the same flags as `fader serve`, reads the same environment and file, and checks them
    /// the same way, but starts nothing. Secrets are not shown.
    Show(Box<serve::Options>),
}

fn main() -> ExitCode {
    let matches = match Cli::command().try_get_matches() {
        Ok(matches) => matches,
        Err(error) => return failure::refuse_command_line(&error),
    };
    let cli = match Cli::from_arg_matches(&matches) {
        Ok(cli) => cli,
        Err(error) => return failure::refuse_command_line(&error),
    };
    // The command's own matches know which values came from flags and which from the environment.
    let mut innermost = &matches;
    while let Some((_, inner)) = innermost.subcommand() {
        innermost = inner;
    }
    match run(cli.command, innermost) {
        Ok(code) => code,
        Err(error) if output::is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let report = failure::Report::of(&error);
            note!("{report}");
            ExitCode::from(report.code.row().exit)
        }
    }
}

fn run(command: Command, matches: &clap::ArgMatches) -> Result<ExitCode> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    if let Command::Mapreduce(options) = &command {
        if options.has_little_memory() {
            allocator::keep_little();
        }
        // Each thread has a heap of its own, which keeps what other threads free. With tokio's 512
        // threads for files a job takes many times its `--memory`.
        runtime.max_blocking_threads(FILE_THREADS);
    }
    let runtime = runtime.enable_all().build()?;
    let code = match command {
        Command::Serve(options) => runtime.block_on(serve::run(&options, matches)),
        Command::Dev(options) => runtime.block_on(dev::run(*options, matches)),
        Command::Cluster(command) => runtime.block_on(cluster::run(&command)),
        Command::Check(options) => care::check(&options),
        Command::Repair(options) => care::repair(&options),
        Command::Keys(options) => runtime.block_on(keys::run(options)),
        Command::Sdb(options) => runtime.block_on(sdb::run(*options)),
        Command::Sqs(options) => runtime.block_on(sqs::run(*options)),
        Command::S3(options) => runtime.block_on(s3::run(*options)),
        Command::Cloud(options) => runtime.block_on(cloud::run(&options)),
        Command::Db(options) => runtime.block_on(db::run(*options)),
        Command::Mapreduce(options) => runtime.block_on(mapreduce::run(&options)),
        Command::Measure(options) => runtime.block_on(measure::run(options)),
        Command::Reference { page } => {
            output::print(page.text::<Cli>().trim_end())?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Config(ConfigCommand::Show(options)) => {
            let config = options.config(matches)?;
            output::print(&config.table())?;
            Ok(ExitCode::SUCCESS)
        }
    };
    // A thread that still reads standard input must not keep the process alive.
    runtime.shutdown_background();
    code
}

#[cfg(test)]
mod tests;
