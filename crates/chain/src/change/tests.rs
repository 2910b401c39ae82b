//! Changes apply as they say, and survive their encoding.

use expect_test::expect;
use proptest::prelude::*;

use super::*;
use crate::stamp::EntryId;

mod marks;

fn key() -> Bytes {
    Bytes::from_static(b"key")
}

fn under(index: u64) -> ApplyContext {
    ApplyContext::strong(EntryId::new(1, index))
}

fn applied(change: &Change, current: Option<Bytes>, under: &ApplyContext) -> Vec<Mutation> {
    let mut out = Vec::new();
    apply(change, current, under, &mut out).unwrap();
    out
}

fn mutation(value: Option<Bytes>) -> Mutation {
    Mutation { key: key(), value }
}

fn merge(op: ElementOp, marks: TombstonePolicy) -> Change {
    Change::Merge {
        key: key(),
        ops: vec![op],
        marks,
    }
}

/// The stamp of an eventual write on an absent register.
fn eventual(clock: u64) -> Stamp {
    Stamp {
        clock,
        ..Stamp::ZERO
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
    for current in [None, old] {
        let expected = vec![mutation(Some(value.clone()))];
        assert_eq!(applied(&put, current.clone(), &under(1)), expected);
        let remove = Change::Remove { key: key() };
        assert_eq!(applied(&remove, current, &under(1)), [mutation(None)]);
    }
}

#[test]
fn a_merge_that_drops_marks_creates_changes_and_ends_a_register() {
    let (group, value) = (Bytes::from_static(b"a"), Bytes::from_static(b"1"));
    let add = ElementOp::Add {
        group: group.clone(),
        value: value.clone(),
    };
    let added = applied(&merge(add, TombstonePolicy::Dropped), None, &under(1));
    let [Mutation { value: current, .. }] = added.as_slice() else {
        panic!("{added:?}");
    };
    let register = Register::decode(current.clone().unwrap()).unwrap();
    assert_eq!(register.pairs().count(), 1);
    assert_eq!(register.version, EntryId::new(1, 1));

    let remove = merge(ElementOp::Remove { group, value }, TombstonePolicy::Dropped);
    let gone = applied(&remove, current.clone(), &under(2));
    assert_eq!(gone, [mutation(None)]);
}

#[test]
fn a_damaged_register_is_reported() {
    let damaged = Some(Bytes::from_static(b"\x03damaged"));
    let collect = Change::Collect {
        key: key(),
        entry: EntryId::ZERO,
        stamp: Stamp::ZERO,
    };
    for change in [merge(ElementOp::ClearAll, TombstonePolicy::Kept), collect] {
        let mut out = Vec::new();
        let error = apply(&change, damaged.clone(), &under(1), &mut out).unwrap_err();
        assert_eq!(error.to_string(), "malformed bytes: a register's format");
        assert!(out.is_empty());
    }
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
        Change::Merge {
            key: key(),
            ops: ops.clone(),
            marks: TombstonePolicy::Dropped,
        },
        Change::Put { key: key(), value },
        Change::Remove { key: key() },
        Change::Merge {
            key: key(),
            ops,
            marks: TombstonePolicy::Kept,
        },
        Change::Collect {
            key: key(),
            entry: EntryId::new(3, 200),
            stamp: eventual(4),
        },
    ] {
        change.encode(&mut bytes);
    }
    let lines = bytes
        .chunks(16)
        .map(|line| format!("{}\n", line.escape_ascii()));
    expect![[r#"
        \x01\x03key\x04\x01\x02\x01a\x03\x01a\x011\x04
        \x01a\x011\x02\x03key\x011\x03\x03key
        \x04\x03key\x04\x01\x02\x01a\x03\x01a\x011\x04
        \x01a\x011\x05\x03key\x03\xc8\x01\x02\x00\x00\x04
        \x00\x00
    "#]]
    .assert_eq(&lines.collect::<String>());
}

#[test]
fn unknown_tags_are_refused() {
    assert!(decoded(vec![0, 0]).is_err());
    assert!(decoded(vec![6, 0]).is_err());
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

fn any_marks() -> impl Strategy<Value = TombstonePolicy> {
    prop::sample::select(vec![TombstonePolicy::Dropped, TombstonePolicy::Kept])
}

fn any_mode() -> impl Strategy<Value = Mode> {
    let all = [
        Mode::Strong,
        Mode::Drained,
        Mode::Mixed,
        Mode::Draining,
        Mode::Eventual,
    ];
    prop::sample::select(all.to_vec())
}

fn any_change() -> impl Strategy<Value = Change> {
    prop_oneof![
        (
            any_bytes(),
            prop::collection::vec(any_op(), 0..5),
            any_marks()
        )
            .prop_map(|(key, ops, marks)| Change::Merge { key, ops, marks }),
        (any_bytes(), any_bytes()).prop_map(|(key, value)| Change::Put { key, value }),
        any_bytes().prop_map(|key| Change::Remove { key }),
        (any_bytes(), any::<(u64, u64)>(), 0..9_u64).prop_map(|(key, (epoch, index), clock)| {
            let entry = EntryId::new(epoch, index);
            let stamp = eventual(clock);
            Change::Collect { key, entry, stamp }
        }),
        (any_bytes(), any_mode(), any::<bool>()).prop_map(|(key, mode, is_abandoned)| {
            Change::SetMode {
                key,
                mode,
                is_abandoned,
            }
        }),
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
