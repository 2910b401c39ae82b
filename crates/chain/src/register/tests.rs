//! What merging means, that its order does not matter, and the bytes of a register.

use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;
use crate::stamp::EntryId;

mod lattice;

fn stamp(index: u64) -> Stamp {
    Stamp::strong(EntryId::new(1, index))
}

fn add(group: &str, value: &str) -> ElementOp {
    ElementOp::Add {
        group: group.to_owned().into(),
        value: value.to_owned().into(),
    }
}

fn remove(group: &str, value: &str) -> ElementOp {
    ElementOp::Remove {
        group: group.to_owned().into(),
        value: value.to_owned().into(),
    }
}

fn clear(group: &str) -> ElementOp {
    ElementOp::Clear {
        group: group.to_owned().into(),
    }
}

fn merged<'a>(writes: impl IntoIterator<Item = &'a (Stamp, Vec<ElementOp>)>) -> Register {
    let mut register = Register::default();
    for (stamp, ops) in writes {
        register.merge(ops, *stamp);
    }
    register
}

fn shown(register: &Register) -> String {
    let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
    let pairs = register
        .pairs()
        .map(|(name, value)| format!("{}={}", text(name), text(value)));
    pairs.collect::<Vec<_>>().join(" ")
}

/// Merges writes, given with their stamps' indices, in this order.
#[track_caller]
fn check(writes: &[(u64, &[ElementOp])], expected: &str) {
    let writes: Vec<_> = writes
        .iter()
        .map(|(at, ops)| (stamp(*at), ops.to_vec()))
        .collect();
    assert_eq!(shown(&merged(&writes)), expected);
}

/// It shows REGISTER-1.
#[test]
fn groups_in_order_of_birth_and_values_in_byte_order() {
    check(
        &[(1, &[add("z", "9"), add("a", "1"), add("z", "10")])],
        "z=10 z=9 a=1",
    );
    check(
        &[(1, &[add("b", "1")]), (2, &[add("a", "1"), add("b", "0")])],
        "b=0 b=1 a=1",
    );
    check(&[(2, &[add("a", "1")]), (1, &[add("b", "1")])], "b=1 a=1");
}

#[test]
fn newer_wins_in_any_order() {
    check(&[(1, &[add("a", "1")]), (2, &[remove("a", "1")])], "");
    check(&[(2, &[remove("a", "1")]), (1, &[add("a", "1")])], "");
    check(&[(1, &[remove("a", "1")]), (2, &[add("a", "1")])], "a=1");
    check(&[(2, &[add("a", "1")]), (1, &[remove("a", "1")])], "a=1");
}

#[test]
fn clears_spare_what_is_newer_and_what_is_of_the_same_write() {
    check(
        &[(1, &[add("a", "1")]), (2, &[clear("a"), add("a", "2")])],
        "a=2",
    );
    check(
        &[(2, &[clear("a"), add("a", "2")]), (1, &[add("a", "1")])],
        "a=2",
    );
    check(
        &[(3, &[add("a", "3")]), (2, &[clear("a"), add("a", "2")])],
        "a=2 a=3",
    );
    check(
        &[
            (1, &[add("a", "1"), add("b", "1")]),
            (2, &[ElementOp::ClearAll]),
        ],
        "",
    );
    check(
        &[
            (2, &[ElementOp::ClearAll]),
            (1, &[add("a", "1")]),
            (3, &[add("a", "3")]),
        ],
        "a=3",
    );
    check(
        &[(1, &[add("a", "1"), add("b", "1")]), (2, &[clear("b")])],
        "a=1",
    );
}

#[test]
fn replacing_keeps_the_place() {
    let first = (1, &[add("a", "1"), add("b", "1")][..]);
    check(&[first, (2, &[clear("a"), add("a", "2")])], "a=2 b=1");
}

#[test]
fn at_one_stamp_an_add_wins() {
    check(&[(1, &[add("a", "1"), remove("a", "1")])], "a=1");
    check(&[(1, &[remove("a", "1"), add("a", "1")])], "a=1");
    check(&[(1, &[add("a", "1"), clear("a")])], "a=1");
}

#[test]
fn collecting_forgets_tombstones_up_to_the_floor() {
    let mut register = merged(&[
        (stamp(1), vec![add("a", "1"), add("b", "1"), add("c", "1")]),
        (stamp(2), vec![remove("a", "1")]),
        (stamp(3), vec![clear("b")]),
        (stamp(4), vec![ElementOp::ClearAll]),
    ]);
    assert!(register.is_empty());
    register.collect_through(stamp(3));
    assert!(
        !register.is_vacant(),
        "the newest clear is above the safe point"
    );
    register.collect_through(stamp(4));
    assert!(register.is_vacant());
    assert_eq!(register, Register::default());
}

#[test]
fn a_deleted_group_is_born_again_at_the_end() {
    let mut register = merged(&[(stamp(1), vec![add("a", "1"), add("b", "1")])]);
    register.merge(&[clear("a")], stamp(2));
    register.collect_through(stamp(2));
    register.merge(&[add("a", "1")], stamp(3));
    assert_eq!(shown(&register), "b=1 a=1");
}

#[track_caller]
fn check_bytes(register: &Register, expected: &Expect) {
    let bytes = register.encode();
    let lines = bytes
        .chunks(16)
        .map(|line| format!("{}\n", line.escape_ascii()));
    expected.assert_eq(&lines.collect::<String>());
    assert_eq!(Register::decode(register.encode()).unwrap(), *register);
}

#[test]
fn bytes_are_frozen() {
    check_bytes(
        &Register::default(),
        &expect![[r#"
            \x02\x00\x00\x00\x00
        "#]],
    );
    let eventual = Stamp {
        clock: 1_317_975_502_999,
        node: 3,
        counter: 300,
        ..stamp(2)
    };
    let register = merged(&[
        (stamp(1), vec![add("colour", "blue"), add("size", "")]),
        (
            eventual,
            vec![clear("colour"), add("colour", "red"), remove("size", "9")],
        ),
    ]);
    check_bytes(
        &register,
        &expect![[r#"
            \x02\x00\x00\x00\x02\x06colour\x01\x01\x01\x00
            \x02\x01\x02\x97\xe1\xd8\xeb\xad&\x03\xac\x02\x01\x03re
            d\x01\x02\x01\x02\x97\xe1\xd8\xeb\xad&\x03\xac\x02\x04s
            ize\x01\x01\x01\x01\x00\x02\x00\x01\x01\x01\x01\x019
            \x00\x02\x01\x02\x97\xe1\xd8\xeb\xad&\x03\xac\x02
        "#]],
    );
    check_bytes(
        &merged(&[(stamp(7), vec![ElementOp::ClearAll])]),
        &expect![[r#"
            \x02\x00\x00\x01\x01\x07\x00
        "#]],
    );
}

#[test]
fn a_register_of_format_1_has_the_greatest_base_as_its_version() {
    for (bytes, version) in [
        (&b"\x01\x00\x00"[..], EntryId::ZERO),
        (b"\x01\x01\x01\x07\x00", EntryId::new(1, 7)),
        (
            b"\x01\x00\x02\x01a\x01\x01\x01\x00\x01\x01\x05\x01\x01x\x01\x01\x01\x06\
              \x01b\x01\x01\x02\x00\x00\x01\x01y\x01\x02\x01\x09\x63\x03\x00",
            EntryId::new(1, 9),
        ),
    ] {
        let register = Register::decode(Bytes::from_static(bytes)).unwrap();
        assert_eq!(register.version, version);
        let again = Register::decode(register.encode()).unwrap();
        assert_eq!(again, register, "in format 2");
    }
}

#[test]
fn counts_beyond_the_bytes_are_refused() {
    let huge = b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";
    for before in [
        &b"\x01\x00"[..],
        b"\x02\x00\x00\x00",
        b"\x02\x00\x00\x00\x01",
        b"\x02\x00\x00\x00\x01\x01a\x00\x00\x00",
    ] {
        let bytes = [before, huge].concat();
        assert!(Register::decode(bytes.into()).is_err());
    }
}

fn any_stamp() -> impl Strategy<Value = Stamp> {
    (1..4_u64, 0..3_u64, 0..3_u32, 0..3_u32).prop_map(|(index, clock, node, counter)| Stamp {
        base: EntryId::new(1, index),
        clock,
        node,
        counter,
    })
}

fn any_op() -> impl Strategy<Value = ElementOp> {
    let group = || prop::sample::select(vec!["a", "b", "c"]);
    let value = || prop::sample::select(vec!["", "1", "2"]);
    prop_oneof![
        1 => Just(ElementOp::ClearAll),
        2 => group().prop_map(clear),
        6 => (group(), value()).prop_map(|(group, value)| add(group, value)),
        3 => (group(), value()).prop_map(|(group, value)| remove(group, value)),
    ]
}

/// Whole writes, each with a stamp of its own.
fn any_writes() -> impl Strategy<Value = Vec<(Stamp, Vec<ElementOp>)>> {
    let ops = prop::collection::vec(any_op(), 1..5);
    prop::collection::btree_map(any_stamp(), ops, 0..8)
        .prop_map(|writes| writes.into_iter().collect())
}

/// What merging means, without merging: every pair's newest operation decides.
fn expected_pairs(writes: &[(Stamp, Vec<ElementOp>)]) -> Vec<(Bytes, Bytes)> {
    let mut pairs = Vec::new();
    let ops = || {
        writes
            .iter()
            .flat_map(|(stamp, ops)| ops.iter().map(move |op| (*stamp, op)))
    };
    for (added, op) in ops() {
        let ElementOp::Add { group, value } = op else {
            continue;
        };
        let is_gone = ops().any(|(gone, op)| match op {
            ElementOp::ClearAll => added < gone,
            ElementOp::Clear { group: cleared } => cleared == group && added < gone,
            ElementOp::Remove {
                group: of,
                value: removed,
            } => of == group && removed == value && added < gone,
            ElementOp::Add { .. } => false,
        });
        if !is_gone {
            pairs.push((group.clone(), value.clone()));
        }
    }
    pairs.sort();
    pairs.dedup();
    pairs
}

fn check_invariants(register: &Register) {
    let places: Vec<_> = register
        .groups
        .iter()
        .map(|group| (group.born, group.order))
        .collect();
    assert!(
        places.is_sorted_by(|one, other| one < other),
        "REGISTER-1: the places of groups"
    );
    for group in &register.groups {
        let same = register
            .groups
            .iter()
            .filter(|other| other.name == group.name);
        assert_eq!(same.count(), 1, "REGISTER-1: names");
        assert!(
            group
                .members
                .is_sorted_by(|one, other| one.value < other.value),
            "REGISTER-1: members"
        );
        assert!(register.cleared <= group.cleared, "REGISTER-2: clears");
        let mut members = group.members.iter();
        assert!(
            members.all(|member| group.cleared <= member.written),
            "REGISTER-2: members"
        );
    }
}

proptest! {
    /// It shows REGISTER-3.
    #[test]
    fn merging_in_any_order_and_again_is_the_same(
        (writes, shuffled) in any_writes().prop_flat_map(|writes| {
            let twice = writes.iter().chain(&writes).cloned().collect::<Vec<_>>();
            (Just(writes), Just(twice).prop_shuffle())
        }),
    ) {
        let register = merged(&writes);
        prop_assert_eq!(&merged(&shuffled), &register);
        check_invariants(&register);
        let mut found: Vec<_> = register
            .pairs()
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        found.sort();
        prop_assert_eq!(found, expected_pairs(&writes));
    }

    /// In stamp order, dropping tombstones at once changes nothing that is shown but the place of a
    /// group that was deleted and put again.
    #[test]
    fn in_stamp_order_no_tombstone_is_needed(writes in any_writes()) {
        let mut collected = Register::default();
        for (stamp, ops) in &writes {
            collected.merge(ops, *stamp);
            collected.collect_through(*stamp);
            prop_assert!(collected.groups.iter().flat_map(|group| &group.members).all(|m| m.live));
            prop_assert_eq!(collected.is_vacant(), collected.is_empty());
            check_invariants(&collected);
        }
        let mut found: Vec<_> = collected.pairs().collect();
        found.sort();
        let kept = merged(&writes);
        let mut expected: Vec<_> = kept.pairs().collect();
        expected.sort();
        prop_assert_eq!(found, expected);
    }

    /// The stamp that a decision merges with shows what any newer stamp comes to.
    #[test]
    fn the_greatest_stamp_foretells(
        writes in any_writes(),
        ops in prop::collection::vec(any_op(), 1..5),
    ) {
        let (mut foretold, mut real) = (merged(&writes), merged(&writes));
        foretold.merge(&ops, Stamp::MAX);
        real.merge(&ops, stamp(9));
        prop_assert_eq!(shown(&foretold), shown(&real));
    }

    #[test]
    fn registers_round_trip(writes in any_writes()) {
        let register = merged(&writes);
        prop_assert_eq!(Register::decode(register.encode()).unwrap(), register);
    }

    #[test]
    fn damaged_registers_never_panic(
        writes in any_writes(),
        at in any::<prop::sample::Index>(),
        bits in 1..=255_u8,
    ) {
        let bytes = merged(&writes).encode();
        prop_assert!(Register::decode(bytes.slice(..at.index(bytes.len()))).is_err());
        let mut flipped = bytes.to_vec();
        flipped[at.index(bytes.len())] ^= bits;
        if let Ok(mut register) = Register::decode(flipped.into()) {
            register.merge(&[ElementOp::ClearAll, add("a", "1"), remove("b", "1")], stamp(5));
            let ops = [clear("a"), add("a", "1")];
            prop_assert!(register.survivors(&ops, stamp(6)).len() <= 2);
            let other = register.clone();
            register.collect_strong(EntryId::new(1, 2));
            register.join(&other);
            register.collect_through(stamp(5));
        }
    }

    #[test]
    fn garbage_never_panics(format in 0..4_u8, garbage in any::<Vec<u8>>()) {
        let bytes = [&[format], garbage.as_slice()].concat();
        let _ = Register::decode(bytes.into());
    }
}
