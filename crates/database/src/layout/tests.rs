//! Layouts as text and as JSON, and which queue a record goes to.

use bytes::Bytes;
use fader_blink::{Payload, Stamp};

use super::*;
use crate::catalogue::CollectionSettings;

#[test]
fn a_layout_is_a_number_or_a_name() {
    for (text, json, queues) in [
        ("1", "1", PendingQueues::PerCollection(1)),
        ("256", "256", PendingQueues::PerCollection(256)),
        ("per-leaf", "\"per-leaf\"", PendingQueues::PerLeaf),
    ] {
        assert_eq!(text.parse(), Ok(queues));
        assert_eq!(queues.to_string(), text);
        let written = serde_json::to_string(&queues).expect("numbers and text");
        assert_eq!(written, json);
        let read: PendingQueues = serde_json::from_str(json).expect("its own bytes");
        assert_eq!(read, queues);
    }
    for bad in ["0", "257", "-1", "per-page", ""] {
        assert!(bad.parse::<PendingQueues>().is_err(), "{bad:?}");
    }
    for bad in ["0", "257", "\"per-page\"", "\"\"", "null"] {
        assert!(serde_json::from_str::<PendingQueues>(bad).is_err(), "{bad}");
    }
}

#[test]
fn names_come_from_the_tree_and_the_page() {
    let (tree, page) = (CollectionId(5), PageId(9));
    let name = |place: Place| place.name("00000000000000db", tree);
    assert_eq!(
        name(Place::Number(3)),
        "00000000000000db-0000000000000005-3"
    );
    let leaf = name(Place::Leaf(page));
    let rest = leaf.strip_prefix(&Place::prefix("00000000000000db", tree));
    assert_eq!(rest.and_then(Place::leaf_of), Some(page));
    // A name of a queue has up to 80 characters, with the prefix of a service.
    assert!(leaf.len() < 70, "{leaf}");
    for other in ["3", "proposals", "0123456789abcdef"] {
        assert_eq!(Place::leaf_of(other), None);
    }
}

#[test]
fn only_updates_go_to_the_queue_of_a_leaf() {
    let collection = |queues, is_curated| {
        let settings = CollectionSettings {
            queues,
            is_curated,
            ..CollectionSettings::default()
        };
        let ids = || (CollectionId(5), PageId(9));
        Collection::new(&settings, None, ids).expect("valid settings")
    };
    let value = || Payload::Inline(Bytes::from_static(b"1"));
    let record = |op| Record {
        key: Bytes::from_static(b"k"),
        stamp: Stamp::ZERO,
        op,
    };
    let leaf = Some(PageId(7));
    let per_leaf = collection(PendingQueues::PerLeaf, false);
    let update = record(Op::Update(value()));
    assert_eq!(Place::of(&per_leaf, &update, leaf), Place::Leaf(PageId(7)));
    assert_eq!(Place::of(&per_leaf, &update, None), Place::Number(0));
    for op in [Op::Insert(value()), Op::Delete] {
        assert_eq!(Place::of(&per_leaf, &record(op), leaf), Place::Number(0));
    }
    let hashed = collection(PendingQueues::PerCollection(3), false);
    let place = Place::of(&hashed, &update, leaf);
    assert!(matches!(place, Place::Number(0..3)), "{place:?}");
    let curated = collection(PendingQueues::PerLeaf, true);
    assert_eq!(Place::of(&curated, &update, leaf), Place::Proposals);
    assert_eq!(per_leaf.queues.of_index(), PendingQueues::PerCollection(1));
}
