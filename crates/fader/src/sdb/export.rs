//! `fader sdb export`: all items of a domain, page by page, in bounded memory.
//!
//! CSV needs its columns before its first line, so the domain is read twice. An item that was
//! changed in between and no longer fits ends the export with an error, rather than with a file
//! that lacks something.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use fader_client::{CallOptions, SimpleDb};
use fader_cloud::Item;

use super::progress::Progress;
use super::quoted;
use super::record::{self, Columns};

const EXAMPLES: &str = "\
Examples:
  fader sdb export books > books.jsonl
  fader sdb export books --format csv --separator '|' --out books.csv";

/// What to export, how and where to.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Options {
    /// The domain.
    domain: String,
    /// The file's format.
    #[arg(long, default_value = "json")]
    format: Format,
    /// In CSV: several values in one cell, with this character between them, instead of columns of
    /// the same name.
    #[arg(long, value_name = "CHARACTER")]
    separator: Option<char>,
    /// The file to write; it appears when it is complete. Without it, standard output.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// JSON lines; exact.
    Json,
    /// CSV with a header; a value that is empty text is lost.
    Csv,
}

/// Exports the domain.
pub(super) async fn run(service: &SimpleDb, options: &Options) -> Result<()> {
    let total = service.domain_metadata(&options.domain).await?.item_count;
    match &options.out {
        None => {
            write(service, options, total, BufWriter::new(io::stdout())).await?;
        }
        Some(path) => {
            let partial = partial(path);
            let context = || format!("cannot write {}", partial.display());
            let file = File::create(&partial).with_context(context)?;
            let file = write(service, options, total, BufWriter::new(file)).await?;
            file.into_inner()
                .with_context(context)?
                .sync_all()
                .with_context(context)?;
            std::fs::rename(&partial, path).with_context(context)?;
        }
    }
    Ok(())
}

fn partial(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".partial");
    PathBuf::from(name)
}

async fn write<W: Write>(
    service: &SimpleDb,
    options: &Options,
    total: u64,
    mut out: BufWriter<W>,
) -> Result<BufWriter<W>> {
    let mut progress = Progress::new(Some(total));
    let count = match options.format {
        Format::Json => {
            let line = |item: &Item| Ok(out.write_all(record::to_json(item).as_bytes())?);
            pages(service, &options.domain, &mut progress, line).await?
        }
        Format::Csv => {
            let mut columns = Columns::default();
            let widen = |item: &Item| {
                columns.widen(item);
                Ok(())
            };
            pages(service, &options.domain, &mut progress, widen).await?;
            let mut writer = csv::Writer::from_writer(&mut out);
            writer.write_record(columns.header(options.separator))?;
            let line =
                |item: &Item| Ok(writer.write_record(columns.row(item, options.separator)?)?);
            let count = pages(service, &options.domain, &mut progress, line).await?;
            writer.flush()?;
            count
        }
    };
    out.flush()?;
    progress.finish();
    note!("{count} items exported");
    Ok(out)
}

/// Gives every item of the domain to `on_item`; their count.
async fn pages(
    service: &SimpleDb,
    domain: &str,
    progress: &mut Progress,
    mut on_item: impl FnMut(&Item) -> Result<()>,
) -> Result<u64> {
    let expression = format!("select * from {} limit 2500", quoted(domain));
    let mut token = None;
    let mut count = 0;
    loop {
        let page = service
            .select(&expression, token.as_deref(), CallOptions::consistent())
            .await?;
        for item in &page.items {
            on_item(item)?;
            count += 1;
        }
        progress.show(count, format!("{count} items"));
        token = page.next_token;
        if token.is_none() {
            return Ok(count);
        }
    }
}
