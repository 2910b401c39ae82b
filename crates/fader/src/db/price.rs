//! `--cost`: what a command of `fader db` used, by stage, and its price.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use clap::Args;
use fader_client::Access;
use fader_cloud::{Count, PriceBook, Usage};
use fader_database::Database;

use crate::failure;
use crate::output;

/// Whether the price is shown.
#[derive(Args)]
pub(super) struct Price {
    /// Shows requests, bytes and dollars by stage.
    #[arg(long)]
    cost: bool,
    /// The price book: `fader cloud prices` lists them.
    #[arg(long, value_name = "BOOK", default_value = "aws-2026")]
    prices: String,
    /// Keeps what the command used beside the database, for `fader db cost`: one more request.
    #[arg(long)]
    keep_cost: bool,
}

impl Price {
    /// What a command that only reads needs.
    pub(super) fn access(&self) -> Access {
        match self.keep_cost {
            true => Access::Write,
            false => Access::Read,
        }
    }

    /// Keeps what the client used, as used in a collection, if that is asked for.
    pub(super) async fn keep(&self, database: &Database, collection: &str) -> Result<()> {
        if !self.keep_cost {
            return Ok(());
        }
        let who = std::env::var("AWS_ACCESS_KEY_ID").unwrap_or_default();
        let kept = database.keep_cost(&who, collection).await;
        kept.context("all is done, but --keep-cost failed")
    }

    /// Prints all that a client used, by stage; requests to queues in a bucket that serve several
    /// stages are `shared`.
    pub(super) fn show_all(&self, database: &Database) -> Result<()> {
        let mut usage = database.meter().within_usage();
        usage.insert("shared".to_owned(), database.meter().own_usage());
        self.show(&usage)
    }

    /// Prints a usage by stage, on standard error: standard output is the record's.
    pub(super) fn show(&self, usage: &BTreeMap<String, Usage>) -> Result<()> {
        if !self.cost {
            return Ok(());
        }
        let book = book(&self.prices)?;
        let mut table = output::table(["stage", "requests", "sent", "received", "dollars"]);
        for (stage, usage) in usage {
            table.add_row(std::iter::once(stage.clone()).chain(rows(usage, &book)));
        }
        let (table, book, date) = (table.trim_fmt(), book.name, book.date);
        note!("{table}\nprices of {book}, {date}");
        Ok(())
    }
}

/// A price book by its name.
pub(super) fn book(name: &str) -> Result<PriceBook> {
    let Some(book) = PriceBook::built_in(name) else {
        let known: Vec<_> = PriceBook::names().collect();
        let names = known.join(", ");
        return failure::invalid(format_args!("price book {name:?}: choose one of {names}"));
    };
    Ok(book)
}

/// The cells of a usage: requests, bytes sent and received, dollars.
pub(super) fn rows(usage: &Usage, book: &PriceBook) -> [String; 4] {
    let bytes =
        |of: fn(&Count) -> u64| -> u64 { usage.counts().map(|(_, _, count)| of(count)).sum() };
    [
        usage.requests().to_string(),
        bytes(|count| count.sent_bytes).to_string(),
        bytes(|count| count.received_bytes).to_string(),
        book.cost(usage).to_string(),
    ]
}
