//! All that a stranger sends: heads, forms and signatures are understood or refused.

use std::cell::Cell;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fader_fuzz::{Corpus, run};
use http_body_util::{BodyExt as _, Full};
use hyper::HeaderMap;
use hyper::body::Incoming;
use hyper::http::request::Parts;
use hyper::service::service_fn;
use hyper::{Request, Response};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::watch;

use crate::asked::AskedService;
use crate::connection::{self, Progress};
use crate::parameters::Parameters;
use crate::signature::{Payload, Signed, Verifier};
use crate::simpledb::{self, Action, Version};
use crate::{Settings, consistency, origin, sqs};

const V2: &[u8] = include_bytes!("signature/vectors/v2-form.http");
const V4_HEADER: &[u8] = include_bytes!("signature/vectors/v4-header.http");
const V4_QUERY: &[u8] = include_bytes!("signature/vectors/v4-query.http");
const V4_FORM: &[u8] = include_bytes!("signature/vectors/v4-form.http");

const WORDS: &[&[u8]] = &[
    b"\r\n",
    b"\r\n\r\n",
    b"\n\n",
    b": ",
    b"%",
    b"%00",
    b"%zz",
    b"&",
    b"=",
    b"+",
    b";",
    b"/",
    b"Host: a",
    b"Content-Length: 1",
    b"Transfer-Encoding: chunked",
    b"Expect: 100-continue",
    b"Authorization: AWS4-HMAC-SHA256 Credential=",
    b"X-Amz-Target: AmazonSQS.SendMessage",
    b"X-Fader-Consistency: eventual; r=2",
    b"x-fader-request: deadbeef/1",
    b"Version=2012-11-05",
    b"Action=Select",
    b"Item.1.Attribute.1.Name",
    b"Expected.1.Exists",
    b"X-Amz-Expires=604801",
    b"Expires=",
    b"HTTP/1.1",
    b"HTTP/1.0",
    b"http://a/",
    b"99999999999999999999",
    b"\xC3\x28",
];

fn settings() -> Settings {
    Settings::default()
}

/// What the door asks of a head before there is a body.
fn look(verifier: &Verifier, parts: &Parts) -> bool {
    let (headers, query) = (&parts.headers, parts.uri.query().unwrap_or_default());
    let parameters = Parameters::read(query.as_bytes(), b"", 100).ok();
    let known = verifier.is_plausible(headers, parameters.as_ref(), 0, |_| Ok(None));
    let _ = AskedService::of(parts, &["localhost".to_owned()]);
    if let Some(parameters) = &parameters {
        let _ = consistency::asked(headers, parameters);
        let _ = sqs::protocol_of(headers, parameters);
    }
    matches!(known, Ok(true))
}

#[test]
fn fuzz_heads() {
    let wire = |text: &[u8]| {
        String::from_utf8_lossy(text)
            .replace('\n', "\r\n")
            .into_bytes()
    };
    let (v2, v4) = (wire(V2), wire(V4_HEADER));
    let corpus = Corpus {
        seeds: &[
            &v2,
            &v4,
            b"GET /?Action=ListDomains HTTP/1.1\r\nHost: localhost\r\nOrigin: null\r\n\r\n",
            b"POST / HTTP/1.1\r\nHost: [::1]:80\r\nTransfer-Encoding: chunked\r\n\r\n\
              5\r\nhello\r\n0\r\n\r\n",
        ],
        words: WORDS,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime");
    let verifier = Verifier::new(Duration::from_secs(900));
    let settings = settings();
    let whole = Cell::new(0);
    run("heads", &corpus, |input| {
        let service = service_fn(async |request: Request<Incoming>| {
            whole.set(whole.get() + 1);
            let (parts, body) = request.into_parts();
            let _ = origin::check_http(&parts);
            let _ = origin::check_page(&parts.headers, &[]);
            assert!(!look(&verifier, &parts));
            let body = body.collect().await.map(|body| body.to_bytes());
            let _ = origin::is_signed(&parts, &body.unwrap_or_default());
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::new())))
        });
        runtime.block_on(async {
            let (ours, mut theirs) = tokio::io::duplex(1 << 20);
            let progress = Progress::new();
            let (_stop, stopped) = watch::channel(false);
            theirs.write_all(input).await.expect("there is room");
            theirs.shutdown().await.expect("it is ours");
            connection::serve(ours, &progress, &settings, stopped, service).await;
            let mut answer = Vec::new();
            let _ = theirs.read_to_end(&mut answer).await;
            assert!(
                answer.is_empty() || answer.starts_with(b"HTTP/1."),
                "{answer:?}"
            );
        });
    });
    assert!(0 < whole.get(), "some heads are whole");
}

#[test]
fn fuzz_forms() {
    // Each a query, then a form, with the end of a line between them.
    let seeds = include_str!("fuzz.txt").split("\n--\n");
    let seeds: Vec<&[u8]> = seeds.map(str::as_bytes).collect();
    let corpus = Corpus {
        seeds: &seeds,
        words: WORDS,
    };
    let understood = Cell::new(0);
    run("forms", &corpus, |input| {
        let at = input
            .iter()
            .position(|&byte| byte == b'\n')
            .unwrap_or(input.len());
        let (query, form) = (&input[..at], input.get(at + 1..).unwrap_or_default());
        let mut headers = HeaderMap::new();
        headers.insert(
            "x-fader-consistency",
            hyper::header::HeaderValue::from_static("strong"),
        );
        if let Ok(json) = serde_json::from_slice::<sqs::Json<'_>>(form) {
            for action in [
                "SendMessage",
                "ReceiveMessage",
                "SetQueueAttributes",
                "TagQueue",
            ] {
                let action = sqs::Action::named(action).expect("it is one");
                let _ = sqs::parse(action, sqs::Node::Json(&json), "/", None, 0);
            }
        }
        let Ok(parameters) = Parameters::read(query, form, 1000) else {
            return;
        };
        let _ = consistency::asked(&headers, &parameters);
        if let Some(action) = parameters.get("Action").and_then(sqs::Action::named)
            && let Ok(form) = sqs::Form::read(&parameters)
        {
            let parsed = sqs::parse(action, sqs::Node::Form(&form), "/000000000001/q", None, 0);
            understood.set(understood.get() + u64::from(parsed.is_ok()));
        }
        let Ok(version) = Version::of(&parameters) else {
            return;
        };
        if let Ok(action) = Action::of(&parameters, version) {
            let request = simpledb::request(
                action,
                &parameters,
                consistency::CollectionOptions::default(),
            );
            understood.set(understood.get() + u64::from(request.is_ok()));
        }
    });
    assert!(0 < understood.get(), "some forms are understood");
}

#[test]
fn fuzz_signatures() {
    let corpus = Corpus {
        seeds: &[V2, V4_HEADER, V4_QUERY, V4_FORM],
        words: WORDS,
    };
    let verifier = Verifier::new(Duration::from_secs(900));
    run("signatures", &corpus, |input| {
        let text = String::from_utf8_lossy(input);
        let (head, body) = text.split_once("\n\n").unwrap_or((&*text, ""));
        let mut lines = head.lines();
        let first = lines.next().unwrap_or_default();
        let target = first.split(' ').nth(1).unwrap_or("/");
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut headers = HeaderMap::new();
        for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
            let name = hyper::header::HeaderName::from_bytes(name.as_bytes());
            if let (Ok(name), Ok(value)) = (name, value.parse()) {
                headers.append(name, value);
            }
        }
        let Ok(parameters) = Parameters::read(query.as_bytes(), body.as_bytes(), 100) else {
            return;
        };
        let host = headers.get("host").and_then(|host| host.to_str().ok());
        let signed = Signed {
            method: first.split(' ').next().unwrap_or_default(),
            path,
            headers: &headers,
            host: host.unwrap_or_default(),
            port: 4566,
            parameters: &parameters,
            bucket_in_host: None,
            payload: Payload::Body(body.as_bytes()),
        };
        // At the time of the recorded requests, whose key's secret is not here.
        for key in [None, Some(Arc::new(key()))] {
            let verified = verifier.verify(&signed, 1_795_209_643, |_| Ok(key));
            assert!(!matches!(verified, Ok(Some(_))), "{text}");
        }
    });
}

fn key() -> fader_node::OpenKey {
    use fader_services::catalog::{AccessKey, AccountId, KeyStatus, Rights};
    fader_node::OpenKey {
        key: AccessKey {
            id: "AKIDEXAMPLE01234".to_owned(),
            account: AccountId("000000000001".to_owned()),
            sealed_secret: Bytes::new(),
            status: KeyStatus::Active,
            created_ms: 0,
            note: String::new(),
            preference: None,
            rights: Rights::All,
        },
        secret: fader_node::Secret::new("another one".to_owned()),
    }
}
