//! Signatures against vectors made with botocore 1.43.11 (`SigV2Auth`, `SigV4Auth`).

use super::*;

const SECOND: i64 = 1_795_209_643; // 2026-11-20T21:20:43Z

const PARAMETERS: [(&str, &str); 6] = [
    ("DomainName", "dom"),
    ("ItemName", "it em/\u{fc}~*'"),
    ("Attribute.1.Name", "a+b"),
    ("Attribute.1.Value", "x&y=z\n"),
    ("Attribute.10.Name", "c"),
    ("Attribute.2.Name", "b"),
];

fn sign(version: SignatureVersion, host: &str) -> (String, Headers) {
    let credentials = Credentials::new("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY");
    let signer = Signer::new(&credentials, version, host);
    let moment = signer.moment(SECOND);
    assert_eq!(moment.second(), SECOND);
    let mut body = b"what an earlier request left".to_vec();
    let headers = signer.sign(
        &moment,
        "PutAttributes",
        &mut PARAMETERS.to_vec(),
        &mut body,
    );
    (String::from_utf8(body).unwrap(), headers)
}

#[test]
fn version_2_is_botocores() {
    let (body, headers) = sign(SignatureVersion::V2, "localhost:4566");
    assert_eq!(headers, Headers::default());
    assert_eq!(
        body,
        "AWSAccessKeyId=AKIDEXAMPLE&Action=PutAttributes&Attribute.1.Name=a%2Bb\
         &Attribute.1.Value=x%26y%3Dz%0A&Attribute.10.Name=c&Attribute.2.Name=b&DomainName=dom\
         &ItemName=it%20em%2F%C3%BC~%2A%27&SignatureMethod=HmacSHA256&SignatureVersion=2\
         &Timestamp=2026-11-20T21%3A20%3A43Z&Version=2009-04-15\
         &Signature=Jd%2B%2BhtOfKdXPbofKj02uG8IefbrYsbrx8fIqMh6y2Jg%3D"
    );
}

#[test]
fn version_4_is_botocores() {
    let (body, headers) = sign(SignatureVersion::V4, "LocalHost:4566");
    assert_eq!(
        body,
        "Action=PutAttributes&Attribute.1.Name=a%2Bb&Attribute.1.Value=x%26y%3Dz%0A\
         &Attribute.10.Name=c&Attribute.2.Name=b&DomainName=dom\
         &ItemName=it%20em%2F%C3%BC~%2A%27&Version=2009-04-15"
    );
    let authorization = "AWS4-HMAC-SHA256 \
        Credential=AKIDEXAMPLE/20261120/us-east-1/sdb/aws4_request, \
        SignedHeaders=content-type;host;x-amz-date, \
        Signature=fa8812f92020a3b2d9fd870432300ae9eb2a9f22f327732aa6f8eacbbdd43748";
    assert_eq!(
        headers.0,
        [
            ("authorization", authorization.to_owned()),
            ("x-amz-date", String::from("20261120T212043Z")),
        ]
    );
}

#[test]
fn a_second_is_made_once() {
    let credentials = Credentials::new("k", "s");
    let signer = Signer::new(&credentials, SignatureVersion::V4, "h");
    let first = signer.at(SECOND);
    assert!(Arc::ptr_eq(&first, &signer.at(SECOND)));
    let next = signer.at(SECOND + 1);
    assert_eq!(next.basic, signer.moment(SECOND + 1).basic);
    assert_ne!(next.basic, first.basic);
    let (mut form, mut body) = (Vec::new(), Vec::new());
    let here = signer.sign(&first, "ListDomains", &mut form, &mut body);
    let elsewhere = signer.in_region("eu-west-1");
    let there = elsewhere.sign(
        &elsewhere.at(SECOND),
        "ListDomains",
        &mut Vec::new(),
        &mut body,
    );
    assert_ne!(here, there);
    let made = elsewhere.moment(SECOND);
    let again = elsewhere.sign(&made, "ListDomains", &mut Vec::new(), &mut body);
    assert_eq!(there, again);
}

#[test]
fn a_broken_clock_still_signs() {
    let signer = Signer::new(&Credentials::new("k", "s"), SignatureVersion::V2, "h");
    assert_eq!(signer.moment(i64::MIN).extended, "1970-01-01T00:00:00Z");
    assert!(signer.moment(i64::MAX).extended.starts_with("9999-"));
}
