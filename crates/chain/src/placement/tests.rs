//! Placements of any cluster: what must hold of each, and what a node's coming or going moves.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::{Placement, PlacementNode, PlacementPolicy};
use crate::config::ChainId;

fn sites(zones: &[usize]) -> Vec<PlacementNode> {
    let site = |(number, zone): (usize, &usize)| PlacementNode {
        name: format!("n{}", number + 1),
        zone: format!("z{zone}"),
        is_leaving: false,
        is_resting: false,
        successor: None,
    };
    zones.iter().enumerate().map(site).collect()
}

fn chains(count: u32) -> Vec<ChainId> {
    (1..=count).map(ChainId).collect()
}

fn policy(copies: usize) -> PlacementPolicy {
    PlacementPolicy {
        replication_factor: copies,
        head_zone: None,
        tail_zone: None,
    }
}

/// Nothing is kept.
fn place(
    sites: &[PlacementNode],
    chains: &[ChainId],
    policy: &PlacementPolicy,
    current: &Placement,
) -> Placement {
    super::place(sites, chains, policy, current, &BTreeSet::new())
}

fn load(places: &Placement, name: &str) -> usize {
    let members = places.values().flatten();
    members.filter(|member| *member == name).count()
}

fn loads(places: &Placement, sites: &[PlacementNode]) -> Vec<usize> {
    sites.iter().map(|site| load(places, &site.name)).collect()
}

fn zone<'a>(sites: &'a [PlacementNode], name: &str) -> &'a str {
    let site = sites.iter().find(|site| site.name == name).unwrap();
    &site.zone
}

fn zones<'a>(sites: &'a [PlacementNode], names: &[String]) -> BTreeSet<&'a str> {
    names.iter().map(|name| zone(sites, name)).collect()
}

/// PLACE-1 and PLACE-2, of all chains.
fn check(places: &Placement, sites: &[PlacementNode], copies: usize) {
    let staying: Vec<&PlacementNode> = sites.iter().filter(|site| !site.is_leaving).collect();
    let in_all: BTreeSet<&str> = staying.iter().map(|site| &*site.zone).collect();
    for (chain, names) in places {
        let distinct: BTreeSet<&String> = names.iter().collect();
        assert_eq!(distinct.len(), names.len(), "{chain}: {names:?}");
        assert_eq!(names.len(), copies.min(staying.len()), "{chain}: {names:?}");
        let left = |name: &&String| staying.iter().all(|site| site.name != **name);
        assert_eq!(names.iter().find(left), None, "{chain}");
        let most = names.len().min(in_all.len());
        assert_eq!(
            zones(sites, names).len(),
            most,
            "PLACE-2: {chain}: {names:?}"
        );
    }
}

/// Members that are elsewhere than before.
fn moved(before: &Placement, after: &Placement) -> usize {
    let came = after.iter().map(|(chain, names)| {
        let was = |name: &&String| before[chain].contains(name);
        names.iter().filter(|name| !was(name)).count()
    });
    came.sum()
}

/// Of clusters of each size.
#[test]
fn a_lost_node_is_shared_by_all_others() {
    for nodes in 4..9 {
        // Enough chains that each node could meet each other twice.
        let count = u32::try_from(nodes * (nodes - 1)).unwrap();
        let sites = sites(&vec![0; nodes]);
        let places = place(&sites, &chains(count), &policy(3), &Placement::new());
        for lost in &sites {
            let shares = sites
                .iter()
                .filter(|other| other.name != lost.name)
                .map(|other| {
                    let both = |names: &&Vec<String>| {
                        names.contains(&lost.name) && names.contains(&other.name)
                    };
                    places.values().filter(both).count()
                });
            let shares: Vec<usize> = shares.collect();
            let (most, least) = (shares.iter().max().unwrap(), shares.iter().min().unwrap());
            let even = 2 * load(&places, &lost.name) / (nodes - 1);
            assert!(0 < *least && *most <= 2 * even, "{}: {shares:?}", lost.name);
        }
    }
}

/// Of clusters of each size, with each number of chains. It shows PLACE-4.
#[test]
fn a_new_node_takes_its_share_and_nothing_else_moves() {
    for (nodes, count) in (3..9).flat_map(|nodes| (1..30).map(move |count| (nodes, count))) {
        let all = sites(&vec![0; nodes + 1]);
        let before = place(&all[..nodes], &chains(count), &policy(3), &Placement::new());
        let after = place(&all, &chains(count), &policy(3), &before);
        check(&after, &all, 3);
        let moved = moved(&before, &after);
        assert_eq!(
            moved,
            load(&after, &all[nodes].name),
            "PLACE-4: {nodes}, {count}"
        );
        let loads = loads(&after, &all);
        assert!(
            loads.iter().max().unwrap() - loads.iter().min().unwrap() <= 1,
            "{loads:?}"
        );
    }
}

proptest! {
    #[test]
    fn each_chain_has_its_members_in_zones_of_their_own(
        zones in prop::collection::vec(0..4_usize, 1..9),
        count in 1..24_u32,
        copies in 1..5_usize,
    ) {
        let sites = sites(&zones);
        let places = place(&sites, &chains(count), &policy(copies), &Placement::new());
        check(&places, &sites, copies);
        let again = place(&sites, &chains(count), &policy(copies), &places);
        prop_assert_eq!(again, places, "PLACE-5");
    }

    /// It shows PLACE-3.
    #[test]
    fn all_hold_as_much(nodes in 1..12_usize, count in 1..40_u32, copies in 1..5_usize) {
        let sites = sites(&vec![0; nodes]);
        let places = place(&sites, &chains(count), &policy(copies), &Placement::new());
        let loads = loads(&places, &sites);
        prop_assert!(loads.iter().max().unwrap() - loads.iter().min().unwrap() <= 1, "{loads:?}");
    }

    /// It shows PLACE-4.
    #[test]
    fn a_leaving_node_gives_up_its_chains_and_no_other_moves(
        nodes in 4..9_usize,
        count in 1..30_u32,
        leaving in 0..4_usize,
    ) {
        let mut sites = sites(&vec![0; nodes]);
        let before = place(&sites, &chains(count), &policy(3), &Placement::new());
        let had = load(&before, &sites[leaving].name);
        sites[leaving].is_leaving = true;
        let after = place(&sites, &chains(count), &policy(3), &before);
        check(&after, &sites, 3);
        // What evens out the others is small beside it.
        prop_assert!((had..=had + nodes).contains(&moved(&before, &after)));
        for (chain, names) in &after {
            let kept = before[chain].iter().filter(|name| names.contains(name));
            prop_assert!(1 <= kept.count(), "some member that has all goes on");
        }
    }

    #[test]
    fn heads_and_tails_are_in_the_zones_that_are_wished(
        count in 1..20_u32,
        nodes in 2..4_usize,
    ) {
        let zones: Vec<usize> = (0..3 * nodes).map(|number| number % 3).collect();
        let sites = sites(&zones);
        let policy = PlacementPolicy {
            head_zone: Some("z1".to_owned()),
            tail_zone: Some("z2".to_owned()),
            ..policy(3)
        };
        let places = place(&sites, &chains(count), &policy, &Placement::new());
        check(&places, &sites, 3);
        for names in places.values() {
            prop_assert_eq!(zone(&sites, &names[0]), "z1");
            prop_assert_eq!(zone(&sites, &names[2]), "z2");
        }
    }

    #[test]
    fn heads_are_on_all_nodes(nodes in 3..8_usize, rounds in 1..4_u32) {
        let count = u32::try_from(nodes).unwrap() * rounds;
        let sites = sites(&vec![0; nodes]);
        let places = place(&sites, &chains(count), &policy(3), &Placement::new());
        for site in &sites {
            let heads = places.values().filter(|names| names[0] == site.name).count();
            prop_assert!((1..=2 * rounds as usize).contains(&heads), "{}: {heads}", site.name);
        }
    }
}

#[test]
fn four_chains_on_three_nodes_are_on_all_with_heads_apart() {
    let places = place(
        &sites(&[0, 0, 0]),
        &chains(4),
        &policy(3),
        &Placement::new(),
    );
    let heads: Vec<&str> = places.values().map(|names| &*names[0]).collect();
    assert_eq!(heads, ["n2", "n3", "n1", "n2"]);
}
