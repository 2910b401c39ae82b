//! The service that a request is to: by its scope, then by its host, its method and its path.
//!
//! ```text
//! a scope, in the header or in the query     the service that it names
//! AWS key:signature, or Expires in a query   S3: its own version 2
//! x-amz-target                               SQS, or a service that Fader lacks
//! Action                                     SimpleDB or SQS, as Version says
//! BUCKET.DOMAIN, PUT, DELETE, OPTIONS, …      S3
//! a path that is not "/"                     S3, but for the forms of queues' URLs
//! ```

use hyper::Method;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderName};
use hyper::http::request::Parts;

use crate::s3::bucket_of;
use crate::sqs;

/// Where the service stands in `key/day/region/service/aws4_request`.
const SERVICE_AT: usize = 3;

/// The service that the head of a request names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AskedService {
    /// S3.
    S3,
    /// SQS.
    Sqs,
    /// None of these two.
    Other,
    /// The head leaves it open: the parameters name SimpleDB or SQS.
    Unsaid,
}

impl AskedService {
    /// The service that a request with this head is to. `domains` are names of S3.
    pub(crate) fn of(parts: &Parts, domains: &[String]) -> AskedService {
        if let Some(header) = text(parts, &AUTHORIZATION) {
            let credential = credential_in(header);
            if let Some(service) = credential.and_then(service_in) {
                return AskedService::named(service);
            }
            if credential.is_none() && header.starts_with("AWS ") {
                return AskedService::S3;
            }
            return by_target(parts).unwrap_or(AskedService::Unsaid);
        }
        if let Some(service) = by_target(parts) {
            return service;
        }
        match is_unsigned_head_of_s3(parts, domains) {
            true => AskedService::S3,
            false => AskedService::Unsaid,
        }
    }

    fn named(service: &str) -> AskedService {
        match service {
            "s3" => AskedService::S3,
            "sqs" => AskedService::Sqs,
            _ => AskedService::Other,
        }
    }
}

/// The credential that the header `Authorization` of version 4 names.
pub(crate) fn credential_in(header: &str) -> Option<&str> {
    let (_, rest) = header.split_once("Credential=")?;
    rest.split([',', ' ']).next()
}

/// The service in the scope of a credential.
pub(crate) fn service_in(credential: &str) -> Option<&str> {
    credential.split('/').nth(SERVICE_AT)
}

fn text<'a>(parts: &'a Parts, name: &HeaderName) -> Option<&'a str> {
    parts.headers.get(name)?.to_str().ok()
}

fn by_target(parts: &Parts) -> Option<AskedService> {
    parts.headers.get(sqs::TARGET)?;
    Some(match sqs::target(&parts.headers) {
        Some(_) => AskedService::Sqs,
        None => AskedService::Other,
    })
}

/// Whether a head without a signature in its headers is one of a request to S3.
fn is_unsigned_head_of_s3(parts: &Parts, domains: &[String]) -> bool {
    let query = Query(parts.uri.query().unwrap_or_default());
    if let Some(credential) = query.get("X-Amz-Credential") {
        let credential = credential.replace("%2F", "/").replace("%2f", "/");
        return service_in(&credential) == Some("s3");
    }
    if query.has("Action") || query.has("SignatureVersion") {
        return false;
    }
    if query.has("AWSAccessKeyId") {
        return true;
    }
    let host = text(parts, &HOST).unwrap_or_default();
    if bucket_of(host, domains).is_some() {
        return true;
    }
    let path = parts.uri.path();
    match parts.method {
        Method::POST if path == "/" => false,
        Method::POST => {
            let kind = text(parts, &CONTENT_TYPE).unwrap_or_default();
            let is_file = kind.to_ascii_lowercase().starts_with("multipart/form-data");
            let is_of_s3 = ["delete", "uploads", "uploadId"]
                .iter()
                .any(|it| query.has(it));
            is_file || is_of_s3
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
            let rest = pair.strip_prefix(name)?;
            match rest.strip_prefix('=') {
                None => rest.is_empty().then_some(""),
                value => value,
            }
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

    fn service(method: &str, uri: &str, headers: &[(&str, &str)]) -> AskedService {
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (parts, ()) = request.body(()).expect("it is a request").into_parts();
        AskedService::of(&parts, &["localhost".to_owned()])
    }

    fn asked(method: &str, uri: &str, headers: &[(&str, &str)]) -> bool {
        service(method, uri, headers) == AskedService::S3
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

    #[test]
    fn the_scope_goes_before_the_target_and_the_parameters_name_the_rest() {
        let target = ("x-amz-target", "AmazonSQS.SendMessage");
        let foreign = ("x-amz-target", "DynamoDB_20120810.PutItem");
        let scoped = |name| ("authorization", scope(name));
        for (headers, expected) in [
            (vec![("authorization", scope("sqs"))], AskedService::Sqs),
            (vec![scoped("sdb")], AskedService::Other),
            (
                vec![scoped("sdb"), (target.0, target.1.to_owned())],
                AskedService::Other,
            ),
            (vec![(target.0, target.1.to_owned())], AskedService::Sqs),
            (vec![(foreign.0, foreign.1.to_owned())], AskedService::Other),
            (
                vec![
                    ("authorization", "Bearer".to_owned()),
                    (target.0, target.1.to_owned()),
                ],
                AskedService::Sqs,
            ),
            (
                vec![("authorization", "Bearer".to_owned())],
                AskedService::Unsaid,
            ),
            (vec![], AskedService::Unsaid),
        ] {
            let borrowed: Vec<(&str, &str)> = headers
                .iter()
                .map(|(name, value)| (*name, &**value))
                .collect();
            assert_eq!(service("POST", "/", &borrowed), expected, "{headers:?}");
        }
    }
}
