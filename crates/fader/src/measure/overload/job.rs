//! `--job URL`: the workers of a round are map tasks of a job below the URL, and its reducer merges
//! their logs.
//!
//! ```text
//!  URL/of-2/in/worker-1, worker-2 ──▶ map: load ──▶ what it was told, its log
//!     ──▶ reduce ──▶ URL/of-2/out/part-00000 (the log), output-1/part-00000 (all that was told)
//! ```
//!
//! Workers begin at a time that the job names, so that all are ready by then. Other machines join
//! by `fader mapreduce worker URL/of-2/out --job JOB`, with the keys of the service in their
//! environment.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use fader_client::Access;
use fader_history::object::Log;
use fader_mapreduce::{
    Batch, Code, Combining, Context, Definition, Emit, Failure, Format, Map, Outcome, Part,
    Program, Reduce,
};
use fader_measure::formats::{self, join, read_from};
use fader_services::ErrorCode;
use object_store::ObjectStoreExt as _;
use serde::{Deserialize, Serialize};

use super::worker::{Told, worked};
use super::{Options, Own};
use crate::failure;
use crate::mapreduce::{complete, folder};
use crate::measure::target::Raw;

/// The program's name in a job.
pub(crate) const PROGRAM: &str = "measure-overload";
/// How long workers have to come.
const READY: Duration = Duration::from_secs(3);
/// Keys of what a map task emits.
const TOLD: &[u8] = b"told";
const LOG: &[u8] = b"log";

/// What each map task does: the program's one argument.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Order {
    url: String,
    domain: String,
    threads: u32,
    items: u64,
    time_ms: u64,
    /// When it begins, in milliseconds since 1970.
    begin_ms: u64,
}

/// The program, as a library opens it.
#[derive(Debug)]
pub(crate) struct Overload {
    order: Order,
    /// Whether the service is a server of this process.
    is_own: bool,
}

impl Overload {
    /// Opens the program.
    ///
    /// # Errors
    /// `Job`: its argument is not what [`round`] wrote.
    pub(crate) fn open(program: &Program, is_own: bool) -> Outcome<Arc<dyn Code>> {
        let argument = program.arguments.first().map_or("", String::as_str);
        let order = serde_json::from_str(argument);
        let refused = |error| Failure::Job(format!("the arguments of {PROGRAM}: {error}"));
        let order = order.map_err(refused)?;
        Ok(Arc::new(Overload { order, is_own }))
    }
}

impl Code for Overload {
    fn mapper(&self, _: &Context<'_>) -> Outcome<Box<dyn Map>> {
        Ok(Box::new(Worker {
            order: self.order.clone(),
            is_own: self.is_own,
        }))
    }

    fn combining(&self) -> Combining {
        Combining::None
    }

    fn reducer(&self, _: &Context<'_>) -> Outcome<Box<dyn Reduce>> {
        Ok(Box::new(Merger::default()))
    }
}

/// A worker of a round.
struct Worker {
    order: Order,
    is_own: bool,
}

impl Worker {
    fn load(&self, number: u64) -> Result<(Told, Log)> {
        let order = &self.order;
        let begin = UNIX_EPOCH + Duration::from_millis(order.begin_ms);
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build()?;
        let raw = runtime.block_on(async {
            match self.is_own {
                true => Raw::of(&order.url, Own::credentials()).await,
                false => Raw::at(&order.url).await,
            }
        })?;
        // A task that is done again begins at once.
        let wait = begin.duration_since(SystemTime::now()).unwrap_or_default();
        std::thread::sleep(wait.min(READY));
        let time = Duration::from_millis(order.time_ms);
        let (domain, items) = (order.domain.as_str(), order.items);
        let (told, mut log) = worked(&raw, number, domain, items, order.threads, time)?;
        let first = u32::try_from(number)? * 2 * order.threads;
        let operations = log.operations.iter_mut();
        operations.for_each(|one| one.process += first);
        Ok((told, log))
    }
}

impl Map for Worker {
    fn map(&mut self, batch: &Batch<'_>, out: &mut dyn Emit) -> Outcome<()> {
        let number = std::str::from_utf8(batch.bytes).ok();
        let number = number.and_then(|text| text.trim().parse::<u64>().ok());
        let number = number.ok_or_else(|| Failure::task("the input names no worker"))?;
        let (told, log) = self.load(number).map_err(failed)?;
        // Values come in the order of their bytes.
        let place = number.to_be_bytes();
        let told = serde_json::to_vec(&told).map_err(failed)?;
        out.emit(TOLD, &[&place[..], &told].concat());
        let log = text(&log).map_err(failed)?;
        out.emit(LOG, &[&place[..], &log].concat());
        Ok(())
    }
}

/// Merges logs in the order of their workers.
#[derive(Default)]
struct Merger {
    logs: Vec<Log>,
}

impl Reduce for Merger {
    fn begin(&mut self, _: &[u8], _: &mut Part) -> Outcome<()> {
        self.logs.clear();
        Ok(())
    }

    fn value(&mut self, key: &[u8], value: &[u8], out: &mut Part) -> Outcome<()> {
        let cut_off = || Failure::task("a value without its worker");
        let (_, value) = value.split_at_checked(8).ok_or_else(cut_off)?;
        if key == TOLD {
            let told = out.output(1);
            told.extend_from_slice(value);
            told.push(b'\n');
            out.end_record(1);
            return Ok(());
        }
        let mut log = Log::default();
        let read = read_from(
            Path::new("a worker's log"),
            value,
            formats::Format::JsonLines,
            &mut |_, one| log.operations.push(one),
        );
        log.header = read.map_err(failed)?.0;
        self.logs.push(log);
        Ok(())
    }

    fn end(&mut self, _: &[u8], out: &mut Part) -> Outcome<()> {
        if !self.logs.is_empty() {
            let merged = join(std::mem::take(&mut self.logs));
            out.bytes.extend(text(&merged).map_err(failed)?);
            out.records += merged.operations.len() as u64;
        }
        Ok(())
    }
}

/// A failure of the attempt, with its causes.
fn failed(error: impl Into<anyhow::Error>) -> Failure {
    let error: anyhow::Error = error.into();
    Failure::task(format!("{error:#}"))
}

/// A log as lines of JSON.
fn text(log: &Log) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    let out = formats::write(formats::Format::JsonLines, &log.header, &mut text)?;
    let mut out = out.context("it is written")?;
    for operation in &log.operations {
        out.operation(operation)?;
    }
    out.finish()?;
    drop(out);
    Ok(text)
}

/// Runs a round as a job below `place`; what its workers were told.
pub(super) async fn round(
    options: &Options,
    place: &str,
    url: &str,
    domain: &str,
    workers: u32,
    is_own: bool,
) -> Result<Vec<Told>> {
    let folder = folder(place, &format!("of-{workers}"), Access::Write).await?;
    for number in 1..=workers {
        let key = object_store::path::Path::from(format!("in/worker-{number:02}"));
        let put = folder.cloud.objects.put(&key, number.to_string().into());
        put.await?;
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let order = Order {
        url: url.to_owned(),
        domain: domain.to_owned(),
        threads: options.threads,
        items: options.items,
        time_ms: u64::try_from(options.time.as_millis())?,
        begin_ms: u64::try_from((now + READY).as_millis())?,
    };
    let program = Program {
        name: PROGRAM.to_owned(),
        arguments: vec![serde_json::to_string(&order)?],
    };
    let definition = Definition {
        format: Format::Whole,
        reduces: 1,
        // Each worker is a task of its own, and has no second one beside it.
        split_bytes: 1,
        backups: false,
        ..Definition::new(program, vec![folder.below("in")])
    };
    let out = folder.below("out");
    let success = complete(&out, &definition, workers as usize, is_own).await?;
    let told = success
        .files
        .iter()
        .find(|file| file.name.starts_with("output-1/"));
    let told = told.context("no worker told anything")?;
    let key = object_store::path::Path::from(format!("out/{}", told.name));
    let body = folder.cloud.objects.get(&key).await?.bytes().await?;
    let lines = body
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty());
    let told: Vec<Told> = lines
        .map(serde_json::from_slice)
        .collect::<Result<_, _>>()?;
    if told.len() != workers as usize {
        let text = format!("{} of {workers} workers told", told.len());
        return failure::fail(ErrorCode::JobFailed, text);
    }
    note!(
        "\rof {workers}: the merged log is {}/part-00000",
        folder.below("out")
    );
    Ok(told)
}
