//! Tokens open for their own request, and for nothing else.

use expect_test::expect;
use proptest::prelude::*;

use super::*;

fn account(id: &str) -> AccountId {
    AccountId(id.to_owned())
}

#[track_caller]
fn check_refused(token: &[u8], kind: Kind, owner: &str, text: &[u8]) {
    let token = PageToken(Bytes::copy_from_slice(token));
    let error = open(&token, kind, &account(owner), text).unwrap_err();
    assert_eq!(error.code, Code::InvalidNextToken);
    assert_eq!(error.message, "The specified next token is not valid.");
}

/// It shows SELTOK-1.
#[test]
fn opens_for_its_own_request_only() {
    let token = seal(Kind::Select, &account("1"), b"select", b"position").0;
    let opened = open(
        &PageToken(token.clone()),
        Kind::Select,
        &account("1"),
        b"select",
    );
    assert_eq!(opened.unwrap(), "position");
    check_refused(&token, Kind::Query, "1", b"select");
    check_refused(&token, Kind::Select, "2", b"select");
    check_refused(&token, Kind::Select, "1", b"other");
    check_refused(&token, Kind::Select, "1s", b"elect");
    check_refused(b"", Kind::Select, "1", b"select");
}

#[test]
fn hash_is_fnv_1a() {
    // The test vectors of the algorithm's authors.
    assert_eq!(hash(HASH_START, b""), 0xcbf29ce484222325);
    assert_eq!(hash(HASH_START, b"a"), 0xaf63dc4c8601ec8c);
    assert_eq!(hash(HASH_START, b"foobar"), 0x85944171f73967e8);
}

#[test]
fn bytes_are_frozen() {
    let token = seal(Kind::Domains, &account("000000000001"), b"", b"books").0;
    let hex: String = token.iter().map(|byte| format!("{byte:02x}")).collect();
    expect!["0101756acf008c6cf7ab626f6f6b730397fa06ee781461"].assert_eq(&hex);
}

proptest! {
    #[test]
    fn round_trips(position in any::<Vec<u8>>(), text in any::<Vec<u8>>()) {
        let token = seal(Kind::Query, &account("1"), &text, &position);
        prop_assert_eq!(open(&token, Kind::Query, &account("1"), &text).unwrap(), position);
    }

    #[test]
    fn every_flipped_bit_and_cut_is_seen(
        position in any::<Vec<u8>>(),
        at in any::<prop::sample::Index>(),
    ) {
        let token = seal(Kind::Select, &account("1"), b"text", &position).0;
        let mut flipped = token.to_vec();
        let bit = at.index(flipped.len() * 8);
        flipped[bit / 8] ^= 1 << (bit % 8);
        check_refused(&flipped, Kind::Select, "1", b"text");
        check_refused(&token[..at.index(token.len())], Kind::Select, "1", b"text");
    }

    #[test]
    fn garbage_is_refused(garbage in any::<Vec<u8>>()) {
        check_refused(&garbage, Kind::Select, "1", b"text");
    }
}
