//! `fader sdb explain`.

use anyhow::Result;
use clap::Args;
use fader_client::SimpleDb;

use crate::output;

/// Which Select.
#[derive(Args)]
pub(super) struct Options {
    /// The expression, as one argument.
    expression: String,
}

/// Shows the plan.
pub(super) async fn run(service: &SimpleDb, options: &Options) -> Result<()> {
    let lines = service.explain_select(&options.expression).await?;
    output::print(
        &lines
            .iter()
            .map(|line| format!("{line}\n"))
            .collect::<String>(),
    )
}
