//! The filter of returning members, case by case; and the walk over rows.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::*;
use crate::change::{ElementOp, Mutation, TombstonePolicy};
use crate::dedup::DedupCursor;
use crate::entry::{Entry, RequestId};
use crate::replica::compute;

const FLOOR: EntryId = EntryId::new(2, 50);

fn add(group: &'static str, value: &'static str) -> ElementOp {
    ElementOp::Add {
        group: Bytes::from_static(group.as_bytes()),
        value: Bytes::from_static(value.as_bytes()),
    }
}

/// An operation with a base of epoch 1.
fn operation(base: u64, accept: EntryId, ops: Vec<ElementOp>) -> Operation {
    Operation {
        name: RequestId {
            client: 1_u128.into(),
            seq: 1,
            part: 0,
        },
        stamp: Stamp {
            clock: 1,
            ..Stamp::strong(EntryId::new(1, base))
        },
        accept,
        digest: None,
        key: Bytes::from_static(b"k"),
        ops,
    }
}

/// {a=1 since entry 1.3}, and a mark of an eventual clear of b based on 1.2.
fn register() -> Register {
    let mut register = Register::default();
    register.merge(&[add("a", "1")], Stamp::strong(EntryId::new(1, 3)));
    let clear = ElementOp::Clear {
        group: Bytes::from_static(b"b"),
    };
    let clear_stamp = Stamp {
        clock: 1,
        ..Stamp::strong(EntryId::new(1, 2))
    };
    register.merge(&[clear], clear_stamp);
    register
}

#[track_caller]
fn check(operation: &Operation, register: &Register, is_expected: bool) {
    let guards = Guards::default();
    assert_eq!(
        is_forgotten(operation, register, FLOOR, &guards),
        is_expected
    );
}

#[test]
fn a_value_that_is_not_live_is_not_brought_back() {
    let accept = EntryId::new(1, 9);
    let (register, absent) = (register(), Register::default());
    let x = operation(5, accept, vec![add("a", "2")]);
    check(&x, &register, true);
    check(&x, &absent, true);
    // D8: a mark with a smaller stamp is no evidence that none with a greater one was collected.
    check(&operation(5, accept, vec![add("b", "1")]), &register, true);
    // One such element, and all of it is forgotten.
    let both = operation(5, accept, vec![add("a", "1"), add("a", "2")]);
    check(&both, &register, true);
}

#[test]
fn a_collection_that_revives_nothing_passes() {
    let accept = EntryId::new(1, 9);
    let (register, absent) = (register(), Register::default());
    check(&operation(5, accept, vec![add("a", "1")]), &register, false);
    // Covered: it is dropped for that, not forgotten.
    check(&operation(1, accept, vec![add("b", "1")]), &register, false);
    let clears = vec![
        ElementOp::ClearAll,
        ElementOp::Remove {
            group: Bytes::from_static(b"a"),
            value: Bytes::from_static(b"2"),
        },
    ];
    check(&operation(5, accept, clears), &absent, false);
}

#[test]
fn a_member_that_saw_the_safe_point_passes_and_ids_are_compared() {
    let absent = Register::default();
    let ops = || vec![add("a", "2")];
    check(&operation(5, FLOOR, ops()), &absent, false);
    check(&operation(5, EntryId::new(2, 51), ops()), &absent, false);
    // TRACE-7: entry 60 of epoch 1 is not above entry 50 of epoch 2.
    check(&operation(5, EntryId::new(1, 60), ops()), &absent, true);
    let mut above = operation(5, EntryId::new(1, 60), ops());
    above.stamp.base = EntryId::new(2, 51);
    check(&above, &absent, false);
}

#[test]
fn a_dropped_tombstone_is_counted_by_its_visible_state() {
    let accept = EntryId::new(1, 9);
    let lost = operation(5, accept, vec![add("a", "2")]);
    let covered = operation(1, accept, vec![add("b", "1")]);
    let applied = operation(2, accept, vec![add("a", "1")]);
    let mut state = BTreeMap::from([(Bytes::from_static(b"k"), register().encode())]);
    let count = |operation: &Operation, state: &BTreeMap<Bytes, Bytes>| {
        let counted = status(operation, state).unwrap();
        (counted.settled, counted.covered, counted.unknown)
    };
    assert_eq!(count(&lost, &state), (0, 0, 1));
    assert_eq!(count(&covered, &state), (0, 1, 0));
    assert_eq!(count(&applied, &state), (0, 1, 0), "a greater stamp has it");
    state.insert(keys::result_key(lost.name), Bytes::from_static(b"r"));
    assert_eq!(count(&lost, &state), (1, 0, 0));
    assert_eq!(count(&covered, &state), (1, 0, 0), "it has the same name");
}

#[cfg(feature = "mutants")]
#[test]
fn without_a_guard_something_passes() {
    let old = EntryId::new(1, 9);
    let cases = [
        (Guard::RejoinFilter, old, add("a", "2")),
        (Guard::FilterPerElement, old, add("b", "1")),
        (Guard::CollectByVersion, EntryId::new(1, 60), add("a", "2")),
    ];
    for (guard, accept, op) in cases {
        let operation = operation(5, accept, vec![op]);
        assert!(is_forgotten(
            &operation,
            &register(),
            FLOOR,
            &Guards::default()
        ));
        let without = Guards::without([guard]);
        assert!(
            !is_forgotten(&operation, &register(), FLOOR, &without),
            "{guard:?}"
        );
    }
}

/// A row of a mark in each of so many entries, of registers whose keys are so long.
fn state(count: u64, bytes: usize) -> BTreeMap<Bytes, Bytes> {
    let row = |index| {
        let entry = EntryId::new(1, index);
        let register = format!("{index:0bytes$}");
        let mut stamp = Vec::new();
        Stamp::strong(entry).encode(&mut stamp);
        (keys::row_key(entry, register.as_bytes()), stamp.into())
    };
    (0..count).map(row).collect()
}

/// The entries whose rows each entry of collection takes, where the state keeps them all.
fn walk(state: &BTreeMap<Bytes, Bytes>, times: usize) -> Vec<Vec<u64>> {
    let mut from = Bytes::new();
    let taken = (0..times).map(|_| {
        let (changes, next) = rows(state, &from, FLOOR, &Guards::default()).unwrap();
        from = next;
        let entry = |change| match change {
            Change::Collect { entry, .. } => entry.index,
            other => panic!("{other:?}"),
        };
        changes.into_iter().map(entry).collect()
    });
    taken.collect()
}

#[test]
fn a_row_that_was_collected_is_not_looked_at_again() {
    let taken = walk(&state(300, 1), 2);
    assert_eq!(taken[0], (0..256).collect::<Vec<_>>());
    // The last one is where the walk goes on: it is gone by then.
    assert_eq!(taken[1], (255..300).collect::<Vec<_>>());
}

#[test]
fn the_bytes_that_an_entry_takes_are_bounded() {
    let taken = walk(&state(100, 1_000), 1);
    assert_eq!(taken[0], (0..64).collect::<Vec<_>>());
}

#[test]
fn an_entry_takes_many_rows_of_one_register() {
    let key = Bytes::from_static(b"k");
    let add = |value: u64| {
        let (group, value) = (Bytes::from_static(b"a"), value.to_string().into());
        vec![
            ElementOp::Clear {
                group: group.clone(),
            },
            ElementOp::Add { group, value },
        ]
    };
    let stamp = |index| Stamp {
        clock: index,
        ..Stamp::strong(EntryId::new(1, index - 1))
    };
    let mut state = BTreeMap::new();
    let mut take = |entry: Entry| {
        let mutations = compute(&entry, &state, &mut DedupCursor::default()).unwrap();
        for Mutation { key, value } in mutations {
            match value {
                Some(value) => drop(state.insert(key, value)),
                None => drop(state.remove(&key)),
            }
        }
        state.clone()
    };
    let entry = |index, stamp, changes| Entry {
        id: EntryId::new(1, index),
        prev: EntryId::new(1, index - 1),
        safe_point: EntryId::ZERO,
        stamp,
        request: None,
        result: Bytes::new(),
        changes,
    };
    let merge = |index| Change::Merge {
        key: key.clone(),
        ops: add(index),
        marks: TombstonePolicy::Kept,
    };
    for index in 1..=9 {
        take(entry(index, stamp(index), vec![merge(index)]));
    }
    // Only a removal's mark is left in it: the row of it takes the register too.
    let clear = Change::Merge {
        key: key.clone(),
        ops: vec![ElementOp::ClearAll],
        marks: TombstonePolicy::Kept,
    };
    let written = take(entry(10, stamp(10), vec![clear]));
    assert_eq!(
        written.len(),
        1 + 10,
        "the register, and a row of each entry"
    );
    let safe_point = EntryId::new(1, 10);
    let (changes, _) = rows(&written, &Bytes::new(), safe_point, &Guards::default()).unwrap();
    assert_eq!(changes.len(), 10);
    let id = EntryId::new(1, 11);
    let collects = Entry {
        safe_point,
        ..entry(11, Stamp::strong(id), changes)
    };
    assert_eq!(take(collects), BTreeMap::new());
}
