//! `fader db get` and `scan`.

use std::io::{BufWriter, Write as _};
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use fader_database::{Level, Transaction};

use super::cache::Cache;
use super::price::Price;
use super::{ROWS, index};
use crate::cloud::Where;
use crate::failure;

/// Whether reads see what no page has yet.
#[derive(Args)]
pub(super) struct Fresh {
    /// Sees all that is committed, also what no page has yet. Only where queues are in the bucket.
    #[arg(long)]
    fresh: bool,
}

impl Fresh {
    /// Makes the transaction's reads of a collection fresh, if that is asked for.
    pub(super) async fn apply(
        &self,
        transaction: &mut Transaction,
        collection: &str,
    ) -> Result<()> {
        if self.fresh && !transaction.refresh(collection).await? {
            return failure::invalid(
                "--fresh: the queues of this service do not show all their messages",
            );
        }
        Ok(())
    }
}

#[derive(Args)]
pub(super) struct Get {
    #[command(flatten)]
    pub(super) at: Where,
    /// The collection.
    pub(super) collection: String,
    /// The record's key.
    key: String,
    #[command(flatten)]
    pub(super) fresh: Fresh,
    #[command(flatten)]
    pub(super) price: Price,
    #[command(flatten)]
    pub(super) cache: Cache,
}

#[derive(Args)]
pub(super) struct Scan {
    #[command(flatten)]
    pub(super) at: Where,
    /// The collection.
    pub(super) collection: String,
    /// The least key.
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(super) from: String,
    /// The key before which it ends.
    #[arg(long)]
    pub(super) until: Option<String>,
    /// Records at most.
    #[arg(long, default_value_t = usize::MAX, hide_default_value = true)]
    pub(super) limit: usize,
    #[command(flatten)]
    pub(super) lookup: index::Lookup,
    #[command(flatten)]
    pub(super) fresh: Fresh,
    #[command(flatten)]
    pub(super) price: Price,
    #[command(flatten)]
    pub(super) cache: Cache,
}

/// Prints a record.
pub(super) async fn get(options: &Get) -> Result<ExitCode> {
    let (access, disk) = (options.price.access(), options.cache.open()?);
    let database = super::open_with(&options.at, access, disk).await?;
    let mut transaction = database.begin(Level::Basic);
    options
        .fresh
        .apply(&mut transaction, &options.collection)
        .await?;
    let found = transaction
        .get(&options.collection, options.key.as_bytes())
        .await?;
    options.price.show(&transaction.usage())?;
    options.price.keep(&database, &options.collection).await?;
    let Some(value) = found else {
        note!("no record {:?}", options.key);
        return Ok(ExitCode::FAILURE);
    };
    let mut out = std::io::stdout().lock();
    out.write_all(&value)?;
    out.write_all(b"\n")?;
    Ok(ExitCode::SUCCESS)
}

/// Prints records.
pub(super) async fn scan(options: &Scan) -> Result<ExitCode> {
    if let Some(index) = &options.lookup.index {
        return index::scan(options, index).await;
    }
    let (access, disk) = (options.price.access(), options.cache.open()?);
    let database = super::open_with(&options.at, access, disk).await?;
    let mut transaction = database.begin(Level::Basic);
    options
        .fresh
        .apply(&mut transaction, &options.collection)
        .await?;
    let mut from = options.from.clone().into_bytes();
    let until = options.until.as_deref().map(str::as_bytes);
    let mut left = options.limit;
    while left > 0 {
        let count = left.min(ROWS);
        let rows = transaction
            .range(&options.collection, &from, until, count)
            .await?;
        let mut out = BufWriter::new(std::io::stdout().lock());
        for (key, value) in &rows {
            print(&mut out, key, value)?;
        }
        out.flush()?;
        let Some((last, _)) = rows.last().filter(|_| rows.len() == count) else {
            break;
        };
        // The least key behind the last one.
        from = [last, &b"\0"[..]].concat();
        left -= count;
    }
    options.price.show_all(&database)?;
    options.price.keep(&database, &options.collection).await?;
    Ok(ExitCode::SUCCESS)
}

/// A record as a scan prints it.
pub(super) fn print(out: &mut impl std::io::Write, key: &[u8], value: &[u8]) -> Result<()> {
    for part in [key, b"\t", value, b"\n"] {
        out.write_all(part)?;
    }
    Ok(())
}
