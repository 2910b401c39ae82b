//! One connection from its first byte to its end, and the limits on how long it may take.
//!
//! ```text
//!         first byte        end of head       end of body        reply
//! Rest ───────────────▶ Head ──────────▶ Body ──────────▶ Work ─────────▶ Rest
//! idle_timeout    header_timeout    body_timeout      the node's     idle_timeout
//! ```
//!
//! The phase is a word that the stream and the service set. One timer per connection looks at it,
//! so that a request costs no timer. A connection that is late is closed without a word: its peer
//! is not listening, or not speaking HTTP.
//!
//! A client may end its direction of the stream as soon as it has sent a request, and read the
//! reply. On the wire, a client that has gone looks the same. So the end of the stream ends no
//! request, but a request that waits for something may ask for it ([`Progress::given_up`]) and
//! answer early. While one asks, the connection reads ahead, [`AHEAD_BYTES_MAX`] at most.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::Settings;

/// Most headers of one request: S3's carry metadata, too. As many as hyper parses on its stack: one
/// more costs two heap blocks of 4 KiB a request.
const HEADERS_MAX: usize = 100;
/// Bytes of later requests that are read while one waits. With more, the end of the stream behind
/// them is not seen.
const AHEAD_BYTES_MAX: usize = 4096;

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
    /// Whether a request wants to know that the client sends no more.
    is_asked: AtomicBool,
    /// Whether the client sends no more, or the server stops.
    is_given_up: AtomicBool,
    gave_up: Notify,
}

impl Progress {
    /// The progress of a connection that begins now.
    pub(crate) fn new() -> Progress {
        Progress {
            start: Instant::now(),
            word: AtomicU64::new(0),
            is_asked: AtomicBool::new(false),
            is_given_up: AtomicBool::new(false),
            gave_up: Notify::new(),
        }
    }

    /// Resolves when a request had better not wait any more: its client sends no more, or the
    /// server stops.
    pub(crate) async fn given_up(&self) {
        let _asking = Asking::new(&self.is_asked);
        while !self.is_given_up.load(Ordering::Relaxed) {
            self.gave_up.notified().await;
        }
    }

    fn give_up(&self) {
        self.is_given_up.store(true, Ordering::Relaxed);
        self.gave_up.notify_one();
    }

    /// Whether the end of the stream is to be looked for.
    fn is_looking(&self) -> bool {
        self.is_asked.load(Ordering::Relaxed) && !self.is_given_up.load(Ordering::Relaxed)
    }

    /// Begins `phase` now.
    pub(crate) fn enter(&self, phase: Phase) {
        let since_ms = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX >> 2);
        self.word
            .store(since_ms << 2 | phase as u64, Ordering::Relaxed);
    }

    /// The phase, and since when.
    pub(crate) fn phase(&self) -> (Phase, Instant) {
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

/// True for as long as it lives.
struct Asking<'a>(&'a AtomicBool);

impl<'a> Asking<'a> {
    fn new(is_asked: &'a AtomicBool) -> Self {
        is_asked.store(true, Ordering::Relaxed);
        Asking(is_asked)
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// Serves one connection until it ends, is late, or `stop` turns true and its request is answered.
pub(crate) async fn serve<T, S, B>(
    stream: T,
    progress: &Progress,
    settings: &Settings,
    mut stop: watch::Receiver<bool>,
    service: S,
) where
    T: AsyncRead + AsyncWrite + Unpin,
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>,
    B: Body<Data = Bytes> + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let stream = Mutex::new(Ahead::new(stream));
    let io = TokioIo::new(ProgressStream {
        stream: &stream,
        progress,
    });
    let mut connection = pin!(
        http1::Builder::new()
            .half_close(true)
            .max_headers(HEADERS_MAX)
            .max_header_size(settings.uri_bytes_max + settings.header_bytes_max)
            .max_buf_size(buffer_bytes(settings))
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
            if progress.is_looking() && stream.lock().poll_end(context).is_ready() {
                progress.give_up();
                continue;
            }
            if is_stopping || stopped.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            is_stopping = true;
            progress.give_up();
            connection.as_mut().graceful_shutdown();
        }
    })
    .await;
}

/// Bytes of a connection's buffer, each way: a head, and what comes with it.
fn buffer_bytes(settings: &Settings) -> usize {
    const BYTES_MIN: usize = 64 << 10;
    BYTES_MIN.max(settings.uri_bytes_max + settings.header_bytes_max + 1)
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

/// A stream with what was read of it before it was asked for.
struct Ahead<T> {
    stream: T,
    /// Read and not taken yet.
    bytes: Vec<u8>,
    /// Whether there is no more to read.
    is_ended: bool,
}

impl<T> Ahead<T> {
    fn new(stream: T) -> Self {
        Ahead {
            stream,
            bytes: Vec::new(),
            is_ended: false,
        }
    }
}

impl<T: AsyncRead + Unpin> Ahead<T> {
    /// Ready at the end of the stream, as far as it can be seen.
    fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while !self.is_ended {
            let mut room = [0; 512];
            let left = AHEAD_BYTES_MAX.saturating_sub(self.bytes.len());
            if left == 0 {
                return Poll::Pending;
            }
            let mut buffer = ReadBuf::new(&mut room[..left.min(512)]);
            let read = Pin::new(&mut self.stream).poll_read(context, &mut buffer);
            match std::task::ready!(read) {
                Ok(()) if !buffer.filled().is_empty() => {
                    self.bytes.extend_from_slice(buffer.filled());
                }
                Ok(()) | Err(_) => self.is_ended = true,
            }
        }
        Poll::Ready(())
    }

    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        if !self.bytes.is_empty() {
            let count = self.bytes.len().min(buffer.remaining());
            buffer.put_slice(&self.bytes[..count]);
            self.bytes.drain(..count);
            return Poll::Ready(Ok(()));
        }
        if self.is_ended {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

/// A stream that tells when a request begins, and that a reply moves.
struct ProgressStream<'a, T> {
    stream: &'a Mutex<Ahead<T>>,
    progress: &'a Progress,
}

impl<T: AsyncRead + Unpin> AsyncRead for ProgressStream<'_, T> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let filled = buffer.filled().len();
        let result = self.stream.lock().poll_read(context, buffer);
        if buffer.filled().len() > filled && self.progress.phase().0 == Phase::Rest {
            self.progress.enter(Phase::Head);
        }
        result
    }
}

impl<T: AsyncWrite + Unpin> ProgressStream<'_, T> {
    fn written(&self, result: Poll<std::io::Result<usize>>) -> Poll<std::io::Result<usize>> {
        if matches!(result, Poll::Ready(Ok(1..))) && self.progress.phase().0 == Phase::Rest {
            self.progress.enter(Phase::Rest);
        }
        result
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for ProgressStream<'_, T> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        let result = Pin::new(&mut self.stream.lock().stream).poll_write(context, bytes);
        self.written(result)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        let result = Pin::new(&mut self.stream.lock().stream).poll_write_vectored(context, slices);
        self.written(result)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.lock().stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream.lock().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream.lock().stream).poll_shutdown(context)
    }
}
