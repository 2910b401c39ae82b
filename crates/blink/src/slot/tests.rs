//! Two registers equal the operations in the order of their stamps, in any order of arrival.

use super::*;
use crate::tests::{delete, expected, insert, update};

/// All records of up to four stamps on one key, applied in all orders.
#[test]
fn every_order_of_every_four_operations_is_the_order_of_stamps() {
    let mut count = 0;
    for kinds in 0..81 {
        let records: Vec<Record> = (0..4)
            .map(|index| match kinds / 3_usize.pow(index) % 3 {
                0 => insert("k", u64::from(index) + 1, &format!("i{index}")),
                1 => update("k", u64::from(index) + 1, &format!("u{index}")),
                _ => delete("k", u64::from(index) + 1),
            })
            .collect();
        let expected = expected(&records).remove(&b"k"[..]);
        let mut first = None;
        for order in orders(4) {
            let mut slot = Slot::default();
            for index in order {
                slot.merge(&records[index], Stamp::ZERO);
                assert!(slot.as_ref().covers(&records[index], Stamp::ZERO));
            }
            for record in &records {
                assert!(slot.as_ref().covers(record, Stamp::ZERO));
                assert_eq!(slot.merge(record, Stamp::ZERO), Outcome::Superseded);
            }
            let visible = slot.visible().cloned();
            assert_eq!(visible, expected, "{records:?}");
            assert_eq!(
                *first.get_or_insert(slot.clone()),
                slot,
                "one set has one state"
            );
            count += 1;
        }
    }
    assert_eq!(count, 81 * 24);
}

fn orders(count: usize) -> Vec<Vec<usize>> {
    let Some(last) = count.checked_sub(1) else {
        return vec![vec![]];
    };
    let insert_at = |order: &Vec<usize>, at: usize| {
        let mut order = order.clone();
        order.insert(at, last);
        order
    };
    let shorter = orders(last);
    shorter
        .iter()
        .flat_map(|order| (0..count).map(move |at| insert_at(order, at)))
        .collect()
}

#[test]
fn an_update_after_a_delete_does_not_revive() {
    let mut slot = Slot::default();
    for record in [insert("k", 1, "a"), delete("k", 2), update("k", 3, "b")] {
        assert_eq!(slot.merge(&record, Stamp::ZERO), Outcome::Applied);
    }
    assert_eq!(slot.as_ref().visible(), None);
}

/// Insert@3 is delayed; delete@5 is applied and its slot removed; update@7 makes a slot without
/// life. A horizon of the slot alone would let the insert revive the key.
#[test]
fn the_horizon_holds_for_life_also_where_an_update_made_the_slot_again() {
    let horizon = crate::tests::stamp(5);
    let mut slot = Slot::default();
    assert_eq!(
        slot.merge(&update("k", 7, "new"), horizon),
        Outcome::Applied
    );
    assert_eq!(
        slot.merge(&insert("k", 3, "old"), horizon),
        Outcome::Refused
    );
    assert_eq!(slot.as_ref().visible(), None);
    assert_eq!(
        slot.merge(&insert("k", 6, "again"), horizon),
        Outcome::Applied
    );
    assert_eq!(slot.as_ref().visible(), Some(PayloadRef::Inline(b"new")));
}

#[test]
fn equal_stamps_of_a_repeated_incarnation_still_converge() {
    let records = [
        insert("k", 1, "a"),
        insert("k", 1, "b"),
        delete("k", 1),
        update("k", 1, "c"),
        update("k", 2, "d"),
        update("k", 2, "e"),
    ];
    let mut states = Vec::new();
    for order in orders(records.len()) {
        let mut slot = Slot::default();
        for index in order {
            slot.merge(&records[index], Stamp::ZERO);
        }
        states.push(slot);
    }
    assert_eq!(states.len(), 720);
    assert!(states.iter().all(|state| *state == states[0]));
    assert!(
        !states[0].as_ref().is_alive(),
        "of equal stamps the delete wins"
    );
}
