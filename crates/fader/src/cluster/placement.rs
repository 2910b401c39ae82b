//! `fader cluster add`, `drain`, `replace`, `move` and `chains`: where the members of chains are to
//! be. What is ordered is kept in ZooKeeper, and the nodes carry it out: a command that waits here
//! may stop waiting, and ask again.

use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;
use fader_node::coordinator::{
    ClusterStatus, CoordinatorError, StatusReader, ZooKeeperCoordinator, ZooKeeperSettings,
};
use fader_node::{ChainId, PlacementCommand, is_at_rest};
use fader_services::ErrorCode;

use crate::cluster::init::{Place, node};
use crate::failure;
use crate::output;

/// How often it is looked how far it has come.
const LOOK: Duration = Duration::from_millis(200);
/// How often one is told what is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

const ADD_EXAMPLES: &str = "\
The node's process is started after that; chains then move to it, one after the other, until it has
as much as any other. A node that is being drained stays.

Examples:
  fader cluster add n4 --zookeeper zk1
  fader cluster add n4=east --zookeeper zk1";

const DECOMMISSION_EXAMPLES: &str = "\
Each chain gets another member first, then the node's leaves, one chain after the other. It ends
when the node holds nothing. Interrupted, it goes on; asked again, it is waited for again. `fader
cluster add` takes it back.

Examples:
  fader cluster decommission n1 --zookeeper zk1
  fader cluster decommission n1 --lost --zookeeper zk1
                                            n1 is gone with its disks: eventual writes that only it
                                            has are lost
  (also where n1 runs, and the folder of a member was damaged: that folder is given up, and the
  healthy members hand off their writes)";

/// A node that comes.
#[derive(Args)]
#[command(after_help = ADD_EXAMPLES)]
pub(crate) struct AddOptions {
    #[command(flatten)]
    place: Place,

    /// Its name, and its zone, if it has one.
    #[arg(value_name = "NODE[=ZONE]")]
    node: String,
}

/// A node that leaves.
#[derive(Args)]
#[command(after_help = DECOMMISSION_EXAMPLES)]
pub(crate) struct DecommissionOptions {
    #[command(flatten)]
    place: Place,

    /// Its name.
    node: String,

    /// Its disks will not come back: no member waits for what only they may hold.
    #[arg(long)]
    lost: bool,
}

/// A node in the place of another.
#[derive(Args)]
pub(crate) struct ReplaceOptions {
    #[command(flatten)]
    place: Place,

    /// The node that leaves.
    old: String,

    /// The node that takes what the other has: a new one, or one that is there. A new one is in the
    /// same zone, if no other is named.
    #[arg(value_name = "NEW[=ZONE]")]
    new: String,

    /// The old one's disks will not come back: no member waits for what only they may hold.
    #[arg(long)]
    lost: bool,
}

/// A member that moves.
#[derive(Args)]
pub(crate) struct MoveOptions {
    #[command(flatten)]
    place: Place,

    /// The number of the chain.
    chain: u32,

    /// The node that has a member of it.
    from: String,

    /// The node that is to have it.
    to: String,
}

/// Chains.
#[derive(Args)]
pub(crate) struct AddChainsOptions {
    #[command(flatten)]
    place: Place,

    /// How many chains to add. Domains that are created later are on them, too.
    #[arg(value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    count: u32,
}

/// Adds a node.
pub(crate) fn add(options: &AddOptions) -> Result<ExitCode> {
    let (name, zone) = node(&options.node);
    ZooKeeperCoordinator::check_name(&name)?;
    give(
        &options.place.settings()?,
        &PlacementCommand::Add(name.clone(), zone),
    )?;
    output::print(&format!(
        "{name} is a node of the cluster: start its process\n"
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// Drains a node.
pub(crate) fn decommission(options: &DecommissionOptions) -> Result<ExitCode> {
    let place = options.place.settings()?;
    let order = PlacementCommand::Decommission(options.node.clone());
    empty(&place, &options.node, &order, options.lost)
}

/// Replaces a node.
pub(crate) fn replace(options: &ReplaceOptions) -> Result<ExitCode> {
    let place = options.place.settings()?;
    let (new, zone) = node(&options.new);
    ZooKeeperCoordinator::check_name(&new)?;
    let zone = Some(zone).filter(|zone| !zone.is_empty());
    let order = PlacementCommand::Replace(options.old.clone(), new, zone);
    empty(&place, &options.old, &order, options.lost)
}

/// Moves a member.
pub(crate) fn relocate(options: &MoveOptions) -> Result<ExitCode> {
    let place = options.place.settings()?;
    let chain = ChainId(options.chain);
    let (from, to) = (options.from.clone(), options.to.clone());
    give(&place, &PlacementCommand::Move(chain, from, to))?;
    follow(&place, |status| match rests(status, chain) {
        true => Ok(None),
        false => Ok(Some(format!("{chain} moves{}", absent(status)))),
    })?;
    let (from, to) = (&options.from, &options.to);
    output::print(&format!("{chain} has moved from {from} to {to}\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// Adds chains.
pub(crate) fn add_chains(options: &AddChainsOptions) -> Result<ExitCode> {
    let place = options.place.settings()?;
    let layout = give(&place, &PlacementCommand::AddChains(options.count))?;
    follow(&place, |status| {
        let begun = |chain: &ChainId| status.configurations.contains_key(chain);
        match layout.chains.keys().find(|chain| !begun(chain)) {
            None => Ok(None),
            Some(chain) => Ok(Some(format!("{chain} begins{}", absent(status)))),
        }
    })?;
    let count = layout.chains.len() - 1;
    output::print(&format!("the cluster has {count} chains for domains\n"))?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn give(
    place: &ZooKeeperSettings,
    order: &PlacementCommand,
) -> Result<fader_node::Layout> {
    Ok(ZooKeeperCoordinator::order(place, order)?)
}

/// Has a node leave, waits until it has nothing, and forgets it.
fn empty(
    place: &ZooKeeperSettings,
    name: &str,
    order: &PlacementCommand,
    is_lost: bool,
) -> Result<ExitCode> {
    let mut given_up = match is_lost {
        true => give_up(place, name)?,
        false => 0,
    };
    if let Err(refused) = give(place, order) {
        // An order that waited for the same has ended as soon as it was given up.
        let status = ZooKeeperCoordinator::look(place)?;
        if given_up == 0 || status.layout.site(name).is_some() {
            return Err(refused);
        }
    }
    follow(place, |status| {
        let Some(site) = status.layout.site(name) else {
            // Another command has waited for it as well.
            return Ok(None);
        };
        if !site.is_leaving {
            return failure::fail(
                ErrorCode::StateConflict,
                format_args!("that was taken back: {name} stays"),
            );
        }
        if is_lost {
            given_up += ZooKeeperCoordinator::abandon(place, name)?;
        }
        Ok(held(status, name))
    })?;
    give(place, &PlacementCommand::Forget(name.to_owned()))?;
    output::print(&match given_up {
        0 => format!("{name} holds nothing: it can be stopped\n"),
        count => format!(
            "{name} holds nothing but what is given up, on {count} disks: it can be stopped\n"
        ),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// No member waits any more for what a node does not have: all its disks, or, of one that runs,
/// those whose folders were damaged. Where that is nothing it is refused, before anything is
/// ordered.
fn give_up(place: &ZooKeeperSettings, name: &str) -> Result<usize> {
    let count = ZooKeeperCoordinator::abandon(place, name)?;
    let status = ZooKeeperCoordinator::look(place)?;
    if count == 0 && status.live.iter().any(|it| it.name == name) {
        return failure::fail(
            ErrorCode::StateConflict,
            format_args!("{name} runs, or its session is not over yet: what it holds is not lost"),
        );
    }
    Ok(count)
}

/// What a node that leaves still has, and what that waits for.
fn held(status: &ClusterStatus, name: &str) -> Option<String> {
    let layout = &status.layout;
    let places = layout.chains_at(name).count();
    let runs = status.live.iter().find(|it| it.name == name);
    let members = runs.map_or(0, |it| it.members.len());
    let mut disks = status.absent.iter().filter(|it| it.node == name);
    if 0 < places {
        return Some(format!(
            "{name} is to give up {places} chains{}{}",
            absent(status),
            unwell(status)
        ));
    }
    if 0 < members {
        return Some(format!(
            "{name} hands off the writes of {members} members{}",
            absent(status)
        ));
    }
    let awaited = disks.find_map(|it| status.awaited(it));
    awaited.map(|words| format!("waits {words}"))
}

/// The chains whose members are not all where they are to be: no member moves meanwhile.
fn unwell(status: &ClusterStatus) -> String {
    let chains = status.layout.chains.keys();
    let unwell = chains.filter(|chain| !rests(status, **chain));
    let unwell: Vec<String> = unwell.map(|chain| chain.0.to_string()).collect();
    match unwell.is_empty() {
        true => String::new(),
        false => format!(
            "; not well yet (`fader cluster diagnose`): chain {}",
            unwell.join(", ")
        ),
    }
}

/// The nodes that are waited for.
pub(crate) fn absent(status: &ClusterStatus) -> String {
    let runs = |name: &str| status.live.iter().any(|it| it.name == name);
    let sites = status.layout.sites.iter();
    let absent = sites.filter(|site| !site.is_leaving && !runs(&site.name));
    let absent: Vec<&str> = absent.map(|site| &*site.name).collect();
    match absent.is_empty() {
        true => String::new(),
        false => format!(", but {} does not run", absent.join(", ")),
    }
}

/// Whether a chain's members are where they are to be.
fn rests(status: &ClusterStatus, chain: ChainId) -> bool {
    let live = status.live.iter();
    let lives = live.map(|it| (it.name.clone(), it.member(chain)));
    let lives: Vec<_> = lives.collect();
    let places = status.layout.nodes(chain);
    let newest = status.configurations.get(&chain);
    is_at_rest(newest, places, &lives)
}

/// Looks until nothing is waited for any more, and tells what is. What was ordered stands while
/// ZooKeeper does not answer.
pub(crate) fn follow(
    place: &ZooKeeperSettings,
    mut waits: impl FnMut(&ClusterStatus) -> Result<Option<String>>,
) -> Result<()> {
    let begun = Instant::now();
    let mut told = begun;
    let mut onlooker = StatusReader::new(place);
    loop {
        let what = match onlooker.look() {
            Ok(status) => waits(&status)?,
            Err(CoordinatorError::Unavailable(reason)) => {
                Some(format!("waits for ZooKeeper: {reason}"))
            }
            Err(refused) => return Err(refused.into()),
        };
        let Some(what) = what else {
            return Ok(());
        };
        if PATIENCE <= told.elapsed() {
            told = Instant::now();
            let seconds = begun.elapsed().as_secs();
            // A missing reader is no matter.
            let _ = writeln!(std::io::stderr(), "{what} after {seconds} s");
        }
        std::thread::sleep(LOOK);
    }
}
