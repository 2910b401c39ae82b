//! The meter counts what a server sees. It sees 10,000 mixed calls at a bucket that now and then
//! refuses, fails, conflicts, or closes the connection without a word.
//!
//! And what a proxy sees: calls on objects, queues and domains at the S3 server that `FADER_S3`
//! names, which has a bucket `crash`. The proxy counts and cuts some replies. `FADER_METER_CALLS`
//! says how many; `cargo xtask clouds` starts a server and makes all of them.

#![allow(clippy::unwrap_used, reason = "a test may fail here")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use fader_client::{Bucket, Credentials, Http, Options, Settings, open};
use fader_cloud::{
    AttributePut, Cloud, ItemPut, Meter, QueueSettings, ReadConsistency, Receive, RequestKind,
    Usage,
};
use futures_util::{StreamExt, TryStreamExt};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use object_store::path::Path;
use object_store::{
    GetOptions, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload, UpdateVersion,
};
use tokio::net::{TcpListener, TcpStream};

const CALLS: u64 = 10_000;
const KEYS: u64 = 40;
/// Keys on a page of a list.
const PAGE: usize = 16;
/// Calls through the proxy, unless all are asked for.
const SAMPLE: u64 = 1_000;
/// Every so many replies the proxy cuts one.
const CUT: u64 = 97;

/// A bucket, and what was asked of it.
#[derive(Default)]
struct Server {
    objects: BTreeMap<String, (Bytes, u64, Option<String>)>,
    versions: u64,
    seen: Seen,
}

/// Requests by kind, and bytes of their bodies.
#[derive(Default)]
struct Seen {
    requests: BTreeMap<RequestKind, u64>,
    bytes: u64,
    total: u64,
}

fn kind(method: &Method, query: &str) -> RequestKind {
    match *method {
        Method::GET if query.contains("list-type=2") => RequestKind::ObjectList,
        Method::GET => RequestKind::ObjectGet,
        Method::HEAD => RequestKind::ObjectHead,
        Method::PUT => RequestKind::ObjectPut,
        _ => RequestKind::ObjectDelete,
    }
}

type Reply = Result<Response<Full<Bytes>>, &'static str>;

fn answer(status: u16, body: impl Into<Bytes>) -> Reply {
    let reply = Response::builder().status(status);
    Ok(reply.body(Full::new(body.into())).unwrap())
}

fn refuse(status: u16, code: &str) -> Reply {
    answer(status, format!("<Error><Code>{code}</Code></Error>"))
}

impl Seen {
    fn count(&mut self, kind: RequestKind, request: &Request<Bytes>) {
        *self.requests.entry(kind).or_default() += 1;
        self.bytes += request.body().len() as u64;
        self.total += 1;
    }
}

impl Server {
    fn put(&mut self, key: &str, request: &Request<Bytes>) -> Reply {
        let header = |name: &str| {
            let value = request.headers().get(name);
            value.map(|value| value.to_str().unwrap().to_owned())
        };
        let known = self
            .objects
            .get(key)
            .map(|(_, version, _)| format!("\"{version}\""));
        if header("if-none-match").is_some() && known.is_some() {
            return refuse(412, "PreconditionFailed");
        }
        if header("if-match").is_some_and(|tag| known != Some(tag)) {
            return refuse(412, "PreconditionFailed");
        }
        self.versions += 1;
        let version = self.versions;
        let object = (
            request.body().clone(),
            version,
            header("x-amz-meta-faderput"),
        );
        self.objects.insert(key.to_owned(), object);
        let mut reply = answer(200, "")?;
        let tag = format!("\"{version}\"").parse().unwrap();
        reply.headers_mut().insert("etag", tag);
        Ok(reply)
    }

    fn get(&self, key: &str, request: &Request<Bytes>) -> Reply {
        let Some((body, version, mark)) = self.objects.get(key) else {
            return refuse(404, "NoSuchKey");
        };
        let tag = format!("\"{version}\"");
        let unless = request.headers().get("if-none-match");
        let is_known = unless.is_some_and(|unless| unless.to_str().unwrap() == tag);
        let mut reply = answer(if is_known { 304 } else { 200 }, "")?;
        let headers = reply.headers_mut();
        headers.insert("etag", tag.parse().unwrap());
        headers.insert(
            "last-modified",
            "Sat, 21 Nov 2026 14:00:00 GMT".parse().unwrap(),
        );
        if let Some(mark) = mark {
            headers.insert("x-amz-meta-faderput", mark.parse().unwrap());
        }
        match *request.method() == Method::HEAD {
            true => drop(headers.insert("content-length", body.len().into())),
            false if !is_known => *reply.body_mut() = Full::new(body.clone()),
            false => {}
        }
        Ok(reply)
    }

    fn list(&self, query: &str) -> Reply {
        let after = query
            .split('&')
            .find_map(|pair| pair.strip_prefix("continuation-token="));
        let after = after.unwrap_or_default().replace("%2F", "/");
        let keys = self.objects.range(after.clone()..).map(|(key, _)| key);
        let rest: Vec<_> = keys.filter(|key| **key != after).collect();
        let is_cut = PAGE < rest.len();
        let mut text = format!("<ListBucketResult><IsTruncated>{is_cut}</IsTruncated>");
        for key in rest.iter().take(PAGE) {
            text.push_str(&format!(
                "<Contents><Key>{key}</Key><Size>1</Size>\
                 <LastModified>2026-11-21T14:00:00.000Z</LastModified></Contents>"
            ));
        }
        if is_cut {
            let next = rest[PAGE - 1];
            text.push_str(&format!(
                "<NextContinuationToken>{next}</NextContinuationToken>"
            ));
        }
        text.push_str("</ListBucketResult>");
        answer(200, text)
    }

    fn delete(&mut self, body: &str) -> Reply {
        let mut text = "<DeleteResult>".to_owned();
        for part in body.split("<Key>").skip(1) {
            let key = part.split("</Key>").next().unwrap();
            self.objects.remove(key);
            text.push_str(&format!("<Deleted><Key>{key}</Key></Deleted>"));
        }
        text.push_str("</DeleteResult>");
        answer(200, text)
    }

    fn serve(&mut self, request: &Request<Bytes>) -> Reply {
        let query = request.uri().query().unwrap_or_default().to_owned();
        let key = request
            .uri()
            .path()
            .trim_start_matches("/bucket")
            .trim_matches('/');
        let key = key.to_owned();
        let kind = kind(request.method(), &query);
        self.seen.count(kind, request);
        match self.seen.total % 101 {
            17 => return refuse(503, "SlowDown"),
            34 if kind == RequestKind::ObjectPut => {
                return refuse(409, "ConditionalRequestConflict");
            }
            51 if kind == RequestKind::ObjectGet => return refuse(500, "InternalError"),
            _ => {}
        }
        let reply = match kind {
            RequestKind::ObjectPut => self.put(&key, request),
            RequestKind::ObjectList => self.list(&query),
            RequestKind::ObjectDelete => self.delete(&String::from_utf8_lossy(request.body())),
            _ => self.get(&key, request),
        };
        // It happened, and its answer is lost.
        match self.seen.total % 101 {
            68 => Err("closed"),
            _ => reply,
        }
    }
}

async fn start() -> (Bucket, Arc<Mutex<Server>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let server = Arc::new(Mutex::new(Server::default()));
    let served = server.clone();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let server = served.clone();
            let answer = service_fn(move |request: Request<Incoming>| {
                let server = server.clone();
                async move {
                    let (head, body) = request.into_parts();
                    let body = body.collect().await.unwrap().to_bytes();
                    let request = Request::from_parts(head, body);
                    server.lock().unwrap().serve(&request)
                }
            });
            let connection = hyper::server::conn::http1::Builder::new();
            tokio::spawn(connection.serve_connection(TokioIo::new(stream), answer));
        }
    });
    let credentials = Credentials::new("AKIDEXAMPLE", "secret");
    let (http, settings) = (
        Http::start(fader_window::Settings::default()),
        Settings::default(),
    );
    let bucket = Bucket::s3(http, &endpoint, "bucket", Some(&credentials), &settings);
    (bucket.unwrap(), server)
}

/// One of ten kinds of calls; its outcome does not matter.
async fn call(bucket: &dyn ObjectStore, number: u64) {
    let scattered = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    let at = Path::from(format!("{:02}", scattered % KEYS));
    let body: PutPayload = format!("body {number}").into();
    let put = |mode| PutOptions {
        mode,
        ..PutOptions::default()
    };
    match number % 10 {
        0 | 1 => drop(bucket.put(&at, body).await),
        2 | 3 => drop(bucket.put_opts(&at, body, put(PutMode::Create)).await),
        4 => {
            let Ok(meta) = bucket.head(&at).await else {
                return;
            };
            let update = PutMode::Update(UpdateVersion {
                e_tag: meta.e_tag,
                version: meta.version,
            });
            drop(bucket.put_opts(&at, body, put(update)).await);
        }
        5 | 6 => {
            if let Ok(found) = bucket.get(&at).await {
                drop(found.bytes().await);
            }
        }
        7 => {
            let if_none_match = bucket.head(&at).await.ok().and_then(|meta| meta.e_tag);
            let options = GetOptions {
                if_none_match,
                ..GetOptions::default()
            };
            if let Ok(found) = bucket.get_opts(&at, options).await {
                drop(found.bytes().await);
            }
        }
        8 => drop(bucket.list(None).try_collect::<Vec<_>>().await),
        _ => drop(bucket.delete(&at).await),
    }
}

#[tokio::test]
async fn the_meter_counts_what_the_server_sees() {
    let (bucket, server) = start().await;
    let meter = Meter::new("all");
    let (even, odd) = (meter.scope("even"), meter.scope("odd"));
    let handles = [bucket.metered(&even), bucket.metered(&odd)];
    futures_util::stream::iter(0..CALLS)
        .for_each_concurrent(32, |number| call(&handles[(number % 2) as usize], number))
        .await;
    let server = server.lock().unwrap();
    let usage = meter.usage();
    assert!(CALLS < server.seen.total, "{}", server.seen.total);
    assert_same(&usage, &server.seen);
    let (even, odd) = (even.usage().requests(), odd.usage().requests());
    assert_eq!(even + odd, server.seen.total);
    // Every sort of answer was there, and silence.
    let has = |wanted: Option<u16>| usage.counts().any(|(_, status, _)| status == wanted);
    for status in [200, 304, 404, 409, 412, 500, 503] {
        assert!(has(Some(status)), "{status}");
    }
    assert!(has(None));
}

/// As the protocol has it: a request with `uploads` or `uploadId` is part of an upload.
fn kind_on_wire(request: &Request<Bytes>) -> RequestKind {
    let query = request.uri().query().unwrap_or_default();
    let is_of_upload = query.contains("uploadId=") || query.starts_with("uploads");
    match *request.method() {
        Method::POST if is_of_upload => RequestKind::ObjectPut,
        Method::PUT if request.headers().contains_key("x-amz-copy-source") => {
            RequestKind::ObjectCopy
        }
        ref method => kind(method, query),
    }
}

/// Hands a request on by a connection of its own; `None` for a reply that is cut.
async fn hand_on(
    server: &str,
    seen: &Mutex<Seen>,
    request: Request<Bytes>,
) -> Option<Response<Full<Bytes>>> {
    let is_cut = {
        let mut seen = seen.lock().unwrap();
        seen.count(kind_on_wire(&request), &request);
        seen.total.is_multiple_of(CUT)
    };
    let stream = TcpStream::connect(server).await.unwrap();
    let connection = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = connection.unwrap();
    tokio::spawn(connection);
    let answer = sender.send_request(request.map(Full::new)).await.unwrap();
    let (head, body) = answer.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    (!is_cut).then(|| Response::from_parts(head, Full::new(body)))
}

/// A proxy before a server; its address.
async fn proxy(server: String) -> (String, Arc<Mutex<Seen>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let seen = Arc::new(Mutex::new(Seen::default()));
    let counting = seen.clone();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let (server, seen) = (server.clone(), counting.clone());
            let answer = service_fn(move |request: Request<Incoming>| {
                let (server, seen) = (server.clone(), seen.clone());
                async move {
                    let (head, body) = request.into_parts();
                    let body = body.collect().await.unwrap().to_bytes();
                    let request = Request::from_parts(head, body);
                    hand_on(&server, &seen, request).await.ok_or("cut")
                }
            });
            let connection = hyper::server::conn::http1::Builder::new();
            tokio::spawn(connection.serve_connection(TokioIo::new(stream), answer));
        }
    });
    (address, seen)
}

/// One of sixteen kinds of calls on all that a cloud has; its outcome does not matter.
async fn call_any(cloud: &Cloud, number: u64) {
    let name = format!("{:02}", number % KEYS);
    let of_queue = Receive {
        max: 10,
        visibility: Some(std::time::Duration::from_secs(60)),
        wait: std::time::Duration::ZERO,
    };
    match number % 16 {
        10 => drop(cloud.queues.send("work", &[name]).await),
        11 => {
            if let Ok(received) = cloud.queues.receive("work", &of_queue).await {
                let receipts: Vec<_> = received.into_iter().map(|it| it.receipt).collect();
                drop(cloud.queues.remove("work", &receipts).await);
            }
        }
        12 | 13 => {
            let value = AttributePut {
                name: "n".to_owned(),
                value: number.to_string(),
                replace: true,
            };
            let put = ItemPut {
                name,
                attributes: vec![value],
            };
            drop(cloud.domains.put("items", &put, None).await);
        }
        14 => drop(
            cloud
                .domains
                .get("items", &name, &[], ReadConsistency::Strong)
                .await,
        ),
        15 => {
            let at = Path::from(format!("parts/{name}"));
            if let Ok(mut upload) = cloud.objects.put_multipart(&at).await {
                drop(upload.put_part("a part".into()).await);
                drop(upload.complete().await);
            }
            let to = Path::from(format!("copies/{name}"));
            drop(cloud.objects.copy(&at, &to).await);
        }
        _ => call(&*cloud.objects, number).await,
    }
}

fn assert_same(usage: &Usage, seen: &Seen) {
    for kind in RequestKind::ALL {
        let wire = seen.requests.get(&kind).copied().unwrap_or_default();
        assert_eq!(usage.of(kind).requests, wire, "{}", kind.name());
    }
    assert_eq!(usage.requests(), seen.total);
    let sent: u64 = usage.counts().map(|(_, _, count)| count.sent_bytes).sum();
    assert_eq!(sent, seen.bytes);
}

#[tokio::test]
async fn the_meter_counts_what_a_proxy_sees() {
    let Ok(server) = std::env::var("FADER_S3") else {
        println!("left out: FADER_S3 names no server");
        return;
    };
    let calls = std::env::var("FADER_METER_CALLS");
    let calls = calls.map_or(SAMPLE, |calls| calls.parse().unwrap());
    let (address, seen) = proxy(server).await;
    let url = format!(
        "s3://crash/meter-{}?endpoint=http://{address}&unsigned=true",
        std::process::id()
    );
    let options = Options {
        http: Some(Http::start(fader_window::Settings::default())),
        ..Options::default()
    };
    let cloud = open(&url, &options).await.unwrap();
    let settings = QueueSettings::default();
    drop(cloud.queues.create("work", &settings).await);
    drop(cloud.domains.create("items").await);
    futures_util::stream::iter(0..calls)
        .for_each_concurrent(16, |number| call_any(&cloud, number))
        .await;
    // What a deletion or a claim begins beside its call ends by itself. The proxy counts a request
    // when it has read it, the meter when it is answered.
    let usage = || options.meter.usage();
    for _ in 0..30 {
        let before = usage().requests();
        tokio::time::sleep(std::time::Duration::from_secs(2)).await;
        if [usage().requests(), seen.lock().unwrap().total] == [before; 2] {
            break;
        }
    }
    let (usage, seen) = (usage(), seen.lock().unwrap());
    println!(
        "{calls} calls, {} requests: {:?}",
        seen.total, seen.requests
    );
    assert!(calls < seen.total, "{}", seen.total);
    assert_same(&usage, &seen);
    for kind in [
        RequestKind::ObjectGet,
        RequestKind::ObjectHead,
        RequestKind::ObjectPut,
        RequestKind::ObjectCopy,
        RequestKind::ObjectList,
        RequestKind::ObjectDelete,
    ] {
        assert!(0 < usage.of(kind).requests, "{}", kind.name());
    }
}
