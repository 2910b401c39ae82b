//! From an HTTP request to an HTTP reply.
//!
//! ```text
//! /healthz, /metrics   unauthenticated; they tell the state of the server and no data
//! S3                   told by its head; bodies come and go as streams
//! anything else        gathered, then told apart: exports by path, SQS or SimpleDB by content
//! ```

mod exports;
mod objects;
mod pages;
mod queues;
mod reply;

use std::future::poll_fn;
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Instant, SystemTime};

use bytes::Bytes;
use fader_node::{Call, ChainId, Node, OpenKey};
use fader_services::Reason;
use fader_services::catalog::{AccountId, Rights};
use fader_services::level::{Demand, Preference};
use fader_services::request::own;
use fader_services::simpledb::{Code, Error, Request as Command, SimpleDb};
use http_body_util::Full;
use hyper::body::{Body as _, Incoming};
use hyper::header::{CONTENT_TYPE, HOST, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};
use tokio::sync::{Mutex, Notify};

pub(crate) use reply::response;
use reply::{closing, error_response, request_id, xml_response};

use crate::Settings;
use crate::body::{self, BodyError};
use crate::complaints::Complaints;
use crate::connection::{Phase, Progress};
use crate::consistency::{self, Asked};
use crate::limit::{Limiter, Load};
use crate::metrics::{Counted, Metrics};
use crate::origin;
use crate::outgoing::Outgoing;
use crate::parameters::Parameters;
use crate::refusal::{invalid_http, refuse};
use crate::room::Room;
use crate::s3;
use crate::signature::{Payload, Signed, Verifier, missing_keys};
use crate::simpledb::{self, Action, Version};
use crate::sqs;

/// The part of the room for bodies that those without a plausible signature in their head have.
const STRANGERS_PART: usize = 4;
/// Why a request was refused with 503 (docs/refusals.md).
const REASON: &str = "x-fader-reason";
const FORM: &str = "application/x-www-form-urlencoded";

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
pub(crate) struct Door {
    /// Where requests go.
    pub(crate) node: Node,
    /// The limits.
    pub(crate) settings: Settings,
    /// What is counted.
    pub(crate) metrics: Metrics,
    verifier: Verifier,
    limiter: Option<Limiter>,
    /// What was refused, for the log.
    pub(crate) complaints: Arc<Complaints>,
    /// For bodies whose head may be signed.
    room: Room,
    /// For the others: they may be signed in the body, or by nobody.
    strangers: Room,
    /// Whose page of metrics is made.
    page_turn: Mutex<()>,
    /// An export was asked for here.
    export_begins: Notify,
}

/// A request that is read, authenticated and understood.
struct Prepared {
    version: Version,
    action: Action,
    caller: Caller,
    command: Command,
    /// What is asked of consistency, if anything.
    asked: Option<Asked>,
}

enum Caller {
    Key(Arc<OpenKey>),
    Anonymous(AccountId),
}

impl Caller {
    fn preference(&self) -> Option<Preference> {
        match self {
            Caller::Key(key) => key.key.preference,
            Caller::Anonymous(_) => None,
        }
    }

    /// Refuses a key that has only what policies give it: SimpleDB has none.
    fn check_rights(&self) -> Result<(), Error> {
        match self {
            Caller::Key(key) if key.key.rights == Rights::Granted => Err(refuse(
                Code::AccessFailure,
                "Access to the resource is denied: the access key has only the rights that \
                 policies give it, and SimpleDB has no policies.",
            )),
            Caller::Key(_) | Caller::Anonymous(_) => Ok(()),
        }
    }

    fn account(&self) -> &AccountId {
        match self {
            Caller::Key(key) => &key.key.account,
            Caller::Anonymous(account) => account,
        }
    }
}

impl Door {
    /// The door to `node`.
    pub(crate) fn new(node: Node, settings: Settings) -> Door {
        let mut metrics = Metrics::new(node.clone());
        let limit = settings.limit.as_ref();
        let verifier = Verifier::new(settings.clock_skew);
        Door {
            limiter: limit.map(|limit| Limiter::new(limit, &metrics.limited())),
            metrics,
            complaints: Arc::clone(verifier.complaints()),
            verifier,
            room: Room::new(settings.bodies_bytes_max),
            strangers: Room::new(settings.bodies_bytes_max / STRANGERS_PART),
            page_turn: Mutex::new(()),
            export_begins: Notify::new(),
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
        let answered = caught(async {
            if let Err(refusal) = origin::check_http(&parts) {
                return self.turn_away(&refusal).map(Outgoing::from);
            }
            let is_read = matches!(parts.method, Method::GET | Method::HEAD);
            let is_page = is_read && Door::is_page(parts.uri.path());
            if !is_page && s3::is_asked(&parts, &self.settings.s3_domains) {
                return self.s3(&parts, incoming, (arrival, progress)).await;
            }
            let response = self.gathered(&parts, incoming, (arrival, progress)).await;
            response.map(Outgoing::from)
        });
        let response = answered.await.unwrap_or_else(|| {
            tracing::error!(method = %parts.method, "a request panicked");
            self.metrics
                .count(None, Some(Code::InternalError), std::time::Duration::ZERO);
            error_response(&internal_error(), &request_id()).map(Outgoing::from)
        });
        progress.enter(Phase::Rest);
        response
    }

    /// Answers a request of the services whose bodies are gathered.
    async fn gathered(
        &self,
        parts: &Parts,
        incoming: Incoming,
        (arrival, progress): (Arrival, &Progress),
    ) -> Response<Full<Bytes>> {
        let bytes_max = self.bytes_max(parts);
        let room = match self.room_for(parts, &incoming) {
            Ok(room) => room,
            Err(refusal) => {
                return self.refuse_unread(parts, incoming, refusal, arrival).await;
            }
        };
        let (body, _held) = match body::read(incoming, bytes_max, room).await {
            Ok(read) => read,
            Err(error) => return self.refuse_body(error, bytes_max),
        };
        progress.enter(Phase::Work);
        let _counted = Counted::new(&self.metrics.in_flight);
        if let Some(page) = self.page(parts).await {
            return page;
        }
        if let Err(refusal) = self.check_page(parts, &body) {
            return self.turn_away(&refusal);
        }
        if let Some(response) = self.exports(parts, &body, arrival).await {
            return response;
        }
        match self.sqs(parts, &body, (arrival, progress)).await {
            Some(response) => response,
            None => self.simpledb(parts, &body, arrival.port).await,
        }
    }

    /// Why a request is not served that nobody signed, and a foreign web page may have made.
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

    /// Refuses a request whose head has a signature that cannot be right, without its body.
    async fn refuse_unread(
        &self,
        parts: &Parts,
        body: Incoming,
        refusal: Error,
        arrival: Arrival,
    ) -> Response<Full<Bytes>> {
        body::pass_by(body, self.bytes_max(parts)).await;
        match sqs::is_asked(&parts.headers) {
            Some(true) => {
                self.complain(&refusal);
                closing(Door::refuse_sqs(parts, refusal, arrival))
            }
            _ => self.turn_away(&refusal),
        }
    }

    /// Has the log tell of a refusal: of what strangers may try, and of what the server lacks.
    fn complain(&self, refusal: &Error) {
        match refusal.reason {
            Some(reason) => self.complaints.add(reason.code()),
            None => self.complaints.add(&refusal.code.name()),
        }
    }

    /// Bytes of the body that are read: the service's own bound, where the headers say which it is.
    fn bytes_max(&self, parts: &Parts) -> usize {
        match sqs::is_asked(&parts.headers) {
            Some(true) => self.settings.sqs_bytes_max,
            _ => self.settings.body_bytes_max,
        }
    }

    /// Where a body takes its memory from, as its head says.
    ///
    /// # Errors
    /// When the head has a signature that cannot be right, whatever the body is.
    fn room_for(&self, parts: &Parts, body: &Incoming) -> Result<&Room, Error> {
        let is_small = |bytes| bytes <= body::SMALL_BYTES as u64;
        if body.size_hint().upper().is_some_and(is_small) || self.settings.anonymous.is_some() {
            return Ok(&self.room);
        }
        let query = parts.uri.query().unwrap_or_default();
        let parameters = Parameters::read(query.as_bytes(), b"", self.settings.parameters_max);
        let is_plausible = self.verifier.is_plausible(
            &parts.headers,
            parameters.ok().as_ref(),
            now_s(),
            |id| self.node.open_key(id),
        )?;
        Ok(match is_plausible {
            true => &self.room,
            false => &self.strangers,
        })
    }

    async fn simpledb(&self, parts: &Parts, body: &Bytes, port: u16) -> Response<Full<Bytes>> {
        let started = Instant::now();
        let id = request_id();
        let mut action = None;
        let mut receipt = None;
        let prepared = self.prepare(parts, body, port, &mut action);
        let outcome = match prepared {
            Ok(Prepared {
                version,
                action,
                caller,
                command,
                asked,
            }) => {
                let is_asked = asked.is_some();
                let demand = Demand {
                    preference: caller.preference(),
                    ..asked.unwrap_or_default().demand
                };
                let carry_out = async {
                    let call = Call::new(caller.account(), command, demand);
                    let (outcome, told) = self.node.call(call).await;
                    receipt = is_asked.then_some(told);
                    own::<SimpleDb>(outcome)
                };
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
        if let Some(receipt) = receipt {
            consistency::tell(&receipt, response.headers_mut());
        }
        response
    }

    /// Counts what is refused before it is asked of a chain.
    fn count_refusal(&self, error: &Error) {
        if let Some(reason) = error.reason {
            self.node.count_refusal(ChainId::SYSTEM, reason);
        }
    }

    /// Everything that comes before the service. `action` is set as soon as it is known.
    fn prepare(
        &self,
        parts: &Parts,
        body: &Bytes,
        port: u16,
        action: &mut Option<Action>,
    ) -> Result<Prepared, Error> {
        check_http(parts, body, &self.settings)?;
        let query = parts.uri.query().unwrap_or_default();
        let parameters = Parameters::read(query.as_bytes(), body, self.settings.parameters_max)?;
        let version = Version::of(&parameters)?;
        let named = Action::of(&parameters, version)?;
        *action = Some(named);
        let caller = self.authenticate(parts, body, port, &parameters)?;
        caller.check_rights()?;
        let mut asked = consistency::asked(&parts.headers, &parameters)?;
        if let Some(asked) = asked
            .as_mut()
            .filter(|asked| asked.demand.request.is_some())
        {
            asked.demand.digest = consistency::digest(caller.account(), &parameters);
        }
        let nature = asked.as_ref().map(|asked| asked.nature).unwrap_or_default();
        let command = simpledb::request(named, &parameters, nature)?;
        Ok(Prepared {
            version,
            action: named,
            caller,
            command,
            asked,
        })
    }

    fn authenticate(
        &self,
        parts: &Parts,
        body: &Bytes,
        port: u16,
        parameters: &Parameters<'_>,
    ) -> Result<Caller, Error> {
        match self.signer(parts, body, port, parameters)? {
            Some(key) => Ok(Caller::Key(key)),
            None => match &self.settings.anonymous {
                Some(account) => Ok(Caller::Anonymous(account.clone())),
                None => {
                    let refusal = missing_keys();
                    self.complain(&refusal);
                    Err(refusal)
                }
            },
        }
    }

    /// The key that signed a request, if one did.
    fn signer(
        &self,
        parts: &Parts,
        body: &Bytes,
        port: u16,
        parameters: &Parameters<'_>,
    ) -> Result<Option<Arc<OpenKey>>, Error> {
        let signed = Signed {
            method: parts.method.as_str(),
            path: parts.uri.path(),
            headers: &parts.headers,
            host: parts
                .headers
                .get(HOST)
                .and_then(|host| host.to_str().ok())
                .unwrap_or_default(),
            port,
            parameters,
            bucket_in_host: None,
            payload: Payload::Body(body),
        };
        self.verifier
            .verify(&signed, now_s(), |id| self.node.open_key(id))
            .inspect_err(|refusal| self.complain(refusal))
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
async fn caught<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
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
