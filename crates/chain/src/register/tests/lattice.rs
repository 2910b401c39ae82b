//! Registers as a lattice: joining, what survives a state, what a state covers.

use std::collections::BTreeMap;

use super::*;

/// What a register says, without the order of its groups and without groups of which nothing is
/// left but their place in it.
fn elements(register: &Register) -> (Stamp, BTreeMap<Bytes, (Stamp, Vec<Element>)>) {
    let says_something =
        |group: &&ElementSet| !group.members.is_empty() || register.cleared < group.cleared;
    let groups = register.groups.iter().filter(says_something);
    let groups = groups.map(|group| (group.name.clone(), (group.cleared, group.members.clone())));
    (register.cleared, groups.collect())
}

fn joined(one: &Register, other: &Register) -> Register {
    let mut both = one.clone();
    both.join(other);
    both
}

/// The state that entries 1 to 4 leave: a=1@1 a=2@2, b=1 removed @3, c cleared @4.
fn state() -> Register {
    merged(&[
        (stamp(1), vec![add("a", "1")]),
        (stamp(2), vec![add("a", "2")]),
        (stamp(3), vec![remove("b", "1")]),
        (stamp(4), vec![clear("c")]),
    ])
}

/// Says of each operation, at this stamp on `state`: what survives of it, and whether it revives.
#[track_caller]
fn check_judged(register: &Register, at: u64, op: &ElementOp, survives: bool, revives: bool) {
    let ops = std::slice::from_ref(op);
    let expected = if survives { ops } else { &[] };
    assert_eq!(register.survivors(ops, stamp(at)), expected, "{op:?} @{at}");
    assert_eq!(register.covers(ops, stamp(at)), !survives, "{op:?} @{at}");
    assert_eq!(register.revives(ops, stamp(at)), revives, "{op:?} @{at}");
}

#[test]
fn an_operation_survives_if_it_would_change_an_element() {
    let register = state();
    for (at, op, survives, revives) in [
        (1, add("a", "2"), false, false),
        (2, add("a", "2"), false, false),
        (3, add("a", "2"), true, false),
        (1, add("a", "3"), true, true),
        (2, add("b", "1"), false, false),
        (4, add("b", "1"), true, true),
        (1, add("b", "2"), true, true),
        (3, add("c", "1"), false, false),
        (5, add("c", "1"), true, true),
        (1, remove("a", "2"), false, false),
        (3, remove("a", "2"), true, false),
        (3, remove("b", "1"), false, false),
        (1, remove("d", "1"), true, false),
        (3, remove("c", "1"), false, false),
        (1, clear("a"), true, false),
        (1, clear("d"), true, false),
        (4, clear("c"), false, false),
        (5, clear("c"), true, false),
        (1, ElementOp::ClearAll, true, false),
    ] {
        check_judged(&register, at, &op, survives, revives);
    }
    let mut cleared = state();
    cleared.merge(&[ElementOp::ClearAll], stamp(9));
    for op in [
        add("a", "1"),
        remove("d", "1"),
        clear("a"),
        clear("d"),
        ElementOp::ClearAll,
    ] {
        check_judged(&cleared, 8, &op, false, false);
    }
}

#[test]
fn d3_a_register_covers_by_element_not_by_its_greatest_stamp() {
    let register = merged(&[(stamp(5), vec![add("b", "1")])]);
    assert!(register.newest() > stamp(3));
    assert!(!register.covers(&[add("a", "1")], stamp(3)));
}

#[test]
fn d4_of_two_replaces_the_newer_alone_covers_the_older() {
    let (older, newer) = ([clear("a"), add("a", "p")], [clear("a"), add("a", "q")]);
    let newer = merged(&[(stamp(2), newer.to_vec())]);
    assert!(newer.covers(&older, stamp(1)));
    assert!(
        !Register::default().covers(&older, stamp(1)),
        "while the newer is not committed"
    );
}

/// It shows HOLE-21.
#[test]
fn d8_nothing_short_of_live_now_shows_that_no_mark_was_above() {
    let old = |value| [add("b", value)];
    let mut register = merged(&[(stamp(1), vec![add("a", "1")])]);
    assert!(
        register.revives(&old("x"), stamp(3)),
        "Remove b=x@5 may be collected"
    );

    register.merge(&[clear("b")], stamp(2));
    assert!(
        register.revives(&old("y"), stamp(3)),
        "a smaller mark proves nothing"
    );
    register.merge(&[remove("b", "z")], stamp(2));
    assert!(
        register.revives(&old("z"), stamp(3)),
        "a smaller dead value proves nothing"
    );
    register.merge(&[add("b", "w")], stamp(2));
    assert!(
        !register.revives(&old("w"), stamp(3)),
        "a live one proves that none was"
    );

    let takes_away = [clear("a"), remove("a", "1"), ElementOp::ClearAll];
    assert!(!register.revives(&takes_away, stamp(3)));
    let both = [clear("a"), add("a", "2")];
    assert!(register.revives(&both, stamp(3)), "one addition is enough");
}

#[test]
fn the_newest_stamp_and_the_marks_are_those_of_the_elements() {
    let mut register = state();
    assert_eq!((register.newest(), register.mark_count()), (stamp(4), 2));
    register.merge(&[add("d", "1")], stamp(6));
    assert_eq!((register.newest(), register.mark_count()), (stamp(6), 2));
    register.merge(&[ElementOp::ClearAll], stamp(7));
    assert_eq!(
        (register.newest(), register.mark_count()),
        (stamp(7), 1 + 4)
    );
    register.collect_through(stamp(7));
    assert_eq!((register.newest(), register.mark_count()), (Stamp::ZERO, 0));
}

#[test]
fn where_the_mark_of_a_group_goes_that_of_the_register_still_holds() {
    let eventual = |clock| Stamp { clock, ..stamp(2) };
    for (cleared_all, cleared, safe_point) in
        [(eventual(1), stamp(5), 5), (stamp(2), eventual(9), 1)]
    {
        let mut register = merged(&[
            (stamp(1), vec![add("a", "1")]),
            (cleared_all, vec![ElementOp::ClearAll]),
            (cleared, vec![clear("a")]),
        ]);
        register.collect_strong(EntryId::new(1, safe_point));
        register.collect_of(eventual(9));
        check_invariants(&register);
        assert!(register.covers(&[add("a", "1")], stamp(1)));
        assert!(!register.covers(&[add("a", "1")], stamp(3)));
    }
}

fn any_ops() -> impl Strategy<Value = Vec<ElementOp>> {
    prop::collection::vec(any_op(), 1..5)
}

/// A set of writes in three parts, in any order.
fn any_parts() -> impl Strategy<Value = [Vec<(Stamp, Vec<ElementOp>)>; 3]> {
    let parts = prop::collection::vec(0..3_usize, 8);
    (any_writes().prop_shuffle(), parts).prop_map(|(writes, parts)| {
        let mut split = [const { Vec::new() }; 3];
        for (write, part) in writes.into_iter().zip(parts) {
            split[part].push(write);
        }
        split
    })
}

fn versioned(part: &[(Stamp, Vec<ElementOp>)], index: u64) -> Register {
    let version = EntryId::new(1, index);
    Register {
        version,
        ..merged(part)
    }
}

proptest! {
    /// The laws of a join, and that it equals merging all writes: also in the order of groups, as
    /// long as nothing is collected.
    #[test]
    fn joining_is_merging_both_sets(parts in any_parts(), version in 0..9_u64) {
        let [a, b, c] = [0, 1, 2].map(|at| versioned(&parts[at], version + at as u64));
        let all = joined(&joined(&a, &b), &c);
        prop_assert_eq!(&all, &versioned(&parts.concat(), version + 2));
        prop_assert_eq!(&joined(&a, &b), &joined(&b, &a));
        prop_assert_eq!(&all, &joined(&a, &joined(&b, &c)));
        prop_assert_eq!(&joined(&a, &a), &a);
        prop_assert_eq!(&joined(&all, &b), &all);
        check_invariants(&all);
    }

    /// The same of states of which marks were collected.
    #[test]
    fn joining_collected_registers_is_a_join(
        parts in any_parts(),
        safe_points in prop::array::uniform3(0..4_u64),
    ) {
        let [a, b, c] = [0, 1, 2].map(|at| {
            let mut register = merged(&parts[at]);
            register.collect_strong(EntryId::new(1, safe_points[at]));
            if let Some((stamp, _)) = parts[at].first() {
                register.collect_of(*stamp);
            }
            check_invariants(&register);
            register
        });
        let all = joined(&joined(&a, &b), &c);
        prop_assert_eq!(&joined(&a, &b), &joined(&b, &a));
        prop_assert_eq!(&all, &joined(&a, &joined(&b, &c)));
        prop_assert_eq!(&joined(&a, &a), &a);
        check_invariants(&all);
    }

    /// semantics.md, section 6: for every S' that extends S, S' with X is S' with what survives of
    /// X on S.
    #[test]
    fn a_change_without_effect_on_a_state_has_none_on_its_extensions(
        writes in any_writes(),
        more in any_writes(),
        ops in any_ops(),
        at in any_stamp(),
    ) {
        let state = merged(&writes);
        let survivors = state.survivors(&ops, at);
        let (mut whole, mut filtered) = (merged(writes.iter().chain(&more)), Register::default());
        filtered.join(&whole);
        whole.merge(&ops, at);
        filtered.merge(&survivors, at);
        prop_assert_eq!(elements(&whole), elements(&filtered));
    }

    /// Each survivor changes an element; a state covers exactly what changes none of its own.
    #[test]
    fn every_survivor_is_needed(writes in any_writes(), ops in any_ops(), at in any_stamp()) {
        let state = merged(&writes);
        for op in state.survivors(&ops, at) {
            let mut with = state.clone();
            with.merge(std::slice::from_ref(&op), at);
            prop_assert_ne!(elements(&with), elements(&state), "{:?}", op);
        }
        let mut with = state.clone();
        with.merge(&ops, at);
        prop_assert_eq!(state.covers(&ops, at), elements(&with) == elements(&state));
        prop_assert!(with.covers(&ops, at));
        if state.revives(&ops, at) {
            prop_assert!(with.pairs().any(|new| state.pairs().all(|old| old != new)));
        }
    }

    /// REGISTER-4, and collecting in two steps is collecting in one.
    #[test]
    fn collecting_shows_what_was_shown(
        writes in any_writes(),
        safe_point in 0..4_u64,
        step in 0..4_u64,
        at in any_stamp(),
    ) {
        let whole = merged(&writes);
        let mut collected = whole.clone();
        collected.collect_strong(EntryId::new(1, safe_point));
        let once = collected.clone();
        collected.collect_strong(EntryId::new(1, safe_point.min(step)));
        prop_assert_eq!(&collected, &once);
        let mut in_steps = whole.clone();
        in_steps.collect_strong(EntryId::new(1, safe_point.min(step)));
        in_steps.collect_strong(EntryId::new(1, safe_point));
        prop_assert_eq!(&in_steps, &once);
        collected.collect_of(at);
        prop_assert_eq!(shown(&collected), shown(&whole));
        prop_assert!(!collected.is_marked_by(at));
        prop_assert!(collected.mark_count() <= whole.mark_count());
        check_invariants(&collected);
    }
}
