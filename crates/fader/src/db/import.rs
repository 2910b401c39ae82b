//! `fader db import`: a file of CSV, JSON lines or Parquet into a collection.
//!
//! Each line or row becomes a JSON object under the value of its key field.
//!
//! Into an empty collection they go as one bulk load: sorted, and visible at once or not at all.
//! Otherwise, and when another client writes meanwhile, they are committed in transactions. After
//! an interrupt or a failure the number of lines that are committed is printed: to write a line
//! again changes nothing.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use fader_client::Access;
use fader_cloud::ErrorKind;
use fader_database::{
    Database, INDEXED_KEY_BYTES_MAX, KEY_BYTES_MAX, Level, Load, RECORD_BYTES_MAX, Transaction,
};
use serde_json::{Map, Value};

use super::lines;
use super::price::Price;
use super::sort::{Record, Sorter};
use crate::cloud::Where;
use crate::failure;
use crate::interrupt::{EXIT_INTERRUPTED, Interrupts};
use crate::sdb::progress::Progress;

/// Lines of one transaction, and their bytes: one message holds them.
const LINES: u64 = 1_000;
const BYTES: usize = 120_000;
/// After so many records progress is shown.
const SHOWN: u64 = 10_000;

/// What to import, how and where from.
#[derive(Args)]
pub(super) struct Options {
    #[command(flatten)]
    at: Where,
    /// The collection.
    collection: String,
    /// The file; `-` reads standard input.
    file: PathBuf,
    /// The field that is the key; by default the collection's own.
    #[arg(long, value_name = "FIELD")]
    key: Option<String>,
    /// The level of its transactions: naive, basic, monotonic or atomic.
    #[arg(long, value_name = "LEVEL", default_value = "basic")]
    level: Level,
    /// How the file is written; by default as its name ends: .csv, .parquet, else JSON lines.
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,
    #[command(flatten)]
    price: Price,
    /// Commits lines in transactions also where the collection is empty.
    #[arg(long)]
    transactions: bool,
    /// Counts bad lines and goes on, instead of ending at the first.
    #[arg(long)]
    skip_bad: bool,
}

/// Formats of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// A header, then a record in each row.
    Csv,
    /// A JSON object in each line.
    Json,
    /// Columns of values, in row groups.
    Parquet,
}

impl Format {
    fn of(path: &Path) -> Self {
        match path.extension().and_then(|end| end.to_str()) {
            Some("csv") => Format::Csv,
            Some("parquet") => Format::Parquet,
            _ => Format::Json,
        }
    }
}

/// A line or row of a file.
pub(super) struct Line {
    /// Its number, from 1.
    pub(super) number: u64,
    /// How many are lost when it is bad.
    pub(super) count: u64,
    /// What it says.
    pub(super) fields: Result<Map<String, Value>>,
}

/// The lines of a file.
pub(super) type Lines = Box<dyn Iterator<Item = Line>>;

impl Line {
    pub(super) fn new(number: u64, fields: Result<Map<String, Value>>) -> Self {
        Line {
            number,
            count: 1,
            fields,
        }
    }
}

pub(super) async fn run(options: &Options) -> Result<ExitCode> {
    let database = super::open(&options.at, Access::Write).await?;
    let collection = database.collection(&options.collection).await?;
    let Some(key) = options.key.clone().or(collection.key) else {
        return failure::invalid("which field is the key? say --key FIELD");
    };
    let lines = open(options).with_context(|| options.file.display().to_string())?;
    let mut import = Import {
        database: &database,
        options,
        key,
        key_bytes_max: match collection.indexes.is_empty() {
            true => KEY_BYTES_MAX,
            false => INDEXED_KEY_BYTES_MAX,
        },
        progress: Progress::new(None),
        read: 0,
        committed: 0,
        bad: 0,
    };
    let mut interrupts = Interrupts::listen()?;
    let outcome = tokio::select! {
        done = import.all(lines) => done.map(|()| true),
        () = interrupts.next() => Ok(false),
    };
    import.progress.finish();
    let (committed, bad) = (import.committed, import.bad);
    note!("{committed} lines are committed, {bad} bad ones left out");
    match outcome {
        Ok(true) => {
            options.price.show_all(&database)?;
            let closed = database.clone().close().await;
            closed.context("all is committed, but not yet in pages: run `fader db checkpoint`")?;
            options.price.keep(&database, &options.collection).await?;
            Ok(if bad == 0 {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            })
        }
        Ok(false) => Ok(ExitCode::from(EXIT_INTERRUPTED)),
        Err(error) => Err(error),
    }
}

struct Import<'a> {
    database: &'a Database,
    options: &'a Options,
    key: String,
    key_bytes_max: usize,
    progress: Progress,
    /// Good lines.
    read: u64,
    /// Lines that are committed.
    committed: u64,
    bad: u64,
}

impl Import<'_> {
    async fn all(&mut self, lines: Lines) -> Result<()> {
        let load = match self.options.transactions {
            true => None,
            false => match self.database.load(&self.options.collection).await {
                Err(error) if error.kind == ErrorKind::Precondition => None,
                load => Some(load?),
            },
        };
        let Some(load) = load else {
            return self.in_transactions(lines).await;
        };
        let mut sorter = Sorter::new();
        for line in lines {
            if let Some((_, record)) = self.good(line)? {
                sorter
                    .push(record)
                    .context("a file for sorting, in TMPDIR")?;
                // An interrupt is heard here.
                if self.read.is_multiple_of(SHOWN) {
                    let done = format!("{} lines read", self.read);
                    self.progress.show(self.read, done);
                    tokio::task::yield_now().await;
                }
            }
        }
        sorter.finish();
        match self.load(load, &mut sorter).await {
            Err(error) if is_overtaken(&error) => {
                self.progress
                    .say("another client writes too: going on in transactions");
                self.sorted_in_transactions(&mut sorter).await
            }
            done => done,
        }
    }

    /// All records at once.
    async fn load(&mut self, mut load: Load, sorter: &mut Sorter) -> Result<()> {
        let mut records = sorter.records()?;
        let mut count = 0_u64;
        while let Some((key, value)) = records.next()? {
            load.push(&key, &value).await?;
            count += 1;
            if count.is_multiple_of(SHOWN) {
                self.progress
                    .show(count, format!("{count} records written"));
                tokio::task::yield_now().await;
            }
        }
        load.finish().await?;
        self.committed = self.read;
        Ok(())
    }

    async fn sorted_in_transactions(&mut self, sorter: &mut Sorter) -> Result<()> {
        let mut batch = self.batch();
        let mut records = sorter.records()?;
        while let Some(record) = records.next()? {
            if batch.put(&self.options.collection, record).await? {
                let next = self.batch();
                self.commit(std::mem::replace(&mut batch, next)).await?;
            }
        }
        self.commit(batch).await?;
        self.committed = self.read;
        Ok(())
    }

    async fn in_transactions(&mut self, lines: Lines) -> Result<()> {
        let mut batch = self.batch();
        for line in lines {
            let Some((number, record)) = self.good(line)? else {
                continue;
            };
            let put = batch.put(&self.options.collection, record).await;
            if put.with_context(|| format!("line {number}"))? {
                let next = self.batch();
                self.commit(std::mem::replace(&mut batch, next)).await?;
            }
        }
        self.commit(batch).await
    }

    fn batch(&self) -> Batch {
        Batch {
            transaction: self.database.begin(self.options.level),
            count: 0,
            bytes: 0,
        }
    }

    async fn commit(&mut self, batch: Batch) -> Result<()> {
        batch.transaction.commit().await?;
        self.committed += batch.count;
        let done = format!("{} lines committed", self.committed);
        self.progress.show(self.committed, done);
        Ok(())
    }

    /// A line's record; none when it is bad and such are left out.
    fn good(&mut self, line: Line) -> Result<Option<(u64, Record)>> {
        let (number, count) = (line.number, line.count);
        let lines = match count {
            1 => format!("line {number}"),
            count => format!("lines {number} to {}", number + count - 1),
        };
        match line.fields.and_then(|fields| self.record(&fields)) {
            Ok(record) => {
                self.read += 1;
                Ok(Some((number, record)))
            }
            Err(error) if self.options.skip_bad && !lines::is_unreadable(&error) => {
                self.progress.say(&format!("{lines}: {error:#}"));
                self.bad += count;
                Ok(None)
            }
            Err(error) => Err(error.context(lines)),
        }
    }

    /// A line's key and record.
    fn record(&self, fields: &Map<String, Value>) -> Result<Record> {
        let key = match fields.get(&self.key) {
            Some(Value::String(key)) => key.clone(),
            Some(Value::Number(key)) => key.to_string(),
            Some(_) => {
                return failure::invalid(format_args!(
                    "field {:?} is neither text nor a number",
                    self.key
                ));
            }
            None => {
                return failure::invalid(format_args!("there is no field {:?}", self.key));
            }
        };
        let value = serde_json::to_vec(fields)?;
        for (what, size, max) in [
            ("key", key.len(), self.key_bytes_max),
            ("record", value.len(), RECORD_BYTES_MAX),
        ] {
            if max < size {
                return failure::invalid(format_args!(
                    "a {what} of {size} bytes: at most {max} are possible"
                ));
            }
        }
        Ok((key.into_bytes(), value))
    }
}

/// Lines of one transaction.
struct Batch {
    transaction: Transaction,
    count: u64,
    bytes: usize,
}

impl Batch {
    /// Adds a record; whether the batch is full.
    async fn put(&mut self, collection: &str, record: Record) -> Result<bool> {
        let (key, value) = record;
        self.transaction.put(collection, &key, &value).await?;
        self.count += 1;
        self.bytes += key.len() + value.len();
        Ok(LINES <= self.count || BYTES <= self.bytes)
    }
}

/// Whether another client changed the collection during a bulk load.
fn is_overtaken(error: &anyhow::Error) -> bool {
    let cause = error.downcast_ref::<fader_cloud::Error>();
    cause.is_some_and(|cause| cause.kind == ErrorKind::Precondition)
}

/// Opens the file, or standard input.
fn open(options: &Options) -> Result<Lines> {
    let format = options.format.unwrap_or_else(|| Format::of(&options.file));
    let is_stdin = options.file.as_os_str() == "-";
    let file = || File::open(&options.file).context("it cannot be opened");
    match format {
        Format::Parquet if is_stdin => {
            failure::invalid("Parquet is read from its end: name a file")
        }
        Format::Parquet => super::parquet::rows(file()?),
        Format::Csv if is_stdin => lines::of_csv(Box::new(std::io::stdin())),
        Format::Csv => lines::of_csv(Box::new(file()?)),
        Format::Json if is_stdin => Ok(lines::of_json(Box::new(std::io::stdin()))),
        Format::Json => Ok(lines::of_json(Box::new(file()?))),
    }
}
