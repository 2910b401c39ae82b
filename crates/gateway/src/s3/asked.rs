//! Whether a request is one to S3: by its scope, then by its host, its method and its path.
//!
//! ```text
//! a scope, in the header or in the query     the service that it names
//! AWS key:signature, or Expires in a query   S3: its own version 2
//! x-amz-target, Action                       another service
//! BUCKET.DOMAIN, PUT, DELETE, OPTIONS, …      S3
//! a path that is not "/"                     S3, but for the forms of queues' URLs
//! ```

use hyper::Method;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::http::request::Parts;

use crate::s3::place::bucket_of;

/// Where the service stands in `key/day/region/service/aws4_request`.
const SERVICE_AT: usize = 3;

/// Whether the head of a request is one to S3, of which `domains` are names.
pub(crate) fn is_asked(parts: &Parts, domains: &[String]) -> bool {
    let text = |name| {
        parts
            .headers
            .get(name)
            .and_then(|it: &hyper::header::HeaderValue| it.to_str().ok())
    };
    if let Some(header) = text(AUTHORIZATION.as_str()) {
        return match header.split_once("Credential=") {
            Some((_, rest)) => {
                let credential = rest.split([',', ' ']).next().unwrap_or_default();
                credential.split('/').nth(SERVICE_AT) == Some("s3")
            }
            None => header.starts_with("AWS "),
        };
    }
    if parts.headers.contains_key("x-amz-target") {
        return false;
    }
    let query = Query(parts.uri.query().unwrap_or_default());
    if let Some(credential) = query.get("X-Amz-Credential") {
        let credential = credential.replace("%2F", "/").replace("%2f", "/");
        return credential.split('/').nth(SERVICE_AT) == Some("s3");
    }
    if query.has("Action") || query.has("SignatureVersion") {
        return false;
    }
    if query.has("AWSAccessKeyId") {
        return true;
    }
    let host = text(HOST.as_str()).unwrap_or_default();
    if bucket_of(host, domains).is_some() {
        return true;
    }
    let path = parts.uri.path();
    match parts.method {
        Method::POST => {
            let kind = text(CONTENT_TYPE.as_str()).unwrap_or_default();
            let is_file = kind.to_ascii_lowercase().starts_with("multipart/form-data");
            let is_of_s3 = ["delete", "uploads", "uploadId"]
                .iter()
                .any(|it| query.has(it));
            path != "/" && (is_file || is_of_s3)
        }
        Method::GET => path != "/",
        _ => true,
    }
}

/// A query as it came.
struct Query<'a>(&'a str);

impl<'a> Query<'a> {
    fn get(&self, name: &str) -> Option<&'a str> {
        self.0.split('&').find_map(|pair| {
            let (found, value) = pair.split_once('=').unwrap_or((pair, ""));
            (found == name).then_some(value)
        })
    }

    fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }
}

#[cfg(test)]
mod tests {
    use hyper::Request;

    use super::*;

    fn asked(method: &str, uri: &str, headers: &[(&str, &str)]) -> bool {
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (parts, ()) = request.body(()).expect("it is a request").into_parts();
        is_asked(&parts, &["localhost".to_owned()])
    }

    fn scope(service: &str) -> String {
        format!("AWS4-HMAC-SHA256 Credential=K/20261125/us-east-1/{service}/aws4_request, Sig=1")
    }

    #[test]
    fn the_service_is_the_one_that_the_request_names() {
        let of =
            |service: &str, method, uri| asked(method, uri, &[("authorization", &scope(service))]);
        assert!(of("s3", "GET", "/") && of("s3", "POST", "/b/k?uploads"));
        assert!(!of("sqs", "POST", "/1/q") && !of("sdb", "GET", "/b"));
        assert!(!of("sdb", "POST", "/v2/ListExports"));
        assert!(asked("GET", "/b", &[("authorization", "AWS K:c2ln")]));
        assert!(asked(
            "GET",
            "/?X-Amz-Credential=K%2F1%2Fr%2Fs3%2Faws4_request",
            &[]
        ));
        assert!(!asked(
            "GET",
            "/q?X-Amz-Credential=K%2F1%2Fr%2Fsqs%2Faws4_request",
            &[]
        ));
        assert!(asked(
            "GET",
            "/b/k?AWSAccessKeyId=K&Signature=s&Expires=1",
            &[]
        ));
        assert!(!asked(
            "GET",
            "/?AWSAccessKeyId=K&Signature=s&SignatureVersion=2",
            &[]
        ));
    }

    #[test]
    fn unsigned_requests_are_told_by_host_method_and_path() {
        assert!(asked("GET", "/", &[("host", "b.localhost:80")]));
        assert!(asked("GET", "/b/k", &[]) && asked("PUT", "/b", &[]) && asked("HEAD", "/b", &[]));
        assert!(asked(
            "POST",
            "/b",
            &[("content-type", "multipart/form-data; boundary=a")]
        ));
        assert!(asked("POST", "/b/k?uploadId=1", &[]));
        assert!(!asked("GET", "/", &[]) && !asked("POST", "/", &[]));
        assert!(!asked("GET", "/1/q?Action=ReceiveMessage", &[]));
        let form = ("content-type", "application/x-www-form-urlencoded");
        assert!(!asked("POST", "/1/q", &[form]));
        assert!(!asked(
            "POST",
            "/1/q",
            &[("x-amz-target", "AmazonSQS.SendMessage")]
        ));
    }
}
