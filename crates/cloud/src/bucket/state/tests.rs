//! Tests of what a write of a state says.

use std::time::Duration;

use super::{Act, Answer, Operation, Plan, Seen, State, has_claimed, plan};
use crate::bucket::guard::Guards;
use crate::bucket::names::Holding;
use crate::bucket::time::{Hidden, Landed, Moment};

const S: Duration = Duration::from_secs(1);

fn at(store: u32) -> Moment {
    Moment {
        now: S * store,
        wall: Duration::ZERO,
        store: S * store,
    }
}

fn claim(id: u128, max: usize) -> Operation {
    Operation::Claim {
        id,
        max,
        visibility: S * 30,
    }
}

fn remove(index: usize, id: u128) -> Operation {
    Operation::Remove {
        index,
        holding: Holding::Claim(id),
    }
}

fn hide(index: usize, claim: u128, seconds: u32) -> Operation {
    Operation::Hide {
        index,
        claim,
        time: S * seconds,
    }
}

fn decide(seen: &Seen, operations: &[Operation], store: u32) -> Plan {
    plan(seen, operations, &at(store), false, &Guards::default())
}

/// The state after these operations, as a list shows it at a time of the store.
fn after(seen: &Seen, operations: &[Operation], store: u32) -> Seen {
    let Act::Write(state) = decide(seen, operations, store).act else {
        panic!("nothing is written");
    };
    Seen {
        state,
        landed: Landed::Modified(S * store),
        exists: true,
    }
}

fn indices(answer: &Answer) -> Vec<usize> {
    match answer {
        Answer::OnWrite(claimed) => claimed.iter().map(|(index, _)| *index).collect(),
        _ => Vec::new(),
    }
}

#[test]
fn claims_of_one_write_share_the_messages() {
    let Plan { answers, act } = decide(
        &Seen::absent(5),
        &[claim(1, 2), claim(2, 2), claim(3, 2), claim(4, 2)],
        100,
    );
    let claimed: Vec<Vec<usize>> = answers.iter().map(indices).collect();
    assert_eq!(claimed, [vec![0, 1], vec![2, 3], vec![4], vec![]]);
    assert!(matches!(answers[3], Answer::Nothing));
    let Act::Write(state) = act else { panic!() };
    let claims: Vec<u128> = state.entries.iter().map(|entry| entry.claim).collect();
    assert_eq!(claims, [1, 1, 2, 2, 3]);
}

#[test]
fn a_claimed_message_comes_again_when_its_time_is_over() {
    let seen = after(&Seen::absent(1), &[claim(1, 1)], 100);
    assert_eq!(decide(&seen, &[claim(2, 1)], 130).act, Act::Nothing);
    let Plan { answers, .. } = decide(&seen, &[claim(2, 1)], 131);
    assert!(matches!(&answers[0], Answer::OnWrite(claimed) if claimed == &[(0, 2)]));
}

/// It shows STATE-3.
#[test]
fn only_the_newest_claim_removes_and_hides() {
    let seen = after(&Seen::absent(2), &[claim(1, 2)], 100);
    let seen = after(&seen, &[claim(2, 1)], 200);
    let Plan { answers, act } = decide(&seen, &[remove(0, 1), hide(0, 1, 0)], 201);
    assert!(
        answers
            .iter()
            .all(|answer| matches!(answer, Answer::Refused(_)))
    );
    assert_eq!(act, Act::Nothing);
    let Plan { answers, .. } = decide(&seen, &[remove(0, 2)], 201);
    assert!(matches!(answers[0], Answer::OnWrite(_)));
}

#[test]
fn the_last_remove_writes_no_state() {
    let seen = after(&Seen::absent(2), &[claim(1, 2)], 100);
    assert_eq!(
        decide(&seen, &[remove(0, 1), remove(1, 1)], 101).act,
        Act::Delete
    );
    let seen = after(&seen, &[remove(0, 1)], 101);
    assert_eq!(decide(&seen, &[remove(1, 1)], 102).act, Act::Delete);
    // Nothing can be claimed of it any more.
    let Plan { answers, act } = decide(&seen, &[remove(1, 1), claim(2, 1)], 500);
    assert!(matches!(answers[1], Answer::Nothing) && act == Act::Delete);
}

#[test]
fn a_repeated_removal_succeeds() {
    let seen = after(&Seen::absent(2), &[claim(1, 2)], 100);
    let seen = after(&seen, &[remove(0, 1)], 101);
    let Plan { answers, act } = decide(&seen, &[remove(0, 1), remove(0, 77)], 102);
    assert!(answers.iter().all(|answer| matches!(answer, Answer::Done)));
    assert_eq!(act, Act::Nothing);
    // A state that is gone went after its segment.
    let Plan { answers, .. } = decide(&Seen::absent(2), &[remove(1, 1)], 103);
    assert!(matches!(answers[0], Answer::Done));
}

#[test]
fn a_peek_removes_without_a_claim() {
    let peeked = |had_state| Operation::Remove {
        index: 0,
        holding: Holding::Peek { had_state },
    };
    let Plan { act, .. } = decide(&Seen::absent(2), &[peeked(false)], 100);
    assert!(matches!(act, Act::Write(state) if state.entries[0].is_removed));
    let Plan { answers, act } = decide(&Seen::absent(2), &[peeked(true)], 100);
    assert!(matches!(answers[0], Answer::Done) && act == Act::Nothing);
    let seen = after(&Seen::absent(2), &[claim(1, 2)], 100);
    let Plan { answers, .. } = decide(&seen, &[peeked(true)], 101);
    assert!(matches!(answers[0], Answer::OnWrite(_)));
}

#[test]
fn a_message_that_is_given_back_can_be_claimed_by_the_same_write() {
    let seen = after(&Seen::absent(1), &[claim(1, 1)], 100);
    let Plan { answers, act } = decide(&seen, &[claim(2, 1), hide(0, 1, 0)], 101);
    assert_eq!(indices(&answers[0]), [0]);
    let Act::Write(state) = act else { panic!() };
    assert!(has_claimed(&state, 2, &[(0, 2)], &Guards::default()));
    assert!(!has_claimed(&state, 1, &[(0, 2)], &Guards::default()));
}

#[test]
fn a_message_is_hidden_longer_from_now_on() {
    let seen = after(&Seen::absent(2), &[claim(1, 2)], 100);
    let seen = after(&seen, &[hide(0, 1, 60)], 120);
    assert_eq!(seen.state.entries[0].hidden, Hidden::For(S * 60));
    // The other one keeps its end, as a time of the store.
    assert_eq!(seen.state.entries[1].hidden, Hidden::Until(S * 131));
    let Plan { answers, .. } = decide(&seen, &[hide(1, 1, 60)], 131);
    assert!(matches!(answers[0], Answer::Refused(_)));
}

/// It shows STATE-1.
#[test]
fn removed_messages_stay_removed() {
    let mut seen = after(&Seen::absent(3), &[claim(1, 3)], 100);
    seen = after(&seen, &[remove(1, 1)], 101);
    for round in 0..5 {
        let store = 200 + round * 100;
        seen = after(&seen, &[claim(u128::from(round) + 2, 3)], store);
        assert!(seen.state.entries[1].is_removed);
        let claimed = seen.state.entries.iter().filter(|entry| !entry.is_removed);
        assert_eq!(claimed.count(), 2);
    }
    assert_eq!(State::new(3).entries.len(), 3);
}
