//! `fader cluster status`: how a cluster stands, as ZooKeeper knows it; once, or again and again.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use fader_node::coordinator::{CoordinatorError, Onlooker, Standing};
use fader_node::{ChainId, Configuration, Role, Site};

use crate::founding::Place;
use crate::{output, restoring};

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
    let mut onlooker = Onlooker::new(&place);
    let mut told = table(&onlooker.look().context("asking ZooKeeper")?);
    output::print(&told)?;
    if !options.watch {
        return Ok(ExitCode::SUCCESS);
    }
    loop {
        std::thread::sleep(LOOK);
        let now = match onlooker.look() {
            Ok(standing) => table(&standing),
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
fn table(standing: &Standing) -> String {
    let cluster = &standing.cluster;
    let newest = standing.configurations.get(&ChainId::SYSTEM);
    let epoch = newest.map_or(0, |newest| newest.epoch);
    let (version, lease) = (cluster.version, cluster.session);
    let mut text = format!("epoch {epoch}, lease {lease:?}, version {version}\n");
    for site in &standing.layout.sites {
        let name = &site.name;
        let role = role(standing, ChainId::SYSTEM, name);
        let mut lives = standing.present.iter().rev();
        let address = lives.find(|life| life.name == *name);
        let address = address.map_or("-", |life| life.address.as_str());
        let wish = match site {
            Site {
                is_leaving: true, ..
            } => " leaves",
            Site {
                is_resting: true, ..
            } => " rests",
            _ => "",
        };
        text += &format!("{name:<12} {role:<8} {address}{wish}\n");
    }
    for (chain, spread) in standing.layout.chains.iter().skip(1) {
        let (chain, names) = (*chain, &spread.nodes);
        let newest = standing.configurations.get(&chain);
        let epoch = newest.map_or(0, |newest| newest.epoch);
        let members = in_order(standing, newest, names).into_iter();
        let members = members.map(|name| format!("{name} {}", role(standing, chain, &name)));
        let members: Vec<String> = members.collect();
        text += &format!("{chain}: epoch {epoch}: {}\n", members.join(", "));
    }
    for fault in &standing.faults {
        text += &format!("{fault}\n");
    }
    for (chain, newest) in &standing.configurations {
        let lossy = newest.lossy;
        if lossy.count != 0 {
            let lossy = restoring::standing(lossy.count, lossy.epoch);
            text += &format!("{chain} {lossy}");
        }
    }
    text
}

/// The names of a chain's nodes, those with a seat first, in the order of the seats.
fn in_order(standing: &Standing, newest: Option<&Configuration>, names: &[String]) -> Vec<String> {
    let mut seated: Vec<String> = Vec::new();
    for seat in newest.map_or(&[][..], |newest| &newest.seats) {
        let is_its = |(_, life): &(ChainId, _)| fader_node::is_of(seat, life);
        let mut present = standing.present.iter();
        let of = present.find(|it| it.members.iter().any(is_its));
        seated.extend(of.map(|it| it.name.clone()));
    }
    let out = names.iter().filter(|name| !seated.contains(name)).cloned();
    let out: Vec<String> = out.collect();
    seated.into_iter().chain(out).collect()
}

/// What the node of that name is in a chain.
fn role(standing: &Standing, chain: ChainId, name: &str) -> &'static str {
    let Some(newest) = standing.configurations.get(&chain) else {
        return "out";
    };
    let lives = standing.present.iter().filter(|life| life.name == *name);
    let mut members = lives.flat_map(|life| &life.members);
    let seat = members.find_map(|(of, life)| {
        let seat = newest
            .seats
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
