//! One connection from its first byte to its end, and the limits on how long it may take.
//!
//! ```text
//!         first byte        end of head       end of body        reply
//! Rest ───────────────▶ Head ──────────▶ Body ──────────▶ Work ─────────▶ Rest
//! idle_timeout    header_timeout    body_timeout      the node's     idle_timeout
//! ```
//!
//! The phase is a word that the stream and the service set; one timer per connection looks at it,
//! so that a request costs no timer. A connection that is late is closed without a word: its peer
//! is not listening, or not speaking HTTP.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::Settings;

/// Most headers of one request.
const HEADERS_MAX: usize = 64;

/// What a connection is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Nothing is asked, or a reply is on its way.
    Rest,
    /// A request's head is coming in.
    Head,
    /// A request's body is coming in.
    Body,
    /// A request is carried out.
    Work,
}

/// The phase of a connection, and since when.
pub(crate) struct Progress {
    start: Instant,
    /// Milliseconds from `start` to the phase's begin, times 4, plus the phase.
    word: AtomicU64,
}

impl Progress {
    /// The progress of a connection that begins now.
    pub(crate) fn new() -> Progress {
        Progress {
            start: Instant::now(),
            word: AtomicU64::new(0),
        }
    }

    /// Begins `phase` now.
    pub(crate) fn enter(&self, phase: Phase) {
        let since_ms = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX >> 2);
        self.word
            .store(since_ms << 2 | phase as u64, Ordering::Relaxed);
    }

    fn phase(&self) -> (Phase, Instant) {
        let word = self.word.load(Ordering::Relaxed);
        let phase = match word & 3 {
            0 => Phase::Rest,
            1 => Phase::Head,
            2 => Phase::Body,
            _ => Phase::Work,
        };
        (phase, self.start + Duration::from_millis(word >> 2))
    }

    /// When the phase will have taken too long. Work has no end of its own: it is looked at again.
    fn due(&self, now: Instant, settings: &Settings) -> Instant {
        let (phase, since) = self.phase();
        match phase {
            Phase::Rest => since + settings.idle_timeout,
            Phase::Head => since + settings.header_timeout,
            Phase::Body => since + settings.body_timeout,
            Phase::Work => now + settings.idle_timeout,
        }
    }
}

/// Serves one connection until it ends, is late, or `stop` turns true and its request is answered.
pub(crate) async fn serve<T, S>(
    stream: T,
    progress: &Progress,
    settings: &Settings,
    mut stop: watch::Receiver<bool>,
    service: S,
) where
    T: AsyncRead + AsyncWrite + Unpin,
    S: Service<Request<Incoming>, Response = Response<Full<Bytes>>, Error = Infallible>,
{
    let io = TokioIo::new(Watched { stream, progress });
    let mut connection = pin!(
        http1::Builder::new()
            .half_close(true)
            .max_headers(HEADERS_MAX)
            .max_header_size(settings.uri_bytes_max + settings.header_bytes_max)
            .header_read_timeout(None)
            .serve_connection(io, service)
    );
    let mut timer = pin!(sleep_until(progress.due(Instant::now(), settings)));
    let mut stopped = pin!(is_stopped(&mut stop));
    let mut is_stopping = false;
    poll_fn(|context| {
        loop {
            if let Poll::Ready(result) = connection.as_mut().poll(context) {
                if let Err(error) = result {
                    tracing::debug!(%error, "a connection ended badly");
                }
                return Poll::Ready(());
            }
            if poll_late(timer.as_mut(), context, progress, settings) {
                tracing::debug!(phase = ?progress.phase().0, "a connection took too long");
                return Poll::Ready(());
            }
            if is_stopping || stopped.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            is_stopping = true;
            connection.as_mut().graceful_shutdown();
        }
    })
    .await;
}

/// Resolves when `stop` turns true; never if its sender goes without a word.
pub(crate) async fn is_stopped(stop: &mut watch::Receiver<bool>) {
    if stop.wait_for(|is_stopped| *is_stopped).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Whether the connection is late; else sees to it that the timer wakes when it will be.
fn poll_late(
    mut timer: Pin<&mut Sleep>,
    context: &mut Context<'_>,
    progress: &Progress,
    settings: &Settings,
) -> bool {
    loop {
        let now = Instant::now();
        let due = progress.due(now, settings);
        if due <= now {
            return true;
        }
        // Only ever earlier: a timer that fires too soon is set anew then, not on every request.
        if due < timer.deadline() {
            timer.as_mut().reset(due);
        }
        if timer.as_mut().poll(context).is_pending() {
            return false;
        }
        timer.as_mut().reset(due);
    }
}

/// A stream that tells when a request begins, and that a reply moves.
struct Watched<'a, T> {
    stream: T,
    progress: &'a Progress,
}

impl<T: AsyncRead + Unpin> AsyncRead for Watched<'_, T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let filled = buffer.filled().len();
        let result = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > filled && self.progress.phase().0 == Phase::Rest {
            self.progress.enter(Phase::Head);
        }
        result
    }
}

impl<T: AsyncWrite + Unpin> Watched<'_, T> {
    fn written(&self, result: Poll<std::io::Result<usize>>) -> Poll<std::io::Result<usize>> {
        if matches!(result, Poll::Ready(Ok(1..))) && self.progress.phase().0 == Phase::Rest {
            self.progress.enter(Phase::Rest);
        }
        result
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Watched<'_, T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.written(result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.written(result)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
