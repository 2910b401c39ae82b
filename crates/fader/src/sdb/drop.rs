//! `fader sdb drop`.

use anyhow::Result;
use clap::Args;
use fader_client::SimpleDb;

/// Which domain.
#[derive(Args)]
pub(super) struct Options {
    /// The domain; everything in it is gone afterwards.
    domain: String,
}

/// Deletes the domain.
pub(super) async fn run(service: &SimpleDb, options: &Options) -> Result<()> {
    service.delete_domain(&options.domain).await?;
    Ok(())
}
