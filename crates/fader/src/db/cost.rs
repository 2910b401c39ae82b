//! `fader db cost`: what commands kept with `--keep-cost`, by collection, stage, access key or day.

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, ValueEnum};
use fader_client::Access;
use fader_cloud::{Count, PriceBook, Usage};
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
    /// Prints metrics in Prometheus' text format instead, by collection, stage and access key.
    #[arg(long, conflicts_with = "by")]
    metrics: bool,
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
    let costs = database.costs().await?;
    if options.metrics {
        output::print(&metrics(&costs, &book))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut sums: BTreeMap<Vec<String>, Usage> = BTreeMap::new();
    let mut all = Usage::default();
    for cost in costs {
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

/// One number of a count.
type Figure = fn(&Count) -> u64;

/// What was used, as metrics.
fn metrics(costs: &[Cost], book: &PriceBook) -> String {
    let mut sums: BTreeMap<[&str; 3], Usage> = BTreeMap::new();
    for cost in costs {
        let place = [&cost.collection, &cost.stage, &cost.who].map(String::as_str);
        sums.entry(place).or_default().add(&cost.usage);
    }
    let mut text = String::new();
    let counts: [(&str, &str, Figure); 3] = [
        ("requests", "Wire requests", |count| count.requests),
        ("sent_bytes", "Bytes of requests' bodies", |count| {
            count.sent_bytes
        }),
        ("received_bytes", "Bytes of answers' bodies", |count| {
            count.received_bytes
        }),
    ];
    for (name, help, of) in counts {
        head(&mut text, name, help);
        for (place, usage) in &sums {
            for (kind, status, count) in usage.counts() {
                let status = status.map_or("none".to_owned(), |status| status.to_string());
                let (labels, kind, count) = (labels(*place), kind.name(), of(count));
                let labels = format!("{labels},kind=\"{kind}\",status=\"{status}\"");
                text += &format!("fader_db_{name}_total{{{labels}}} {count}\n");
            }
        }
    }
    head(&mut text, "dollars", "Price of the requests and bytes");
    for (place, usage) in &sums {
        let (labels, price) = (labels(*place), book.cost(usage));
        text += &format!("fader_db_dollars_total{{{labels}}} {price}\n");
    }
    text
}

fn head(text: &mut String, name: &str, help: &str) {
    *text += &format!("# HELP fader_db_{name}_total {help}\n");
    *text += &format!("# TYPE fader_db_{name}_total counter\n");
}

fn labels(place: [&str; 3]) -> String {
    let named = ["collection", "stage", "key"].into_iter().zip(place);
    let labels = named.map(|(name, value)| {
        let value = value.replace('\\', "\\\\");
        let value = value.replace('"', "\\\"").replace('\n', "\\n");
        format!("{name}=\"{value}\"")
    });
    labels.collect::<Vec<_>>().join(",")
}
