//! `fader cluster maintenance`: a node whose process is to be stopped for a while, and comes back
//! with its disks. Its members give up the roles of heads; all else stays where it is.

use std::process::ExitCode;

use anyhow::Result;
use clap::{ArgGroup, Args};
use fader_node::coordinator::ClusterStatus;
use fader_node::{ChainId, PlacementCommand, Role, is_of};
use fader_services::ErrorCode;

use crate::cluster::init::Place;
use crate::cluster::placement::{absent, follow, give};
use crate::failure;
use crate::output;

const EXAMPLES: &str = "\
With --on it ends when the process may be stopped: no member of the node is a head, and all other
members of its chains serve. The node takes no head's role until --off; its process may be started
again before that, and as often as it is to be.

Examples:
  fader cluster maintenance n1 --on --zookeeper zk1    then stop its process, work, and start it
  fader cluster maintenance n1 --off --zookeeper zk1   it may be a head again";

/// Which node.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
#[command(group = ArgGroup::new("what").required(true))]
pub(crate) struct Options {
    #[command(flatten)]
    place: Place,

    /// Its name.
    node: String,

    /// Its process is to be stopped: waits until it may be.
    #[arg(long, group = "what")]
    on: bool,

    /// It is over.
    #[arg(long, group = "what")]
    off: bool,
}

/// Begins or ends the rest of a node.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let (place, name) = (options.place.settings()?, &options.node);
    give(&place, &PlacementCommand::Rest(name.clone(), options.on))?;
    if options.off {
        output::print(&format!("{name} may be a head again\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    follow(&place, |status| {
        let site = status.layout.site(name);
        if site.is_none_or(|site| !site.is_resting) {
            return failure::fail(
                ErrorCode::StateConflict,
                format_args!("that was taken back: {name} does not rest any more"),
            );
        }
        Ok(waits(status, name))
    })?;
    output::print(&format!("{name} is no head: its process may be stopped\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// What stands in the way of stopping the process of a node.
fn waits(status: &ClusterStatus, name: &str) -> Option<String> {
    let chains = status.layout.chains_at(name);
    chains.into_iter().find_map(|chain| {
        let what = trouble(status, chain, name)?;
        Some(format!("{chain}: {what}{}", absent(status)))
    })
}

/// Why a chain would be worse without the node than with one member fewer.
fn trouble(status: &ClusterStatus, chain: ChainId, name: &str) -> Option<String> {
    let Some(newest) = status.configurations.get(&chain) else {
        return Some("it has not begun".to_owned());
    };
    let serves = |of: &str| {
        let mut lives = status.live.iter().filter(|it| it.name == of);
        let life = lives.find_map(|it| it.member(chain))?;
        let seat = newest.members.iter().find(|seat| is_of(seat, &life))?;
        (seat.role == Role::Serving).then_some(seat.node)
    };
    if serves(name) == Some(newest.head()) {
        return Some(format!("{name} is the head still"));
    }
    let places = status.layout.nodes(chain).iter();
    let mut others = places.filter(|other| *other != name).peekable();
    if others.peek().is_none() {
        return Some(format!("no other node than {name} has it"));
    }
    let lacking = others.find(|other| serves(other).is_none());
    lacking.map(|other| format!("{other} does not serve"))
}
