//! Recorded requests are verified; requests that differ from them are refused.

mod s3;

use fader_node::Secret;
use fader_services::catalog::{AccessKey, AccountId, Rights};
use hyper::header::{HeaderName, HeaderValue};
use proptest::prelude::*;

use super::*;

const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
/// When the recorded requests were signed.
const NOW_S: i64 = 1_795_209_643;
const MINUTE_S: i64 = 60;
const DAY_S: i64 = 24 * 3600;

/// Requests as `vectors/record.py` wrote them.
const RECORDED: [(&str, &str); 5] = [
    ("v2-form", include_str!("vectors/v2-form.http")),
    ("v2-sha1-get", include_str!("vectors/v2-sha1-get.http")),
    ("v4-header", include_str!("vectors/v4-header.http")),
    ("v4-query", include_str!("vectors/v4-query.http")),
    ("v4-form", include_str!("vectors/v4-form.http")),
];

fn recorded(name: &str) -> &'static str {
    RECORDED
        .iter()
        .find(|(recorded, _)| *recorded == name)
        .unwrap()
        .1
}

struct Keys(Vec<OpenKey>);

impl Keys {
    fn one(status: KeyStatus, secret: &str) -> Keys {
        let key = AccessKey {
            id: "AKIDEXAMPLE01234".to_owned(),
            account: AccountId("000000000001".to_owned()),
            sealed_secret: bytes::Bytes::new(),
            status,
            created_ms: 0,
            note: String::new(),
            preference: None,
            rights: Rights::All,
        };
        Keys(vec![OpenKey {
            key,
            secret: Secret::new(secret.to_owned()),
        }])
    }

    fn find(&self, id: &str) -> Option<Arc<OpenKey>> {
        self.0
            .iter()
            .find(|key| key.key.id == id)
            .cloned()
            .map(Arc::new)
    }
}

/// Verifies the text of a request: `Ok` is the id of the key that signed.
fn verify(
    verifier: &Verifier,
    request: &str,
    now_s: i64,
    keys: &Keys,
) -> Result<Option<String>, Error> {
    verify_by(verifier, request, now_s, |id| Ok(keys.find(id)))
}

fn verify_by(
    verifier: &Verifier,
    request: &str,
    now_s: i64,
    open_key: impl FnOnce(&str) -> Result<Option<Arc<OpenKey>>, Refusal>,
) -> Result<Option<String>, Error> {
    let (head, body) = request.split_once("\n\n").unwrap();
    let mut lines = head.lines();
    let mut first = lines.next().unwrap().split(' ');
    let method = first.next().unwrap();
    let (path, query) = match first.next().unwrap().split_once('?') {
        Some((path, query)) => (path, query),
        None => ("/", ""),
    };
    let mut headers = HeaderMap::new();
    for line in lines {
        let (name, value) = line.split_once(": ").unwrap();
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        headers.append(name, HeaderValue::from_str(value).unwrap());
    }
    let parameters = Parameters::read(query.as_bytes(), body.as_bytes(), 100)?;
    let host = headers
        .get("host")
        .and_then(|host| host.to_str().ok())
        .unwrap_or_default();
    let signed = Signed {
        method,
        path,
        headers: &headers,
        host,
        port: 4566,
        parameters: &parameters,
        bucket_in_host: None,
        payload: Payload::Body(body.as_bytes()),
    };
    let key = verifier.verify(&signed, now_s, open_key)?;
    Ok(key.map(|key| key.key.id.clone()))
}

fn verifier() -> Verifier {
    Verifier::new(Duration::from_secs(15 * 60))
}

/// The code of a refusal, or "signed" or "unsigned".
fn outcome(request: &str, now_s: i64, keys: &Keys) -> String {
    match verify(&verifier(), request, now_s, keys) {
        Ok(Some(_)) => "signed".to_owned(),
        Ok(None) => "unsigned".to_owned(),
        Err(error) => error.code.name(),
    }
}

#[test]
fn recorded_requests_are_signed_each_time() {
    let keys = Keys::one(KeyStatus::Active, SECRET);
    let verifier = verifier();
    for (name, request) in RECORDED {
        for _ in 0..2 {
            let key = verify(&verifier, request, NOW_S, &keys);
            assert_eq!(key, Ok(Some("AKIDEXAMPLE01234".to_owned())), "{name}");
        }
    }
}

#[test]
fn wrong_unknown_and_disabled_keys_are_refused() {
    let wrong = SECRET.replace('w', "v");
    for (name, request) in RECORDED {
        for (keys, expected) in [
            (
                Keys::one(KeyStatus::Active, &wrong),
                "SignatureDoesNotMatch",
            ),
            (
                Keys::one(KeyStatus::Disabled, SECRET),
                "InvalidClientTokenId",
            ),
            (
                Keys::one(KeyStatus::Disabled, &wrong),
                "InvalidClientTokenId",
            ),
            (Keys(vec![]), "InvalidClientTokenId"),
        ] {
            assert_eq!(outcome(request, NOW_S, &keys), expected, "{name}");
        }
    }
}

#[test]
fn a_key_that_does_not_exist_is_not_signed_with_the_dummy() {
    let request = recorded("v2-form");
    let keys = Keys::one(KeyStatus::Active, DUMMY_SECRET);
    assert_eq!(outcome(request, NOW_S, &keys), "SignatureDoesNotMatch");
}

/// It shows SIGN-2.
#[test]
fn a_disabled_key_looks_like_an_unknown_one() {
    let request = recorded("v4-header");
    let disabled = verify(
        &verifier(),
        request,
        NOW_S,
        &Keys::one(KeyStatus::Disabled, SECRET),
    );
    let unknown = verify(&verifier(), request, NOW_S, &Keys(vec![]));
    assert_eq!(disabled, unknown);
}

#[test]
fn a_key_disabled_after_its_first_request_is_refused() {
    let verifier = verifier();
    let request = recorded("v4-header");
    let active = Keys::one(KeyStatus::Active, SECRET);
    assert!(verify(&verifier, request, NOW_S, &active).is_ok());
    let disabled = Keys::one(KeyStatus::Disabled, SECRET);
    assert!(verify(&verifier, request, NOW_S, &disabled).is_err());
}

#[test]
fn without_keys_to_read_the_service_is_unavailable() {
    // A member that does not serve, in a cluster that does: another is to be asked.
    for (_, request) in RECORDED {
        let unreadable = |_: &str| {
            let words = "no member can answer now".to_owned();
            Err(Refusal::View(fader_services::ViewError::Told { words }))
        };
        let error = verify_by(&verifier(), request, NOW_S, unreadable).unwrap_err();
        assert_eq!(error.code, Code::ServiceUnavailable);
    }
}

#[test]
fn a_flood_of_unknown_keys_is_told_apart_from_an_outage() {
    let request = recorded("v4-header");
    let refused = |reason: Reason| {
        let busy = |_: &str| Err(Refusal::Unavailable(reason.into()));
        verify_by(&verifier(), request, NOW_S, busy)
            .unwrap_err()
            .reason
    };
    assert_eq!(refused(Reason::UnknownKeys), Some(Reason::UnknownKeys));
    assert_eq!(refused(Reason::Stopping), Some(Reason::NoMember));
}

#[test]
fn times_are_taken_within_the_skew() {
    let keys = Keys::one(KeyStatus::Active, SECRET);
    for (name, offset_s, expected) in [
        ("v2-form", 15 * MINUTE_S, "signed"),
        ("v2-form", 15 * MINUTE_S + 1, "RequestExpired"),
        ("v2-form", -15 * MINUTE_S, "signed"),
        ("v2-form", -15 * MINUTE_S - 1, "RequestExpired"),
        ("v2-sha1-get", 15 * MINUTE_S + 1, "RequestExpired"),
        ("v4-header", 15 * MINUTE_S, "signed"),
        ("v4-header", 15 * MINUTE_S + 1, "RequestExpired"),
        ("v4-header", -15 * MINUTE_S - 1, "RequestExpired"),
        ("v4-query", 60 * MINUTE_S, "signed"),
        ("v4-query", 60 * MINUTE_S + 1, "RequestExpired"),
        ("v4-query", -15 * MINUTE_S - 1, "RequestExpired"),
        ("v4-form", 300 * DAY_S, "RequestExpired"),
    ] {
        let request = recorded(name);
        assert_eq!(
            outcome(request, NOW_S + offset_s, &keys),
            expected,
            "{name} {offset_s}"
        );
    }
}

/// A recorded request, what is replaced in it by what, and the outcome.
const CHANGED: &[(&str, &str, &str, &str)] = &[
    ("v2-form", "POST", "GET", "SignatureDoesNotMatch"),
    (
        "v2-form",
        "DomainName=cats",
        "DomainName=dogs",
        "SignatureDoesNotMatch",
    ),
    ("v2-form", "&DomainName=cats", "", "SignatureDoesNotMatch"),
    (
        "v2-form",
        "&DomainName",
        "&Extra=1&DomainName",
        "SignatureDoesNotMatch",
    ),
    ("v2-form", "127.0.0.1", "127.0.0.2", "SignatureDoesNotMatch"),
    (
        "v2-form",
        "POST /",
        "POST /?Extra=1",
        "SignatureDoesNotMatch",
    ),
    (
        "v2-form",
        "Signature=jg",
        "Signature=jh",
        "SignatureDoesNotMatch",
    ),
    (
        "v2-form",
        "Signature=jg",
        "Signature=!",
        "SignatureDoesNotMatch",
    ),
    ("v2-form", "HmacSHA256", "HmacSHA1", "SignatureDoesNotMatch"),
    ("v2-form", "HmacSHA256", "HmacMD5", "InvalidParameterValue"),
    (
        "v2-form",
        "SignatureVersion=2",
        "SignatureVersion=1",
        "InvalidParameterValue",
    ),
    ("v2-form", "&SignatureVersion=2", "", "MissingParameter"),
    (
        "v2-form",
        "&SignatureMethod=HmacSHA256",
        "",
        "MissingParameter",
    ),
    (
        "v2-form",
        "AWSAccessKeyId=AKIDEXAMPLE01234&",
        "",
        "AuthMissingFailure",
    ),
    ("v2-form", "AKIDEXAMPLE01234", "", "InvalidClientTokenId"),
    (
        "v2-form",
        "AKIDEXAMPLE01234",
        "%00%0A",
        "InvalidClientTokenId",
    ),
    (
        "v2-form",
        "&Signature=",
        "&NoSignature=",
        "MissingParameter",
    ),
    (
        "v2-form",
        "Timestamp=2026",
        "Timestamp=x",
        "IncompleteSignature",
    ),
    ("v2-form", "&Timestamp", "&NoTimestamp", "MissingParameter"),
    (
        "v2-form",
        "&Timestamp",
        "&Expires=x&Timestamp",
        "InvalidParameterCombination",
    ),
    ("v2-sha1-get", "8080", "8081", "signed"),
    ("v2-sha1-get", "SDB.example", "sdb.example", "signed"),
    (
        "v2-sha1-get",
        "SDB.example",
        "sdb.example.example",
        "SignatureDoesNotMatch",
    ),
    (
        "v4-header",
        "DomainName=cats",
        "DomainName=dogs",
        "SignatureDoesNotMatch",
    ),
    (
        "v4-header",
        "POST /",
        "POST /?Extra=1",
        "SignatureDoesNotMatch",
    ),
    ("v4-header", "POST", "GET", "SignatureDoesNotMatch"),
    (
        "v4-header",
        "127.0.0.1",
        "127.0.0.2",
        "SignatureDoesNotMatch",
    ),
    (
        "v4-header",
        "charset=utf-8",
        "charset=latin",
        "SignatureDoesNotMatch",
    ),
    (
        "v4-header",
        "us-east-1",
        "us-east-2",
        "SignatureDoesNotMatch",
    ),
    (
        "v4-header",
        "Signature=febf",
        "Signature=FEBF",
        "SignatureDoesNotMatch",
    ),
    (
        "v4-header",
        "Signature=febf",
        "Signature=",
        "SignatureDoesNotMatch",
    ),
    (
        "v4-header",
        "Content-Type: ",
        "X-Content-Type: ",
        "SignatureDoesNotMatch",
    ),
    ("v4-header", "/sdb/", "/sqs/", "SignatureDoesNotMatch"),
    (
        "v4-header",
        "/20261120/",
        "/20261121/",
        "SignatureDoesNotMatch",
    ),
    ("v4-header", "host;", "", "IncompleteSignature"),
    ("v4-header", "/aws4_request", "", "IncompleteSignature"),
    (
        "v4-header",
        "/aws4_request",
        "/aws4_request/x",
        "IncompleteSignature",
    ),
    (
        "v4-header",
        "X-Amz-Date: 2026",
        "X-Amz-Date: x",
        "SignatureDoesNotMatch",
    ),
    ("v4-header", "X-Amz-Date:", "X-Date:", "IncompleteSignature"),
    (
        "v4-header",
        "Signature=",
        "NoSignature=",
        "InvalidHTTPAuthHeader",
    ),
    (
        "v4-header",
        ", Signature=",
        ", Signature=x, Signature=",
        "InvalidHTTPAuthHeader",
    ),
    (
        "v4-header",
        "AWS4-HMAC-SHA256 ",
        "AWS4-HMAC-SHA256",
        "InvalidHTTPAuthHeader",
    ),
    (
        "v4-header",
        "AWS4-HMAC-SHA256",
        "AWS",
        "InvalidHTTPAuthHeader",
    ),
    (
        "v4-header",
        "AWS4-HMAC-SHA256",
        "Basic",
        "InvalidHTTPAuthHeader",
    ),
    (
        "v4-query",
        "select%20",
        "delete%20",
        "SignatureDoesNotMatch",
    ),
    (
        "v4-query",
        "X-Amz-Expires=3600",
        "X-Amz-Expires=604800",
        "SignatureDoesNotMatch",
    ),
    (
        "v4-query",
        "X-Amz-Expires=3600",
        "X-Amz-Expires=604801",
        "IncompleteSignature",
    ),
    (
        "v4-query",
        "X-Amz-Expires=3600",
        "X-Amz-Expires=0",
        "IncompleteSignature",
    ),
    (
        "v4-query",
        "X-Amz-Signature=",
        "X-Amz-Missing=",
        "IncompleteSignature",
    ),
    (
        "v4-query",
        "AWS4-HMAC-SHA256",
        "AWS4-HMAC-SHA1",
        "IncompleteSignature",
    ),
    ("v4-query", "\n\n", "\n\nExtra=1", "SignatureDoesNotMatch"),
    ("v4-form", "select%20", "delete%20", "SignatureDoesNotMatch"),
    (
        "v4-form",
        "POST /",
        "POST /?Extra=1",
        "SignatureDoesNotMatch",
    ),
];

/// It shows SIGN-1.
#[test]
fn a_request_unlike_the_signed_one_is_refused() {
    let keys = Keys::one(KeyStatus::Active, SECRET);
    for &(name, from, to, expected) in CHANGED {
        let changed = recorded(name).replacen(from, to, 1);
        assert_ne!(changed, recorded(name), "{from}");
        assert_eq!(
            outcome(&changed, NOW_S, &keys),
            expected,
            "{name}: {from} -> {to}"
        );
    }
}

#[test]
fn a_hash_that_the_client_names_is_not_believed() {
    // Even when the header says that the body is not signed.
    let keys = Keys::one(KeyStatus::Active, SECRET);
    let request = recorded("v4-header")
        .replacen(
            "Authorization",
            "X-Amz-Content-Sha256: UNSIGNED-PAYLOAD\nAuthorization",
            1,
        )
        .replacen("DomainName=cats", "DomainName=dogs", 1);
    assert_eq!(outcome(&request, NOW_S, &keys), "SignatureDoesNotMatch");
}

#[test]
fn without_signature_there_is_no_principal() {
    let keys = Keys::one(KeyStatus::Active, SECRET);
    let request = "POST / HTTP/1.1\nHost: localhost\n\nAction=ListDomains&Version=2009-04-15";
    assert_eq!(outcome(request, NOW_S, &keys), "unsigned");
}

#[test]
fn expires_may_be_far_but_not_over() {
    let keys = Keys::one(KeyStatus::Active, SECRET);
    let query = "AWSAccessKeyId=AKIDEXAMPLE01234&Action=ListDomains\
        &Expires=2026-11-21T21%3A20%3A43Z\
        &SignatureMethod=HmacSHA256&SignatureVersion=2&Version=2009-04-15";
    let mac = {
        use base64::Engine as _;
        use hmac::{Hmac, KeyInit, Mac};
        let mut mac = <Hmac<sha2::Sha256> as KeyInit>::new_from_slice(SECRET.as_bytes()).unwrap();
        mac.update(format!("GET\nlocalhost\n/\n{query}").as_bytes());
        base64::engine::general_purpose::STANDARD.encode(mac.finalize().into_bytes())
    };
    let mac = mac.replace('+', "%2B");
    let request = format!("GET /?{query}&Signature={mac} HTTP/1.1\nHost: localhost\n\n");
    assert_eq!(outcome(&request, NOW_S, &keys), "signed");
    assert_eq!(outcome(&request, NOW_S + DAY_S, &keys), "signed");
    assert_eq!(
        outcome(&request, NOW_S + DAY_S + 1, &keys),
        "RequestExpired"
    );
}

proptest! {
    #[test]
    fn no_single_byte_of_a_signed_form_may_change(at in any::<prop::sample::Index>(), to: u8) {
        let keys = Keys::one(KeyStatus::Active, SECRET);
        let (head, body) = recorded("v4-header").split_once("\n\n").unwrap();
        let mut changed = body.as_bytes().to_vec();
        let at = at.index(changed.len());
        prop_assume!(changed[at] != to && to.is_ascii());
        changed[at] = to;
        let changed = String::from_utf8(changed).unwrap();
        prop_assert_ne!(outcome(&format!("{head}\n\n{changed}"), NOW_S, &keys), "signed");
    }

    #[test]
    fn any_authorization_is_read_or_refused(text in "[ -~]{0,80}") {
        let keys = Keys::one(KeyStatus::Active, SECRET);
        for prefix in ["", "AWS4-HMAC-SHA256 ", "AWS4-HMAC-SHA256 Credential="] {
            let request = format!("GET / HTTP/1.1\nAuthorization: {prefix}{text}\n\n");
            prop_assert_ne!(outcome(&request, NOW_S, &keys), "signed");
        }
    }

    #[test]
    fn any_signing_parameters_are_read_or_refused(text in "[ -~]{0,40}", at in 0..8_usize) {
        let keys = Keys::one(KeyStatus::Active, SECRET);
        let (head, body) = recorded("v4-form").split_once("\n\n").unwrap();
        let body: Vec<_> = body
            .split('&')
            .enumerate()
            .map(|(index, pair)| match pair.split_once('=') {
                Some((name, _)) if index == at + 1 => format!("{name}={text}"),
                _ => pair.to_owned(),
            })
            .collect();
        outcome(&format!("{head}\n\n{}", body.join("&")), NOW_S, &keys);
    }
}
