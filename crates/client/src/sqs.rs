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
        self.call_with(action, is_write, body, None).await
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
        self.call_with("CreateQueue", true, body, header).await
    }

    async fn call_with(
        &self,
        action: &str,
        is_write: bool,
        body: &Value,
        header: Option<(&str, &str)>,
    ) -> Result<Value, Error> {
        let limits = self.limits_of(body);
        let target = format!("AmazonSQS.{action}");
        let body = Bytes::from(body.to_string());
        let headers = match &self.signer {
            None => Headers::default(),
            Some(signer) => {
                let moment = signer.moment(unix_seconds());
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
            limits,
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
    fn limits_of(&self, body: &Value) -> Limits {
        match body["WaitTimeSeconds"].as_u64() {
            None | Some(0) => self.limits,
            Some(wait) => Limits {
                pace: Pacing::Bare,
                timeout: self.limits.timeout.max(Duration::from_secs(wait + 5)),
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
        entries: Vec<Value>,
        read: impl Fn(&Value) -> CloudResult<T>,
    ) -> CloudResult<Vec<CloudResult<T>>> {
        let count = entries.len();
        let body = json!({ "QueueUrl": self.url(queue).await?, "Entries": entries });
        let reply = self.write(action, &body).await?;
        let unheard = |_| {
            let context = format!("{action}: nothing was said of an entry");
            Err(CloudError::new(CloudKind::Ambiguous, context))
        };
        let mut each: Vec<CloudResult<T>> = (0..count).map(unheard).collect();
        let place = |entry: &Value| {
            let at: usize = entry["Id"].as_str()?.parse().ok()?;
            (at < count).then_some(at)
        };
        for entry in list(&reply, "Successful") {
            if let Some(at) = place(entry) {
                each[at] = read(entry);
            }
        }
        for entry in list(&reply, "Failed") {
            if let Some(at) = place(entry) {
                let is_ours = entry["SenderFault"].as_bool().unwrap_or(true);
                let kind = match is_ours {
                    true => CloudKind::Invalid,
                    false => CloudKind::Ambiguous,
                };
                let said = [&entry["Code"], &entry["Message"]];
                let said = said.map(|said| said.as_str().unwrap_or_default());
                each[at] = Err(CloudError::new(kind, said.join(": ")));
            }
        }
        Ok(each)
    }
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
        let entries =
            entries.map(|(at, body)| json!({ "Id": at.to_string(), "MessageBody": body }));
        let id = |entry: &Value| text(entry, "MessageId");
        self.batch("SendMessageBatch", queue, entries.collect(), id)
            .await
    }

    async fn receive(&self, queue: &str, how: &Receive) -> CloudResult<Vec<Received>> {
        let mut body = json!({
            "QueueUrl": self.url(queue).await?,
            "MaxNumberOfMessages": how.max,
            "WaitTimeSeconds": how.wait.as_secs(),
            "MessageSystemAttributeNames": ["ApproximateReceiveCount"],
            // What services read that do not know the newer name.
            "AttributeNames": ["ApproximateReceiveCount"],
        });
        if let Some(visibility) = how.visibility {
            body["VisibilityTimeout"] = json!(visibility.as_secs());
        }
        let reply = self.write("ReceiveMessage", &body).await?;
        let message = |message: &Value| {
            let receives = message["Attributes"]["ApproximateReceiveCount"].as_str();
            Ok(Received {
                id: text(message, "MessageId")?,
                body: text(message, "Body")?,
                receipt: Receipt(text(message, "ReceiptHandle")?),
                receives: receives.and_then(|count| count.parse().ok()).unwrap_or(1),
            })
        };
        list(&reply, "Messages").map(message).collect()
    }

    async fn remove(&self, queue: &str, receipts: &[Receipt]) -> CloudResult<Vec<CloudResult<()>>> {
        let entries = receipts.iter().enumerate();
        let entries = entries
            .map(|(at, receipt)| json!({ "Id": at.to_string(), "ReceiptHandle": receipt.0 }));
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
fn answer(action: &str, reply: &Reply, is_write: bool) -> Result<Value, Error> {
    let status = reply.status.as_u16();
    let read = match reply.body.is_empty() {
        // Actions without a result answer with nothing.
        true => Ok(Value::Null),
        false => serde_json::from_slice::<Value>(&reply.body),
    };
    if reply.status.is_success() {
        return read.map_err(|_| Error::malformed(format!("{action}: reply is not JSON")));
    }
    let said = read.unwrap_or_default();
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
    Err(Error::new(kind, action))
}

fn list<'a>(reply: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    reply[name].as_array().into_iter().flatten()
}

fn text(reply: &Value, name: &str) -> CloudResult<String> {
    let text = reply[name].as_str();
    text.map(str::to_owned).ok_or_else(|| malformed(name))
}

fn malformed(name: &str) -> CloudError {
    CloudError::new(CloudKind::Malformed, format!("the reply has no {name}"))
}
