//! Keep-alive connections to one endpoint, and one attempt of a request on one of them.
//!
//! Invariants:
//! - POOL-1 no more than the gate's permits are in use at once; an unused connection holds no
//!   permit.
//! - POOL-2 a connection goes back only after its reply was read to the end.
//! - POOL-3 an attempt goes out at most once: it moves to another connection only when hyper gives
//!   it back unsent.

use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{HeaderMap, Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::{Error, ErrorKind};
use crate::transport::Endpoint;

/// Connections to one endpoint, for requests with bodies of one type.
pub(crate) struct Pool<B> {
    endpoint: Endpoint,
    /// Bounds the connections in use.
    gate: Arc<Semaphore>,
    idle: Mutex<Vec<SendRequest<B>>>,
    reply_bytes_max: usize,
}

/// A whole reply.
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// The body of a reply as it comes in. Its connection goes back at its end; dropped before, the
/// connection is closed.
pub(crate) struct StreamingBody<B> {
    incoming: Incoming,
    lease: Option<PooledConnection<B>>,
}

/// A connection in use.
struct PooledConnection<B> {
    pool: Arc<Pool<B>>,
    sender: SendRequest<B>,
    permit: OwnedSemaphorePermit,
}

impl<B> Pool<B>
where
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    pub(crate) fn new(endpoint: Endpoint, connections_max: usize, reply_bytes_max: usize) -> Self {
        let permits = connections_max.clamp(1, Semaphore::MAX_PERMITS);
        Pool {
            endpoint,
            gate: Arc::new(Semaphore::new(permits)),
            idle: Mutex::default(),
            reply_bytes_max,
        }
    }

    /// Sends a request and reads the whole reply; `is_sent` tells, whenever this ends, whether any
    /// of it may have left.
    pub(crate) async fn exchange(
        self: &Arc<Self>,
        request: Request<B>,
        is_sent: &AtomicBool,
    ) -> Result<Reply, Error> {
        let reply = self.open(request, is_sent).await?;
        self.read(reply).await
    }

    /// Reads the rest of a reply.
    pub(crate) async fn read(
        &self,
        reply: hyper::Response<StreamingBody<B>>,
    ) -> Result<Reply, Error> {
        let (head, incoming) = reply.into_parts();
        // The room for all of it. A false length costs addresses alone: bytes come, then memory.
        let size = incoming.size_hint().exact().unwrap_or_default();
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        let mut body = BytesMut::with_capacity(size.min(self.reply_bytes_max));
        let mut incoming = pin!(Limited::new(incoming, self.reply_bytes_max));
        // Piece by piece, while the processor's cache has them.
        while let Some(frame) = incoming.frame().await {
            let frame = frame.map_err(|error| {
                if error.is::<LengthLimitError>() {
                    Error::malformed(format!("reply exceeds {} bytes", self.reply_bytes_max))
                } else {
                    lost("connection lost", error)
                }
            })?;
            if let Some(bytes) = frame.data_ref() {
                body.extend_from_slice(bytes);
            }
        }
        Ok(Reply {
            status: head.status,
            headers: head.headers,
            body: body.freeze(),
        })
    }

    /// Sends a request and reads the reply's head.
    pub(crate) async fn open(
        self: &Arc<Self>,
        mut request: Request<B>,
        is_sent: &AtomicBool,
    ) -> Result<hyper::Response<StreamingBody<B>>, Error> {
        let gate = Arc::clone(&self.gate);
        let permit = gate.acquire_owned().await;
        let permit = permit.expect("the gate is never closed");
        loop {
            let (mut sender, is_fresh) = match self.take_idle() {
                Some(sender) => (sender, false),
                // Boxed: it is large, and seldom.
                None => (Box::pin(self.connect()).await?, true),
            };
            if sender.ready().await.is_err() && !is_fresh {
                continue;
            }
            is_sent.store(true, Ordering::Relaxed);
            match sender.try_send_request(request).await {
                Ok(response) => {
                    let pool = Arc::clone(self);
                    let lease = PooledConnection {
                        pool,
                        sender,
                        permit,
                    };
                    return Ok(response.map(|incoming| StreamingBody {
                        incoming,
                        lease: Some(lease),
                    }));
                }
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

    async fn connect(&self) -> Result<SendRequest<B>, Error> {
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
}

impl<B> Pool<B> {
    fn take_idle(&self) -> Option<SendRequest<B>> {
        let mut idle = self.idle();
        while let Some(sender) = idle.pop() {
            if !sender.is_closed() {
                return Some(sender);
            }
        }
        None
    }

    fn idle(&self) -> MutexGuard<'_, Vec<SendRequest<B>>> {
        self.idle
            .lock()
            .expect("nothing panics while the list is locked")
    }
}

impl<B> PooledConnection<B> {
    fn end(self) {
        self.pool.idle().push(self.sender);
        drop(self.permit);
    }
}

impl<B> Body for StreamingBody<B> {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = self.get_mut();
        let frame = ready!(Pin::new(&mut this.incoming).poll_frame(context));
        match &frame {
            None => this
                .lease
                .take()
                .into_iter()
                .for_each(PooledConnection::end),
            Some(Err(_)) => this.lease = None,
            Some(Ok(_)) => {}
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        // Not before the connection went back.
        self.lease.is_none() && self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}

fn lost(what: &str, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    let source = source.into();
    let context = format!("{what}: {source}");
    Error::caused(ErrorKind::Unavailable, context, source)
}
