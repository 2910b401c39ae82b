//! `fader sdb select`: follows the pages up to a limit.

use anyhow::Result;
use clap::Args;
use fader_client::{CallOptions, SimpleDb};

use super::{Output, consistency, render};
use crate::output;

const EXAMPLES: &str = "\
A Select without LIMIT gives 100 items a page; the pages are followed.

Examples:
  fader sdb select \"select * from books where Year > '1975' order by Year desc\"
  fader sdb select 'select count(*) from books'
  fader sdb select 'select * from books limit 2500' --limit 0 --output csv > books.csv";

/// What to select, and how to show it.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Options {
    /// The expression, as one argument.
    expression: String,
    /// Stop after so many items; 0 follows the pages to their end.
    #[arg(long, default_value_t = 1000)]
    limit: usize,
    /// See every write acknowledged before.
    #[arg(long)]
    consistent: bool,
    #[command(flatten)]
    asking: consistency::Flags,
    /// How items are shown.
    #[arg(long, default_value = "table")]
    output: Output,
}

/// Shows what the Select finds.
pub(super) async fn run(service: &SimpleDb, options: &Options) -> Result<()> {
    let limit = if options.limit == 0 {
        usize::MAX
    } else {
        options.limit
    };
    let mut token = None;
    let mut count = 0;
    let mut kept = Vec::new();
    let mut asking = options.asking.begin()?;
    loop {
        let next = token.as_deref();
        let demand = CallOptions {
            consistent: options.consistent,
            ..asking.demand()
        };
        let page = service.select(&options.expression, next, demand).await;
        asking.save()?;
        let mut page = page?;
        asking.show(&page.metadata);
        let is_cut = page.items.len() > limit - count;
        page.items.truncate(limit - count);
        count += page.items.len();
        match options.output {
            // Lines need no knowledge of what follows, so they are shown as they come.
            Output::Json => output::print(&render::items(&page.items, Output::Json)?)?,
            Output::Table | Output::Csv => kept.append(&mut page.items),
        }
        token = page.next_token;
        if count >= limit && (is_cut || token.is_some()) {
            note!("stopped after {count} items; --limit 0 shows all");
            break;
        }
        if token.is_none() {
            break;
        }
    }
    match options.output {
        Output::Json => Ok(()),
        output => output::print(&render::items(&kept, output)?),
    }
}
