//! The bytes of an entry, frozen; what is no entry is refused.

use bytes::Bytes;
use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::{Entry, RequestId};
use crate::{Change, ElementOp, EntryId, Stamp, TombstonePolicy};

fn entry() -> Entry {
    let id = EntryId::new(3, 41);
    Entry {
        id,
        prev: EntryId::new(2, 40),
        safe_point: EntryId::new(2, 30),
        stamp: Stamp::strong(id),
        request: Some(RequestId {
            client: 0x0102_u128.into(),
            seq: 300,
            part: 2,
        }),
        result: Bytes::from_static(b"ok"),
        changes: vec![
            Change::Merge {
                key: Bytes::from_static(b"key"),
                ops: vec![
                    ElementOp::Clear {
                        group: Bytes::from_static(b"g"),
                    },
                    ElementOp::Add {
                        group: Bytes::from_static(b"g"),
                        value: Bytes::from_static(b"v"),
                    },
                ],
                marks: TombstonePolicy::Dropped,
            },
            Change::Remove {
                key: Bytes::from_static(b"other"),
            },
        ],
    }
}

fn encoded(entry: &Entry) -> Vec<u8> {
    let mut bytes = Vec::new();
    entry.encode(&mut bytes);
    bytes
}

/// Sixteen bytes a line.
fn hex(bytes: &[u8]) -> String {
    let line =
        |bytes: &[u8]| -> String { bytes.iter().map(|byte| format!("{byte:02x}")).collect() };
    bytes.chunks(16).map(line).collect::<Vec<_>>().join("\n")
}

#[track_caller]
fn check(entry: &Entry, frozen: &Expect) {
    let bytes = encoded(entry);
    frozen.assert_eq(&hex(&bytes));
    assert_eq!(Entry::decode(Bytes::from(bytes)).as_ref(), Ok(entry));
}

/// It shows CO-5.
#[test]
fn the_bytes_are_frozen() {
    check(
        &entry(),
        &expect![[r#"
            0203290228021e010329010000000000
            0000000000000000000102ac0202026f
            6b0201036b6579020201670301670176
            03056f74686572"#]],
    );
    let plain = Entry {
        request: None,
        result: Bytes::new(),
        changes: Vec::new(),
        ..entry()
    };
    check(&plain, &expect!["0203290228021e010329000000"]);
}

#[test]
fn its_content_is_its_keys_values_and_names() {
    let names = "ok".len() + "key".len() + "g".len() + "gv".len() + "other".len();
    assert_eq!(entry().content_bytes(), names);
}

#[test]
fn input_cut_short_or_too_long_is_refused() {
    let bytes = encoded(&entry());
    for size in 0..bytes.len() {
        assert!(
            Entry::decode(Bytes::copy_from_slice(&bytes[..size])).is_err(),
            "{size} bytes"
        );
    }
    let longer = [bytes.as_slice(), &[0]].concat();
    assert!(Entry::decode(Bytes::from(longer)).is_err());
}

#[test]
fn entries_of_format_1_have_no_floor_and_no_parts_and_drop_marks() {
    let bytes = b"\x01\x03\x29\x02\x28\x01\x03\x29\
        \x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\x02\xac\x02\x02ok\
        \x02\x01\x03key\x02\x02\x01g\x03\x01g\x01v\x03\x05other";
    let expected = Entry {
        safe_point: EntryId::ZERO,
        request: Some(RequestId {
            client: 0x0102_u128.into(),
            seq: 300,
            part: 0,
        }),
        ..entry()
    };
    assert_eq!(Entry::decode(Bytes::from_static(bytes)), Ok(expected));
}

#[test]
fn a_settling_entry_has_the_operations_stamp() {
    assert!(!entry().is_settlement());
    let stamp = Stamp {
        clock: 1,
        ..Stamp::strong(EntryId::new(2, 39))
    };
    let settlement = Entry { stamp, ..entry() };
    assert!(settlement.is_settlement());
    let bytes = Bytes::from(encoded(&settlement));
    assert_eq!(Entry::decode(bytes), Ok(settlement));
}

/// It shows ENTRY-3.
#[test]
fn a_floor_is_below_its_entry() {
    for (safe_point, is_below) in [
        ((2, 40), true),
        ((3, 40), true),
        ((3, 41), false),
        ((4, 0), false),
    ] {
        let safe_point = EntryId::new(safe_point.0, safe_point.1);
        let bytes = Bytes::from(encoded(&Entry {
            safe_point,
            ..entry()
        }));
        assert_eq!(Entry::decode(bytes).is_ok(), is_below, "{safe_point}");
    }
}

#[test]
fn d19_a_part_tells_apart_the_items_of_a_batch() {
    let part = |part| RequestId {
        client: 7_u128.into(),
        seq: 1,
        part,
    };
    let names = [part(0), part(1), RequestId { seq: 2, ..part(0) }];
    assert!(names.is_sorted_by(|one, other| one < other));
    for name in names {
        let request = Some(name);
        let bytes = Bytes::from(encoded(&Entry { request, ..entry() }));
        assert_eq!(Entry::decode(bytes).map(|entry| entry.request), Ok(request));
    }
}

/// It shows TRACE-39, ENTRY-1 and ENTRY-2.
#[test]
fn an_entry_follows_its_predecessor() {
    for (prev, id) in [((2, 40), (3, 42)), ((2, 40), (3, 40)), ((4, 40), (3, 41))] {
        let prev = EntryId::new(prev.0, prev.1);
        let id = EntryId::new(id.0, id.1);
        let bytes = encoded(&Entry {
            id,
            prev,
            ..entry()
        });
        assert!(
            Entry::decode(Bytes::from(bytes)).is_err(),
            "{id} after {prev}"
        );
    }
}

proptest! {
    #[test]
    fn garbage_never_panics(
        format in 0..4_u8,
        garbage in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let bytes = [&[format], garbage.as_slice()].concat();
        let _ = Entry::decode(Bytes::from(bytes));
    }

    #[test]
    fn a_changed_byte_never_panics(at in 0_usize..200, byte: u8) {
        let mut bytes = encoded(&entry());
        let at = at % bytes.len();
        bytes[at] = byte;
        let _ = Entry::decode(Bytes::from(bytes));
    }
}
