//! Changes apply as they say, and survive their encoding.

use expect_test::expect;
use proptest::prelude::*;

use super::*;
use crate::stamp::EntryId;

fn key() -> Bytes {
    Bytes::from_static(b"key")
}

fn stamp(index: u64) -> Stamp {
    Stamp::strong(EntryId::new(1, index))
}

fn merge(op: ElementOp) -> Change {
    Change::Merge {
        key: key(),
        ops: vec![op],
    }
}

fn decoded(bytes: Vec<u8>) -> Result<Change, DecodeError> {
    let mut reader = Reader::new(bytes.into());
    let change = Change::decode(&mut reader)?;
    reader.end()?;
    Ok(change)
}

#[test]
fn puts_and_removes_are_whole() {
    let (value, old) = (Bytes::from_static(b"new"), Some(Bytes::from_static(b"old")));
    let put = Change::Put {
        key: key(),
        value: value.clone(),
    };
    for current in [None, old.clone()] {
        let mutation = apply(&put, current, stamp(1), stamp(1)).unwrap();
        assert_eq!(
            mutation,
            Mutation {
                key: key(),
                value: Some(value.clone())
            }
        );
    }
    for current in [None, old] {
        let change = Change::Remove { key: key() };
        let mutation = apply(&change, current, stamp(1), stamp(1)).unwrap();
        assert_eq!(
            mutation,
            Mutation {
                key: key(),
                value: None
            }
        );
    }
}

#[test]
fn a_merge_creates_changes_and_ends_a_register() {
    let (group, value) = (Bytes::from_static(b"a"), Bytes::from_static(b"1"));
    let add = merge(ElementOp::Add {
        group: group.clone(),
        value: value.clone(),
    });
    let remove = merge(ElementOp::Remove { group, value });
    let added = apply(&add, None, stamp(1), stamp(1)).unwrap().value;
    let register = Register::decode(added.clone().unwrap()).unwrap();
    assert_eq!(register.pairs().count(), 1);

    let gone = apply(&remove, added.clone(), stamp(2), stamp(2)).unwrap();
    assert_eq!(
        gone,
        Mutation {
            key: key(),
            value: None
        }
    );

    let kept = apply(&remove, added, stamp(2), Stamp::ZERO).unwrap().value;
    let register = Register::decode(kept.expect("a tombstone above the floor")).unwrap();
    assert!(register.is_empty());
    assert!(!register.is_vacant());
}

#[test]
fn a_damaged_register_is_reported() {
    let damaged = Some(Bytes::from_static(b"\x02damaged"));
    let error = apply(&merge(ElementOp::ClearAll), damaged, stamp(1), stamp(1)).unwrap_err();
    assert_eq!(error.to_string(), "malformed bytes: a register's version");
}

#[test]
fn bytes_are_frozen() {
    let (group, value) = (Bytes::from_static(b"a"), Bytes::from_static(b"1"));
    let ops = vec![
        ElementOp::ClearAll,
        ElementOp::Clear {
            group: group.clone(),
        },
        ElementOp::Add {
            group: group.clone(),
            value: value.clone(),
        },
        ElementOp::Remove {
            group,
            value: value.clone(),
        },
    ];
    let mut bytes = Vec::new();
    for change in [
        Change::Merge { key: key(), ops },
        Change::Put { key: key(), value },
        Change::Remove { key: key() },
    ] {
        change.encode(&mut bytes);
    }
    expect![[
        r#"\x01\x03key\x04\x01\x02\x01a\x03\x01a\x011\x04\x01a\x011\x02\x03key\x011\x03\x03key"#
    ]]
    .assert_eq(&bytes.escape_ascii().to_string());
}

#[test]
fn unknown_tags_are_refused() {
    assert!(decoded(vec![0, 0]).is_err());
    assert!(decoded(vec![4, 0]).is_err());
    assert!(decoded(vec![TAG_MERGE, 0, 1, 0]).is_err());
    assert!(decoded(vec![TAG_MERGE, 0, 1, 5]).is_err());
    assert!(decoded(vec![TAG_MERGE, 0, 0xff, 0xff, 0xff, 0xff, 0x0f]).is_err());
}

fn any_bytes() -> impl Strategy<Value = Bytes> {
    prop::collection::vec(any::<u8>(), 0..200).prop_map(Bytes::from)
}

fn any_op() -> impl Strategy<Value = ElementOp> {
    prop_oneof![
        Just(ElementOp::ClearAll),
        any_bytes().prop_map(|group| ElementOp::Clear { group }),
        (any_bytes(), any_bytes()).prop_map(|(group, value)| ElementOp::Add { group, value }),
        (any_bytes(), any_bytes()).prop_map(|(group, value)| ElementOp::Remove { group, value }),
    ]
}

fn any_change() -> impl Strategy<Value = Change> {
    prop_oneof![
        (any_bytes(), prop::collection::vec(any_op(), 0..5))
            .prop_map(|(key, ops)| Change::Merge { key, ops }),
        (any_bytes(), any_bytes()).prop_map(|(key, value)| Change::Put { key, value }),
        any_bytes().prop_map(|key| Change::Remove { key }),
    ]
}

proptest! {
    #[test]
    fn changes_round_trip(change in any_change(), cut in any::<prop::sample::Index>()) {
        let mut bytes = Vec::new();
        change.encode(&mut bytes);
        prop_assert!(decoded(bytes[..cut.index(bytes.len())].to_vec()).is_err());
        prop_assert_eq!(decoded(bytes).unwrap(), change);
    }

    #[test]
    fn garbage_never_panics(garbage in any::<Vec<u8>>()) {
        let _ = decoded(garbage);
    }
}
