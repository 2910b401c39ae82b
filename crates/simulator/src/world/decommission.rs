//! Members that leave the chain permanently (docs/internals/protocol/reconfiguration.md, section
//! 12), and come as new ones.
//!
//! The chain is placed elsewhere than at one member. That member hands off what it holds and is
//! left out, and its machine comes back with an empty disk. An operator may take that back, also
//! when it was done already, and the member has not heard of it.

use std::collections::BTreeSet;

use fader_chain::{Configuration, NodeId};

use super::World;
use super::plan::{Fault, Micros, Plan};
use super::random::Random;

/// Who is to leave, and who has left.
#[derive(Clone, Debug, Default)]
pub(crate) struct Decommissions {
    leaving: BTreeSet<NodeId>,
    gone: BTreeSet<NodeId>,
}

impl Decommissions {
    /// The member is to stay, or to come back as it is.
    pub(crate) fn stay(&mut self, node: NodeId) {
        self.leaving.remove(&node);
        self.gone.remove(&node);
    }

    /// The member has lost its disk, and with it what it had to hand off: another comes instead.
    pub(crate) fn lose(&mut self, node: NodeId) {
        self.leaving.remove(&node);
    }

    /// Who has no part in the chain yet has nothing to hand off, and joins.
    pub(crate) fn on_calm(&mut self, newest: &Configuration) {
        let is_absent = |node: NodeId| newest.absent.iter().any(|absent| absent.node == node);
        self.leaving
            .retain(|node| newest.member(*node).is_some() || is_absent(*node));
    }

    /// Whether it has left.
    pub(crate) fn is_gone(&self, node: NodeId) -> bool {
        self.gone.contains(&node)
    }

    /// How many members the chain is to have less, meanwhile.
    pub(crate) fn missing(&self) -> usize {
        self.leaving.len()
    }

    /// Where the chain is not to be: where a member has left its last incarnation may be there
    /// still.
    pub(crate) fn unwanted(&self) -> Vec<NodeId> {
        self.leaving.union(&self.gone).copied().collect()
    }

    /// Who had a membership, was to leave, and is not waited for, is gone.
    pub(crate) fn on_published(&mut self, before: Option<&Configuration>, next: &Configuration) {
        let Some(node) = before.and_then(Configuration::leaving) else {
            return;
        };
        let is_absent = next.absent.iter().any(|absent| absent.node == node);
        if next.member(node).is_none() && !is_absent && self.leaving.remove(&node) {
            self.gone.insert(node);
        }
    }
}

impl World {
    /// The chain is to be placed elsewhere, if it is not already under way.
    pub(crate) fn leave(&mut self, machine: usize) {
        let node = self.machines[machine].node;
        let decommissions = &mut self.coordinator.decommissions;
        let has_others = 1 < self.machines.len();
        if has_others && decommissions.leaving.is_empty() && !decommissions.is_gone(node) {
            decommissions.leaving.insert(node);
        }
    }
}

/// Again and again a member leaves.
pub(super) fn add(faults: &mut Vec<(Micros, Fault)>, plan: &Plan, random: &mut Random) {
    let members = plan.members as usize;
    let mut at = random.between(100_000, 400_000);
    while at < plan.calm_at {
        let machine = random.below(members);
        faults.push((at, Fault::Leave(machine)));
        if random.chance(300) {
            let then = at + random.skewed(10_000, 500_000);
            faults.push((then.min(plan.calm_at), Fault::Stay(machine)));
        }
        if random.chance(300) {
            let then = at + random.between(0, 300_000);
            faults.push((then.min(plan.calm_at), Fault::Collect));
        }
        at += random.skewed(30_000, 700_000);
    }
}

/// Again and again a member leaves and does not hear that it has; it is to stay after all.
pub(super) fn taken_back(plan: &Plan, random: &mut Random) -> Vec<(Micros, Fault)> {
    let members = plan.members as usize;
    let mut faults = Vec::new();
    let mut at = random.between(100_000, 400_000);
    while at < plan.calm_at {
        let machine = random.below(members);
        faults.push((at, Fault::Leave(machine)));
        let deaf_at = at + random.skewed(1_000, 200_000);
        let stay_at = deaf_at + random.skewed(1_000, 400_000);
        let long = stay_at - deaf_at + random.skewed(1_000, 300_000);
        faults.push((deaf_at, Fault::Deafen(machine, long)));
        faults.push((stay_at, Fault::Stay(machine)));
        if random.chance(300) {
            faults.push((stay_at, Fault::Collect));
        }
        at = stay_at + random.between(100_000, 900_000);
    }
    faults.retain(|(at, _)| *at < plan.calm_at);
    faults
}
