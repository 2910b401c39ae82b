//! What is laid over a committed view is what unsettled operations change, and goes with them.

use fader_chain::{EntryId, RequestId};

use super::*;
use crate::simpledb::tests::{Service, put};
use crate::{Mode, item_key};

fn add(name: &'static str, value: &'static str) -> ElementOp {
    ElementOp::Add {
        group: Bytes::from_static(name.as_bytes()),
        value: Bytes::from_static(value.as_bytes()),
    }
}

fn clear(name: &'static str) -> ElementOp {
    ElementOp::Clear {
        group: Bytes::from_static(name.as_bytes()),
    }
}

/// A service with the item `one` = {a=1}, and the collection of its domain.
fn filled() -> (Service, CollectionId) {
    let mut service = Service::with_domain();
    service.run(&put("one", &["a=1"])).unwrap();
    let context = service.context(&put("one", &[]));
    let collection = context.collection.unwrap();
    assert_eq!(context.mode, Mode::Strong);
    (service, collection)
}

fn stamp(clock: u64) -> Stamp {
    Stamp {
        clock,
        node: 1,
        ..Stamp::strong(EntryId::new(1, 2))
    }
}

#[track_caller]
fn check_keys(tentative: &Tentative, expected: &[(&Bytes, bool)]) {
    let mutations = tentative.mutations().iter();
    let found: Vec<_> = mutations
        .map(|(key, value)| (key, value.is_some()))
        .collect();
    assert_eq!(found, expected);
}

/// It shows TENT-1 and TENT-2.
#[test]
fn operations_are_shown_together_and_forgotten_together() {
    let (service, collection) = filled();
    let (one, two) = (item_key(collection, b"one"), item_key(collection, b"two"));
    let index = |value: &[u8], item: &[u8]| index_key(collection, b"a", value, item);
    let mut tentative = Tentative::default();
    let replace = [clear("a"), add("a", "2")];
    let adds = [add("a", "3")];
    // The greater stamp first: the order of arrival does not matter.
    let unsettled = [(&adds[..], stamp(2)), (&replace[..], stamp(1))]
        .map(|(ops, stamp)| Unsettled { ops, stamp });
    tentative.show(&service.view, &one, unsettled).unwrap();
    let keys = [
        index(b"1", b"one"),
        index(b"2", b"one"),
        index(b"3", b"one"),
    ];
    let of_one = [
        (&one, true),
        (&keys[0], false),
        (&keys[1], true),
        (&keys[2], true),
    ];
    check_keys(&tentative, &of_one);
    assert_eq!(tentative.items(collection), 0);

    let unsettled = Unsettled {
        ops: &adds,
        stamp: stamp(3),
    };
    tentative.show(&service.view, &two, [unsettled]).unwrap();
    let new = index(b"3", b"two");
    let mut of_both = vec![(&one, true), (&two, true)];
    of_both.extend(&of_one[1..]);
    of_both.push((&new, true));
    check_keys(&tentative, &of_both);
    assert_eq!(tentative.items(collection), 1);

    tentative.show(&service.view, &one, []).unwrap();
    check_keys(&tentative, &[(&two, true), (&new, true)]);
    tentative.show(&service.view, &two, []).unwrap();
    check_keys(&tentative, &[]);
    assert_eq!(tentative.items(collection), 0);
}

#[test]
fn a_removed_item_counts_as_one_fewer() {
    let (service, collection) = filled();
    let one = item_key(collection, b"one");
    let mut tentative = Tentative::default();
    let ops = [ElementOp::ClearAll];
    let stamp = stamp(1);
    let unsettled = Unsettled { ops: &ops, stamp };
    tentative.show(&service.view, &one, [unsettled]).unwrap();
    assert_eq!(tentative.items(collection), -1);
    assert_eq!(tentative.items(crate::SYSTEM), 0);
}

#[test]
fn operations_are_sorted_by_register() {
    let (service, collection) = filled();
    let operation = |seq: u64, item: &str, ops: Vec<ElementOp>| Operation {
        name: RequestId {
            client: 1_u128.into(),
            seq,
            part: 0,
        },
        stamp: stamp(seq),
        accept: EntryId::ZERO,
        digest: None,
        key: item_key(collection, item.as_bytes()),
        ops,
    };
    let operations = [
        operation(2, "two", vec![add("a", "2")]),
        operation(1, "one", vec![clear("a"), add("b", "1")]),
        operation(3, "two", vec![clear("a")]),
    ];
    let tentative = Tentative::of(&service.view, &operations).unwrap();
    let mut one_by_one = Tentative::default();
    for (item, meant) in [("one", vec![1]), ("two", vec![2, 0])] {
        let key = item_key(collection, item.as_bytes());
        let unsettled = meant.iter().map(|at: &usize| Unsettled {
            ops: &operations[*at].ops,
            stamp: operations[*at].stamp,
        });
        one_by_one.show(&service.view, &key, unsettled).unwrap();
    }
    assert_eq!(tentative.mutations(), one_by_one.mutations());
    assert_eq!(tentative.items(collection), 0);
    let none: [&Operation; 0] = [];
    let nothing = Tentative::of(&service.view, none).unwrap();
    assert!(nothing.mutations().is_empty());
}

#[test]
fn a_malformed_item_is_refused() {
    let (service, _) = filled();
    let mut tentative = Tentative::default();
    let key = Bytes::from_static(b"k");
    assert!(tentative.show(&service.view, &key, []).is_err());
}
