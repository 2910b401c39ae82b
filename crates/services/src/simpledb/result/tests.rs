//! Results are small, frozen, and read back as they were.

use expect_test::{Expect, expect};

use super::*;

#[track_caller]
fn check_outcome(outcome: &Result<CostedReply, Error>, shown: &Expect) {
    let bytes = encode_outcome(outcome.as_ref()).unwrap();
    shown.assert_eq(&bytes.escape_ascii().to_string());
    assert_eq!(decode_outcome(bytes.clone()).as_ref(), Ok(outcome));
    for size in 0..bytes.len() {
        assert!(decode_outcome(bytes.slice(..size)).is_err(), "{size}");
    }
    let longer = Bytes::from([&bytes, &[0][..]].concat());
    assert!(decode_outcome(longer).is_err());
}

#[test]
fn a_reply_is_kept() {
    let outcome = Ok(CostedReply {
        reply: Reply::Done,
        box_usage: BoxUsage::put(1),
    });
    check_outcome(&outcome, &expect![[r"\x01\x00\x85\xb6\r"]]);
}

#[test]
fn a_refusal_that_rests_on_state_is_kept() {
    let refused = Error::new(Code::ConditionalCheckFailed, "über");
    check_outcome(
        &Err(refused),
        &expect![[r"\x01\x01\x83\xb6\r\x16ConditionalCheckFailed\x05\xc3\xbcber"]],
    );
    check_outcome(
        &Err(Error::no_such_domain()),
        &expect![[r#"\x01\x01\x83\xb6\r\x0cNoSuchDomain$The specified domain does not exist."#]],
    );
}

#[test]
fn nothing_is_kept_of_a_refusal_that_rests_on_the_request_alone() {
    for code in [
        Code::InvalidParameterValue,
        Code::InvalidParameterCombination,
        Code::MissingParameter,
        Code::NumberSubmittedItemsExceeded,
        Code::InternalError,
        Code::ServiceUnavailable,
    ] {
        assert_eq!(encode_outcome(Err(&Error::new(code, "no"))), None);
    }
}

#[test]
fn a_cause_is_kept() {
    let limit = Cause::Limit(Code::NumberItemAttributesExceeded);
    for (cause, shown) in [
        (limit, expect![[r"\x01\x1cNumberItemAttributesExceeded"]]),
        (Cause::Gone, expect![[r"\x02"]]),
    ] {
        let bytes = encode_cause(cause);
        shown.assert_eq(&bytes.escape_ascii().to_string());
        let kept = fader_chain::Outcome::Refused(bytes);
        let outcome = Outcome::Superseded(Some(cause));
        assert_eq!(settled_outcome(&kept), Ok(outcome));
    }
    let kept = fader_chain::Outcome::Applied;
    assert_eq!(settled_outcome(&kept), Ok(Outcome::Applied));
    let kept = fader_chain::Outcome::Superseded;
    assert_eq!(settled_outcome(&kept), Ok(Outcome::Superseded(None)));
}

#[test]
fn damage_is_reported() {
    for bytes in [
        &b"\x02\x00\x00"[..],
        b"\x01\x02\x00",
        b"\x01\x01\x00\x09NoSuchOne\x00",
        b"\x01\x01\x00\x0cNoSuchDomain\x01\xff",
    ] {
        assert!(decode_outcome(Bytes::from_static(bytes)).is_err());
    }
    for bytes in [
        &b""[..],
        b"\x00",
        b"\x01",
        b"\x01\x09NoSuchOne",
        b"\x02\x00",
    ] {
        let kept = fader_chain::Outcome::Refused(Bytes::from_static(bytes));
        assert!(settled_outcome(&kept).is_err());
    }
}

#[test]
fn a_settlement_record_is_no_outcome_of_a_strong_write() {
    let refused = fader_chain::Outcome::Refused(encode_cause(Cause::Gone));
    for kept in [
        fader_chain::Outcome::Applied,
        fader_chain::Outcome::Superseded,
        refused,
    ] {
        assert!(decode_outcome(kept.encode()).is_err(), "{kept:?}");
    }
}
