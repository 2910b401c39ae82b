//! Objects in etcd, by its JSON gateway.
//!
//! An object is a key, its place the revision of its last change. A strong read is linearizable, an
//! eventual one serializable: what the member has that is asked. Each client has a connection of
//! its own to one member; clients are dealt to the members in turn.
//!
//! Invariants:
//! - an answer is never longer than [`ANSWER_BYTES_MAX`], and never awaited longer than
//!   [`ANSWER_TIME_MAX`].

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use fader_history::object::{Outcome, Place, Reply, Request, Value, Verb};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{CONTENT_TYPE, HOST};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::{Value as Json, json};
use tokio::net::TcpStream;

use super::{STRONG, scanned, shown_text, text_of};
use crate::drive::Provider;
use crate::workload::Heard;

const ANSWER_BYTES_MAX: usize = 4 << 20;
const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);
const CONNECT_TIME_MAX: Duration = Duration::from_secs(3);

/// Objects below a prefix of keys.
#[derive(Debug)]
pub struct Etcd {
    /// The members' client addresses, such as `127.0.0.1:2379`.
    members: Vec<String>,
    prefix: String,
    value_bytes: usize,
    connections: Mutex<BTreeMap<u32, SendRequest<Full<Bytes>>>>,
}

impl Etcd {
    /// Objects at members, at least one, in keys that begin with a prefix; values have so many
    /// octets at least.
    pub fn new(members: Vec<String>, prefix: String, value_bytes: usize) -> Self {
        assert!(!members.is_empty(), "there is a member to ask");
        Etcd {
            members,
            prefix,
            value_bytes,
            connections: Mutex::default(),
        }
    }

    fn key(&self, key: &str) -> String {
        STANDARD.encode(format!("{}{key}", self.prefix))
    }

    fn value(&self, value: &Value) -> String {
        STANDARD.encode(text_of(value, self.value_bytes))
    }

    /// A connection of this client: the one it had, or a new one.
    async fn connection(&self, client: u32) -> Option<SendRequest<Full<Bytes>>> {
        let had = self.connections.lock().remove(&client);
        if let Some(mut had) = had
            && had.ready().await.is_ok()
        {
            return Some(had);
        }
        let member = &self.members[client as usize % self.members.len()];
        let stream = tokio::time::timeout(CONNECT_TIME_MAX, TcpStream::connect(member)).await;
        let stream = stream.ok()?.ok()?;
        stream.set_nodelay(true).ok()?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.ok()?;
        // It ends with its sender.
        tokio::spawn(connection);
        Some(sender)
    }

    /// Posts a call of the gateway; its answer, or what was heard instead.
    async fn call(&self, client: u32, path: &str, body: &Json) -> Result<Json, Heard> {
        let mut sender = self.connection(client).await.ok_or(Heard::Unsent)?;
        let member = &self.members[client as usize % self.members.len()];
        let request = hyper::Request::post(path)
            .header(HOST, member)
            .header(CONTENT_TYPE, "application/json")
            .body(Full::from(body.to_string()))
            .map_err(|_| Heard::Unsent)?;
        let exchange = async {
            let answer = sender.send_request(request).await.ok()?;
            let status = answer.status().as_u16();
            let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX);
            Some((status, body.collect().await.ok()?.to_bytes()))
        };
        let answer = tokio::time::timeout(ANSWER_TIME_MAX, exchange).await;
        let (status, body) = answer.ok().flatten().ok_or(Heard::Silence)?;
        self.connections.lock().insert(client, sender);
        let json: Option<Json> = serde_json::from_slice(&body).ok();
        match (status, json) {
            (200, Some(json)) => Ok(json),
            (200, None) => Err(Heard::Silence),
            (status, json) => {
                let message = json.and_then(|json| Some(json["message"].as_str()?.to_owned()));
                Err(Heard::Status(status, message.unwrap_or_default().into()))
            }
        }
    }

    async fn read(&self, client: u32, key: &str, level: &str) -> Result<Reply, Heard> {
        let is_serializable = level != STRONG;
        let mut range = json!({"key": self.key(key), "serializable": is_serializable});
        if let Some((first, count)) = scanned(key) {
            let end = STANDARD.encode(format!("{}\u{ff}", self.prefix));
            range["key"] = self.key(first).into();
            range["range_end"] = end.into();
            range["limit"] = count.into();
            self.call(client, "/v3/kv/range", &range).await?;
            return Ok(Reply::shows(Value::None));
        }
        let found = self.call(client, "/v3/kv/range", &range).await?;
        let Some(found) = found["kvs"].get(0) else {
            return Ok(Reply::shows(Value::None));
        };
        let value = STANDARD.decode(found["value"].as_str().unwrap_or_default());
        let value = value.ok().and_then(|value| String::from_utf8(value).ok());
        Ok(Reply {
            place: revision(&found["mod_revision"]),
            ..Reply::shows(shown_text(&value.ok_or(Heard::Silence)?))
        })
    }

    async fn write(&self, client: u32, key: &str, to: &Value) -> Result<Reply, Heard> {
        let put = json!({"key": self.key(key), "value": self.value(to)});
        let told = self.call(client, "/v3/kv/put", &put).await?;
        Ok(Reply {
            place: revision(&told["header"]["revision"]),
            ..Reply::default()
        })
    }

    async fn swap(&self, client: u32, key: &str, from: &Value, to: &Value) -> Result<Reply, Heard> {
        let key = self.key(key);
        let compare = match from {
            Value::None => json!({"key": key, "target": "VERSION", "version": "0"}),
            from => json!({"key": key, "target": "VALUE", "value": self.value(from)}),
        };
        let put = json!({"requestPut": {"key": key, "value": self.value(to)}});
        let call = json!({"compare": [compare], "success": [put]});
        let told = self.call(client, "/v3/kv/txn", &call).await?;
        if told["succeeded"].as_bool() != Some(true) {
            return Ok(Reply::unmet());
        }
        Ok(Reply {
            place: revision(&told["header"]["revision"]),
            ..Reply::default()
        })
    }
}

/// A revision, which JSON has as a text.
fn revision(json: &Json) -> Option<Place> {
    Some(Place(vec![json.as_str()?.parse().ok()?]))
}

#[async_trait]
impl Provider for Etcd {
    async fn ask(&self, client: u32, request: &Request, level: &str) -> Outcome {
        let key = &request.key;
        let (is_write, told) = match &request.verb {
            Verb::Read => (false, self.read(client, key, level).await),
            Verb::Write(to) => (true, self.write(client, key, to).await),
            Verb::Swap { from, to } => (true, self.swap(client, key, from, to).await),
            verb => {
                let text = format!("a key is read, written or swapped, not asked for {verb:?}");
                return Outcome::Refused(text.into());
            }
        };
        told.map_or_else(|heard| heard, Heard::Reply)
            .outcome(is_write)
    }

    async fn end(&self) -> Result<(), String> {
        let end = STANDARD.encode(format!("{}\u{ff}", self.prefix));
        let all = json!({"key": self.key(""), "range_end": end});
        for client in 0..u32::try_from(self.members.len()).unwrap_or(1) {
            if self.call(client, "/v3/kv/deleterange", &all).await.is_ok() {
                return Ok(());
            }
        }
        Err(format!(
            "keys that begin with {} could not be deleted",
            self.prefix
        ))
    }
}
