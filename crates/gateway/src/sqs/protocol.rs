//! Which service and which protocol a request speaks: by its credential's scope, then by
//! `X-Amz-Target`, then by `Version`.

use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, HeaderName};

use crate::asked::{credential_in, service_in};
use crate::parameters::Parameters;

/// The header that names an action of AWS JSON.
pub(crate) const TARGET: HeaderName = HeaderName::from_static("x-amz-target");
const TARGET_PREFIX: &str = "AmazonSQS.";
const VERSION: &str = "2012-11-05";
/// Where the region stands in `key/day/region/service/aws4_request`.
const REGION_AT: usize = 2;
const REGION: &str = "us-east-1";

/// How a request is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// AWS JSON 1.0.
    Json,
    /// AWS Query.
    Query,
}

/// The protocol of a request to SQS, and its region; `None` of a request to another service. Its
/// form is read as parameters already, unless it is JSON.
pub(crate) fn protocol_of(
    headers: &HeaderMap,
    parameters: &Parameters<'_>,
) -> Option<(Protocol, String)> {
    let presigned = parameters.get("X-Amz-Credential");
    let scope = credential(headers).or(presigned);
    let service = scope.and_then(service_in);
    let is_sqs = match service {
        Some(service) => service == "sqs",
        None if headers.contains_key(TARGET) => target(headers).is_some(),
        None => parameters.get("Version") == Some(VERSION),
    };
    if !is_sqs {
        return None;
    }
    let region = region_in(scope);
    let protocol = match headers.contains_key(TARGET) {
        true => Protocol::Json,
        false => Protocol::Query,
    };
    Some((protocol, region.to_owned()))
}

/// The region of a request that its headers sign.
pub(crate) fn region_of(headers: &HeaderMap) -> &str {
    region_in(credential(headers))
}

fn region_in(scope: Option<&str>) -> &str {
    let region = scope.and_then(|it| it.split('/').nth(REGION_AT));
    region.filter(|it| is_region(it)).unwrap_or(REGION)
}

/// The name of the action in `X-Amz-Target`.
pub(crate) fn target(headers: &HeaderMap) -> Option<&str> {
    headers
        .get(TARGET)?
        .to_str()
        .ok()?
        .strip_prefix(TARGET_PREFIX)
}

fn credential(headers: &HeaderMap) -> Option<&str> {
    credential_in(headers.get(AUTHORIZATION)?.to_str().ok()?)
}

fn is_region(region: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    (1..=40).contains(&region.len()) && region.bytes().all(is_plain)
}
