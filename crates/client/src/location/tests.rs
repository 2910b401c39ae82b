//! URLs as users write them: what is read, and how the rest is refused.

#![allow(clippy::unwrap_used, reason = "a test may fail here")]

use super::*;

fn bucket(text: &str) -> BucketLocation {
    match Location::parse(text).unwrap() {
        Location::Bucket(bucket) => bucket,
        other => panic!("{other:?}"),
    }
}

fn refusal(text: &str) -> String {
    Location::parse(text).unwrap_err().to_string()
}

#[test]
fn each_provider_has_a_scheme() {
    let found = bucket("s3://shop/eu/today?endpoint=http://127.0.0.1:9000");
    let expected = BucketLocation {
        provider: Provider::S3,
        name: "shop".to_owned(),
        prefix: "eu/today".to_owned(),
        endpoint: Some("http://127.0.0.1:9000".to_owned()),
        is_unsigned: false,
    };
    assert_eq!(found, expected);
    assert_eq!(bucket("gs://shop").provider, Provider::Gcs);
    assert_eq!(bucket("gs://shop/?unsigned=true").prefix, "");
    assert!(bucket("gs://shop/?unsigned=true").is_unsigned);
    let azure = bucket("az://shop/eu?account=mine");
    assert_eq!(azure.provider, Provider::Azure(Some("mine".to_owned())));
    assert_eq!(bucket("az://shop").provider, Provider::Azure(None));
    let folder = Location::parse("file:///var/lib/a%20shop").unwrap();
    assert_eq!(folder, Location::Folder("/var/lib/a shop".into()));
    assert_eq!(Location::parse("mem://").unwrap(), Location::Memory);
}

#[test]
fn endpoints_may_be_escaped_and_end_with_a_slash() {
    let escaped = "s3://b?endpoint=http%3A%2F%2Flocalhost%3A9000%2F";
    assert_eq!(
        bucket(escaped).endpoint.as_deref(),
        Some("http://localhost:9000")
    );
}

#[test]
fn queues_and_domains_are_in_the_bucket_or_at_a_service() {
    let parsed = ServiceLocation::parse("bucket", Service::Sqs).unwrap();
    assert_eq!(parsed, ServiceLocation::Bucket);
    let parsed = ServiceLocation::parse("sqs://shop-?endpoint=http://h:1", Service::Sqs).unwrap();
    let expected = ServiceLocation::Service {
        service: Service::Sqs,
        prefix: "shop-".to_owned(),
        endpoint: Some("http://h:1".to_owned()),
        is_unsigned: false,
    };
    assert_eq!(parsed, expected);
    let parsed = ServiceLocation::parse("simpledb://", Service::SimpleDb).unwrap();
    assert!(matches!(parsed, ServiceLocation::Service { prefix, .. } if prefix.is_empty()));
}

/// It shows LOC-2.
#[test]
fn written_urls_are_read_as_the_same() {
    for text in [
        "s3://b/p/q?endpoint=http://127.0.0.1:9000&unsigned=true",
        "gs://b",
        "az://c/p?account=mine&endpoint=https://mine.example",
        "file:///var/lib/shop",
        "mem://",
    ] {
        assert_eq!(Location::parse(text).unwrap().to_string(), text);
    }
    for (text, service) in [
        ("bucket", Service::Sqs),
        ("sqs://shop-?endpoint=http://h:1", Service::Sqs),
        ("simpledb://?unsigned=true", Service::SimpleDb),
    ] {
        let parsed = ServiceLocation::parse(text, service).unwrap();
        assert_eq!(parsed.to_string(), text);
    }
}

/// It shows LOC-1.
#[test]
fn secrets_are_refused_and_not_repeated() {
    for text in [
        "s3://AKID:hunter2@bucket/p",
        "s3://hunter2@bucket",
        "s3://bucket?secret_access_key=hunter2",
        "s3://bucket?Token=hunter2",
        "az://c?sig=hunter2",
        "gs://b?key=hunter2",
        "s3://b?endpoint=http://me:hunter2@host:9000",
        "hunter2",
    ] {
        let said = refusal(text);
        assert!(!said.contains("hunter2"), "{said}");
    }
    assert!(refusal("s3://a:b@bucket").contains("set AWS_ACCESS_KEY_ID"));
    assert!(refusal("az://c?sig=x").contains("AZURE_STORAGE_SAS_TOKEN"));
    assert!(refusal("gs://a@b").contains("GOOGLE_APPLICATION_CREDENTIALS"));
}

#[test]
fn a_mistake_is_reported_with_its_repair() {
    for (text, part) in [
        ("bucket", "s3://BUCKET/PREFIX"),
        ("http://127.0.0.1:9000/b", "begins with s3://"),
        ("s3:///prefix", "name a bucket"),
        (
            "s3://b?region=eu-west-1",
            "unknown parameter \"region\": it takes endpoint, unsigned",
        ),
        ("s3://b?account=mine", "unknown parameter \"account\""),
        ("s3://b?endpoint=http://a&endpoint=http://b", "twice"),
        ("s3://b?endpoint=localhost:9000", "http://host:port"),
        ("s3://b?endpoint=http://h/path", "without a path"),
        ("s3://b?unsigned=perhaps", "true or false"),
        ("s3://b/p#q", "%23"),
        ("file://host/dir", "file:///DIR"),
        ("file:///dir?sync=no", "takes no parameters"),
        ("mem://name", "mem://"),
        ("sqs://q", "--queues"),
    ] {
        let said = refusal(text);
        assert!(said.contains(part), "{text}: {said}");
    }
    let said = ServiceLocation::parse("simpledb://d", Service::Sqs).unwrap_err();
    assert!(
        said.to_string()
            .contains("--queues takes `bucket` or sqs://"),
        "{said}"
    );
    let said = ServiceLocation::parse("sqs://a/b", Service::Sqs).unwrap_err();
    assert!(said.to_string().contains("no `/`"), "{said}");
}
