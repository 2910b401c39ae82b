//! Applying: records commute and repeat without effect, through splits, forwards and lazy
//! separators.

use proptest::prelude::*;

use super::*;
use crate::tests::{
    ROOT, Tree, any_record, delete, edition, expected, insert, small, stamp, update,
};
use crate::{Route, check_step, search};

const KEEP: HybridTime = HybridTime::ZERO;

fn distinct(records: Vec<Record>) -> Vec<Record> {
    // A stamp names one write: equal ones are only made by a repeated incarnation (see the tests of
    // slots).
    let mut seen = std::collections::BTreeSet::new();
    records
        .into_iter()
        .filter(|record| seen.insert(record.stamp))
        .collect()
}

fn records() -> impl Strategy<Value = Vec<Record>> {
    proptest::collection::vec(any_record(), 1..80).prop_map(distinct)
}

/// An order of `0..count` with repetitions, cut into batches.
fn batches(count: usize) -> impl Strategy<Value = Vec<Vec<usize>>> {
    let every = Just((0..count).collect::<Vec<_>>());
    let again = proptest::collection::vec(0..count, 0..count);
    let order = (every, again)
        .prop_map(|(every, again)| [every, again].concat())
        .prop_shuffle();
    (order, 1..10_usize).prop_map(|(order, size)| order.chunks(size).map(<[_]>::to_vec).collect())
}

fn with_batches() -> impl Strategy<Value = (Vec<Record>, Vec<Vec<usize>>, Vec<Vec<usize>>)> {
    records().prop_flat_map(|records| {
        let count = records.len();
        (Just(records), batches(count), batches(count))
    })
}

proptest! {
    /// The bytes of the body are equal; the envelope has the number and nonce of the version.
    #[test]
    fn any_order_and_repetition_gives_the_same_bytes((records, one, other) in with_batches()) {
        let page = |batches: &[Vec<usize>]| {
            let mut tree = Tree::new(Sizes::default());
            for batch in batches {
                let batch: Vec<_> = batch.iter().map(|index| records[*index].clone()).collect();
                tree.apply(ROOT, &batch, KEEP);
            }
            tree.pages[&ROOT].clone()
        };
        let (one, other) = (page(&one), page(&other));
        prop_assert_eq!(one.body(), other.body());
        for record in &records {
            prop_assert!(one.covers(record));
        }
        let mut seed = 9;
        let again = edition(&mut seed, |edition| apply(&one, &records, KEEP, &small(), edition));
        prop_assert_eq!(again.change, None);
        prop_assert_eq!(again.superseded, records.len());
    }

    /// The same with a page whose horizon is in the middle of the stamps.
    #[test]
    fn a_horizon_refuses_the_same_records_in_any_order((records, one, other) in with_batches()) {
        let page = |batches: &[Vec<usize>]| {
            let mut tree = Tree::new(Sizes::default());
            tree.apply(ROOT, &[delete("gone", 20), insert("a", 5, "")], HybridTime(21));
            assert_eq!(tree.pages[&ROOT].horizon(), stamp(20));
            for batch in batches {
                let batch: Vec<_> = batch.iter().map(|index| records[*index].clone()).collect();
                tree.apply(ROOT, &batch, KEEP);
            }
            tree.pages[&ROOT].clone()
        };
        let (one, other) = (page(&one), page(&other));
        prop_assert_eq!(one.body(), other.body());
        prop_assert!(records.iter().all(|record| one.covers(record)));
    }

    /// Small pages, so that everything splits. Batches arrive at pages of stale routes and are
    /// forwarded; separators are posted late, in any order, twice, or never.
    #[test]
    fn a_tree_equals_a_map(
        (records, batches, _) in with_batches(),
        stale in proptest::collection::vec(any::<prop::sample::Index>(), 1..20),
        posts in proptest::collection::vec(0..4_u8, 1..20),
    ) {
        let mut tree = Tree::new(small());
        let mut unposted: Vec<Separator> = Vec::new();
        for (turn, batch) in batches.iter().enumerate() {
            let batch: Vec<_> = batch.iter().map(|index| records[*index].clone()).collect();
            // A route that was right at some time: any page that is not right of the least key.
            let least = batch.iter().map(|record| &record.key).min().expect("a batch");
            let is_left = |page: &Page| page.low() <= &least[..];
            let pages: Vec<_> = tree.pages.iter().filter(|(_, page)| is_left(page)).collect();
            let at = *pages[stale[turn % stale.len()].index(pages.len())].0;
            unposted.extend(tree.write_all(at, &batch));
            match posts[turn % posts.len()] {
                0 => tree.post_all(std::mem::take(&mut unposted)),
                1 => tree.post_all(unposted.iter().rev().cloned().collect()),
                2 => tree.post_all(unposted.iter().chain(&unposted).cloned().collect()),
                _ => {}
            }
            tree.check();
        }
        prop_assert_eq!(tree.scan(), expected(&records));
        for record in &records {
            let found = search(ROOT, &record.key, |id| tree.page(id)).expect("a whole tree");
            prop_assert!(found.page.covers(record));
            // Any reader that followed a link may post what it saw.
            let mut other = tree.clone();
            other.post_all(found.unposted);
            other.check();
        }
        tree.post_all(unposted);
        let report = tree.check();
        prop_assert_eq!(report.unposted, vec![]);
        prop_assert_eq!(report.reached.len(), tree.pages.len());
        prop_assert_eq!(tree.refused, 0);
    }

    /// Dead slots are removed at any time; nothing that was deleted and removed comes back.
    #[test]
    fn removed_slots_stay_removed((records, one, other) in with_batches(), cut in 0..45_u64) {
        let mut tree = Tree::new(small());
        for batch in &one {
            let batch: Vec<_> = batch.iter().map(|index| records[*index].clone()).collect();
            tree.write_all(ROOT, &batch);
        }
        let before = tree.scan();
        let leaves = tree.pages.iter().filter(|(_, page)| page.is_leaf());
        let leaves: Vec<_> = leaves.map(|(id, _)| *id).collect();
        for leaf in leaves {
            tree.apply(leaf, &[], HybridTime(cut));
        }
        prop_assert_eq!(tree.scan(), before.clone());
        for batch in &other {
            let batch: Vec<_> = batch.iter().map(|index| records[*index].clone()).collect();
            tree.write_all(ROOT, &batch);
            prop_assert_eq!(tree.scan(), before.clone());
        }
        tree.check();
    }

    /// Two checkpointers read the same version of a leaf that will split. One PUT wins by If-Match,
    /// the other drops its work and starts again; neither loses anything, and the loser's
    /// new pages stay unreachable.
    #[test]
    fn concurrent_splits_of_one_page_lose_nothing(
        (records, _, _) in with_batches(),
        cut in any::<prop::sample::Index>(),
        is_first in any::<bool>(),
    ) {
        let base = Tree::new(small());
        let (one, other) = records.split_at(cut.index(records.len()));
        let (winner, loser) = if is_first { (one, other) } else { (other, one) };
        let mut tree = base.clone();
        // The loser's created pages exist; its replacement of the left page answers 412.
        let mut seed = 1 << 40;
        let lost = edition(&mut seed, |edition| {
            apply(&base.pages[&ROOT], loser, KEEP, &base.sizes, edition)
        });
        let orphans = lost.change.map_or(Vec::new(), |change| change.created);
        let orphans: BTreeMap<_, _> = orphans.into_iter().collect();
        tree.write_all(ROOT, winner);
        tree.pages.extend(orphans.clone());
        tree.write_all(ROOT, loser);
        let report = tree.check();
        prop_assert!(report.reached.iter().all(|id| !orphans.contains_key(id)));
        prop_assert_eq!(tree.scan(), expected(&records));
    }
}

#[test]
fn a_root_that_was_a_leaf_forwards_down_and_keeps_its_id() {
    let mut tree = Tree::new(small());
    let many: Vec<_> = (0..20)
        .map(|n| insert(&format!("k{n:02}"), 1 + n, "some payload"))
        .collect();
    tree.write_all(ROOT, &many);
    let root = tree.pages[&ROOT].clone();
    assert!(root.is_root() && !root.is_leaf());
    let applied = tree.apply(ROOT, &[update("k03", 99, "late")], KEEP);
    assert_eq!(applied.change, None);
    let Route::Down(child) = root.route(b"k03") else {
        panic!("an inner page leads down")
    };
    assert_eq!(applied.forwards.len(), 1);
    assert_eq!(applied.forwards[0].target, Target::Page(child));
    assert_eq!(tree.check().unposted, vec![]);
}

#[test]
fn a_record_left_of_the_page_goes_to_the_root() {
    let mut tree = Tree::new(small());
    let many: Vec<_> = (0..20)
        .map(|n| insert(&format!("k{n:02}"), 1 + n, "some payload"))
        .collect();
    tree.write_all(ROOT, &many);
    let last = tree.leaf(b"k19");
    let applied = tree.apply(last, &[update("k00", 99, "misrouted")], KEEP);
    assert_eq!(applied.forwards[0].target, Target::Root);
}

#[test]
fn ascending_keys_fill_leaves() {
    let mut tree = Tree::new(Sizes::new(2_000, 1_000).expect("sizes"));
    for n in 0..400 {
        let leaf = tree.leaf(format!("k{n:05}").as_bytes());
        let separators =
            tree.write_all(leaf, &[insert(&format!("k{n:05}"), 1 + n, "some payload")]);
        tree.post_all(separators);
    }
    let leaves: Vec<_> = tree.pages.values().filter(|page| page.is_leaf()).collect();
    let full = leaves
        .iter()
        .filter(|page| page.encode().len() > 1_800)
        .count();
    assert!(
        full + 1 >= leaves.len(),
        "{full} of {} leaves are full",
        leaves.len()
    );
    tree.check();
}

#[test]
fn one_batch_may_split_a_page_into_many() {
    let mut tree = Tree::new(small());
    let many: Vec<_> = (0..100)
        .map(|n| insert(&format!("k{n:03}"), 1, &"x".repeat(100)))
        .collect();
    let applied = tree.apply(ROOT, &many, KEEP);
    let change = applied.change.expect("a change");
    assert!(change.created.len() > 20);
    assert!(
        change
            .created
            .iter()
            .all(|(_, page)| page.encode().len() <= 400)
    );
    assert_eq!(tree.check().visible, 100);
}

#[test]
fn the_longest_keys_and_largest_payloads_fit() {
    let mut tree = Tree::new(Sizes::new(256, 256).expect("sizes"));
    let key = |n: u8| {
        let mut key = vec![b'k'; crate::KEY_BYTES_MAX];
        key[crate::KEY_BYTES_MAX - 1] = n;
        Bytes::from(key)
    };
    for n in [5, 3, 8, 1, 9, 2, 7, 4, 6, 0] {
        let mut record = insert("", u64::from(n) + 1, &"x".repeat(crate::INLINE_BYTES_MAX));
        record.key = key(n);
        record.check().expect("at the bounds");
        let separators = tree.write_all(ROOT, &[record]);
        tree.post_all(separators);
        tree.check();
    }
    assert_eq!(tree.scan().len(), 10);
}

#[test]
fn space_of_older_payloads_and_removed_slots_is_used_again() {
    let mut tree = Tree::new(small());
    for turn in 0..200 {
        tree.apply(ROOT, &[insert("k", 1 + turn, &"x".repeat(150))], KEEP);
        let gone = format!("g{turn}");
        tree.apply(
            ROOT,
            &[
                insert(&gone, 1000 + 2 * turn, ""),
                delete(&gone, 1001 + 2 * turn),
            ],
            HybridTime(u64::MAX),
        );
    }
    assert_eq!(tree.pages.len(), 1, "nothing split");
    assert_eq!(tree.pages[&ROOT].count(), 1);
}

#[test]
fn a_conflicting_separator_is_reported_and_not_posted() {
    let mut tree = Tree::new(small());
    let many: Vec<_> = (0..20)
        .map(|n| insert(&format!("k{n:02}"), 1 + n, "some payload"))
        .collect();
    tree.write_all(ROOT, &many);
    let root = tree.pages[&ROOT].clone();
    let key = Bytes::from(root.key(1).to_vec());
    let wrong = Separator {
        level: 0,
        key,
        child: PageId(77),
    };
    let mut seed = 50;
    let posted = edition(&mut seed, |edition| {
        post(&root, std::slice::from_ref(&wrong), &small(), edition)
    });
    assert_eq!((posted.change, posted.conflicts), (None, vec![wrong]));
}

#[test]
fn a_separator_of_another_level_is_sent_on() {
    let mut tree = Tree::new(small());
    let many: Vec<_> = (0..200)
        .map(|n| insert(&format!("k{n:03}"), 1 + n, "some payload"))
        .collect();
    for record in &many {
        let separators = tree.write_all(ROOT, std::slice::from_ref(record));
        tree.post_all(separators);
    }
    let root = tree.pages[&ROOT].clone();
    assert!(root.level() >= 2);
    let low = Separator {
        level: 0,
        key: Bytes::from_static(b"k0001"),
        child: PageId(77),
    };
    let high = Separator {
        level: root.level(),
        ..low.clone()
    };
    let mut seed = 50;
    let items = [low.clone(), high.clone()];
    let posted = edition(&mut seed, |edition| post(&root, &items, &small(), edition));
    assert_eq!(posted.change, None);
    let Route::Down(child) = root.route(&low.key) else {
        panic!("an inner page leads down")
    };
    let targets: Vec<_> = posted
        .forwards
        .into_iter()
        .map(|forward| forward.target)
        .collect();
    assert_eq!(targets, [Target::Page(child), Target::Root]);
}

#[test]
fn every_step_of_the_tests_is_a_step() {
    // `Tree::write` verifies each step; this shows that the verification can fail.
    let mut tree = Tree::new(small());
    tree.apply(ROOT, &[insert("a", 5, "")], KEEP);
    let old = tree.pages[&ROOT].clone();
    tree.apply(ROOT, &[insert("b", 6, "")], KEEP);
    let new = tree.pages[&ROOT].clone();
    assert_eq!(check_step(&old, &new), Ok(()));
    assert!(check_step(&new, &old).is_err());
}

/// A slot is removed, the page splits, and a record from before the removal arrives at the new
/// page.
fn arrives_late_at_the_right_half() -> Option<Vec<Record>> {
    let base = Tree::new(small());
    let mut seed = 0;
    edition(&mut seed, |edition| {
        let step = |page: &Page, records: &[Record], prune, edition: &mut Edition<'_>| {
            apply(page, records, HybridTime(prune), &small(), edition)
        };
        let many: Vec<_> = (0..8)
            .map(|n| insert(&format!("k{n}"), 20, "some payload, long enough"))
            .collect();
        let page = step(&base.pages[&ROOT], &[delete("k6x", 5)], 0, edition)
            .change?
            .page;
        let page = step(&page, &many[..2], 6, edition).change?.page;
        assert_eq!(page.horizon(), stamp(5));
        let created = step(&page, &many, 0, edition).change?.created;
        let (_, right) = created
            .into_iter()
            .find(|(_, page)| page.contains(b"k6x"))?;
        assert!(
            right.high().is_some() || !right.low().is_empty(),
            "a half of a split"
        );
        let applied = step(&right, &[insert("k6x", 3, "deleted at 5")], 0, edition);
        applied.change.is_none().then_some(applied.refused)
    })
}

#[test]
fn both_halves_of_a_split_keep_the_horizon() {
    let refused = arrives_late_at_the_right_half().expect("the record changes nothing");
    assert_eq!(refused, [insert("k6x", 3, "deleted at 5")]);
}

#[cfg(feature = "mutants")]
#[test]
fn a_horizon_that_is_not_inherited_is_caught() {
    let late = crate::without(
        crate::Guard::HorizonInherited,
        arrives_late_at_the_right_half,
    );
    assert_eq!(late, None, "the deleted record is on the page");
    println!("caught: HorizonInherited: the deleted record is on the page");
}
