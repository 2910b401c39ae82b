//! The bytes of an entry, frozen; what is no entry is refused.

use bytes::Bytes;
use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::{Entry, RequestId};
use crate::{Change, ElementOp, EntryId, Marks, Stamp};

fn entry() -> Entry {
    let id = EntryId::new(3, 41);
    Entry {
        id,
        prev: EntryId::new(2, 40),
        floor: EntryId::new(2, 30),
        stamp: Stamp::strong(id),
        request: Some(RequestId {
            client: 0x0102,
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
                marks: Marks::Dropped,
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
fn what_is_cut_short_or_too_long_is_refused() {
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
    fn garbage_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
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
