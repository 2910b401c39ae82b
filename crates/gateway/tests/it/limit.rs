//! A server of limited capacity: what it admits, what it refuses, and that it says so.

use std::time::{Duration, Instant};

use fader_gateway::Settings;

use crate::server::{Server, anonymous, outcome};

/// A bucket that is permanently empty after its burst: no test waits a thousand seconds.
const NEVER_AGAIN: &str = "0.000001/s";

async fn limited(limit: &str) -> Server {
    Server::start(Settings {
        limit: Some(limit.parse().unwrap()),
        ..anonymous()
    })
    .await
}

fn put(value: &str) -> String {
    format!(
        "Action=PutAttributes&Version=2009-04-15&DomainName=cats&ItemName=i&Attribute.1.Name=a\
         &Attribute.1.Value={value}&Attribute.1.Replace=true"
    )
}

const GET: &str = "Action=GetAttributes&Version=2009-04-15&DomainName=cats&ItemName=i\
                   &ConsistentRead=true";

#[tokio::test]
async fn requests_beyond_the_rate_are_refused_without_effect() {
    let server = limited(&format!("puts={NEVER_AGAIN}+2,gets={NEVER_AGAIN}+3")).await;
    let create = "Action=CreateDomain&Version=2009-04-15&DomainName=cats";
    assert_eq!(outcome(&server.post(create).await), (200, ""));
    assert_eq!(outcome(&server.post(&put("kept")).await), (200, ""));
    for _ in 0..3 {
        let reply = server.post(&put("refused")).await;
        assert_eq!(outcome(&reply), (503, "ServiceUnavailable"), "{reply}");
        let message = "<Message>Service AmazonSimpleDB is currently unavailable. Please try again \
                       later</Message>";
        assert!(reply.contains(message), "{reply}");
        assert!(reply.contains("x-fader-reason: limit\r\n"), "{reply}");
    }
    // Gets have a capacity of their own.
    for _ in 0..3 {
        let reply = server.post(GET).await;
        assert!(reply.contains("<Value>kept</Value>"), "{reply}");
    }
    assert_eq!(
        outcome(&server.post(GET).await),
        (503, "ServiceUnavailable")
    );
    // What is no request to the service is not limited: the administrator still sees.
    let page = server
        .exchange(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .await;
    for line in [
        "fader_limit_requests_total{class=\"puts\",outcome=\"admitted\"} 2\n",
        "fader_limit_requests_total{class=\"puts\",outcome=\"refused\"} 3\n",
        "fader_limit_requests_total{class=\"gets\",outcome=\"admitted\"} 3\n",
        "fader_limit_requests_total{class=\"gets\",outcome=\"refused\"} 1\n",
        "action=\"PutAttributes\",code=\"ServiceUnavailable\"} 3\n",
        "fader_refusals_total{chain=\"0\",reason=\"limit\"} 4\n",
    ] {
        assert!(page.contains(line), "{line}{page}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_bucket_fills_again() {
    let server = limited("gets=50/s+1").await;
    let list = "Action=ListDomains&Version=2009-04-15";
    while outcome(&server.post(list).await).0 == 200 {}
    while outcome(&server.post(list).await).0 != 200 {}
    server.stop().await;
}

#[tokio::test]
async fn a_request_that_makes_no_sense_takes_no_token() {
    let server = limited(&format!("gets={NEVER_AGAIN}+1")).await;
    for _ in 0..3 {
        let reply = server.post("Action=GetAttributes&Version=2009-04-15").await;
        assert_eq!(outcome(&reply), (400, "MissingParameter"), "{reply}");
    }
    server.check_alive().await;
    server.stop().await;
}

#[tokio::test]
async fn answers_and_refusals_are_as_far_away_as_is_said() {
    let server = limited(&format!("gets={NEVER_AGAIN}+1,latency=60ms")).await;
    for expected in [200, 503] {
        let start = Instant::now();
        let reply = server.post("Action=ListDomains&Version=2009-04-15").await;
        assert_eq!(outcome(&reply).0, expected, "{reply}");
        assert!(Duration::from_millis(60) <= start.elapsed());
    }
    server.stop().await;
}

#[tokio::test]
async fn without_a_limit_there_is_nothing_of_it() {
    let server = Server::start(anonymous()).await;
    let page = server
        .exchange(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .await;
    assert!(page.contains("fader_requests"), "{page}");
    assert!(!page.contains("fader_limit"), "{page}");
    server.stop().await;
}
