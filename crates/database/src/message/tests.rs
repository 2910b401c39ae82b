//! Bytes of messages are frozen, and damage is found.

use expect_test::expect;
use fader_blink::{HybridTime, Op, Payload, Stamp};
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn record(key: &str, bytes: usize) -> Record {
    Record {
        key: key.as_bytes().to_vec().into(),
        stamp: Stamp {
            time: HybridTime::from_ms(1_000),
            client: 7,
            sequence: 1,
        },
        op: Op::Insert(Payload::Inline(vec![b'v'; bytes].into())),
    }
}

fn bytes_of(frame: &Frame) -> Bytes {
    frame.encode().expect("valid records")
}

fn hex(frame: &Frame) -> String {
    let bytes = bytes_of(frame);
    let lines = bytes.chunks(32).map(|line| {
        let digits: String = line.iter().map(|byte| format!("{byte:02x}")).collect();
        digits + "\n"
    });
    lines.collect()
}

#[test]
fn the_bytes_of_frames_are_frozen() {
    let parts = vec![(CollectionId(5), vec![record("k", 1)])];
    let transaction = hex(&Frame::Transaction(parts));
    expect![[r#"
        4641445401540000000000000005000000260100000001010000000003e80000
        00000000000000070000000100016b00000001760b907f2963b9db105a49c4c8
    "#]]
    .assert_eq(&transaction);
    expect![[r#"
        46414454015000000000000000000000000000000001b428ae7dac2c1c71
    "#]]
    .assert_eq(&hex(&Frame::Pointer(1)));
    expect![[r#"
        464144540141cf3fabaac9cc380e
    "#]]
    .assert_eq(&hex(&Frame::Abort));
}

#[test]
fn frames_come_back() {
    let parts = vec![
        (CollectionId(5), vec![record("a", 10), record("b", 0)]),
        (CollectionId(6), vec![record("a", 300)]),
    ];
    for frame in [Frame::Transaction(parts), Frame::Pointer(9), Frame::Abort] {
        assert_eq!(
            Frame::decode(bytes_of(&frame)).expect("its own bytes"),
            frame
        );
    }
}

#[test]
fn a_transaction_larger_than_one_encoding_comes_back() {
    let records: Vec<Record> = (0..100)
        .map(|at| record(&format!("{at:03}"), 50_000))
        .collect();
    let frame = Frame::Transaction(vec![(CollectionId(5), records)]);
    let Frame::Transaction(parts) = &frame else {
        unreachable!("made above");
    };
    assert!(bytes_of(&frame).len() <= transaction_bytes(parts));
    assert_eq!(
        Frame::decode(bytes_of(&frame)).expect("its own bytes"),
        frame
    );
}

#[test]
fn each_flipped_bit_is_found() {
    let frame = Frame::Transaction(vec![(CollectionId(5), vec![record("a", 10)])]);
    let bytes = bytes_of(&frame);
    for at in 0..bytes.len() * 8 {
        let mut damaged = bytes.to_vec();
        damaged[at / 8] ^= 1 << (at % 8);
        let found = Frame::decode(damaged.into());
        assert_eq!(
            found.expect_err("damaged").kind,
            ErrorKind::Malformed,
            "bit {at}"
        );
    }
}

#[test]
fn messages_stay_within_their_bound_and_lose_nothing() {
    let records: Vec<Record> = (0..50)
        .map(|at| record(&format!("{at:02}"), at * 40))
        .collect();
    let texts = pending(&records, 1_000).expect("valid records");
    let read: Vec<Record> = texts
        .iter()
        .flat_map(|text| read_pending(text).expect("its own text"))
        .collect();
    assert_eq!(read, records);
    for text in &texts {
        let read = read_pending(text).expect("its own text");
        let is_alone = read.len() == 1;
        assert!(
            is_alone || text.len() <= 1_000 * 4 / 3 + 1,
            "{}",
            text.len()
        );
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in vec(any::<u8>(), 0..200), kind in any::<bool>()) {
        let mut input = bytes.clone();
        if kind {
            input.splice(0..0, *b"FADT\x01T");
        }
        drop(Frame::decode(input.into()));
        drop(read_pending(&to_text(&bytes)));
        drop(from_text(&String::from_utf8_lossy(&bytes)));
    }
}
