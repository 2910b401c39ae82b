//! Version 2 against the example of AWS's documentation, and its readings of a host.

use hyper::HeaderMap;

use super::super::Payload;
use super::*;

#[test]
fn the_example_of_the_documentation() {
    let query = "AWSAccessKeyId=AKIAIOSFODNN7EXAMPLE&Action=DescribeJobFlows\
        &SignatureMethod=HmacSHA256&SignatureVersion=2&Timestamp=2011-10-03T15%3A19%3A30\
        &Version=2009-03-31&Signature=i91nKc4PWAt0JJIdXwz9HxZCJDdiy6cf%2FMj6vPxyYIs%3D";
    let parameters = Parameters::read(query.as_bytes(), b"", 16).unwrap();
    let signed = Signed {
        method: "GET",
        path: "/",
        headers: &HeaderMap::new(),
        host: "elasticmapreduce.amazonaws.com",
        port: 443,
        parameters: &parameters,
        bucket_in_host: None,
        payload: Payload::Body(b""),
    };
    let presented = Presented::in_parameters(&parameters).unwrap();
    let secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
    assert!(presented.is_signed_with(secret, &signed));
    assert!(!presented.is_signed_with("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEZ", &signed));
    assert!(!presented.is_signed_with(
        secret,
        &Signed {
            method: "POST",
            ..signed
        }
    ));
}

#[test]
fn hosts_have_two_readings() {
    for (host, expected) in [
        ("example.com", "example.com:4566"),
        ("example.com:4566", "example.com"),
        ("127.0.0.1:80", "127.0.0.1"),
        ("[::1]:4566", "[::1]"),
        ("[::1]", "[::1]:4566"),
        ("", ":4566"),
    ] {
        assert_eq!(other_reading(host, 4566), expected, "{host}");
    }
}
