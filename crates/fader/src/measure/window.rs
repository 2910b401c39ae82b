//! `fader measure window`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use fader_client::SystemClock;
use fader_cloud::Clock;
use fader_history::object::Log;
use fader_measure::{ClientKind, Phases, Recording, Sender, THREADS, chart, run_phases};
use fader_window::Rule;

use super::staleness::write_log;
use crate::{endpoint, output};

const EXAMPLES: &str = "\
The five phases: put 10,000 items of two attributes; three queries, which find 10,000, 6,971 and
9,900 of them, with a get for each as soon as it is found; delete them all. The seed of 2008 did
this on one thread with a congestion window, in 120, 9, 5, 7 and 110 seconds.

Examples (the first in another terminal):
  fader serve --limit gets=1300/s+100,puts=75/s+10,latency=113ms
  fader measure window --plot window.svg
  fader measure window --client threads --log threads.json
  fader measure window --show threads.json --plot threads.svg
  fader measure window --also http://127.0.0.2:4566 --also http://127.0.0.3:4566

It creates a domain whose name begins with `fader-`, and deletes it.
Exit codes: 0 all was answered, and as it was put; 1 not so.";

/// Against what, and how.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Who sends.
    #[arg(long, value_enum, default_value_t = Who::Window)]
    client: Who,

    /// Another address of the same service; all are used in turn. May be repeated.
    #[arg(long, value_name = "URL")]
    also: Vec<String>,

    /// Items to put.
    #[arg(long, default_value_t = 10_000, value_name = "COUNT")]
    items: u32,

    /// Writes what happened, step by step (JSON).
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,

    /// Writes every operation, for `fader measure check` (JSON lines, or what the name ends in).
    #[arg(long, value_name = "FILE", conflicts_with = "show")]
    operations: Option<PathBuf>,

    /// Draws requests a second and connections over time (SVG).
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,

    /// Measures nothing, and shows what a log says.
    #[arg(long, value_name = "LOG", conflicts_with_all = ["log", "also"])]
    show: Option<PathBuf>,

    #[command(flatten)]
    endpoint: endpoint::Flags,
}

#[derive(Clone, Copy, ValueEnum)]
enum Who {
    /// Fader's client with its congestion windows.
    Window,
    /// The same with the rule of 2008.
    Seed,
    /// 34 threads that back off exponentially, up to 400 ms.
    Threads,
}

pub(super) async fn run(options: Options) -> Result<ExitCode> {
    let recording = match &options.show {
        Some(path) => read(path)?,
        None => {
            let (recording, log) = measure(&options).await?;
            if let Some(path) = &options.operations {
                write_log(&log, path)?;
            }
            recording
        }
    };
    output::print(&recording.table())?;
    let write = |path: &Option<PathBuf>, text: String| match path {
        None => Ok(()),
        Some(path) => {
            std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
        }
    };
    write(&options.log, serde_json::to_string(&recording)?)?;
    write(&options.plot, chart(&recording))?;
    if recording.is_right() {
        return Ok(ExitCode::SUCCESS);
    }
    note!("some requests were given up, or some answers were wrong");
    Ok(ExitCode::FAILURE)
}

async fn measure(options: &Options) -> Result<(Recording, Log)> {
    let way = match options.client {
        Who::Window => ClientKind::Window(Rule::Adaptive),
        Who::Seed => ClientKind::Window(Rule::Aimd),
        Who::Threads => ClientKind::Threads(THREADS),
    };
    let mut endpoints = vec![options.endpoint.url("SIMPLEDB")];
    let also = options.also.iter().map(|url| url.trim_end_matches('/'));
    endpoints.extend(also.map(str::to_owned));
    let (credentials, settings) = (
        options.endpoint.credentials()?,
        options.endpoint.settings()?,
    );
    let phases = Phases {
        items: options.items,
        domain: format!("fader-window-{}", SystemClock::default().wall().as_millis()),
    };
    // One thread for all, as the seed had.
    let alone = move || {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build()?;
        runtime.block_on(async {
            let sender = Sender::new(way, &endpoints, credentials.as_ref(), &settings)?;
            anyhow::Ok(run_phases(&phases, sender).await?)
        })
    };
    tokio::task::spawn_blocking(alone).await?
}

fn read(path: &Path) -> Result<Recording> {
    let context = || format!("cannot read {}", path.display());
    let text = std::fs::read_to_string(path).with_context(context)?;
    serde_json::from_str(&text).with_context(context)
}
