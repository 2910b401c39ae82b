//! The filter of returning members, case by case; and the walk over rows.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::*;
use crate::change::ElementOp;
use crate::entry::RequestId;

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
            client: 1,
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
fn what_brings_nothing_back_passes() {
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
fn who_had_seen_the_floor_passes_and_ids_are_compared() {
    let absent = Register::default();
    let ops = || vec![add("a", "2")];
    check(&operation(5, FLOOR, ops()), &absent, false);
    check(&operation(5, EntryId::new(2, 51), ops()), &absent, false);
    // E7: entry 60 of epoch 1 is not above entry 50 of epoch 2.
    check(&operation(5, EntryId::new(1, 60), ops()), &absent, true);
    let mut above = operation(5, EntryId::new(1, 60), ops());
    above.stamp.base = EntryId::new(2, 51);
    check(&above, &absent, false);
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

/// A row of a mark in each of so many entries, of a register of its own or of the same.
fn state(count: u64, registers: u64) -> BTreeMap<Bytes, Bytes> {
    let row = |index| {
        let entry = EntryId::new(1, index);
        let register = (index % registers).to_string();
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
    let taken = walk(&state(100, 100), 2);
    assert_eq!(taken[0], (0..64).collect::<Vec<_>>());
    // The last one is where the walk goes on: it is gone by then.
    assert_eq!(taken[1], (63..100).collect::<Vec<_>>());
}

#[test]
fn a_row_that_was_left_is_looked_at() {
    let taken = walk(&state(100, 3), 2);
    assert_eq!(taken, [vec![0, 1, 2], vec![3, 4, 5]]);
}
