//! `fader measure overload`: the third experiment of "The cost of eventual consistency".
//!
//! Worker processes of 100 threads that get and 100 that put, one more in each round, until the
//! service answers 503. The bodies of these answers are compared with the one that the paper shows.

mod figures;
pub(crate) mod job;
mod worker;

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use fader_services::ErrorCode;

use super::own::Own;
use super::target::Raw;
use super::workload::time;
use crate::allocator;
use crate::failure;
use crate::output;
use worker::Told;

/// A capacity that three workers reach and four exceed.
const LIMIT: &str = "gets=900/s+300,puts=700/s+300,latency=400ms";

const EXAMPLES: &str = "\
Examples:
  fader measure overload                                 a server of its own, of known capacity
  fader measure overload --limit gets=2000/s,puts=300/s,latency=100ms
  fader measure overload --workers 4 --for 60s \\
    --target 'simpledb://?endpoint=http://127.0.0.1:4566'
  fader measure overload --job file:///tmp/overload      workers as map tasks, logs merged

Half of the gets are consistent, half of the puts conditional. Workers are processes of this
machine. Each round has a domain of its own, whose name begins with `fader-measure-`; it is deleted.
Exit codes: 0 measured; 1 an answer with 503 has another body than SimpleDB's; 2 not measured.";

/// At what, and with how many.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// The URL of a SimpleDB over HTTP; without it a `fader serve` is started.
    #[arg(long, value_name = "URL", conflicts_with = "limit")]
    target: Option<String>,

    /// The capacity of the server that is started, as `fader serve --limit` takes it.
    #[arg(long, default_value = LIMIT, value_name = "LIMIT")]
    limit: String,

    /// Worker processes of the last round; the first has one.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=64))]
    workers: u32,

    /// Threads of a worker that get, and as many that put.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=2000))]
    threads: u32,

    /// For how long requests begin in each round.
    #[arg(long = "for", default_value = "10s", value_name = "TIME", value_parser = time)]
    time: Duration,

    /// Items that requests are about, chosen at random.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    items: u64,

    /// Writes all numbers (JSON) and each worker's log into a folder.
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,

    /// Runs the workers of each round as map tasks of a job below this URL; its reducer merges
    /// their logs. Other machines may join: `fader mapreduce worker URL/of-N/out --job JOB`.
    #[arg(long, value_name = "URL", conflicts_with = "out")]
    job: Option<String>,

    /// Is the worker of this number, from 1, in this domain.
    #[arg(long, hide = true, value_names = ["NUMBER", "DOMAIN"], num_args = 2)]
    worker: Option<Vec<String>>,
}

pub(super) async fn run(options: &Options) -> Result<ExitCode> {
    if let Some([number, domain]) = options.worker.as_deref() {
        let url = options.target.as_deref().context("a worker has a target")?;
        worker::run(options, url, number.parse()?, domain).await?;
        return Ok(ExitCode::SUCCESS);
    }
    let (own, url) = match &options.target {
        Some(url) => (None, url.clone()),
        None => {
            let flags = ["--limit".to_owned(), options.limit.clone()];
            let own = Own::start("serve", &flags).await?;
            let url = format!("simpledb://?endpoint={}", own.url);
            (Some(own), url)
        }
    };
    if let Some(folder) = &options.out {
        let context = || format!("cannot write to {}", folder.display());
        std::fs::create_dir_all(folder).with_context(context)?;
    }
    let mut rounds = Vec::new();
    for workers in 1..=options.workers {
        note_part!("\r{workers} of {} workers ", options.workers);
        let raw = match &own {
            Some(own) => Raw::of(&own.url, Own::credentials()).await?,
            None => Raw::at(&url).await?,
        };
        let told = match &options.job {
            None => {
                let of_round = Workers::start(options, &url, &raw.domain, workers, own.is_some())?;
                raw.within(of_round.told()).await?
            }
            Some(place) => {
                let service = own.as_ref().map_or(&url, |own| &own.url);
                let domain = raw.domain.as_str();
                let told = job::round(options, place, service, domain, workers, own.is_some());
                raw.within(told).await?
            }
        };
        rounds.push(told);
    }
    note!();
    let target = match own {
        Some(own) => {
            own.done();
            format!("`fader serve --limit {}`", options.limit)
        }
        None => url,
    };
    let seconds = options.time.as_secs_f64();
    output::tell(&figures::text(&rounds, &target, seconds, options.threads));
    if let Some(folder) = &options.out {
        let path = folder.join("overload.json");
        let context = || format!("cannot write {}", path.display());
        std::fs::write(&path, serde_json::to_vec_pretty(&rounds)?).with_context(context)?;
    }
    let has_other = rounds.iter().flatten().any(|told| 0 < told.bodies.other);
    Ok(ExitCode::from(u8::from(has_other)))
}

/// The workers of a round. A worker whose input ends, ends.
struct Workers(Vec<Child>);

impl Workers {
    fn start(options: &Options, url: &str, domain: &str, count: u32, is_own: bool) -> Result<Self> {
        let mut workers = Workers(Vec::new());
        for number in 1..=count {
            let mut command = Command::new(std::env::current_exe()?);
            allocator::for_many_threads(&mut command);
            command
                .args([
                    "measure",
                    "overload",
                    "--worker",
                    &number.to_string(),
                    domain,
                ])
                .args(["--target", url])
                .args(["--threads", &options.threads.to_string()])
                .args(["--items", &options.items.to_string()])
                .args(["--for", &format!("{}ms", options.time.as_millis())]);
            if let Some(folder) = &options.out {
                command.arg("--out").arg(log_path(folder, count, number));
            }
            if is_own {
                command.envs(Own::environment());
            }
            let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
            workers.0.push(child.context("cannot start a worker")?);
        }
        Ok(workers)
    }

    /// What all were told. They begin when all are ready.
    async fn told(self) -> Result<Vec<Told>> {
        let (tell, told) = tokio::sync::oneshot::channel();
        // Not on the runtime, whose end would wait for it.
        std::thread::spawn(move || {
            // A command that was interrupted has no use for it.
            let _ = tell.send(self.wait());
        });
        told.await.context("a thread panicked")?
    }

    fn wait(mut self) -> Result<Vec<Told>> {
        let mut outputs = Vec::new();
        for child in &mut self.0 {
            let mut output = BufReader::new(child.stdout.take().context("it is piped")?);
            let mut line = String::new();
            output.read_line(&mut line)?;
            if line != worker::READY {
                return failure::fail(ErrorCode::Internal, "a worker ended before it began");
            }
            outputs.push(output);
        }
        for child in &mut self.0 {
            child
                .stdin
                .as_mut()
                .context("it is piped")?
                .write_all(b"go\n")?;
        }
        let mut all = Vec::new();
        for (child, mut output) in self.0.iter_mut().zip(outputs) {
            let mut text = String::new();
            output.read_to_string(&mut text)?;
            if !child.wait()?.success() {
                return failure::fail(ErrorCode::Failed, "a worker failed; its error is above");
            }
            all.push(serde_json::from_str(&text).context("a worker's numbers")?);
        }
        Ok(all)
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // What has ended already cannot be ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Of a worker's log.
fn log_path(folder: &Path, workers: u32, number: u32) -> PathBuf {
    folder.join(format!("of-{workers}-worker-{number}.jsonl"))
}
