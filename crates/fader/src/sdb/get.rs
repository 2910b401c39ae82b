//! `fader sdb get`.

use anyhow::Result;
use clap::Args;
use fader_client::{CallOptions, Found, SimpleDb};
use fader_cloud::Item;
use fader_services::ErrorCode;

use super::{Output, consistency, render};
use crate::failure;
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
    asking: consistency::Flags,
    /// How the item is shown.
    #[arg(long, default_value = "table")]
    output: Output,
}

/// Shows the item.
pub(super) async fn run(service: &SimpleDb, options: &Options) -> Result<()> {
    let mut asking = options.asking.begin()?;
    let demand = CallOptions {
        consistent: options.consistent,
        ..asking.demand()
    };
    let found = service
        .get_attributes(&options.domain, &options.item, &options.names, demand)
        .await;
    asking.save()?;
    let Found {
        attributes,
        metadata,
    } = found?;
    asking.show(&metadata);
    if attributes.is_empty() {
        return failure::fail(
            ErrorCode::NotFound,
            format_args!("{} has no such item or attribute", options.domain),
        );
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
