//! The meter counts what a server sees: 10,000 mixed calls at a bucket that now and then refuses,
//! fails, conflicts, or closes the connection without a word.

#![allow(clippy::unwrap_used, reason = "a test may fail here")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use fader_client::{Bucket, Credentials, Http, Settings};
use fader_cloud::{Meter, RequestKind};
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
use tokio::net::TcpListener;

const CALLS: u64 = 10_000;
const KEYS: u64 = 40;
/// Keys on a page of a list.
const PAGE: usize = 16;

/// A bucket, and what was asked of it: requests by kind, and bytes of their bodies.
#[derive(Default)]
struct Server {
    objects: BTreeMap<String, (Bytes, u64, Option<String>)>,
    versions: u64,
    requests: BTreeMap<RequestKind, u64>,
    received_bytes: u64,
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
        *self.requests.entry(kind).or_default() += 1;
        self.received_bytes += request.body().len() as u64;
        self.total += 1;
        match self.total % 101 {
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
        match self.total % 101 {
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
async fn call(bucket: &Bucket, number: u64) {
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
    assert!(CALLS < server.total, "{}", server.total);
    for kind in RequestKind::ALL {
        let seen = server.requests.get(&kind).copied().unwrap_or_default();
        assert_eq!(usage.of(kind).requests, seen, "{}", kind.name());
    }
    assert_eq!(usage.requests(), server.total);
    let sent: u64 = usage.counts().map(|(_, _, count)| count.sent_bytes).sum();
    assert_eq!(sent, server.received_bytes);
    let (even, odd) = (even.usage().requests(), odd.usage().requests());
    assert_eq!(even + odd, server.total);
    // Every sort of answer was there, and silence.
    let has = |wanted: Option<u16>| usage.counts().any(|(_, status, _)| status == wanted);
    for status in [200, 304, 404, 409, 412, 500, 503] {
        assert!(has(Some(status)), "{status}");
    }
    assert!(has(None));
}
