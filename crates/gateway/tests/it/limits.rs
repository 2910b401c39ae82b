//! Clients that send too much, too slowly, too oddly; and the end of a server.

use std::time::Duration;

use fader_gateway::Settings;
use proptest::prelude::*;
use tokio::io::AsyncWriteExt as _;

use crate::server::{KEY_ID, Server, anonymous, outcome, post, read_all, read_reply};

const LIST: &str = "Action=ListDomains&Version=2009-04-15";

fn impatient() -> Settings {
    Settings {
        header_timeout: Duration::from_millis(250),
        body_timeout: Duration::from_millis(250),
        idle_timeout: Duration::from_millis(250),
        ..anonymous()
    }
}

#[tokio::test]
async fn bodies_beyond_simpledb_and_beyond_reading_are_refused() {
    let settings = Settings {
        simpledb_bytes_max: 1000,
        body_bytes_max: 10_000,
        ..anonymous()
    };
    let server = Server::start(settings).await;
    let form = |bytes: usize| format!("{LIST}&X={}", "x".repeat(bytes - LIST.len() - 3));
    let chunked = |form: &str| {
        format!(
            "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n\
             {:x}\r\n{form}\r\n0\r\n\r\n",
            form.len()
        )
    };
    for (bytes, expected) in [
        (1000, (200, "")),
        (1001, (400, "InvalidHttpRequest")),
        (10_000, (400, "InvalidHttpRequest")),
        (10_001, (400, "InvalidHttpRequest")),
        (39_999, (400, "InvalidHttpRequest")),
    ] {
        for request in [post(&form(bytes)), chunked(&form(bytes))] {
            let reply = server.exchange(request.as_bytes()).await;
            assert_eq!(outcome(&reply), expected, "{bytes}: {reply}");
        }
    }
    // Far too much is not even read; the connection ends with it.
    let huge = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999999999999\r\n\r\n";
    let reply = server.exchange(huge.as_bytes()).await;
    assert_eq!(outcome(&reply), (400, "InvalidHttpRequest"), "{reply}");
    assert!(reply.contains("connection: close\r\n"), "{reply}");
    server.check_alive().await;
    server.stop().await;
}

#[tokio::test]
async fn a_body_that_stands_still_gives_way() {
    let settings = Settings {
        bodies_bytes_max: 100_000,
        ..anonymous()
    };
    let server = Server::start(settings).await;
    let large = post(&format!("{LIST}&X={}", "x".repeat(90_000)));
    let mut first = server.connect().await;
    first.write_all(&large.as_bytes()[..80_000]).await.unwrap();
    // A client that is answered comes after the first in all that the server does.
    server.check_alive().await;
    let reply = server.exchange(large.as_bytes()).await;
    assert_eq!(outcome(&reply), (200, ""), "{reply}");
    let reply = read_all(&mut first).await;
    assert_eq!(outcome(&reply), (503, "ServiceUnavailable"), "{reply}");
    assert!(reply.contains("x-fader-reason: slow-body\r\n"), "{reply}");
    server.stop().await;
}

/// The head of a large request to a service, signed as it says.
fn head(signed: &str) -> String {
    format!("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2000000\r\n{signed}\r\n")
}

#[tokio::test]
async fn a_body_is_not_waited_for_whose_signature_cannot_be_right() {
    let server = Server::start(Settings::default()).await;
    let header = |service: &str| {
        format!(
            "Authorization: AWS4-HMAC-SHA256 Credential={KEY_ID}/20200101/us-east-1/{service}/\
             aws4_request, SignedHeaders=host, Signature=00\r\nX-Amz-Date: 20200101T000000Z\r\n"
        )
    };
    for (signed, code) in [
        (header("sdb"), "RequestExpired"),
        (header("sqs"), "SignatureDoesNotMatch"),
        (
            "Authorization: Basic eDp5\r\n".to_owned(),
            "InvalidHTTPAuthHeader",
        ),
    ] {
        let mut connection = server.connect().await;
        connection
            .write_all(head(&signed).as_bytes())
            .await
            .unwrap();
        // Not one byte of the body is sent.
        let reply = read_all(&mut connection).await;
        assert!(reply.contains(code), "{signed}: {reply}");
        assert!(reply.contains("connection: close\r\n"), "{reply}");
    }
    server.check_refusing().await;
    server.stop().await;
}

#[tokio::test]
async fn partial_heads_end_when_they_are_too_much() {
    let server = Server::start(Settings {
        heads_bytes_max: 20_000,
        ..anonymous()
    })
    .await;
    let part = format!("GET / HTTP/1.1\r\nX: {}", "x".repeat(15_000));
    let mut heads = Vec::new();
    for _ in 0..4 {
        let mut connection = server.connect().await;
        connection.write_all(part.as_bytes()).await.unwrap();
        server.check_alive().await;
        heads.push(connection);
    }
    assert_eq!(read_all(&mut heads[0]).await, "");
    server.check_alive().await;
    server.stop().await;
}

#[tokio::test]
async fn uris_headers_and_parameters_are_bounded() {
    let settings = Settings {
        uri_bytes_max: 200,
        header_bytes_max: 1000,
        parameters_max: 5,
        ..anonymous()
    };
    let server = Server::start(settings).await;
    let get = |filler: usize| {
        format!(
            "GET /?{LIST}&X={} HTTP/1.1\r\nHost: localhost\r\n\r\n",
            "x".repeat(filler)
        )
    };
    let exactly = 200 - "/?&X=".len() - LIST.len();
    for (request, expected) in [
        (get(exactly), (200, "")),
        (get(exactly + 1), (400, "URITooLong")),
        (post(&format!("{LIST}&a&b&c")), (200, "")),
        (
            post(&format!("{LIST}&a&b&c&d")),
            (400, "InvalidHttpRequest"),
        ),
        (get(5000), (431, "")),
        (
            format!(
                "GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n",
                "x".repeat(5000)
            ),
            (431, ""),
        ),
        (
            format!(
                "GET / HTTP/1.1\r\nHost: localhost\r\n{}\r\n",
                "X: y\r\n".repeat(200)
            ),
            (431, ""),
        ),
    ] {
        let reply = server.exchange(request.as_bytes()).await;
        assert_eq!(outcome(&reply), expected, "{request}\n{reply}");
    }
    server.check_alive().await;
    server.stop().await;
}

#[tokio::test]
async fn clients_that_stop_half_way_are_cut() {
    let server = Server::start(impatient()).await;
    for part in [
        "",
        "P",
        "POST / HTTP/1.1\r\nHost: loc",
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nAction=Li",
        "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nAction",
    ] {
        let mut connection = server.connect().await;
        connection.write_all(part.as_bytes()).await.unwrap();
        // The server ends it, without a word.
        assert_eq!(read_all(&mut connection).await, "", "{part}");
    }
    // After a reply too.
    let mut connection = server.connect().await;
    connection.write_all(post(LIST).as_bytes()).await.unwrap();
    assert!(read_all(&mut connection).await.starts_with("HTTP/1.1 200"));
    server.check_alive().await;
    server.stop().await;
}

#[tokio::test]
async fn clients_that_trickle_are_cut() {
    let server = Server::start(impatient()).await;
    for start in [
        "",
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n",
    ] {
        let mut connection = server.connect().await;
        connection.write_all(start.as_bytes()).await.unwrap();
        // Each byte comes well within the limit; all of them together never would.
        let mut pause = tokio::time::interval(Duration::from_millis(5));
        loop {
            pause.tick().await;
            if connection.write_all(b"x").await.is_err() {
                break;
            }
        }
    }
    server.check_alive().await;
    server.stop().await;
}

#[tokio::test]
async fn clients_that_do_not_read_are_cut() {
    let settings = Settings {
        uri_bytes_max: 60_000,
        ..impatient()
    };
    let server = Server::start(settings).await;
    let mut connection = server.connect().await;
    // Each reply repeats the unknown action; they are not read, until the server gives up.
    let request = format!(
        "GET /?Version=2009-04-15&Action={} HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "x".repeat(50_000)
    );
    while connection.write_all(request.as_bytes()).await.is_ok() {}
    server.check_alive().await;
    server.stop().await;
}

#[tokio::test]
async fn half_closed_connections_get_their_reply() {
    let server = Server::start(anonymous()).await;
    // `exchange` ends its half with the last byte of the request.
    let reply = server.post(LIST).await;
    assert_eq!(outcome(&reply), (200, ""), "{reply}");
    // A request that was not finished when its half ended gets none that helps.
    let half = &post(LIST)[..100];
    let reply = server.exchange(half.as_bytes()).await;
    assert_ne!(outcome(&reply).0, 200, "{reply}");
    let short = post(LIST).replace("Content-Length: 3", "Content-Length: 9");
    let reply = server.exchange(short.as_bytes()).await;
    assert_ne!(outcome(&reply).0, 200, "{reply}");
    server.check_alive().await;
    server.stop().await;
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let server = Server::start(anonymous()).await;
    let mut connection = server.connect().await;
    let requests: String = [
        "CreateDomain&DomainName=cats",
        "ListDomains",
        "Fade",
        "ListDomains",
    ]
    .into_iter()
    .map(|action| post(&format!("Version=2009-04-15&Action={action}")))
    .collect();
    connection.write_all(requests.as_bytes()).await.unwrap();
    for expected in ["<CreateDomainResponse", ">cats<", "InvalidAction", ">cats<"] {
        let reply = read_reply(&mut connection).await;
        assert!(reply.contains(expected), "{reply}");
    }
    server.stop().await;
}

#[tokio::test]
async fn http_1_0_is_answered_and_closed() {
    let server = Server::start(anonymous()).await;
    let mut connection = server.connect().await;
    let request = format!("GET /?{LIST} HTTP/1.0\r\n\r\n");
    connection.write_all(request.as_bytes()).await.unwrap();
    let reply = read_all(&mut connection).await;
    assert!(reply.starts_with("HTTP/1.0 200 OK\r\n"), "{reply}");
    server.stop().await;
}

#[tokio::test]
async fn a_reply_in_place_of_100_continue_is_the_last_of_its_connection() {
    let server = Server::start(anonymous()).await;
    let request = |form: &str| {
        let expecting = "Host: localhost\r\nExpect: 100-continue\r\n";
        post(form).replace("Host: localhost\r\n", expecting)
    };
    // Nothing is asked for where the body is empty.
    let empty = format!("/?{LIST}");
    let mut connection = server.connect().await;
    let asked = request("").replacen(" / ", &format!(" {empty} "), 1);
    connection.write_all(asked.as_bytes()).await.unwrap();
    let reply = read_all(&mut connection).await;
    assert_eq!(outcome(&reply), (200, ""), "{reply}");
    assert!(reply.contains("connection: close\r\n"), "{reply}");
    // A body that is asked for leaves it open.
    let reply = server.exchange(request(LIST).as_bytes()).await;
    assert!(
        reply.starts_with("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200"),
        "{reply}"
    );
    assert!(!reply.contains("connection: close\r\n"), "{reply}");
    server.stop().await;
}

#[tokio::test]
async fn an_idle_connection_gives_way_strangers_first() {
    let server = Server::start(Settings {
        connections_max: 2,
        connections_per_address: 2,
        ..anonymous()
    })
    .await;
    let mut known = server.connect().await;
    known.write_all(post(LIST).as_bytes()).await.unwrap();
    assert_eq!(outcome(&read_reply(&mut known).await), (200, ""));
    let mut stranger = server.connect().await;
    server.check_alive().await;
    assert_eq!(read_all(&mut stranger).await, "");
    known.write_all(post(LIST).as_bytes()).await.unwrap();
    assert_eq!(outcome(&read_reply(&mut known).await), (200, ""));
    server.stop().await;
}

#[tokio::test]
async fn where_all_are_at_work_the_health_is_told_and_nothing_else() {
    let server = Server::start(Settings {
        connections_max: 1,
        connections_per_address: 1,
        ..anonymous()
    })
    .await;
    let ask = |action: &str, more: &str| post(&format!("Action={action}&Version=2012-11-05{more}"));
    let create = ask("CreateQueue", "&QueueName=q");
    let made = server.exchange(create.as_bytes()).await;
    assert_eq!(outcome(&made).0, 200, "{made}");
    let queue = "&QueueUrl=http%3A%2F%2Flocalhost%2F000000000001%2Fq&WaitTimeSeconds=20";
    let receive = ask("ReceiveMessage", queue);
    let mut waiting = server.connect().await;
    waiting.write_all(receive.as_bytes()).await.unwrap();
    while server.node.counters().parked == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let reply = server.post(LIST).await;
    assert_eq!(outcome(&reply), (503, "ServiceUnavailable"), "{reply}");
    assert!(reply.contains("x-fader-reason: connections\r\n"), "{reply}");
    assert!(reply.contains("connection: close\r\n"), "{reply}");
    for page in ["/healthz", "/metrics"] {
        let request = format!("GET {page} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let reply = server.exchange(request.as_bytes()).await;
        assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
    }
    server.stop().await;
    drop(waiting);
}

/// It shows CONN-3.
#[tokio::test]
async fn stopping_ends_resting_and_unfinished_connections() {
    let server = Server::start(anonymous()).await;
    let mut resting = server.connect().await;
    resting.write_all(post(LIST).as_bytes()).await.unwrap();
    read_reply(&mut resting).await;
    let mut unfinished = server.connect().await;
    unfinished
        .write_all(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n")
        .await
        .unwrap();
    let mut running = server.connect().await;
    running.write_all(post(LIST).as_bytes()).await.unwrap();
    // A client that is answered has been accepted, and all before it.
    let reply = read_reply(&mut running).await;
    assert_eq!(outcome(&reply), (200, ""));
    server.signal_stop();
    assert_eq!(read_all(&mut resting).await, "");
    assert_eq!(read_all(&mut unfinished).await, "");
    server.stop().await;
}

/// A server that never stops: a property has no place to stop it.
fn check_garbage(garbage: &[u8]) -> Result<(), TestCaseError> {
    use std::sync::OnceLock;
    static SERVER: OnceLock<(tokio::runtime::Runtime, Server)> = OnceLock::new();
    let (runtime, server) = SERVER.get_or_init(|| {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let server = runtime.block_on(Server::start(anonymous()));
        (runtime, server)
    });
    runtime.block_on(async {
        let reply = server.exchange(garbage).await;
        prop_assert_ne!(outcome(&reply).0, 500);
        server.check_alive().await;
        Ok(())
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_bytes_are_answered_or_cut(
        garbage in prop_oneof![
            any::<Vec<u8>>(),
            any::<Vec<u8>>().prop_map(|body| {
                let start = "POST / HTTP/1.1\r\nHost: localhost\r\n";
                let head = format!("{start}Content-Length: {}\r\n\r\n", body.len());
                [head.into_bytes(), body].concat()
            }),
            "GET /\\?[!-~]{0,60} HTTP/1.1\r\nHost: localhost\r\n\r\n".prop_map(String::into_bytes),
            "POST / HTTP/1.1\r\n[A-Za-z-]{1,20}: [ -~]{0,60}\r\n\r\n".prop_map(String::into_bytes),
            "(Action|Version|Item\\.1\\.Attribute|Expected|[A-Z]{1,3}|=|&|%[0-9A-F]{2}){0,30}"
                .prop_map(|form| post(&format!("{LIST}&{form}")).into_bytes()),
        ]
    ) {
        check_garbage(&garbage)?;
    }
}
