//! The listeners' loops: who may connect, for how long, and how all of it ends.
//!
//! Invariants:
//! - CONN-1 at most `connections_max` connections are served, the control socket's not counted; a
//!   few more are in the lobby, or end.
//! - CONN-2 a connection ends alone: neither its errors nor a panic in it reach another.
//! - CONN-3 after the stop signal nothing is accepted, and `serve` returns within `shutdown_grace`.

use std::convert::Infallible;
use std::future::poll_fn;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use fader_node::Node;
use hyper::service::service_fn;
use rustix::net::sockopt::set_socket_send_buffer_size;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::Settings;
use crate::connection::{self, Progress, is_stopped};
use crate::control;
use crate::metrics::GaugeGuard;
use crate::outgoing::Outgoing;
use crate::places::{LOBBY_MAX, Numbers, Places, Seat};
use crate::request_handler::{Arrival, RequestHandler};
use crate::tls::Tls;

/// Bytes of a reply that the kernel takes from a server before a client on the same machine reads
/// them. The kernel counts twice as many, with its own needs. Its own bound is 4 MiB: bytes have
/// left the processor's caches by then, and large replies cost a fifth more.
const NEAR_SEND_BYTES: usize = 256 << 10;

/// How long to wait after a failed accept: it is for want of file descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Connections that have lost their places, and have not ended yet.
const ENDING_MAX: usize = 16;
/// Connections to the control socket at once.
const CONTROL_MAX: usize = 64;

/// One front door of a node. Cheap to clone; all clones count together.
#[derive(Clone)]
pub struct Gateway {
    handler: Arc<RequestHandler>,
    places: Arc<Places>,
    /// File descriptors for connections: those with places, and a few more.
    files: Arc<Semaphore>,
}

impl Gateway {
    /// A gateway to `node`.
    pub fn new(node: Node, settings: Settings) -> Gateway {
        let places = Places::new(Numbers {
            max: settings.connections_max,
            of_address: settings.connections_per_address,
            heads_bytes_max: settings.heads_bytes_max,
        });
        let files = settings.connections_max + LOBBY_MAX + ENDING_MAX;
        Gateway {
            handler: Arc::new(RequestHandler::new(node, settings)),
            places,
            files: Arc::new(Semaphore::new(files)),
        }
    }

    /// File descriptors that a gateway may have open beside those of `connections_max`, the
    /// listeners' own not counted.
    pub const FILES_MORE: usize = LOBBY_MAX + ENDING_MAX + CONTROL_MAX;

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
        let start = |stream, file, tasks: &mut JoinSet<()>| {
            let tls = tls.as_ref().map(Tls::current);
            self.start(stream, file, port, tls, stop.clone(), tasks);
        };
        let mut tasks = tokio::select! {
            tasks = accept_until_stopped(accept, start, &self.files, stop.clone()) => tasks,
            () = self.handler.log_limiter.tell() => JoinSet::new(),
        };
        drop(listener);
        drain(&mut tasks, self.handler.settings.shutdown_grace).await;
        Ok(())
    }

    /// Carries out exports of domains, asked for at any node, until `stop` turns true.
    pub async fn carry_out_exports(&self, stop: watch::Receiver<bool>) {
        self.handler.carry_out_exports(stop).await;
    }

    /// Serves the administrator's socket until `stop` turns true. A user that may open the socket's
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
        let files = Arc::new(Semaphore::new(CONTROL_MAX));
        let start = |stream, file, tasks: &mut JoinSet<()>| {
            let (handler, stop) = (Arc::clone(&self.handler), stop.clone());
            tasks.spawn(async move {
                let _file: OwnedSemaphorePermit = file;
                let progress = Progress::new();
                let service = service_fn(async |request| {
                    Ok::<_, Infallible>(control::answer(&handler, &progress, request).await)
                });
                connection::serve(stream, &progress, &handler.settings, stop, service).await;
            });
        };
        let mut tasks = accept_until_stopped(accept, start, &files, stop.clone()).await;
        drop(listener);
        drain(&mut tasks, self.handler.settings.shutdown_grace).await;
        Ok(())
    }

    /// Starts the task of one connection.
    fn start(
        &self,
        stream: TcpStream,
        file: OwnedSemaphorePermit,
        port: u16,
        tls: Option<Arc<ServerConfig>>,
        stop: watch::Receiver<bool>,
        tasks: &mut JoinSet<()>,
    ) {
        if let Err(error) = tune(&stream) {
            tracing::debug!(%error, "a connection cannot be tuned");
        }
        let handler = Arc::clone(&self.handler);
        let arrival = Arrival {
            port,
            is_secure: tls.is_some(),
            peer: stream.peer_addr().ok().map(|peer| peer.ip()),
        };
        let places = Arc::clone(&self.places);
        tasks.spawn(async move {
            let _counted = GaugeGuard::new(&handler.metrics.connections);
            let address = arrival.peer.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
            let (seat, ended) = places.enter(address).await;
            if 0 < ended {
                handler.metrics.connections_ended.inc_by(ended as u64);
                handler
                    .log_limiter
                    .add("idle connections ended for new ones");
            }
            tokio::select! {
                biased;
                () = seat.ended() => {}
                () = attend(&handler, stream, &seat, tls, arrival, stop) => {}
            }
            // The stream is closed: its descriptor is another connection's now.
            drop(file);
        });
    }
}

/// Has the kernel send at once, and take little at once for a client on this machine.
fn tune(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    if stream.peer_addr()?.ip() == stream.local_addr()?.ip() {
        set_socket_send_buffer_size(stream, NEAR_SEND_BYTES)?;
    }
    Ok(())
}

/// Serves one connection, in TLS or not.
async fn attend(
    handler: &RequestHandler,
    stream: TcpStream,
    seat: &Seat,
    tls: Option<Arc<ServerConfig>>,
    arrival: Arrival,
    stop: watch::Receiver<bool>,
) {
    let Some(config) = tls else {
        return serve_http(handler, stream, seat, arrival, stop).await;
    };
    let handshake = TlsAcceptor::from(config).accept(stream);
    match tokio::time::timeout(handler.settings.handshake_timeout, handshake).await {
        Ok(Ok(stream)) => serve_http(handler, stream, seat, arrival, stop).await,
        Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
        Err(_) => tracing::debug!("a TLS handshake took too long"),
    }
}

async fn serve_http<T>(
    handler: &RequestHandler,
    stream: T,
    seat: &Seat,
    arrival: Arrival,
    stop: watch::Receiver<bool>,
) where
    T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let progress = seat.progress();
    let service = service_fn(async |request| {
        seat.head_is_whole();
        if seat.is_lobby {
            let response = handler.answer_in_lobby(progress, request).await;
            return Ok::<_, Infallible>(response.map(Outgoing::from));
        }
        let is_page = RequestHandler::is_page(request.uri().path());
        let response = handler.answer(progress, arrival, request).await;
        if response.status().is_success() && !is_page {
            seat.served();
        }
        Ok(response)
    });
    connection::serve(
        seat.metered(stream),
        progress,
        &handler.settings,
        stop,
        service,
    )
    .await;
}

/// Accepts until `stop` turns true. The tasks that then still run are returned.
async fn accept_until_stopped<T, A>(
    accept: impl Fn(&mut Context<'_>) -> Poll<std::io::Result<(T, A)>>,
    start: impl Fn(T, OwnedSemaphorePermit, &mut JoinSet<()>),
    files: &Arc<Semaphore>,
    mut stop: watch::Receiver<bool>,
) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    let mut file = None;
    let mut is_failing = false;
    loop {
        tokio::select! {
            biased;
            () = is_stopped(&mut stop) => return tasks,
            Some(ended) = tasks.join_next(), if !tasks.is_empty() => {
                if let Err(error) = ended {
                    tracing::error!(%error, "a connection's task ended badly");
                }
            }
            free = Arc::clone(files).acquire_owned(), if file.is_none() => {
                file = Some(free.expect("the semaphore is never closed"));
            }
            accepted = poll_fn(&accept), if file.is_some() => match (accepted, file.take()) {
                (Ok((stream, _)), Some(file)) => {
                    is_failing = false;
                    start(stream, file, &mut tasks);
                }
                (Err(error), _) => {
                    if !std::mem::replace(&mut is_failing, true) {
                        tracing::warn!(%error, "no connection can be accepted now: waiting");
                    }
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
                (Ok(_), None) => {}
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

#[cfg(test)]
mod tests {
    use rustix::net::sockopt::socket_send_buffer_size;

    use super::*;

    async fn accepted(listener: &TcpListener) -> (TcpStream, TcpStream) {
        let address = listener.local_addr().unwrap();
        let (client, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        (client.unwrap(), accepted.unwrap().0)
    }

    #[tokio::test]
    async fn the_kernel_takes_little_of_a_reply_to_a_client_on_this_machine() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (_client, plain) = accepted(&listener).await;
        let (_other, tuned) = accepted(&listener).await;
        tune(&tuned).unwrap();
        assert!(tuned.nodelay().unwrap());
        let bytes = |stream: &TcpStream| socket_send_buffer_size(stream).unwrap();
        let (plain, tuned) = (bytes(&plain), bytes(&tuned));
        assert!(tuned <= 2 * NEAR_SEND_BYTES, "{tuned}");
        assert_ne!(plain, tuned);
    }
}
