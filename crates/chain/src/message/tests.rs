//! The bytes of each message, frozen; messages come back as they went; what is none is refused.

use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;
use crate::{Change, Digest, Element, ElementOp, ElementSet, Stamp, TombstonePolicy};

fn text(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

fn id(epoch: u64, index: u64) -> EntryId {
    EntryId::new(epoch, index)
}

fn epoch_history() -> EpochHistory {
    let mut epoch_history = EpochHistory::default();
    for it in [id(1, 4), id(1, 5), id(3, 6)] {
        epoch_history.push(it);
    }
    epoch_history
}

fn entry(index: u64) -> Arc<Entry> {
    Arc::new(Entry {
        id: id(3, index),
        prev: id(3, index - 1),
        safe_point: EntryId::ZERO,
        stamp: Stamp::strong(id(3, index)),
        request: None,
        result: Bytes::new(),
        changes: vec![Change::Put {
            key: text("k"),
            value: text("v"),
        }],
    })
}

fn operation() -> Arc<Operation> {
    Arc::new(Operation {
        name: RequestId {
            client: 7_u128.into(),
            seq: 8,
            part: 9,
        },
        stamp: Stamp {
            base: id(1, 2),
            clock: 1000,
            node: 3,
            counter: 4,
        },
        accept: id(1, 1),
        digest: None,
        key: text("key"),
        ops: vec![
            ElementOp::ClearAll,
            ElementOp::Add {
                group: text("g"),
                value: text("v"),
            },
        ],
    })
}

fn register() -> Register {
    Register {
        version: id(2, 3),
        cleared: Stamp::ZERO,
        groups: vec![ElementSet {
            name: text("g"),
            born: Stamp::strong(id(2, 3)),
            order: 0,
            cleared: Stamp::ZERO,
            members: vec![Element {
                value: text("v"),
                live: true,
                written: Stamp::strong(id(2, 3)),
            }],
        }],
    }
}

fn strong() -> Vec<Message> {
    vec![
        Message::Hello {
            epoch_history: epoch_history(),
            base: id(1, 3),
            commit: id(1, 5),
            last: id(3, 6),
            clock: 1_000_000,
        },
        Message::Append {
            after: id(3, 5),
            entries: vec![entry(6), entry(7)],
            commit: id(3, 4),
        },
        Message::Confirm { id: id(3, 7) },
        Message::Commit { id: id(3, 7) },
        Message::Resend { after: id(3, 2) },
        Message::Query {
            number: 300,
            scope: Scope::Keys(vec![text("a"), text("b")]),
        },
        Message::QueryAnswer {
            number: 300,
            commit: id(3, 7),
        },
    ]
}

fn eventual() -> Vec<Message> {
    vec![
        Message::Offer {
            operations: vec![operation()],
        },
        Message::Held {
            names: vec![operation().name],
        },
        Message::Promote {
            operations: vec![operation()],
        },
        Message::Show {
            number: 1,
            key: text("key"),
        },
        Message::Shown {
            number: 1,
            register: Some(register()),
            operations: vec![operation()],
            commit: id(3, 7),
        },
        Message::Overlay {
            asks: true,
            commit: id(3, 7),
            clock: 5,
            operations: vec![operation()],
        },
        Message::Gather {
            number: 2,
            scope: Scope::All,
        },
        Message::Gathered {
            number: 2,
            operations: Vec::new(),
        },
    ]
}

fn state() -> Vec<Message> {
    vec![
        Message::TransferRequest {
            above: id(3, 7),
            start: text(""),
            ranges: vec![RangeHash {
                end: text("m"),
                hash: 0x0102,
            }],
        },
        Message::TransferChunk {
            at: id(3, 8),
            start: text(""),
            ranges: vec![RangeContent {
                start: text(""),
                end: text("m"),
                rows: vec![(text("k"), text("v"))],
            }],
            end: text("z"),
        },
        Message::Digest {
            number: 300,
            id: id(3, 8),
            start: text("a"),
            end: text("b"),
            digest: 0x0304,
        },
        Message::Compared {
            number: 300,
            is_same: false,
        },
    ]
}

fn envelope(message: Message) -> Envelope {
    Envelope {
        epoch: 3,
        from: NodeId(2),
        incarnation: Incarnation(0x0506),
        message,
    }
}

fn all() -> Vec<Envelope> {
    let messages = [strong(), eventual(), state()].into_iter().flatten();
    messages.map(envelope).collect()
}

fn encoded(envelope: &Envelope) -> Vec<u8> {
    let mut bytes = Vec::new();
    envelope.encode(&mut bytes);
    bytes
}

/// What precedes the kind in all of these.
const HEADER: &[u8] = b"\x01\x03\x02\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x05\x06";

#[track_caller]
fn check(messages: Vec<Message>, frozen: &Expect) {
    let lines = messages.into_iter().map(|message| {
        let bytes = encoded(&envelope(message));
        let body = bytes.strip_prefix(HEADER).expect("it begins as all do");
        let line =
            |bytes: &[u8]| -> String { bytes.iter().map(|it| format!("{it:02x}")).collect() };
        let lines: Vec<String> = body.chunks(40).map(line).collect();
        lines.join("\n  ") + "\n"
    });
    frozen.assert_eq(&lines.collect::<String>());
}

#[test]
fn the_bytes_are_frozen() {
    check(
        strong(),
        &expect![[r#"
            0102010405030606010301050306c0843d
            020305030402120203060305000001030600000102016b0176120203070306000001030700000102
              016b0176
            030307
            040307
            050302
            06ac02010201610162
            07ac020307
        "#]],
    );
    check(
        eventual(),
        &expect![[r#"
            0801000000000000000000000000000000070809020102e8070304010101036b6579020103016701
              76
            0901000000000000000000000000000000070809
            0a01000000000000000000000000000000070809020102e8070304010101036b6579020103016701
              76
            0b01036b6579
            0c010307011302020300010167010203000001017601010203010000000000000000000000000000
              00070809020102e8070304010101036b657902010301670176
            0d0103070501000000000000000000000000000000070809020102e8070304010101036b65790201
              0301670176
            0e0200
            0f0200
        "#]],
    );
    check(
        state(),
        &expect![[r#"
            1003070001016d00000000000000000000000000000102
            11030800017a0100016d01016b0176
            12ac0203080161016200000000000000000000000000000304
            13ac0200
        "#]],
    );
}

#[test]
fn each_message_comes_back() {
    for envelope in all() {
        let bytes = Bytes::from(encoded(&envelope));
        assert_eq!(Envelope::decode(bytes), Ok(envelope));
    }
}

#[test]
fn input_cut_short_or_too_long_is_refused() {
    for envelope in all() {
        let bytes = encoded(&envelope);
        for size in 0..bytes.len() {
            let cut = Bytes::copy_from_slice(&bytes[..size]);
            assert!(Envelope::decode(cut).is_err(), "{size} of {envelope:?}");
        }
        let longer = [bytes.as_slice(), &[0]].concat();
        assert!(Envelope::decode(Bytes::from(longer)).is_err());
    }
}

#[track_caller]
fn refused(bytes: &[u8]) -> String {
    let bytes = [HEADER, bytes].concat();
    Envelope::decode(Bytes::from(bytes))
        .expect_err("it is no message")
        .to_string()
}

#[test]
fn unknown_versions_and_kinds_are_refused_by_name() {
    let mut bytes = encoded(&envelope(Message::Confirm { id: id(3, 7) }));
    bytes[0] = 2;
    let error = Envelope::decode(Bytes::from(bytes)).expect_err("there is no version 2");
    assert_eq!(error.to_string(), "malformed bytes: a message's version");
    assert_eq!(refused(&[0]), "malformed bytes: a message's kind");
    assert_eq!(refused(&[20]), "malformed bytes: a message's kind");
}

#[test]
fn a_list_is_no_longer_than_its_limit() {
    let mut longest = vec![9, 0x80, 0x80, 0x10];
    longest.extend(vec![0; 18 << 18]);
    assert!(Envelope::decode(Bytes::from([HEADER, &longest].concat())).is_ok());
    longest[1] += 1;
    longest.extend(vec![0; 18]);
    assert_eq!(
        refused(&longest),
        "malformed bytes: a list beyond its limit"
    );
    assert_eq!(
        refused(b"\x09\xff\xff\xff\xff\x0f"),
        "malformed bytes: a count beyond the input"
    );
}

/// It shows EPOCHS-1.
#[test]
fn runs_that_do_not_follow_each_other_are_refused() {
    let hello = |epoch_history: &[u8]| {
        let rest = &[0; 7];
        let bytes = [HEADER, &[1], epoch_history, rest].concat();
        Envelope::decode(Bytes::from(bytes))
    };
    assert!(hello(&[2, 1, 4, 5, 3, 6, 6]).is_ok());
    for (epoch_history, why) in [
        (&[2, 1, 4, 5, 3, 7, 7], "a hole"),
        (&[2, 1, 4, 5, 1, 6, 6], "the same epoch"),
        (&[2, 2, 4, 5, 1, 6, 6], "an epoch that falls"),
        (&[2, 1, 4, 5, 3, 6, 5], "an empty run"),
    ] {
        assert!(hello(epoch_history).is_err(), "{why}");
    }
    let many = [&[65][..], &[1; 195]].concat();
    assert!(hello(&many).is_err(), "too many");
}

fn ids() -> impl Strategy<Value = EntryId> {
    any::<(u64, u64)>().prop_map(|(epoch, index)| EntryId::new(epoch, index))
}

fn keys() -> impl Strategy<Value = Bytes> {
    prop::collection::vec(any::<u8>(), 0..40).prop_map(Bytes::from)
}

fn scopes() -> impl Strategy<Value = Scope> {
    let keys = prop::collection::vec(keys(), 0..5).prop_map(Scope::Keys);
    prop_oneof![Just(Scope::All), keys]
}

fn operations() -> impl Strategy<Value = Vec<Arc<Operation>>> {
    let digest = any::<Option<u128>>();
    let one = (
        any::<(u128, u64, u32)>(),
        ids(),
        keys(),
        any::<u32>(),
        digest,
    );
    let one = one.prop_map(|((client, seq, part), accept, key, node, digest)| {
        Arc::new(Operation {
            name: RequestId {
                client: client.into(),
                seq,
                part,
            },
            stamp: Stamp {
                base: accept,
                clock: seq,
                node,
                counter: part,
            },
            accept,
            digest: digest.map(Digest),
            key: key.clone(),
            ops: vec![ElementOp::Clear { group: key }],
        })
    });
    prop::collection::vec(one, 0..4)
}

fn entries() -> impl Strategy<Value = Vec<Arc<Entry>>> {
    let one = (any::<u64>(), 0..u64::MAX, keys(), keys());
    let one = one.prop_map(|(epoch, prev, key, value)| {
        let id = EntryId::new(epoch, prev + 1);
        Arc::new(Entry {
            id,
            prev: EntryId::new(epoch, prev),
            safe_point: EntryId::ZERO,
            stamp: Stamp::strong(id),
            request: None,
            result: value.clone(),
            changes: vec![
                Change::Put {
                    key: key.clone(),
                    value,
                },
                Change::Merge {
                    key,
                    ops: vec![ElementOp::ClearAll],
                    marks: TombstonePolicy::Kept,
                },
            ],
        })
    });
    prop::collection::vec(one, 0..4)
}

fn parts() -> impl Strategy<Value = Vec<RangeContent>> {
    let rows = prop::collection::vec((keys(), keys()), 0..4);
    let one = (keys(), keys(), rows);
    let one = one.prop_map(|(start, end, rows)| RangeContent { start, end, rows });
    prop::collection::vec(one, 0..3)
}

fn messages() -> impl Strategy<Value = Message> {
    prop_oneof![
        (ids(), entries(), ids()).prop_map(|(after, entries, commit)| Message::Append {
            after,
            entries,
            commit
        }),
        ids().prop_map(|id| Message::Confirm { id }),
        (any::<u64>(), scopes()).prop_map(|(number, scope)| Message::Query { number, scope }),
        (any::<u64>(), scopes()).prop_map(|(number, scope)| Message::Gather { number, scope }),
        operations().prop_map(|operations| Message::Offer { operations }),
        (any::<(bool, u64)>(), ids(), operations()).prop_map(
            |((asks, clock), commit, operations)| Message::Overlay {
                asks,
                commit,
                clock,
                operations
            }
        ),
        (any::<u64>(), ids(), operations()).prop_map(|(number, commit, operations)| {
            Message::Shown {
                number,
                register: None,
                operations,
                commit,
            }
        }),
        (ids(), keys(), parts(), keys()).prop_map(|(at, start, ranges, end)| {
            Message::TransferChunk {
                at,
                start,
                ranges,
                end,
            }
        }),
    ]
}

fn envelopes() -> impl Strategy<Value = Envelope> {
    let header = any::<(u64, u32, u128)>();
    (header, messages()).prop_map(|((epoch, from, incarnation), message)| Envelope {
        epoch,
        from: NodeId(from),
        incarnation: Incarnation(incarnation),
        message,
    })
}

proptest! {
    #[test]
    fn messages_come_back(envelope in envelopes()) {
        let bytes = Bytes::from(encoded(&envelope));
        prop_assert_eq!(Envelope::decode(bytes), Ok(envelope));
    }

    #[test]
    fn damage_is_refused_or_says_something_else(
        envelope in envelopes(),
        at: prop::sample::Index,
        flip in 1_u8..,
    ) {
        let mut bytes = encoded(&envelope);
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        if let Ok(other) = Envelope::decode(Bytes::from(bytes)) {
            prop_assert_ne!(other, envelope);
        }
    }

    #[test]
    fn noise_never_panics(kind in 0_u8..20, noise in prop::collection::vec(any::<u8>(), 0..300)) {
        let bytes = [HEADER, &[kind], &noise].concat();
        if let Ok(envelope) = Envelope::decode(Bytes::from(bytes)) {
            let again = Envelope::decode(Bytes::from(encoded(&envelope)));
            prop_assert_eq!(again, Ok(envelope));
        }
    }
}
