//! Objects in Redis: a primary, and a replica if there is one.
//!
//! An object is a hash of two fields: its value, and how often it was written, which is its place.
//! A script writes both, so that no reader sees one without the other. A strong read asks the
//! primary, an eventual one the replica. A strong write waits (`WAIT`) until so many replicas have
//! it, an eventual one does not.
//!
//! Deliberately absent: Redis Cluster and Sentinel.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use async_trait::async_trait;
use fader_history::object::{Outcome, Place, Reply, Request, Text, Value, Verb};
use parking_lot::Mutex;
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, Cmd, ErrorKind, FromRedisValue, IntoConnectionInfo, RedisError,
};

use super::{STRONG, scanned, shown_text, text_of};
use crate::drive::Provider;
use crate::workload::Heard;

const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);
const CONNECT_TIME_MAX: Duration = Duration::from_secs(3);
/// Milliseconds that a strong write waits for replicas.
const WAIT_MILLIS: u64 = 5_000;
/// Keys that one command deletes.
const DELETED: usize = 500;

/// Writes a value, if the key has the one that is compared; gives how often it was written, or
/// nothing.
const WRITE: &str = "\
if ARGV[2] == 'is' and redis.call('HGET', KEYS[1], 'v') ~= ARGV[3] then return false end
if ARGV[2] == 'absent' and redis.call('EXISTS', KEYS[1]) == 1 then return false end
redis.call('HSET', KEYS[1], 'v', ARGV[1])
return redis.call('HINCRBY', KEYS[1], 'n', 1)";

/// Objects below a prefix of keys.
pub struct Redis {
    primary: Server,
    replica: Option<Server>,
    /// Replicas that a strong write waits for.
    wait: u32,
    prefix: String,
    value_bytes: usize,
    /// Keys that were written.
    written: Mutex<BTreeSet<Text>>,
}

/// A server with a connection for each client.
struct Server {
    client: Client,
    connections: Mutex<BTreeMap<u32, MultiplexedConnection>>,
}

impl Server {
    fn new(address: &str, password: &str) -> Result<Self, RedisError> {
        let mut info = format!("redis://{address}").into_connection_info()?;
        if !password.is_empty() {
            let settings = info.redis_settings().clone().set_password(password);
            info = info.set_redis_settings(settings);
        }
        Ok(Server {
            client: Client::open(info)?,
            connections: Mutex::default(),
        })
    }

    async fn ask<T: FromRedisValue>(&self, client: u32, command: &Cmd) -> Result<T, Heard> {
        let had = self.connections.lock().remove(&client);
        let mut connection = match had {
            Some(had) => had,
            None => {
                let config = AsyncConnectionConfig::new()
                    .set_connection_timeout(Some(CONNECT_TIME_MAX))
                    .set_response_timeout(Some(ANSWER_TIME_MAX));
                let new = self
                    .client
                    .get_multiplexed_async_connection_with_config(&config);
                new.await.map_err(|_| Heard::Unsent)?
            }
        };
        match command.query_async(&mut connection).await {
            Ok(found) => {
                self.connections.lock().insert(client, connection);
                Ok(found)
            }
            // A connection that failed is not used again.
            Err(error) => Err(heard(&error)),
        }
    }
}

/// What an error of the library says: only a server's own word is a refusal.
fn heard(error: &RedisError) -> Heard {
    match (error.kind(), error.code()) {
        (ErrorKind::Server(_) | ErrorKind::Extension, code) => {
            let text = error.detail().or(code).unwrap_or("refused");
            Heard::Status(400, text.into())
        }
        _ => Heard::Silence,
    }
}

impl Redis {
    /// Objects at the address of a primary, and of a replica if there is one. Keys begin with a
    /// prefix; values have so many octets at least; strong writes wait for so many replicas. An
    /// empty password is none.
    ///
    /// # Errors
    /// An address that is none.
    pub fn new(
        primary: &str,
        replica: Option<&str>,
        wait: u32,
        password: &str,
        prefix: String,
        value_bytes: usize,
    ) -> Result<Self, String> {
        let server = |at| Server::new(at, password).map_err(|error| error.to_string());
        Ok(Redis {
            primary: server(primary)?,
            replica: replica.map(server).transpose()?,
            wait,
            prefix,
            value_bytes,
            written: Mutex::default(),
        })
    }

    fn key(&self, key: &str) -> String {
        format!("{}{key}", self.prefix)
    }

    async fn read(&self, client: u32, key: &str, level: &str) -> Result<Reply, Heard> {
        let server = match (&self.replica, level) {
            (Some(replica), level) if level != STRONG => replica,
            _ => &self.primary,
        };
        if let Some((_, count)) = scanned(key) {
            let pattern = format!("{}*", self.prefix);
            let mut scan = redis::cmd("SCAN");
            scan.arg(0)
                .arg("MATCH")
                .arg(pattern)
                .arg("COUNT")
                .arg(count);
            server.ask::<redis::Value>(client, &scan).await?;
            return Ok(Reply::shows(Value::None));
        }
        let mut get = redis::cmd("HMGET");
        get.arg(self.key(key)).arg("v").arg("n");
        let found: (Option<String>, Option<u64>) = server.ask(client, &get).await?;
        Ok(match found {
            (Some(value), place) => Reply {
                place: place.map(|number| Place(vec![number])),
                ..Reply::shows(shown_text(&value))
            },
            (None, _) => Reply::shows(Value::None),
        })
    }

    async fn write(
        &self,
        client: u32,
        key: &Text,
        from: Option<&Value>,
        to: &Value,
        level: &str,
    ) -> Result<Reply, Heard> {
        self.written.lock().insert(key.clone());
        let (how, compared) = match from {
            None => ("", String::new()),
            Some(Value::None) => ("absent", String::new()),
            Some(from) => ("is", text_of(from, self.value_bytes)),
        };
        let mut write = redis::cmd("EVAL");
        write.arg(WRITE).arg(1).arg(self.key(key));
        write
            .arg(text_of(to, self.value_bytes))
            .arg(how)
            .arg(compared);
        let number: Option<u64> = self.primary.ask(client, &write).await?;
        let Some(number) = number else {
            return Ok(Reply::unmet());
        };
        if level == STRONG && 0 < self.wait {
            let mut wait = redis::cmd("WAIT");
            wait.arg(self.wait).arg(WAIT_MILLIS);
            let replicas: Result<u32, Heard> = self.primary.ask(client, &wait).await;
            // It is at the primary; that it stays is not promised.
            if replicas.map_or(true, |replicas| replicas < self.wait) {
                return Err(Heard::Silence);
            }
        }
        Ok(Reply {
            place: Some(Place(vec![number])),
            ..Reply::default()
        })
    }
}

#[async_trait]
impl Provider for Redis {
    async fn ask(&self, client: u32, request: &Request, level: &str) -> Outcome {
        let key = &request.key;
        let (is_write, told) = match &request.verb {
            Verb::Read => (false, self.read(client, key, level).await),
            Verb::Write(to) => (true, self.write(client, key, None, to, level).await),
            Verb::Swap { from, to } => {
                let swapped = self.write(client, key, Some(from), to, level).await;
                (true, swapped)
            }
            verb => {
                let text = format!("a key is read, written or swapped, not asked for {verb:?}");
                return Outcome::Refused(text.into());
            }
        };
        told.map_or_else(|heard| heard, Heard::Reply)
            .outcome(is_write)
    }

    async fn end(&self) -> Result<(), String> {
        let written: Vec<Text> = self.written.lock().iter().cloned().collect();
        for keys in written.chunks(DELETED) {
            let mut delete = redis::cmd("UNLINK");
            for key in keys {
                delete.arg(self.key(key));
            }
            let deleted: Result<u64, Heard> = self.primary.ask(0, &delete).await;
            deleted.map_err(|_| {
                format!("keys that begin with {} could not be deleted", self.prefix)
            })?;
        }
        Ok(())
    }
}
