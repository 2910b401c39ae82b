//! What policies say.

use proptest::prelude::*;
use serde_json::Value as Json;

use super::*;

const ARN: &str = "arn:aws:sqs:us-east-1:000000000001:jobs";
/// 2026-11-24T10:00:00Z.
const NOW_MS: u64 = 1_795_514_400_000;

fn key(account: &str) -> Principal {
    Principal::Key((account.to_owned(), "AK1".to_owned()))
}

fn says(statements: &str, principal: Principal, action: &str) -> Verdict {
    says_with(statements, principal, action, &[])
}

fn says_with(
    statements: &str,
    principal: Principal,
    action: &str,
    keys: &[(&str, &str)],
) -> Verdict {
    let policy = Policy::parse(&format!(r#"{{"Statement":{statements}}}"#)).unwrap();
    let mut ask = Ask::new(principal, action, ARN, NOW_MS);
    for (key, value) in keys {
        ask.set(key, value);
    }
    policy.evaluate(&ask)
}

/// It shows PO-1.
#[test]
fn a_denial_goes_before_what_is_allowed() {
    let allow = r#"{"Effect":"Allow","Principal":"*","Action":"sqs:*"}"#;
    let deny = r#"{"Effect":"Deny","Principal":{"AWS":"000000000002"},"Action":"sqs:SendMessage"}"#;
    let both = format!("[{allow},{deny}]");
    let send = "sqs:SendMessage";
    assert_eq!(says(&both, key("000000000001"), send), Verdict::Allowed);
    assert_eq!(says(&both, key("000000000002"), send), Verdict::Denied);
    assert_eq!(
        says(&both, key("000000000002"), "sqs:ReceiveMessage"),
        Verdict::Allowed
    );
    assert_eq!(
        says(&format!("[{deny}]"), key("000000000001"), send),
        Verdict::Silent
    );
}

/// It shows PO-3.
#[test]
fn principals_are_accounts_roots_keys_and_all() {
    let of =
        |principal: &str| format!(r#"{{"Effect":"Allow","Principal":{principal},"Action":"*"}}"#);
    let one = key("000000000001");
    for (principal, asks, verdict) in [
        (r#""*""#, Principal::Anonymous, Verdict::Allowed),
        (r#"{"AWS":"*"}"#, Principal::Anonymous, Verdict::Allowed),
        (r#"{"AWS":"000000000001"}"#, one.clone(), Verdict::Allowed),
        (
            r#"{"AWS":["1","arn:aws:iam::000000000001:root"]}"#,
            one.clone(),
            Verdict::Allowed,
        ),
        (
            r#"{"AWS":"arn:aws:iam::000000000001:user/AK1"}"#,
            one.clone(),
            Verdict::Allowed,
        ),
        (
            r#"{"AWS":"arn:aws:iam::000000000001:user/AK2"}"#,
            one.clone(),
            Verdict::Silent,
        ),
        (r#"{"AWS":"000000000002"}"#, one.clone(), Verdict::Silent),
        (
            r#"{"AWS":"000000000001"}"#,
            Principal::Anonymous,
            Verdict::Silent,
        ),
        (
            r#"{"Service":"sns.amazonaws.com"}"#,
            one.clone(),
            Verdict::Silent,
        ),
    ] {
        assert_eq!(says(&of(principal), asks, "sqs:X"), verdict, "{principal}");
    }
    let but = r#"{"Effect":"Deny","NotPrincipal":{"AWS":"000000000001"},"Action":"*"}"#;
    assert_eq!(says(but, one, "sqs:X"), Verdict::Silent);
    assert_eq!(says(but, key("000000000002"), "sqs:X"), Verdict::Denied);
}

#[test]
fn actions_and_resources_have_wildcards() {
    let of = |part: &str| format!(r#"{{"Effect":"Allow","Principal":"*",{part}}}"#);
    for (part, verdict) in [
        (r#""Action":"SQS:sendmessage""#, Verdict::Allowed),
        (
            r#""Action":["sqs:Receive*","sqs:Send?essage"]"#,
            Verdict::Allowed,
        ),
        (r#""Action":"sqs:Send""#, Verdict::Silent),
        (r#""NotAction":"sqs:Send*""#, Verdict::Silent),
        (r#""NotAction":"sqs:Receive*""#, Verdict::Allowed),
        (
            r#""Action":"*","Resource":"arn:aws:sqs:*:*:jobs""#,
            Verdict::Allowed,
        ),
        (
            r#""Action":"*","Resource":"arn:aws:sqs:*:*:j?bs*""#,
            Verdict::Allowed,
        ),
        (
            r#""Action":"*","Resource":"arn:aws:sqs:*:*:Jobs""#,
            Verdict::Silent,
        ),
        (r#""Action":"*","NotResource":"*jobs""#, Verdict::Silent),
    ] {
        assert_eq!(
            says(&of(part), key("1"), "sqs:SendMessage"),
            verdict,
            "{part}"
        );
    }
}

#[test]
fn conditions_compare_what_is_known_of_the_request() {
    let keys = [
        ("aws:SourceIp", "10.1.2.3"),
        ("x:n", "5"),
        ("x:s", "Abc"),
        ("x:b", "true"),
    ];
    let holds = |condition: &str| {
        let statement =
            format!(r#"{{"Effect":"Allow","Principal":"*","Action":"*","Condition":{condition}}}"#);
        says_with(&statement, key("1"), "sqs:X", &keys) == Verdict::Allowed
    };
    for condition in [
        r#"{"StringEquals":{"x:s":"Abc"}}"#,
        r#"{"StringEquals":{"X:S":["x","Abc"]}}"#,
        r#"{"StringNotEquals":{"x:s":["a","b"]}}"#,
        r#"{"StringNotEquals":{"x:none":"a"}}"#,
        r#"{"StringEqualsIfExists":{"x:none":"a"}}"#,
        r#"{"StringEqualsIgnoreCase":{"x:s":"aBC"}}"#,
        r#"{"StringLike":{"x:s":"A*c"}}"#,
        r#"{"StringNotLike":{"x:s":"B*"}}"#,
        r#"{"ArnLike":{"aws:PrincipalArn":"arn:aws:iam::1:user/*"}}"#,
        r#"{"NumericEquals":{"x:n":5}}"#,
        r#"{"NumericLessThan":{"x:n":"5.5"},"NumericGreaterThanEquals":{"x:n":"5"}}"#,
        r#"{"NumericNotEquals":{"x:n":"6"}}"#,
        r#"{"DateGreaterThan":{"aws:CurrentTime":"2026-11-24T09:59:59Z"}}"#,
        r#"{"DateLessThanEquals":{"aws:CurrentTime":"2026-11-24T10:00:00Z"}}"#,
        r#"{"DateLessThan":{"aws:EpochTime":"1795514401"}}"#,
        r#"{"DateGreaterThan":{"aws:CurrentTime":"2024-02-29"}}"#,
        r#"{"Bool":{"x:b":true}}"#,
        r#"{"Null":{"x:none":"true","x:s":"false"}}"#,
        r#"{"IpAddress":{"aws:SourceIp":["192.168.0.0/16","10.0.0.0/8"]}}"#,
        r#"{"NotIpAddress":{"aws:SourceIp":"10.2.0.0/16"}}"#,
    ] {
        assert!(holds(condition), "{condition}");
    }
    for condition in [
        r#"{"StringEquals":{"x:s":"abc"}}"#,
        r#"{"StringEquals":{"x:none":"a"}}"#,
        r#"{"StringNotEquals":{"x:s":["a","Abc"]}}"#,
        r#"{"StringEqualsIfExists":{"x:s":"a"}}"#,
        r#"{"StringEquals":{"x:s":"Abc"},"Bool":{"x:b":"false"}}"#,
        r#"{"NumericGreaterThan":{"x:n":"5"}}"#,
        r#"{"NumericEquals":{"x:s":"5"}}"#,
        r#"{"DateLessThan":{"aws:CurrentTime":"2026-11-24T10:00:00Z"}}"#,
        r#"{"Null":{"x:s":"true"}}"#,
        r#"{"IpAddress":{"aws:SourceIp":"11.0.0.0/8"}}"#,
        r#"{"IpAddress":{"aws:SourceIp":"fe80::/16"}}"#,
        r#"{"IpAddress":{"x:none":"10.0.0.0/8"}}"#,
    ] {
        assert!(!holds(condition), "{condition}");
    }
}

/// It shows PO-2.
#[test]
fn unknown_input_is_refused() {
    let whole = r#"{"Effect":"Allow","Principal":"*","Action":"*"}"#;
    assert!(
        Policy::parse(&format!(
            r#"{{"Version":"2012-10-17","Statement":{whole}}}"#
        ))
        .is_ok()
    );
    let with = |part: &str| {
        format!(r#"{{"Statement":[{{"Effect":"Allow","Principal":"*","Action":"*",{part}}}]}}"#)
    };
    let many = format!(r#"{{"Statement":[{}]}}"#, vec![whole; 101].join(","));
    for text in [
        "",
        "[]",
        "{}",
        r#"{"Statement":[7]}"#,
        r#"{"Statement":[{"Principal":"*","Action":"*"}]}"#,
        r#"{"Statement":[{"Effect":"Perhaps","Principal":"*","Action":"*"}]}"#,
        r#"{"Statement":[{"Effect":"Allow","Action":"*"}]}"#,
        r#"{"Statement":[{"Effect":"Allow","Principal":"*"}]}"#,
        r#"{"Statement":[{"Effect":"Allow","Principal":"me","Action":"*"}]}"#,
        &format!(r#"{{"Version":"2020-01-01","Statement":{whole}}}"#),
        &format!(r#"{{"Statement":{whole},"More":1}}"#),
        &many,
        &with(r#""NotAction":"*""#),
        &with(r#""Condition":7"#),
        &with(r#""Condition":{"StringEqual":{"a":"b"}}"#),
        &with(r#""Condition":{"ForAllValues:StringEquals":{"a":"b"}}"#),
        &with(r#""Condition":{"NullIfExists":{"a":"true"}}"#),
        &with(r#""Condition":{"Bool":{"a":"yes"}}"#),
        &with(r#""Condition":{"IpAddress":{"a":"10.0.0.0/33"}}"#),
        &with(r#""Condition":{"NumericEquals":{"a":"many"}}"#),
        &with(r#""Condition":{"DateEquals":{"a":"2026-13-01"}}"#),
        &with(r#""Extra":1"#),
    ] {
        assert!(Policy::parse(text).is_err(), "{text}");
    }
}

fn naive(pattern: &[char], text: &[char]) -> bool {
    match pattern.split_first() {
        None => text.is_empty(),
        Some(('*', rest)) => (0..=text.len()).any(|at| naive(rest, &text[at..])),
        Some(('?', rest)) => !text.is_empty() && naive(rest, &text[1..]),
        Some((one, rest)) => text.first() == Some(one) && naive(rest, &text[1..]),
    }
}

proptest! {
    #[test]
    fn wildcards_match_as_defined(pattern in "[ab*?]{0,8}", text in "[ab]{0,8}") {
        let (p, t): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
        prop_assert_eq!(matches(&pattern, &text), naive(&p, &t));
    }

    #[test]
    fn no_document_panics(text in "[{}\\[\\]\":,a-zA-Z0-9* ]{0,80}") {
        drop(Policy::parse(&text));
    }

    /// Words of policies with values of any type: read, or refused, and asked in bounded time.
    #[test]
    fn policies_of_any_types_are_refused_or_judge(
        statement in statements(),
        is_list in any::<bool>(),
    ) {
        let statement = match is_list {
            true => Json::from(vec![statement]),
            false => statement,
        };
        let text = serde_json::json!({"Version": "2012-10-17", "Statement": statement}).to_string();
        if let Ok(policy) = Policy::parse(&text) {
            let mut ask = Ask::new(Principal::Anonymous, "sqs:SendMessage", "arn:aws:sqs:r:1:q", 0);
            ask.set("aws:SourceIp", "127.0.0.1");
            policy.evaluate(&ask);
        }
    }
}

fn statements() -> impl Strategy<Value = Json> {
    let word = prop_oneof![
        Just("Allow"),
        Just("Deny"),
        Just("*"),
        Just("sqs:*"),
        Just("AWS"),
        Just("arn:aws:iam::000000000001:root"),
        Just("arn:aws:sqs:*:*:q*"),
        Just("IpAddress"),
        Just("aws:SourceIp"),
        Just("127.0.0.0/8"),
        Just("StringLikeIfExists"),
        Just("DateLessThan"),
        Just("2026-01-01T00:00:00Z"),
        Just("true"),
        Just(""),
    ];
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<f64>().prop_map(Json::from),
        word.clone().prop_map(Json::from),
    ];
    let value = leaf.prop_recursive(3, 20, 4, move |inner| {
        let pairs = proptest::collection::btree_map(word.clone(), inner.clone(), 0..4);
        prop_oneof![
            proptest::collection::vec(inner, 0..4).prop_map(Json::from),
            pairs.prop_map(|pairs| {
                let pairs = pairs.into_iter();
                Json::Object(pairs.map(|(name, it)| (name.to_owned(), it)).collect())
            }),
        ]
    });
    let names = prop_oneof![
        Just("Effect"),
        Just("Principal"),
        Just("Action"),
        Just("Resource"),
        Just("Condition"),
        Just("NotAction"),
        Just("Sid"),
    ];
    let good = serde_json::json!({
        "Effect": "Allow", "Principal": "*", "Action": "sqs:*", "Resource": "*",
    });
    // One that is right, with some of it replaced.
    proptest::collection::vec((names, value), 0..3).prop_map(move |replaced| {
        let mut statement = good.clone();
        for (name, value) in replaced {
            statement[name] = value;
        }
        statement
    })
}

#[test]
fn a_policy_for_fixed_values_is_not_public() {
    let is_public = |condition: &str| {
        let text = format!(
            r#"{{"Statement":{{"Effect":"Allow","Principal":"*","Action":"s3:GetObject",
                "Resource":"*","Condition":{condition}}}}}"#
        );
        Policy::parse(&text).unwrap().is_public()
    };
    for condition in [
        r#"{"IpAddress":{"aws:SourceIp":"10.0.0.0/8"}}"#,
        r#"{"StringEquals":{"aws:SourceVpce":"vpce-1"}}"#,
        r#"{"StringEquals":{"aws:PrincipalOrgID":["o-1","o-2"]}}"#,
        r#"{"ArnEquals":{"aws:SourceArn":"arn:aws:sns:us-east-1:000000000001:topic"}}"#,
    ] {
        assert!(!is_public(condition), "{condition}");
    }
    for condition in [
        "{}",
        r#"{"IpAddress":{"aws:SourceIp":"0.0.0.0/1"}}"#,
        r#"{"StringNotEquals":{"aws:SourceVpce":"vpce-1"}}"#,
        r#"{"StringLike":{"aws:SourceVpce":"vpce-*"}}"#,
        r#"{"StringEquals":{"aws:Referer":"here"}}"#,
    ] {
        assert!(is_public(condition), "{condition}");
    }
}
