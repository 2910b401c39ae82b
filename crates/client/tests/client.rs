//! The client against a server in the same process: what it sends, and what it makes of answers,
//! silence and nonsense.

#![allow(clippy::unwrap_used, reason = "a test may fail here")]

use std::sync::Arc;
use std::time::Duration;

use fader_client::{
    CallOptions, Client, Control, Credentials, Error, ErrorKind, Http, Origin, Pacing, Session,
    Settings, SimpleDb,
};
use fader_cloud::{Attribute, AttributePut, Expected};
use fader_services::catalog::KeyNature;
use fader_services::level::{
    Bound, Level, Outcome, Outcomes, ReplyMetadata, parse_name, parse_stamp,
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, UnixListener};
use tokio::task::JoinHandle;

const PUT_OK: &str = "<PutAttributesResponse><ResponseMetadata><RequestId>r1</RequestId>\
    <BoxUsage>0.0000219961</BoxUsage></ResponseMetadata></PutAttributesResponse>";

const GET_OK: &str = "<GetAttributesResponse><GetAttributesResult/></GetAttributesResponse>";

const LIST_OK: &str = "<ListDomainsResponse><ListDomainsResult/></ListDomainsResponse>";

/// What a server of the test does with each request, one after the other.
#[derive(Clone, Copy)]
enum Act {
    Answer(u16, &'static str),
    AnswerAndClose(u16, &'static str),
    /// An answer with these lines in its head.
    Tell(u16, &'static str, &'static str),
    Close,
    Hang,
}

/// Reads one request to its end; `None` when the peer closed before one began.
async fn read_request(stream: &mut (impl AsyncRead + Unpin)) -> Option<String> {
    let mut octets = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&octets).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| {
                    line.to_ascii_lowercase()
                        .strip_prefix("content-length: ")?
                        .parse()
                        .ok()
                })
                .unwrap_or(0);
            if body.len() >= length {
                return Some(text);
            }
        }
        if stream.read_buf(&mut octets).await.ok()? == 0 {
            assert!(octets.is_empty(), "closed within a request");
            return None;
        }
    }
}

async fn act(stream: &mut (impl AsyncWrite + Unpin), act: Act) -> bool {
    let (status, told, body, close) = match act {
        Act::Answer(status, body) => (status, "", body, false),
        Act::AnswerAndClose(status, body) => (status, "", body, true),
        Act::Tell(status, told, body) => (status, told, body, false),
        Act::Close => return false,
        Act::Hang => std::future::pending().await,
    };
    let reply = format!(
        "HTTP/1.1 {status} X\r\n{told}content-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(reply.as_bytes()).await.unwrap();
    !close
}

/// Serves the acts over as many connections as it takes; gives the requests when all are done.
async fn serve(listener: TcpListener, acts: Vec<Act>) -> Vec<String> {
    let mut acts = acts.into_iter();
    let mut requests = Vec::new();
    while acts.len() > 0 {
        let (mut stream, _) = listener.accept().await.unwrap();
        while let Some(request) = read_request(&mut stream).await {
            requests.push(request);
            let next = acts.next().expect("no more requests than acts");
            if !act(&mut stream, next).await || acts.len() == 0 {
                break;
            }
        }
    }
    requests
}

async fn start(
    acts: &[Act],
    settings: Settings,
) -> (SimpleDb, tokio::task::JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let credentials = Credentials::new("AKIDEXAMPLE", "secret");
    let client = Client::new(&endpoint, Some(credentials), settings).unwrap();
    (
        SimpleDb(client),
        tokio::spawn(serve(listener, acts.to_vec())),
    )
}

async fn put(client: &SimpleDb) -> Result<f64, Error> {
    let attribute = AttributePut {
        name: String::from("n"),
        value: String::from("v v"),
        replace: true,
    };
    let expected = Expected::Absent(String::from("gone"));
    let response = client
        .put_attributes(
            "dom",
            "item",
            &[attribute],
            Some(&expected),
            CallOptions::default(),
        )
        .await?;
    assert_eq!(response.request_id, "r1");
    Ok(response.box_usage)
}

fn quick() -> Settings {
    Settings {
        timeout: Duration::from_millis(50),
        ..Settings::default()
    }
}

#[tokio::test]
async fn puts_go_signed_over_one_connection() {
    let (client, server) = start(&[Act::Answer(200, PUT_OK); 3], Settings::default()).await;
    for _ in 0..3 {
        assert_eq!(put(&client).await.unwrap(), 0.000_021_996_1);
    }
    let requests = server.await.unwrap();
    assert_eq!(requests.len(), 3);
    for part in [
        "AWSAccessKeyId=AKIDEXAMPLE&Action=PutAttributes&Attribute.1.Name=n\
         &Attribute.1.Replace=true&Attribute.1.Value=v%20v&DomainName=dom\
         &Expected.1.Exists=false&Expected.1.Name=gone&ItemName=item&SignatureMethod=HmacSHA256",
        "&Version=2009-04-15&Signature=",
    ] {
        assert!(requests[0].contains(part), "{}", requests[0]);
    }
}

async fn ask(client: &SimpleDb, options: CallOptions<'_>) -> ReplyMetadata {
    let put = client.put_attributes("dom", "item", &[], None, options);
    put.await.unwrap().metadata
}

#[tokio::test]
async fn a_demand_travels_in_parameters() {
    let told = "x-fader-stamp: 2.7+5.3.0\r\nx-fader-tentative: true\r\n\
        x-fader-outcome: applied\r\nx-fader-session: AP9zZWVu\r\n";
    let acts = [Act::Tell(200, told, PUT_OK), Act::Answer(200, PUT_OK)];
    let (client, server) = start(&acts, Settings::default()).await;
    let mut session = Session::default();
    let options = CallOptions {
        level: Level::EVENTUAL,
        bound: Some(Bound::Versions(3)),
        outcome: true,
        session: Some(&mut session),
        request: Some(parse_name("c0ffee/7").unwrap()),
        ..CallOptions::default()
    };
    let receipt = ask(&client, options).await;
    assert_eq!(receipt.stamp, Some(parse_stamp("2.7+5.3.0").unwrap()));
    assert_eq!(receipt.outcome, Some(Outcomes::single(Outcome::Applied)));
    assert!(receipt.tentative);
    assert_eq!(session.to_string(), "AP9zZWVu");
    let options = CallOptions {
        session: Some(&mut session),
        ..CallOptions::default()
    };
    assert_eq!(ask(&client, options).await, ReplyMetadata::default());
    assert_eq!(
        session,
        "AP9zZWVu\n".parse().unwrap(),
        "a reply without a token ends nothing"
    );
    let requests = server.await.unwrap();
    let asked = |request: &str| {
        let (_, form) = request.split_once("\r\n\r\n").unwrap();
        let asked = form.split('&').filter(|pair| pair.starts_with("Fader-"));
        asked.collect::<Vec<_>>().join("&")
    };
    assert_eq!(
        asked(&requests[0]),
        "Fader-Consistency=eventual%3B%20r%3D1%3B%20w%3D1%3B%20bound%3D3v%3B%20outcome\
         &Fader-Request=00000000000000000000000000c0ffee%2F7&Fader-Session="
    );
    assert_eq!(asked(&requests[1]), "Fader-Session=AP9zZWVu");
}

#[tokio::test]
async fn a_refusal_moves_the_session_on() {
    let act = Act::Tell(503, "x-fader-session: AP9zZWVu\r\n", "");
    let (client, _server) = start(&[act], Settings::default()).await;
    let mut session = Session::default();
    let options = CallOptions {
        session: Some(&mut session),
        ..CallOptions::consistent()
    };
    let failed = client.get_attributes("d", "i", &[], options).await;
    assert_eq!(failed.unwrap_err().kind, ErrorKind::Unavailable);
    assert_eq!(session.to_string(), "AP9zZWVu");
}

#[tokio::test]
async fn an_unknown_answer_is_malformed() {
    for told in [
        "x-fader-stamp: seven\r\n",
        "x-fader-version: 2.7+1.1.1\r\n",
        "x-fader-outcome: maybe\r\n",
        "x-fader-session: ?\r\n",
    ] {
        let (client, _server) = start(&[Act::Tell(200, told, PUT_OK)], quick()).await;
        let failed = put(&client).await.unwrap_err();
        assert_eq!(failed.kind, ErrorKind::Malformed, "{told}");
    }
}

/// It shows POOL-3.
#[tokio::test]
async fn a_connection_closed_after_its_answer_is_replaced() {
    let closes = Act::AnswerAndClose(200, PUT_OK);
    let settings = Settings {
        connections_max: 1,
        ..Settings::default()
    };
    let (client, server) = start(&[closes, closes], settings).await;
    put(&client).await.unwrap();
    // The second request may meet the closed connection before or after the client knows. It is
    // either sent anew or reported as possibly sent, never lost in silence.
    match put(&client).await {
        Ok(_) => assert_eq!(server.await.unwrap().len(), 2),
        Err(error) => assert_eq!(error.kind, ErrorKind::Ambiguous),
    }
}

#[tokio::test]
async fn refusals_carry_the_services_words() {
    const REFUSAL: &str = "<?xml version=\"1.0\"?>\n<Response><Errors><Error>\
        <Code>NoSuchDomain</Code><Message>The specified domain does not exist.</Message>\
        <BoxUsage>0.0000071759</BoxUsage></Error></Errors><RequestID>r9</RequestID></Response>";
    let (client, server) = start(&[Act::Answer(400, REFUSAL)], Settings::default()).await;
    let error = put(&client).await.unwrap_err();
    assert_eq!(error.code(), Some("NoSuchDomain"));
    assert_eq!(
        error.kind,
        ErrorKind::Refused {
            status: 400,
            code: String::from("NoSuchDomain"),
            message: String::from("The specified domain does not exist."),
            request_id: String::from("r9"),
        }
    );
    assert_eq!(
        error.to_string(),
        "PutAttributes: NoSuchDomain: The specified domain does not exist. (HTTP 400)"
    );
    server.await.unwrap();
}

#[tokio::test]
async fn silence_is_ambiguous_after_a_write_and_not_after_a_read() {
    for silence in [
        Act::Close,
        Act::Hang,
        Act::Answer(502, "<html>"),
        Act::Answer(500, ""),
    ] {
        let (client, _server) = start(&[silence], quick()).await;
        assert_eq!(put(&client).await.unwrap_err().kind, ErrorKind::Ambiguous);
        let (client, _server) = start(&[silence], quick()).await;
        let error = client
            .get_attributes("d", "i", &[], CallOptions::consistent())
            .await
            .unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unavailable);
    }
}

/// It shows CALL-1.
#[tokio::test]
async fn a_refused_read_is_sent_again_and_a_conditional_write_is_not() {
    let acts = [Act::Answer(503, ""), Act::Answer(200, GET_OK)];
    let (client, server) = start(&acts, Settings::default()).await;
    let found = client.get_attributes("d", "i", &[], CallOptions::consistent());
    assert_eq!(found.await.unwrap().attributes, []);
    assert_eq!(server.await.unwrap().len(), 2);

    let (client, _server) = start(&[Act::Answer(503, "")], Settings::default()).await;
    assert_eq!(put(&client).await.unwrap_err().kind, ErrorKind::Ambiguous);
}

#[tokio::test]
async fn an_idempotent_request_is_repeated_after_silence() {
    for silence in [Act::Close, Act::Answer(500, "")] {
        let acts = [silence, silence, Act::Answer(200, PUT_OK)];
        let (client, server) = start(&acts, Settings::default()).await;
        let put = client.put_attributes("d", "i", &[], None, CallOptions::default());
        assert_eq!(put.await.unwrap().request_id, "r1");
        assert_eq!(server.await.unwrap().len(), 3);
    }
}

#[tokio::test]
async fn a_write_with_a_name_is_sent_again_under_it() {
    let acts = [Act::Close, Act::Answer(200, PUT_OK)];
    let (client, server) = start(&acts, Settings::default()).await;
    let options = CallOptions {
        request: Some(parse_name("c0ffee/7").unwrap()),
        ..CallOptions::default()
    };
    let expected = Expected::Absent(String::from("gone"));
    let put = client.put_attributes("d", "i", &[], Some(&expected), options);
    assert!(put.await.is_ok());
    let requests = server.await.unwrap();
    let name = "Fader-Request=00000000000000000000000000c0ffee%2F7";
    assert!(requests.iter().all(|request| request.contains(name)));
    assert_eq!(requests.len(), 2);
}

/// A write's name in a request's head.
fn name(request: &str) -> &str {
    let mut lines = request.lines();
    let name = lines.find_map(|line| line.strip_prefix("x-fader-request: "));
    name.unwrap_or_default()
}

#[tokio::test]
async fn a_write_on_a_condition_is_asked_for_under_its_name() {
    let fader = Act::Tell(200, "x-fader-session: AAAA\r\n", LIST_OK);
    for silence in [Act::Close, Act::Answer(503, ""), Act::Answer(500, "")] {
        let done = Act::Answer(200, PUT_OK);
        let acts = [silence, fader, silence, done, silence, done];
        let (client, server) = start(&acts, Settings::default()).await;
        assert!(put(&client).await.is_ok());
        // What is known of the service is not asked again.
        assert!(put(&client).await.is_ok());
        let requests = server.await.unwrap();
        let names: Vec<&str> = requests.iter().map(|request| name(request)).collect();
        assert_eq!((names[0], names[0]), (names[2], names[3]));
        assert!(requests[1].contains("ListDomains") && names[1].is_empty());
        assert_eq!(names[4], names[5]);
        assert!(!names[0].is_empty() && names[0] != names[4]);
    }
}

#[tokio::test]
async fn a_service_that_keeps_no_names_is_not_asked_for_a_write() {
    let acts = [Act::Close, Act::Answer(200, LIST_OK), Act::Close];
    let (client, server) = start(&acts, Settings::default()).await;
    for _ in 0..2 {
        assert_eq!(put(&client).await.unwrap_err().kind, ErrorKind::Ambiguous);
    }
    assert_eq!(server.await.unwrap().len(), 3);
}

#[tokio::test]
async fn a_service_that_refuses_to_look_has_not_answered() {
    // The key was taken away meanwhile: that says nothing of the write.
    let fader = Act::Tell(200, "x-fader-session: AAAA\r\n", LIST_OK);
    let acts = [Act::Close, fader, Act::Answer(403, ""), Act::Hang];
    let settings = Settings {
        timeout: Duration::from_millis(500),
        ..Settings::default()
    };
    let (client, _server) = start(&acts, settings).await;
    assert_eq!(put(&client).await.unwrap_err().kind, ErrorKind::Ambiguous);
}

#[tokio::test]
async fn a_bare_client_sends_once() {
    let bare = Settings {
        pace: Pacing::Bare,
        ..Settings::default()
    };
    let (client, _server) = start(&[Act::Answer(503, "")], bare).await;
    let found = client.get_attributes("d", "i", &[], CallOptions::consistent());
    assert_eq!(found.await.unwrap_err().kind, ErrorKind::Unavailable);
    assert!(client.0.windows().is_empty());
}

#[tokio::test]
async fn each_class_of_operations_has_a_window() {
    let acts = [Act::Answer(200, GET_OK), Act::Answer(200, PUT_OK)];
    let (client, server) = start(&acts, Settings::default()).await;
    let found = client.get_attributes("d", "i", &[], CallOptions::consistent());
    found.await.unwrap();
    put(&client).await.unwrap();
    server.await.unwrap();
    let windows = client.0.windows();
    let seen = windows
        .iter()
        .map(|(lane, state)| (lane.class, state.counts.ok));
    assert_eq!(seen.collect::<Vec<_>>(), [("get", 1), ("put", 1)]);
}

/// It shows CHTTP-3.
#[tokio::test]
async fn a_dropped_call_gives_its_place_back() {
    let (client, server) = start(&[Act::Hang], Settings::default()).await;
    let client = Arc::new(client);
    let calls: Vec<_> = (0..10)
        .map(|_| {
            let client = Arc::clone(&client);
            tokio::spawn(async move { put(&client).await })
        })
        .collect();
    let in_flight = |client: &SimpleDb| {
        let windows = client.0.windows();
        windows
            .iter()
            .map(|(_, state)| (state.in_flight, state.waiting))
            .next()
    };
    while in_flight(&client) != Some((4, 6)) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    calls.iter().for_each(tokio::task::JoinHandle::abort);
    while in_flight(&client) != Some((0, 0)) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    server.abort();
}

/// A service of so many requests a second, with a burst of ten, that refuses what is beyond.
async fn limited(listener: TcpListener, rate: f64) {
    let begin = tokio::time::Instant::now();
    let tokens = Arc::new(std::sync::Mutex::new((10.0_f64, 0.0_f64)));
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        let tokens = Arc::clone(&tokens);
        tokio::spawn(async move {
            while read_request(&mut stream).await.is_some() {
                let is_served = {
                    let mut tokens = tokens.lock().unwrap();
                    let now = begin.elapsed().as_secs_f64();
                    tokens.0 = (tokens.0 + (now - tokens.1) * rate).min(10.0);
                    tokens.1 = now;
                    let is_served = 1.0 <= tokens.0;
                    tokens.0 -= f64::from(u8::from(is_served));
                    is_served
                };
                tokio::time::sleep(Duration::from_millis(5)).await;
                let answer = match is_served {
                    true => Act::Answer(200, GET_OK),
                    false => Act::Answer(503, ""),
                };
                act(&mut stream, answer).await;
            }
        });
    }
}

#[tokio::test]
async fn a_limited_service_answers_everything_and_refuses_little() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let server = tokio::spawn(limited(listener, 400.0));
    let http = Http::start(fader_window::Settings::default());
    let client = Client::on(http.clone(), &endpoint, None, Settings::default()).unwrap();
    let client = Arc::new(SimpleDb(client));
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..600 {
        let client = Arc::clone(&client);
        calls.spawn(async move {
            let found = client.get_attributes("d", "i", &[], CallOptions::consistent());
            found.await.map(|found| found.attributes)
        });
    }
    while let Some(answer) = calls.join_next().await {
        assert_eq!(answer.unwrap().unwrap(), []);
    }
    let (_, state) = http.windows().remove(0);
    assert_eq!((state.counts.ok, state.counts.failed), (600, 0));
    assert!(state.counts.overload < 120, "{state:?}");
    server.abort();
}

/// It shows CHTTP-1.
#[tokio::test]
async fn plain_requests_are_sent_again_where_http_allows_it() {
    for (method, acts, sent) in [("GET", 2, 200), ("POST", 1, 503)] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let script = [Act::Answer(503, ""), Act::Answer(200, "hello")];
        let server = tokio::spawn(serve(listener, script[..acts].to_vec()));
        let origin = Origin::new(&url, &Settings::default()).unwrap();
        let request = hyper::Request::builder().method(method).uri("/page");
        let request = request.body(Default::default()).unwrap();
        let reply = origin.send(request, "page").await.unwrap();
        assert_eq!(reply.status().as_u16(), sent);
        assert_eq!(server.await.unwrap().len(), acts);
        assert_eq!(origin.windows()[0].0.class, "page");
    }
}

#[tokio::test]
async fn an_unsent_request_is_unavailable() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let client = SimpleDb(Client::new(&endpoint, None, Settings::default()).unwrap());
    assert_eq!(put(&client).await.unwrap_err().kind, ErrorKind::Unavailable);
}

/// It shows CALL-2, CHTTP-2 and POOL-1.
#[tokio::test]
async fn waiting_for_a_connection_counts_against_the_timeout() {
    for _ in 0..20 {
        let settings = Settings {
            connections_max: 1,
            ..quick()
        };
        let (client, _server) = start(&[Act::Hang], settings).await;
        let (first, second) = tokio::join!(put(&client), put(&client));
        let kinds = [first.unwrap_err().kind, second.unwrap_err().kind];
        if kinds == [ErrorKind::Ambiguous, ErrorKind::Unavailable] {
            return;
        }
        // The connection came free just when the second one's time was over too, and it was sent.
        assert_eq!(kinds, [ErrorKind::Ambiguous, ErrorKind::Ambiguous]);
    }
    panic!("the second one waits for a connection for nothing");
}

/// It shows CALL-2.
#[tokio::test]
async fn nonsense_is_malformed() {
    let long = Settings {
        response_bytes_max: 20,
        ..Settings::default()
    };
    for (act, settings) in [
        (Act::Answer(200, "not XML"), Settings::default()),
        (Act::Answer(404, "not XML"), Settings::default()),
        (Act::Answer(200, PUT_OK), long),
    ] {
        let (client, _server) = start(&[act], settings).await;
        assert_eq!(put(&client).await.unwrap_err().kind, ErrorKind::Malformed);
    }
}

#[tokio::test]
async fn lists_and_selects_are_read_whole() {
    let pages = [
        Act::Answer(
            200,
            "<ListDomainsResponse><ListDomainsResult><DomainName>a</DomainName>\
             <DomainName>b</DomainName><NextToken>t=</NextToken></ListDomainsResult>\
             </ListDomainsResponse>",
        ),
        Act::Answer(
            200,
            "<ListDomainsResponse><ListDomainsResult><DomainName>c</DomainName>\
             </ListDomainsResult></ListDomainsResponse>",
        ),
        Act::Answer(
            200,
            "<SelectResponse><SelectResult><Item><Name>i</Name><Attribute><Name>n</Name>\
             <Value>1</Value></Attribute><Attribute><Name>n</Name><Value>2</Value></Attribute>\
             </Item><Item><Name>j</Name></Item><NextToken>u</NextToken></SelectResult>\
             <ResponseMetadata><BoxUsage>0.000014016</BoxUsage></ResponseMetadata>\
             </SelectResponse>",
        ),
    ];
    let (client, server) = start(&pages, Settings::default()).await;
    assert_eq!(client.list_domains().await.unwrap(), ["a", "b", "c"]);
    let page = client
        .select("select * from a", Some("t"), CallOptions::consistent())
        .await
        .unwrap();
    assert_eq!(
        (page.next_token.as_deref(), page.box_usage),
        (Some("u"), 0.000_014_016)
    );
    let value = |value: &str| Attribute {
        name: String::from("n"),
        value: String::from(value),
    };
    assert_eq!(page.items[0].attributes, [value("1"), value("2")]);
    assert_eq!(
        (page.items[1].name.as_str(), page.items[1].attributes.len()),
        ("j", 0)
    );
    let requests = server.await.unwrap();
    assert!(requests[1].contains("NextToken=t%3D&"), "{}", requests[1]);
    assert!(
        requests[2].contains("ConsistentRead=true&NextToken=t&"),
        "{}",
        requests[2]
    );
}

#[test]
fn endpoints_that_cannot_be_used_are_refused() {
    for endpoint in [
        "",
        "localhost",
        "ftp://localhost",
        "http://",
        "http://user@localhost",
        "http://localhost/path",
        "https://bad name",
    ] {
        let refused = Client::new(endpoint, None, Settings::default())
            .err()
            .map(|e| e.kind);
        assert_eq!(refused, Some(ErrorKind::Invalid), "{endpoint}");
    }
    let settings = Settings {
        ca_pem: Some(Vec::new()),
        ..Settings::default()
    };
    assert!(Client::new("https://localhost", None, settings).is_err());
    assert!(Client::new("http://[::1]:4566/", None, Settings::default()).is_ok());
}

#[test]
fn secrets_are_not_shown() {
    let shown = format!("{:?}", Credentials::new("AKIDEXAMPLE", "hush"));
    assert!(
        shown.contains("AKIDEXAMPLE") && !shown.contains("hush"),
        "{shown}"
    );
}

/// A server with that certificate for `localhost`, and where it is.
async fn over_tls(made: &rcgen::CertifiedKey<rcgen::KeyPair>) -> (String, JoinHandle<()>) {
    let key = rustls_pki_types::PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key.into())
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let endpoint = format!("https://localhost:{}", address.port());
    let server = tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let Ok(mut stream) = acceptor.accept(stream).await else {
                continue;
            };
            read_request(&mut stream).await.unwrap();
            act(&mut stream, Act::Answer(200, PUT_OK)).await;
        }
    });
    (endpoint, server)
}

/// A client that trusts that bundle.
fn trusting(endpoint: &str, pem: String) -> SimpleDb {
    let settings = Settings {
        ca_pem: Some(pem.into_bytes()),
        ..Settings::default()
    };
    SimpleDb(Client::new(endpoint, None, settings).unwrap())
}

#[tokio::test]
async fn https_trusts_the_given_authority_only() {
    let made = rcgen::generate_simple_self_signed([String::from("localhost")]).unwrap();
    let other = rcgen::generate_simple_self_signed([String::from("localhost")]).unwrap();
    let (endpoint, server) = over_tls(&made).await;
    let refused = put(&trusting(&endpoint, other.cert.pem()))
        .await
        .unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Unavailable);
    assert!(put(&trusting(&endpoint, made.cert.pem())).await.is_ok());
    server.abort();
}

/// A certificate that signs itself, and calls itself an authority's, as `openssl req -x509` makes.
fn own_authority(names: &[&str]) -> rcgen::CertifiedKey<rcgen::KeyPair> {
    let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    let mut asked = rcgen::CertificateParams::new(names).unwrap();
    asked.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let signing_key = rcgen::KeyPair::generate().unwrap();
    let cert = asked.self_signed(&signing_key).unwrap();
    rcgen::CertifiedKey { cert, signing_key }
}

#[tokio::test]
async fn an_authority_that_serves_is_trusted_if_it_is_named() {
    let made = own_authority(&["localhost"]);
    let (endpoint, server) = over_tls(&made).await;
    assert!(put(&trusting(&endpoint, made.cert.pem())).await.is_ok());
    let other = own_authority(&["localhost"]);
    assert!(put(&trusting(&endpoint, other.cert.pem())).await.is_err());
    server.abort();
    // For its own names only.
    let elsewhere = own_authority(&["elsewhere"]);
    let (endpoint, server) = over_tls(&elsewhere).await;
    let refused = put(&trusting(&endpoint, elsewhere.cert.pem())).await;
    assert!(refused.is_err());
    server.abort();
}

#[tokio::test]
async fn keys_over_the_control_socket() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("control.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let acts = [
        Act::Answer(
            200,
            "{\"keys\":[{\"id\":\"K1\",\"account\":\"a\",\"status\":\"active\",\
             \"created_ms\":7,\"note\":\"n\"}]}",
        ),
        Act::Answer(200, "{\"id\":\"K2\",\"secret\":\"hush\",\"account\":\"b\"}"),
        Act::Answer(200, "{}"),
        Act::Answer(200, "{}"),
        Act::Answer(404, "{\"error\":\"no such key\"}"),
        Act::Answer(200, "{\"id\":\"K3\",\"secret\":\"hush"),
    ];
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut lines = Vec::new();
        for next in acts {
            let request = read_request(&mut stream).await.unwrap();
            lines.push(request.lines().next().unwrap().to_owned());
            act(&mut stream, next).await;
        }
        lines
    });
    let control = Control::new(&path);
    let keys = control.keys().await.unwrap();
    assert_eq!((keys[0].id.as_str(), keys[0].created_ms), ("K1", 7));
    let made = control
        .create_key("b", None, "note", KeyNature::default())
        .await
        .unwrap();
    assert_eq!(made.secret.as_str(), "hush");
    assert!(!format!("{made:?}").contains("hush"));
    control.disable("K1").await.unwrap();
    let preference = "eventual; r=1; w=2".parse().unwrap();
    control.prefer("K1", Some(preference)).await.unwrap();
    let refused = control.enable("K9").await.unwrap_err();
    assert!(refused.to_string().contains("no such key"), "{refused}");
    let malformed = control.rotate("K2").await.unwrap_err();
    assert!(!format!("{malformed:?}").contains("hush"), "{malformed:?}");
    assert_eq!(
        control.disable("../x").await.unwrap_err().kind,
        ErrorKind::Invalid
    );
    let expected = [
        "GET /keys HTTP/1.1",
        "POST /keys HTTP/1.1",
        "POST /keys/K1/disable HTTP/1.1",
        "POST /keys/K1/set HTTP/1.1",
        "POST /keys/K9/enable HTTP/1.1",
        "POST /keys/K2/rotate HTTP/1.1",
    ];
    assert_eq!(server.await.unwrap(), expected);
}
