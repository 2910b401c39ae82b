//! Pending entries over a snapshot are the map that applying them gives.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use fader_chain::{Change, ElementOp, EntryId, Marks, Register, Under};
use fader_services::{Direction, MapView, View};
use proptest::prelude::*;

use super::Pending;

type Map = BTreeMap<Bytes, Bytes>;

/// A view that holds the pairs.
fn view(pairs: impl IntoIterator<Item = (Bytes, Bytes)>) -> Arc<MapView> {
    let changes: Vec<Change> = pairs
        .into_iter()
        .map(|(key, value)| Change::Put { key, value })
        .collect();
    let mut view = MapView::default();
    view.apply(&changes, &Under::strong(EntryId::ZERO)).unwrap();
    Arc::new(view)
}

fn bytes(number: u8) -> Bytes {
    Bytes::from(vec![number])
}

fn all(view: &dyn View, start: u8, end: u8, direction: Direction) -> Vec<(Bytes, Bytes)> {
    view.scan(&[start], &[end], direction)
        .map(|pair| pair.unwrap())
        .collect()
}

proptest! {
    #[test]
    fn it_is_the_map_with_the_changes(
        below in prop::collection::btree_map(0_u8..12, any::<u8>(), 0..8),
        changes in prop::collection::vec((0_u8..12, any::<Option<u8>>()), 0..12),
        start in 0_u8..13,
        end in 0_u8..13,
    ) {
        let mut map: Map = below.iter().map(|(key, value)| (bytes(*key), bytes(*value))).collect();
        let mut pending = Pending::new(view(map.clone()));
        for (index, (key, value)) in changes.iter().enumerate() {
            let id = EntryId::new(1, index as u64 + 1);
            let key = bytes(*key);
            let change = match value {
                Some(value) => Change::Put { key: key.clone(), value: bytes(*value) },
                None => Change::Remove { key: key.clone() },
            };
            pending.apply(&Under::strong(id), &[change]).unwrap();
            match value {
                Some(value) => map.insert(key, bytes(*value)),
                None => map.remove(&key),
            };
            prop_assert_eq!(pending.last(), id);
        }
        for key in 0..13 {
            prop_assert_eq!(pending.get(&[key]).unwrap(), map.get(&bytes(key)).cloned());
        }
        let within = |key: &Bytes| bytes(start) <= *key && *key < bytes(end);
        let mut expected: Vec<_> = map.into_iter().filter(|(key, _)| within(key)).collect();
        prop_assert_eq!(all(&pending, start, end, Direction::Forward), expected.clone());
        expected.reverse();
        prop_assert_eq!(all(&pending, start, end, Direction::Backward), expected);
    }
}

#[test]
fn a_merge_sees_the_entries_before_it() {
    let mut pending = Pending::new(Arc::new(MapView::default()));
    for (index, value) in [b"a", b"b"].into_iter().enumerate() {
        let id = EntryId::new(1, index as u64 + 1);
        let add = ElementOp::Add {
            group: bytes(b'g'),
            value: Bytes::from_static(value),
        };
        let merge = Change::Merge {
            key: bytes(b'k'),
            ops: vec![add],
            marks: Marks::Dropped,
        };
        pending.apply(&Under::strong(id), &[merge]).unwrap();
    }
    let register = Register::decode(pending.get(b"k").unwrap().unwrap()).unwrap();
    assert_eq!(register.group(b"g").unwrap().values().count(), 2);
}

#[test]
fn what_is_no_register_is_an_error() {
    let below = view([(bytes(b'k'), bytes(0xff))]);
    let mut pending = Pending::new(below);
    let id = EntryId::new(1, 1);
    let merge = Change::Merge {
        key: bytes(b'k'),
        ops: vec![ElementOp::ClearAll],
        marks: Marks::Dropped,
    };
    assert!(pending.apply(&Under::strong(id), &[merge]).is_err());
}
