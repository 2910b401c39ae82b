//! `fader check` and `fader repair`: a data folder that no server has, read whole and mended.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use fader_node::{Node, Settings};
use fader_services::ErrorCode;

use crate::failure;

const CHECKING: &str = "\
Reads the whole log and the engine's tables. Exit code 0: the folder is whole. 1: it is not, and why
is on stderr, with file and offset.

Example:
  fader check --data ./fader-data";

const REPAIRING: &str = "\
What is damaged in the engine is made anew from the log, if that reaches back to the first entry:
nothing is lost. A log that is damaged is cut there, with --accept-loss only: later writes are lost.
What was there is set aside in the folder (engine.damaged-1, log.damaged-1), and never deleted.

A member of a cluster needs neither: the others send it their state.
See docs/how-to/repair-a-data-folder.md.

Example:
  fader check --data ./fader-data
  fader repair --data ./fader-data";

/// Which folder.
#[derive(Args)]
#[command(after_help = CHECKING)]
pub(crate) struct CheckOptions {
    /// Folder of a server's data, while no server runs on it.
    #[arg(
        long,
        env = "FADER_DATA",
        value_name = "FOLDER",
        default_value = "./fader-data"
    )]
    data: PathBuf,
}

/// Which folder, and how far to go.
#[derive(Args)]
#[command(after_help = REPAIRING)]
pub(crate) struct RepairOptions {
    /// Folder of a server's data, while no server runs on it.
    #[arg(
        long,
        env = "FADER_DATA",
        value_name = "FOLDER",
        default_value = "./fader-data"
    )]
    data: PathBuf,

    /// Cuts a damaged log: writes that were acknowledged behind the damage are lost.
    #[arg(long)]
    accept_loss: bool,
}

/// Says what is damaged.
pub(crate) fn check(options: &CheckOptions) -> Result<ExitCode> {
    let findings = Node::check(&Settings::new(options.data.clone()));
    let findings = findings.with_context(|| cannot_open(&options.data))?;
    for note in &findings.notes {
        note!("note: cut off by the next start, nothing acknowledged: {note}");
    }
    for damage in findings.damage.iter().chain(&findings.lost) {
        note!("damaged: {damage}");
    }
    if !findings.lost.is_empty() {
        note!(
            "reads of the objects that have those bytes fail; all others are whole. Put the \
             objects again, or restore the data folder from a copy"
        );
    }
    if findings.damage.is_empty() && findings.lost.is_empty() {
        crate::output::print(&format!("{} is whole\n", options.data.display()))?;
        return Ok(ExitCode::SUCCESS);
    }
    if findings.can_rebuild && !findings.damage.is_empty() {
        note!(
            "the log has everything: fader repair --data {}",
            options.data.display()
        );
    }
    Ok(ExitCode::FAILURE)
}

/// Mends what can be mended.
pub(crate) fn repair(options: &RepairOptions) -> Result<ExitCode> {
    let done = Node::repair(Settings::new(options.data.clone()), options.accept_loss);
    let done = done.with_context(|| cannot_open(&options.data))?;
    for step in &done {
        crate::output::print(&format!("{step}\n"))?;
    }
    let findings = Node::check(&Settings::new(options.data.clone()))?;
    if let Some(damage) = findings.damage.first() {
        return failure::fail(ErrorCode::DataDamaged, format_args!("{damage}"));
    }
    crate::output::print(&format!("{} is whole\n", options.data.display()))?;
    Ok(ExitCode::SUCCESS)
}

fn cannot_open(folder: &Path) -> String {
    format!("cannot open {}", folder.display())
}
