//! The bytes of operations, and of how they end.

use super::*;

#[test]
fn outcomes_come_back() {
    let reason = Bytes::from_static(b"limit");
    for (outcome, bytes) in [
        (Outcome::Applied, &b"\x01"[..]),
        (Outcome::Superseded, b"\x02"),
        (Outcome::Refused(reason), b"\x03limit"),
        (Outcome::Gone, b"\x04"),
    ] {
        assert_eq!(outcome.encode(), bytes);
        assert_eq!(Outcome::decode(outcome.encode()), Ok(outcome));
    }
}

#[test]
fn a_malformed_outcome_is_refused() {
    for bytes in [&b""[..], b"\x00", b"\x01x", b"\x02x", b"\x04x", b"\x05"] {
        let decoded = Outcome::decode(Bytes::from_static(bytes));
        assert!(decoded.is_err(), "{bytes:?}");
    }
}

fn operation(digest: Option<Digest>) -> Operation {
    Operation {
        name: RequestId {
            client: 7_u128.into(),
            seq: 8,
            part: 9,
        },
        stamp: Stamp::strong(EntryId::new(1, 2)),
        accept: EntryId::new(1, 3),
        digest,
        key: Bytes::from_static(b"k"),
        ops: vec![ElementOp::ClearAll],
    }
}

/// Without a digest the bytes are those of version 2, which knows none.
#[test]
fn a_digest_is_in_an_operation_that_has_one() {
    let digest = 0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10_u128;
    let [mut without, mut with] = [Vec::new(), Vec::new()];
    operation(None).encode(&mut without);
    operation(Some(Digest(digest))).encode(&mut with);
    // Behind the name, the stamp and the id.
    let place = without.len() - 5;
    assert_eq!(without[place..], *b"\x01\x01k\x01\x01");
    assert_eq!(with[..place], without[..place]);
    assert_eq!(with[place], 128);
    assert_eq!(with[place + 1..place + 17], digest.to_be_bytes());
    assert_eq!(with[place + 17..], without[place..]);
    for (bytes, digest) in [(without, None), (with, Some(Digest(digest)))] {
        let mut reader = Reader::new(Bytes::from(bytes));
        assert_eq!(Operation::decode(&mut reader), Ok(operation(digest)));
        assert_eq!(reader.remaining(), 0);
    }
}

#[test]
fn settlements_come_back() {
    let reason = Outcome::Refused(Bytes::from_static(b"\x80"));
    for (digest, outcome, bytes) in [
        (None, Outcome::Applied, &b"\x01"[..]),
        (None, reason.clone(), b"\x03\x80"),
        (
            Some(Digest(1)),
            Outcome::Gone,
            b"\x80\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\x04",
        ),
        (
            Some(Digest(2)),
            reason,
            b"\x80\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x02\x03\x80",
        ),
    ] {
        let settlement = Settlement { digest, outcome };
        assert_eq!(settlement.encode(), bytes);
        assert_eq!(Settlement::decode(settlement.encode()), Ok(settlement));
    }
    for bytes in [&b""[..], b"\x80", b"\x80\0\0\x01", b"\x81\x01"] {
        assert!(
            Settlement::decode(Bytes::from_static(bytes)).is_err(),
            "{bytes:?}"
        );
    }
}
