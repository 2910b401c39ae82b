//! On which nodes the members of each chain are: a pure function of the nodes, of what is wished,
//! and of where members are now.
//!
//! Each chain is put on nodes that hold few members, in zones that it is not in yet, beside nodes
//! that they meet seldom. So all others share the loss of one node. CRAQ (section 5.1) puts a chain
//! on successive nodes of a ring, which leaves all to a node's neighbours. Block designs, solved
//! ahead, are better still, and know no zones and no nodes that come later.
//!
//! Invariants:
//! - PLACE-1 a chain has as many members as are wished, each on a node of its own, or is on all
//!   nodes.
//! - PLACE-2 a chain is in as many zones as it can be.
//! - PLACE-3 the numbers of members that two nodes of one zone hold differ by one at most, where
//!   the zones' sizes let them.
//! - PLACE-4 who has a member and stays keeps it, but for what evens out the others; nothing is put
//!   on a node that leaves.
//! - PLACE-5 the same asked twice gives the same: what came out moves nothing when it goes in.
//! - PLACE-6 a chain that was moved by hand keeps its nodes, but for those that leave.
//!
//! Deliberately absent: in which steps members get from node to node (`layout.rs`), and how
//! (`crate::controller`); which collection is on which chain.

pub mod layout;
pub mod preferred_roles;

use std::collections::{BTreeMap, BTreeSet};

use crate::config::ChainId;

/// A node that can have members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacementNode {
    /// Its name.
    pub name: String,
    /// What it would be lost together with: a rack, a room, a region. All of one zone, by default.
    pub zone: String,
    /// Whether it is to give up what it has.
    pub is_leaving: bool,
    /// Whether its process is to be stopped for a while: its members are no heads (HM-3).
    pub is_resting: bool,
    /// The node that takes what it gives up, as far as that one is not in the chain already; else
    /// any node.
    pub successor: Option<String>,
}

/// How chains are to be placed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacementPolicy {
    /// Members of a chain.
    pub replication_factor: usize,
    /// Where heads are to be, near those who write.
    pub head_zone: Option<String>,
    /// Where tails are to be.
    pub tail_zone: Option<String>,
}

/// The nodes of each chain, head first, by name.
pub type Placement = BTreeMap<ChainId, Vec<String>>;

/// Where the members of `chains` are to be, now that they are at `current`. Members of the chains
/// that are `kept` move for nodes that leave only.
pub fn place(
    sites: &[PlacementNode],
    chains: &[ChainId],
    policy: &PlacementPolicy,
    current: &Placement,
    kept: &BTreeSet<ChainId>,
) -> Placement {
    let staying = sites.iter().filter(|site| !site.is_leaving);
    let mut draft = Draft::of(staying.collect(), policy, kept);
    let by_name = sites.iter().map(|site| (&*site.name, site)).collect();
    for chain in chains {
        let now = current.get(chain).map(Vec::as_slice).unwrap_or_default();
        let mut stay: Vec<usize> = Vec::new();
        for name in now {
            let heir = heir(&by_name, now, name);
            stay.extend(draft.site(heir).filter(|site| !stay.contains(site)));
        }
        stay.truncate(policy.replication_factor);
        draft.members.insert(*chain, Vec::new());
        stay.into_iter().for_each(|site| draft.add(*chain, site));
    }
    for chain in chains {
        draft.fill(*chain);
    }
    draft.even_out();
    let mut heads = vec![0_usize; draft.sites.len()];
    let placed = chains.iter().map(|chain| {
        let is_new = current.get(chain).is_none_or(Vec::is_empty);
        let members = draft.in_order(*chain, is_new, &mut heads);
        let names = members.iter().map(|site| draft.sites[*site].name.clone());
        (*chain, names.collect())
    });
    placed.collect()
}

/// Who has the place of this node: itself, if it stays; its successor, if that has none yet.
fn heir<'a>(
    sites: &BTreeMap<&str, &'a PlacementNode>,
    members: &[String],
    name: &'a str,
) -> &'a str {
    let leaving = sites.get(name).filter(|site| site.is_leaving);
    let successor = leaving.and_then(|site| site.successor.as_ref());
    match successor.filter(|successor| !members.contains(successor)) {
        Some(successor) => successor,
        None => name,
    }
}

/// Places as far as they are known; nodes are numbers.
struct Draft<'a> {
    sites: Vec<&'a PlacementNode>,
    by_name: BTreeMap<&'a str, usize>,
    policy: &'a PlacementPolicy,
    /// The chains that nothing is evened out with.
    kept: &'a BTreeSet<ChainId>,
    members: BTreeMap<ChainId, Vec<usize>>,
    /// How many members each node has.
    loads: Vec<usize>,
    /// How many chains two nodes share: a row for each node.
    meetings: Vec<usize>,
}

impl<'a> Draft<'a> {
    fn of(
        sites: Vec<&'a PlacementNode>,
        policy: &'a PlacementPolicy,
        kept: &'a BTreeSet<ChainId>,
    ) -> Self {
        let names = sites.iter().map(|site| &*site.name);
        Draft {
            by_name: names.zip(0..).collect(),
            policy,
            kept,
            members: BTreeMap::new(),
            loads: vec![0; sites.len()],
            meetings: vec![0; sites.len() * sites.len()],
            sites,
        }
    }

    fn site(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    fn zone(&self, site: usize) -> &str {
        &self.sites[site].zone
    }

    /// How many chains two nodes share.
    fn meetings(&self, one: usize, other: usize) -> usize {
        self.meetings[one * self.sites.len() + other]
    }

    fn zones(&self, members: &[usize]) -> usize {
        let zones: BTreeSet<&str> = members.iter().map(|site| self.zone(*site)).collect();
        zones.len()
    }

    /// PLACE-1: adds members until there are enough.
    fn fill(&mut self, chain: ChainId) {
        let policy = self.policy;
        for zone in [&policy.head_zone, &policy.tail_zone].into_iter().flatten() {
            let members = &self.members[&chain];
            let is_one = policy.head_zone != policy.tail_zone;
            let wanted = if is_one { 1 } else { 2 };
            let there = members.iter().filter(|site| self.zone(**site) == zone);
            if there.count() < wanted
                && members.len() < policy.replication_factor
                && let Some(site) = self.best(chain, |site| self.zone(site) == zone)
            {
                self.add(chain, site);
            }
        }
        while self.members[&chain].len() < policy.replication_factor
            && let Some(site) = self.best(chain, |_| true)
        {
            self.add(chain, site);
        }
    }

    fn add(&mut self, chain: ChainId, site: usize) {
        let count = self.sites.len();
        let members = self.members.entry(chain).or_default();
        for other in &*members {
            self.meetings[site * count + other] += 1;
            self.meetings[other * count + site] += 1;
        }
        self.loads[site] += 1;
        members.push(site);
    }

    /// Puts the member of a chain that is on the node `from` on the node `to`.
    fn replace(&mut self, chain: ChainId, from: usize, to: usize) {
        let count = self.sites.len();
        let members = self.members.get_mut(&chain).expect("the chain has members");
        for other in members.iter().filter(|other| **other != from) {
            for (one, two) in [(from, *other), (*other, from)] {
                self.meetings[one * count + two] -= 1;
            }
            for (one, two) in [(to, *other), (*other, to)] {
                self.meetings[one * count + two] += 1;
            }
        }
        self.loads[from] -= 1;
        self.loads[to] += 1;
        let at = members.iter().position(|site| *site == from);
        members[at.expect("the node has a member")] = to;
    }

    /// The node that a chain's next member is best put on, of those permitted.
    fn best(&self, chain: ChainId, is_permitted: impl Fn(usize) -> bool) -> Option<usize> {
        let members = &self.members[&chain];
        let count = self.sites.len();
        let sites = (0..count).filter(|site| !members.contains(site) && is_permitted(*site));
        sites.min_by_key(|site| {
            let zone = self.zone(*site);
            let neighbours = members.iter().filter(|other| self.zone(**other) == zone);
            let meetings = members.iter().map(|other| self.meetings(*site, *other));
            // Where all is equal each chain begins at another node.
            let turn = (site + count - chain.0 as usize % count) % count;
            (
                neighbours.count(),
                self.loads[*site],
                meetings.sum::<usize>(),
                turn,
            )
        })
    }

    /// PLACE-3: moves members from those that have many to those that have few. Each step makes the
    /// sum of the squares of what the nodes hold smaller, so there is a last one.
    fn even_out(&mut self) {
        while let Some((chain, from, to)) = self.step() {
            self.replace(chain, from, to);
        }
    }

    /// A move that is worth it: the one that evens out most, and of those the one whose nodes then
    /// meet others least.
    fn step(&self) -> Option<(ChainId, usize, usize)> {
        let loads = &self.loads;
        let least = loads.iter().min()?;
        let movable = |(chain, _): &(&ChainId, &Vec<usize>)| !self.kept.contains(chain);
        let chains = self.members.iter().filter(movable);
        let steps = chains.flat_map(|(chain, members)| {
            let from = members.iter().filter(|from| least + 2 <= loads[**from]);
            from.flat_map(move |from| {
                let to = (0..loads.len()).filter(|to| loads[*to] + 2 <= loads[*from]);
                let to = to.filter(|to| self.may_move(members, *from, *to));
                to.map(|to| (*chain, *from, to))
            })
        });
        steps.max_by_key(|(chain, from, to)| {
            let others = self.members[chain].iter().filter(|site| *site != from);
            let meetings: usize = others.map(|other| self.meetings(*to, *other)).sum();
            let gain = loads[*from] - loads[*to];
            (gain, usize::MAX - meetings)
        })
    }

    /// PLACE-2: no zone is lost by it, nor the wish for one.
    fn may_move(&self, members: &[usize], from: usize, to: usize) -> bool {
        if members.contains(&to) {
            return false;
        }
        let moved: Vec<usize> = members
            .iter()
            .map(|site| if *site == from { to } else { *site })
            .collect();
        let wished = [&self.policy.head_zone, &self.policy.tail_zone];
        let is_wished = |zone: &str| wished.into_iter().flatten().any(|it| it == zone);
        let keeps_wish = self.zone(from) == self.zone(to) || !is_wished(self.zone(from));
        self.zones(members) <= self.zones(&moved) && keeps_wish
    }

    /// The members of a chain, head first. A new chain's head is the node with the fewest; where
    /// there is one already it stays, but for the zones that are wished.
    fn in_order(&self, chain: ChainId, is_new: bool, heads: &mut [usize]) -> Vec<usize> {
        let mut members = self.members[&chain].clone();
        if is_new && let Some(head) = (0..members.len()).min_by_key(|at| (heads[members[*at]], *at))
        {
            members[..=head].rotate_right(1);
        }
        let is_in = |site: usize, zone: &Option<String>| Some(self.zone(site)) == zone.as_deref();
        if let Some(at) = members
            .iter()
            .position(|site| is_in(*site, &self.policy.head_zone))
        {
            members[..=at].rotate_right(1);
        }
        let behind_the_head = members.get_mut(1..).unwrap_or_default();
        if let Some(at) = behind_the_head
            .iter()
            .rposition(|site| is_in(*site, &self.policy.tail_zone))
        {
            behind_the_head[at..].rotate_left(1);
        }
        if let Some(head) = members.first() {
            heads[*head] += 1;
        }
        members
    }
}

#[cfg(test)]
mod tests;
