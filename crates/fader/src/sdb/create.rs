//! `fader sdb create`.

use anyhow::Result;
use clap::Args;
use fader_client::SimpleDb;

/// Which domain.
#[derive(Args)]
pub(super) struct Options {
    /// 3 to 255 letters, digits, `_`, `.` and `-`.
    domain: String,
}

/// Creates the domain.
pub(super) async fn run(service: &SimpleDb, options: &Options) -> Result<()> {
    service.create_domain(&options.domain).await?;
    Ok(())
}
