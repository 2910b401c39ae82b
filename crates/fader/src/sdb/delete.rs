//! `fader sdb delete`.

use anyhow::Result;
use clap::Args;
use fader_chain::RequestId;
use fader_client::{CallOptions, SimpleDb};
use fader_cloud::ItemDelete;
use fader_services::level::parse_name;

use super::{Condition, consistency};

const EXAMPLES: &str = "\
Examples:
  fader sdb delete books 0385333498                    the item
  fader sdb delete books 0385333498 Year               an attribute with all its values
  fader sdb delete books 0385333498 Keyword=Paperback  one value";

/// What to delete.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Options {
    /// The domain.
    domain: String,
    /// The item.
    item: String,
    /// Attributes or values to delete; the whole item when there are none.
    #[arg(value_name = "NAME[=VALUE]")]
    attributes: Vec<String>,
    #[command(flatten)]
    condition: Condition,
    #[command(flatten)]
    asking: consistency::Flags,
    /// A name for the write: sent again under its name it happens once. CLIENT is up to 32
    /// hexadecimal digits that no other client uses, SEQ a number that rises.
    #[arg(long, value_name = "CLIENT/SEQ", value_parser = parse_name)]
    request: Option<RequestId>,
}

/// Deletes.
pub(super) async fn run(service: &SimpleDb, options: &Options) -> Result<()> {
    let attributes = options.attributes.iter().map(|text| {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (text.as_str(), None),
        };
        (name.to_owned(), value.map(str::to_owned))
    });
    let delete = ItemDelete {
        name: options.item.clone(),
        attributes: attributes.collect(),
    };
    let expected = options.condition.expected();
    let mut asking = options.asking.begin()?;
    let demand = CallOptions {
        request: options.request,
        ..asking.demand()
    };
    let written = service
        .delete_attributes(&options.domain, &delete, expected.as_ref(), demand)
        .await;
    asking.save()?;
    asking.show(&written?.metadata);
    Ok(())
}
