//! Results are small, frozen, and read back as they were.

use expect_test::{Expect, expect};
use fader_chain::Change;

use super::*;

#[track_caller]
fn check(bytes: &Bytes, shown: &Expect, ended: &Ended) {
    shown.assert_eq(&bytes.escape_ascii().to_string());
    assert_eq!(decode_outcome(bytes.clone()).as_ref(), Ok(ended));
    for size in 0..bytes.len() {
        assert!(decode_outcome(bytes.slice(..size)).is_err(), "{size}");
    }
    let longer = Bytes::from([bytes, &[0][..]].concat());
    assert!(decode_outcome(longer).is_err());
}

#[track_caller]
fn check_decided(outcome: Result<Answered, Error>, shown: &Expect) {
    let bytes = encode_outcome(&outcome).unwrap();
    check(&bytes, shown, &Ended::Decided(outcome));
}

#[test]
fn a_reply_is_kept() {
    let outcome = Ok(Answered {
        reply: Reply::Done,
        box_usage: BoxUsage::put(1),
    });
    check_decided(outcome, &expect![[r"\x01\x00\x85\xb6\r"]]);
}

#[test]
fn a_refusal_that_rests_on_state_is_kept() {
    let refused = Error::new(Code::ConditionalCheckFailed, "über");
    check_decided(
        Err(refused),
        &expect![[r"\x01\x01\x83\xb6\r\x16ConditionalCheckFailed\x05\xc3\xbcber"]],
    );
    check_decided(
        Err(Error::no_such_domain()),
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
        assert_eq!(encode_outcome(&Err(Error::new(code, "no"))), None);
    }
}

#[test]
fn a_settlement_is_kept() {
    let change = Change::Remove { key: Bytes::new() };
    let limit = Cause::Limit(Code::NumberItemAttributesExceeded);
    for (settled, shown, outcome) in [
        (
            Settled::Apply(vec![change]),
            expect![[r"\x01\x02"]],
            Outcome::Applied,
        ),
        (
            Settled::Apply(Vec::new()),
            expect![[r"\x01\x03"]],
            Outcome::Superseded(None),
        ),
        (
            Settled::Refused(limit),
            expect![[r"\x01\x04\x1cNumberItemAttributesExceeded"]],
            Outcome::Superseded(Some(limit)),
        ),
        (
            Settled::Refused(Cause::Gone),
            expect![[r"\x01\x05"]],
            Outcome::Superseded(Some(Cause::Gone)),
        ),
    ] {
        check(
            &encode_settlement(&settled),
            &shown,
            &Ended::Settled(outcome),
        );
    }
}

#[test]
fn damage_is_reported() {
    for bytes in [
        &b"\x02\x00\x00"[..],
        b"\x01\x06",
        b"\x01\x01\x00\x09NoSuchOne\x00",
        b"\x01\x01\x00\x0cNoSuchDomain\x01\xff",
    ] {
        assert!(decode_outcome(Bytes::from_static(bytes)).is_err());
    }
}
