//! `fader sdb domains`.

use anyhow::Result;
use clap::Args;
use fader_client::SimpleDb;

use crate::output;

/// What to show of the domains.
#[derive(Args)]
pub(super) struct Options {
    /// Counts and sizes too.
    #[arg(long)]
    details: bool,
}

/// Lists the domains.
pub(super) async fn run(service: &SimpleDb, options: &Options) -> Result<()> {
    let names = service.list_domains().await?;
    if !options.details {
        return output::print(
            &names
                .iter()
                .map(|name| format!("{name}\n"))
                .collect::<String>(),
        );
    }
    let mut table = output::table(["domain", "items", "attributes", "values", "bytes"]);
    for name in &names {
        let metadata = service.domain_metadata(name).await?;
        let bytes = metadata.item_names_size_bytes
            + metadata.attribute_names_size_bytes
            + metadata.attribute_values_size_bytes;
        table.add_row([
            name.clone(),
            metadata.item_count.to_string(),
            metadata.attribute_name_count.to_string(),
            metadata.attribute_value_count.to_string(),
            bytes.to_string(),
        ]);
    }
    output::print(&format!("{}\n", table.trim_fmt()))
}
