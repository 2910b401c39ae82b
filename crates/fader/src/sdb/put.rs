//! `fader sdb put`.

use anyhow::Result;
use clap::Args;
use fader_chain::RequestId;
use fader_client::{CallOptions, SimpleDb};
use fader_cloud::{Attribute, AttributePut};
use fader_services::level::parse_name;

use super::{Condition, attribute, consistency};

const EXAMPLES: &str = "\
Examples:
  fader sdb put books 0385333498 Year=1959 Keyword=Book Keyword=Paperback
  fader sdb put books 0385333498 Year=1960 --replace --if Year=1959";

/// What to put where.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Options {
    /// The domain.
    domain: String,
    /// The item.
    item: String,
    /// Names and values; a name may come several times.
    #[arg(required = true, value_name = "NAME=VALUE", value_parser = attribute)]
    attributes: Vec<Attribute>,
    /// Drop the values that these attributes had before.
    #[arg(long)]
    replace: bool,
    #[command(flatten)]
    condition: Condition,
    #[command(flatten)]
    asking: consistency::Flags,
    /// A name for the write: sent again under its name it happens once. CLIENT is up to 32
    /// hexadecimal digits that no other client uses, SEQ a number that rises.
    #[arg(long, value_name = "CLIENT/SEQ", value_parser = parse_name)]
    request: Option<RequestId>,
}

/// Puts the attributes.
pub(super) async fn run(service: &SimpleDb, options: &Options) -> Result<()> {
    let attributes = options.attributes.iter().map(|attribute| AttributePut {
        name: attribute.name.clone(),
        value: attribute.value.clone(),
        replace: options.replace,
    });
    let attributes: Vec<_> = attributes.collect();
    let expected = options.condition.expected();
    let mut asking = options.asking.begin()?;
    let demand = CallOptions {
        request: options.request,
        ..asking.demand()
    };
    let written = service
        .put_attributes(
            &options.domain,
            &options.item,
            &attributes,
            expected.as_ref(),
            demand,
        )
        .await;
    asking.save()?;
    asking.show(&written?.metadata);
    Ok(())
}
