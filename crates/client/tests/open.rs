//! Clouds by their URLs: what opens, what is refused, and what is counted.

#![allow(clippy::unwrap_used, reason = "a test may fail here")]

use std::time::Duration;

use fader_client::{Environment, Options, Service, ServiceLocation, check, open, open_queues};
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
