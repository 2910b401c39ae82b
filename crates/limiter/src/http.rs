//! What HTTP itself says of requests and replies, for services that nothing better is known of.

use std::time::Duration;

use http::header::{HOST, IF_MATCH, IF_NONE_MATCH, IF_UNMODIFIED_SINCE, RETRY_AFTER};
use http::{HeaderMap, Method, Request, Response, StatusCode};

use crate::attempts::Verdict;
use crate::layer::Classify;
use crate::limiter::LimiterRequest;

/// A host's reads, or its writes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostLane {
    /// Name and port as the request has them; empty where it names none.
    pub host: String,
    /// Whether it is for what only reads.
    pub is_read: bool,
}

/// Classifies by what HTTP says (RFC 9110). Keys are by host and by whether a method is safe
/// (9.2.1). Idempotent methods are repeatable (9.2.2), but not on a condition, which the first
/// attempt may have changed. 429 and 503 are refusals (RFC 6585, RFC 9110 15.6.4), of what is not
/// repeatable doubtful ones. 500 and above are failures; every error of the client may have
/// happened after sending.
///
/// A caller that knows a service better writes a [`Classify`] of its own. It says which operations
/// cost the same, what a 503 says of writes, which errors mean that nothing was sent.
#[derive(Clone, Copy, Debug, Default)]
pub struct ByMethod;

impl<B, R, E> Classify<Request<B>, Response<R>, E> for ByMethod {
    type Lane = HostLane;

    fn ask(&self, request: &Request<B>) -> LimiterRequest<HostLane> {
        let named = request.headers().get(HOST);
        let named = named.and_then(|host| host.to_str().ok());
        let authority = request.uri().authority().map(|host| host.as_str());
        LimiterRequest {
            lane: HostLane {
                host: authority.or(named).unwrap_or_default().to_owned(),
                is_read: request.method().is_safe(),
            },
            is_repeatable: is_repeatable(request.method(), request.headers()),
            deadline: None,
        }
    }

    fn judge(&self, request: &Request<B>, reply: Result<&Response<R>, &E>) -> Verdict {
        match reply {
            Err(_) => Verdict::Failed,
            Ok(reply) => {
                let is_repeatable = is_repeatable(request.method(), request.headers());
                judge_reply(reply.status(), reply.headers(), !is_repeatable)
            }
        }
    }
}

/// What a reply's head means; `may_linger`: whether what a 503 refuses may still happen.
///
/// `Retry-After` is read where it is a number of seconds, not where it is a date.
pub fn judge_reply(status: StatusCode, headers: &HeaderMap, may_linger: bool) -> Verdict {
    let retry_after = headers
        .get(RETRY_AFTER)
        .and_then(|value| value.to_str().ok()?.trim().parse().ok())
        .map(Duration::from_secs);
    match status.as_u16() {
        429 => Verdict::Refused { retry_after },
        503 if may_linger => Verdict::Doubtful { retry_after },
        503 => Verdict::Refused { retry_after },
        500.. => Verdict::Failed,
        _ => Verdict::Done,
    }
}

fn is_repeatable(method: &Method, headers: &HeaderMap) -> bool {
    let conditions = [IF_MATCH, IF_NONE_MATCH, IF_UNMODIFIED_SINCE];
    let is_conditional = conditions.iter().any(|name| headers.contains_key(name));
    method.is_safe() || (method.is_idempotent() && !is_conditional)
}
