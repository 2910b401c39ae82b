//! The places of the system chain (LAYOUT-3).

use std::collections::BTreeSet;

use super::{ClusterLimits, Layout};
use crate::config::ChainId;
use crate::placement::{Placement, PlacementNode, PlacementPolicy, place};

impl Layout {
    /// The nodes of the system chain that stay.
    fn staying_in_system(&self) -> Vec<String> {
        let stays = |name: &&String| self.site(name).is_some_and(|site| !site.is_leaving);
        let nodes = self.nodes(ChainId::SYSTEM).iter();
        nodes.filter(stays).cloned().collect()
    }

    /// A node that comes is of the system chain, if that has room.
    pub(super) fn enter_system(&mut self, name: &str, limits: &ClusterLimits) {
        let others = self.staying_in_system();
        let others = others.iter().filter(|other| *other != name).count();
        let system = self.chains.entry(ChainId::SYSTEM).or_default();
        if others < limits.system_nodes && !system.nodes.iter().any(|it| it == name) {
            system.nodes.push(name.to_owned());
        }
    }

    /// LAYOUT-3: a node comes to the system chain, or those that hold nothing else leave it, or one
    /// of too many does.
    pub(super) fn step_system(
        &mut self,
        limits: &ClusterLimits,
        present: &BTreeSet<String>,
        hold: &BTreeSet<String>,
    ) {
        let staying = self.staying_in_system();
        let wanted = self.staying().count().min(limits.system_nodes);
        if staying.len() < wanted {
            let sites = self.staying().cloned();
            let sites: Vec<PlacementNode> = sites
                .filter(|site| present.contains(&site.name) || staying.contains(&site.name))
                .collect();
            let goal = place_system(&sites, &staying, wanted);
            let mut comes = goal.into_iter().filter(|name| !staying.contains(name));
            let system = self.chains.entry(ChainId::SYSTEM).or_default();
            // Where none of them runs, one is waited for.
            return system.nodes.extend(comes.next());
        }
        let is_empty = |site: &&PlacementNode| site.is_leaving && !hold.contains(&site.name);
        let done = self.sites.iter().filter(is_empty);
        let mut done: BTreeSet<String> = done.map(|site| site.name.clone()).collect();
        let is_there = |name: &String| self.nodes(ChainId::SYSTEM).contains(name);
        done.retain(is_there);
        if done.is_empty() && wanted < staying.len() {
            let zone = |name: &String| self.site(name).map(|site| &site.zone);
            let is_alone = |name: &&String| {
                let mut others = staying.iter().filter(|other| other != name);
                others.all(|other| zone(other) != zone(name))
            };
            let last = staying.iter().rev().find(|name| !is_alone(name));
            done.extend(last.or(staying.last()).cloned());
        }
        let system = self.chains.entry(ChainId::SYSTEM).or_default();
        system.nodes.retain(|name| !done.contains(name));
    }
}

/// Nodes of the system chain, at most `count`: those that it has, and others in as many zones as
/// can be.
pub(super) fn place_system(
    sites: &[PlacementNode],
    current: &[String],
    count: usize,
) -> Vec<String> {
    let policy = PlacementPolicy {
        replication_factor: count,
        head_zone: None,
        tail_zone: None,
    };
    let current = Placement::from([(ChainId::SYSTEM, current.to_vec())]);
    let kept = BTreeSet::from([ChainId::SYSTEM]);
    let mut goal = place(sites, &[ChainId::SYSTEM], &policy, &current, &kept);
    goal.remove(&ChainId::SYSTEM).unwrap_or_default()
}
