//! `fader sdb get`.

use anyhow::{Result, bail};
use clap::Args;
use fader_client::{Demand, Found, SimpleDb};
use fader_cloud::Item;

use super::{Output, asking, render};
use crate::output;

/// Which item, and what of it.
#[derive(Args)]
pub(super) struct Options {
    /// The domain.
    domain: String,
    /// The item.
    item: String,
    /// Only these attributes.
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// See every write acknowledged before.
    #[arg(long)]
    consistent: bool,
    #[command(flatten)]
    asking: asking::Flags,
    /// How the item is shown.
    #[arg(long, default_value = "table")]
    output: Output,
}

/// Shows the item.
pub(super) async fn run(service: &SimpleDb, options: &Options) -> Result<()> {
    let mut asking = options.asking.begin()?;
    let demand = Demand {
        consistent: options.consistent,
        ..asking.demand()
    };
    let found = service
        .get_attributes(&options.domain, &options.item, &options.names, demand)
        .await;
    asking.save()?;
    let Found {
        attributes,
        receipt,
    } = found?;
    asking.show(&receipt);
    if attributes.is_empty() {
        bail!("{} has no such item or attribute", options.domain);
    }
    if options.output == Output::Table {
        let mut table = output::table(["attribute", "value"]);
        for attribute in &attributes {
            table.add_row([
                output::visible(&attribute.name),
                output::visible(&attribute.value),
            ]);
        }
        return output::print(&format!("{}\n", table.trim_fmt()));
    }
    let item = Item {
        name: options.item.clone(),
        attributes,
    };
    output::print(&render::items(&[item], options.output)?)
}
