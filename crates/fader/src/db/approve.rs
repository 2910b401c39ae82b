//! `fader db approve`: records of a curated collection that wait for a decision.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use fader_client::Access;
use fader_database::{ProposedChange, Verdict};

use crate::cloud::Where;
use crate::output::{self, visible};

/// Bytes of a record that are shown.
const SHOWN: usize = 200;

/// Which proposals, and what becomes of them. Without keys or `--all` they are listed.
#[derive(Args)]
pub(super) struct Options {
    #[command(flatten)]
    at: Where,
    /// The collection.
    collection: String,
    /// Keys whose proposals are decided.
    keys: Vec<String>,
    /// Decides all proposals.
    #[arg(long, conflicts_with = "keys")]
    all: bool,
    /// Rejects them, instead of approving.
    #[arg(long)]
    reject: bool,
}

pub(super) async fn run(options: &Options) -> Result<ExitCode> {
    let database = super::open(&options.at, Access::Write).await?;
    let is_list = !options.all && options.keys.is_empty();
    let mut lines = String::new();
    let mut judge = |proposal: &fader_database::Proposal| {
        let is_chosen = options
            .keys
            .iter()
            .any(|key| key.as_bytes() == proposal.key);
        if is_list {
            lines += &line(proposal);
        }
        match (options.all || is_chosen, options.reject) {
            (false, _) => Verdict::Wait,
            (true, true) => Verdict::Reject,
            (true, false) => Verdict::Approve,
        }
    };
    let done = database.review(&options.collection, &mut judge).await?;
    output::print(&lines)?;
    let (approved, rejected, waiting) = (done.approved, done.rejected, done.waiting);
    note!("{approved} records approved, {rejected} rejected, {waiting} wait");
    if done.damaged > 0 {
        note!("{} messages cannot be read and stay", done.damaged);
    }
    database.close().await?;
    Ok(ExitCode::SUCCESS)
}

fn line(proposal: &fader_database::Proposal) -> String {
    let text = |bytes: &[u8]| {
        let shown = &bytes[..bytes.len().min(SHOWN)];
        visible(&String::from_utf8_lossy(shown))
    };
    let key = text(&proposal.key);
    match &proposal.change {
        ProposedChange::Put(record) => format!("put\t{key}\t{}\n", text(record)),
        ProposedChange::Update(record) => format!("update\t{key}\t{}\n", text(record)),
        ProposedChange::Delete => format!("delete\t{key}\n"),
    }
}
