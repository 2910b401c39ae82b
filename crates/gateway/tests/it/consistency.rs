//! How a client chooses its consistency, over real HTTP: semantics.md, section 2.

use std::time::Duration;

use fader_gateway::Settings;

use crate::server::{KEY_ID, Server, anonymous, outcome, post, recorded};

const VERSION: &str = "Version=2009-04-15";
const GET: &str = "Action=GetAttributes&DomainName=cats&ItemName=tom&Version=2009-04-15";
const PUT: &str = "Action=PutAttributes&DomainName=cats&ItemName=tom&Version=2009-04-15\
                   &Attribute.1.Name=colour&Attribute.1.Value=black";
const SELECT: &str = "Action=Select&SelectExpression=select+*+from+cats&Version=2009-04-15";
const CONDITION: &str = "&Expected.1.Name=colour&Expected.1.Exists=false";

/// A server with a domain called `cats`.
async fn with_cats() -> Server {
    let server = Server::start(anonymous()).await;
    let create = format!("Action=CreateDomain&DomainName=cats&{VERSION}");
    assert_eq!(outcome(&server.post(&create).await), (200, ""));
    server
}

/// A form posted with these lines in the head.
fn with_headers(form: &str, headers: &[(&str, &str)]) -> String {
    let lines: String = headers
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    post(form).replacen(
        "Host: localhost\r\n",
        &format!("Host: localhost\r\n{lines}"),
        1,
    )
}

/// The headers of a reply that only Fader sends.
fn told(reply: &str) -> Vec<&str> {
    let (head, _) = reply.split_once("\r\n\r\n").unwrap();
    head.lines()
        .filter(|line| line.starts_with("x-fader-"))
        .collect()
}

#[tokio::test]
async fn a_request_without_options_has_no_extra_headers() {
    let server = with_cats().await;
    for form in [PUT, GET, SELECT] {
        let reply = server.post(form).await;
        let (head, _) = reply.split_once("\r\n\r\n").unwrap();
        let names: Vec<&str> = head
            .lines()
            .skip(1)
            .filter_map(|line| Some(line.split_once(':')?.0))
            .filter(|name| *name != "connection")
            .collect();
        assert_eq!(names, ["content-type", "content-length", "date"], "{reply}");
    }
    server.stop().await;
}

#[tokio::test]
async fn levels_are_taken_as_header_and_as_parameter() {
    let server = with_cats().await;
    for (form, level) in [
        (PUT, "strong"),
        (PUT, "default; outcome"),
        (PUT, "barrier"),
        (GET, "strong"),
        (GET, "barrier"),
        (GET, "eventual"),
        (GET, "eventual; r=1; w=1; sloppy; bound=500ms"),
        (GET, "eventual;bound=10v"),
        (SELECT, "strong"),
        (SELECT, "eventual"),
    ] {
        let parameter = level.replace(' ', "%20");
        let parameter = format!("{form}&Fader-Consistency={parameter}");
        for request in [
            with_headers(form, &[("X-FADER-Consistency", level)]),
            post(&parameter),
            with_headers(&parameter, &[("x-fader-consistency", level)]),
        ] {
            let reply = server.exchange(request.as_bytes()).await;
            assert_eq!(outcome(&reply), (200, ""), "{request}\n{reply}");
        }
        let query = format!("GET /?{parameter} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let reply = server.exchange(query.as_bytes()).await;
        assert_eq!(outcome(&reply), (200, ""), "{query}\n{reply}");
    }
    server.stop().await;
}

#[tokio::test]
async fn contradictory_options_are_refused_without_effect() {
    let server = with_cats().await;
    let consistent = format!("{GET}&ConsistentRead=true");
    let select = format!("{SELECT}&ConsistentRead=true");
    let conditional = format!("{PUT}{CONDITION}");
    let create = format!("Action=CreateDomain&DomainName=dogs&{VERSION}");
    let delete = format!("Action=DeleteDomain&DomainName=cats&{VERSION}");
    for (form, headers) in [
        (&*consistent, &[("x-fader-consistency", "eventual")][..]),
        (&select, &[("x-fader-consistency", "eventual")]),
        (&conditional, &[("x-fader-consistency", "eventual")]),
        (PUT, &[("x-fader-consistency", "eventual")]),
        (PUT, &[("x-fader-consistency", "eventual; bound=1v")]),
        (SELECT, &[("x-fader-consistency", "eventual; r=2")]),
        (SELECT, &[("x-fader-consistency", "barrier")]),
        (&create, &[("x-fader-consistency", "eventual")]),
        (&delete, &[("x-fader-consistency", "eventual")]),
        (GET, &[("x-fader-collection-mode", "mixed")]),
        (GET, &[("x-fader-collection-consistency", "strong")]),
    ] {
        let request = with_headers(form, headers);
        let reply = server.exchange(request.as_bytes()).await;
        let expected = (400, "InvalidParameterCombination");
        assert_eq!(outcome(&reply), expected, "{request}\n{reply}");
        assert_eq!(told(&reply), [""; 0], "{reply}");
    }
    let both = format!("{GET}&Fader-Consistency=eventual");
    for request in [
        with_headers(&both, &[("x-fader-consistency", "strong")]),
        with_headers(GET, &[("x-fader-session", ""), ("x-fader-session", "AA")]),
        post(&format!("{both}&Fader-Consistency=eventual")),
    ] {
        let reply = server.exchange(request.as_bytes()).await;
        assert_eq!(
            outcome(&reply),
            (400, "InvalidParameterCombination"),
            "{request}"
        );
    }
    let reply = server.post(GET).await;
    assert!(
        reply.contains("<GetAttributesResult></GetAttributesResult>"),
        "{reply}"
    );
    let list = format!("Action=ListDomains&{VERSION}");
    let reply = server.post(&list).await;
    assert!(
        reply.contains("<ListDomainsResult><DomainName>cats</DomainName></List"),
        "{reply}"
    );
    server.stop().await;
}

/// It shows ASK-2.
#[tokio::test]
async fn words_that_are_not_known_are_refused_with_those_that_are() {
    let server = with_cats().await;
    for (name, value, words) in [
        (
            "x-fader-consistency",
            "weak",
            "one of strong, barrier, eventual and default",
        ),
        (
            "x-fader-consistency",
            "eventual; q=2",
            "r=N, w=N, sloppy, bound=Nms, bound=Nv",
        ),
        (
            "x-fader-consistency",
            "eventual; r=0",
            "a whole number from 1 to 255",
        ),
        (
            "x-fader-consistency",
            "strong; sloppy",
            "goes with eventual, not with strong",
        ),
        (
            "x-fader-consistancy",
            "strong",
            "x-fader-consistency, x-fader-session",
        ),
        ("x-fader-request", "me", "CLIENT/SEQ"),
        ("x-fader-session", "?", "no token that a reply carried"),
        (
            "x-fader-collection-mode",
            "loose",
            "one of strong, mixed and eventual",
        ),
        (
            "x-fader-collection-consistency",
            "default",
            "cannot be preferred",
        ),
    ] {
        let request = with_headers(GET, &[(name, value)]);
        let reply = server.exchange(request.as_bytes()).await;
        assert_eq!(
            outcome(&reply),
            (400, "InvalidParameterValue"),
            "{request}\n{reply}"
        );
        assert!(reply.contains(words), "{reply}");
    }
    server.stop().await;
}

#[tokio::test]
async fn signatures_cover_parameters() {
    // The recorded requests are of one fixed moment.
    let settings = Settings {
        anonymous: None,
        clock_skew: Duration::from_secs(100 * 365 * 24 * 3600),
        ..anonymous()
    };
    let server = Server::start(settings).await;
    for request in recorded() {
        if request.contains("X-Amz-Expires") {
            continue;
        }
        assert!(request.contains(KEY_ID));
        // A header that the signature does not name may come along: as far as that it passes.
        let unsigned = request.replacen("\r\n", "\r\nx-fader-consistency: strong\r\n", 1);
        let reply = server.exchange(unsigned.as_bytes()).await;
        let expected = [(200, ""), (400, "NoSuchDomain")];
        assert!(expected.contains(&outcome(&reply)), "{unsigned}\n{reply}");
        let added = if request.starts_with("GET") {
            request.replacen("/?", "/?Fader-Consistency=strong&", 1)
        } else {
            request.replacen("POST / ", "POST /?Fader-Consistency=strong ", 1)
        };
        assert_ne!(added, request);
        let reply = server.exchange(added.as_bytes()).await;
        assert_eq!(outcome(&reply), (403, "SignatureDoesNotMatch"), "{added}");
    }
    server.stop().await;
}
