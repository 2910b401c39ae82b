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

/// A part in clear: nothing random is asked for.
#[derive(Debug)]
struct NoEntropy;

impl Entropy for NoEntropy {
    fn fill(&self, _bytes: &mut [u8]) {
        unreachable!("records in clear need none");
    }
}

fn encoded(records: &[Record]) -> Vec<Bytes> {
    let sealer = Sealer::in_clear();
    encode_parts(CollectionId(5), &sealer, records, &NoEntropy).expect("valid records")
}

fn transaction(parts: &[(u64, Vec<Record>)]) -> Frame {
    let parts = parts.iter().flat_map(|(tree, records)| {
        let parts = encoded(records).into_iter();
        parts.map(|part| (CollectionId(*tree), part))
    });
    Frame::Transaction(parts.collect())
}

fn read(part: &Bytes) -> Result<Vec<Record>> {
    decode_part(CollectionId(5), &Sealer::in_clear(), part.clone())
}

fn hex(frame: &Frame) -> String {
    let bytes = frame.encode();
    let lines = bytes.chunks(32).map(|line| {
        let digits: String = line.iter().map(|byte| format!("{byte:02x}")).collect();
        digits + "\n"
    });
    lines.collect()
}

#[test]
fn the_bytes_of_frames_are_frozen() {
    let transaction = hex(&transaction(&[(5, vec![record("k", 1)])]));
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
    let whole = transaction(&[
        (5, vec![record("a", 10), record("b", 0)]),
        (6, vec![record("a", 300)]),
    ]);
    for frame in [whole, Frame::Pointer(9), Frame::Abort] {
        let read = Frame::decode(frame.encode());
        assert_eq!(read.expect("its own bytes"), frame);
    }
}

#[test]
fn a_transaction_larger_than_one_encoding_comes_back() {
    let records: Vec<Record> = (0..100)
        .map(|at| record(&format!("{at:03}"), 50_000))
        .collect();
    let frame = transaction(&[(5, records.clone())]);
    let Frame::Transaction(parts) = &frame else {
        unreachable!("made above");
    };
    assert_eq!(frame.encode().len(), transaction_bytes(parts));
    let found = parts
        .iter()
        .flat_map(|(_, part)| read(part).expect("its own bytes"));
    assert_eq!(found.collect::<Vec<_>>(), records);
    assert_eq!(Frame::decode(frame.encode()).expect("its own bytes"), frame);
}

#[test]
fn each_flipped_bit_is_found() {
    let frame = transaction(&[(5, vec![record("a", 10)])]);
    let bytes = frame.encode();
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
        .map(|at| record(&format!("{at:02}"), at * 1_000))
        .collect();
    let parts = encoded(&records);
    assert!(parts.len() > 1, "they are too much for one message");
    let found = parts
        .iter()
        .flat_map(|part| read(part).expect("its own bytes"));
    assert_eq!(found.collect::<Vec<_>>(), records);
    for part in &parts {
        assert!(to_text(part).len() <= MESSAGE_BYTES_MAX);
        assert_eq!(from_text(&to_text(part)).expect("its own text"), part);
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
        drop(read(&bytes.clone().into()));
        drop(from_text(&String::from_utf8_lossy(&bytes)));
    }
}
