//! `--cost`: what a command of `fader db` used, by stage, and its price.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use clap::Args;
use fader_cloud::{Count, PriceBook, Usage};
use fader_database::Database;

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
}

impl Price {
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
        let Some(book) = PriceBook::built_in(&self.prices) else {
            let known: Vec<_> = PriceBook::names().collect();
            let names = known.join(", ");
            bail!("price book {:?}: choose one of {names}", self.prices);
        };
        let mut table = output::table(["stage", "requests", "sent", "received", "dollars"]);
        for (stage, usage) in usage {
            let bytes = |of: fn(&Count) -> u64| -> u64 {
                usage.counts().map(|(_, _, count)| of(count)).sum()
            };
            table.add_row([
                stage.clone(),
                usage.requests().to_string(),
                bytes(|count| count.sent_bytes).to_string(),
                bytes(|count| count.received_bytes).to_string(),
                book.cost(usage).to_string(),
            ]);
        }
        let (table, book, date) = (table.trim_fmt(), book.name, book.date);
        eprintln!("{table}\nprices of {book}, {date}");
        Ok(())
    }
}
