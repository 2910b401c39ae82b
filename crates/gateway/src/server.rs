//! The listeners' loops: who may connect, for how long, and how all of it ends.
//!
//! Invariants:
//! - L1 at most `connections_max` connections are open, the control socket's not counted.
//! - L2 a connection ends alone: neither its errors nor a panic in it reach another.
//! - L3 after the stop signal nothing is accepted, and `serve` returns within `shutdown_grace`.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use fader_node::Node;
use hyper::service::service_fn;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::Settings;
use crate::connection::{self, Progress, is_stopped};
use crate::control;
use crate::door::{Arrival, Door};
use crate::metrics::Counted;
use crate::tls::Tls;

/// How long to wait after a failed accept: it is for want of file descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What a connection beyond the limit hears, in plain text only: there is no time to shake hands.
const REFUSAL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/xml\r\n\
    Content-Length: 196\r\nConnection: close\r\n\r\n<?xml version=\"1.0\"?>\n<Response><Errors>\
    <Error><Code>ServiceUnavailable</Code><Message>Service AmazonSimpleDB is currently \
    unavailable. Please try again later</Message></Error></Errors></Response>";

/// One front door of a node. Cheap to clone; all clones count together.
#[derive(Clone)]
pub struct Gateway {
    door: Arc<Door>,
    free: Arc<Semaphore>,
}

impl Gateway {
    /// A gateway to `node`.
    pub fn new(node: Node, settings: Settings) -> Gateway {
        let free = Arc::new(Semaphore::new(settings.connections_max));
        Gateway {
            door: Arc::new(Door::new(node, settings)),
            free,
        }
    }

    /// Serves `listener` until `stop` turns true, then lets running requests end for up to
    /// `shutdown_grace`.
    ///
    /// # Errors
    /// When the listener has no address. A failing accept is tried again, a failing connection
    /// ends alone.
    pub async fn serve(
        &self,
        listener: TcpListener,
        tls: Option<Tls>,
        stop: watch::Receiver<bool>,
    ) -> std::io::Result<()> {
        let port = listener.local_addr()?.port();
        let accept = |context: &mut Context<'_>| listener.poll_accept(context);
        let start = |stream, tasks: &mut JoinSet<()>| {
            let tls = tls.as_ref().map(Tls::current);
            self.start(stream, port, tls, stop.clone(), tasks);
        };
        let mut tasks = accept_until_stopped(accept, start, stop.clone()).await;
        drop(listener);
        drain(&mut tasks, self.door.settings.shutdown_grace).await;
        Ok(())
    }

    /// Serves the administrator's socket until `stop` turns true. Whoever may open the socket's
    /// file is the administrator: its modes are the protection.
    ///
    /// # Errors
    /// None today: a failing accept is tried again, a failing connection ends alone.
    pub async fn serve_control(
        &self,
        listener: UnixListener,
        stop: watch::Receiver<bool>,
    ) -> std::io::Result<()> {
        let accept = |context: &mut Context<'_>| listener.poll_accept(context);
        let start = |stream, tasks: &mut JoinSet<()>| {
            let (door, stop) = (Arc::clone(&self.door), stop.clone());
            tasks.spawn(async move {
                let progress = Progress::new();
                let service = service_fn(async |request| {
                    Ok::<_, Infallible>(control::answer(&door, &progress, request).await)
                });
                connection::serve(stream, &progress, &door.settings, stop, service).await;
            });
        };
        let mut tasks = accept_until_stopped(accept, start, stop.clone()).await;
        drop(listener);
        drain(&mut tasks, self.door.settings.shutdown_grace).await;
        Ok(())
    }

    /// Starts the task of one connection, or refuses it.
    fn start(
        &self,
        stream: TcpStream,
        port: u16,
        tls: Option<Arc<ServerConfig>>,
        stop: watch::Receiver<bool>,
        tasks: &mut JoinSet<()>,
    ) {
        let Ok(permit) = Arc::clone(&self.free).try_acquire_owned() else {
            self.door.metrics.connections_refused.inc();
            tracing::debug!("refused a connection: there are connections_max already");
            if tls.is_none() {
                refuse(stream);
            }
            return;
        };
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "a connection cannot be set to send at once");
        }
        let door = Arc::clone(&self.door);
        let arrival = Arrival {
            port,
            is_secure: tls.is_some(),
            peer: stream.peer_addr().ok().map(|peer| peer.ip()),
        };
        tasks.spawn(async move {
            let _permit = permit;
            let _counted = Counted::new(&door.metrics.connections);
            let Some(config) = tls else {
                return serve_http(&door, stream, arrival, stop).await;
            };
            let handshake = TlsAcceptor::from(config).accept(stream);
            match tokio::time::timeout(door.settings.handshake_timeout, handshake).await {
                Ok(Ok(stream)) => serve_http(&door, stream, arrival, stop).await,
                Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
                Err(_) => tracing::debug!("a TLS handshake took too long"),
            }
        });
    }
}

async fn serve_http<T>(door: &Door, stream: T, arrival: Arrival, stop: watch::Receiver<bool>)
where
    T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let progress = Progress::new();
    let service = service_fn(async |request| {
        Ok::<_, Infallible>(door.answer(&progress, arrival, request).await)
    });
    connection::serve(stream, &progress, &door.settings, stop, service).await;
}

/// Accepts until `stop` turns true. The tasks that then still run are returned.
async fn accept_until_stopped<T, A>(
    accept: impl Fn(&mut Context<'_>) -> Poll<std::io::Result<(T, A)>>,
    start: impl Fn(T, &mut JoinSet<()>),
    mut stop: watch::Receiver<bool>,
) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            () = is_stopped(&mut stop) => return tasks,
            Some(ended) = tasks.join_next(), if !tasks.is_empty() => {
                if let Err(error) = ended {
                    tracing::error!(%error, "a connection's task ended badly");
                }
            }
            accepted = poll_fn(&accept) => match accepted {
                Ok((stream, _)) => start(stream, &mut tasks),
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
}

/// Waits for running requests; cuts those that outlast the grace.
async fn drain(tasks: &mut JoinSet<()>, grace: Duration) {
    let all = async { while tasks.join_next().await.is_some() {} };
    if tokio::time::timeout(grace, all).await.is_err() {
        tracing::warn!(
            count = tasks.len(),
            "cut connections that outlasted the grace"
        );
        tasks.shutdown().await;
    }
}

/// Says why and closes. Best effort: nothing here waits. What the client has sent is taken first,
/// since closing over unread bytes would take the answer back.
fn refuse(stream: TcpStream) {
    if let Ok(mut stream) = stream.into_std() {
        let _ = stream.read(&mut [0; 4096]);
        let _ = stream.write(REFUSAL);
        let _ = stream.shutdown(std::net::Shutdown::Write);
    }
}
