//! `fader cluster`: a module for each command.

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

pub(crate) mod diagnose;
pub(crate) mod init;
pub(crate) mod maintenance;
pub(crate) mod mode;
pub(crate) mod placement;
pub(crate) mod restore;
pub(crate) mod status;

/// A command of `fader cluster`.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Gives a domain or a queue another mode, or says how its mode stands.
    Mode(mode::ModeOptions),
    /// Makes a cluster in ZooKeeper, once, and its key.
    Init(Box<init::InitOptions>),
    /// Says what a chain waits for, and which members it waits for.
    Diagnose(diagnose::DiagnoseOptions),
    /// Has a chain go on with one member's state, when all members with more are lost.
    Restore(init::RestoreOptions),
    /// Prints the head, the serving and joining members of each chain, and their addresses.
    Status(status::StatusOptions),
    /// Adds a node to the cluster, or keeps a node that was leaving.
    Add(placement::AddOptions),
    /// Has a node give up its chains permanently, and waits until it can be stopped.
    Decommission(placement::DecommissionOptions),
    /// Has a node give up its chains to another node, and waits until it can be stopped.
    Replace(placement::ReplaceOptions),
    /// Moves a member of a chain from a node to another, where it then stays.
    Move(placement::MoveOptions),
    /// Says when the process of a node may be stopped for a while, or that it is back.
    Maintenance(maintenance::Options),
    /// Adds chains.
    AddChains(placement::AddChainsOptions),
}

/// Runs one.
///
/// # Errors
///
/// As the command's module says.
pub(crate) async fn run(command: &Command) -> Result<ExitCode> {
    match command {
        Command::Mode(options) => mode::change_mode(options).await,
        Command::Init(options) => init::init(options),
        Command::Diagnose(options) => diagnose::diagnose(options).await,
        Command::Restore(options) => init::restore(options),
        Command::Status(options) => status::status(options),
        Command::Add(options) => placement::add(options),
        Command::Decommission(options) => placement::decommission(options),
        Command::Replace(options) => placement::replace(options),
        Command::Move(options) => placement::relocate(options),
        Command::Maintenance(options) => maintenance::run(options),
        Command::AddChains(options) => placement::add_chains(options),
    }
}
