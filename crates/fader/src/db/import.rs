//! `fader db import`: a file of CSV or JSON lines into a collection.
//!
//! Each line becomes a JSON object under the value of its key field. Lines are committed in
//! transactions, in their order. After an interrupt or a failure the number of lines that are
//! committed is printed: writing a line again changes nothing.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail};
use clap::{Args, ValueEnum};
use fader_client::Access;
use fader_database::{Database, Level, Transaction};
use serde_json::{Map, Value};

use crate::cloud::Where;
use crate::sdb::progress::Progress;

/// Lines of one transaction, and their bytes: one message holds them.
const LINES: usize = 1_000;
const BYTES: usize = 120_000;
/// The exit code after an interrupt (128 + SIGINT).
const EXIT_INTERRUPTED: u8 = 130;

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
    /// How the file is written; by default as its name ends: .csv, else JSON lines.
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,
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
}

impl Format {
    fn of(path: &Path) -> Self {
        match path.extension().and_then(|end| end.to_str()) {
            Some("csv") => Format::Csv,
            _ => Format::Json,
        }
    }
}

/// Lines with their numbers, from 1.
type Lines = Box<dyn Iterator<Item = (u64, Result<Map<String, Value>>)>>;

pub(super) async fn run(options: &Options) -> Result<ExitCode> {
    let database = super::open(&options.at, Access::Write).await?;
    let collection = database.collection(&options.collection).await?;
    let Some(key) = options.key.clone().or(collection.key) else {
        bail!("which field is the key? say --key FIELD");
    };
    let input: Box<dyn Read> = match options.file.to_str() {
        Some("-") => Box::new(std::io::stdin()),
        _ => {
            let context = || format!("cannot read {}", options.file.display());
            Box::new(File::open(&options.file).with_context(context)?)
        }
    };
    let format = options.format.unwrap_or_else(|| Format::of(&options.file));
    let mut import = Import {
        database: &database,
        options,
        key,
        progress: Progress::new(None),
        lines: 0,
        bad: 0,
    };
    let outcome = tokio::select! {
        done = import.all(lines(input, format)?) => done.map(|()| true),
        _ = tokio::signal::ctrl_c() => Ok(false),
    };
    import.progress.finish();
    let (lines, bad) = (import.lines, import.bad);
    eprintln!("{lines} lines are committed, {bad} bad ones left out");
    match outcome {
        Ok(true) => {
            let closed = database.close().await;
            closed.context("all is committed, but not yet in pages: run `fader db checkpoint`")?;
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
    progress: Progress,
    /// Lines that are committed.
    lines: u64,
    bad: u64,
}

impl Import<'_> {
    async fn all(&mut self, lines: Lines) -> Result<()> {
        let mut transaction = self.database.begin(self.options.level);
        let (mut count, mut bytes) = (0, 0);
        for (number, line) in lines {
            let record = line.and_then(|fields| self.record(&fields));
            let (key, value) = match record {
                Ok(record) => record,
                Err(error) if self.options.skip_bad => {
                    self.progress.say(&format!("line {number}: {error:#}"));
                    self.bad += 1;
                    continue;
                }
                Err(error) => return Err(error.context(format!("line {number}"))),
            };
            let put = transaction
                .put(&self.options.collection, key.as_bytes(), &value)
                .await;
            put.with_context(|| format!("line {number}"))?;
            count += 1;
            bytes += key.len() + value.len();
            if LINES <= count || BYTES <= bytes {
                let next = self.database.begin(self.options.level);
                self.commit(std::mem::replace(&mut transaction, next), count)
                    .await?;
                (count, bytes) = (0, 0);
            }
        }
        self.commit(transaction, count).await
    }

    async fn commit(&mut self, transaction: Transaction, count: usize) -> Result<()> {
        transaction.commit().await?;
        self.lines += count as u64;
        let done = format!("{} lines committed", self.lines);
        self.progress.show(self.lines, done);
        Ok(())
    }

    /// A line's key and record.
    fn record(&self, fields: &Map<String, Value>) -> Result<(String, Vec<u8>)> {
        let key = match fields.get(&self.key) {
            Some(Value::String(key)) => key.clone(),
            Some(Value::Number(key)) => key.to_string(),
            Some(_) => bail!("field {:?} is neither text nor a number", self.key),
            None => bail!("there is no field {:?}", self.key),
        };
        Ok((key, serde_json::to_vec(fields)?))
    }
}

/// The lines of a file.
fn lines(input: Box<dyn Read>, format: Format) -> Result<Lines> {
    match format {
        Format::Json => {
            let lines = BufReader::new(input).lines();
            let numbered = (1..).zip(lines);
            let parsed = numbered.filter_map(|(number, line)| match line {
                Ok(line) if line.trim().is_empty() => None,
                Ok(line) => {
                    let fields = serde_json::from_str::<Map<String, Value>>(&line);
                    Some((number, fields.context("it is no JSON object")))
                }
                Err(error) => Some((number, Err(error.into()))),
            });
            Ok(Box::new(parsed))
        }
        Format::Csv => {
            let mut reader = csv::Reader::from_reader(input);
            let header: Vec<String> = {
                let header = reader.headers().context("the header")?;
                header.iter().map(str::to_owned).collect()
            };
            let rows = reader.into_records().map(move |row| {
                let line = row.as_ref().ok().and_then(|row| row.position());
                let number = line.map_or(0, csv::Position::line);
                let fields = row.map_err(|error| anyhow!(error)).map(|row| {
                    let names = header.iter().cloned();
                    let values = row.iter().map(|value| Value::String(value.to_owned()));
                    names.zip(values).collect::<Map<String, Value>>()
                });
                (number, fields)
            });
            Ok(Box::new(rows))
        }
    }
}
