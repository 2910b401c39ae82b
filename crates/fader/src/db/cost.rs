//! `fader db cost`: what commands kept with `--keep-cost`, by collection, stage, access key or day.

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, ValueEnum};
use fader_client::Access;
use fader_cloud::Usage;
use fader_database::Cost;

use super::price::{book, rows};
use crate::cloud::Where;
use crate::output::{self, visible};

/// What is summed up.
#[derive(Args)]
pub(super) struct Options {
    #[command(flatten)]
    at: Where,
    /// By what, with commas between.
    #[arg(long, value_delimiter = ',', default_values = ["collection", "stage"])]
    by: Vec<By>,
    /// The price book: `fader cloud prices` lists them.
    #[arg(long, value_name = "BOOK", default_value = "aws-2026")]
    prices: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum By {
    /// The collection that a command worked on.
    Collection,
    /// Read, commit, atomic, checkpoint, and so on.
    Stage,
    /// The access key that asked.
    Key,
    /// The day, by UTC.
    Day,
}

impl By {
    fn name(self) -> &'static str {
        match self {
            By::Collection => "collection",
            By::Stage => "stage",
            By::Key => "key",
            By::Day => "day",
        }
    }

    fn of(self, cost: &Cost) -> String {
        match self {
            By::Collection => visible(&cost.collection),
            By::Stage => visible(&cost.stage),
            By::Key => visible(&cost.who),
            By::Day => {
                let seconds = i64::try_from(cost.day).unwrap_or_default() * 24 * 60 * 60;
                let day = jiff::Timestamp::from_second(seconds);
                day.map_or("?".to_owned(), |day| day.strftime("%Y-%m-%d").to_string())
            }
        }
    }
}

pub(super) async fn run(options: &Options) -> Result<ExitCode> {
    let book = book(&options.prices)?;
    let database = super::open(&options.at, Access::Read).await?;
    let mut sums: BTreeMap<Vec<String>, Usage> = BTreeMap::new();
    let mut all = Usage::default();
    for cost in database.costs().await? {
        let place = options.by.iter().map(|by| by.of(&cost)).collect();
        sums.entry(place).or_default().add(&cost.usage);
        all.add(&cost.usage);
    }
    let mut head: Vec<&str> = options.by.iter().map(|by| by.name()).collect();
    head.extend(["requests", "sent", "received", "dollars"]);
    let mut table = output::table(head);
    let mut total = vec!["all".to_owned()];
    total.resize(options.by.len(), String::new());
    for (place, usage) in sums.into_iter().chain([(total, all)]) {
        table.add_row(place.into_iter().chain(rows(&usage, &book)));
    }
    output::print(&format!(
        "{}\nprices of {}, {}\n",
        table.trim_fmt(),
        book.name,
        book.date
    ))?;
    Ok(ExitCode::SUCCESS)
}
