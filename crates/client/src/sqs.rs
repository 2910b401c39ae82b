//! The contract's queues, over SQS's JSON protocol (AwsJson 1.0).
//!
//! Invariants:
//! - a call whose outcome is in doubt is sent again only if it may happen twice. A name
//!   is resolved to its URL once, by a read.
//!
//! Deliberately absent: the Query protocol; FIFO queues, attributes of messages, dead letters.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use fader_cloud::{
    Error as CloudError, ErrorKind as CloudKind, Meter, QueueCounts, QueueSettings, Queues,
    Receipt, Receive, Received, RequestKind, Result as CloudResult,
};
use fader_services::Mode;
use fader_services::level;
use fader_window::State;
use http_body_util::Full;
use hyper::Request;
use hyper::header::{CONTENT_TYPE, HOST};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::client::{Settings, unix_seconds};
use crate::credentials::Credentials;
use crate::error::{Error, ErrorKind, in_read, in_write};
use crate::http::{Http, Limits, Pacing, Plan, WindowKey};
use crate::pool::{Pool, Reply};
use crate::sign::{Headers, SignatureVersion, Signer};
use crate::tally::Tally;
use crate::transport::Endpoint;

const JSON: &str = "application/x-amz-json-1.0";
/// Pages of a list that are read before it is called endless.
const LIST_PAGES_MAX: usize = 1_000;

/// An SQS endpoint. Clones are the same, and count for the same meter.
#[derive(Clone)]
pub struct Sqs {
    http: Http,
    pool: Arc<Pool<Full<Bytes>>>,
    host: Arc<str>,
    signer: Option<Arc<Signer>>,
    limits: Limits,
    /// What queues are called in requests, by their names.
    urls: Arc<Mutex<BTreeMap<String, String>>>,
    meter: Meter,
}

impl fmt::Debug for Sqs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Sqs").field(&self.host).finish()
    }
}

impl Sqs {
    /// A client of `http://host:port` or `https://host:port`; requests without credentials are
    /// sent unsigned. Of the settings the signature does not count: the protocol knows version 4.
    ///
    /// # Errors
    /// `Invalid` when the endpoint is none, or its certificates cannot be used.
    pub fn new(
        endpoint: &str,
        credentials: Option<&Credentials>,
        settings: &Settings,
    ) -> Result<Sqs, Error> {
        Sqs::on(Http::shared(), endpoint, credentials, settings)
    }

    /// The same, on another HTTP client, whose windows it shares.
    ///
    /// # Errors
    /// As [`Sqs::new`].
    pub fn on(
        http: Http,
        endpoint: &str,
        credentials: Option<&Credentials>,
        settings: &Settings,
    ) -> Result<Sqs, Error> {
        let (endpoint, host) = Endpoint::parse(endpoint, settings.ca_pem.as_deref())?;
        let signer = match credentials {
            None => None,
            Some(credentials) => {
                let (credentials, version) = (credentials.lasting("SQS")?, SignatureVersion::V4);
                let signer = Signer::of_service("sqs", credentials, version, &host);
                Some(Arc::new(signer.in_region(&settings.region)))
            }
        };
        let (connections, bytes) = (settings.connections_max, settings.response_bytes_max);
        Ok(Sqs {
            http,
            pool: Arc::new(Pool::new(endpoint, connections, bytes)),
            host: host.into(),
            signer,
            limits: settings.limits(),
            urls: Arc::default(),
            meter: Meter::default(),
        })
    }

    /// The same endpoint, whose requests count for `meter`.
    pub fn metered(&self, meter: &Meter) -> Self {
        Sqs {
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

    /// Carries out any action of SQS by its JSON: what a caller asks that [`Queues`] does not know.
    /// `is_write` says whether it may change anything.
    ///
    /// # Errors
    /// By what the caller does next ([`ErrorKind`]).
    pub async fn call(&self, action: &str, is_write: bool, body: &Value) -> Result<Value, Error> {
        let wait_s = body["WaitTimeSeconds"].as_u64().unwrap_or(0);
        self.ask(action, is_write, body, wait_s, None).await
    }

    /// Creates a queue by the JSON of CreateQueue; at Fader of a mode.
    ///
    /// # Errors
    /// As [`Sqs::call`].
    pub async fn create_as(&self, body: &Value, mode: Option<Mode>) -> Result<Value, Error> {
        let mode = mode.map(|mode| mode.to_string());
        let header = mode
            .as_deref()
            .map(|mode| (level::header::COLLECTION_MODE, mode));
        self.ask("CreateQueue", true, body, 0, header).await
    }

    /// Sends any body and reads what is wanted of the reply. The service may wait so many seconds.
    async fn ask<T: DeserializeOwned + Default>(
        &self,
        action: &str,
        is_write: bool,
        body: &(impl Serialize + Sync),
        wait_s: u64,
        header: Option<(&str, &str)>,
    ) -> Result<T, Error> {
        let body = serde_json::to_vec(body).map_err(|error| {
            let context = "the parameters do not fit JSON";
            Error::caused(ErrorKind::Invalid, context, error)
        })?;
        let body = Bytes::from(body);
        let target = format!("AmazonSQS.{action}");
        let headers = match &self.signer {
            None => Headers::default(),
            Some(signer) => {
                let moment = signer.at(unix_seconds());
                signer.sign_v4(&moment, JSON, Some(&target), &body)
            }
        };
        let mut request = Request::post("/")
            .header(HOST, &*self.host)
            .header(CONTENT_TYPE, JSON)
            .header("x-amz-target", &target);
        for (name, value) in headers.0 {
            request = request.header(name, value);
        }
        if let Some((name, value)) = header {
            request = request.header(name, value);
        }
        let request = request.body(Full::new(body)).map_err(|error| {
            let context = "access key does not fit a header";
            Error::caused(ErrorKind::Invalid, context, error)
        })?;
        let plan = Plan {
            lane: WindowKey {
                host: Arc::clone(&self.host),
                class: class(action),
            },
            is_write,
            is_repeatable: !is_write || is_repeatable(action),
            limits: self.limits_of(wait_s),
            tally: Some(Tally {
                meter: self.meter.clone(),
                kind: kind(action),
            }),
        };
        let sent = self.http.call(&self.pool, plan, request).await;
        let reply = sent.map_err(|error| error.within(action))?;
        answer(action, &reply, is_write)
    }

    /// A receive that waits for messages takes as long as it waits, and then some. That says
    /// nothing of the service's load: it goes out bare.
    fn limits_of(&self, wait_s: u64) -> Limits {
        match wait_s {
            0 => self.limits,
            wait_s => Limits {
                pace: Pacing::Bare,
                timeout: self.limits.timeout.max(Duration::from_secs(wait_s + 5)),
                ..self.limits
            },
        }
    }

    async fn read(&self, action: &str, body: &Value) -> CloudResult<Value> {
        in_read(self.call(action, false, body).await)
    }

    async fn write(&self, action: &str, body: &Value) -> CloudResult<Value> {
        in_write(self.call(action, true, body).await)
    }

    async fn url(&self, queue: &str) -> CloudResult<String> {
        in_read(self.queue_url(queue).await)
    }

    /// The URL of the queue of this name, which is asked for once.
    ///
    /// # Errors
    /// As [`Sqs::call`].
    pub async fn queue_url(&self, queue: &str) -> Result<String, Error> {
        if let Some(url) = self.urls().get(queue) {
            return Ok(url.clone());
        }
        let body = json!({ "QueueName": queue });
        let reply = self.call("GetQueueUrl", false, &body).await?;
        let url = reply["QueueUrl"].as_str();
        let url = url.ok_or_else(|| Error::malformed("the reply has no QueueUrl"))?;
        self.urls().insert(queue.to_owned(), url.to_owned());
        Ok(url.to_owned())
    }

    fn urls(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, String>> {
        self.urls.lock().expect("nothing panics while it is locked")
    }

    /// Sends a batch of entries; what became of each, in order.
    async fn batch<T>(
        &self,
        action: &str,
        queue: &str,
        entries: Vec<impl Serialize + Send + Sync>,
        read: impl Fn(Done) -> CloudResult<T>,
    ) -> CloudResult<Vec<CloudResult<T>>> {
        let count = entries.len();
        let queue_url = self.url(queue).await?;
        let body = Batch { queue_url, entries };
        let BatchReply { successful, failed } =
            in_write(self.ask(action, true, &body, 0, None).await)?;
        let unheard = |_| {
            let context = format!("{action}: nothing was said of an entry");
            Err(CloudError::new(CloudKind::Ambiguous, context))
        };
        let mut each: Vec<CloudResult<T>> = (0..count).map(unheard).collect();
        let place = |id: &Option<String>| {
            let at: usize = id.as_ref()?.parse().ok()?;
            (at < count).then_some(at)
        };
        for entry in successful.into_iter().flatten() {
            if let Some(at) = place(&entry.id) {
                each[at] = read(entry);
            }
        }
        for entry in failed.into_iter().flatten() {
            if let Some(at) = place(&entry.id) {
                let kind = match entry.sender_fault.unwrap_or(true) {
                    true => CloudKind::Invalid,
                    false => CloudKind::Ambiguous,
                };
                let said = [entry.code, entry.message].map(Option::unwrap_or_default);
                each[at] = Err(CloudError::new(kind, said.join(": ")));
            }
        }
        Ok(each)
    }
}

/// A request about several messages.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Batch<E> {
    queue_url: String,
    entries: Vec<E>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct SendEntry<'a> {
    id: String,
    message_body: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct RemoveEntry<'a> {
    id: String,
    receipt_handle: &'a str,
}

/// What a service says of a batch. It may leave out any of it.
#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct BatchReply {
    successful: Option<Vec<Done>>,
    failed: Option<Vec<Failed>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Done {
    id: Option<String>,
    message_id: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Failed {
    id: Option<String>,
    sender_fault: Option<bool>,
    code: Option<String>,
    message: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct ReceiveMessage {
    queue_url: String,
    max_number_of_messages: usize,
    wait_time_seconds: u64,
    message_system_attribute_names: [&'static str; 1],
    /// What services read that do not know the newer name.
    attribute_names: [&'static str; 1],
    #[serde(skip_serializing_if = "Option::is_none")]
    visibility_timeout: Option<u64>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Messages {
    messages: Option<Vec<Message>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Message {
    message_id: Option<String>,
    body: Option<String>,
    receipt_handle: Option<String>,
    attributes: Option<Attributes>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Attributes {
    approximate_receive_count: Option<String>,
}

#[async_trait]
impl Queues for Sqs {
    async fn create(&self, queue: &str, settings: &QueueSettings) -> CloudResult<()> {
        let body = json!({
            "QueueName": queue,
            "Attributes": {
                "VisibilityTimeout": settings.visibility.as_secs().to_string(),
                "MessageRetentionPeriod": settings.retention.as_secs().to_string(),
            },
        });
        let reply = self.write("CreateQueue", &body).await?;
        let url = text(&reply, "QueueUrl")?;
        self.urls().insert(queue.to_owned(), url);
        Ok(())
    }

    async fn delete(&self, queue: &str) -> CloudResult<()> {
        let body = json!({ "QueueUrl": self.url(queue).await? });
        self.urls().remove(queue);
        self.write("DeleteQueue", &body).await?;
        Ok(())
    }

    async fn list(&self, prefix: &str) -> CloudResult<Vec<String>> {
        let mut names = Vec::new();
        let mut body = json!({ "QueueNamePrefix": prefix, "MaxResults": 1000 });
        for _ in 0..LIST_PAGES_MAX {
            let reply = self.read("ListQueues", &body).await?;
            let urls = list(&reply, "QueueUrls").filter_map(Value::as_str);
            let name = |url: &str| url.rsplit('/').next().unwrap_or(url).to_owned();
            names.extend(urls.map(name));
            match reply["NextToken"].as_str() {
                Some(token) => body["NextToken"] = json!(token),
                None => break,
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    async fn send(&self, queue: &str, bodies: &[String]) -> CloudResult<Vec<CloudResult<String>>> {
        let entries = bodies.iter().enumerate();
        let entries = entries.map(|(at, body)| SendEntry {
            id: at.to_string(),
            message_body: body,
        });
        let id = |entry: Done| said(entry.message_id, "MessageId");
        self.batch("SendMessageBatch", queue, entries.collect(), id)
            .await
    }

    async fn receive(&self, queue: &str, how: &Receive) -> CloudResult<Vec<Received>> {
        const COUNT: &str = "ApproximateReceiveCount";
        let wait_s = how.wait.as_secs();
        let body = ReceiveMessage {
            queue_url: self.url(queue).await?,
            max_number_of_messages: how.max,
            wait_time_seconds: wait_s,
            message_system_attribute_names: [COUNT],
            attribute_names: [COUNT],
            visibility_timeout: how.visibility.map(|time| time.as_secs()),
        };
        let reply = self.ask("ReceiveMessage", true, &body, wait_s, None).await;
        let Messages { messages } = in_write(reply)?;
        let message = |message: Message| {
            let receives = message
                .attributes
                .and_then(|it| it.approximate_receive_count);
            Ok(Received {
                id: said(message.message_id, "MessageId")?,
                body: said(message.body, "Body")?,
                receipt: Receipt(said(message.receipt_handle, "ReceiptHandle")?),
                receives: receives.and_then(|count| count.parse().ok()).unwrap_or(1),
            })
        };
        messages.into_iter().flatten().map(message).collect()
    }

    async fn remove(&self, queue: &str, receipts: &[Receipt]) -> CloudResult<Vec<CloudResult<()>>> {
        let entries = receipts.iter().enumerate();
        let entries = entries.map(|(at, receipt)| RemoveEntry {
            id: at.to_string(),
            receipt_handle: &receipt.0,
        });
        self.batch("DeleteMessageBatch", queue, entries.collect(), |_| Ok(()))
            .await
    }

    async fn hide(&self, queue: &str, receipt: &Receipt, time: Duration) -> CloudResult<()> {
        let body = json!({
            "QueueUrl": self.url(queue).await?,
            "ReceiptHandle": receipt.0,
            "VisibilityTimeout": time.as_secs(),
        });
        self.write("ChangeMessageVisibility", &body).await?;
        Ok(())
    }

    async fn counts(&self, queue: &str) -> CloudResult<QueueCounts> {
        const VISIBLE: &str = "ApproximateNumberOfMessages";
        const IN_FLIGHT: &str = "ApproximateNumberOfMessagesNotVisible";
        let body = json!({
            "QueueUrl": self.url(queue).await?,
            "AttributeNames": [VISIBLE, IN_FLIGHT],
        });
        let reply = self.read("GetQueueAttributes", &body).await?;
        let count = |name: &str| {
            let count = text(&reply["Attributes"], name)?;
            count.parse().map_err(|_| malformed(name))
        };
        Ok(QueueCounts {
            visible: count(VISIBLE)?,
            in_flight: count(IN_FLIGHT)?,
        })
    }
}

/// What a request counts as.
fn kind(action: &str) -> RequestKind {
    match action {
        "SendMessageBatch" => RequestKind::QueueSend,
        "ReceiveMessage" => RequestKind::QueueReceive,
        "DeleteMessageBatch" => RequestKind::QueueRemove,
        _ => RequestKind::QueueOther,
    }
}

/// What costs a service about the same, and has a window of its own.
fn class(action: &str) -> &'static str {
    match action {
        "SendMessageBatch" => "send",
        "ReceiveMessage" => "receive",
        "DeleteMessageBatch" => "remove",
        _ => "queue",
    }
}

/// Whether a write may be sent again when it is unknown whether it took effect. Messages that are
/// sent twice are two; what a lost receive took comes back by itself.
fn is_repeatable(action: &str) -> bool {
    matches!(
        action,
        "ReceiveMessage" | "DeleteMessageBatch" | "ChangeMessageVisibility" | "CreateQueue"
    )
}

/// What a reply says.
fn answer<T: DeserializeOwned + Default>(
    action: &str,
    reply: &Reply,
    is_write: bool,
) -> Result<T, Error> {
    if reply.status.is_success() {
        return match reply.body.is_empty() {
            // Actions without a result answer with nothing.
            true => Ok(T::default()),
            false => serde_json::from_slice(&reply.body)
                .map_err(|_| Error::malformed(format!("{action}: reply is not its JSON"))),
        };
    }
    Err(refused(action, reply, is_write))
}

/// What a refusal says.
fn refused(action: &str, reply: &Reply, is_write: bool) -> Error {
    let status = reply.status.as_u16();
    let said: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
    let get = |name: &str| said[name].as_str().unwrap_or_default().to_owned();
    let kind = match said["__type"].as_str() {
        Some(code) => ErrorKind::Refused {
            status,
            code: code.rsplit('#').next().unwrap_or(code).to_owned(),
            message: get("message"),
            request_id: String::new(),
        },
        None if status >= 500 && is_write => ErrorKind::Ambiguous,
        None if status >= 500 => ErrorKind::Unavailable,
        None => ErrorKind::Malformed,
    };
    Error::new(kind, action)
}

fn list<'a>(reply: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    reply[name].as_array().into_iter().flatten()
}

fn text(reply: &Value, name: &str) -> CloudResult<String> {
    said(reply[name].as_str().map(str::to_owned), name)
}

fn said(text: Option<String>, name: &str) -> CloudResult<String> {
    text.ok_or_else(|| malformed(name))
}

fn malformed(name: &str) -> CloudError {
    CloudError::new(CloudKind::Malformed, format!("the reply has no {name}"))
}
