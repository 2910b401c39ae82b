//! The check finds every kind of damage that it names.

use std::borrow::Cow;

use super::*;
use crate::tests::{ROOT, Tree, delete, insert, small, update};
use crate::{HybridTime, Route};

fn tree() -> Tree {
    let mut tree = Tree::new(small());
    let many: Vec<_> = (0..40)
        .map(|n| insert(&format!("k{n:02}"), n + 1, "some payload"))
        .collect();
    tree.write_all(ROOT, &many);
    tree
}

fn problems(tree: &Tree) -> Vec<Cow<'static, str>> {
    let report = check(ROOT, |id| tree.page(id));
    report
        .problems
        .into_iter()
        .map(|problem| problem.what)
        .collect()
}

#[test]
fn a_whole_tree_is_counted() {
    let mut tree = tree();
    let leaf = tree.leaf(b"k07");
    tree.write_all(leaf, &[delete("k07", 100), update("nothing", 101, "")]);
    let report = tree.check();
    assert_eq!((report.visible, report.dead), (39, 2));
    assert_eq!(report.leaves + report.nodes, tree.pages.len());
    assert_eq!(report.stamp_max, crate::tests::stamp(101));
}

#[test]
fn damage_is_named() {
    let base = tree();
    let (one, other) = (base.leaf(b"k10"), base.leaf(b"k30"));
    assert_ne!(one, other);
    let mut tree = base.clone();
    tree.pages.remove(&ROOT);
    assert_eq!(problems(&tree), ["is not there"]);
    let mut tree = base.clone();
    tree.pages.remove(&one);
    assert_eq!(problems(&tree), ["is not there"]);
    let mut tree = base.clone();
    let page = tree.pages[&one].clone();
    tree.pages.insert(other, page);
    assert_eq!(
        problems(&tree),
        ["it does not begin where its left sibling ends"]
    );
    let mut tree = base.clone();
    let leaf = tree.pages[&base.leaf(b"k00")].clone();
    tree.pages.insert(ROOT, leaf);
    assert!(problems(&tree).contains(&"the root's range has an end".into()));
    let mut tree = base.clone();
    // The left half of a split without its left page: a page that was never linked.
    let Route::Down(child) = base.pages[&ROOT].route(b"k10") else {
        panic!("inner")
    };
    let copy = crate::PageId(99);
    let page = tree.pages[&child].clone();
    tree.pages.insert(copy, page);
    let separator = Separator {
        level: 0,
        key: Bytes::from_static(b"k10x"),
        child: copy,
    };
    tree.post_all(vec![separator]);
    assert_eq!(
        problems(&tree),
        ["a parent names it, and no sibling leads to it"]
    );
}

#[test]
fn a_step_that_goes_back_is_named() {
    let mut tree = Tree::new(small());
    let mut step = |records: &[crate::Record], prune| {
        tree.apply(ROOT, records, HybridTime(prune));
        tree.pages[&ROOT].clone()
    };
    let one = step(&[insert("a", 5, "")], 0);
    let two = step(&[update("a", 6, "")], 0);
    let three = step(&[delete("a", 7)], 0);
    let four = step(&[], 8);
    assert_eq!(check_step(&one, &two), Ok(()));
    assert_eq!(check_step(&two, &three), Ok(()));
    assert_eq!(check_step(&three, &four), Ok(()));
    let error = |old: &Page, new: &Page| {
        let envelope = crate::Envelope {
            lsn: old.lsn() + 1,
            ..*new.envelope()
        };
        let new = crate::Stored::parse(envelope.join(new.body())).and_then(crate::Stored::open);
        let error = check_step(old, &new.expect("a good page")).expect_err("a step back");
        error.to_string()
    };
    assert!(check_step(&one, &three).is_err(), "a version is left out");
    assert_eq!(
        error(&two, &one),
        "the page's next version is wrong: a register went back"
    );
    assert_eq!(
        error(&four, &three),
        "the page's next version is wrong: its horizon went back"
    );
    let gone =
        "the page's next version is wrong: a slot is gone that is alive or above the horizon";
    let mut empty = Tree::new(small());
    empty.apply(ROOT, &[insert("b", 1, "")], HybridTime::ZERO);
    assert_eq!(error(&one, &empty.pages[&ROOT]), gone);
}
