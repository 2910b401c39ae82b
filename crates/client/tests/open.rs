//! Clouds by their URLs: what opens, what is refused, and what is counted.

#![allow(clippy::unwrap_used, reason = "a test may fail here")]

use std::time::Duration;

use fader_client::{
    Access, Environment, Options, Service, ServiceLocation, check, open, open_all, open_queues,
};
use fader_cloud::RequestKind::{ObjectCopy, ObjectDelete, ObjectList, ObjectPut};
use fader_cloud::{ErrorKind, QueueSettings, Receive};
use object_store::ObjectStoreExt;
use object_store::path::Path;

fn options() -> Options {
    Options {
        environment: Environment::of([]),
        ..Options::default()
    }
}

const ANY: Receive = Receive {
    max: 10,
    visibility: Some(Duration::from_secs(60)),
    wait: Duration::ZERO,
};

#[tokio::test]
async fn memory_and_folders_have_objects_and_queues() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("file://{}", folder.path().display());
    for url in ["mem://", url.as_str()] {
        let cloud = open(url, &options()).await.unwrap();
        cloud
            .objects
            .put(&Path::from("a/b"), "body".into())
            .await
            .unwrap();
        let settings = QueueSettings::default();
        cloud.queues.create("work", &settings).await.unwrap();
        let sent = cloud
            .queues
            .send("work", &["one".to_owned()])
            .await
            .unwrap();
        assert!(sent[0].is_ok());
        let received = cloud.queues.receive("work", &ANY).await.unwrap();
        assert_eq!(received[0].body, "one");
    }
    // What is in a folder is there when it is opened again.
    let cloud = open(&url, &options()).await.unwrap();
    assert_eq!(cloud.queues.list("").await.unwrap(), ["work"]);
    let body = cloud.objects.get(&Path::from("a/b")).await.unwrap();
    assert_eq!(body.bytes().await.unwrap(), "body");
    assert!(check(&url, &options()).await.unwrap().is_intact());
}

/// It shows OPEN-1.
#[tokio::test]
async fn memory_and_folders_are_probed_and_metered() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("file://{}", folder.path().display());
    for url in ["mem://", url.as_str()] {
        let options = options();
        let opened = open_all(url, &options).await.unwrap();
        let findings = opened.findings.unwrap();
        assert!(findings.is_intact(), "{url}: {findings:?}");
        let probed = options.meter.usage();
        assert!((15..=20).contains(&probed.requests()), "{probed:?}");
        let at = Path::from("a");
        opened.cloud.objects.put(&at, "body".into()).await.unwrap();
        let used = options.meter.usage().since(&probed);
        let counts: Vec<_> = used.counts().collect();
        let (kind, status, count) = counts[0];
        assert_eq!((counts.len(), kind, status), (1, ObjectPut, Some(200)));
        assert_eq!((count.requests, count.sent_bytes), (1, 4));
    }
    // The folder remembers.
    let options = options();
    let opened = open_all(&url, &options).await.unwrap();
    assert!(opened.findings.unwrap().is_remembered);
    assert_eq!(options.meter.usage().requests(), 1);
}

/// It shows OPEN-2.
#[tokio::test]
async fn a_dry_run_of_a_sweep_sends_no_write() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("file://{}", folder.path().display());
    let cloud = open(&url, &options()).await.unwrap();
    cloud.domains.create("dom").await.unwrap();
    cloud.domains.delete("dom").await.unwrap();
    let settings = QueueSettings::default();
    cloud.queues.create("work", &settings).await.unwrap();
    cloud.queues.delete("work").await.unwrap();
    let options = Options {
        access: Access::Read,
        ..options()
    };
    let opened = open_all(&url, &options).await.unwrap();
    opened.bucket_queues.unwrap().sweep(true).await.unwrap();
    opened.bucket_domains.unwrap().sweep(true).await.unwrap();
    let usage = options.meter.usage();
    assert!(0 < usage.of(ObjectList).requests);
    for kind in [ObjectPut, ObjectCopy, ObjectDelete] {
        assert_eq!(usage.of(kind).requests, 0, "{usage:?}");
    }
}

#[tokio::test]
async fn access_keys_are_found_where_aws_tools_look() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join(".aws/credentials");
    std::fs::create_dir(file.parent().unwrap()).unwrap();
    let text = "# a comment\n[default]\naws_access_key_id = DEFAULT\n\
                aws_secret_access_key=s\n[ shop ]\n aws_access_key_id=SHOP\n\
                aws_secret_access_key = a=b\naws_session_token = t\n[half]\n\
                aws_access_key_id=HALF\n";
    std::fs::write(&file, text).unwrap();
    let home = ("HOME", home.path().to_str().unwrap());
    let variables = [
        ("AWS_ACCESS_KEY_ID", "VARIABLE"),
        ("AWS_SECRET_ACCESS_KEY", "s"),
    ];
    let key = |environment: &Environment, profile| {
        let found = environment.access_key(profile);
        let found = found.map_err(|error| error.to_string());
        found.map(|found| found.map(|key| key.access_key().to_owned()))
    };
    let found = |key: &str| Ok(Some(key.to_owned()));
    let of_file = Environment::of([home]);
    assert_eq!(key(&of_file, None), found("DEFAULT"));
    assert_eq!(key(&of_file, Some("shop")), found("SHOP"));
    let of_profile = Environment::of([home, ("AWS_PROFILE", "shop")]);
    assert_eq!(key(&of_profile, None), found("SHOP"));
    // A profile that a caller names goes before the variables, the environment's does not.
    let [id, secret] = variables;
    let of_both = Environment::of([home, ("AWS_PROFILE", "shop"), id, secret]);
    assert_eq!(key(&of_both, None), found("VARIABLE"));
    assert_eq!(key(&of_both, Some("default")), found("DEFAULT"));
    for wrong in ["half", "nowhere"] {
        let error = key(&of_both, Some(wrong)).unwrap_err();
        assert!(
            error.contains(wrong) && error.contains(".aws/credentials"),
            "{error}"
        );
    }
    assert_eq!(key(&Environment::of([]), None), Ok(None));
    // A session's token of the file is a token: sqs:// refuses it.
    let options = Options {
        environment: of_profile,
        ..options()
    };
    let error = open_queues("sqs://", &options).await.unwrap_err();
    assert!(error.to_string().contains("aws_session_token"), "{error}");
}

#[tokio::test]
async fn a_missing_credential_is_named_with_its_variable() {
    for (url, variable) in [
        ("s3://bucket", "AWS_ACCESS_KEY_ID"),
        ("gs://bucket", "GOOGLE_APPLICATION_CREDENTIALS"),
        ("az://container", "AZURE_STORAGE_ACCOUNT"),
        ("az://container?account=a", "AZURE_STORAGE_KEY"),
    ] {
        let error = open(url, &options()).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Invalid);
        assert!(error.to_string().contains(variable), "{url}: {error}");
        assert!(error.to_string().contains("set "), "{url}: {error}");
    }
    let error = open_queues("sqs://", &options()).await.unwrap_err();
    assert!(error.to_string().contains("AWS_ACCESS_KEY_ID"), "{error}");
}

#[tokio::test]
async fn a_session_token_is_refused_where_signatures_have_no_place_for_it() {
    let environment = Environment::of([
        ("AWS_ACCESS_KEY_ID", "id"),
        ("AWS_SECRET_ACCESS_KEY", "hunter2"),
        ("AWS_SESSION_TOKEN", "hunter3"),
    ]);
    let options = Options {
        environment,
        ..Options::default()
    };
    let error = open_queues("sqs://", &options).await.unwrap_err();
    assert!(
        error.to_string().contains("unset AWS_SESSION_TOKEN"),
        "{error}"
    );
    assert!(!format!("{options:?} {error:?}").contains("hunter"));
}

#[tokio::test]
async fn queues_and_domains_may_be_at_services() {
    let sqs = "sqs://shop-?endpoint=http://127.0.0.1:1&unsigned=true";
    let options = Options {
        queues: ServiceLocation::parse(sqs, Service::Sqs).unwrap(),
        ..options()
    };
    let cloud = open("mem://", &options).await.unwrap();
    // Nothing listens there: the call went to the service, and not into the bucket.
    let error = cloud.queues.list("").await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable { retry_after: None });
}
