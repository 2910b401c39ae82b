//! Version 4 against AWS's published examples and test suite.

use hyper::HeaderMap;

use super::*;

const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";

#[test]
fn keys_are_derived_as_in_the_documentation() {
    for (scope, expected) in [
        (
            "20120215/us-east-1/iam/aws4_request",
            "f4780e2d9f65fa895f9c67b32ce1baf0b0d8a43505a000a1a9e090d414db404d",
        ),
        (
            "20150830/us-east-1/iam/aws4_request",
            "c4afb1cc5771d871763a393e44b703571b55cc28424d1a5e86da6ed3c154a4b9",
        ),
    ] {
        let mut text = [0; 64];
        hex(&*derive(SECRET, scope), &mut text);
        assert_eq!(std::str::from_utf8(&text), Ok(expected));
    }
}

/// A case of the suite: they are signed for a service called `service`.
fn is_signed(
    method: &str,
    query: &str,
    more: &[(&str, &str)],
    body: &str,
    signature: &str,
) -> bool {
    let mut headers = HeaderMap::new();
    headers.append("host", HeaderValue::from_static("example.amazonaws.com"));
    headers.append("x-amz-date", HeaderValue::from_static("20150830T123600Z"));
    for (name, value) in more {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        headers.append(name, HeaderValue::from_str(value).unwrap());
    }
    let mut names: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
    names.sort_unstable();
    let parameters = Parameters::read(query.as_bytes(), b"", 16).unwrap();
    let presented = Presented {
        place: Place::Header,
        credential: "AKIDEXAMPLE/20150830/us-east-1/service/aws4_request",
        key_id: "AKIDEXAMPLE",
        signed_headers: &names.join(";"),
        signature,
        date: "20150830T123600Z".into(),
        expires_s: None,
    };
    let signed = Signed {
        method,
        path: "/",
        headers: &headers,
        host: "example.amazonaws.com",
        port: 443,
        parameters: &parameters,
        bucket_in_host: None,
        payload: Payload::Body(body.as_bytes()),
    };
    presented.is_signed_with(SECRET, &signed, None)
}

#[test]
fn the_test_suite() {
    // get-vanilla, post-vanilla, get-vanilla-query-order-key-case, post-x-www-form-urlencoded.
    let form = [("content-type", "application/x-www-form-urlencoded")];
    let vanilla = "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31";
    assert!(is_signed("GET", "", &[], "", vanilla));
    assert!(!is_signed("GET", "a", &[], "", vanilla));
    assert!(!is_signed("GET", "", &[], "a", vanilla));
    let post = "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b";
    assert!(is_signed("POST", "", &[], "", post));
    let order = "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500";
    assert!(is_signed(
        "GET",
        "Param2=value2&Param1=value1",
        &[],
        "",
        order
    ));
    let posted = "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a";
    assert!(is_signed("POST", "", &form, "Param1=value1", posted));
    assert!(!is_signed("POST", "", &form, "Param1=value2", posted));
}

#[test]
fn header_values_lose_needless_blanks() {
    for (value, expected) in [("a", "a"), ("  a  b   c\t", "a b c"), ("", ""), (" ", "")] {
        let mut out = Vec::new();
        canonical_value(value.as_bytes(), &mut out);
        assert_eq!(out, expected.as_bytes(), "{value:?}");
    }
}

#[test]
fn kept_keys_are_bounded() {
    let derived = DerivedKeys::default();
    for index in 0..=DERIVED_KEYS_MAX {
        derived.keep(&index.to_string(), Zeroizing::new([0; 32]));
    }
    assert!(derived.by_credential.read().len() <= DERIVED_KEYS_MAX);
    assert!(derived.get(&DERIVED_KEYS_MAX.to_string()).is_some());
}
