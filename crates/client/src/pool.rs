//! Keep-alive connections to one endpoint, and one attempt of a request on one of them.
//!
//! Invariants:
//! - P1 no more than the gate's permits are in use at once; an unused connection holds no permit.
//! - P2 a connection goes back only after its reply was read to the end.
//! - P3 a request goes out at most once: it moves to another connection only when hyper gives it
//!   back unsent.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{HeaderMap, Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::sync::Semaphore;

use crate::error::{Error, ErrorKind};
use crate::transport::Endpoint;

type Sender = SendRequest<Full<Bytes>>;

/// Connections to one endpoint.
pub(crate) struct Pool {
    endpoint: Endpoint,
    /// Admits requests. A congestion window takes its place when there is one.
    gate: Semaphore,
    idle: Mutex<Vec<Sender>>,
    timeout: Duration,
    response_bytes_max: usize,
}

/// A whole reply.
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Pool {
    pub(crate) fn new(
        endpoint: Endpoint,
        connections_max: usize,
        timeout: Duration,
        response_bytes_max: usize,
    ) -> Self {
        let gate = Semaphore::new(connections_max.clamp(1, Semaphore::MAX_PERMITS));
        Pool {
            endpoint,
            gate,
            idle: Mutex::default(),
            timeout,
            response_bytes_max,
        }
    }

    /// Sends a request once and reads the whole reply; `is_write` decides what silence means.
    pub(crate) async fn send(
        &self,
        request: Request<Full<Bytes>>,
        is_write: bool,
    ) -> Result<Reply, Error> {
        let is_sent = AtomicBool::new(false);
        let attempt = tokio::time::timeout(self.timeout, self.attempt(request, &is_sent)).await;
        let error = match attempt {
            Ok(Ok(reply)) => return Ok(reply),
            Ok(Err(error)) => error,
            Err(_) => {
                let context = format!("no answer within {:?}", self.timeout);
                Error::new(ErrorKind::Unavailable, context)
            }
        };
        let is_silence = error.kind == ErrorKind::Unavailable;
        if is_silence && is_write && is_sent.load(Ordering::Relaxed) {
            return Err(error.with_kind(ErrorKind::Ambiguous));
        }
        Err(error)
    }

    async fn attempt(
        &self,
        mut request: Request<Full<Bytes>>,
        is_sent: &AtomicBool,
    ) -> Result<Reply, Error> {
        let _permit = self.gate.acquire().await.expect("the gate is never closed");
        loop {
            let (mut sender, is_fresh) = match self.take_idle() {
                Some(sender) => (sender, false),
                None => (self.open().await?, true),
            };
            if sender.ready().await.is_err() && !is_fresh {
                continue;
            }
            is_sent.store(true, Ordering::Relaxed);
            match sender.try_send_request(request).await {
                Ok(response) => return self.read(response, sender).await,
                Err(mut unsent) => match unsent.take_message() {
                    Some(returned) if !is_fresh => {
                        is_sent.store(false, Ordering::Relaxed);
                        request = returned;
                    }
                    returned => {
                        is_sent.store(returned.is_none(), Ordering::Relaxed);
                        return Err(lost("connection lost", unsent.into_error()));
                    }
                },
            }
        }
    }

    async fn open(&self) -> Result<Sender, Error> {
        let stream = self
            .endpoint
            .connect()
            .await
            .map_err(|error| lost("cannot connect", error))?;
        let (sender, connection) = http1::Builder::new()
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| lost("cannot connect", error))?;
        // Ends when the sender is dropped or the peer closes; its error reaches the sender too.
        tokio::spawn(async move {
            let _ = connection.await;
        });
        Ok(sender)
    }

    async fn read(
        &self,
        response: hyper::Response<hyper::body::Incoming>,
        sender: Sender,
    ) -> Result<Reply, Error> {
        let (head, body) = response.into_parts();
        let body = Limited::new(body, self.response_bytes_max);
        let body = body.collect().await.map_err(|error| {
            if error.is::<LengthLimitError>() {
                Error::malformed(format!("reply exceeds {} bytes", self.response_bytes_max))
            } else {
                lost("connection lost", error)
            }
        })?;
        self.idle().push(sender);
        Ok(Reply {
            status: head.status,
            headers: head.headers,
            body: body.to_bytes(),
        })
    }

    fn take_idle(&self) -> Option<Sender> {
        let mut idle = self.idle();
        while let Some(sender) = idle.pop() {
            if !sender.is_closed() {
                return Some(sender);
            }
        }
        None
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Sender>> {
        self.idle
            .lock()
            .expect("nothing panics while the list is locked")
    }
}

fn lost(what: &str, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    let source = source.into();
    let context = format!("{what}: {source}");
    Error::caused(ErrorKind::Unavailable, context, source)
}
