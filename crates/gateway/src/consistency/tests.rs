//! What is asked is read from either place; what cannot be meant is refused.

use fader_chain::{EntryId, RequestId, Stamp};
use fader_services::level::{Bound, Level, Outcome, Outcomes, SettlementNotice};
use proptest::prelude::*;

use super::*;

/// What a request with these headers and parameters asks.
fn ask(headers: &[(&str, &str)], form: &str) -> Result<Option<RequestConsistency>, Error> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let name = HeaderName::try_from(*name).unwrap();
        map.append(name, HeaderValue::from_str(value).unwrap());
    }
    let parameters = Parameters::read(b"", form.as_bytes(), 100).unwrap();
    asked(&map, &parameters)
}

fn consistency(headers: &[(&str, &str)], form: &str) -> ConsistencyOptions {
    ask(headers, form).unwrap().unwrap().consistency
}

#[test]
fn silence_is_no_question() {
    let headers = [
        ("host", "h"),
        ("x-amz-date", "20261120T212043Z"),
        ("x-fade", ""),
    ];
    assert_eq!(
        ask(&headers, "Action=Select&Fade=1&fader-session=").unwrap(),
        None
    );
}

#[test]
fn headers_and_parameters_ask_the_same() {
    let expected = ConsistencyOptions {
        level: Level::Eventual {
            r: 2,
            w: 1,
            sloppy: false,
        },
        bound: Some(Bound::Millis(500)),
        session: Some(Bytes::from_static(b"\x00\xffseen")),
        request: Some(RequestId {
            client: 0xc0ffee_u128.into(),
            seq: 7,
            part: 0,
        }),
        outcome: true,
        preference: None,
        digest: 0,
        collection: None,
    };
    let headers = [
        ("X-Fader-Consistency", "eventual; r=2; bound=500ms; outcome"),
        ("x-fader-session", "AP9zZWVu"),
        ("x-fader-request", "c0ffee/7"),
    ];
    let form = "Fader-Consistency=eventual;%20r=2;%20bound=500ms;%20outcome\
                &Fader-Session=AP9zZWVu&Fader-Request=c0ffee/7";
    assert_eq!(consistency(&headers, ""), expected);
    assert_eq!(consistency(&[], form), expected);
    assert_eq!(
        consistency(&headers, form),
        expected,
        "twice the same is no contradiction"
    );
}

#[test]
fn a_session_begins_with_an_empty_token() {
    assert_eq!(
        consistency(&[("x-fader-session", "")], "").session,
        Some(Bytes::new())
    );
}

#[test]
fn a_nature_is_for_what_is_created() {
    let headers = [
        ("x-fader-collection-mode", "mixed"),
        ("x-fader-collection-consistency", "eventual; w=2"),
    ];
    let asked = ask(&headers, "").unwrap().unwrap();
    assert_eq!(asked.consistency, ConsistencyOptions::default());
    let options = asked.options;
    assert_eq!(options.mode, Some(Mode::Mixed));
    let preference = options.preference.map(|preference| preference.to_string());
    assert_eq!(preference.as_deref(), Some("eventual; r=1; w=2"));
    assert_eq!(options.check_is_for(Action::CreateDomain), Ok(()));
    assert_eq!(
        CollectionOptions::default().check_is_for(Action::Select),
        Ok(())
    );
    let refusal = options.check_is_for(Action::Select).unwrap_err();
    assert_eq!(
        refusal.message,
        "The parameter Fader-Collection-Mode can be used with CreateDomain only"
    );
}

#[track_caller]
fn check_refused(headers: &[(&str, &str)], form: &str, code: Code, message: &str) {
    let refusal = ask(headers, form).unwrap_err();
    assert_eq!((refusal.code, &*refusal.message), (code, message));
}

#[test]
fn contradictions_are_refused() {
    let code = Code::InvalidParameterCombination;
    check_refused(
        &[("x-fader-consistency", "strong")],
        "Fader-Consistency=barrier",
        code,
        "The parameter x-fader-consistency cannot be used with another value of the parameter \
         Fader-Consistency",
    );
    check_refused(
        &[("x-fader-session", ""), ("x-fader-session", "AA")],
        "",
        code,
        "The parameter x-fader-session cannot be used with another value of the parameter \
         x-fader-session",
    );
}

#[test]
fn unknown_values_are_refused_with_a_list_of_known_ones() {
    let code = Code::InvalidParameterValue;
    check_refused(
        &[("x-fader-consistancy", "strong")],
        "",
        code,
        "Value (strong) for parameter x-fader-consistancy is invalid. What can be asked for is \
         x-fader-consistency, x-fader-session, x-fader-request, x-fader-collection-mode, \
         x-fader-collection-consistency.",
    );
    check_refused(
        &[],
        "Fader-Level=strong",
        code,
        "Value (strong) for parameter Fader-Level is invalid. What can be asked for is \
         Fader-Consistency, Fader-Session, Fader-Request, Fader-Collection-Mode, \
         Fader-Collection-Consistency.",
    );
    check_refused(
        &[("x-fader-consistency", "weak")],
        "",
        code,
        "Value (weak) for parameter x-fader-consistency is invalid. 'weak' is no level: one of \
         strong, barrier, eventual and default.",
    );
    check_refused(
        &[],
        "Fader-Collection-Mode=loose",
        code,
        "Value (loose) for parameter Fader-Collection-Mode is invalid. 'loose' is no mode of a \
         collection: one of strong, mixed and eventual.",
    );
    for (name, value) in [
        ("Fader-Consistency", "strong;%20r=2"),
        ("Fader-Consistency", ""),
        ("Fader-Request", "me"),
        ("Fader-Session", "*"),
        ("Fader-Session", "AA=="),
    ] {
        let refusal = ask(&[], &format!("{name}={value}")).unwrap_err();
        assert_eq!(refusal.code, code, "{name}={value}");
    }
}

#[test]
fn a_retry_has_the_digest_of_its_request() {
    let of = |account: &str, form: &str| {
        let parameters = Parameters::read(b"", form.as_bytes(), 100).unwrap();
        digest(&AccountId(account.to_owned()), &parameters)
    };
    let form = "Action=PutAttributes&DomainName=cats&Attribute.1.Name=a&Attribute.1.Value=bc";
    let first = of("000000000001", form);
    let retry = "&Timestamp=later&Signature=other&X-Amz-Date=later&Fader-Session=AA";
    assert_eq!(of("000000000001", &format!("{form}{retry}")), first);
    for (account, form) in [
        ("000000000002", form.to_owned()),
        ("000000000001", form.replace("=bc", "=b")),
        (
            "000000000001",
            form.replace("=a&", "=ab&").replace("=bc", "=c"),
        ),
        ("000000000001", format!("{form}&Attribute.1.Replace=true")),
    ] {
        assert_ne!(of(account, &form), first, "{account} {form}");
    }
}

#[test]
fn reply_metadata_is_in_headers() {
    let name = RequestId {
        client: 1_u128.into(),
        seq: 2,
        part: 0,
    };
    let outcome = Outcome::Superseded(None);
    let metadata = ReplyMetadata {
        stamp: Some(Stamp::strong(EntryId::new(3, 4))),
        version: Some(EntryId::new(3, 4)),
        tentative: true,
        outcome: Some(Outcomes::single(outcome)),
        session: Some(Bytes::from_static(b"\x00\xffseen")),
        settled: vec![SettlementNotice { name, outcome }; 2],
    };
    let mut headers = HeaderMap::new();
    tell(&ReplyMetadata::default(), &mut headers);
    assert!(headers.is_empty());
    tell(&metadata, &mut headers);
    let told: Vec<_> = headers
        .iter()
        .map(|(name, value)| format!("{name}: {value:?}"))
        .collect();
    expect_test::expect![[r#"
        x-fader-stamp: "3.4"
        x-fader-version: "3.4"
        x-fader-tentative: "true"
        x-fader-outcome: "superseded"
        x-fader-session: "AP9zZWVu"
        x-fader-settled: "00000000000000000000000000000001/2 superseded"
        x-fader-settled: "00000000000000000000000000000001/2 superseded""#]]
    .assert_eq(&told.join("\n"));
}

proptest! {
    #[test]
    fn nothing_is_too_strange_to_be_judged(
        name in prop::sample::select(NAMES.to_vec()),
        value in prop::collection::vec(prop_oneof![0x20_u8..=0x7e, 0x80_u8..], 0..80),
        words in "(eventual|strong)[;=a-z0-9 ]{0,20}",
    ) {
        for value in [&value[..], words.as_bytes()] {
            let mut headers = HeaderMap::new();
            headers.insert(name.header, HeaderValue::from_bytes(value).unwrap());
            let parameters = Parameters::read(b"", b"", 0).unwrap();
            match asked(&headers, &parameters) {
                Ok(asked) => prop_assert!(asked.is_some()),
                Err(refusal) => prop_assert_eq!(refusal.code, Code::InvalidParameterValue),
            }
        }
    }
}
