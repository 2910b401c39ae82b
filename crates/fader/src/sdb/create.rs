//! `fader sdb create`.

use anyhow::Result;
use clap::Args;
use fader_client::{DomainOptions, SimpleDb};
use fader_services::{Mode, level};

/// Which domain.
#[derive(Args)]
pub(super) struct Options {
    /// 3 to 255 letters, digits, `_`, `.` and `-`.
    domain: String,
    #[arg(long, help = format!(
        "Who may write to it, for Fader only: `strong`, `mixed` or `eventual`. [default: {}]",
        Mode::default()
    ))]
    mode: Option<Mode>,
    /// Level of requests that ask for none, such as "eventual; w=2"; for Fader only.
    #[arg(long, value_name = "LEVEL")]
    consistency: Option<level::ConsistencyOptions>,
}

/// Creates the domain.
pub(super) async fn run(service: &SimpleDb, options: &Options) -> Result<()> {
    let nature = DomainOptions {
        mode: options.mode,
        default: options.consistency.clone(),
    };
    service.create_domain_as(&options.domain, &nature).await?;
    Ok(())
}
