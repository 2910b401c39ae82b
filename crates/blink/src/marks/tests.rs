//! Marks of ranges equal marks of each key.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::tests::{ROOT, Tree, insert, small};

proptest! {
    /// Pages of any version are read in any order; a map with a mark for each key is the model.
    #[test]
    fn ranges_equal_keys(
        order in proptest::collection::vec(0..30_u64, 1..30),
        reads in proptest::collection::vec((any::<prop::sample::Index>(), 0..30_u64), 1..40),
    ) {
        let mut tree = Tree::new(small());
        let mut versions = vec![tree.pages[&ROOT].clone()];
        for (time, n) in order.iter().enumerate() {
            tree.write_all(ROOT, &[insert(&format!("k{n:02}"), time as u64 + 1, "some payload")]);
            versions.extend(tree.pages.values().filter(|page| page.is_leaf()).cloned());
        }
        let (mut marks, mut model) = (Marks::new(), BTreeMap::new());
        for (version, n) in reads {
            let page = &versions[version.index(versions.len())];
            let key = format!("k{n:02}");
            if !page.contains(key.as_bytes()) {
                continue;
            }
            let mark = model.get(&key).copied().unwrap_or(0);
            prop_assert_eq!(marks.at(key.as_bytes()), mark);
            prop_assert_eq!(marks.accepts(page, key.as_bytes()), mark <= page.lsn());
            if mark <= page.lsn() {
                let before = marks.clone();
                marks.raise(page);
                if before.know(page) {
                    prop_assert!(before.accept_all(page, page.low()));
                    prop_assert_eq!(&before, &marks);
                }
                prop_assert!(marks.know(page) || !marks.accept_all(page, page.low()));
                for other in (0..30).map(|n| format!("k{n:02}")) {
                    if page.contains(other.as_bytes()) {
                        let mark = model.entry(other).or_insert(0);
                        *mark = page.lsn().max(*mark);
                    }
                }
            }
        }
        let mut last = 0;
        for lsn in marks.from.values() {
            prop_assert!(*lsn != last, "neighbours with one LSN are one range");
            last = *lsn;
        }
    }
}

/// The right page goes on from the left page's new version. So a session that saw the left page
/// before the split accepts it at once. It refuses the version from before (error 8 of the checked
/// note).
#[test]
fn a_mark_goes_along_with_a_split() {
    let mut tree = Tree::new(small());
    let many = |from: u64| {
        (from..from + 8)
            .map(|n| insert(&format!("k{n:02}"), n + 1, "payload"))
            .collect()
    };
    let some: Vec<_> = many(0);
    tree.apply(ROOT, &some[..4], crate::HybridTime::ZERO);
    let old = tree.pages[&ROOT].clone();
    let mut marks = Marks::new();
    marks.raise(&old);
    tree.write_all(ROOT, &some);
    tree.write_all(ROOT, &many(8));
    let now = tree.pages[&tree.leaf(b"k03")].clone();
    assert!(marks.accepts(&now, b"k03"));
    marks.raise(&now);
    assert!(
        !marks.accepts(&old, b"k03"),
        "a stale route shows an older version"
    );
    assert!(marks.accepts(&now, b"k03"));
}
