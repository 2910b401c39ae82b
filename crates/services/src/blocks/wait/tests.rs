//! When the wait of garbage begins, and when it is over.

use super::*;
use crate::blocks::GarbageId;
use crate::{CollectionId, MapView};

fn at(index: u64) -> EntryId {
    EntryId::new(1, index)
}

fn garbage(id: u128) -> GarbageAt {
    GarbageAt {
        collection: CollectionId(1),
        id: GarbageId::Attempt(id),
    }
}

fn known(newest: u64, safe_point: u64) -> Known {
    Known {
        newest: at(newest),
        safe_point: at(safe_point),
    }
}

/// It shows GWAIT-1.
#[test]
fn the_wait_begins_when_the_safe_point_has_passed_the_entry() {
    let (mut seen, mut waits) = (Seen::default(), Waits::default());
    let state = MapView::default();
    seen.note(at(5), garbage(1));
    seen.note(at(7), garbage(2));
    for (now, safe_point, waiting) in [(10, 4, 0), (20, 6, 1), (30, 7, 2)] {
        let taken = seen.take(at(safe_point));
        let looked = waits.look(now, known(9, safe_point), taken, &state);
        looked.expect("a view in memory can be read");
        assert_eq!(waits.len(), waiting);
    }
    assert_eq!(waits.over(24, 5, 9), []);
    assert_eq!(waits.over(25, 5, 9), [garbage(1)]);
    assert_eq!(waits.over(35, 5, 9), [garbage(1), garbage(2)]);
    assert_eq!(waits.over(35, 5, 1), [garbage(1)]);
    waits.forget(&[garbage(1)]);
    assert_eq!(waits.over(35, 5, 9), [garbage(2)]);
    waits.forget(&[garbage(2)]);
    assert!(waits.is_empty());
}

#[test]
fn what_was_found_in_a_state_waits_for_what_was_committed_by_then() {
    let mut found = Found::new(vec![1]);
    // The state was read before: it is not behind what is committed now.
    assert!(!found.is_passed(known(8, 9)));
    assert!(!found.is_passed(known(20, 7)));
    assert!(found.is_passed(known(20, 8)));
    assert_eq!(found.into_found(), [1]);
}
