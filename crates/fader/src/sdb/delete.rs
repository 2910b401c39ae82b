//! `fader sdb delete`.

use anyhow::Result;
use clap::Args;
use fader_chain::RequestId;
use fader_client::{Attribute, Demand, SimpleDb};
use fader_services::level::parse_name;

use super::{Condition, asking};

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
    asking: asking::Flags,
    /// A name for the write: sent again under its name it happens once. CLIENT is up to 32
    /// hexadecimal digits that nobody else uses, SEQ a number that rises.
    #[arg(long, value_name = "CLIENT/SEQ", value_parser = parse_name)]
    request: Option<RequestId>,
}

/// Deletes.
pub(super) async fn run(service: &SimpleDb, options: &Options) -> Result<()> {
    let attributes = options.attributes.iter().map(|text| {
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        Attribute {
            name: name.to_owned(),
            value: value.to_owned(),
        }
    });
    let attributes: Vec<_> = attributes.collect();
    let expected = options.condition.expected();
    let mut asking = options.asking.begin()?;
    let demand = Demand {
        request: options.request,
        ..asking.demand()
    };
    let written = service
        .delete_attributes(
            &options.domain,
            &options.item,
            &attributes,
            expected.as_ref(),
            demand,
        )
        .await;
    asking.save()?;
    asking.show(&written?.receipt);
    Ok(())
}
