//! `fader cluster add`, `drain`, `replace`, `move` and `chains`: where the members of chains are to
//! be. What is ordered is kept in ZooKeeper, and the nodes carry it out: whoever waits here may
//! stop waiting, and ask again.

use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::Args;
use fader_node::coordinator::{
    CoordinatorError, Onlooker, Standing, ZooKeeperCoordinator, ZooKeeperSettings,
};
use fader_node::{ChainId, Order, is_at_rest};

use crate::founding::{Place, node};
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

const DRAIN_EXAMPLES: &str = "\
Each chain gets another member first, then the node's leaves, one chain after the other. It ends
when the node holds nothing. Interrupted, it goes on; asked again, it is waited for again. `fader
cluster add` takes it back.

Examples:
  fader cluster drain n1 --zookeeper zk1
  fader cluster drain n1 --lost --zookeeper zk1     n1 is gone with its disks: eventual writes that
                                                    only it has are lost
  (also where n1 runs, and the folder of a member was damaged: that folder is given up, and the
  members that are well hand on what they hold)";

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
#[command(after_help = DRAIN_EXAMPLES)]
pub(crate) struct DrainOptions {
    #[command(flatten)]
    place: Place,

    /// Its name.
    node: String,

    /// Its disks will not come back: nobody waits for what only they may hold.
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

    /// The old one's disks will not come back: nobody waits for what only they may hold.
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
pub(crate) struct ChainsOptions {
    #[command(flatten)]
    place: Place,

    /// So many more. Domains that are created later are on them, too.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    add: u32,
}

/// Adds a node.
pub(crate) fn add(options: &AddOptions) -> Result<ExitCode> {
    let (name, zone) = node(&options.node);
    ZooKeeperCoordinator::check_name(&name)?;
    give(&options.place.settings()?, &Order::Add(name.clone(), zone))?;
    output::print(&format!(
        "{name} is a node of the cluster: start its process\n"
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// Drains a node.
pub(crate) fn drain(options: &DrainOptions) -> Result<ExitCode> {
    let place = options.place.settings()?;
    let order = Order::Drain(options.node.clone());
    empty(&place, &options.node, &order, options.lost)
}

/// Replaces a node.
pub(crate) fn replace(options: &ReplaceOptions) -> Result<ExitCode> {
    let place = options.place.settings()?;
    let (new, zone) = node(&options.new);
    ZooKeeperCoordinator::check_name(&new)?;
    let zone = Some(zone).filter(|zone| !zone.is_empty());
    let order = Order::Replace(options.old.clone(), new, zone);
    empty(&place, &options.old, &order, options.lost)
}

/// Moves a member.
pub(crate) fn relocate(options: &MoveOptions) -> Result<ExitCode> {
    let place = options.place.settings()?;
    let chain = ChainId(options.chain);
    let (from, to) = (options.from.clone(), options.to.clone());
    give(&place, &Order::Move(chain, from, to))?;
    follow(&place, |standing| match rests(standing, chain) {
        true => Ok(None),
        false => Ok(Some(format!("{chain} moves{}", absent(standing)))),
    })?;
    let (from, to) = (&options.from, &options.to);
    output::print(&format!("{chain} has moved from {from} to {to}\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// Adds chains.
pub(crate) fn chains(options: &ChainsOptions) -> Result<ExitCode> {
    let place = options.place.settings()?;
    let layout = give(&place, &Order::AddChains(options.add))?;
    follow(&place, |standing| {
        let begun = |chain: &ChainId| standing.configurations.contains_key(chain);
        match layout.chains.keys().find(|chain| !begun(chain)) {
            None => Ok(None),
            Some(chain) => Ok(Some(format!("{chain} begins{}", absent(standing)))),
        }
    })?;
    let count = layout.chains.len() - 1;
    output::print(&format!("the cluster has {count} chains for domains\n"))?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn give(place: &ZooKeeperSettings, order: &Order) -> Result<fader_node::Layout> {
    Ok(ZooKeeperCoordinator::order(place, order)?)
}

/// Has a node leave, waits until it has nothing, and forgets it.
fn empty(place: &ZooKeeperSettings, name: &str, order: &Order, is_lost: bool) -> Result<ExitCode> {
    let mut given_up = match is_lost {
        true => give_up(place, name)?,
        false => 0,
    };
    if let Err(refused) = give(place, order) {
        // An order that waited for the same has ended as soon as it was given up.
        let standing = ZooKeeperCoordinator::look(place)?;
        if given_up == 0 || standing.layout.site(name).is_some() {
            return Err(refused);
        }
    }
    follow(place, |standing| {
        let Some(site) = standing.layout.site(name) else {
            // Somebody else has waited for it as well.
            return Ok(None);
        };
        if !site.is_leaving {
            bail!("that was taken back: {name} stays");
        }
        if is_lost {
            given_up += ZooKeeperCoordinator::abandon(place, name)?;
        }
        Ok(held(standing, name))
    })?;
    give(place, &Order::Forget(name.to_owned()))?;
    output::print(&match given_up {
        0 => format!("{name} holds nothing: it can be stopped\n"),
        count => format!(
            "{name} holds nothing but what is given up, on {count} disks: it can be stopped\n"
        ),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Has nobody wait for what a node does not have any more: all its disks, or, of one that runs,
/// those whose folders were damaged. Where that is nothing it is refused, before anything is
/// ordered.
fn give_up(place: &ZooKeeperSettings, name: &str) -> Result<usize> {
    let count = ZooKeeperCoordinator::abandon(place, name)?;
    let standing = ZooKeeperCoordinator::look(place)?;
    if count == 0 && standing.present.iter().any(|it| it.name == name) {
        bail!("{name} runs, or its session is not over yet: what it holds is not lost");
    }
    Ok(count)
}

/// What a node that leaves still has, and what that waits for.
fn held(standing: &Standing, name: &str) -> Option<String> {
    let layout = &standing.layout;
    let places = layout.chains_at(name).count();
    let runs = standing.present.iter().find(|it| it.name == name);
    let lives = runs.map_or(0, |it| it.members.len());
    let mut away = standing.away.iter().filter(|it| it.node == name);
    if 0 < places {
        return Some(format!(
            "{name} is to give up {places} chains{}{}",
            absent(standing),
            unwell(standing)
        ));
    }
    if 0 < lives {
        return Some(format!(
            "{name} hands on what {lives} members hold{}",
            absent(standing)
        ));
    }
    let awaited = away.find_map(|it| standing.awaited(it));
    awaited.map(|words| format!("waits {words}"))
}

/// The chains whose members are not all where they are to be: no member moves meanwhile.
fn unwell(standing: &Standing) -> String {
    let chains = standing.layout.chains.keys();
    let unwell = chains.filter(|chain| !rests(standing, **chain));
    let unwell: Vec<String> = unwell.map(|chain| chain.0.to_string()).collect();
    match unwell.is_empty() {
        true => String::new(),
        false => format!(
            "; not well yet (`fader cluster why`): chain {}",
            unwell.join(", ")
        ),
    }
}

/// The nodes that are waited for.
pub(crate) fn absent(standing: &Standing) -> String {
    let runs = |name: &str| standing.present.iter().any(|it| it.name == name);
    let sites = standing.layout.sites.iter();
    let absent = sites.filter(|site| !site.is_leaving && !runs(&site.name));
    let absent: Vec<&str> = absent.map(|site| &*site.name).collect();
    match absent.is_empty() {
        true => String::new(),
        false => format!(", but {} does not run", absent.join(", ")),
    }
}

/// Whether a chain's members are where they are to be.
fn rests(standing: &Standing, chain: ChainId) -> bool {
    let present = standing.present.iter();
    let lives = present.map(|it| (it.name.clone(), it.member(chain)));
    let lives: Vec<_> = lives.collect();
    let places = standing.layout.nodes(chain);
    let newest = standing.configurations.get(&chain);
    is_at_rest(newest, places, &lives)
}

/// Looks until nothing is waited for any more, and tells what is. What was ordered stands while
/// ZooKeeper does not answer.
pub(crate) fn follow(
    place: &ZooKeeperSettings,
    mut waits: impl FnMut(&Standing) -> Result<Option<String>>,
) -> Result<()> {
    let begun = Instant::now();
    let mut told = begun;
    let mut onlooker = Onlooker::new(place);
    loop {
        let what = match onlooker.look() {
            Ok(standing) => waits(&standing)?,
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
            // That nobody reads it is no matter.
            let _ = writeln!(std::io::stderr(), "{what} after {seconds} s");
        }
        std::thread::sleep(LOOK);
    }
}
