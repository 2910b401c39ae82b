//! `fader-bench`: what the house promises about speed and memory, measured.
//!
//! `cargo xtask bench NAME` builds and runs it. Every comparison is made within one run. Its sides
//! are driven by the same generator, interleaved in shuffled rounds, and the result is a ratio of
//! medians with a 95 % interval. With `--quick` it shows that it works and judges nothing.
//!
//! Exit codes: 0 all targets met, or `--quick`; 1 a target was missed; 2 it could not measure.

mod callgrind;
mod checker;
mod client;
mod cloud;
mod commits;
mod cores;
mod crash;
mod database;
mod disk;
mod drive;
mod generator;
mod load;
mod machine;
mod memory;
mod one_node;
mod one_object;
mod reads;
mod report;
mod s3;
mod select;
mod server;
mod simpledb;
mod sqs;
mod steps;
mod window;
mod words;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};
use fader_measure::{Floor, serve_floor};
use tokio::net::TcpListener;

/// Measures Fader.
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Puts and gets against a bare HTTP server, fdatasync and moto_server.
    Simpledb(BeforeOptions),
    /// An equality Select on a million items against the same on ten thousand.
    Select(Options),
    /// Memory of a million items, and the start after a crash.
    Memory(Options),
    /// Steps of the replication core: writes through three members in memory.
    Steps(Options),
    /// What one node costs over an earlier commit, such as the last one without replicas.
    OneNode(BeforeOptions),
    /// Clients that look for a service's capacity, in virtual time: every algorithm, every service.
    Window(Options),
    /// Fader's client on one thread, against a bare loop over hyper's connections.
    Client(Options),
    /// The load generator against wrk, and 50,000 operations a second on one thread.
    Generator(Options),
    /// The checks of logs: ten million operations on registers, and fewer beside Porcupine.
    Checker(Options),
    /// Queues and domains in a bucket, in virtual time; durable sends to a folder, against a bare
    /// loop of the file system's calls.
    Cloud(Options),
    /// The database on object storage, in virtual time: commits of 64 clients against one's, and
    /// against a table with one manifest; idle and silent clients.
    Database(Options),
    /// Queues against ElasticMQ's, long polls, and receives that wait.
    Sqs(sqs::Options),
    /// Objects against MinIO's, and against files of nginx.
    S3(s3::Options),
    /// Kills the server (kill -9) at random moments under load, and checks what it still knows.
    Crash(crash::Options),
    /// Load on servers that run already, for benchmarks of clusters.
    Drive(drive::Options),
    /// The same of objects.
    Objects(s3::load::Options),
    /// Clients that commit to one collection of a new database, for `bench database`.
    Commits(commits::Options),
    /// Point reads of a database in its client's pool, for `bench database`.
    Reads(reads::Options),
    /// The word count of a folder's files by two threads: a floor of other benchmarks.
    Words(words::Options),
    /// A bare HTTP server with a constant answer: the floor of the comparisons.
    Floor(FloorOptions),
}

/// What all benchmarks take.
#[derive(Args)]
struct Options {
    /// The server's binary.
    #[arg(long)]
    fader: PathBuf,
    /// The program of moto_server; without it that comparison is left out.
    #[arg(long)]
    moto: Option<PathBuf>,
    /// Of `checker`: the program that judges by Porcupine; without it that comparison is left out.
    #[arg(long)]
    porcupine: Option<PathBuf>,
    /// Of `generator`: the program of wrk; without it that comparison is left out.
    #[arg(long)]
    wrk: Option<PathBuf>,
    /// A few seconds instead of minutes, and no verdict.
    #[arg(long)]
    quick: bool,
    /// Rounds of each comparison.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Seconds of each side in each round.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Threads of the load generator.
    #[arg(long, default_value_t = 1)]
    threads: u32,
    /// Where the server keeps its data, in a folder of its own that is removed at the end.
    #[arg(long, default_value_os_t = std::env::temp_dir())]
    scratch: PathBuf,
    /// Seed of shuffles and bootstraps.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Writes the results as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Of `window`: writes every cell as CSV.
    #[arg(long)]
    csv: Option<PathBuf>,
    /// Writes the operation logs of all runs, and callgrind's profiles, into a folder.
    #[arg(long)]
    logs: Option<PathBuf>,
    /// Writes the latencies as a plot (SVG).
    #[arg(long)]
    plot: Option<PathBuf>,
}

/// What benchmarks take that compare two binaries.
#[derive(Args)]
struct BeforeOptions {
    #[command(flatten)]
    all: Options,
    /// An earlier commit's binary; without it that comparison is left out.
    #[arg(long)]
    before: Option<PathBuf>,
}

#[derive(Args)]
struct FloorOptions {
    /// Octets of each answer's body.
    #[arg(long)]
    bytes: usize,
    /// Each answer takes a random time of so many milliseconds at most.
    #[arg(long)]
    takes_ms: Option<u64>,
}

impl Options {
    fn runs(&self) -> usize {
        if self.quick { 2 } else { self.runs as usize }
    }

    fn seconds(&self) -> Duration {
        Duration::from_secs_f64(if self.quick { 0.3 } else { self.seconds })
    }
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Simpledb(options) => simpledb::run(&options),
        Command::Select(options) => select::run(&options),
        Command::Memory(options) => memory::run(&options),
        Command::Steps(options) => steps::run(&options),
        Command::OneNode(options) => one_node::run(&options),
        Command::Window(options) => window::run(&options),
        Command::Client(options) => client::run(&options),
        Command::Generator(options) => generator::run(&options),
        Command::Checker(options) => checker::run(&options),
        Command::Sqs(options) => sqs::run(&options),
        Command::S3(options) => s3::run(&options),
        Command::Cloud(options) => cloud::run(&options),
        Command::Database(options) => database::run(&options),
        Command::Crash(options) => crash::run(&options),
        Command::Drive(options) => drive::drive(&options).map(|()| true),
        Command::Objects(options) => s3::load::run(&options).map(|()| true),
        Command::Commits(options) => commits::run(&options).map(|()| true),
        Command::Reads(options) => reads::run(&options).map(|()| true),
        Command::Words(options) => words::run(&options).map(|()| true),
        Command::Floor(options) => floor(&options).map(|()| true),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn floor(options: &FloorOptions) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        println!("listening on http://{}", listener.local_addr()?);
        // What Fader's gateway sends with every answer.
        let headers = [("content-type", "text/xml")];
        let mut floor = Floor::new(options.bytes, headers);
        if let Some(most) = options.takes_ms {
            floor = floor.taking(Duration::ZERO..=Duration::from_millis(most));
        }
        serve_floor(listener, floor).await;
        Ok(())
    })
}
