//! Objects against a server in the same process. The tests are about puts whose outcome is in
//! doubt, what is sent again, and bodies that are read as they come.

#![allow(clippy::unwrap_used, reason = "a test may fail here")]

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use fader_client::{AzureAccess, Bucket, Credentials, GcsAccess, Http, Settings};
use fader_cloud::{ErrorKind, object_error_kind};
use futures_util::TryStreamExt;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use object_store::path::Path;
use object_store::{
    ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload, PutResult, UpdateVersion,
};
use tokio::net::TcpListener;

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// What became of a put.
#[derive(Clone, Copy, PartialEq)]
enum Put {
    /// The object is put, and that is said.
    Said,
    /// It is put, and the connection is closed without a word.
    Unsaid,
    /// It is not put, and the connection is closed without a word.
    Lost,
    /// It is refused with this status and code.
    Refused(u16, &'static str),
}

/// The one object of a server, and what was asked of it.
#[derive(Default)]
struct Seen {
    puts: Vec<Put>,
    body: Bytes,
    mark: Option<String>,
    asked: Vec<String>,
    /// With what all but puts are refused.
    refuses: Option<(u16, &'static str)>,
}

fn whole(body: impl Into<Bytes>) -> Body {
    Full::new(body.into()).boxed_unsync()
}

/// Answers one request, or closes the connection.
async fn answer(
    request: Request<Incoming>,
    seen: Arc<Mutex<Seen>>,
) -> Result<Response<Body>, &'static str> {
    let (head, body) = request.into_parts();
    let length = head.headers.get("content-length").cloned();
    let body = body.collect().await.unwrap().to_bytes();
    let mut seen = seen.lock().unwrap();
    seen.asked.push(format!("{} {}", head.method, head.uri));
    let reply = Response::builder().header("etag", "\"e1\"");
    let reply = reply.header("last-modified", "Sat, 21 Nov 2026 14:00:00 GMT");
    if head.method == Method::PUT {
        assert_eq!(length.unwrap().to_str().unwrap(), body.len().to_string());
        let put = match seen.puts.is_empty() {
            true => Put::Said,
            false => seen.puts.remove(0),
        };
        if matches!(put, Put::Said | Put::Unsaid) {
            let mark = head.headers.get("x-amz-meta-faderput");
            seen.mark = mark.map(|mark| mark.to_str().unwrap().to_owned());
            seen.body = body;
        }
        return match put {
            Put::Said => Ok(reply.body(whole("")).unwrap()),
            Put::Unsaid | Put::Lost => Err("closed"),
            Put::Refused(status, code) => {
                let text = format!("<Error><Code>{code}</Code></Error>");
                Ok(reply.status(status).body(whole(text)).unwrap())
            }
        };
    }
    if let Some((status, text)) = seen.refuses {
        return Ok(reply.status(status).body(whole(text)).unwrap());
    }
    if seen.body.is_empty() {
        let reply = reply.status(StatusCode::NOT_FOUND);
        return Ok(reply.body(whole("")).unwrap());
    }
    let reply = match &seen.mark {
        Some(mark) => reply.header("x-amz-meta-faderput", mark),
        None => reply,
    };
    if head.method == Method::HEAD {
        let reply = reply.header("content-length", seen.body.len());
        return Ok(reply.body(whole("")).unwrap());
    }
    if head.uri.path().ends_with("stalls") {
        let start: Result<_, Infallible> = Ok(Frame::data(Bytes::from_static(b"start")));
        let rest = futures_util::stream::pending();
        let parts = futures_util::stream::iter([start]);
        let body = StreamBody::new(futures_util::StreamExt::chain(parts, rest));
        let reply = reply.header("content-length", 1_000);
        return Ok(reply.body(body.boxed_unsync()).unwrap());
    }
    Ok(reply.body(whole(seen.body.clone())).unwrap())
}

async fn start(puts: &[Put], settings: &Settings) -> (Bucket, Arc<Mutex<Seen>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let seen = Arc::new(Mutex::new(Seen {
        puts: puts.to_vec(),
        ..Seen::default()
    }));
    let served = Arc::clone(&seen);
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let seen = Arc::clone(&served);
            let answer = service_fn(move |request| answer(request, Arc::clone(&seen)));
            let connection = hyper::server::conn::http1::Builder::new();
            tokio::spawn(connection.serve_connection(TokioIo::new(stream), answer));
        }
    });
    let credentials = Credentials::new("AKIDEXAMPLE", "secret");
    let http = Http::start(fader_window::Settings::default());
    let store = Bucket::s3(http, &endpoint, "bucket", Some(&credentials), settings);
    (store.unwrap(), seen)
}

async fn put(store: &Bucket, mode: PutMode) -> object_store::Result<PutResult> {
    let options = PutOptions {
        mode,
        ..PutOptions::default()
    };
    let payload: PutPayload = [Bytes::from("in "), Bytes::from("parts")]
        .into_iter()
        .collect();
    store.put_opts(&Path::from("k"), payload, options).await
}

fn count(seen: &Mutex<Seen>, method: &str) -> usize {
    let seen = seen.lock().unwrap();
    let asked = seen.asked.iter();
    asked.filter(|line| line.starts_with(method)).count()
}

#[tokio::test]
async fn a_conditional_put_in_doubt_is_resolved_by_its_mark() {
    let update = PutMode::Update(UpdateVersion {
        e_tag: Some("\"e0\"".to_owned()),
        version: None,
    });
    for mode in [PutMode::Create, update] {
        let (store, seen) = start(&[Put::Unsaid], &Settings::default()).await;
        let result = put(&store, mode).await.unwrap();
        assert_eq!(result.e_tag.as_deref(), Some("\"e1\""));
        assert_eq!((count(&seen, "PUT"), count(&seen, "HEAD")), (1, 1));
        assert_eq!(seen.lock().unwrap().body, "in parts");
    }
}

/// It shows BUCKET-1 and BUCKET-3.
#[tokio::test]
async fn a_conditional_put_that_left_no_mark_stays_in_doubt_and_is_not_repeated() {
    for (lost, heads) in [
        (Put::Lost, 3),
        (Put::Refused(500, "InternalError"), 3),
        (Put::Refused(503, "ServiceUnavailable"), 3),
    ] {
        let (store, seen) = start(&[lost], &Settings::default()).await;
        let error = put(&store, PutMode::Create).await.unwrap_err();
        assert_eq!(object_error_kind(&error, true), ErrorKind::Ambiguous);
        assert_eq!((count(&seen, "PUT"), count(&seen, "HEAD")), (1, heads));
    }
}

#[tokio::test]
async fn a_refused_condition_is_no_doubt() {
    let refused = Put::Refused(412, "PreconditionFailed");
    let (store, seen) = start(&[refused], &Settings::default()).await;
    let error = put(&store, PutMode::Create).await.unwrap_err();
    assert_eq!(object_error_kind(&error, true), ErrorKind::Precondition);
    assert_eq!((count(&seen, "PUT"), count(&seen, "HEAD")), (1, 0));
}

/// S3's answer to two conditional puts at once: neither the one nor the other is decided.
const CONFLICT: Put = Put::Refused(409, "ConditionalRequestConflict");

/// It shows BUCKET-2.
#[tokio::test]
async fn a_conflict_is_no_lost_race_and_is_put_again() {
    let update = PutMode::Update(UpdateVersion {
        e_tag: Some("\"e0\"".to_owned()),
        version: None,
    });
    for mode in [PutMode::Create, update, PutMode::Overwrite] {
        let (store, seen) = start(&[CONFLICT, CONFLICT], &Settings::default()).await;
        let result = put(&store, mode).await.unwrap();
        assert_eq!(result.e_tag.as_deref(), Some("\"e1\""));
        assert_eq!((count(&seen, "PUT"), count(&seen, "HEAD")), (3, 0));
    }
}

#[tokio::test]
async fn a_conflict_that_does_not_end_changed_nothing_and_is_told_as_such() {
    let settings = Settings {
        timeout: Duration::from_millis(300),
        ..Settings::default()
    };
    for mode in [PutMode::Create, PutMode::Overwrite] {
        let (store, seen) = start(&[CONFLICT; 100], &settings).await;
        let error = put(&store, mode).await.unwrap_err();
        let kind = object_error_kind(&error, true);
        assert_eq!(kind, ErrorKind::Unavailable { retry_after: None });
        assert!(
            error.to_string().contains("ConditionalRequestConflict"),
            "{error}"
        );
        assert!(1 < count(&seen, "PUT"));
    }
}

#[tokio::test]
async fn a_condition_that_the_service_does_not_know_is_told_as_such() {
    let unknown = Put::Refused(501, "NotImplemented");
    let (store, seen) = start(&[unknown], &Settings::default()).await;
    let error = put(&store, PutMode::Create).await.unwrap_err();
    assert!(
        matches!(error, object_store::Error::NotSupported { .. }),
        "{error:?}"
    );
    assert_eq!((count(&seen, "PUT"), count(&seen, "HEAD")), (1, 0));
}

const WRONG_KEY: &str = "<Error><Code>SignatureDoesNotMatch</Code><Message>The signature differs.\n\
                         RequestId:7</Message></Error>";

#[tokio::test]
async fn refused_credentials_are_told_in_the_words_of_the_service() {
    let settings = Settings::default();
    let (store, seen) = start(&[Put::Refused(403, "AccessDenied")], &settings).await;
    let error = put(&store, PutMode::Create).await.unwrap_err();
    assert_eq!(object_error_kind(&error, true), ErrorKind::Denied);
    assert!(
        error.to_string().contains("AccessDenied (HTTP 403)"),
        "{error}"
    );
    // It certainly changed nothing, so that nothing is looked for.
    assert_eq!((count(&seen, "PUT"), count(&seen, "HEAD")), (1, 0));

    seen.lock().unwrap().refuses = Some((403, WRONG_KEY));
    let said = "SignatureDoesNotMatch: The signature differs. (HTTP 403)";
    let key = Path::from("k");
    let errors = [
        store.get(&key).await.unwrap_err(),
        store.list(None).try_next().await.unwrap_err(),
        store.list_with_delimiter(None).await.unwrap_err(),
    ];
    for error in errors {
        assert_eq!(object_error_kind(&error, false), ErrorKind::Denied);
        assert!(error.to_string().contains(said), "{error}");
    }
    seen.lock().unwrap().refuses = Some((401, ""));
    let error = store.get(&key).await.unwrap_err();
    assert_eq!(object_error_kind(&error, false), ErrorKind::Denied);
    assert!(
        error.to_string().contains("Unauthorized (HTTP 401)"),
        "{error}"
    );
}

#[tokio::test]
async fn a_list_of_no_bucket_says_so() {
    let (store, seen) = start(&[], &Settings::default()).await;
    let text = "<Error><Code>NoSuchBucket</Code><Message>It is not there</Message></Error>";
    seen.lock().unwrap().refuses = Some((404, text));
    let error = store.list(None).try_next().await.unwrap_err();
    assert_eq!(object_error_kind(&error, false), ErrorKind::NotFound);
    assert!(error.to_string().contains("make it first"), "{error}");
}

#[test]
fn credentials_that_cannot_be_used_are_named_and_not_shown() {
    let folder = tempfile::tempdir().unwrap();
    let file = |text: &str| {
        let path = folder.path().join("key.json");
        std::fs::write(&path, text).unwrap();
        path
    };
    let gcs = |path| {
        let http = Http::start(fader_window::Settings::default());
        let endpoint = "https://storage.googleapis.com";
        let access = GcsAccess::File(path);
        let bucket = Bucket::gcs(http, endpoint, "b", &access, &Settings::default());
        bucket.unwrap_err().to_string()
    };
    let said = gcs(folder.path().join("nowhere.json"));
    assert!(said.contains("nowhere.json: No such file"), "{said}");
    let said = gcs(file("private_key = hunter2"));
    assert!(said.contains("key.json has no credentials"), "{said}");
    let half = gcs(file("{\"type\": \"hunter2\"}"));
    assert!(half.contains("do not fit"), "{half}");
    let http = Http::start(fader_window::Settings::default());
    let access = AzureAccess::Key("hunter2 !".to_owned().into());
    let endpoint = "https://a.blob.core.windows.net";
    let container = Bucket::azure(http, endpoint, "a", "c", &access, &Settings::default());
    let key = container.unwrap_err().to_string();
    assert!(key.contains("not base64"), "{key}");
    for said in [said, half, key] {
        assert!(!said.contains("hunter2"), "{said}");
    }
}

#[tokio::test]
async fn a_put_that_never_left_certainly_changed_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let settings = Settings {
        timeout: Duration::from_millis(300),
        ..Settings::default()
    };
    let http = Http::start(fader_window::Settings::default());
    let store = Bucket::s3(http, &endpoint, "bucket", None, &settings).unwrap();
    for mode in [PutMode::Create, PutMode::Overwrite] {
        let error = put(&store, mode).await.unwrap_err();
        let kind = object_error_kind(&error, true);
        assert_eq!(kind, ErrorKind::Unavailable { retry_after: None });
    }
}

#[tokio::test]
async fn a_put_without_effect_or_an_idempotent_one_is_repeated() {
    let slow_down = Put::Refused(503, "SlowDown");
    for (first, mode) in [
        (slow_down, PutMode::Create),
        (slow_down, PutMode::Overwrite),
        (Put::Lost, PutMode::Overwrite),
        (Put::Refused(500, "InternalError"), PutMode::Overwrite),
    ] {
        let (store, seen) = start(&[first, first], &Settings::default()).await;
        put(&store, mode).await.unwrap();
        assert_eq!((count(&seen, "PUT"), count(&seen, "HEAD")), (3, 0));
    }
}

/// It shows POOL-2.
#[tokio::test]
async fn bodies_come_as_they_are_read_and_give_connections_back() {
    let settings = Settings {
        connections_max: 1,
        attempt_timeout: Duration::from_millis(200),
        ..Settings::default()
    };
    let (store, seen) = start(&[], &settings).await;
    let large = Bytes::from((0..3_000_000_u32).map(|n| n as u8).collect::<Vec<u8>>());
    let at = Path::from("large");
    store.put(&at, large.clone().into()).await.unwrap();
    for _ in 0..3 {
        let body = store.get(&at).await.unwrap().into_stream();
        let parts: Vec<Bytes> = body.try_collect().await.unwrap();
        assert!(1 < parts.len());
        assert_eq!(parts.concat(), large);
    }
    let stalled = store.get(&Path::from("stalls")).await.unwrap();
    assert!(stalled.bytes().await.is_err());
    // What was given up holds no connection.
    assert!(store.get(&at).await.is_ok());
    let windows = store.windows();
    let lanes: Vec<_> = windows.iter().map(|(lane, _)| lane.class).collect();
    assert_eq!(lanes, ["get", "put"]);
    assert_eq!(count(&seen, "GET /bucket/large"), 4);
}

#[test]
fn endpoints_that_cannot_be_used_are_refused() {
    for (endpoint, bucket) in [("localhost", "b"), ("http://localhost/path", "b")] {
        assert!(Bucket::s3(Http::shared(), endpoint, bucket, None, &Settings::default()).is_err());
    }
}
