//! Two maps, made equal range by range.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::view::{Layered, Mutations};

struct Nothing;

impl View for Nothing {
    fn get(&self, _key: &[u8]) -> Result<Option<Bytes>, ViewError> {
        Ok(None)
    }

    fn scan(&self, _: &[u8], _: &[u8], _: Direction) -> crate::view::Scan<'_> {
        Box::new(std::iter::empty())
    }
}

type Rows = BTreeMap<Bytes, Bytes>;

fn mutations(rows: &Rows) -> Mutations {
    let pairs = rows
        .iter()
        .map(|(key, value)| (key.clone(), Some(value.clone())));
    pairs.collect()
}

/// What making `mine` equal to `theirs` costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cost {
    asks: usize,
    ranges: usize,
    rows: usize,
}

/// Asks and answers until the end of the keys.
fn fill(mine: &mut Rows, theirs: &Rows) -> Cost {
    let theirs = mutations(theirs);
    let theirs = Layered::new(&Nothing, &theirs);
    let mut cost = Cost::default();
    let mut start = Bytes::new();
    while start != keys::END[..] {
        let ours = mutations(mine);
        let asked = hashes(&Layered::new(&Nothing, &ours), &start, 7).unwrap();
        assert!(asked.len() <= RANGES_MAX);
        let compared = compare(&theirs, &start, &asked, 7, |_| false).unwrap();
        assert!(start < compared.end, "an answer goes beyond its start");
        cost.asks += 1;
        cost.ranges += asked.len();
        for range in compared.ranges {
            cost.rows += range.rows.len();
            mine.retain(|key, _| *key < range.start || range.end <= *key);
            mine.extend(range.rows);
        }
        start = compared.end;
    }
    cost
}

fn rows(keys: impl Iterator<Item = u32>, size: usize) -> Rows {
    let row = |key: u32| {
        let value = Bytes::from(vec![b'x'; size]);
        (Bytes::copy_from_slice(&key.to_be_bytes()), value)
    };
    keys.map(row).collect()
}

#[track_caller]
fn check(mine: &Rows, theirs: &Rows, expected: Cost) {
    let mut filled = mine.clone();
    assert_eq!(fill(&mut filled, theirs), expected);
    assert_eq!(filled, *theirs);
}

#[test]
fn ranges_that_are_equal_are_not_sent() {
    let all = rows(0..1_000, 10);
    let mut other = all.clone();
    let cost = |rows| Cost {
        asks: 1,
        ranges: 16,
        rows,
    };
    check(&all, &all, cost(0));
    other.insert(
        Bytes::copy_from_slice(&500_u32.to_be_bytes()),
        Bytes::from_static(b"y"),
    );
    check(&other, &all, cost(64));
    let without = rows((0..1_000).filter(|key| *key != 999), 10);
    check(&without, &all, cost(40));
    check(&all, &without, cost(39));
}

#[test]
fn an_empty_member_takes_all_a_full_one_loses_all() {
    let all = rows(0..5_000, 1_000);
    let (asks, ranges) = (5, 5);
    check(
        &Rows::new(),
        &all,
        Cost {
            asks,
            ranges,
            rows: 5_000,
        },
    );
    let mut filled = all.clone();
    fill(&mut filled, &Rows::new());
    assert_eq!(filled, Rows::new());
}

/// It shows RANGE-1 and RANGE-2.
#[test]
fn a_row_beyond_every_bound_passes() {
    let mut theirs = rows(0..3, BYTES_MAX + 1);
    theirs.extend(rows(3..40, 1));
    for mine in [Rows::new(), rows(0..2, BYTES_MAX + 1), rows(0..40, 1)] {
        let mut filled = mine.clone();
        fill(&mut filled, &theirs);
        assert_eq!(filled, theirs);
    }
}

#[test]
fn hashes_tell_rows_apart() {
    let of = |pairs: &[(&'static str, &'static str)], seed| {
        let pairs = pairs
            .iter()
            .map(|(key, value)| ((*key).into(), Some((*value).into())));
        let rows: Mutations = pairs.collect();
        let view = Layered::new(&Nothing, &rows);
        hashes(&view, b"", seed).unwrap()[0].hash
    };
    assert_ne!(of(&[("a", "bc")], 1), of(&[("ab", "c")], 1));
    assert_ne!(of(&[("a", ""), ("b", "")], 1), of(&[("a", "b")], 1));
    assert_ne!(of(&[], 1), of(&[("a", "")], 1));
    assert_ne!(of(&[("a", "")], 1), of(&[("a", "")], 2));
}

#[test]
fn a_digest_goes_on_where_the_last_one_ended() {
    let all = mutations(&rows(0..100, 96));
    let view = Layered::new(&Nothing, &all);
    let mut start = Bytes::new();
    let mut digests = Vec::new();
    while start != keys::END[..] {
        let (end, digest) = digest(&view, &start, 1_000).unwrap();
        digests.push(digest);
        start = end;
    }
    assert_eq!(digests.len(), 10);
    digests.sort_unstable();
    digests.dedup();
    assert_eq!(digests.len(), 10);
}

fn any_rows() -> impl Strategy<Value = Rows> {
    let key = prop::collection::vec(0..3_u8, 0..5).prop_map(Bytes::from);
    let value = (0..4_usize, any::<bool>()).prop_map(|(size, is_large)| {
        let size = if is_large { size << 13 } else { size };
        Bytes::from(vec![b'v'; size])
    });
    prop::collection::btree_map(key, value, 0..200)
}

proptest! {
    /// It shows RANGE-3.
    #[test]
    fn any_state_becomes_any_other(mine in any_rows(), theirs in any_rows()) {
        let mut filled = mine;
        fill(&mut filled, &theirs);
        prop_assert_eq!(&filled, &theirs);
        prop_assert_eq!(fill(&mut filled, &theirs).rows, 0);
    }
}
