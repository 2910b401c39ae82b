//! Orders to any cluster: what is refused, and how it comes step by step to where it is to be.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::config::{Configuration, DiskId, Incarnation, NodeId, Wiring};
use crate::controller;
use crate::version::Version;

fn site(name: &str, zone: &str) -> PlacementNode {
    PlacementNode {
        name: name.to_owned(),
        zone: zone.to_owned(),
        is_leaving: false,
        is_resting: false,
        successor: None,
    }
}

fn sites(count: usize) -> Vec<PlacementNode> {
    let names = (1..=count).map(|number| format!("n{number}"));
    names.map(|name| site(&name, "")).collect()
}

fn policy(copies: usize) -> PlacementPolicy {
    PlacementPolicy {
        replication_factor: copies,
        head_zone: None,
        tail_zone: None,
    }
}

fn limits() -> ClusterLimits {
    ClusterLimits::of(Version::NEWEST)
}

/// The chains of data of a node.
fn data_at(layout: &Layout, name: &str) -> Vec<ChainId> {
    let chains = layout.chains_at(name);
    chains.filter(|chain| *chain != ChainId::SYSTEM).collect()
}

fn names(layout: &Layout) -> BTreeSet<String> {
    layout.sites.iter().map(|site| site.name.clone()).collect()
}

/// The next step where all run and every chain has followed.
fn step(layout: &Layout, policy: &PlacementPolicy) -> Option<Layout> {
    let hold = layout
        .sites
        .iter()
        .filter(|site| !data_at(layout, &site.name).is_empty());
    let hold = hold.map(|site| site.name.clone()).collect();
    layout.step(policy, &limits(), |_| true, &names(layout), &hold)
}

/// All steps, each checked; how many there were.
fn settled(mut layout: Layout, policy: &PlacementPolicy) -> (Layout, usize) {
    let mut count = 0;
    while let Some(next) = step(&layout, policy) {
        count += 1;
        assert!(count < 1_000, "LAYOUT-4: {layout:?}");
        let changed = layout
            .chains
            .iter()
            .filter(|(chain, it)| next.chains[chain] != **it);
        assert_eq!(changed.count(), 1, "LAYOUT-2");
        for (chain, spread) in &next.chains {
            let before = layout.nodes(*chain);
            let (was, is) = (before.len(), spread.nodes.len());
            assert!(was <= is || *chain == ChainId::SYSTEM, "LAYOUT-1: {chain}");
            let came = spread.nodes.iter().filter(|name| !before.contains(name));
            assert!(came.count() <= 1, "LAYOUT-2: {chain}");
        }
        layout = next;
    }
    (layout, count)
}

proptest! {
    /// It shows LAYOUT-2.
    #[test]
    fn a_node_that_comes_takes_its_share_step_by_step(
        nodes in 1..6_usize,
        chains in 1..20_u32,
        copies in 1..4_usize,
    ) {
        let policy = policy(copies);
        let before = Layout::founded(sites(nodes), chains, &policy);
        prop_assert_eq!(step(&before, &policy), None, "LAYOUT-4");
        let order = PlacementCommand::Add("n9".to_owned(), String::new());
        let added = before.ordered(&order, &policy, &limits()).unwrap();
        let (after, count) = settled(added, &policy);
        let share = data_at(&after, "n9").len();
        prop_assert_eq!(count, share, "nothing else moves");
        let most = after.sites.iter().map(|site| data_at(&after, &site.name).len()).max();
        prop_assert!(most.unwrap() <= share + 1);
        let is_of_system = after.nodes(ChainId::SYSTEM).contains(&"n9".to_owned());
        prop_assert_eq!(is_of_system, nodes < SYSTEM_NODES_MAX, "LAYOUT-3");
    }

    /// It shows LAYOUT-4.
    #[test]
    fn a_node_that_leaves_ends_with_nothing(
        nodes in 4..7_usize,
        chains in 1..20_u32,
        leaving in 1..4_usize,
    ) {
        let (policy, name) = (policy(3), format!("n{leaving}"));
        let before = Layout::founded(sites(nodes), chains, &policy);
        let had = data_at(&before, &name).len();
        let order = PlacementCommand::Decommission(name.clone());
        let ordered = before.ordered(&order, &policy, &limits()).unwrap();
        let again = ordered.ordered(&order, &policy, &limits()).unwrap();
        prop_assert_eq!(again, ordered.clone(), "asked again");
        let forgotten = PlacementCommand::Forget(name.clone());
        prop_assert!(ordered.ordered(&forgotten, &policy, &limits()).is_err());
        let (after, count) = settled(ordered, &policy);
        prop_assert_eq!(after.chains_at(&name).count(), 0);
        // What it had, what evens out the others, and the system chain.
        prop_assert!(count <= had + nodes + 1);
        let forgotten = after.ordered(&forgotten, &policy, &limits()).unwrap();
        prop_assert!(forgotten.site(&name).is_none());
        let again = forgotten.ordered(&PlacementCommand::Forget(name), &policy, &limits()).unwrap();
        prop_assert_eq!(again, forgotten);
    }
}

/// Of clusters of each size, with each number of chains.
#[test]
fn a_replaced_node_gives_all_it_has_to_its_successor() {
    let policy = policy(3);
    for (nodes, chains) in (3..7).flat_map(|nodes| (1..20).map(move |chains| (nodes, chains))) {
        let before = Layout::founded(sites(nodes), chains, &policy);
        let order = PlacementCommand::Replace("n1".to_owned(), "n9".to_owned(), None);
        let (after, count) = settled(before.ordered(&order, &policy, &limits()).unwrap(), &policy);
        assert_eq!(data_at(&after, "n9"), data_at(&before, "n1"));
        assert_eq!(count, data_at(&before, "n1").len() + 1, "{nodes}, {chains}");
        assert_eq!(after.chains_at("n1").count(), 0);
    }
}

#[test]
fn new_chains_are_put_beside_the_others() {
    let policy = policy(3);
    for (chains, more) in (1..10).flat_map(|chains| (1..10).map(move |more| (chains, more))) {
        let before = Layout::founded(sites(5), chains, &policy);
        let after = before
            .ordered(&PlacementCommand::AddChains(more), &policy, &limits())
            .unwrap();
        for (chain, spread) in &before.chains {
            assert_eq!(spread, &after.chains[chain]);
        }
        assert_eq!(after.chains.len(), (chains + more) as usize + 1);
        assert_eq!(step(&after, &policy), None, "LAYOUT-4: {chains}, {more}");
    }
}

/// It shows PLACE-6.
#[test]
fn a_chain_moved_by_hand_stays() {
    let policy = policy(3);
    let before = Layout::founded(sites(5), 5, &policy);
    let spare = |chain, layout: &Layout| {
        let mut sites = layout.sites.iter().map(|site| site.name.clone());
        sites
            .find(|name| !layout.nodes(chain).contains(name))
            .unwrap()
    };
    let mut layout = before;
    for chain in [1, 2, 3].map(ChainId) {
        let (from, to) = (layout.nodes(chain)[0].clone(), "n5".to_owned());
        if layout.nodes(chain).contains(&to) {
            continue;
        }
        let order = PlacementCommand::Move(chain, from, to);
        layout = layout.ordered(&order, &policy, &limits()).unwrap();
    }
    let kept: Vec<ChainId> = layout.chains.keys().copied().collect();
    let kept = kept
        .into_iter()
        .filter(|chain| layout.chains[chain].is_pinned);
    let kept: Vec<ChainId> = kept.collect();
    assert!(!kept.is_empty());
    let (after, _) = settled(layout.clone(), &policy);
    for chain in &kept {
        assert_eq!(after.nodes(*chain), layout.nodes(*chain));
    }
    // But not on a node that leaves.
    let (drained, _) = settled(
        after
            .ordered(
                &PlacementCommand::Decommission("n5".to_owned()),
                &policy,
                &limits(),
            )
            .unwrap(),
        &policy,
    );
    assert_eq!(drained.chains_at("n5").count(), 0);
    assert_ne!(spare(kept[0], &drained), "");
}

#[test]
fn orders_that_make_no_sense_are_refused_in_words() {
    let policy = policy(3);
    let zoned = vec![
        site("n1", "a"),
        site("n2", "b"),
        site("n3", "c"),
        site("n4", "a"),
    ];
    let layout = Layout::founded(zoned, 1, &policy);
    let nodes = layout.nodes(ChainId(1)).to_vec();
    let name = |text: &str| text.to_owned();
    let of_a = nodes
        .iter()
        .find(|name| ["n1", "n4"].contains(&&***name))
        .unwrap();
    let other = if of_a == "n1" { "n4" } else { "n1" };
    let one = ChainId(1);
    let cases: [(PlacementCommand, &str); 11] = [
        (
            PlacementCommand::Add(name("n1"), name("")),
            "n1 is a node of the cluster already",
        ),
        (
            PlacementCommand::Decommission(name("n7")),
            "n7 is no node of the cluster",
        ),
        (
            PlacementCommand::Replace(name("n2"), name("n9"), Some(name("a"))),
            "chain 1 would be in fewer zones, or not in the one wished for its head or tail",
        ),
        (
            PlacementCommand::Replace(name("n2"), name("n2"), None),
            "n2 is leaving the cluster",
        ),
        (
            PlacementCommand::Move(ChainId::SYSTEM, name("n1"), name("n4")),
            "chain 0 is no chain whose members can be moved by hand",
        ),
        (
            PlacementCommand::Move(one, name(other), name("n9")),
            "n9 is no node of the cluster",
        ),
        (
            PlacementCommand::Move(one, of_a.clone(), name("n2")),
            "n2 has a member of chain 1 already",
        ),
        (
            PlacementCommand::Move(one, name("n2"), name(other)),
            "chain 1 would be in fewer zones, or not in the one wished for its head or tail",
        ),
        (PlacementCommand::Forget(name("n1")), "n1 still has members"),
        (
            PlacementCommand::AddChains(1_000),
            "a cluster of version 9 has at most 100 nodes and 1000 chains: make another cluster \
             for more",
        ),
        (
            PlacementCommand::Move(one, name(other), of_a.clone()),
            "has a member of chain 1 already",
        ),
    ];
    for (order, why) in cases {
        let refused = layout
            .ordered(&order, &policy, &limits())
            .expect_err(why)
            .to_string();
        assert!(refused.ends_with(why), "{order:?}: {refused}");
    }
}

/// It shows LAYOUT-1.
#[test]
fn a_cluster_keeps_enough_nodes_and_chains() {
    let policy = policy(3);
    let three = Layout::founded(sites(3), 4, &policy);
    let refused = three
        .ordered(
            &PlacementCommand::Decommission("n1".to_owned()),
            &policy,
            &limits(),
        )
        .unwrap_err();
    let why = "2 nodes would be left, and chains have 3 members: add a node first, or replace \
               this one";
    assert_eq!(refused.to_string(), why);
    let one = Layout::founded(sites(3), 0, &policy).ordered(
        &PlacementCommand::AddChains(1),
        &policy,
        &limits(),
    );
    assert_eq!(one, Err(PlacementError::OneChain));
}

/// A layout at rest: each chain has its copies, on nodes that stay. All nodes have about as many.
/// The system chain has five.
fn check_at_rest(layout: &Layout, copies: usize) {
    let staying: BTreeSet<&str> = layout.staying().map(|site| &*site.name).collect();
    for (chain, spread) in &layout.chains {
        let nodes: BTreeSet<&str> = spread.nodes.iter().map(|name| &**name).collect();
        let count = match *chain {
            ChainId::SYSTEM => SYSTEM_NODES_MAX,
            _ => copies,
        };
        assert_eq!(nodes.len(), count.min(staying.len()), "{chain}");
        assert!(nodes.is_subset(&staying), "{chain}");
    }
    let loads = staying.iter().map(|name| data_at(layout, name).len());
    let (least, most) = (loads.clone().min().unwrap(), loads.max().unwrap());
    assert!(most <= least + 1, "PLACE-3: {least} to {most}");
}

#[test]
fn a_thousand_chains_are_placed_and_moved_on_a_hundred_nodes() {
    let policy = policy(3);
    let mut layout = Layout::founded(sites(NODES_MAX - 1), CHAINS_MAX, &policy);
    check_at_rest(&layout, 3);
    let name = |text: &str| text.to_owned();
    layout = layout
        .ordered(
            &PlacementCommand::Add(name("n100"), name("")),
            &policy,
            &limits(),
        )
        .unwrap();
    // One more is refused, and nothing else stops.
    let why = layout.ordered(
        &PlacementCommand::Add(name("n101"), name("")),
        &policy,
        &limits(),
    );
    assert_eq!(why, Err(PlacementError::TooMany(limits())));
    let (grown, moved) = settled(layout, &policy);
    check_at_rest(&grown, 3);
    assert_eq!(moved, data_at(&grown, "n100").len());
    // A node of the system chain leaves, and one that is not; one is replaced.
    let of_system = grown.nodes(ChainId::SYSTEM)[0].clone();
    let orders = [
        PlacementCommand::Decommission(of_system.clone()),
        PlacementCommand::Decommission(name("n77")),
        PlacementCommand::Replace(name("n50"), name("n101"), None),
    ];
    let mut layout = grown;
    for order in &orders {
        layout = layout.ordered(order, &policy, &limits()).unwrap();
    }
    let (after, _) = settled(layout, &policy);
    check_at_rest(&after, 3);
    for name in [&of_system, "n77", "n50"] {
        assert_eq!(after.chains_at(name).count(), 0, "{name}");
    }
}

/// It shows LAYOUT-3.
#[test]
fn the_system_chain_has_five_nodes_in_as_many_zones_as_can_be() {
    let policy = policy(3);
    let zones = ["a", "a", "a", "b", "a", "c"];
    let sites = zones.iter().enumerate();
    let sites = sites.map(|(at, zone)| site(&format!("n{}", at + 1), zone));
    let founded = Layout::founded(sites.collect(), 4, &policy);
    assert_eq!(founded.nodes(ChainId::SYSTEM).len(), 6);
    let old = ClusterLimits::of(Version::FIFTH);
    let none = BTreeSet::new();
    let kept = founded.step(&policy, &old, |_| true, &names(&founded), &none);
    assert_eq!(
        kept, None,
        "the old processes need the chain on their nodes"
    );
    let (layout, steps) = settled(founded, &policy);
    assert_eq!(steps, 1);
    assert_eq!(
        layout.nodes(ChainId::SYSTEM),
        ["n1", "n2", "n3", "n4", "n6"]
    );
    // The one in zone b leaves; there is no other one in it.
    let order = PlacementCommand::Decommission("n4".to_owned());
    let ordered = layout.ordered(&order, &policy, &limits()).unwrap();
    let (layout, _) = settled(ordered, &policy);
    assert_eq!(
        layout.nodes(ChainId::SYSTEM),
        ["n1", "n2", "n3", "n6", "n5"]
    );
}

#[test]
fn an_old_cluster_keeps_its_limits() {
    let (policy, old) = (policy(3), ClusterLimits::of(Version::FIFTH));
    let seven = Layout::founded(sites(7), 4, &policy);
    let order = PlacementCommand::Add("n8".to_owned(), String::new());
    let why = seven
        .ordered(&order, &policy, &old)
        .unwrap_err()
        .to_string();
    assert!(why.starts_with("a cluster of version 5 has at most 7 nodes and 256 chains"));
    assert!(seven.ordered(&order, &policy, &limits()).is_ok());
}

/// It shows LAYOUT-2.
#[test]
fn nothing_goes_on_before_chains_have_followed_and_nodes_run() {
    let policy = policy(3);
    let layout = Layout::founded(sites(3), 4, &policy);
    let layout = layout
        .ordered(
            &PlacementCommand::Add("n4".to_owned(), String::new()),
            &policy,
            &limits(),
        )
        .unwrap();
    let (all, none) = (names(&layout), BTreeSet::new());
    assert!(
        layout
            .step(&policy, &limits(), |_| true, &all, &none)
            .is_some()
    );
    let busy = |chain| chain != ChainId(3);
    assert_eq!(layout.step(&policy, &limits(), busy, &all, &none), None);
    let without = all.iter().filter(|name| *name != "n4").cloned().collect();
    assert_eq!(
        layout.step(&policy, &limits(), |_| true, &without, &none),
        None
    );
}

#[test]
fn a_chain_is_at_rest_when_the_members_that_run_serve_and_no_others() {
    let member = |node: u32| Identity {
        node: NodeId(node),
        incarnation: Incarnation(1),
        disk: DiskId(u128::from(node)),
    };
    let newest: Configuration =
        controller::first(&[1, 2].map(member), Wiring::Star, Version::NEWEST);
    let present = |nodes: &[u32]| -> Vec<(String, Option<Identity>)> {
        let all = nodes.iter();
        all.map(|node| (format!("n{node}"), Some(member(*node))))
            .collect()
    };
    let places = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    let rests =
        |names: &[&str], nodes: &[u32]| is_at_rest(Some(&newest), &places(names), &present(nodes));
    assert!(rests(&["n1", "n2"], &[1, 2]));
    // One that is to have a member and does not run is not waited for.
    assert!(rests(&["n1", "n2", "n3"], &[1, 2]));
    assert!(!rests(&["n1", "n2", "n3"], &[1, 2, 3]));
    assert!(!rests(&["n1"], &[1, 2]), "n2 has to leave");
    assert!(
        !rests(&["n1", "n2"], &[1]),
        "its session is over: it is to be removed"
    );
    assert!(!is_at_rest(None, &places(&["n1"]), &present(&[1])));
}
