//! `fader db index`: secondary indexes of a collection; and `fader db scan --index`.

use std::io::{BufWriter, Write as _};
use std::process::ExitCode;
use std::sync::Mutex;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use fader_client::Access;
use fader_database::{IndexRange, IndexValue, Level};

use super::read::{Scan, print};
use crate::cloud::Where;
use crate::failure;
use crate::output::{self, visible};
use crate::sdb::progress::Progress;

/// Rows that a scan reads at once.
const ROWS: usize = 1_000;

/// Which index, and what is done with it.
#[derive(Args)]
pub(super) struct Options {
    #[command(flatten)]
    at: Where,
    /// The collection.
    collection: String,
    /// The index. Without it the collection's indexes are listed.
    name: Option<String>,
    /// The field of the records, which are JSON objects; by default the index's name. Each value of
    /// an array has an entry.
    #[arg(long, value_name = "FIELD")]
    field: Option<String>,
    /// Drops the index. `fader db vacuum` deletes its pages.
    #[arg(long, conflicts_with = "field")]
    drop: bool,
}

/// A lookup by an index instead of keys.
#[derive(Args)]
pub(super) struct Lookup {
    /// The index whose values `--is`, `--from` and `--until` are.
    #[arg(long, value_name = "NAME")]
    pub(super) index: Option<String>,
    /// The value of the records' field.
    #[arg(long, value_name = "VALUE", requires = "index", conflicts_with_all = ["from", "until"])]
    is: Option<String>,
    /// What the values are.
    #[arg(long, value_name = "KIND", default_value = "text", requires = "index")]
    kind: Kind,
}

/// Kinds of values.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    Text,
    Number,
    Bool,
}

impl Kind {
    fn value(self, text: &str) -> Result<IndexValue> {
        Ok(match self {
            Kind::Text => IndexValue::Text(text.to_owned()),
            Kind::Number => {
                let number = text.parse();
                IndexValue::Number(number.with_context(|| format!("{text:?} is no number"))?)
            }
            Kind::Bool => match text {
                "false" => IndexValue::Bool(false),
                "true" => IndexValue::Bool(true),
                _ => {
                    return failure::invalid(format_args!("{text:?} is neither true nor false"));
                }
            },
        })
    }
}

pub(super) async fn run(options: &Options) -> Result<ExitCode> {
    let collection = &options.collection;
    let Some(name) = &options.name else {
        return list(options).await;
    };
    let database = super::open(&options.at, Access::Write).await?;
    if options.drop {
        database.drop_index(collection, name).await?;
        return Ok(ExitCode::SUCCESS);
    }
    let field = options.field.as_deref().unwrap_or(name);
    let progress = Mutex::new(Progress::new(None));
    let open = || progress.lock().expect("nothing panics while it is locked");
    open().say("waiting until all clients know the index, about 15 s");
    let told = |count: u64| open().show(count, format!("{count} records indexed"));
    let created = database.create_index(collection, name, field, &told).await;
    open().finish();
    created.context("the index is not complete: run the command again")?;
    database.close().await?;
    Ok(ExitCode::SUCCESS)
}

async fn list(options: &Options) -> Result<ExitCode> {
    let database = super::open(&options.at, Access::Read).await?;
    let collection = database.collection(&options.collection).await?;
    let mut table = output::table(["index", "field", "state"]);
    for (name, index) in &collection.indexes {
        let state = if index.is_ready {
            "ready"
        } else {
            "being built"
        };
        table.add_row([visible(name), visible(&index.field), state.to_owned()]);
    }
    output::print(&format!("{}\n", table.trim_fmt()))?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the records that an index leads to: the key, a tab, the record.
pub(super) async fn scan(options: &Scan, index: &str) -> Result<ExitCode> {
    let lookup = &options.lookup;
    let value = |text: &str| lookup.kind.value(text);
    let range = match &lookup.is {
        Some(is) => IndexRange::Is(value(is)?),
        None => {
            let from = Some(&options.from[..]).filter(|from| !from.is_empty());
            let until = options.until.as_deref();
            IndexRange::Between(from.map(value).transpose()?, until.map(value).transpose()?)
        }
    };
    let (access, disk) = (options.price.access(), options.cache.open()?);
    let database = super::open_with(&options.at, access, disk).await?;
    let mut transaction = database.begin(Level::Basic);
    options
        .fresh
        .apply(&mut transaction, &options.collection)
        .await?;
    let (mut left, mut after) = (options.limit, None);
    while left > 0 {
        let count = left.min(ROWS);
        let hits = transaction
            .lookup(&options.collection, index, &range, after.as_ref(), count)
            .await?;
        let mut out = BufWriter::new(std::io::stdout().lock());
        for hit in &hits {
            print(&mut out, &hit.key, &hit.record)?;
        }
        out.flush()?;
        if hits.len() < count {
            break;
        }
        after = hits.last().map(|hit| hit.place.clone());
        left -= count;
    }
    options.price.show_all(&database)?;
    options.price.keep(&database, &options.collection).await?;
    Ok(ExitCode::SUCCESS)
}
