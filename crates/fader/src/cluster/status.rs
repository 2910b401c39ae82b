//! `fader cluster status`: how a cluster stands, as ZooKeeper knows it; once, or again and again.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use fader_node::coordinator::{ClusterStatus, CoordinatorError, StatusReader};
use fader_node::{ChainId, Configuration, PlacementNode, Role};

use crate::cluster::init::Place;
use crate::cluster::restore;
use crate::output;

/// How often it is looked for changes.
const LOOK: Duration = Duration::from_millis(500);

/// Which cluster.
#[derive(Args)]
pub(crate) struct StatusOptions {
    #[command(flatten)]
    place: Place,

    /// Prints it again whenever it changes, until it is interrupted.
    #[arg(long)]
    watch: bool,
}

/// Says how a cluster stands.
pub(crate) fn status(options: &StatusOptions) -> Result<ExitCode> {
    let place = options.place.settings()?;
    let mut onlooker = StatusReader::new(&place);
    let mut told = table(&onlooker.look().context("asking ZooKeeper")?);
    output::print(&told)?;
    if !options.watch {
        return Ok(ExitCode::SUCCESS);
    }
    loop {
        std::thread::sleep(LOOK);
        let now = match onlooker.look() {
            Ok(status) => table(&status),
            // It may come back.
            Err(CoordinatorError::Unavailable(reason)) => {
                format!("waits for ZooKeeper: {reason}\n")
            }
            Err(refused) => return Err(refused.into()),
        };
        if now != told {
            output::print(&format!("\n{now}"))?;
            told = now;
        }
    }
}

/// The system chain, with each node; then a line for each chain of data.
fn table(status: &ClusterStatus) -> String {
    let cluster = &status.cluster;
    let newest = status.configurations.get(&ChainId::SYSTEM);
    let epoch = newest.map_or(0, |newest| newest.epoch);
    let (version, lease) = (cluster.version, cluster.session);
    let mut text = format!("epoch {epoch}, lease {lease:?}, version {version}\n");
    for site in &status.layout.sites {
        let name = &site.name;
        let mut lives = status.live.iter().rev();
        let address = lives.find(|life| life.name == *name);
        let is_of_system = status.layout.nodes(ChainId::SYSTEM).contains(name);
        let role = match role(status, ChainId::SYSTEM, name) {
            "out" if address.is_some() && !is_of_system => "present",
            role => role,
        };
        let address = address.map_or("-", |life| life.address.as_str());
        let policy = match site {
            PlacementNode {
                is_leaving: true, ..
            } => " leaves",
            PlacementNode {
                is_resting: true, ..
            } => " rests",
            _ => "",
        };
        text += &format!("{name:<12} {role:<8} {address}{policy}\n");
    }
    for (chain, spread) in status.layout.chains.iter().skip(1) {
        let (chain, names) = (*chain, &spread.nodes);
        let newest = status.configurations.get(&chain);
        let epoch = newest.map_or(0, |newest| newest.epoch);
        let members = in_order(status, newest, names).into_iter();
        let members = members.map(|name| format!("{name} {}", role(status, chain, &name)));
        let members: Vec<String> = members.collect();
        text += &format!("{chain}: epoch {epoch}: {}\n", members.join(", "));
    }
    for fault in &status.faults {
        text += &format!("{fault}\n");
    }
    for (chain, newest) in &status.configurations {
        let lossy = newest.lossy;
        if lossy.count != 0 {
            let lossy = restore::status(lossy.count, lossy.epoch);
            text += &format!("{chain} {lossy}");
        }
    }
    text
}

/// The names of a chain's nodes, those with a membership first, in the order of the members.
fn in_order(
    status: &ClusterStatus,
    newest: Option<&Configuration>,
    names: &[String],
) -> Vec<String> {
    let mut seated: Vec<String> = Vec::new();
    for seat in newest.map_or(&[][..], |newest| &newest.members) {
        let is_its = |(_, life): &(ChainId, _)| fader_node::is_of(seat, life);
        let mut live = status.live.iter();
        let of = live.find(|it| it.members.iter().any(is_its));
        seated.extend(of.map(|it| it.name.clone()));
    }
    let out = names.iter().filter(|name| !seated.contains(name)).cloned();
    let out: Vec<String> = out.collect();
    seated.into_iter().chain(out).collect()
}

/// What the node of that name is in a chain.
fn role(status: &ClusterStatus, chain: ChainId, name: &str) -> &'static str {
    let Some(newest) = status.configurations.get(&chain) else {
        return "out";
    };
    let lives = status.live.iter().filter(|life| life.name == *name);
    let mut members = lives.flat_map(|life| &life.members);
    let seat = members.find_map(|(of, life)| {
        let seat = newest
            .members
            .iter()
            .find(|seat| fader_node::is_of(seat, life));
        seat.filter(|_| *of == chain)
    });
    match seat {
        Some(seat) if newest.head() == seat.node => "head",
        Some(seat) if seat.role == Role::Serving => "serving",
        Some(seat) if seat.role == Role::Leaving => "leaving",
        Some(_) => "joining",
        None => "out",
    }
}
