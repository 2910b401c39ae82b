//! Orders to any cluster: what is refused, and how it comes step by step to where it is to be.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::config::{Configuration, DiskId, Incarnation, NodeId, Wiring};
use crate::controller;
use crate::version::Version;

fn site(name: &str, zone: &str) -> Site {
    Site {
        name: name.to_owned(),
        zone: zone.to_owned(),
        is_leaving: false,
        is_resting: false,
        successor: None,
    }
}

fn sites(count: usize) -> Vec<Site> {
    let names = (1..=count).map(|number| format!("n{number}"));
    names.map(|name| site(&name, "")).collect()
}

fn wish(copies: usize) -> Wish {
    Wish {
        copies,
        head_zone: None,
        tail_zone: None,
    }
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
fn step(layout: &Layout, wish: &Wish) -> Option<Layout> {
    let hold = layout
        .sites
        .iter()
        .filter(|site| !data_at(layout, &site.name).is_empty());
    let hold = hold.map(|site| site.name.clone()).collect();
    layout.step(wish, |_| true, (&names(layout), &hold))
}

/// All steps, each checked; how many there were.
fn settled(mut layout: Layout, wish: &Wish) -> (Layout, usize) {
    let mut count = 0;
    while let Some(next) = step(&layout, wish) {
        count += 1;
        assert!(count < 1_000, "LY4: {layout:?}");
        let changed = layout
            .chains
            .iter()
            .filter(|(chain, it)| next.chains[chain] != **it);
        assert_eq!(changed.count(), 1, "LY2");
        for (chain, spread) in &next.chains {
            let before = layout.nodes(*chain);
            let (was, is) = (before.len(), spread.nodes.len());
            assert!(was <= is || *chain == ChainId::SYSTEM, "LY1: {chain}");
            let came = spread.nodes.iter().filter(|name| !before.contains(name));
            assert!(came.count() <= 1, "LY2: {chain}");
        }
        layout = next;
    }
    (layout, count)
}

proptest! {
    #[test]
    fn a_node_that_comes_takes_its_share_step_by_step(
        nodes in 1..6_usize,
        chains in 1..20_u32,
        copies in 1..4_usize,
    ) {
        let wish = wish(copies);
        let before = Layout::founded(sites(nodes), chains, &wish);
        prop_assert_eq!(step(&before, &wish), None, "LY4");
        let order = Order::Add("n9".to_owned(), String::new());
        let added = before.ordered(&order, &wish).unwrap();
        let (after, count) = settled(added, &wish);
        let share = data_at(&after, "n9").len();
        prop_assert_eq!(count, share, "nothing else moves");
        let most = after.sites.iter().map(|site| data_at(&after, &site.name).len()).max();
        prop_assert!(most.unwrap() <= share + 1);
        prop_assert!(after.nodes(ChainId::SYSTEM).contains(&"n9".to_owned()), "LY3");
    }

    #[test]
    fn a_node_that_leaves_ends_with_nothing(
        nodes in 4..7_usize,
        chains in 1..20_u32,
        leaving in 1..4_usize,
    ) {
        let (wish, name) = (wish(3), format!("n{leaving}"));
        let before = Layout::founded(sites(nodes), chains, &wish);
        let had = data_at(&before, &name).len();
        let order = Order::Drain(name.clone());
        let ordered = before.ordered(&order, &wish).unwrap();
        prop_assert_eq!(ordered.ordered(&order, &wish).unwrap(), ordered.clone(), "asked again");
        let forgotten = Order::Forget(name.clone());
        prop_assert!(ordered.ordered(&forgotten, &wish).is_err());
        let (after, count) = settled(ordered, &wish);
        prop_assert_eq!(after.chains_at(&name).count(), 0);
        // What it had, what evens out the others, and the system chain.
        prop_assert!(count <= had + nodes + 1);
        let forgotten = after.ordered(&forgotten, &wish).unwrap();
        prop_assert!(forgotten.site(&name).is_none());
        let again = forgotten.ordered(&Order::Forget(name), &wish).unwrap();
        prop_assert_eq!(again, forgotten);
    }
}

/// Of clusters of each size, with each number of chains.
#[test]
fn a_replaced_node_gives_all_it_has_to_its_successor() {
    let wish = wish(3);
    for (nodes, chains) in (3..7).flat_map(|nodes| (1..20).map(move |chains| (nodes, chains))) {
        let before = Layout::founded(sites(nodes), chains, &wish);
        let order = Order::Replace("n1".to_owned(), "n9".to_owned(), None);
        let (after, count) = settled(before.ordered(&order, &wish).unwrap(), &wish);
        assert_eq!(data_at(&after, "n9"), data_at(&before, "n1"));
        assert_eq!(count, data_at(&before, "n1").len() + 1, "{nodes}, {chains}");
        assert_eq!(after.chains_at("n1").count(), 0);
    }
}

#[test]
fn new_chains_are_put_beside_the_others() {
    let wish = wish(3);
    for (chains, more) in (1..10).flat_map(|chains| (1..10).map(move |more| (chains, more))) {
        let before = Layout::founded(sites(5), chains, &wish);
        let after = before.ordered(&Order::AddChains(more), &wish).unwrap();
        for (chain, spread) in &before.chains {
            assert_eq!(spread, &after.chains[chain]);
        }
        assert_eq!(after.chains.len(), (chains + more) as usize + 1);
        assert_eq!(step(&after, &wish), None, "LY4: {chains}, {more}");
    }
}

#[test]
fn what_was_moved_by_hand_stays() {
    let wish = wish(3);
    let before = Layout::founded(sites(5), 5, &wish);
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
        let order = Order::Move(chain, from, to);
        layout = layout.ordered(&order, &wish).unwrap();
    }
    let kept: Vec<ChainId> = layout.chains.keys().copied().collect();
    let kept = kept
        .into_iter()
        .filter(|chain| layout.chains[chain].is_kept);
    let kept: Vec<ChainId> = kept.collect();
    assert!(!kept.is_empty());
    let (after, _) = settled(layout.clone(), &wish);
    for chain in &kept {
        assert_eq!(after.nodes(*chain), layout.nodes(*chain));
    }
    // But not on a node that leaves.
    let (drained, _) = settled(
        after
            .ordered(&Order::Drain("n5".to_owned()), &wish)
            .unwrap(),
        &wish,
    );
    assert_eq!(drained.chains_at("n5").count(), 0);
    assert_ne!(spare(kept[0], &drained), "");
}

#[test]
fn orders_that_make_no_sense_are_refused_in_words() {
    let wish = wish(3);
    let zoned = vec![
        site("n1", "a"),
        site("n2", "b"),
        site("n3", "c"),
        site("n4", "a"),
    ];
    let layout = Layout::founded(zoned, 1, &wish);
    let nodes = layout.nodes(ChainId(1)).to_vec();
    let name = |text: &str| text.to_owned();
    let of_a = nodes
        .iter()
        .find(|name| ["n1", "n4"].contains(&&***name))
        .unwrap();
    let other = if of_a == "n1" { "n4" } else { "n1" };
    let one = ChainId(1);
    let cases: [(Order, &str); 11] = [
        (
            Order::Add(name("n1"), name("")),
            "n1 is a node of the cluster already",
        ),
        (Order::Drain(name("n7")), "n7 is no node of the cluster"),
        (
            Order::Replace(name("n2"), name("n9"), Some(name("a"))),
            "chain 1 would be in fewer zones, or not in the one wished for its head or tail",
        ),
        (
            Order::Replace(name("n2"), name("n2"), None),
            "n2 is leaving the cluster",
        ),
        (
            Order::Move(ChainId::SYSTEM, name("n1"), name("n4")),
            "chain 0 is no chain whose members can be moved: the system chain is on every node",
        ),
        (
            Order::Move(one, name(other), name("n9")),
            "n9 is no node of the cluster",
        ),
        (
            Order::Move(one, of_a.clone(), name("n2")),
            "n2 has a member of chain 1 already",
        ),
        (
            Order::Move(one, name("n2"), name(other)),
            "chain 1 would be in fewer zones, or not in the one wished for its head or tail",
        ),
        (Order::Forget(name("n1")), "n1 still has members"),
        (
            Order::AddChains(256),
            "a cluster has at most 7 nodes and 256 chains",
        ),
        (
            Order::Move(one, name(other), of_a.clone()),
            "has a member of chain 1 already",
        ),
    ];
    for (order, why) in cases {
        let refused = layout.ordered(&order, &wish).expect_err(why).to_string();
        assert!(refused.ends_with(why), "{order:?}: {refused}");
    }
    let three = Layout::founded(sites(3), 4, &wish);
    let refused = three.ordered(&Order::Drain(name("n1")), &wish).unwrap_err();
    let why = "2 nodes would be left, and chains have 3 members: add a node first, or replace \
               this one";
    assert_eq!(refused.to_string(), why);
    let one = Layout::founded(sites(3), 0, &wish).ordered(&Order::AddChains(1), &wish);
    assert_eq!(one, Err(NotDone::OneChain));
}

#[test]
fn nothing_goes_on_before_chains_have_followed_and_nodes_run() {
    let wish = wish(3);
    let layout = Layout::founded(sites(3), 4, &wish);
    let layout = layout
        .ordered(&Order::Add("n4".to_owned(), String::new()), &wish)
        .unwrap();
    let (all, none) = (names(&layout), BTreeSet::new());
    assert!(layout.step(&wish, |_| true, (&all, &none)).is_some());
    let busy = |chain| chain != ChainId(3);
    assert_eq!(layout.step(&wish, busy, (&all, &none)), None);
    let without = all.iter().filter(|name| *name != "n4").cloned().collect();
    assert_eq!(layout.step(&wish, |_| true, (&without, &none)), None);
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
