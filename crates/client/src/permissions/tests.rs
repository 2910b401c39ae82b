//! The bytes of requests that set permissions.

use super::*;

const POLICY: &str = concat!(
    r#"{"Statement":[{"Action":"s3:GetObject","Effect":"Allow","#,
    r#""Principal":{"AWS":"arn:aws:iam::000000000002:root"},"#,
    r#""Resource":["arn:aws:s3:::shop/books/db/*"],"Sid":"FaderRead72f08a56c7443239"},"#,
    r#"{"Action":"s3:ListBucket","Effect":"Allow","#,
    r#""Principal":{"AWS":"arn:aws:iam::000000000002:root"},"#,
    r#""Resource":"arn:aws:s3:::shop","Sid":"FaderLista6d8268113bef8bc"},"#,
    r#"{"Action":["s3:PutObject","s3:DeleteObject"],"Effect":"Allow","#,
    r#""Principal":{"AWS":"arn:aws:iam::000000000002:root"},"#,
    r#""Resource":["arn:aws:s3:::shop/books/db/values/*"],"#,
    r#""Sid":"FaderWrite48a3cfc1acc0a4ab"}],"Version":"2012-10-17"}"#,
);

fn location(prefix: &str) -> BucketLocation {
    BucketLocation {
        provider: Provider::S3,
        name: "shop".to_owned(),
        prefix: prefix.to_owned(),
        endpoint: None,
        is_unsigned: false,
    }
}

fn account() -> Principal {
    "000000000002".parse().expect("an account")
}

fn permissions() -> Permissions {
    Permissions {
        reads: vec!["db".to_owned()],
        writes: vec!["db/values".to_owned()],
        ..Permissions::default()
    }
}

fn empty() -> Value {
    json!({ "Version": "2012-10-17", "Statement": [] })
}

#[test]
fn a_policy_has_what_was_asked_for_and_nothing_else() {
    let new = statements(&location("books"), &account(), &permissions());
    let policy = with_statements(empty(), new).expect("a policy");
    assert_eq!(policy.to_string(), POLICY);
}

#[test]
fn without_a_prefix_keys_begin_with_their_folder() {
    let new = statements(&location(""), &account(), &permissions());
    assert_eq!(new[0]["Resource"], json!(["arn:aws:s3:::shop/db/*"]));
}

/// It shows PERM-1.
#[test]
fn other_statements_stay_and_own_ones_are_replaced() {
    let other = json!({ "Effect": "Deny", "Principal": "*", "Action": "s3:*", "Resource": "x" });
    let policy = json!({ "Version": "2008-10-17", "Id": "i", "Statement": other });
    let new = || statements(&location("books"), &account(), &permissions());
    let once = with_statements(policy, new()).expect("a policy");
    let twice = with_statements(once.clone(), new()).expect("a policy");
    assert_eq!(once, twice);
    assert_eq!(once["Statement"][0], other);
    assert_eq!(once["Id"], "i");
    assert_eq!(once["Statement"].as_array().map(Vec::len), Some(4));
    // Another database, and another account, have statements of their own.
    let more = statements(&location("music"), &account(), &permissions());
    let more = with_statements(twice, more).expect("a policy");
    let user = "arn:aws:iam::000000000002:user/bob"
        .parse()
        .expect("a user");
    let of_user = statements(&location("music"), &user, &permissions());
    let all = with_statements(more, of_user).expect("a policy");
    assert_eq!(all["Statement"].as_array().map(Vec::len), Some(10));
}

#[test]
fn a_policy_without_statements_is_not_replaced() {
    let found = with_statements(json!({ "Version": "2012-10-17" }), Vec::new());
    assert_eq!(found.expect_err("no statements").kind, ErrorKind::Malformed);
}

#[test]
fn a_permission_names_an_account_and_actions() {
    let body = permission("http://h/1/q", &account(), false);
    let expected = concat!(
        r#"{"AWSAccountIds":["000000000002"],"Actions":["SendMessage","GetQueueUrl"],"#,
        r#""Label":"fader-send-000000000002","QueueUrl":"http://h/1/q"}"#,
    );
    assert_eq!(body.to_string(), expected);
    let body = permission("http://h/1/q", &account(), true);
    let expected = concat!(
        r#"{"AWSAccountIds":["000000000002"],"Actions":["SendMessage","ReceiveMessage","#,
        r#""DeleteMessage","ChangeMessageVisibility","GetQueueAttributes","GetQueueUrl"],"#,
        r#""Label":"fader-use-000000000002","QueueUrl":"http://h/1/q"}"#,
    );
    assert_eq!(body.to_string(), expected);
}

#[test]
fn principals_are_accounts_users_and_roles() {
    assert!(!account().is_part());
    let user: Principal = "arn:aws:iam::123456789012:user/a:b"
        .parse()
        .expect("a user");
    assert!(user.is_part());
    assert_eq!(user.account(), "123456789012");
    for bad in [
        "",
        "12345678901",
        "arn:aws:s3:::bucket",
        "arn:aws:iam::x:user/a",
        "*",
    ] {
        assert!(bad.parse::<Principal>().is_err(), "{bad}");
    }
}
