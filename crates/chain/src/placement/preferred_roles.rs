//! Whether a chain's head or tail is where it is wished to be. Which change among live members
//! brings it back there after a failure took it elsewhere
//! (docs/internals/protocol/reconfiguration.md, section 12, HM).
//!
//! Deliberately absent: when it is time for that; the caller waits until the chain is calm.

use super::PlacementPolicy;
use crate::config::{Configuration, NodeId, Role};
use crate::controller::RoleChange;

/// HM-1: the head first, then the tail. Nothing while a member joins or leaves, where no member of
/// the zone serves, and where all is as it is wished.
pub fn preferred_role_change<'a>(
    newest: &Configuration,
    zone_of: impl Fn(NodeId) -> Option<&'a str>,
    policy: &PlacementPolicy,
) -> Option<RoleChange> {
    if newest
        .members
        .iter()
        .any(|member| member.role != Role::Serving)
    {
        return None;
    }
    let members: Vec<NodeId> = newest.serving().collect();
    let (head, tail) = (*members.first()?, *members.last()?);
    let is_in = |node: NodeId, zone: &String| zone_of(node) == Some(zone.as_str());
    if let Some(zone) = &policy.head_zone
        && !is_in(head, zone)
        && let Some(node) = members.iter().find(|node| is_in(**node, zone))
    {
        return Some(RoleChange::Head(*node));
    }
    let zone = policy.tail_zone.as_ref()?;
    // A head that is at home stays.
    let free = match policy.head_zone {
        Some(_) => &members[1..],
        None => &members[..],
    };
    let at_home = free.iter().rev().find(|node| is_in(**node, zone));
    at_home
        .filter(|_| !is_in(tail, zone))
        .map(|node| RoleChange::Back(*node))
}

/// HM-3: the head leaves a node that rests, for the first member that serves and does not.
pub fn relief(newest: &Configuration, rests: impl Fn(NodeId) -> bool) -> Option<RoleChange> {
    if !rests(newest.head()) {
        return None;
    }
    let mut members = newest.serving();
    members.find(|node| !rests(*node)).map(RoleChange::Head)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{DiskId, Incarnation, Wiring};
    use crate::controller::{ObservedState, Reports, first, next};
    use crate::replica::Identity;
    use crate::version::Version;

    const ZONES: [&str; 4] = ["east", "west", "west", "north"];

    fn member(node: u32) -> Identity {
        Identity {
            node: NodeId(node),
            incarnation: Incarnation(1),
            disk: DiskId(u128::from(node)),
        }
    }

    fn zone_of(node: NodeId) -> Option<&'static str> {
        ZONES.get(node.0 as usize - 1).copied()
    }

    fn policy(head: &str, tail: &str) -> PlacementPolicy {
        let zone = |name: &str| Some(name.to_owned()).filter(|name| !name.is_empty());
        PlacementPolicy {
            replication_factor: 3,
            head_zone: zone(head),
            tail_zone: zone(tail),
        }
    }

    /// The order of the members when all has come home.
    #[track_caller]
    fn check(order: &[u32], policy: &PlacementPolicy, expected: &[u32]) {
        let members: Vec<Identity> = order.iter().map(|node| member(*node)).collect();
        let mut newest = first(&members, Wiring::Chain, Version::NEWEST);
        for _ in 0..2 {
            let observed = ObservedState {
                sessions: members.clone(),
                unheard: Vec::new(),
                reports: Reports::default(),
                size: members.len(),
                unwanted: Vec::new(),
                wiring: Wiring::Chain,
                role_change: preferred_role_change(&newest, zone_of, policy),
                raise_safe_point: false,
                restart: None,
                version: Version::NEWEST,
            };
            newest = next(&newest, &observed).unwrap_or(newest);
        }
        assert_eq!(preferred_role_change(&newest, zone_of, policy), None);
        let order: Vec<u32> = newest.serving().map(|node| node.0).collect();
        assert_eq!(order, expected);
    }

    /// It shows HM-1.
    #[test]
    fn head_and_tail_come_home() {
        check(&[2, 3, 1], &policy("east", ""), &[1, 2, 3]);
        check(&[1, 3, 2], &policy("east", ""), &[1, 3, 2]);
        check(&[4, 1, 2], &policy("east", "north"), &[1, 2, 4]);
        check(&[4, 1, 2], &policy("", "north"), &[1, 2, 4]);
        check(&[1, 2, 3], &policy("", "east"), &[2, 3, 1]);
        // One member for both: it is the head.
        check(&[2, 1, 3], &policy("east", "east"), &[1, 2, 3]);
        check(&[2, 1, 3], &policy("west", "west"), &[2, 1, 3]);
        check(&[1, 2, 3], &policy("west", "west"), &[2, 1, 3]);
    }

    #[test]
    fn a_member_alone_or_without_zone_stays() {
        check(&[2, 3], &policy("east", ""), &[2, 3]);
        check(&[2], &policy("east", "north"), &[2]);
        check(&[3, 2], &policy("", ""), &[3, 2]);
        check(&[2, 3], &policy("south", "south"), &[2, 3]);
    }

    /// It shows HM-3.
    #[test]
    fn the_head_leaves_a_node_that_rests() {
        let members: Vec<Identity> = [2, 3, 1].map(member).to_vec();
        let newest = first(&members, Wiring::Star, Version::NEWEST);
        let of = |resting: &[u32]| relief(&newest, |node| resting.contains(&node.0));
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[3, 1]), None, "others may rest where they are");
        assert_eq!(of(&[2]), Some(RoleChange::Head(NodeId(3))));
        assert_eq!(of(&[2, 3]), Some(RoleChange::Head(NodeId(1))));
        assert_eq!(of(&[1, 2, 3]), None, "some member is the head");
    }

    /// It shows HM-1.
    #[test]
    fn no_member_moves_while_another_joins() {
        let mut newest = first(&[2, 1].map(member), Wiring::Star, Version::NEWEST);
        assert_eq!(
            preferred_role_change(&newest, zone_of, &policy("east", "")),
            Some(RoleChange::Head(NodeId(1)))
        );
        for role in [Role::Syncing, Role::Leaving] {
            newest.members[1].role = role;
            assert_eq!(
                preferred_role_change(&newest, zone_of, &policy("east", "")),
                None
            );
        }
    }
}
