//! From an HTTP request to S3 to its reply.
//!
//! ```text
//! head ─▶ place, operation ─▶ who asks ─▶ what is asked ─▶ the body, as it comes ─▶ commit
//! ```
//!
//! Invariants:
//! - OBJREQ-1 no byte of a body is read before the head is judged. That is its signature, its
//!   length, and, where an object is large or its client waits to be asked, whether its caller may
//!   put it.
//! - OBJREQ-2 nothing is committed before the whole body was compared with all that is told of it.

mod bucket;
mod caller;
mod copy;
mod cross;
mod export;
mod form;
mod multipart;
mod object;
mod reader;
mod sending;
mod store;

use std::time::Instant;

use bytes::Bytes;
use fader_node::ChainId;
use fader_services::Mode;
use fader_services::level::ReplyMetadata;
use fader_services::policy::Principal;
use fader_services::request::own;
use fader_services::s3::{Code, Command, Error, Reply, S3};
use fader_services::service::{Service as _, Trouble};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{
    CONTENT_LENGTH, CONTENT_TYPE, EXPECT, HOST, HeaderName, HeaderValue, IntoHeaderName,
};
use hyper::http::request::Parts;
use hyper::{HeaderMap, Method, Response, StatusCode};
use parking_lot::Mutex;

use caller::By;

use super::{Arrival, REASON, RequestHandler, closing, request_id};
use crate::connection::{Phase, Progress};
use crate::consistency;
use crate::limit::Load;
use crate::outgoing::Outgoing;
use crate::parameters::Parameters;
use crate::s3::body::{Announced, Source, UNSIGNED, length_of};
use crate::s3::fault::{self, Fault, access_denied, invalid_argument, of_signature};
use crate::s3::{Operation, Place, presigned, render};
use crate::signature::{ChunkKey, Payload, Signed};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-amz-request-id");
const ID_2: HeaderName = HeaderName::from_static("x-amz-id-2");
const XML: HeaderValue = HeaderValue::from_static("application/xml");
/// Bytes of XML in a body: 10,000 parts with their checksums.
const XML_BYTES_MAX: usize = 4 << 20;
/// Bytes that are dropped of a body that is not wanted, so that its client hears why.
const DRAIN_BYTES_MAX: usize = 4 << 20;
/// Where a bucket is that says nothing of it.
const REGION: &str = "us-east-1";

type Answer = Result<Response<Outgoing>, Fault>;

/// A request whose head is read and whose sender is known.
struct Asked<'a> {
    handler: &'a RequestHandler,
    parts: &'a Parts,
    place: &'a Place,
    parameters: &'a Parameters<'a>,
    operation: Operation,
    by: By,
    /// The mode of a bucket that it creates, if it says.
    mode: Option<Mode>,
    /// Whether it came encrypted.
    is_secure: bool,
    /// Whether it asks for anything of consistency: then it is told what came of that.
    is_told: bool,
    metadata: Mutex<Option<ReplyMetadata>>,
}

/// Who asks, and with what chunks of the body are signed.
struct Sender {
    by: By,
    preference: Option<fader_services::level::DefaultConsistency>,
    chunks: Option<ChunkKey>,
}

impl RequestHandler {
    /// Answers a request to S3.
    pub(super) async fn s3(
        &self,
        parts: &Parts,
        incoming: Incoming,
        arrival: Arrival,
        progress: &Progress,
    ) -> Response<Outgoing> {
        let started = Instant::now();
        let id = request_id();
        // What is slow is judged as it comes, not as a whole.
        progress.enter(Phase::Work);
        let mut operation = None;
        let mut resource = String::new();
        let body = Mutex::new(Some(incoming));
        let answer = self
            .s3_answer(parts, &body, arrival, &mut operation, &mut resource)
            .await;
        let elapsed = started.elapsed();
        let code = answer.as_ref().err().map(|fault| fault.code);
        self.metrics
            .count_request(operation.map(Operation::name), code, elapsed);
        tracing::debug!(
            request_id = &*id,
            operation = operation.map(Operation::name),
            code,
            elapsed_us = elapsed.as_micros(),
            "answered"
        );
        let unread = body.into_inner();
        let mut response = match answer {
            Ok(response) => response,
            Err(fault) => {
                let place = resource.strip_prefix('/').unwrap_or(&resource);
                let (bucket, key) = place.split_once('/').unwrap_or((place, ""));
                let fault = fault.about(bucket, key);
                self.tell_of(&fault);
                let is_silent = parts.method == Method::HEAD;
                let response = fault_response(&fault, &resource, &id, is_silent);
                // With part of a body unread the connection cannot go on.
                match fault.status < 400 || is_bodiless(parts) {
                    true => response,
                    false => closing(response),
                }
            }
        };
        if let Some(incoming) = unread
            && !is_bodiless(parts)
            && !parts.headers.contains_key(EXPECT)
        {
            crate::body::pass_by(incoming, DRAIN_BYTES_MAX).await;
        }
        cross::add_headers(self, parts, response.headers_mut()).await;
        let headers = response.headers_mut();
        if let Ok(value) = HeaderValue::from_str(&id) {
            headers.insert(ID_2, value.clone());
            headers.insert(REQUEST_ID, value);
        }
        response
    }

    async fn s3_answer(
        &self,
        parts: &Parts,
        body: &Mutex<Option<Incoming>>,
        arrival: Arrival,
        operation: &mut Option<Operation>,
        resource: &mut String,
    ) -> Answer {
        let path = parts.uri.path();
        path.clone_into(resource);
        self.check_uri(parts)?;
        let host = host(parts);
        let place = Place::read(path, host, &self.settings.s3_domains)?;
        *resource = place.resource();
        let query = parts.uri.query().unwrap_or_default().as_bytes();
        let read = Parameters::read(query, b"", self.settings.parameters_max);
        let parameters =
            read.map_err(|error| invalid_argument(error.message, "query", String::new()))?;
        let sent = &parts.headers;
        let whole = presigned::with_carried(parts, &parameters)?;
        let parts = whole.as_ref().unwrap_or(parts);
        let is_copy = parts.headers.contains_key("x-amz-copy-source");
        let method = parts.method.as_str();
        let named = Operation::of(method, &place, &parameters, is_copy)?;
        *operation = Some(named);
        if named == Operation::Preflight {
            return cross::preflight(self, parts, &place).await;
        }
        if named == Operation::PostObject {
            let incoming = body.lock().take().ok_or_else(access_denied)?;
            return form::post(self, parts, &place, arrival, incoming).await;
        }
        let sender = self.s3_sender(parts, sent, &place, &parameters, arrival);
        let mut sender = sender.await?;
        sender.by = sender.by.doing(named);
        let (mode, is_told) = consistency_of(parts, &parameters, &mut sender)?;
        let asked = Asked {
            handler: self,
            parts,
            place: &place,
            parameters: &parameters,
            operation: named,
            by: sender.by,
            mode,
            is_secure: arrival.is_secure,
            is_told,
            metadata: Mutex::new(None),
        };
        let load = match parts.method {
            Method::GET | Method::HEAD => Load::Get,
            _ => Load::Put,
        };
        let carry_out = asked.carry_out(body, sender.chunks);
        let answer = match &self.limiter {
            None => carry_out.await,
            Some(limiter) => {
                let outcome = Box::pin(limiter.within(load, carry_out)).await;
                outcome.unwrap_or_else(|| Err(slow_down()))
            }
        };
        let mut response = answer?;
        if let Some(metadata) = asked.metadata.into_inner() {
            consistency::tell(&metadata, response.headers_mut());
        }
        Ok(response)
    }

    fn check_uri(&self, parts: &Parts) -> Result<(), Fault> {
        let bytes = parts.uri.path_and_query().map_or(0, |it| it.as_str().len());
        match bytes <= self.settings.uri_bytes_max {
            true => Ok(()),
            false => Err(Fault::new(
                "URITooLong",
                400,
                format!(
                    "The URI exceeded the maximum limit of {}",
                    self.settings.uri_bytes_max
                ),
            )),
        }
    }

    /// Who sent a request, by its signature. `sent` are its headers without those that its URL
    /// carries.
    async fn s3_sender(
        &self,
        parts: &Parts,
        sent: &HeaderMap,
        place: &Place,
        parameters: &Parameters<'_>,
        arrival: Arrival,
    ) -> Result<Sender, Fault> {
        let headers = match presigned::Version::of(sent, parameters) {
            Some(presigned::Version::Two) => &parts.headers,
            _ => sent,
        };
        let authorization = headers.get(hyper::header::AUTHORIZATION);
        let is_header = authorization.is_some();
        let is_version_4 = authorization.is_some_and(|it| !it.as_bytes().starts_with(b"AWS "));
        let hash = headers
            .get("x-amz-content-sha256")
            .map(|it| it.to_str().unwrap_or("\u{fffd}"));
        if is_version_4 && hash.is_none() {
            return Err(fault::invalid_request(
                "Missing required header for this request: x-amz-content-sha256",
            ));
        }
        let signed = Signed {
            method: parts.method.as_str(),
            path: &place.signed_path,
            headers,
            host: host(parts),
            port: arrival.port,
            bucket_in_host: place.is_in_host.then_some(&*place.bucket),
            parameters,
            payload: Payload::Announced(
                hash.or(parameters.get("X-Amz-Content-Sha256"))
                    .unwrap_or(UNSIGNED),
            ),
        };
        let signer = self
            .with_keys(|open| self.verifier.verify_s3(&signed, super::now_s(), open))
            .await
            .map_err(|error| of_signature(&error, is_header))?;
        let key = signer.as_ref().map(|signer| &*signer.key);
        Ok(Sender {
            by: self.s3_by(key, parts, parameters, arrival)?,
            preference: key.and_then(|key| key.key.preference),
            chunks: signer.and_then(|signer| signer.chunks),
        })
    }

    /// Counts a refusal, and has the log tell of it.
    fn tell_of(&self, fault: &Fault) {
        if let Some(reason) = fault.reason {
            self.node.count_refusal(ChainId::SYSTEM, reason);
            self.log_limiter.add(reason.code());
        } else if fault.status == 403 || 500 <= fault.status {
            self.log_limiter.add(fault.code);
        }
    }
}

impl Asked<'_> {
    async fn carry_out(&self, body: &Mutex<Option<Incoming>>, key: Option<ChunkKey>) -> Answer {
        use Operation as O;
        match self.operation {
            O::PutObject => self.put_object(self.source(body, key)?).await,
            O::UploadPart => self.upload_part(self.source(body, key)?).await,
            O::GetObject | O::HeadObject => self.get_object().await,
            O::DeleteObject => self.delete_object().await,
            O::CopyObject => self.copy_object().await,
            O::UploadPartCopy => self.copy_part().await,
            O::GetObjectAttributes => self.attributes().await,
            O::GetObjectTagging => self.object_tags().await,
            O::DeleteObjectTagging => self.tag_object(Vec::new()).await,
            O::GetObjectAcl => self.object_acl().await,
            O::CreateMultipartUpload => self.create_upload().await,
            O::AbortMultipartUpload => self.abort_upload().await,
            O::ListParts => self.list_parts().await,
            O::PutObjectTagging
            | O::PutObjectAcl
            | O::CompleteMultipartUpload
            | O::DeleteObjects => {
                let xml = self.xml(body, key).await?;
                match self.operation {
                    O::PutObjectTagging => self.tag_object(crate::s3::settings::tags(&xml)?).await,
                    O::PutObjectAcl => self.put_object_acl(&xml).await,
                    O::CompleteMultipartUpload => self.complete_upload(&xml).await,
                    _ => self.delete_objects(&xml).await,
                }
            }
            _ => self.of_bucket(body, key).await,
        }
    }

    /// Asks the service.
    async fn call(&self, command: Command) -> Result<Reply, Fault> {
        Ok(self.ask(command).await?)
    }

    /// The same, with the service's own refusals.
    async fn ask(&self, command: Command) -> Result<Reply, Error> {
        self.ask_by(&self.by, command).await
    }

    /// The same of another caller.
    async fn ask_by(&self, by: &By, command: Command) -> Result<Reply, Error> {
        let (outcome, told) = self.handler.node.call(by.call(command)).await;
        if self.is_told {
            *self.metadata.lock() = Some(told);
        }
        own::<S3>(outcome)
    }

    /// A body that is to be stored, and what is told of it.
    fn source(&self, body: &Mutex<Option<Incoming>>, key: Option<ChunkKey>) -> Result<Body, Fault> {
        let mut body = body.lock();
        let length = body.as_ref().and_then(length_of);
        let announced = Announced::read(&self.parts.headers, length)?;
        let length = announced.told.length.ok_or_else(fault::missing_length)?;
        let max = self.limits().put_bytes;
        if max < length {
            return Err(fault::too_large(length, max));
        }
        let incoming = body.take().ok_or_else(fault::incomplete_body)?;
        Ok(Body {
            source: Source::new(incoming, &announced, key)?,
            told: announced.told,
            length,
        })
    }

    /// A small body, whole.
    async fn xml(
        &self,
        body: &Mutex<Option<Incoming>>,
        key: Option<ChunkKey>,
    ) -> Result<Bytes, Fault> {
        let (source, told) = {
            let mut body = body.lock();
            let length = body.as_ref().and_then(length_of);
            let announced = match self.operation {
                // The checksum is that of the object.
                Operation::CompleteMultipartUpload => {
                    let headers = &self.parts.headers;
                    let pairs = headers.iter().map(|it| (it.0.clone(), it.1.clone()));
                    let is_kept = |it: &(HeaderName, HeaderValue)| {
                        !it.0.as_str().starts_with("x-amz-checksum-")
                    };
                    Announced::read(&pairs.filter(is_kept).collect(), length)?
                }
                _ => Announced::read(&self.parts.headers, length)?,
            };
            if let Some(length) = announced
                .told
                .length
                .filter(|it| XML_BYTES_MAX as u64 <= *it)
            {
                return Err(fault::too_large(length, XML_BYTES_MAX as u64));
            }
            let incoming = body.take().ok_or_else(fault::incomplete_body)?;
            (Source::new(incoming, &announced, key)?, announced.told)
        };
        let room = match self.by.caller.principal {
            Principal::Anonymous => &self.handler.strangers,
            _ => &self.handler.room,
        };
        source.gather(told, XML_BYTES_MAX, room).await
    }

    fn limits(&self) -> &fader_services::s3::Limits {
        &self.handler.settings.s3_limits
    }

    fn header(&self, name: &str) -> Result<Option<&str>, Fault> {
        crate::s3::head::text(&self.parts.headers, name)
    }

    fn bucket(&self) -> String {
        self.place.bucket.clone()
    }

    fn key(&self) -> String {
        self.place.key.clone()
    }

    /// Where an object is, as clients reach it.
    fn location(&self) -> String {
        let scheme = scheme(self.is_secure);
        format!("{scheme}://{}{}", host(self.parts), self.place.signed_path)
    }
}

/// What a request asks of consistency, which becomes its sender's; the mode of a bucket that it
/// creates, and whether it asks for anything.
fn consistency_of(
    parts: &Parts,
    parameters: &Parameters<'_>,
    sender: &mut Sender,
) -> Result<(Option<Mode>, bool), Fault> {
    let asked = consistency::asked(&parts.headers, parameters);
    let asked = asked.map_err(|error| invalid_argument(error.message, "x-fader", ""))?;
    let is_told = asked.is_some();
    let consistency::RequestConsistency {
        mut consistency,
        options,
    } = asked.unwrap_or_default();
    if consistency.request.is_some() {
        return Err(fault::not_implemented("x-fader-request"));
    }
    if matches!(parts.method, Method::GET | Method::HEAD) {
        consistency.preference = sender.preference;
    }
    sender.by.consistency = consistency;
    Ok((options.mode, is_told))
}

/// A body that is to be stored.
struct Body {
    source: Source,
    told: crate::s3::digest::Told,
    length: u64,
}

/// The scheme of a connection's URLs.
fn scheme(is_secure: bool) -> &'static str {
    if is_secure { "https" } else { "http" }
}

fn host(parts: &Parts) -> &str {
    let host = parts.headers.get(HOST).and_then(|host| host.to_str().ok());
    host.unwrap_or_default()
}

/// Milliseconds since 1970, without parts of a second.
fn now_ms() -> u64 {
    u64::try_from(super::now_s()).unwrap_or_default() * 1000
}

/// Whether a request says that it has no body.
fn is_bodiless(parts: &Parts) -> bool {
    let length = parts.headers.get(CONTENT_LENGTH);
    let has_length = length.is_some_and(|it| it.as_bytes() != b"0");
    !has_length && !parts.headers.contains_key(hyper::header::TRANSFER_ENCODING)
}

/// A reply of the service that does not go with its request.
fn odd(reply: &Reply) -> Fault {
    tracing::error!(?reply, "a reply that does not go with its request");
    Error::of(Code::InternalError).into()
}

/// Trouble of the node, in the service's words.
fn of_trouble(trouble: Trouble) -> Fault {
    S3::word(trouble).into()
}

fn slow_down() -> Fault {
    let reason = fader_services::Reason::Limit;
    Fault {
        reason: Some(reason),
        ..Fault::new("SlowDown", 503, "Please reduce your request rate.")
    }
}

/// A reply with this status and nothing else.
fn plain(status: StatusCode) -> Response<Outgoing> {
    let mut response = Response::new(Outgoing::Whole(Full::new(Bytes::new())));
    *response.status_mut() = status;
    response
}

/// A reply of XML.
fn xml(body: Vec<u8>) -> Response<Outgoing> {
    let mut response = Response::new(Outgoing::Whole(Full::new(body.into())));
    response.headers_mut().insert(CONTENT_TYPE, XML);
    response
}

/// Sets a header, if its value can be one.
fn set(response: &mut Response<Outgoing>, name: impl IntoHeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) {
        response.headers_mut().insert(name, value);
    }
}

fn fault_response(fault: &Fault, resource: &str, id: &str, is_silent: bool) -> Response<Outgoing> {
    let status = StatusCode::from_u16(fault.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = match is_silent || status == StatusCode::NOT_MODIFIED {
        true => plain(status),
        false => {
            let mut response = xml(render::fault(fault, resource, id));
            *response.status_mut() = status;
            response
        }
    };
    for (name, value) in &fault.headers {
        set(&mut response, *name, value);
    }
    if let Some(reason) = fault.reason {
        set(&mut response, REASON, reason.code());
    }
    response
}
