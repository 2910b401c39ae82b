//! Records that wait for their bytes: a script per rule, and random scripts against a plain model.

use std::collections::BTreeSet;

use fader_chain::EntryId;
use proptest::prelude::*;

use super::{Gate, Standpoint};

fn ids(numbers: &[u128]) -> Vec<u128> {
    numbers.to_vec()
}

const NONE: fn(u128) -> bool = |_| false;

#[test]
fn a_record_waits_for_its_bytes_and_those_behind_it_wait_with_it() {
    let mut gate = Gate::default();
    assert_eq!(gate.take("plain", [], NONE), []);
    assert_eq!(gate.take("rows", ids(&[1, 2]), NONE), ids(&[1, 2]));
    assert_eq!(gate.take("behind", [], NONE), []);
    assert_eq!(gate.ready(), ["plain"]);
    gate.on_held(2);
    assert!(gate.ready().is_empty());
    assert_eq!(gate.missing().collect::<Vec<_>>(), ids(&[1]));
    gate.on_held(1);
    assert_eq!(gate.ready(), ["rows", "behind"]);
    assert!(gate.is_empty());
}

#[test]
fn bytes_that_came_first_make_nothing_wait() {
    let mut gate = Gate::default();
    assert_eq!(gate.take(1, ids(&[1]), |id| id == 1), []);
    assert_eq!(gate.ready(), [1]);
}

#[test]
fn a_block_is_asked_for_once() {
    let mut gate = Gate::default();
    assert_eq!(gate.take(1, ids(&[7, 7]), NONE), ids(&[7]));
    assert_eq!(gate.take(2, ids(&[7, 8]), NONE), ids(&[8]));
    gate.on_held(7);
    assert_eq!(gate.ready(), [1]);
    gate.on_held(8);
    assert_eq!(gate.ready(), [2]);
}

/// It shows HO-1.
#[test]
fn bytes_of_a_record_that_waits_for_others_are_not_dropped() {
    let mut gate = Gate::default();
    gate.take("first", ids(&[1]), NONE);
    gate.take("second", ids(&[2]), |id| id == 2);
    assert!(gate.pins(1) && gate.pins(2));
    gate.on_held(1);
    assert!(gate.pins(1), "until it is in the log");
    assert_eq!(gate.ready(), ["first", "second"]);
    assert!(!gate.pins(1) && !gate.pins(2));
}

#[test]
fn reclaimed_blocks_are_not_waited_for() {
    let mut gate = Gate::default();
    gate.take("put", ids(&[1]), NONE);
    gate.take("removal", [], NONE);
    gate.on_gone(1);
    assert_eq!(gate.ready(), ["put", "removal"]);
}

/// It shows BGATE-2.
#[test]
fn a_new_epoch_forgets_what_waits() {
    let mut gate = Gate::default();
    gate.take("put", ids(&[1]), NONE);
    gate.take("behind", [], NONE);
    assert_eq!(gate.forget(), ["put", "behind"]);
    assert_eq!(gate.missing().count(), 0);
    // The record comes again in the new epoch, and its block is asked for again.
    assert_eq!(gate.take("put", ids(&[1]), NONE), ids(&[1]));
    assert!(gate.ready().is_empty());
}

/// It shows MB-2, HO-1, MB-1 and TE-1.
#[test]
fn bytes_are_reclaimed_at_the_floor_and_damage_is_judged_there() {
    let at = |index| EntryId::new(1, index);
    let here = Standpoint {
        state: at(9),
        safe_point: at(5),
        oldest_snapshot: None,
    };
    assert!(here.may_reclaim(at(5)) && !here.may_reclaim(at(6)));
    let filling = Standpoint {
        oldest_snapshot: Some(at(4)),
        ..here
    };
    assert!(filling.may_reclaim(at(4)) && !filling.may_reclaim(at(5)));
    // An engine that a crash set back.
    let behind = Standpoint {
        state: at(4),
        ..here
    };
    assert!(!behind.may_reclaim(at(5)));
    assert!(here.shows_damage() && !behind.shows_damage());
    assert!(Standpoint::may_drop(true, false, false));
    assert!(!Standpoint::may_drop(false, false, false));
    assert!(!Standpoint::may_drop(true, true, false));
    assert!(!Standpoint::may_drop(true, false, true));
}

#[derive(Clone, Debug)]
enum Step {
    Take(Vec<u128>),
    Held(u128),
    Gone(u128),
    Epoch,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => proptest::collection::vec(0..6_u128, 0..3).prop_map(Step::Take),
        4 => (0..6_u128).prop_map(Step::Held),
        1 => (0..6_u128).prop_map(Step::Gone),
        1 => Just(Step::Epoch),
    ];
    proptest::collection::vec(step, 0..60)
}

proptest! {
    /// No record is ready before its bytes, none out of order, and none waits without a reason.
    /// It shows BGATE-1.
    #[test]
    fn records_are_ready_with_their_bytes(steps in steps()) {
        let mut gate = Gate::default();
        let mut there: BTreeSet<u128> = BTreeSet::new();
        let mut waiting: Vec<(usize, Vec<u128>)> = Vec::new();
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Take(rows) => {
                    let rows = ids(&rows);
                    gate.take(number, rows.clone(), |id| there.contains(&id));
                    waiting.push((number, rows));
                }
                Step::Held(id) => {
                    there.insert(id);
                    gate.on_held(id);
                }
                Step::Gone(id) => {
                    there.insert(id);
                    gate.on_gone(id);
                }
                Step::Epoch => {
                    let forgotten: Vec<usize> = waiting.drain(..).map(|(it, _)| it).collect();
                    prop_assert_eq!(gate.forget(), forgotten);
                }
            }
            let is_there = |(_, rows): &&(usize, Vec<u128>)| {
                rows.iter().all(|id| there.contains(id))
            };
            let count = waiting.iter().take_while(is_there).count();
            let ready: Vec<usize> = waiting.drain(..count).map(|(it, _)| it).collect();
            prop_assert_eq!(gate.ready(), ready);
            prop_assert_eq!(gate.is_empty(), waiting.is_empty());
            for id in 0..6 {
                let pinned = waiting.iter().any(|(_, rows)| rows.contains(&id));
                prop_assert_eq!(gate.pins(id), pinned);
            }
        }
    }
}
