//! What a client of SimpleDB sees: actions, signatures, refusals.

use std::time::Duration;

use fader_gateway::Settings;
use tokio::io::AsyncWriteExt as _;

use crate::server::{KEY_ID, Server, anonymous, outcome, post, read_reply, recorded};

const VERSION: &str = "Version=2009-04-15";
const LIST: &str = "Action=ListDomains&Version=2009-04-15";

#[tokio::test]
async fn a_value_goes_in_and_comes_out() {
    let server = Server::start(anonymous()).await;
    let mut connection = server.connect().await;
    for (form, expected) in [
        (
            "Action=CreateDomain&DomainName=cats",
            "<CreateDomainResponse xmlns=",
        ),
        (
            "Action=PutAttributes&DomainName=cats&ItemName=a+b%26c\
             &Attribute.0.Name=colour&Attribute.0.Value=black%01\
             &Attribute.1.Name=%C3%A9&Attribute.1.Value=%3C7%3E",
            "<BoxUsage>0.00002",
        ),
        (
            "Action=GetAttributes&DomainName=cats&ItemName=a%20b%26c&ConsistentRead=true",
            "<GetAttributesResult><Attribute><Name>colour</Name>\
             <Value encoding=\"base64\">YmxhY2sB</Value></Attribute>\
             <Attribute><Name>é</Name><Value>&lt;7&gt;</Value></Attribute></GetAttributesResult>",
        ),
        (
            "Action=Select&SelectExpression=select+itemName()+from+cats",
            "<SelectResult><Item><Name>a b&amp;c</Name></Item></SelectResult>",
        ),
        (
            "Action=ExplainSelect&SelectExpression=select+*+from+cats",
            "<ExplainSelectResult><Line>",
        ),
        (
            "Action=ListDomains",
            "<DomainName>cats</DomainName></ListDomainsResult>",
        ),
        (
            "Action=DomainMetadata&DomainName=cats",
            "<ItemCount>1</ItemCount>",
        ),
    ] {
        let request = post(&format!("{form}&{VERSION}"));
        connection.write_all(request.as_bytes()).await.unwrap();
        let reply = read_reply(&mut connection).await;
        assert!(
            reply.starts_with("HTTP/1.1 200 OK\r\ncontent-type: text/xml\r\n"),
            "{reply}"
        );
        assert!(reply.contains(expected), "{reply}");
    }
    server.stop().await;
}

#[tokio::test]
async fn query_of_2007_is_served_in_its_version_only() {
    let server = Server::start(anonymous()).await;
    server
        .post("Action=CreateDomain&DomainName=cats&Version=2007-11-07")
        .await;
    let reply = server
        .post("Action=Query&DomainName=cats&Version=2007-11-07")
        .await;
    assert!(reply.contains("xmlns=\"http://sdb.amazonaws.com/doc/2007-11-07/\"><QueryResult>"));
    let reply = server
        .post("Action=Query&DomainName=cats&Version=2009-04-15")
        .await;
    assert_eq!(outcome(&reply), (400, "InvalidAction"));
    server.stop().await;
}

#[tokio::test]
async fn parameters_may_stand_in_the_query_and_the_form() {
    let server = Server::start(anonymous()).await;
    for request in [
        "GET /?Action=ListDomains&Version=2009-04-15 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET http://localhost/?Action=ListDomains&Version=2009-04-15 HTTP/1.1\r\n\
         Host: localhost\r\n\r\n",
        "POST /?Action=ListDomains HTTP/1.1\r\nHost: localhost\r\nContent-Length: 18\r\n\r\n\
         Version=2009-04-15",
        "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n\
         12\r\nAction=ListDomains\r\n13\r\n&Version=2009-04-15\r\n0\r\n\r\n",
    ] {
        let reply = server.exchange(request.as_bytes()).await;
        assert!(
            reply.contains("<ListDomainsResult></ListDomainsResult>"),
            "{request}\n{reply}"
        );
    }
    server.stop().await;
}

/// Asks for a list with one thing changed, on a server of its own.
async fn check_refusals(cases: &[(String, (u16, &str))]) {
    let server = Server::start(anonymous()).await;
    for (request, expected) in cases {
        let reply = server.exchange(request.as_bytes()).await;
        assert_eq!(outcome(&reply), *expected, "{request}\n{reply}");
    }
    server.check_alive().await;
    server.stop().await;
}

#[tokio::test]
async fn forms_that_make_no_sense_are_refused_by_name() {
    let of = |form: &str, expected| (post(form), expected);
    let list = |more: &str, expected| (post(&format!("{LIST}&{more}")), expected);
    check_refusals(&[
        of("", (400, "MissingParameter")),
        of("Action=ListDomains", (400, "MissingParameter")),
        of(
            "Action=ListDomains&Version=2013-01-01",
            (400, "NoSuchVersion"),
        ),
        of("Version=2009-04-15", (400, "MissingAction")),
        of("Version=2009-04-15&Action=Fade", (400, "InvalidAction")),
        of(
            "Version=2009-04-15&Action=CreateDomain",
            (400, "MissingParameter"),
        ),
        of(
            "Version=2009-04-15&Action=DomainMetadata&DomainName=none",
            (400, "NoSuchDomain"),
        ),
        list("X=%FF", (400, "InvalidParameterValue")),
        list("X=%F", (400, "InvalidParameterValue")),
        list("%F=", (400, "InvalidHttpRequest")),
        list("X=1&X=1", (400, "InvalidParameterCombination")),
        list("MaxNumberOfDomains=0", (400, "InvalidParameterValue")),
    ])
    .await;
}

#[tokio::test]
async fn http_that_makes_no_sense_is_refused_by_name() {
    let changed = |from: &str, to: &str, expected| (post(LIST).replacen(from, to, 1), expected);
    let form = "application/x-www-form-urlencoded; charset=utf-8";
    check_refusals(&[
        // Other methods are S3's, which has none of these at the root.
        changed("POST", "PUT", (405, "MethodNotAllowed")),
        changed("POST", "DELETE", (405, "MethodNotAllowed")),
        changed("POST", "FADE", (405, "MethodNotAllowed")),
        // The reply to HEAD has no body.
        changed("POST", "HEAD", (405, "")),
        changed("POST /", "POST /bucket/key", (400, "InvalidURI")),
        changed("POST /", "POST /%2e", (400, "InvalidURI")),
        changed(
            form,
            "multipart/form-data; boundary=x",
            (400, "InvalidHttpRequest"),
        ),
        changed("POST", "", (400, "")),
        changed("HTTP/1.1", "HTTP/9.9", (400, "")),
        changed(form, "application/json", (400, "InvalidHttpRequest")),
        changed(form, "APPLICATION/X-WWW-FORM-URLENCODED", (200, "")),
    ])
    .await;
}

#[tokio::test]
async fn signed_requests_pass_and_changed_ones_do_not() {
    // They are of one fixed moment.
    let settings = Settings {
        clock_skew: Duration::from_secs(100 * 365 * 24 * 3600),
        ..anonymous()
    };
    let server = Server::start(settings).await;
    server
        .post("Action=CreateDomain&DomainName=cats&Version=2009-04-15")
        .await;
    // Presigned requests name their own end, which no skew moves.
    for request in recorded()
        .into_iter()
        .filter(|request| !request.contains("X-Amz-Expires"))
    {
        let reply = server.exchange(request.as_bytes()).await;
        let (status, code) = outcome(&reply);
        // The puts have a condition that does not hold: they came as far as that.
        assert!(
            (status, code) == (200, "") || code == "AttributeDoesNotExist",
            "{reply}"
        );
        let changed = request.replacen("Version=2009-04-15", "Version=2007-11-07", 1);
        let reply = server.exchange(changed.as_bytes()).await;
        assert_eq!(outcome(&reply), (403, "SignatureDoesNotMatch"), "{changed}");
        let unknown = request.replace(KEY_ID, "AKIDEXAMPLE99999");
        let reply = server.exchange(unknown.as_bytes()).await;
        assert_eq!(outcome(&reply), (403, "InvalidClientTokenId"), "{unknown}");
    }
    server.stop().await;
}

#[tokio::test]
async fn old_and_unsigned_requests_are_refused() {
    let server = Server::start(Settings {
        anonymous: None,
        ..anonymous()
    })
    .await;
    for request in recorded() {
        let reply = server.exchange(request.as_bytes()).await;
        assert_eq!(outcome(&reply), (400, "RequestExpired"), "{request}");
    }
    let reply = server.post("Action=ListDomains&Version=2009-04-15").await;
    assert_eq!(outcome(&reply), (403, "AuthMissingFailure"));
    server.stop().await;
}

#[tokio::test]
async fn health_and_metrics_need_no_signature() {
    let server = Server::start(Settings {
        anonymous: None,
        ..anonymous()
    })
    .await;
    let reply = server
        .exchange(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .await;
    assert!(
        reply.starts_with("HTTP/1.1 200") && reply.ends_with("{\"status\":\"ok\"}"),
        "{reply}"
    );
    server.post("Action=ListDomains&Version=2009-04-15").await;
    let reply = server
        .exchange(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .await;
    for line in [
        "fader_requests_total{action=\"ListDomains\",code=\"AuthMissingFailure\"} 1\n",
        "fader_requests_total{action=\"Select\",code=\"ok\"} 0\n",
        "fader_request_duration_seconds_count{action=\"ListDomains\"} 1\n",
        "\nfader_connections ",
        "fader_requests_in_flight 1\n",
        "\nfader_log_entries_total ",
        "\nfader_commit_index ",
        "# EOF\n",
    ] {
        assert!(reply.contains(line), "{line}{reply}");
    }
    server.stop().await;
}
