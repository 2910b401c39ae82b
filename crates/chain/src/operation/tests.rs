//! The bytes of an outcome.

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
fn what_is_no_outcome_is_refused() {
    for bytes in [&b""[..], b"\x00", b"\x01x", b"\x02x", b"\x04x", b"\x05"] {
        let decoded = Outcome::decode(Bytes::from_static(bytes));
        assert!(decoded.is_err(), "{bytes:?}");
    }
}
