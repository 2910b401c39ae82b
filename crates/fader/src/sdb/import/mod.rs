//! `fader sdb import`: a file of items into a domain.
//!
//! ```text
//! reader thread ──lines──▶ batches of 25 ──▶ several requests in flight ──▶ settled lines
//! ```
//!
//! Invariants:
//! 1. A line is *settled* when its item is stored or the line is rejected with its number. After an
//!    interrupt the number of the first unsettled line is printed.
//! 2. Of two lines with the same item, the later one is sent when the earlier one is settled.
//! 3. Doing it again does no harm: values replace or join a set, so a repeated line is no change.

use std::collections::{BTreeSet, HashSet};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use clap::{Args, ValueEnum};
use fader_client::SimpleDb;
use fader_cloud::ItemPut;
use tokio::task::JoinSet;

use super::progress::Progress;
use crate::failure;
use crate::interrupt::{EXIT_INTERRUPTED, Interrupts};

mod reader;
mod store;

use reader::{Line, Reader};
use store::{Outcome, Settled};

/// SimpleDB's limit on items in a batch.
const BATCH_ITEMS: usize = 25;

/// Text in a batch. SimpleDB takes requests of 1 MB; percent-encoding grows text up to threefold.
const BATCH_BYTES: usize = 300_000;

const EXAMPLES: &str = r#"JSON lines, as `export` writes them:
{"item":"name","attributes":{"one":"value","many":["value","value"]}}
Flat objects are read too, when --item-name says which field names the item.
CSV: a header; the first column names the item, or the one that --item-name names. Several values
stand in columns of the same name, or in one cell with --separator. Empty cells are no values.

A line that cannot be stored is reported with its number; the others are stored, and the exit code
is 1. Importing a file again changes nothing.

Examples:
  fader sdb import books books.jsonl --create
  fader sdb import books books.csv --item-name isbn --separator '|'
  zcat books.jsonl.gz | fader sdb import books -"#;

/// What to import, how and where from.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Options {
    /// The domain.
    domain: String,
    /// The file; `-` is standard input.
    file: PathBuf,
    /// The file's format. Without it, the file's name says it; standard input has JSON lines.
    #[arg(long)]
    format: Option<Format>,
    /// The field or column that names the item.
    #[arg(long, value_name = "FIELD")]
    item_name: Option<String>,
    /// In CSV: the character between several values in one cell.
    #[arg(long, value_name = "CHARACTER")]
    separator: Option<char>,
    /// Add to the values that items have, instead of replacing them.
    #[arg(long)]
    add: bool,
    /// Create the domain if it is absent.
    #[arg(long)]
    create: bool,
    /// Skip the lines before this one; an interrupted import prints where to go on.
    #[arg(long, default_value_t = 1, value_name = "LINE")]
    from_line: u64,
    /// Requests in flight at once.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=64))]
    connections: u16,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// JSON lines.
    Json,
    /// CSV with a header.
    Csv,
}

/// Imports the file.
pub(super) async fn run(service: SimpleDb, options: Options) -> Result<ExitCode> {
    if options.create {
        service.create_domain(&options.domain).await?;
    }
    let lines = reader::start(&options)?;
    let mut import = Import {
        service: Arc::new(service),
        domain: options.domain.into(),
        connections: usize::from(options.connections),
        batch: Vec::new(),
        batch_bytes: 0,
        in_flight: JoinSet::new(),
        names: HashSet::new(),
        unsettled: BTreeSet::new(),
        read_up_to: options.from_line,
        stored: 0,
        rejected: 0,
        interrupts: Interrupts::listen()?,
        progress: Progress::new(lines.total_bytes),
    };
    let result = import.all(lines).await;
    import.progress.finish();
    import.report(result)
}

/// How reading the file ended.
enum End {
    Complete,
    Interrupted,
}

struct Import {
    service: Arc<SimpleDb>,
    domain: Arc<str>,
    connections: usize,
    /// Lines read and not sent yet.
    batch: Vec<(u64, ItemPut)>,
    batch_bytes: usize,
    in_flight: JoinSet<Result<Vec<Settled>>>,
    /// The items of `batch` and of `in_flight`.
    names: HashSet<String>,
    /// Lines that were read and are neither stored nor rejected.
    unsettled: BTreeSet<u64>,
    /// The line after the last one read.
    read_up_to: u64,
    stored: u64,
    rejected: u64,
    interrupts: Interrupts,
    progress: Progress,
}

impl Import {
    async fn all(&mut self, mut lines: Reader) -> Result<End> {
        loop {
            let has_room = self.in_flight.len() < self.connections;
            tokio::select! {
                () = self.interrupts.next() => {
                    self.progress.say("interrupted: waiting for what is in flight");
                    self.drain_until_interrupt().await?;
                    return Ok(End::Interrupted);
                }
                Some(done) = self.in_flight.join_next() => self.settle(done??),
                line = lines.receiver.recv(), if has_room => match line {
                    Some(line) => self.take(line).await?,
                    None => break,
                },
            }
            let position = lines.position();
            self.progress
                .show(position, format!("{} items stored", self.stored));
        }
        self.send();
        self.drain().await?;
        Ok(End::Complete)
    }

    async fn take(&mut self, line: Line) -> Result<()> {
        self.read_up_to = line.number + 1;
        let put = match line.put {
            Ok(put) => put,
            Err(error) => {
                self.reject(line.number, &format!("{error:#}"));
                return Ok(());
            }
        };
        if self.names.contains(&put.name) {
            self.send();
            self.drain().await?;
        }
        let values = put
            .attributes
            .iter()
            .map(|put| put.name.len() + put.value.len());
        let bytes = put.name.len() + values.sum::<usize>();
        if self.batch_bytes + bytes > BATCH_BYTES {
            self.send();
        }
        self.unsettled.insert(line.number);
        self.names.insert(put.name.clone());
        self.batch.push((line.number, put));
        self.batch_bytes += bytes;
        if self.batch.len() == BATCH_ITEMS {
            self.send();
        }
        Ok(())
    }

    fn send(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        let batch = std::mem::take(&mut self.batch);
        self.batch_bytes = 0;
        let (service, domain) = (Arc::clone(&self.service), Arc::clone(&self.domain));
        self.in_flight
            .spawn(async move { store::batch(&service, &domain, batch).await });
    }

    async fn drain(&mut self) -> Result<()> {
        while let Some(done) = self.in_flight.join_next().await {
            self.settle(done??);
        }
        Ok(())
    }

    async fn drain_until_interrupt(&mut self) -> Result<()> {
        loop {
            tokio::select! {
                done = self.in_flight.join_next() => match done {
                    Some(done) => self.settle(done??),
                    None => return Ok(()),
                },
                () = self.interrupts.next() => return Ok(()),
            }
        }
    }

    fn settle(&mut self, lines: Vec<Settled>) {
        for line in lines {
            self.unsettled.remove(&line.number);
            self.names.remove(&line.item);
            match line.outcome {
                Outcome::Stored => self.stored += 1,
                Outcome::Rejected(reason) => self.reject(line.number, &reason),
            }
        }
    }

    fn reject(&mut self, number: u64, reason: &str) {
        self.rejected += 1;
        self.progress.say(&format!("line {number}: {reason}"));
    }

    fn report(&self, result: Result<End>) -> Result<ExitCode> {
        let (stored, rejected) = (self.stored, self.rejected);
        note!("{stored} items stored, {rejected} lines rejected");
        let next = self.unsettled.first().copied().unwrap_or(self.read_up_to);
        match result {
            Ok(End::Complete) if rejected == 0 => Ok(ExitCode::SUCCESS),
            Ok(End::Complete) => Ok(ExitCode::FAILURE),
            Ok(End::Interrupted) => {
                note!("all lines before {next} are settled; go on with --from-line {next}");
                Ok(ExitCode::from(EXIT_INTERRUPTED))
            }
            Err(error) => failure::fail_with_more(
                &error,
                format_args!(
                    "\nall lines before {next} are settled; go on with --from-line {next}"
                ),
            ),
        }
    }
}
