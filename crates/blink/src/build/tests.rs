//! Bulk loading gives a whole tree with full pages, and names input out of order.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::tests::{ROOT, Tree, any_key, any_payload, edition, inline, insert, small, stamp};

fn build(sizes: Sizes, slots: impl IntoIterator<Item = (Bytes, Slot)>) -> Tree {
    let mut tree = Tree::new(sizes);
    let mut out = Vec::new();
    let mut seed = 1000;
    let root = edition(&mut seed, |edition| {
        let mut builder = Builder::new(sizes, Stamp::ZERO);
        for (key, slot) in slots {
            builder
                .push(key, slot, edition, &mut out)
                .expect("sorted input");
        }
        builder.finish(edition, &mut out)
    });
    tree.pages = out.into_iter().collect();
    tree.pages.insert(ROOT, root);
    tree.seed = seed;
    tree
}

fn slot(text: &str) -> Slot {
    Slot::inserted(stamp(1), inline(text.to_owned()))
}

#[test]
fn leaves_are_full_and_nothing_is_left_to_post() {
    let slots = (0..100_000).map(|n| (Bytes::from(format!("user{n:08}")), slot(&"x".repeat(88))));
    let tree = build(Sizes::default(), slots);
    let report = tree.check();
    assert_eq!(
        (report.visible, report.dead, report.height),
        (100_000, 0, 2)
    );
    assert_eq!(report.unposted, []);
    let full = tree
        .pages
        .values()
        .filter(|page| page.is_leaf() && page.encode().len() > 90_000);
    assert!(full.count() + 1 >= report.leaves);
}

#[test]
fn an_empty_load_is_an_empty_tree() {
    let report = build(small(), []).check();
    assert_eq!((report.height, report.leaves, report.visible), (1, 1, 0));
}

#[test]
fn keys_out_of_order_are_named_and_change_nothing() {
    let mut seed = 0;
    let root = edition(&mut seed, |edition| {
        let (mut builder, mut out) = (Builder::new(small(), Stamp::ZERO), Vec::new());
        let mut push =
            |key: &str| builder.push(Bytes::from(key.to_owned()), slot(""), edition, &mut out);
        assert_eq!(push("b"), Ok(()));
        assert_eq!(push("a"), Err(TreeError::Order { index: 1 }));
        assert_eq!(push("b"), Err(TreeError::Order { index: 1 }));
        assert_eq!(push("c"), Ok(()));
        builder.finish(edition, &mut out)
    });
    assert_eq!(root.count(), 2);
}

#[test]
fn a_loaded_tree_is_written_like_any_other() {
    let slots = (0..200).map(|n| (Bytes::from(format!("k{n:03}")), slot("some payload")));
    let mut tree = build(small(), slots);
    for n in 0..200 {
        let separators = tree.write_all(ROOT, &[insert(&format!("k{n:03}x"), 2, "more")]);
        tree.post_all(separators);
    }
    assert_eq!(tree.check().visible, 400);
}

proptest! {
    #[test]
    fn a_built_tree_equals_a_map(
        map in proptest::collection::btree_map(any_key(), any_payload(), 0..200),
        leaf in 256..2_000_usize,
        node in 256..600_usize,
    ) {
        let sizes = Sizes::new(leaf, node).expect("within the bounds");
        let slots = map.iter().map(|(key, payload)| {
            (key.clone(), Slot::inserted(stamp(1), payload.clone()))
        });
        let tree = build(sizes, slots);
        let report = tree.check();
        prop_assert_eq!(report.unposted, vec![]);
        prop_assert_eq!(report.reached.len(), tree.pages.len());
        let pairs = map.into_iter().map(|(key, payload)| (key.to_vec(), payload));
        let expected: BTreeMap<_, _> = pairs.collect();
        prop_assert_eq!(tree.scan(), expected);
    }
}

#[test]
fn a_load_goes_on_from_the_lsn_of_the_tree_that_it_replaces() {
    let mut seed = 0;
    let (root, out) = edition(&mut seed, |edition| {
        let mut out = Vec::new();
        let mut builder = Builder::new(small(), Stamp::ZERO).at_lsn(7);
        for number in 0..50 {
            let key = Bytes::from(format!("{number:03}"));
            builder
                .push(key, slot("x"), edition, &mut out)
                .expect("sorted input");
        }
        (builder.finish(edition, &mut out), out)
    });
    assert!(out.len() > 3, "a tree of several pages");
    let pages = out.iter().map(|(_, page)| page);
    assert!(pages.chain([&root]).all(|page| page.lsn() == 7));
}

#[test]
fn a_renewed_page_is_the_same_under_another_version() {
    let mut seed = 0;
    edition(&mut seed, |edition| {
        let page = Page::empty(stamp(3), edition);
        edition.key = 9;
        let renewed = page.renewed(edition);
        assert_eq!(renewed.body(), page.body());
        assert_eq!(renewed.lsn(), page.lsn() + 1);
        assert_eq!(renewed.envelope().key, 9);
        assert_ne!(renewed.envelope().nonce, page.envelope().nonce);
    });
}
