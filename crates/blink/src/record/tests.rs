//! Encoding of records: frozen bytes, round trips, and refusals that name what is wrong.

use expect_test::expect;
use proptest::prelude::*;

use super::*;
use crate::tests::{any_record, delete, insert, update};

fn hex(bytes: &[u8]) -> String {
    let lines = bytes
        .chunks(32)
        .map(|line| line.iter().map(|byte| format!("{byte:02x}")).collect());
    lines.collect::<Vec<String>>().join("\n")
}

#[test]
fn the_bytes_of_records_are_frozen() {
    let pointer = Pointer {
        object: 0xabc,
        size: 1 << 33,
        crc32c: 0xdead_beef,
    };
    let mut large = update("k", 4, "");
    large.op = Op::Update(Payload::Object(pointer));
    let records = [
        insert("key", 1, "value"),
        update("key", 2, ""),
        large,
        delete("", 3),
    ];
    let message = encode_records(&records).expect("records within the bounds");
    expect![[r#"
        010000000401000000000000000100000000000000010000000000036b657900
        00000576616c756503000000000000000200000000000000010000000000036b
        65790000000004000000000000000400000000000000010000000000016b0000
        0000000000000000000000000abc0000000200000000deadbeef050000000000
        00000300000000000000010000000000006dec0b2f"#]]
    .assert_eq(&hex(&message));
    assert_eq!(decode_records(message), Ok(records.to_vec()));
}

#[test]
fn bounds_are_refused_with_their_numbers() {
    let long = "x".repeat(KEY_BYTES_MAX + 1);
    let error = encode_records(&[delete(&long, 1)]).expect_err("a long key");
    assert_eq!(
        error.to_string(),
        "the key has 1025 bytes, at most 1024 are allowed"
    );
    let large = "x".repeat(INLINE_BYTES_MAX + 1);
    let error = encode_records(&[insert("k", 1, &large)]).expect_err("a large payload");
    assert_eq!(
        error.to_string(),
        "the payload has 262145 bytes, at most 262144 are stored inline"
    );
    let full = "x".repeat(INLINE_BYTES_MAX);
    let error = encode_records(&vec![insert("k", 1, &full); 4]).expect_err("a large message");
    assert_eq!(
        error.to_string(),
        "the records take 1048697 bytes, a message holds 1048576"
    );
}

#[test]
fn a_flipped_bit_anywhere_is_found() {
    let message = encode_records(&[insert("key", 1, "value"), delete("key", 2)]).expect("small");
    for bit in 0..message.len() * 8 {
        let mut bad = message.to_vec();
        bad[bit / 8] ^= 1 << (bit % 8);
        let what = "the checksum does not match";
        assert_eq!(
            decode_records(bad.into()),
            Err(RecordError::Damaged { what })
        );
    }
}

#[test]
fn another_format_is_named() {
    let message = resealed(vec![7, 0, 0, 0, 0]);
    assert_eq!(
        decode_records(message),
        Err(RecordError::Format { found: 7 })
    );
}

/// With a right checksum, so that the decoder behind it is reached.
fn resealed(mut bytes: Vec<u8>) -> Bytes {
    let crc = crc32c(&[&bytes]);
    bytes.extend_from_slice(&crc.to_be_bytes());
    bytes.into()
}

proptest! {
    #[test]
    fn records_come_back(records in proptest::collection::vec(any_record(), 0..12)) {
        let message = encode_records(&records).expect("small records");
        let size: usize = records.iter().map(Record::encoded_bytes).sum();
        prop_assert_eq!(message.len(), HEADER_BYTES + size + CRC_BYTES);
        prop_assert_eq!(decode_records(message), Ok(records));
    }

    #[test]
    fn any_bytes_are_decoded_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = decode_records(bytes.clone().into());
        let mut framed = vec![FORMAT];
        framed.extend_from_slice(&bytes);
        if let Ok(records) = decode_records(resealed(framed)) {
            prop_assert!(encode_records(&records).is_ok());
        }
    }

    #[test]
    fn mutated_records_are_decoded_or_refused(
        records in proptest::collection::vec(any_record(), 1..6),
        places in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let message = encode_records(&records).expect("small records");
        let mut bytes = message[..message.len() - CRC_BYTES].to_vec();
        for (place, byte) in places {
            let at = place.index(bytes.len());
            bytes[at] = byte;
        }
        let _ = decode_records(resealed(bytes.clone()));
        bytes.truncate(cut.index(bytes.len() + 1));
        let _ = decode_records(resealed(bytes));
    }
}
