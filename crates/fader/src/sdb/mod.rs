//! `fader sdb`: a small SimpleDB client. One file per verb.
//!
//! It uses what AWS's own tools use: the same variables, the same credentials file, the same
//! protocol. So it works on any SimpleDB endpoint; only `explain` needs Fader's.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand, ValueEnum};
use fader_client::{Client, SimpleDb};
use fader_cloud::{Attribute, Expected};

use crate::endpoint;

mod consistency;
mod create;
mod delete;
mod domains;
mod drop;
mod explain;
mod export;
mod get;
mod import;
pub(crate) mod progress;
mod put;
mod record;
mod render;
mod select;

const EXAMPLES: &str = "\
Examples:
  fader sdb create books
  fader sdb put books 0385333498 Year=1959 Keyword=Book Keyword=Paperback
  fader sdb select \"select * from books where Keyword = 'Book'\"
  fader sdb explain \"select * from books where Year > '1975' order by Year\"
  fader sdb get books 0385333498 --consistency strong --verbose
  fader sdb export books > books.jsonl
  fader sdb import books more.csv --separator '|'

Access keys come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, else from the profile in
~/.aws/credentials. The endpoint comes from --endpoint, FADER_ENDPOINT, AWS_ENDPOINT_URL_SIMPLEDB
or AWS_ENDPOINT_URL.";

/// Which endpoint, as whom.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(flatten)]
    endpoint: endpoint::Flags,

    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Lists the domains.
    Domains(domains::Options),
    /// Creates a domain; one that exists stays as it is.
    Create(create::Options),
    /// Deletes a domain with all that is in it.
    Drop(drop::Options),
    /// Puts attributes of an item.
    Put(put::Options),
    /// Shows the attributes of an item.
    Get(get::Options),
    /// Deletes an item, or attributes or values of it.
    Delete(delete::Options),
    /// Runs a Select and shows what it finds.
    Select(select::Options),
    /// Shows how Fader would answer a Select, without running it.
    Explain(explain::Options),
    /// Loads a file of items: CSV or JSON lines.
    Import(import::Options),
    /// Writes all items of a domain: JSON lines or CSV.
    Export(export::Options),
}

/// How items are shown.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// A table that fits the terminal.
    Table,
    /// One JSON object a line; exact, and what `import` reads.
    Json,
    /// CSV with a header; several values of an attribute stand in columns of the same name.
    Csv,
}

/// A condition of a write.
#[derive(Args)]
struct Condition {
    /// Only if the attribute has exactly this one value.
    #[arg(long = "if", value_name = "NAME=VALUE", value_parser = attribute)]
    equal: Option<Attribute>,

    /// Only if the item has no such attribute.
    #[arg(long, value_name = "NAME", conflicts_with = "equal")]
    if_absent: Option<String>,
}

impl Condition {
    fn expected(&self) -> Option<Expected> {
        let equal = self.equal.clone().map(Expected::Value);
        equal.or_else(|| self.if_absent.clone().map(Expected::Absent))
    }
}

/// Carries out one `fader sdb` command.
pub(crate) async fn run(options: Options) -> Result<ExitCode> {
    let service = connect(&options)?;
    match options.verb {
        Verb::Domains(options) => domains::run(&service, &options).await?,
        Verb::Create(options) => create::run(&service, &options).await?,
        Verb::Drop(options) => drop::run(&service, &options).await?,
        Verb::Put(options) => put::run(&service, &options).await?,
        Verb::Get(options) => get::run(&service, &options).await?,
        Verb::Delete(options) => delete::run(&service, &options).await?,
        Verb::Select(options) => select::run(&service, &options).await?,
        Verb::Explain(options) => explain::run(&service, &options).await?,
        Verb::Import(options) => return import::run(service, options).await,
        Verb::Export(options) => export::run(&service, &options).await?,
    }
    Ok(ExitCode::SUCCESS)
}

fn connect(options: &Options) -> Result<SimpleDb> {
    let endpoint = &options.endpoint;
    let (url, credentials) = (endpoint.url("SIMPLEDB"), endpoint.credentials()?);
    let client = Client::new(&url, credentials, endpoint.settings()?)?;
    Ok(SimpleDb(client))
}

/// Reads `NAME=VALUE`.
fn attribute(text: &str) -> Result<Attribute, String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok(Attribute {
            name: name.to_owned(),
            value: value.to_owned(),
        }),
        _ => Err(format!("{text:?} is not NAME=VALUE")),
    }
}

/// A domain's name as Select takes it: in backticks.
fn quoted(domain: &str) -> String {
    format!("`{}`", domain.replace('`', "``"))
}
