//! What a request says of the host that it is for, and of the page that made it. Here are HTTP's
//! own rules, and those that keep web pages out of a server without signatures.
//!
//! A web page may send a form to any address, and a name that its owner controls may stand for any
//! address (DNS rebinding). A browser says so: by `Origin`, by `Sec-Fetch-Site`, by the name in
//! `Host`. What no browser sent says none of these.

use std::net::{IpAddr, Ipv6Addr};

use fader_services::simpledb::{Code, Error};
use hyper::Version;
use hyper::header::{
    AUTHORIZATION, CONTENT_LENGTH, HOST, HeaderMap, HeaderName, ORIGIN, TRANSFER_ENCODING,
};
use hyper::http::request::Parts;

use crate::refusal::{invalid_http, refuse};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// What a parameter with a signature is called, in all ways to sign.
const SIGNATURE: &[u8] = b"Signature=";

/// Whether the request names one host, and one way to frame its body.
///
/// # Errors
/// `InvalidHttpRequest` when it does not.
pub(crate) fn check_http(parts: &Parts) -> Result<(), Error> {
    let headers = &parts.headers;
    let mut hosts = headers.get_all(HOST).iter();
    let (host, other) = (hosts.next(), hosts.next());
    if other.is_some() {
        return Err(invalid_http("it has more than one Host header"));
    }
    if host.is_none() && parts.version == Version::HTTP_11 {
        return Err(invalid_http("it has no Host header"));
    }
    let host = host.map(|host| host.as_bytes());
    if let (Some(authority), Some(host)) = (parts.uri.authority(), host)
        && !authority.as_str().as_bytes().eq_ignore_ascii_case(host)
    {
        return Err(invalid_http("its URI is that of another host"));
    }
    if headers.contains_key(CONTENT_LENGTH) && headers.contains_key(TRANSFER_ENCODING) {
        return Err(invalid_http(
            "it has both Content-Length and Transfer-Encoding",
        ));
    }
    Ok(())
}

/// Whether the request carries a signature, which is then verified.
pub(crate) fn is_signed(parts: &Parts, body: &[u8]) -> bool {
    let query = parts.uri.query().unwrap_or_default().as_bytes();
    let has = |text: &[u8]| text.windows(SIGNATURE.len()).any(|part| part == SIGNATURE);
    parts.headers.contains_key(AUTHORIZATION) || has(query) || has(body)
}

/// Whether an unsigned request may come from where it says: `hosts` are names of this server.
///
/// # Errors
/// `AccessFailure`, with what is to be done, when a foreign web page may have made it.
pub(crate) fn check_page(headers: &HeaderMap, hosts: &[String]) -> Result<(), Error> {
    let text = |name: &HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let host = text(&HOST).unwrap_or_default();
    if !host.is_empty() && !is_own(name_of(host), hosts) {
        return Err(foreign(&format!(
            "its Host is {host}, neither an address nor a name of this server (--host)"
        )));
    }
    if text(&SEC_FETCH_SITE) == Some("cross-site") {
        return Err(foreign("it comes from a page of another site"));
    }
    match text(&ORIGIN) {
        Some(origin) if origin.split_once("://").map(|(_, of)| of) != Some(host) => {
            Err(foreign(&format!("it comes from a page of {origin}")))
        }
        _ => Ok(()),
    }
}

/// The name or the address of a host, without its port.
fn name_of(host: &str) -> &str {
    match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    }
}

/// An address; a name that no other machine can be called by; or one that is listed.
fn is_own(name: &str, hosts: &[String]) -> bool {
    let is_address = name.parse::<IpAddr>().is_ok() || name.parse::<Ipv6Addr>().is_ok();
    let is_local =
        name.eq_ignore_ascii_case("localhost") || name.to_ascii_lowercase().ends_with(".localhost");
    is_address || is_local || hosts.iter().any(|host| host.eq_ignore_ascii_case(name))
}

fn foreign(why: &str) -> Error {
    refuse(
        Code::AccessFailure,
        format!("An unsigned request of a web page is not served: {why}."),
    )
}

#[cfg(test)]
mod tests {
    use hyper::Request;

    use super::*;

    fn parts(uri: &str, headers: &[(&'static str, &str)]) -> Parts {
        let mut request = Request::builder().uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).expect("it is a request").into_parts().0
    }

    #[track_caller]
    fn refused(parts: &Parts, why: &str) {
        let error = check_http(parts).expect_err("it is refused");
        assert!(error.message.contains(why), "{}", error.message);
    }

    #[test]
    fn one_host_is_named_and_one_length() {
        let host = ("host", "a:1");
        assert!(check_http(&parts("/", &[host])).is_ok());
        assert!(check_http(&parts("http://A:1/", &[host])).is_ok());
        refused(&parts("/", &[]), "no Host");
        refused(&parts("/", &[host, ("host", "a:1")]), "more than one Host");
        refused(&parts("http://b:1/", &[host]), "another host");
        let both = [
            host,
            ("content-length", "1"),
            ("transfer-encoding", "chunked"),
        ];
        refused(&parts("/", &both), "both");
    }

    fn page(headers: &[(&'static str, &str)]) -> bool {
        let hosts = ["fader.example".to_owned()];
        check_page(&parts("/", headers).headers, &hosts).is_ok()
    }

    #[test]
    fn foreign_pages_are_kept_out_and_programs_are_not() {
        for host in [
            "127.0.0.1:4566",
            "[::1]:4566",
            "[::1]",
            "localhost",
            "sqs.localhost:4566",
            "Fader.Example:4566",
        ] {
            assert!(page(&[("host", host)]), "{host}");
        }
        // A name that its owner had stand for this address.
        assert!(!page(&[("host", "rebound.example:4566")]));
        let host = ("host", "localhost:4566");
        assert!(page(&[host, ("origin", "http://localhost:4566")]));
        for origin in [
            "http://evil.example",
            "null",
            "http://localhost:80",
            "\u{e9}",
        ] {
            assert!(!page(&[host, ("origin", origin)]), "{origin}");
        }
        assert!(page(&[host, ("sec-fetch-site", "same-origin")]));
        assert!(!page(&[host, ("sec-fetch-site", "cross-site")]));
    }

    #[test]
    fn a_signature_is_found_wherever_it_is() {
        assert!(!is_signed(
            &parts("/?Action=ListDomains", &[]),
            b"Version=1"
        ));
        assert!(is_signed(&parts("/?X-Amz-Signature=1", &[]), b""));
        assert!(is_signed(&parts("/", &[]), b"Action=a&Signature=1"));
        assert!(is_signed(&parts("/", &[("authorization", "x")]), b""));
    }
}
