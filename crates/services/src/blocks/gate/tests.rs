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
    gate.take("plain", [], NONE);
    gate.take("rows", ids(&[1, 2]), NONE);
    gate.take("behind", [], NONE);
    assert_eq!(gate.ready(NONE), ["plain"]);
    assert!(gate.ready(|id| id == 2).is_empty());
    assert_eq!(gate.missing().collect::<Vec<_>>(), ids(&[1]));
    assert_eq!(gate.ready(|id| id == 1), ["rows", "behind"]);
    assert!(gate.is_empty());
}

#[test]
fn bytes_that_came_first_make_nothing_wait() {
    let mut gate = Gate::default();
    gate.take(1, ids(&[1]), |id| id == 1);
    assert_eq!(gate.ready(NONE), [1]);
}

#[test]
fn a_block_is_waited_for_once() {
    let mut gate = Gate::default();
    gate.take(1, ids(&[7, 7]), NONE);
    gate.take(2, ids(&[7, 8]), NONE);
    assert_eq!(gate.missing().collect::<Vec<_>>(), ids(&[7, 8]));
    assert_eq!(gate.ready(|id| id == 7), [1]);
    assert_eq!(gate.ready(|id| id == 8), [2]);
}

/// It shows BGATE-2.
#[test]
fn a_new_epoch_forgets_what_waits() {
    let mut gate = Gate::default();
    gate.take("put", ids(&[1]), NONE);
    gate.take("behind", [], NONE);
    assert_eq!(gate.forget(), ["put", "behind"]);
    assert_eq!(gate.missing().count(), 0);
    // The record comes again in the new epoch, and its block is waited for again.
    gate.take("put", ids(&[1]), NONE);
    assert_eq!(gate.missing().collect::<Vec<_>>(), ids(&[1]));
    assert!(gate.ready(NONE).is_empty());
}

/// It shows MB-2.
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
}

#[derive(Clone, Debug)]
enum Step {
    Take(Vec<u128>),
    There(u128),
    Epoch,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => proptest::collection::vec(0..6_u128, 0..3).prop_map(Step::Take),
        4 => (0..6_u128).prop_map(Step::There),
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
                    gate.take(number, ids(&rows), |id| there.contains(&id));
                    waiting.push((number, rows));
                }
                Step::There(id) => {
                    there.insert(id);
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
            prop_assert_eq!(gate.ready(|id| there.contains(&id)), ready);
            prop_assert_eq!(gate.is_empty(), waiting.is_empty());
        }
    }
}
