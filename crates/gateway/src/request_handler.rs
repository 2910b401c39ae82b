//! From an HTTP request to an HTTP reply.
//!
//! ```text
//! /healthz, /metrics   unauthenticated; they tell the state of the server and no data
//! S3                   told by its head; bodies come and go as streams
//! anything else        gathered, then told apart: exports by path, SQS or SimpleDB by content
//! ```

mod authentication;
mod exports;
mod objects;
mod pages;
mod queues;
mod reply;

use std::future::poll_fn;
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::{Instant, SystemTime};

use bytes::Bytes;
use fader_node::{Call, ChainId, Node, OpenKey};
use fader_services::Reason;
use fader_services::catalog;
use fader_services::level::ConsistencyOptions;
use fader_services::request::own;
use fader_services::simpledb::{Code, Error, SimpleDb};
use http_body_util::Full;
use hyper::body::{Body as _, Incoming};
use hyper::header::{CONTENT_TYPE, EXPECT, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};
use tokio::sync::{Mutex, Notify};

use authentication::VerifiedRequest;
pub(crate) use reply::response;
use reply::{closing, error_response, request_id, xml_response};

use crate::Settings;
use crate::asked::AskedService;
use crate::body::{self, BodyError};
use crate::connection::{Phase, Progress};
use crate::consistency;
use crate::limit::{Limiter, Load};
use crate::log_limiter::LogLimiter;
use crate::metrics::{GaugeGuard, Metrics};
use crate::origin;
use crate::outgoing::Outgoing;
use crate::parameters::Parameters;
use crate::refusal::{invalid_http, refuse};
use crate::room::Room;
use crate::s3::md5s::Md5s;
use crate::signature::Verifier;
use crate::simpledb::{self, Action};

/// The part of the room for bodies that those without a plausible signature in their head have.
const STRANGERS_PART: usize = 4;
/// Why a request was refused with 503 (docs/reference/errors.md).
const REASON: &str = "x-fader-reason";
const FORM: &str = "application/x-www-form-urlencoded";

/// An access key, where there is one.
type FoundKey = Result<Option<Arc<OpenKey>>, catalog::Refusal>;

/// How a connection came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// The listener's port.
    pub(crate) port: u16,
    /// Whether it is encrypted.
    pub(crate) is_secure: bool,
    /// From where.
    pub(crate) peer: Option<IpAddr>,
}

/// What the connections of a gateway share.
pub(crate) struct RequestHandler {
    /// Where requests go.
    pub(crate) node: Node,
    /// The limits.
    pub(crate) settings: Settings,
    /// What is counted.
    pub(crate) metrics: Metrics,
    verifier: Verifier,
    limiter: Option<Limiter>,
    /// What was refused, for the log.
    pub(crate) log_limiter: Arc<LogLimiter>,
    /// For bodies whose head may be signed.
    room: Room,
    /// For the others: they may be signed in the body, or not at all.
    strangers: Room,
    /// Whose page of metrics is made.
    page_turn: Mutex<()>,
    /// An export was asked for here.
    export_begins: Notify,
    /// Computes MD5s of large bodies.
    md5s: Md5s,
}

impl RequestHandler {
    /// The door to `node`.
    pub(crate) fn new(node: Node, settings: Settings) -> RequestHandler {
        let mut metrics = Metrics::new(node.clone());
        let limit = settings.limit.as_ref();
        let verifier = Verifier::new(settings.clock_skew);
        RequestHandler {
            limiter: limit.map(|limit| Limiter::new(limit, &metrics.limited())),
            metrics,
            log_limiter: Arc::clone(verifier.log_limiter()),
            verifier,
            room: Room::new(settings.bodies_bytes_max),
            strangers: Room::new(settings.bodies_bytes_max / STRANGERS_PART),
            page_turn: Mutex::new(()),
            export_begins: Notify::new(),
            md5s: Md5s::start(),
            node,
            settings,
        }
    }

    /// Answers one request.
    pub(crate) async fn answer(
        &self,
        progress: &Progress,
        arrival: Arrival,
        request: Request<Incoming>,
    ) -> Response<Outgoing> {
        progress.enter(Phase::Body);
        let (parts, incoming) = request.into_parts();
        // botocore keeps a reply in place of 100 Continue in mind for its connection, and misreads
        // the next one.
        let is_last = parts.headers.contains_key(EXPECT) && incoming.is_end_stream();
        // It stays where it is: a future of all services is large, and slow to move.
        let answer = pin!(async {
            if let Err(refusal) = origin::check_http(&parts) {
                return self.turn_away(&refusal).map(Outgoing::from);
            }
            let is_read = matches!(parts.method, Method::GET | Method::HEAD);
            let is_page = is_read && self.asks_page(&parts);
            let service = AskedService::of(&parts, &self.settings.s3_domains);
            if !is_page && service == AskedService::S3 {
                return self.s3(&parts, incoming, arrival, progress).await;
            }
            let response = self.gathered(&parts, service, incoming, arrival, progress);
            response.await.map(Outgoing::from)
        });
        let response = caught(answer).await.unwrap_or_else(|| {
            tracing::error!(method = %parts.method, "a request panicked");
            self.metrics
                .count(None, Some(Code::InternalError), std::time::Duration::ZERO);
            error_response(&internal_error(), &request_id()).map(Outgoing::from)
        });
        progress.enter(Phase::Rest);
        match is_last {
            true => closing(response),
            false => response,
        }
    }

    /// Answers a request of the services whose bodies are gathered.
    async fn gathered(
        &self,
        parts: &Parts,
        service: AskedService,
        incoming: Incoming,
        arrival: Arrival,
        progress: &Progress,
    ) -> Response<Full<Bytes>> {
        let bytes_max = self.bytes_max(service);
        let room = match self.room_for(parts, &incoming).await {
            Ok(room) => room,
            Err(refusal) => {
                Box::pin(body::pass_by(incoming, bytes_max)).await;
                return self.refuse_unread(parts, service, refusal, arrival);
            }
        };
        let (body, _held) = match body::read(incoming, bytes_max, room).await {
            Ok(read) => read,
            Err(error) => return self.refuse_body(error, bytes_max),
        };
        progress.enter(Phase::Work);
        let _counted = GaugeGuard::new(&self.metrics.in_flight);
        if let Some(page) = self.page(parts).await {
            return page;
        }
        if let Err(refusal) = self.check_page(parts, &body) {
            return self.turn_away(&refusal);
        }
        if service != AskedService::Sqs
            && let Some(response) = self.exports(parts, &body, arrival).await
        {
            return response;
        }
        if queues::is_possible(service, parts, &body)
            && let Some(response) = Box::pin(self.sqs(parts, &body, arrival, progress)).await
        {
            return response;
        }
        pin!(self.simpledb(parts, &body, arrival.port)).await
    }

    /// Why an unsigned request is not served, which a foreign web page may have made.
    fn check_page(&self, parts: &Parts, body: &[u8]) -> Result<(), Error> {
        match self.settings.anonymous.is_some() && !origin::is_signed(parts, body) {
            true => origin::check_page(&parts.headers, &self.settings.hosts),
            false => Ok(()),
        }
    }

    /// Refuses a request of no service, and ends its connection.
    fn turn_away(&self, refusal: &Error) -> Response<Full<Bytes>> {
        self.metrics
            .count(None, Some(refusal.code), std::time::Duration::ZERO);
        self.complain(refusal);
        self.count_refusal(refusal);
        closing(error_response(refusal, &request_id()))
    }

    /// Refuses a request whose head has a signature that cannot be right; its body stays unread.
    fn refuse_unread(
        &self,
        parts: &Parts,
        service: AskedService,
        refusal: Error,
        arrival: Arrival,
    ) -> Response<Full<Bytes>> {
        match service {
            AskedService::Sqs => {
                self.complain(&refusal);
                closing(RequestHandler::refuse_sqs(parts, refusal, arrival))
            }
            _ => self.turn_away(&refusal),
        }
    }

    /// Has the log tell of a refusal: of what strangers may try, and of what the server lacks.
    fn complain(&self, refusal: &Error) {
        match refusal.reason {
            Some(reason) => self.log_limiter.add(reason.code()),
            None => self.log_limiter.add(&refusal.code.name()),
        }
    }

    /// Bytes of the body that are read: the service's own bound, where the headers say which it is.
    fn bytes_max(&self, service: AskedService) -> usize {
        match service {
            AskedService::Sqs => self.settings.sqs_bytes_max,
            _ => self.settings.body_bytes_max,
        }
    }

    /// Where a body takes its memory from, as its head says.
    ///
    /// # Errors
    /// When the head has a signature that cannot be right, with any body.
    async fn room_for(&self, parts: &Parts, body: &Incoming) -> Result<&Room, Error> {
        let is_small = |bytes| bytes <= body::SMALL_BYTES as u64;
        if body.size_hint().upper().is_some_and(is_small) || self.settings.anonymous.is_some() {
            return Ok(&self.room);
        }
        let query = parts.uri.query().unwrap_or_default();
        let parameters = Parameters::read(query.as_bytes(), b"", self.settings.parameters_max);
        let parameters = parameters.ok();
        let is_plausible = self
            .with_keys(|open| {
                let (headers, parameters) = (&parts.headers, parameters.as_ref());
                self.verifier
                    .is_plausible(headers, parameters, now_s(), open)
            })
            .await?;
        Ok(match is_plausible {
            true => &self.room,
            false => &self.strangers,
        })
    }

    async fn simpledb(&self, parts: &Parts, body: &Bytes, port: u16) -> Response<Full<Bytes>> {
        let started = Instant::now();
        let id = request_id();
        let mut action = None;
        let mut metadata = None;
        let prepared = self.prepare(parts, body, port, &mut action).await;
        let outcome = match prepared {
            Ok(VerifiedRequest {
                version,
                action,
                caller,
                command,
                asked,
            }) => {
                let is_asked = asked.is_some();
                let consistency = ConsistencyOptions {
                    preference: caller.preference(),
                    ..asked.unwrap_or_default().consistency
                };
                // It stays where it is, as the answer does.
                let carry_out = pin!(async {
                    let call = Call::new(caller.account(), command, consistency);
                    let (outcome, told) = pin!(self.node.call(call)).await;
                    metadata = is_asked.then_some(told);
                    own::<SimpleDb>(outcome)
                });
                let outcome = match &self.limiter {
                    None => carry_out.await,
                    // On the heap: who has no limit has no room for its waits.
                    Some(limiter) => {
                        let load = Load::from(action.is_write());
                        let outcome = Box::pin(limiter.within(load, carry_out)).await;
                        outcome.unwrap_or_else(|| {
                            // As SimpleDB itself says it; the header has the reason.
                            let refusal = Error::unavailable(Reason::Limit, "");
                            self.count_refusal(&refusal);
                            Err(refusal)
                        })
                    }
                };
                outcome.map(|answered| simpledb::reply(version, action, &answered, &id))
            }
            Err(refusal) => {
                self.count_refusal(&refusal);
                Err(refusal)
            }
        };
        let elapsed = started.elapsed();
        self.metrics.count(
            action,
            outcome.as_ref().err().map(|error| error.code),
            elapsed,
        );
        tracing::debug!(
            request_id = &*id,
            action = action.map(Action::name),
            error = outcome.as_ref().err().map(tracing::field::display),
            elapsed_us = elapsed.as_micros(),
            "answered"
        );
        let mut response = match outcome {
            Ok(xml) => xml_response(StatusCode::OK, xml),
            Err(error) => error_response(&error, &id),
        };
        if let Some(metadata) = metadata {
            consistency::tell(&metadata, response.headers_mut());
        }
        response
    }

    /// Counts what is refused before it is asked of a chain.
    fn count_refusal(&self, error: &Error) {
        if let Some(reason) = error.reason {
            self.node.count_refusal(ChainId::SYSTEM, reason);
        }
    }

    fn refuse_body(&self, error: BodyError, bytes_max: usize) -> Response<Full<Bytes>> {
        self.turn_away(&match error {
            BodyError::TooLarge => too_large(bytes_max),
            BodyError::Broken => invalid_http("the body is cut short or badly framed"),
            BodyError::Slow => Error::unavailable(Reason::SlowBody, Reason::SlowBody.sentence()),
        })
    }
}

/// What can be said before the parameters are read.
fn check_http(parts: &Parts, body: &Bytes, settings: &Settings) -> Result<(), Error> {
    let uri_bytes = parts
        .uri
        .path_and_query()
        .map_or(0, |path_and_query| path_and_query.as_str().len());
    if uri_bytes > settings.uri_bytes_max {
        return Err(refuse(
            Code::UriTooLong,
            format!(
                "The URI exceeded the maximum limit of {}",
                settings.uri_bytes_max
            ),
        ));
    }
    if !matches!(parts.method, Method::GET | Method::POST) {
        return Err(refuse(
            Code::UnsupportedHttpVerb,
            format!("The requested HTTP verb is not supported: {}", parts.method),
        ));
    }
    if parts.uri.path() != "/" {
        let path = parts.uri.path();
        return Err(refuse(
            Code::InvalidUri,
            format!("The URI {path} is not valid."),
        ));
    }
    if body.len() > settings.simpledb_bytes_max {
        return Err(too_large(settings.simpledb_bytes_max));
    }
    if !body.is_empty() && !is_form(parts.headers.get(CONTENT_TYPE)) {
        return Err(invalid_http(&format!(
            "the body's Content-Type must be {FORM}"
        )));
    }
    Ok(())
}

/// Whether a body of this type is a form; one without a type is taken for it.
fn is_form(content_type: Option<&HeaderValue>) -> bool {
    let Some(content_type) = content_type else {
        return true;
    };
    let name = content_type
        .as_bytes()
        .split(|&byte| byte == b';')
        .next()
        .unwrap_or_default();
    name.trim_ascii().eq_ignore_ascii_case(FORM.as_bytes())
}

fn too_large(bytes_max: usize) -> Error {
    invalid_http(&format!("the body has more than {bytes_max} bytes"))
}

fn internal_error() -> Error {
    refuse(
        Code::InternalError,
        "Request could not be executed due to an internal service error.",
    )
}

/// The output of `future`, or `None` if it panics: a request is not worth the others.
async fn caught<F: Future>(mut future: Pin<&mut F>) -> Option<F::Output> {
    poll_fn(
        |context| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(output)) => Poll::Ready(Some(output)),
            Err(_) => Poll::Ready(None),
        },
    )
    .await
}

fn now_s() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
    })
}

#[cfg(test)]
mod tests;
