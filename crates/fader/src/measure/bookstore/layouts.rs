//! `fader measure bookstore --layouts`: one pending-update queue for a collection, several, and
//! those of the paper for trees and leaves, side by side.

use std::process::ExitCode;

use anyhow::Result;
use fader_database::{Level, PendingQueues};

use super::{Options, measure, setting};
use crate::output;

/// The layouts that are compared.
const LAYOUTS: [PendingQueues; 3] = [
    PendingQueues::PerCollection(1),
    PendingQueues::PerCollection(8),
    PendingQueues::PerLeaf,
];
const HEAD: [&str; 8] = [
    "level",
    "pending queues",
    "avg s",
    "requests of a transaction",
    "all other, for each",
    "refused PUTs",
    "$/1000",
    "to one queue",
];

pub(super) fn run(options: &Options) -> Result<ExitCode> {
    let mut table = output::table(HEAD);
    for level in [Level::Basic, Level::Monotonic, Level::Atomic] {
        let mut first = None;
        for pending_queues in LAYOUTS {
            output::tell(&format!("{level}, {pending_queues}"));
            let options = Options {
                pending_queues,
                ..options.clone()
            };
            let outcome = measure(&options, level)?;
            let first = *first.get_or_insert(outcome.total());
            table.add_row([
                level.to_string(),
                pending_queues.to_string(),
                format!("{:.3}", outcome.average()),
                format!("{:.2}", outcome.requests[0]),
                format!("{:.2}", outcome.requests[1]),
                format!("{:.3}", outcome.lost),
                format!("{:.4}", outcome.total()),
                format!("{:.2}", outcome.total() / first),
            ]);
        }
    }
    output::print(&format!(
        "Layouts of pending-update queues, {}, interval {} s\n{}\n",
        setting(options),
        options.interval,
        table.trim_fmt()
    ))?;
    Ok(ExitCode::SUCCESS)
}
