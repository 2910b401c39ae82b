//! `fader measure staleness`: the experiment of Ampaporn and Gertphol (2015), with its tables
//! and figures.
//!
//! A writer writes 0 to 99, one every two seconds. From two seconds on a reader reads as fast as it
//! can until it reads 99, or for five minutes. 24 runs at each level.

mod figures;
mod runs;

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use fader_history::Order;
use fader_history::object::{Log, Operation, Value};
use fader_measure::calibrate::OneKey;
use fader_measure::formats::{self, Format};
use fader_measure::model::Behaviour;
use fader_measure::{
    Arrivals, EVENTUAL, Floor, Intent, Load, Party, Plan, Rate, STRONG, Starts, Until, Workload,
    serve_floor,
};
use tokio::net::TcpListener;

use super::target::{self, MODEL, Run, Seam};
use crate::failure;
use crate::output;

/// Between two writes; the reader begins that much later.
const PERIOD: Duration = Duration::from_secs(2);
/// The reader ends then at the latest.
const READING_MAX: Duration = Duration::from_secs(300);

/// For how long the client is measured alone.
const FLOOR_TIME: Duration = Duration::from_secs(2);
/// A reply to GetAttributes.
const FLOOR_REPLY: &str = "<GetAttributesResponse><GetAttributesResult><Attribute><Name>v</Name>\
    <Value>0</Value></Attribute></GetAttributesResult><ResponseMetadata><RequestId>1</RequestId>\
    <BoxUsage>0</BoxUsage></ResponseMetadata></GetAttributesResponse>";

const EXAMPLES: &str = "\
Examples:
  fader measure staleness                                 the model, in virtual time
  fader measure staleness --out figures                   figures as SVG, logs as JSON lines
  fader measure staleness --runs 1 --writes 20 \\
    --target 'simpledb://?endpoint=http://127.0.0.1:4566'  a service, in real time

The model is fitted to the paper's own quantiles and curve: it shows that the instrument works, and
says nothing about SimpleDB. A service is measured for runs x writes x 2 s at each level, in a
domain whose name begins with `fader-measure-` and that is deleted.
Exit codes: 0 strong reads were always fresh; 1 not so; 2 not measured.";

/// At what, and how long.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// `model`, or a URL of domains.
    #[arg(long, default_value = MODEL, value_name = "TARGET")]
    target: String,

    /// Runs at each level.
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,

    /// Writes of a run.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(2..))]
    writes: u64,

    /// Of the model's random choices.
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Writes the figures (SVG), all numbers (JSON) and each run's log into a folder.
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

/// One run's log, at one level.
pub(super) struct Measured {
    pub(super) level: &'static str,
    pub(super) log: Log,
}

pub(super) async fn run(options: &Options) -> Result<ExitCode> {
    if options.target != MODEL && !options.target.contains("://") {
        return failure::invalid(format_args!(
            "--target is `{MODEL}` or a URL such as simpledb://?endpoint=http://127.0.0.1:4566"
        ));
    }
    let mut measured = Vec::new();
    for level in [EVENTUAL, STRONG] {
        for number in 0..options.runs {
            note_part!("\r{level} reads, run {} of {} ", number + 1, options.runs);
            let seed = options.seed + u64::from(number) + u64::from(level == STRONG) * 1_000_000;
            let log = one(options, level, seed).await?;
            measured.push(Measured { level, log });
        }
    }
    note!();
    let floor = match options.target.starts_with("simpledb:") {
        true => Some(floor().await?),
        false => None,
    };
    let found = figures::Found::new(&measured, floor)?;
    output::tell(&figures::text(&found, &options.target));
    if let Some(folder) = &options.out {
        let context = || format!("cannot write to {}", folder.display());
        figures::write(&found, folder).with_context(context)?;
        keep(&measured, folder).with_context(context)?;
    }
    Ok(ExitCode::from(u8::from(!found.is_strong_fresh())))
}

async fn one(options: &Options, level: &'static str, seed: u64) -> Result<Log> {
    let last = Value::Number(i64::try_from(options.writes - 1)?);
    let phases = |seam: &Seam| {
        let starts = Starts::Rate {
            rate: Rate::Constant(1.0 / PERIOD.as_secs_f64()),
            arrivals: Arrivals::Constant,
            seed: 0,
        };
        let writer = party(
            seam,
            level,
            Load::Open(starts),
            Until::Operations(options.writes),
        );
        let until = Until::Elapsed(PERIOD + READING_MAX);
        let reader = Party {
            workload: Arc::new(UntilShown(last.clone())),
            first: 1,
            ..party(seam, level, Load::Closed, until)
        };
        vec![vec![(Duration::ZERO, writer), (PERIOD, reader)]]
    };
    target::run(&Run {
        target: &options.target,
        behaviour: Behaviour::of_2015(),
        seed,
        value_bytes: 1,
        levels: vec![level],
        order: Order::OneWriter,
        phases: &phases,
    })
    .await
}

/// Reads a second of the same reader at a server of this process that answers a constant: what the
/// client can do at most.
async fn floor() -> Result<f64> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!(
        "simpledb://?endpoint=http://{}&unsigned=true",
        listener.local_addr()?
    );
    let floor = Floor::of(FLOOR_REPLY.into(), [("content-type", "text/xml")]);
    let server = tokio::spawn(serve_floor(listener, floor));
    let phases = |seam: &Seam| {
        let reader = Party {
            workload: Arc::new(OneKey { is_writer: false }),
            ..party(seam, EVENTUAL, Load::Closed, Until::Elapsed(FLOOR_TIME))
        };
        vec![vec![(Duration::ZERO, reader)]]
    };
    let log = target::run(&Run {
        target: &url,
        behaviour: Behaviour::of_2015(),
        seed: 0,
        value_bytes: 1,
        levels: vec![EVENTUAL],
        order: Order::OneWriter,
        phases: &phases,
    })
    .await;
    server.abort();
    let done = log?
        .operations
        .iter()
        .filter(|one| one.done().is_some())
        .count();
    Ok(done as f64 / FLOOR_TIME.as_secs_f64())
}

/// The writer's party.
fn party(seam: &Seam, level: &str, load: Load, until: Until) -> Party {
    Party {
        plan: Plan {
            name: "staleness".to_owned(),
            load,
            until,
            connections: 1,
            threads: 1,
            errors_max: None,
            levels: vec![level.into()],
        },
        workload: Arc::new(OneKey { is_writer: true }),
        provider: seam.provider.clone(),
        endpoint: seam.endpoint.clone(),
        first: 0,
    }
}

/// Reads until this is shown.
struct UntilShown(Value);

impl Workload for UntilShown {
    fn plan(&self, sequence: u64) -> Intent {
        OneKey { is_writer: false }.plan(sequence)
    }

    fn goes_on(&self, operation: &Operation) -> bool {
        let reply = operation.done().map(|(_, reply)| reply);
        reply.and_then(|reply| reply.shown.as_ref()) != Some(&self.0)
    }
}

/// Writes each run's log.
fn keep(measured: &[Measured], folder: &Path) -> Result<()> {
    for level in [EVENTUAL, STRONG] {
        let of_level = measured.iter().filter(|one| one.level == level);
        for (number, one) in of_level.enumerate() {
            let path = folder.join(format!("{level}-{:02}.jsonl", number + 1));
            write_log(&one.log, &path)?;
        }
    }
    Ok(())
}

/// Writes a log in the format that the path tells.
pub(super) fn write_log(log: &Log, path: &Path) -> Result<()> {
    let format = Format::of_path(path);
    let format = format.ok_or_else(|| formats::FormatError::Unknown(path.to_owned()))?;
    let file = File::create(path).with_context(|| path.display().to_string())?;
    let out = formats::write(format, &log.header, BufWriter::new(file))?;
    let mut out = out.context("Jepsen's text logs are only read: write .edn")?;
    for operation in &log.operations {
        out.operation(operation)?;
    }
    Ok(out.finish()?)
}
