//! One SimpleDB endpoint: an action goes out signed, its reply comes back as a tree.
//!
//! Invariants:
//! - CALL-1 a call whose outcome is in doubt is sent again only if it may happen twice. Such are
//!   reads, and writes without a condition, or with a name that the service is known to keep.
//! - CALL-2 a reply is never longer than the settings allow, a call never longer than its timeout.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use fader_chain::RequestId;
use fader_cloud::{Meter, RequestKind};
use fader_services::level::{ReplyMetadata, header, show_name};
use fader_window::State;
use http_body_util::Full;
use hyper::Request;
use hyper::header::{CONTENT_TYPE, HOST, HeaderName, HeaderValue};
use tokio::sync::OnceCell;
use tokio::time::Instant;

use crate::call_options::{CallOptions, metadata};
use crate::credentials::Credentials;
use crate::error::{Error, ErrorKind};
use crate::http::{Http, Limits, Pacing, Plan, WindowKey};
use crate::pool::{Pool, Reply};
use crate::request_ids::{RequestIdGuard, RequestIds};
use crate::sign::{self, Headers, REGION, SignatureVersion, Signer};
use crate::tally::Tally;
use crate::transport::Endpoint;
use crate::xml::Element;

/// Numbers and choices of a client.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How requests are signed.
    pub signature: SignatureVersion,
    /// The region that is signed for.
    pub region: String,
    /// Whether requests wait for a congestion window.
    pub pace: Pacing,
    /// From asking to the last byte of the reply, waits and repetitions counted in.
    pub timeout: Duration,
    /// For one attempt, where there may be several.
    pub attempt_timeout: Duration,
    /// Connections in use at once, to one endpoint of one client. A guard of file descriptors: the
    /// window is what bounds requests.
    pub connections_max: usize,
    /// Certificates of the authorities to trust, as PEM; the system's when `None`.
    pub ca_pem: Option<Vec<u8>>,
    /// The longest reply accepted.
    pub response_bytes_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            signature: SignatureVersion::V2,
            region: REGION.to_owned(),
            pace: Pacing::Window,
            timeout: Duration::from_secs(30),
            // Above the 5 seconds that a page of Select may take.
            attempt_timeout: Duration::from_secs(10),
            // Half of the file descriptors that a process has by default.
            connections_max: 512,
            ca_pem: None,
            // A page of Select holds 1 MB, which escaped for XML grows to 6 MB at most.
            response_bytes_max: 16 << 20,
        }
    }
}

/// A signing client of one endpoint. Clones are the same, and count for the same meter.
#[derive(Clone)]
pub struct Client {
    http: Http,
    pool: Arc<Pool<Full<Bytes>>>,
    host: Arc<str>,
    signer: Option<Arc<Signer>>,
    limits: Limits,
    names: Arc<RequestIds>,
    /// Whether the service keeps names, once that is known.
    keeps_names: Arc<OnceCell<bool>>,
    meter: Meter,
}

/// What is sent, apart from who sends it.
#[derive(Clone, Copy)]
struct Call<'a> {
    action: &'a str,
    parameters: &'a [(String, String)],
    /// Of a write that must not happen twice.
    name: Option<&'a RequestId>,
}

/// Between two looks for what became of a write: at first, and at most. A member that is started
/// again, or another head, is there within a second or two.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// A successful reply.
#[derive(Clone, Debug)]
pub struct Response {
    /// The document.
    pub root: Element,
    /// The request's id at the service.
    pub request_id: String,
    /// What the request cost, in box hours; zero when the service does not say.
    pub box_usage: f64,
    /// What Fader tells beside the answer, if it was asked.
    pub metadata: ReplyMetadata,
}

impl Settings {
    pub(crate) fn limits(&self) -> Limits {
        Limits {
            pace: self.pace,
            timeout: self.timeout,
            attempt_timeout: self.attempt_timeout,
        }
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Client").field(&self.host).finish()
    }
}

impl Client {
    /// A client of `http://host:port` or `https://host:port`, on the process's HTTP client;
    /// requests without credentials are sent unsigned.
    ///
    /// # Errors
    /// `Invalid` when the endpoint is none, or its certificates cannot be used.
    pub fn new(
        endpoint: &str,
        credentials: Option<Credentials>,
        settings: Settings,
    ) -> Result<Client, Error> {
        Client::on(Http::shared(), endpoint, credentials, settings)
    }

    /// The same, on another HTTP client, whose windows it shares.
    ///
    /// # Errors
    /// As [`Client::new`].
    pub fn on(
        http: Http,
        endpoint: &str,
        credentials: Option<Credentials>,
        settings: Settings,
    ) -> Result<Client, Error> {
        let limits = settings.limits();
        let Settings {
            signature,
            region,
            connections_max,
            ca_pem,
            response_bytes_max,
            ..
        } = settings;
        let (endpoint, host) = Endpoint::parse(endpoint, ca_pem.as_deref())?;
        let signer = match credentials {
            None => None,
            Some(credentials) => {
                let credentials = credentials.lasting("SimpleDB")?;
                let signer = Signer::new(credentials, signature, &host);
                Some(Arc::new(signer.in_region(&region)))
            }
        };
        let pool = Pool::new(endpoint, connections_max, response_bytes_max);
        Ok(Client {
            http,
            pool: Arc::new(pool),
            host: host.into(),
            signer,
            limits,
            names: Arc::default(),
            keeps_names: Arc::default(),
            meter: Meter::default(),
        })
    }

    /// The same endpoint, whose requests count for `meter`.
    pub fn metered(&self, meter: &Meter) -> Self {
        Client {
            meter: meter.clone(),
            ..self.clone()
        }
    }

    /// The windows of this endpoint, by class of operations.
    pub fn windows(&self) -> Vec<(WindowKey, State)> {
        let mut windows = self.http.windows();
        windows.retain(|(lane, _)| lane.host == self.host);
        windows
    }

    /// Sends one action.
    ///
    /// # Errors
    /// - `Refused`: by the service
    /// - `Invalid`: before it is sent
    /// - `Unavailable`: it had no effect
    /// - `Ambiguous`: a write without an answer
    /// - `Malformed`: an answer that the protocol does not allow
    pub async fn call(
        &self,
        action: &str,
        parameters: &[(String, String)],
    ) -> Result<Response, Error> {
        let reply = self.send(action, parameters).await?;
        answer(action, &reply, ReplyMetadata::default())
    }

    /// Sends one action with what is asked for beside it.
    ///
    /// # Errors
    /// As [`Client::call`]; `Malformed` also for headers of Fader that cannot be read.
    pub async fn ask(
        &self,
        action: &str,
        mut parameters: Vec<(String, String)>,
        options: CallOptions<'_>,
    ) -> Result<Response, Error> {
        options.write(&mut parameters);
        let reply = self.send(action, &parameters).await?;
        let reply_metadata = metadata(&reply.headers).map_err(|error| error.within(action))?;
        if let Some(session) = options.session {
            session.follow(&reply_metadata);
        }
        answer(action, &reply, reply_metadata)
    }

    async fn send(&self, action: &str, parameters: &[(String, String)]) -> Result<Reply, Error> {
        let deadline = Instant::now() + self.limits.timeout;
        let named = self.needs_name(action, parameters);
        let named = named.then(|| self.names.take());
        let call = Call {
            action,
            parameters,
            name: named.as_ref().map(RequestIdGuard::name),
        };
        let sent = self.attempt(&call, false, self.limits).await;
        match &call.name {
            Some(_) if is_in_doubt(&sent) => self.resolve(&call, sent, deadline).await,
            _ => sent,
        }
    }

    /// Sends a call; `is_named`: whether the service is known to keep the call's name.
    async fn attempt(
        &self,
        call: &Call<'_>,
        is_named: bool,
        limits: Limits,
    ) -> Result<Reply, Error> {
        let action = call.action;
        let request = self.request(call)?;
        let plan = Plan {
            lane: WindowKey {
                host: Arc::clone(&self.host),
                class: class(action),
            },
            is_write: !is_read(action),
            is_repeatable: is_named || is_repeatable(action, call.parameters),
            limits,
            tally: Some(self.tally(action)),
        };
        let sent = self.http.call(&self.pool, plan, request).await;
        let tells = |name| {
            sent.as_ref()
                .is_ok_and(|reply| reply.headers.contains_key(name))
        };
        if call.name.is_some() && (tells(header::STAMP) || tells(header::VERSION)) {
            // Who tells of a write does so because it was asked under a name. Who was first, told.
            let _ = self.keeps_names.set(true);
        }
        sent.map_err(|error| error.within(action))
    }

    /// Whether a call gets a name: a write on a condition that has none yet, and is not sent bare.
    fn needs_name(&self, action: &str, parameters: &[(String, String)]) -> bool {
        let asks = |prefix: &str| parameters.iter().any(|(name, _)| name.starts_with(prefix));
        let is_asking = asks("Fader-Request") || asks("Fader-Session");
        let is_conditional = !is_read(action) && asks("Expected.");
        is_conditional && !is_asking && self.limits.pace == Pacing::Window
    }

    /// Sends a write in doubt again under its name, as long as there is time, if the service is
    /// found to keep names. If not, it stays in doubt.
    async fn resolve(
        &self,
        call: &Call<'_>,
        doubt: Result<Reply, Error>,
        deadline: Instant,
    ) -> Result<Reply, Error> {
        let mut pause = PAUSE;
        loop {
            let left = Limits {
                timeout: deadline.saturating_duration_since(Instant::now()),
                ..self.limits
            };
            if left.timeout.is_zero() {
                return doubt;
            }
            match self.keeps_names(left).await {
                Ok(true) => {
                    let sent = self.attempt(call, true, left).await;
                    if sent.as_ref().is_ok_and(is_settled) {
                        return sent;
                    }
                }
                // Nor is an unknown service waited for that gives no answer at all.
                Ok(false) | Err(_) => return doubt,
            }
            self.http.pause(deadline.min(Instant::now() + pause)).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Asks whether the service keeps names: whether it is Fader, which alone answers a new session
    /// with a token. Headers that a service does not know do no harm.
    async fn keeps_names(&self, limits: Limits) -> Result<bool, Error> {
        let ask = || async {
            let call = Call {
                action: "ListDomains",
                parameters: &[("MaxNumberOfDomains".to_owned(), "1".to_owned())],
                name: None,
            };
            let mut request = self.request(&call)?;
            let session = HeaderName::from_static(header::SESSION);
            let headers = request.headers_mut();
            headers.insert(session, HeaderValue::from_static(""));
            let plan = Plan {
                lane: WindowKey {
                    host: Arc::clone(&self.host),
                    class: class(call.action),
                },
                is_write: false,
                is_repeatable: true,
                limits,
                tally: Some(self.tally(call.action)),
            };
            let reply = self.http.call(&self.pool, plan, request).await?;
            match reply.headers.contains_key(header::SESSION) {
                is_fader if is_fader || is_settled(&reply) => Ok(is_fader),
                _ => Err(Error::new(ErrorKind::Unavailable, call.action)),
            }
        };
        self.keeps_names.get_or_try_init(ask).await.copied()
    }

    fn tally(&self, action: &str) -> Tally {
        let kind = match class(action) {
            "domain" if !is_read(action) => RequestKind::DomainOther,
            _ if is_read(action) => RequestKind::DomainRead,
            _ => RequestKind::DomainWrite,
        };
        Tally {
            meter: self.meter.clone(),
            kind,
        }
    }

    fn request(&self, call: &Call<'_>) -> Result<Request<Full<Bytes>>, Error> {
        let Call {
            action,
            parameters,
            name,
        } = call;
        let mut form: Vec<(&str, &str)> = parameters
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        let mut body = Vec::new();
        let headers = match &self.signer {
            None => {
                sign::write_unsigned(action, &mut form, &mut body);
                Headers::default()
            }
            Some(signer) => {
                let moment = signer.at(unix_seconds());
                signer.sign(&moment, action, &mut form, &mut body)
            }
        };
        let mut request = Request::post("/")
            .header(HOST, &*self.host)
            .header(CONTENT_TYPE, sign::CONTENT_TYPE);
        for (name, value) in headers.0 {
            request = request.header(name, value);
        }
        if let Some(name) = name {
            request = request.header(header::REQUEST, show_name(name));
        }
        request.body(Full::new(Bytes::from(body))).map_err(|error| {
            Error::caused(
                ErrorKind::Invalid,
                "access key does not fit a header",
                error,
            )
        })
    }
}

/// Whether a write may have taken effect, or may yet.
fn is_in_doubt(sent: &Result<Reply, Error>) -> bool {
    match sent {
        Ok(reply) => matches!(reply.status.as_u16(), 408 | 500..),
        Err(error) => error.kind == ErrorKind::Ambiguous,
    }
}

/// Whether a reply is about what was asked, and not about who asks, or when.
fn is_settled(reply: &Reply) -> bool {
    !matches!(reply.status.as_u16(), 401 | 403 | 408 | 429 | 500..)
}

/// Seconds since 1970 by the system's clock.
pub(crate) fn unix_seconds() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// Whether an action only reads, so that not hearing its answer is no loss.
fn is_read(action: &str) -> bool {
    const READS: [&str; 7] = [
        "GetAttributes",
        "ListDomains",
        "DomainMetadata",
        "Select",
        "ExplainSelect",
        "Query",
        "QueryWithAttributes",
    ];
    READS.contains(&action)
}

/// What costs a service about the same, and has a window of its own.
fn class(action: &str) -> &'static str {
    match action {
        "GetAttributes" => "get",
        "PutAttributes" => "put",
        "DeleteAttributes" => "delete",
        "BatchPutAttributes" | "BatchDeleteAttributes" => "batch",
        "Select" | "Query" | "QueryWithAttributes" => "select",
        _ => "domain",
    }
}

/// Whether an action may be sent again when it is unknown whether it took effect.
///
/// Puts and deletes without a condition come to the same done twice. On a condition only those with
/// a name from the caller do, which knows that the service keeps it. A deletion of a domain may
/// not: meanwhile there may be a new one. What belongs to a session is sent once: its answer, be it
/// a refusal, moves the session.
fn is_repeatable(action: &str, parameters: &[(String, String)]) -> bool {
    let has = |prefix: &str| parameters.iter().any(|(name, _)| name.starts_with(prefix));
    let is_safe = match action {
        "PutAttributes" | "DeleteAttributes" => !has("Expected."),
        "BatchPutAttributes" | "BatchDeleteAttributes" | "CreateDomain" => true,
        _ => is_read(action),
    };
    (is_safe || has("Fader-Request")) && !has("Fader-Session")
}

/// What a reply says.
fn answer(action: &str, reply: &Reply, reply_metadata: ReplyMetadata) -> Result<Response, Error> {
    if !reply.status.is_success() {
        return Err(refusal(action, reply, !is_read(action)));
    }
    let root = text(reply).and_then(Element::parse);
    let root = root.map_err(|error| error.within(action))?;
    let metadata = root.child("ResponseMetadata").cloned().unwrap_or_default();
    Ok(Response {
        request_id: metadata.child_text("RequestId").to_owned(),
        box_usage: metadata.child_text("BoxUsage").parse().unwrap_or(0.0),
        metadata: reply_metadata,
        root,
    })
}

/// The service's refusal; a server's failure that does not say so in XML counts as silence.
fn refusal(action: &str, reply: &Reply, is_write: bool) -> Error {
    let status = reply.status.as_u16();
    let root = text(reply).and_then(Element::parse).unwrap_or_default();
    let error = root
        .child("Errors")
        .and_then(|errors| errors.child("Error"));
    let kind = match error {
        Some(error) => ErrorKind::Refused {
            status,
            code: error.child_text("Code").to_owned(),
            message: error.child_text("Message").to_owned(),
            request_id: root.child_text("RequestID").to_owned(),
        },
        None if status >= 500 && is_write => ErrorKind::Ambiguous,
        None if status >= 500 => ErrorKind::Unavailable,
        None => ErrorKind::Malformed,
    };
    match error {
        Some(_) => Error::new(kind, action),
        None => Error::new(
            kind,
            format!("{action}: HTTP {status} without a SimpleDB error"),
        ),
    }
}

fn text(reply: &Reply) -> Result<&str, Error> {
    std::str::from_utf8(&reply.body).map_err(|_| Error::malformed("reply is not UTF-8"))
}
