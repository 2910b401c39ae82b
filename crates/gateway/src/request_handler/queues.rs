//! From an HTTP request to SQS to its reply.

use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use fader_node::{Call, OpenKey};
use fader_services::catalog::{AccountId, Rights};
use fader_services::level::{ConsistencyOptions, ReplyMetadata};
use fader_services::policy::Principal;
use fader_services::request::own;
use fader_services::simpledb::{Code as Refused, Error as Refusal};
use fader_services::sqs::{Caller, Code, Command, Error, Reply, Request, Sqs};
use fader_services::{Poll, Reason};
use http_body_util::Full;
use hyper::header::{CONTENT_TYPE, HOST, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};
use memchr::memmem::Finder;
use sha2::{Digest, Sha256};

use super::{Arrival, REASON, RequestHandler, request_id};
use crate::asked::AskedService;
use crate::connection::Progress;
use crate::consistency;
use crate::limit::Load;
use crate::parameters::Parameters;
use crate::sqs::{self, Action, Form, Json, Node, Place, Protocol, Rendered, TARGET};

const QUERY_ERROR: HeaderName = HeaderName::from_static("x-amzn-query-error");
const REQUEST_ID: HeaderName = HeaderName::from_static("x-amzn-requestid");
const TRACE: HeaderName = HeaderName::from_static("x-amzn-trace-id");
/// Longer than any trace with its sampling and lineage.
const TRACE_BYTES_MAX: usize = 512;
/// What tells a form of SQS that is signed by no scope.
const VERSION: &[u8] = b"2012-11-05";
const SCOPE: &[u8] = b"%2Fsqs%2F";
/// Either, prepared: every request of another service is searched for them.
static HINTS: LazyLock<[Finder<'static>; 2]> = LazyLock::new(|| [VERSION, SCOPE].map(Finder::new));

/// A receive that another process decides, and whose client sends no more, is answered when it took
/// so long. Until then it may be about to be, with messages, to a client that still reads. That
/// process is told at once that it had better not wait.
const DECIDED_WITHIN: Duration = Duration::from_millis(500);

/// A reply that is to be shown: of which action, about whose queues, and what is told beside.
struct Answered {
    action: Action,
    account: AccountId,
    reply: Reply,
    receipt: Option<ReplyMetadata>,
}

/// A request that is read, authenticated and understood.
struct Prepared {
    action: Action,
    /// The queue that it is about, of those requests that are counted by queue.
    queue: Option<String>,
    load: Load,
    call: Call,
    /// Whether it asks for anything of consistency: then it is told what came of that.
    is_asked: bool,
}

impl RequestHandler {
    /// Answers a request if its parameters are those of SQS, which is possible.
    pub(super) async fn sqs(
        &self,
        parts: &Parts,
        body: &Bytes,
        arrival: Arrival,
        progress: &Progress,
    ) -> Option<Response<Full<Bytes>>> {
        let started = Instant::now();
        let id = request_id();
        let mut action = None;
        let is_json = parts.headers.contains_key(TARGET);
        let form: &[u8] = if is_json { b"" } else { body };
        let query = parts.uri.query().unwrap_or_default().as_bytes();
        let read = Parameters::read(query, form, self.settings.parameters_max);
        let (protocol, outcome) = match read {
            Err(refusal) => (Protocol::Query, Err(of_gateway(refusal))),
            Ok(parameters) => {
                let (protocol, region) = sqs::protocol_of(&parts.headers, &parameters)?;
                let prepared = self.prepare_sqs(parts, body, arrival, &parameters, region);
                let prepared = prepared.await;
                let outcome = match prepared {
                    Ok(prepared) => {
                        action = Some(prepared.action);
                        self.ask(prepared, progress).await
                    }
                    Err(error) => Err(error),
                };
                (protocol, outcome)
            }
        };
        if let Err(error) = &outcome
            && let Some(reason) = error.reason
        {
            self.node.count_refusal(fader_node::ChainId::SYSTEM, reason);
        }
        let elapsed = started.elapsed();
        let code = outcome.as_ref().err().map(|error| error.code.query_code());
        self.metrics
            .count_request(action.map(Action::name), code, elapsed);
        tracing::debug!(
            request_id = &*id,
            action = action.map(Action::name),
            error = outcome.as_ref().err().map(tracing::field::display),
            elapsed_us = elapsed.as_micros(),
            "answered"
        );
        Some(respond(protocol, outcome, parts, arrival, &id))
    }

    /// Refuses a request to SQS of which only the head was read.
    pub(super) fn refuse_sqs(
        parts: &Parts,
        refusal: Refusal,
        arrival: Arrival,
    ) -> Response<Full<Bytes>> {
        let protocol = match parts.headers.contains_key(TARGET) {
            true => Protocol::Json,
            false => Protocol::Query,
        };
        let outcome = Err(of_gateway(refusal));
        respond(protocol, outcome, parts, arrival, &request_id())
    }

    /// Carries a request out. A receive that waits is withdrawn when its client sends no more. It
    /// takes no message then, and a client that still reads is told of none.
    async fn ask(&self, prepared: Prepared, progress: &Progress) -> Result<Answered, Error> {
        let Prepared {
            action,
            queue,
            load,
            mut call,
            is_asked,
        } = prepared;
        let account = call.account.clone();
        let poll = Arc::new(Poll::default());
        if action == Action::ReceiveMessage {
            call.poll = Some(Arc::clone(&poll));
        }
        let carry_out = async {
            let called = self.node.call(call);
            match load {
                Load::Poll => tokio::select! {
                    biased;
                    answered = called => answered,
                    () = given_up(progress, &poll) => {
                        self.metrics.receives_given_up.inc();
                        let none = Reply::Messages(Vec::new());
                        (Ok(none.into()), ReplyMetadata::default())
                    }
                },
                Load::Get | Load::Put => called.await,
            }
        };
        let (outcome, told) = match &self.limiter {
            None => carry_out.await,
            Some(limiter) => Box::pin(limiter.within(load, carry_out))
                .await
                .ok_or_else(throttled)?,
        };
        let reply = own::<Sqs>(outcome)?;
        match (action, queue, &reply) {
            (Action::ReceiveMessage, Some(queue), Reply::Messages(none)) if none.is_empty() => {
                self.metrics.empty_receives.count(&account, queue);
            }
            (Action::DeleteQueue, Some(queue), _) => {
                self.metrics.empty_receives.forget(&account, queue);
            }
            _ => {}
        }
        Ok(Answered {
            action,
            account,
            reply,
            receipt: is_asked.then_some(told),
        })
    }

    /// Everything that comes before the service.
    async fn prepare_sqs(
        &self,
        parts: &Parts,
        body: &Bytes,
        arrival: Arrival,
        parameters: &Parameters<'_>,
        region: String,
    ) -> Result<Prepared, Error> {
        check(parts, body, self.settings.sqs_bytes_max)?;
        let json = match parts.headers.contains_key(TARGET) {
            true => Some(object(body)?),
            false => None,
        };
        let name = match &json {
            Some(_) => sqs::target(&parts.headers),
            None => parameters.get("Action"),
        };
        let action = name.and_then(Action::named).ok_or_else(|| {
            let name = name.unwrap_or_default();
            let message = format!("The action {name} is not valid for this endpoint.");
            Error::new(Code::InvalidAction, message)
        })?;
        let signer = self.signer(parts, body, arrival.port, parameters).await;
        let key = signer.map_err(of_gateway)?;
        let caller = self.caller(key.as_deref(), parts, arrival);
        let asked = consistency::asked(&parts.headers, parameters).map_err(of_gateway)?;
        let is_asked = asked.is_some();
        let asked = asked.unwrap_or_default();
        let form = Form::read(parameters)?;
        let node = json.as_ref().map_or(Node::Form(&form), Node::Json);
        let mode = asked.options.mode.map(|mode| mode.byte());
        let parsed = sqs::parse(action, node, parts.uri.path(), mode, now_ms())?;
        let account = parsed
            .owner
            .or_else(|| caller.principal.account().cloned().map(AccountId));
        let account = account.ok_or_else(|| {
            Error::new(
                Code::AccessDenied,
                "Access to the resource is denied: it is not signed.",
            )
        })?;
        let mut consistency = ConsistencyOptions {
            preference: key.as_ref().and_then(|key| key.key.preference),
            ..asked.consistency
        };
        if consistency.request.is_some() {
            // Who asks, and for what: the queue may be another account's, and its name in the path.
            let sender = caller.principal.account().map_or("", String::as_str);
            let sender = AccountId(format!("{sender} {} {}", account.0, parts.uri.path()));
            consistency.digest = match json {
                Some(_) => digest(&sender, action, body),
                None => consistency::digest(&sender, parameters),
            };
        }
        let load = match &parsed.command {
            Command::ReceiveMessage(_) => Load::Poll,
            command => Load::from(command.is_write()),
        };
        let request = Request {
            caller,
            region,
            seed: seed(&parsed.command, &consistency),
            command: parsed.command,
        };
        Ok(Prepared {
            action,
            queue: match action {
                Action::ReceiveMessage | Action::DeleteQueue => {
                    request.command.queue().map(str::to_owned)
                }
                _ => None,
            },
            load,
            call: Call::new(&account, request, consistency),
            is_asked,
        })
    }

    /// Who asks. Without a signature it is no account, or the one for which the server takes all
    /// callers.
    fn caller(&self, key: Option<&OpenKey>, parts: &Parts, arrival: Arrival) -> Caller {
        let principal = match (key, &self.settings.anonymous) {
            (Some(key), _) => Principal::Key((key.key.account.0.clone(), key.key.id.clone())),
            (None, Some(account)) => Principal::Account(account.0.clone()),
            (None, None) => Principal::Anonymous,
        };
        let rights = key.map_or(Rights::All, |key| key.key.rights);
        Caller {
            is_granted_only: rights == Rights::Granted,
            source_ip: arrival
                .peer
                .map(|peer| peer.to_string())
                .unwrap_or_default(),
            is_secure: arrival.is_secure,
            trace: trace(&parts.headers),
            ..Caller::of(principal)
        }
    }
}

/// The trace that a request names. One that is no text of a reasonable length is left out.
fn trace(headers: &hyper::HeaderMap) -> Option<String> {
    let trace = headers.get(TRACE).and_then(|trace| trace.to_str().ok());
    trace
        .filter(|trace| (1..=TRACE_BYTES_MAX).contains(&trace.len()))
        .map(str::to_owned)
}

/// The refusal of what is beyond the limit that the server was given.
fn throttled() -> Error {
    Error {
        reason: Some(Reason::Limit),
        ..Error::new(
            Code::RequestThrottled,
            "The request was denied due to request throttling.",
        )
    }
}

/// Resolves when a receive that waits had better not any more.
async fn given_up(progress: &Progress, poll: &Poll) {
    let decided = tokio::time::Instant::now() + DECIDED_WITHIN;
    progress.given_up().await;
    poll.give_up();
    // Waiting has ended then, or it is not to be known here.
    let _ = tokio::time::timeout_at(decided, poll.over()).await;
}

/// Whether a request is to SQS, or may be: its head leaves it open, and its form has a hint.
pub(super) fn is_possible(service: AskedService, parts: &Parts, body: &Bytes) -> bool {
    match service {
        AskedService::Sqs => return true,
        AskedService::Unsaid => {}
        AskedService::S3 | AskedService::Other => return false,
    }
    let query = parts.uri.query().unwrap_or_default().as_bytes();
    let is_in = |hint: &Finder<'_>| hint.find(query).or_else(|| hint.find(body)).is_some();
    HINTS.iter().any(is_in)
}

fn check(parts: &Parts, body: &Bytes, bytes_max: usize) -> Result<(), Error> {
    if !matches!(parts.method, Method::GET | Method::POST) {
        return Err(Error::new(
            Code::InvalidAction,
            "The HTTP method is GET or POST.",
        ));
    }
    if bytes_max < body.len() {
        let message = format!("The body has more than {bytes_max} bytes.");
        return Err(Error::new(Code::InvalidParameterValue, message));
    }
    Ok(())
}

/// The JSON object of a body; one that is empty has no parameters.
fn object(body: &[u8]) -> Result<Json<'_>, Error> {
    if body.is_empty() {
        return Ok(Json::Object(sqs::Object::default()));
    }
    match serde_json::from_slice(body) {
        Ok(object @ Json::Object(_)) => Ok(object),
        _ => Err(sqs::malformed("The body is not a JSON object")),
    }
}

fn respond(
    protocol: Protocol,
    outcome: Result<Answered, Error>,
    parts: &Parts,
    arrival: Arrival,
    id: &str,
) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    let rendered = match outcome {
        Ok(answered) => {
            let host = parts.headers.get(HOST).and_then(|host| host.to_str().ok());
            let place = Place {
                scheme: if arrival.is_secure { "https" } else { "http" },
                host: host.unwrap_or("localhost"),
                account: &answered.account,
            };
            if let Some(receipt) = &answered.receipt {
                consistency::tell(receipt, response.headers_mut());
            }
            sqs::reply(protocol, answered.action, &place, answered.reply, id)
        }
        Err(error) => {
            let status = StatusCode::from_u16(error.code.status());
            *response.status_mut() = status.expect("every status is a number of three digits");
            tell_error(protocol, &error, response.headers_mut());
            sqs::error(protocol, &error, id)
        }
    };
    let Rendered { content_type, body } = rendered;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    if let Ok(id) = HeaderValue::from_str(id) {
        headers.insert(REQUEST_ID, id);
    }
    *response.body_mut() = Full::new(body.into());
    response
}

fn tell_error(protocol: Protocol, error: &Error, headers: &mut hyper::HeaderMap) {
    if protocol == Protocol::Json {
        let code = format!("{};{}", error.code.query_code(), sqs::side(error));
        let code = HeaderValue::try_from(code).expect("codes are visible ASCII");
        headers.insert(QUERY_ERROR, code);
    }
    if let Some(reason) = error.reason {
        headers.insert(REASON, HeaderValue::from_static(reason.code()));
    }
}

/// A refusal of the gateway itself in the words of SQS.
fn of_gateway(refusal: Refusal) -> Error {
    if let Some(reason) = refusal.reason {
        return Error::unavailable(reason, &refusal.message);
    }
    let code = match refusal.code {
        Refused::SignatureDoesNotMatch | Refused::RequestExpired => Code::SignatureDoesNotMatch,
        Refused::InvalidClientTokenId | Refused::AuthFailure => Code::InvalidClientTokenId,
        Refused::IncompleteSignature => Code::IncompleteSignature,
        Refused::InvalidHttpRequest => Code::MalformedInput,
        _ => Code::InvalidParameterValue,
    };
    Error::new(code, refusal.message)
}

/// A digest of what an account says in JSON (XO-6).
fn digest(account: &AccountId, action: Action, body: &[u8]) -> u128 {
    let mut hash = Sha256::new();
    for part in [account.0.as_bytes(), action.name().as_bytes(), body] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    first_half(hash)
}

/// What the ids of a request are derived from. Those of messages that are sent under a name are the
/// same each time; secrets of queues are never to be known.
fn seed(command: &Command, consistency: &ConsistencyOptions) -> u128 {
    let (Command::SendMessage(_), Some(name)) = (command, &consistency.request) else {
        return rand::random();
    };
    let mut hash = Sha256::new();
    hash.update(consistency.digest.to_be_bytes());
    hash.update(name.client.owner.to_be_bytes());
    hash.update(name.client.id.to_be_bytes());
    hash.update(name.seq.to_be_bytes());
    first_half(hash)
}

fn first_half(hash: Sha256) -> u128 {
    let hash: [u8; 32] = hash.finalize().into();
    let (half, _) = hash.split_first_chunk().expect("32 bytes begin with 16");
    u128::from_be_bytes(*half)
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}
