//! The nodes of a cluster and the places of its chains, as they are wished now. It has what an
//! operator's order makes of them, and the next step towards the final places.
//!
//! A layout says where members are to be; `crate::controller` gets them there. It changes by one
//! member at a time, and by the next one when all chains have followed. So a node is filled with
//! one chain at a time, and a chain has one member more than it should, never fewer.
//!
//! Invariants:
//! - LAYOUT-1 a chain loses no copy: as many nodes stay as a chain has members, or it is refused.
//! - LAYOUT-2 a step changes one place of one chain, and only when every chain is at rest.
//! - LAYOUT-3 the system chain has five nodes that stay, or all where there are fewer, in as many
//!   zones as possible. A node that leaves gives it up last.
//! - LAYOUT-4 where all is as it is to be there is no step (PLACE-5).
//!
//! Deliberately absent: how a layout is kept, and who may change it at the same time.

mod limits;
mod system;

use std::collections::{BTreeMap, BTreeSet};

use self::limits::OLD_NODES_MAX;
pub use self::limits::{CHAINS_MAX, ClusterLimits, NODES_MAX, SYSTEM_NODES_MAX};
use self::system::place_system;
use super::{Placement, PlacementNode, PlacementPolicy, place};
use crate::config::{ChainId, Configuration, Role};
use crate::controller::is_of;
use crate::replica::Identity;

/// The places of one chain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChainPlacement {
    /// The names of its nodes, head first as it began.
    pub nodes: Vec<String>,
    /// Whether they were chosen by hand: they stay, but for nodes that leave.
    pub is_pinned: bool,
}

/// Nodes and places.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// The nodes.
    pub sites: Vec<PlacementNode>,
    /// The places of each chain, that of the system among them.
    pub chains: BTreeMap<ChainId, ChainPlacement>,
}

/// What can be ordered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlacementCommand {
    /// A node comes, in this zone; one that leaves stays.
    Add(String, String),
    /// A node gives up all that it has.
    Decommission(String),
    /// A node gives up all that it has, to another one, which may be new. That one is then in this
    /// zone, or in the first one's.
    Replace(String, String, Option<String>),
    /// A member of a chain moves from a node to another.
    Move(ChainId, String, String),
    /// The process of a node is to be stopped for a while, or that is over.
    Rest(String, bool),
    /// So many chains more.
    AddChains(u32),
    /// A node that leaves, and has nothing any more, is forgotten; one that was forgotten stays so.
    Forget(String),
}

/// Why an order is not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// There is no such node.
    #[error("{0} is no node of the cluster")]
    NoNode(String),
    /// The node is there already.
    #[error("{0} is a node of the cluster already")]
    IsThere(String),
    /// The node leaves.
    #[error("{0} is leaving the cluster")]
    Leaves(String),
    /// There is no such chain, or it is the system chain.
    #[error("{0} is no chain whose members can be moved by hand")]
    NoChain(ChainId),
    /// The node has no member of the chain.
    #[error("{0} has no member of {1}")]
    NotAt(String, ChainId),
    /// The node has a member of the chain already.
    #[error("{0} has a member of {1} already")]
    IsAt(String, ChainId),
    /// Chains would have fewer members.
    #[error(
        "{left} nodes would be left, and chains have {copies} members: add a node first, or \
         replace this one"
    )]
    TooFew {
        /// Nodes that would stay.
        left: usize,
        /// Members of a chain.
        copies: usize,
    },
    /// A chain would be in fewer zones, or its head's or tail's wish would be broken.
    #[error("{0} would be in fewer zones, or not in the one wished for its head or tail")]
    Zones(ChainId),
    /// The node is not empty.
    #[error("{0} still has members")]
    NotEmpty(String),
    /// There are as many as there can be.
    #[error(
        "a cluster of version {} has at most {} nodes and {} chains: make another cluster for more",
        .0.version, .0.nodes, .0.chains
    )]
    TooMany(ClusterLimits),
    /// The system chain has all domains.
    #[error("the cluster was made with one chain that has all domains: it takes no others")]
    OneChain,
}

impl Layout {
    /// That of a cluster that begins: with `chains` beside the system chain. Up to seven nodes all
    /// begin with the system chain, in any version; steps take it off some.
    pub fn founded(sites: Vec<PlacementNode>, chains: u32, policy: &PlacementPolicy) -> Layout {
        let data: Vec<ChainId> = (1..=chains).map(ChainId).collect();
        let mut places = place(&sites, &data, policy, &Placement::new(), &BTreeSet::new());
        let system = match sites.len() <= OLD_NODES_MAX {
            true => sites.iter().map(|site| site.name.clone()).collect(),
            false => place_system(&sites, &[], SYSTEM_NODES_MAX),
        };
        places.insert(ChainId::SYSTEM, system);
        let spread = |nodes| ChainPlacement {
            nodes,
            is_pinned: false,
        };
        let chains = places.into_iter();
        Layout {
            sites,
            chains: chains.map(|(chain, it)| (chain, spread(it))).collect(),
        }
    }

    /// The nodes of a chain; none of one that is not there.
    pub fn nodes(&self, chain: ChainId) -> &[String] {
        let spread = self.chains.get(&chain);
        spread.map_or(&[], |spread| &spread.nodes)
    }

    /// A node.
    pub fn site(&self, name: &str) -> Option<&PlacementNode> {
        self.sites.iter().find(|site| site.name == name)
    }

    /// The chains that a node is to have members of.
    pub fn chains_at(&self, name: &str) -> impl Iterator<Item = ChainId> {
        let chains = self.chains.iter();
        let is_there =
            move |(_, spread): &(_, &ChainPlacement)| spread.nodes.iter().any(|it| it == name);
        chains.filter(is_there).map(|(chain, _)| *chain)
    }

    /// What an order makes of it, in a cluster of this size at most.
    ///
    /// # Errors
    /// [`PlacementError`].
    pub fn ordered(
        &self,
        order: &PlacementCommand,
        policy: &PlacementPolicy,
        limits: &ClusterLimits,
    ) -> Result<Layout, PlacementError> {
        let mut next = self.clone();
        match order {
            PlacementCommand::Add(name, zone) => next.add(name, zone, limits)?,
            PlacementCommand::Decommission(name) => next.leave(name, None)?,
            PlacementCommand::Replace(old, new, zone) => {
                next.replace(old, new, zone.as_deref(), limits)?;
            }
            PlacementCommand::Move(chain, from, to) => next.relocate(*chain, from, to, policy)?,
            PlacementCommand::Rest(name, is_resting) => next.rest(name, *is_resting)?,
            PlacementCommand::AddChains(count) => next.add_chains(*count, policy, limits)?,
            PlacementCommand::Forget(name) => next.forget(name)?,
        }
        next.check(self, order, policy)?;
        Ok(next)
    }

    /// LAYOUT-1, and PLACE-2 where members go to a chosen node.
    fn check(
        &self,
        before: &Layout,
        order: &PlacementCommand,
        policy: &PlacementPolicy,
    ) -> Result<(), PlacementError> {
        let (stayed, left) = (before.staying().count(), self.staying().count());
        let copies = policy.replication_factor.min(stayed);
        if left < copies || left == 0 {
            return Err(PlacementError::TooFew { left, copies });
        }
        if let PlacementCommand::Replace(..) = order {
            let goal = self.goal(policy);
            let loses = |(chain, names): &(&ChainId, &Vec<String>)| {
                !before.keeps_zones(before.nodes(**chain), names, policy)
            };
            if let Some((chain, _)) = goal.iter().find(loses) {
                return Err(PlacementError::Zones(*chain));
            }
        }
        Ok(())
    }

    fn staying(&self) -> impl Iterator<Item = &PlacementNode> {
        self.sites.iter().filter(|site| !site.is_leaving)
    }

    fn site_mut(&mut self, name: &str) -> Result<&mut PlacementNode, PlacementError> {
        let site = self.sites.iter_mut().find(|site| site.name == name);
        site.ok_or_else(|| PlacementError::NoNode(name.to_owned()))
    }

    fn add(
        &mut self,
        name: &str,
        zone: &str,
        limits: &ClusterLimits,
    ) -> Result<(), PlacementError> {
        if let Ok(site) = self.site_mut(name) {
            if !site.is_leaving {
                return Err(PlacementError::IsThere(name.to_owned()));
            }
            (site.is_leaving, site.successor) = (false, None);
        } else if limits.nodes <= self.sites.len() {
            return Err(PlacementError::TooMany(*limits));
        } else {
            self.enter(name, zone);
        }
        self.enter_system(name, limits);
        Ok(())
    }

    fn enter(&mut self, name: &str, zone: &str) {
        self.sites.push(PlacementNode {
            name: name.to_owned(),
            zone: zone.to_owned(),
            is_leaving: false,
            is_resting: false,
            successor: None,
        });
    }

    fn leave(&mut self, name: &str, successor: Option<&str>) -> Result<(), PlacementError> {
        let site = self.site_mut(name)?;
        (site.is_leaving, site.is_resting) = (true, false);
        if let Some(successor) = successor {
            site.successor = Some(successor.to_owned());
        }
        Ok(())
    }

    fn rest(&mut self, name: &str, is_resting: bool) -> Result<(), PlacementError> {
        let site = self.site_mut(name)?;
        if site.is_leaving {
            return Err(PlacementError::Leaves(name.to_owned()));
        }
        site.is_resting = is_resting;
        Ok(())
    }

    fn replace(
        &mut self,
        old: &str,
        new: &str,
        zone: Option<&str>,
        limits: &ClusterLimits,
    ) -> Result<(), PlacementError> {
        let own = self.site_mut(old)?.zone.clone();
        let is_new = match self.site(new) {
            Some(site) if site.is_leaving || new == old => {
                return Err(PlacementError::Leaves(new.to_owned()));
            }
            // The one that leaves makes room, in the end.
            None if limits.nodes < self.sites.len() => {
                return Err(PlacementError::TooMany(*limits));
            }
            known => known.is_none(),
        };
        self.leave(old, Some(new))?;
        if is_new {
            self.enter(new, zone.unwrap_or(&own));
            self.enter_system(new, limits);
        }
        Ok(())
    }

    fn relocate(
        &mut self,
        chain: ChainId,
        from: &str,
        to: &str,
        policy: &PlacementPolicy,
    ) -> Result<(), PlacementError> {
        if chain == ChainId::SYSTEM || !self.chains.contains_key(&chain) {
            return Err(PlacementError::NoChain(chain));
        }
        self.site_mut(from)?;
        if self.site_mut(to)?.is_leaving {
            return Err(PlacementError::Leaves(to.to_owned()));
        }
        let before = self.nodes(chain).to_vec();
        if before.iter().any(|name| name == to) {
            return Err(PlacementError::IsAt(to.to_owned(), chain));
        }
        let Some(at) = before.iter().position(|name| name == from) else {
            return Err(PlacementError::NotAt(from.to_owned(), chain));
        };
        let mut after = before.clone();
        to.clone_into(&mut after[at]);
        if !self.keeps_zones(&before, &after, policy) {
            return Err(PlacementError::Zones(chain));
        }
        let spread = ChainPlacement {
            nodes: after,
            is_pinned: true,
        };
        self.chains.insert(chain, spread);
        Ok(())
    }

    /// Whether `after` is in as many zones as `before`, and in those that are wished as well.
    fn keeps_zones(&self, before: &[String], after: &[String], policy: &PlacementPolicy) -> bool {
        let zone = |name: &String| self.site(name).map(|site| &*site.zone);
        let zones =
            |names: &[String]| -> BTreeSet<&str> { names.iter().filter_map(zone).collect() };
        let (was, is) = (zones(before), zones(after));
        let wished = [&policy.head_zone, &policy.tail_zone];
        let mut wished = wished.into_iter().flatten();
        was.len() <= is.len() && wished.all(|zone| !was.contains(&**zone) || is.contains(&**zone))
    }

    /// The new ones are put where they fit; others stay.
    fn add_chains(
        &mut self,
        count: u32,
        policy: &PlacementPolicy,
        limits: &ClusterLimits,
    ) -> Result<(), PlacementError> {
        let last = self.chains.keys().last().map_or(0, |chain| chain.0);
        if last == 0 {
            return Err(PlacementError::OneChain);
        }
        let Some(end) = last.checked_add(count).filter(|end| *end <= limits.chains) else {
            return Err(PlacementError::TooMany(*limits));
        };
        let before = self.data();
        let kept = before.keys().copied().collect();
        let chains: Vec<ChainId> = (1..=end).map(ChainId).collect();
        let goal = place(&self.sites, &chains, policy, &before, &kept);
        for (chain, nodes) in goal {
            if !before.contains_key(&chain) {
                let is_kept = false;
                self.chains.insert(
                    chain,
                    ChainPlacement {
                        nodes,
                        is_pinned: is_kept,
                    },
                );
            }
        }
        Ok(())
    }

    fn forget(&mut self, name: &str) -> Result<(), PlacementError> {
        let Some(site) = self.site(name) else {
            return Ok(());
        };
        if !site.is_leaving || self.chains_at(name).next().is_some() {
            return Err(PlacementError::NotEmpty(name.to_owned()));
        }
        self.sites.retain(|site| site.name != name);
        for site in &mut self.sites {
            site.successor.take_if(|successor| successor == name);
        }
        Ok(())
    }

    /// The places of the chains of data.
    fn data(&self) -> Placement {
        let data = self.chains.iter().filter(|(it, _)| **it != ChainId::SYSTEM);
        data.map(|(chain, spread)| (*chain, spread.nodes.clone()))
            .collect()
    }

    /// Where the members of chains of data are to be in the end.
    pub fn goal(&self, policy: &PlacementPolicy) -> Placement {
        let current = self.data();
        let chains: Vec<ChainId> = current.keys().copied().collect();
        let kept = self.chains.iter().filter(|(_, spread)| spread.is_pinned);
        let kept = kept.map(|(chain, _)| *chain).collect();
        place(&self.sites, &chains, policy, &current, &kept)
    }

    /// The next step, if all chains are at rest and there is one: first off the nodes that leave.
    /// The nodes `present` run; those that `hold` something have members of chains of data.
    pub fn step(
        &self,
        policy: &PlacementPolicy,
        limits: &ClusterLimits,
        is_at_rest: impl Fn(ChainId) -> bool,
        present: &BTreeSet<String>,
        hold: &BTreeSet<String>,
    ) -> Option<Layout> {
        if !self.chains.keys().all(|chain| is_at_rest(*chain)) {
            return None;
        }
        let goal = self.goal(policy);
        let mut steps: Vec<_> = goal
            .iter()
            .filter_map(|(chain, to)| self.swap(*chain, to))
            .collect();
        steps.sort_by_key(|(chain, from, _)| {
            let leaves = self.sites.get(*from).is_some_and(|site| site.is_leaving);
            (!leaves, *chain)
        });
        let mut next = self.clone();
        if let Some((chain, from, to)) = steps.into_iter().next() {
            let from = self.sites.get(from).map(|site| &site.name);
            let spread = next.chains.get_mut(&chain)?;
            if !present.contains(&to) {
                return None;
            }
            match spread.nodes.iter().position(|name| Some(name) == from) {
                Some(at) => spread.nodes[at] = to,
                None => spread.nodes.push(to),
            }
            return Some(next);
        }
        next.step_system(limits, present, hold);
        (next != *self).then_some(next)
    }

    /// One place of a chain that is to be another: of which node (none when a place is added), to
    /// which.
    fn swap(&self, chain: ChainId, goal: &[String]) -> Option<(ChainId, usize, String)> {
        let now = self.nodes(chain);
        let mut going = now.iter().filter(|name| !goal.contains(name));
        let leaves = |name: &&String| self.site(name).is_some_and(|site| site.is_leaving);
        let gone = going.clone().find(leaves).or_else(|| going.next());
        let at = |name: &String| self.sites.iter().position(|site| site.name == *name);
        let from = gone.and_then(at).unwrap_or(self.sites.len());
        let comes = |name: &&String| !now.contains(name);
        let heir = self
            .sites
            .get(from)
            .and_then(|site| site.successor.as_ref());
        let mut coming = goal.iter().filter(comes);
        let to = coming.clone().find(|name| Some(*name) == heir);
        let to = to.or_else(|| coming.next())?;
        Some((chain, from, to.clone()))
    }
}

/// Whether a chain has followed its places. Every membership serves, at a node that is to have it,
/// and every such node that runs has one.
pub fn is_at_rest(
    configuration: Option<&Configuration>,
    places: &[String],
    present: &[(String, Option<Identity>)],
) -> bool {
    let Some(newest) = configuration else {
        return false;
    };
    let place_of = |incarnation: &Identity| {
        let mut members = newest.members.iter();
        members.find(|member| is_of(member, incarnation) && member.role == Role::Serving)
    };
    let is_right = |(name, incarnation): &&(String, Option<Identity>)| {
        let member = incarnation.as_ref().and_then(place_of);
        member.is_some() && places.contains(name)
    };
    let members = present.iter().filter(is_right);
    let members: BTreeSet<&String> = members.map(|(name, _)| name).collect();
    let here = present.iter().map(|(name, _)| name);
    let mut wanted = here.filter(|name| places.contains(name));
    members.len() == newest.members.len() && wanted.all(|name| members.contains(name))
}

#[cfg(test)]
mod tests;
