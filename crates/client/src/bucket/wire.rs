//! `object_store`'s requests on our connections: what lane each is in, and whether it may be sent
//! again. Bodies go out as they are held, and come in as they are read.
//!
//! Invariants:
//! - only the endpoint's own host is spoken to.
//! - a request's place in its window is given back when the head of its reply is there. So
//!   a slow reader, or one that reads several objects at once, holds connections but no places.

use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use fader_cloud::{Meter, RequestKind};
use fader_limiter::{Verdict, judge_reply};
use fader_window::State;
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::{HOST, HeaderValue};
use hyper::{Method, Request, Response, Uri};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody,
    HttpResponse, HttpResponseBody, HttpService,
};
use tokio::time::{Instant, Sleep, sleep};

use crate::client::Settings;
use crate::error::{Error, ErrorKind};
use crate::http::{AttemptDeadline, Http, Limits, Plan, WindowKey};
use crate::pool::{Pool, Reply, StreamingBody};
use crate::tally::{Attempt, Tally};
use crate::transport::Endpoint;
use crate::xml::Element;

/// The slowest upload that is still waited for, in octets a second: an attempt is given more time
/// by the size of its body. Bound: above 0. A tenth of what the slowest links to a service give.
const UPLOAD_RATE_MIN: u64 = 128 << 10;

/// With this code S3 says that it did not try, for any request.
const SLOW_DOWN: &[u8] = b"<Code>SlowDown</Code>";

/// Marks a reply of that code.
#[derive(Clone, Copy)]
struct SlowDown;

/// An endpoint as bytes go there, and the authorities that give tokens for it.
pub(super) struct Wire {
    http: Http,
    endpoint: Peer,
    authorities: Vec<Peer>,
    limits: Limits,
}

/// A host that is spoken to.
struct Peer {
    host: Arc<str>,
    pool: Arc<Pool<HttpRequestBody>>,
}

/// Gives `object_store` the wire.
#[derive(Debug)]
pub(super) struct Connector(pub(super) Arc<Wire>);

/// The wire as `object_store` calls it.
#[derive(Debug)]
struct Service(Arc<Wire>);

tokio::task_local! {
    /// For whom the requests count that `object_store` makes: it hands nothing through.
    pub(super) static METER: Meter;
}

/// The body of a reply, given up when nothing of it comes for as long as an attempt may take.
struct IdleTimeoutBody {
    coming: StreamingBody<HttpRequestBody>,
    patience: Duration,
    silence: Option<Pin<Box<Sleep>>>,
    /// The attempt, where the body's length was not told before.
    attempt: Option<Arc<Attempt>>,
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Wire").field(&self.endpoint.host).finish()
    }
}

impl Peer {
    fn new(endpoint: &str, settings: &Settings) -> Result<Peer, Error> {
        let (endpoint, host) = Endpoint::parse(endpoint, settings.ca_pem.as_deref())?;
        let (connections, bytes) = (settings.connections_max, settings.response_bytes_max);
        Ok(Peer {
            host: host.into(),
            pool: Arc::new(Pool::new(endpoint, connections, bytes)),
        })
    }
}

impl Wire {
    pub(super) fn new(
        http: Http,
        endpoint: &str,
        settings: &Settings,
        authorities: &[&str],
    ) -> Result<Wire, Error> {
        let authorities = authorities.iter().map(|url| Peer::new(url, settings));
        Ok(Wire {
            http,
            endpoint: Peer::new(endpoint, settings)?,
            authorities: authorities.collect::<Result<_, _>>()?,
            limits: settings.limits(),
        })
    }

    /// The endpoint's host and port.
    pub(super) fn host(&self) -> &str {
        &self.endpoint.host
    }

    pub(super) fn windows(&self) -> Vec<(WindowKey, State)> {
        let mut windows = self.http.windows();
        windows.retain(|(lane, _)| lane.host == self.endpoint.host);
        windows
    }

    /// When a call that begins now is over.
    pub(super) fn deadline(&self) -> Instant {
        Instant::now() + self.limits.timeout
    }

    /// Waits where requests run.
    pub(super) async fn pause(&self, until: Instant) {
        self.http.pause(until).await;
    }

    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, Error> {
        let peer = self.peer(&request)?;
        let plan = self.plan(&request, peer);
        let request = in_origin_form(request, peer)?;
        let may_linger = plan.may_linger();
        let (pool, patience) = (Arc::clone(&peer.pool), self.limits.attempt_timeout);
        let tally = plan.tally.clone();
        let attempt = move |term: AttemptDeadline| {
            let (pool, request, tally) = (Arc::clone(&pool), request.clone(), tally.clone());
            async move {
                let attempt = Attempt::new(tally.as_ref(), request.body().content_length() as u64);
                let attempt = Arc::new(attempt);
                let open = pin!(open(&pool, request, &attempt, patience));
                term.limit(open, &attempt.is_sent, |reply| told(reply, may_linger))
                    .await
            }
        };
        self.http.send(plan, attempt).await
    }

    /// Whom a request is for; refused if that is another host.
    fn peer(&self, request: &HttpRequest) -> Result<&Peer, Error> {
        let authority = request.uri().authority().map(|host| host.as_str());
        let is_for = |peer: &&Peer| {
            authority.is_some_and(|authority| authority.eq_ignore_ascii_case(&peer.host))
        };
        let mut peers = std::iter::once(&self.endpoint).chain(&self.authorities);
        match peers.find(is_for) {
            Some(peer) => Ok(peer),
            None if authority.is_none() => Ok(&self.endpoint),
            None => {
                let host = authority.unwrap_or_default();
                let context = format!("{host} is not {}", self.endpoint.host);
                Err(Error::invalid(context))
            }
        }
    }

    fn plan(&self, request: &HttpRequest, peer: &Peer) -> Plan {
        let upload = request.body().content_length() as u64 / UPLOAD_RATE_MIN;
        let upload = Duration::from_secs(upload);
        Plan {
            lane: WindowKey {
                host: Arc::clone(&peer.host),
                class: class(request),
            },
            is_write: !request.method().is_safe(),
            is_repeatable: is_repeatable(request),
            limits: Limits {
                timeout: self.limits.timeout + upload,
                attempt_timeout: self.limits.attempt_timeout + upload,
                ..self.limits
            },
            tally: self.tally(request, peer),
        }
    }

    /// Requests to authorities are none of the storage's.
    fn tally(&self, request: &HttpRequest, peer: &Peer) -> Option<Tally> {
        let meter = METER.try_with(Meter::clone).ok();
        let kind = match class(request) {
            "list" => RequestKind::ObjectList,
            "get" if *request.method() == Method::HEAD => RequestKind::ObjectHead,
            "get" => RequestKind::ObjectGet,
            "copy" => RequestKind::ObjectCopy,
            "delete" => RequestKind::ObjectDelete,
            _ => RequestKind::ObjectPut,
        };
        let is_storage = Arc::ptr_eq(&peer.pool, &self.endpoint.pool);
        meter
            .filter(|_| is_storage)
            .map(|meter| Tally { meter, kind })
    }
}

/// What goes over a connection names the path only; the host is in a header.
fn in_origin_form(request: HttpRequest, peer: &Peer) -> Result<HttpRequest, Error> {
    let (mut head, body) = request.into_parts();
    if !head.headers.contains_key(HOST) {
        let host = HeaderValue::from_str(&peer.host);
        let host = host.map_err(|_| Error::invalid("the host does not fit a header"))?;
        head.headers.insert(HOST, host);
    }
    let path = head.uri.path_and_query().cloned();
    head.uri = path.map_or_else(|| Uri::from_static("/"), Uri::from);
    Ok(Request::from_parts(head, body))
}

/// The wire's own error among the causes of a failure.
pub(super) fn cause(error: &object_store::Error) -> Option<&Error> {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<Error>() {
            return Some(error);
        }
        cause = error.source();
    }
    None
}

/// Whether a put was not decided because another request was under way.
pub(super) fn is_conflict(error: &object_store::Error) -> bool {
    let kind = cause(error).map(|cause| &cause.kind);
    matches!(kind, Some(ErrorKind::Refused { status: 409, .. }))
}

/// A refusal that `object_store` has no words for, or only the text of its reply. It may be of
/// credentials (401, 403), or of a list of a bucket that is not there (404). It may be of a put
/// that the service does not know (501), or did not decide (409). `object_store` takes every 409
/// for an object that exists; of those that services give, only Azure's `BlobAlreadyExists` means
/// that.
fn refusal(class: &'static str, reply: &Reply) -> Option<Error> {
    let context = match (reply.status.as_u16(), class) {
        (404, "list") => "the bucket is not there: make it first",
        (401 | 403, _) | (409 | 501, "put") => class,
        _ => return None,
    };
    let body = String::from_utf8_lossy(&reply.body);
    let root = Element::parse(&body).unwrap_or_default();
    let code = match root.child_text("Code") {
        "" => reply.status.canonical_reason().unwrap_or_default(),
        code => code,
    };
    // Azure's goes on with the request's id and time.
    let message = root.child_text("Message").lines().next();
    let kind = ErrorKind::Refused {
        status: reply.status.as_u16(),
        message: message.unwrap_or_default().to_owned(),
        request_id: root.child_text("RequestId").to_owned(),
        code: code.to_owned(),
    };
    let error = Error::new(kind, context);
    (error.code() != Some("BlobAlreadyExists")).then_some(error)
}

/// Sends a request and reads its reply's head; a refusal is read whole, so that its connection can
/// be used again.
async fn open(
    pool: &Arc<Pool<HttpRequestBody>>,
    request: HttpRequest,
    attempt: &Arc<Attempt>,
    patience: Duration,
) -> Result<HttpResponse, Error> {
    let class = class(&request);
    let is_head = *request.method() == Method::HEAD;
    let reply = pool.open(request, &attempt.is_sent).await?;
    attempt.answered(reply.status().as_u16());
    if reply.status().is_success() {
        let length = reply.body().size_hint().exact();
        attempt.received(length.filter(|_| !is_head).unwrap_or_default());
        let counting = length.is_none().then(|| Arc::clone(attempt));
        return Ok(reply.map(|coming| {
            HttpResponseBody::new(IdleTimeoutBody {
                coming,
                patience,
                silence: None,
                attempt: counting,
            })
        }));
    }
    let reply = pool.read(reply).await?;
    attempt.received(reply.body.len() as u64);
    if let Some(refusal) = refusal(class, &reply) {
        return Err(refusal);
    }
    let says_slow_down = reply
        .body
        .windows(SLOW_DOWN.len())
        .any(|it| it == SLOW_DOWN);
    let mut response = Response::new(HttpResponseBody::from(reply.body));
    if says_slow_down {
        response.extensions_mut().insert(SlowDown);
    }
    *response.status_mut() = reply.status;
    *response.headers_mut() = reply.headers;
    Ok(response)
}

/// What a reply means for the window, and for whether its request may be sent again.
fn told(reply: &HttpResponse, may_linger: bool) -> Verdict {
    let is_refused = reply.extensions().get::<SlowDown>().is_some();
    judge_reply(reply.status(), reply.headers(), may_linger && !is_refused)
}

/// Headers that name what is copied.
const COPY_SOURCES: [&str; 3] = [
    "x-amz-copy-source",
    "x-goog-copy-source",
    "x-ms-copy-source",
];

/// Headers that put a condition on a write.
const CONDITIONS: [&str; 3] = ["if-match", "if-none-match", "x-goog-if-generation-match"];

/// What costs a service about the same, and has a window of its own.
fn class(request: &HttpRequest) -> &'static str {
    let query = request.uri().query().unwrap_or_default();
    let has = |name: &str| query.split('&').any(|pair| pair.starts_with(name));
    let has_header = |names: &[&str]| {
        names
            .iter()
            .any(|name| request.headers().contains_key(*name))
    };
    match *request.method() {
        Method::GET if has("list-type=") || has("comp=list") => "list",
        Method::GET | Method::HEAD => "get",
        Method::PUT if has_header(&COPY_SOURCES) => "copy",
        Method::PUT => "put",
        Method::DELETE => "delete",
        Method::POST if has("delete") || has("comp=batch") => "delete",
        _ => "upload",
    }
}

/// Whether a request may be sent again when it is unknown whether it took effect. A second
/// completion of an upload finds none. A second beginning of one leaves an upload that no client
/// completes, which buckets are told to forget.
fn is_repeatable(request: &HttpRequest) -> bool {
    let headers = request.headers();
    let is_conditional = CONDITIONS.iter().any(|name| headers.contains_key(*name));
    let query = request.uri().query().unwrap_or_default();
    let completes = *request.method() == Method::POST && query.starts_with("uploadId=");
    request.method().is_safe() || !(is_conditional || completes)
}

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(Service(Arc::clone(&self.0))))
    }
}

#[async_trait]
impl HttpService for Service {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        self.0.send(request).await.map_err(|error| {
            let kind = match error.kind {
                ErrorKind::Unavailable => HttpErrorKind::Connect,
                ErrorKind::Ambiguous => HttpErrorKind::Interrupted,
                ErrorKind::Malformed => HttpErrorKind::Decode,
                ErrorKind::Invalid | ErrorKind::Refused { .. } => HttpErrorKind::Unknown,
            };
            HttpError::new(kind, error)
        })
    }
}

impl Body for IdleTimeoutBody {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        let this = self.get_mut();
        match Pin::new(&mut this.coming).poll_frame(context) {
            Poll::Ready(frame) => {
                this.silence = None;
                Poll::Ready(match frame {
                    Some(Err(error)) => {
                        Some(Err(HttpError::new(HttpErrorKind::Interrupted, error)))
                    }
                    Some(Ok(frame)) => {
                        let bytes = frame.data_ref().map_or(0, Bytes::len);
                        let attempt = this.attempt.as_ref();
                        attempt.inspect(|attempt| attempt.received(bytes as u64));
                        Some(Ok(frame))
                    }
                    None => None,
                })
            }
            Poll::Pending => {
                let patience = this.patience;
                let silence = this
                    .silence
                    .get_or_insert_with(|| Box::pin(sleep(patience)));
                silence.as_mut().poll(context).map(|()| {
                    let context = format!("nothing of the body came within {patience:?}");
                    let error = Error::new(ErrorKind::Unavailable, context);
                    Some(Err(HttpError::new(HttpErrorKind::Timeout, error)))
                })
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.coming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.coming.size_hint()
    }
}
