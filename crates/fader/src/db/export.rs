//! `fader db export`: all records of a collection, as JSON lines, CSV or Parquet.

use std::collections::BTreeSet;
use std::io::{BufWriter, Write as _};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use fader_client::Access;
use fader_database::{Level, Transaction};
use serde_json::{Map, Value, json};

use super::ROWS;
use super::cache::Cache;
use super::import::Format;
use super::parquet::Columns;
use crate::cloud::Where;

/// What to export.
#[derive(Args)]
pub(super) struct Options {
    #[command(flatten)]
    at: Where,
    /// The collection.
    collection: String,
    /// How it is written. CSV and Parquet need two passes: the first finds the columns.
    #[arg(long, value_name = "FORMAT", default_value = "json")]
    format: Format,
    #[command(flatten)]
    cache: Cache,
}

pub(super) async fn run(options: &Options) -> Result<ExitCode> {
    let disk = options.cache.open()?;
    let database = super::open_with(&options.at, Access::Read, disk).await?;
    let mut transaction = database.begin(Level::Basic);
    let collection = &options.collection;
    match options.format {
        Format::Json => {
            let mut out = BufWriter::new(std::io::stdout().lock());
            let print = |fields: &Map<String, Value>| {
                serde_json::to_writer(&mut out, fields)?;
                Ok(out.write_all(b"\n")?)
            };
            each(&mut transaction, collection, print).await?;
            out.flush()?;
        }
        Format::Csv => {
            let mut columns = BTreeSet::new();
            let find = |fields: &Map<String, Value>| {
                columns.extend(fields.keys().cloned());
                Ok(())
            };
            each(&mut transaction, collection, find).await?;
            let mut out = csv::Writer::from_writer(std::io::stdout().lock());
            out.write_record(&columns)?;
            let print = |fields: &Map<String, Value>| {
                let cells = columns.iter().map(|name| match fields.get(name) {
                    None => String::new(),
                    Some(Value::String(text)) => text.clone(),
                    Some(value) => value.to_string(),
                });
                Ok(out.write_record(cells)?)
            };
            each(&mut transaction, collection, print).await?;
            out.flush()?;
        }
        Format::Parquet => {
            let mut columns = Columns::default();
            let find = |fields: &Map<String, Value>| {
                columns.see(fields);
                Ok(())
            };
            each(&mut transaction, collection, find).await?;
            let mut out = columns.writer(std::io::stdout())?;
            each(&mut transaction, collection, |fields| out.push(fields)).await?;
            out.finish()?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Calls `take` with each record: the object that was imported, or key and value.
async fn each(
    transaction: &mut Transaction,
    collection: &str,
    mut take: impl FnMut(&Map<String, Value>) -> Result<()>,
) -> Result<()> {
    let mut from = Vec::new();
    loop {
        let rows = transaction.range(collection, &from, None, ROWS).await?;
        for (key, value) in &rows {
            let fields = match serde_json::from_slice(value) {
                Ok(fields) => fields,
                Err(_) => plain(key, value),
            };
            take(&fields).with_context(|| format!("record {key:?}"))?;
        }
        let Some((last, _)) = rows.last().filter(|_| rows.len() == ROWS) else {
            return Ok(());
        };
        from = [last, &b"\0"[..]].concat();
    }
}

/// A record that is no JSON object.
fn plain(key: &[u8], value: &[u8]) -> Map<String, Value> {
    let text = |bytes: &[u8]| json!(String::from_utf8_lossy(bytes));
    [("key", text(key)), ("value", text(value))]
        .map(|(name, value)| (name.to_owned(), value))
        .into_iter()
        .collect()
}
