//! Searching and scanning where pages are missing, contradict each other, or split meanwhile.

use super::*;
use crate::tests::{ROOT, Tree, insert, small};

fn tree() -> Tree {
    let mut tree = Tree::new(small());
    let many: Vec<_> = (0..40)
        .map(|n| insert(&format!("k{n:02}"), 1, "some payload"))
        .collect();
    tree.write_all(ROOT, &many);
    tree
}

fn keys(tree: &Tree, from: &str, until: Option<&'static str>) -> Vec<String> {
    let until = until.map(Bytes::from);
    let mut scan = range(ROOT, from.as_bytes(), until, |id| tree.page(id)).expect("a whole tree");
    let mut keys = Vec::new();
    while let Some(key) = scan
        .next_with(|_, key, _| key.to_vec())
        .expect("a whole tree")
    {
        keys.push(String::from_utf8(key).expect("text"));
    }
    keys
}

#[test]
fn a_range_has_its_first_key_and_not_its_last() {
    let tree = tree();
    assert_eq!(keys(&tree, "k05", Some("k08")), ["k05", "k06", "k07"]);
    assert_eq!(keys(&tree, "k050", Some("k06")), [""; 0]);
    assert_eq!(keys(&tree, "k38", None), ["k38", "k39"]);
    assert_eq!(keys(&tree, "k08", Some("k05")), [""; 0]);
    assert_eq!(keys(&tree, "", None).len(), 40);
    let ranges = (0..40).flat_map(|low| (low..40).map(move |high| (low, high)));
    for (low, high) in ranges {
        let until = Box::leak(format!("k{high:02}").into_boxed_str());
        assert_eq!(
            keys(&tree, &format!("k{low:02}"), Some(until)).len(),
            high - low
        );
    }
}

/// It shows DB-11 and TREE-4.
#[test]
fn a_missing_page_is_an_error_never_an_absent_key() {
    let mut tree = tree();
    let leaf = tree.leaf(b"k20");
    tree.pages.remove(&leaf);
    let error = search(ROOT, b"k20", |id| tree.page(id)).expect_err("a page is missing");
    assert_eq!(error, TreeError::Missing(leaf));
    let mut scan = range(ROOT, b"", None, |id| tree.page(id)).expect("the first leaf is there");
    let error = loop {
        match scan.next_with(|_, _, _| ()) {
            Ok(Some(())) => {}
            Ok(None) => panic!("the scan ended before the missing page"),
            Err(error) => break error,
        }
    };
    assert_eq!(error, TreeError::Missing(leaf));
}

#[test]
fn pages_that_contradict_each_other_are_named_and_end_the_search() {
    let tree = tree();
    let (one, other) = (tree.leaf(b"k05"), tree.leaf(b"k35"));
    // The store returns another page's bytes: searches end instead of going round.
    let wrong = |id| tree.page(if id == other { one } else { id });
    let error = search(ROOT, b"k35", wrong).expect_err("a wrong page");
    assert!(
        matches!(error, TreeError::Broken { .. } | TreeError::Missing(_)),
        "{error}"
    );
    let circle = |id| tree.page(if id == ROOT { ROOT } else { one });
    let error = search(ROOT, b"k35", circle).expect_err("a circle");
    assert!(matches!(error, TreeError::Broken { .. }), "{error}");
    let what = "its level is not one below its parent's";
    let deep = search(ROOT, b"k35", |_| tree.page(ROOT)).expect_err("a root below the root");
    assert!(matches!(deep, TreeError::Broken { what: found, .. } if found == what));
}

#[test]
fn a_scan_follows_splits_that_happen_meanwhile() {
    let before = tree();
    let mut after = before.clone();
    // Every leaf splits once more while the scan stands on old versions of the pages it has read.
    for n in 0..40 {
        let leaf = after.leaf(format!("k{n:02}").as_bytes());
        after.write_all(leaf, &[insert(&format!("k{n:02}5"), 2, &"x".repeat(120))]);
    }
    assert!(after.pages.len() > before.pages.len() + 5);
    for switch in 0..40 {
        let mut reads = 0;
        let fetch = |id| {
            reads += 1;
            if reads > switch {
                after.page(id)
            } else {
                before.page(id).or(after.page(id))
            }
        };
        let mut scan = range(ROOT, b"", None, fetch).expect("a whole tree");
        let mut found = Vec::new();
        while let Some(key) = scan
            .next_with(|_, key, _| key.to_vec())
            .expect("a whole tree")
        {
            found.push(key);
        }
        assert!(found.is_sorted() && found.windows(2).all(|two| two[0] != two[1]));
        for n in 0..40 {
            assert!(
                found.contains(&format!("k{n:02}").into_bytes()),
                "k{n:02} after {switch}"
            );
        }
    }
}
