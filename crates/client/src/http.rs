//! One HTTP client for every endpoint: one thread, many connections, and a congestion window for
//! each lane.
//!
//! ```text
//!  SimpleDb ─┐                       ┌ pool of endpoint A
//!  Sqs      ─┼─call─▶ Http: limiter┼ pool of endpoint B
//!  ..       ─┘        (its thread)   └ ..
//! ```
//!
//! Invariants:
//! - CHTTP-1 a request whose outcome is in doubt is sent again only if it is repeatable.
//! - CHTTP-2 a call never lasts longer than its timeout, waits and repetitions counted in.
//! - CHTTP-3 dropping a call ends it: its place in the lane, and the connection it used, are given
//!   back.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::future::Future;
use std::hash::BuildHasher;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use fader_limiter::{Limiter, LimiterRequest, Verdict, judge_reply};
use fader_window::{RequestError, State};
use http_body_util::Full;
use hyper::Request;
use hyper::body::Body;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::error::{Error, ErrorKind};
use crate::pool::{Pool, Reply};
use crate::tally::{Attempt, Tally};

/// What has a congestion window of its own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WindowKey {
    /// Host and port, as the `Host` header says them.
    pub host: Arc<str>,
    /// The class of operations: what costs the service about the same.
    pub class: &'static str,
}

/// Whether requests wait for a congestion window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pacing {
    /// They do, and are sent again where that is safe.
    #[default]
    Window,
    /// They leave at once, and only once: for load generators, which nothing may hold back.
    Bare,
}

/// An HTTP client with its windows. Clones are the same client.
#[derive(Clone)]
pub struct Http {
    limiter: Limiter<WindowKey>,
    thread: Option<Arc<Thread>>,
}

/// A thread with a runtime, which ends when this is dropped.
struct Thread {
    runtime: Handle,
    _end: oneshot::Sender<()>,
}

/// What must be known of a request to send it.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) lane: WindowKey,
    /// Whether it changes anything: decides what silence means.
    pub(crate) is_write: bool,
    /// Whether it may be sent again when it is unknown whether it took effect; if not, a 503 is its
    /// answer too.
    pub(crate) is_repeatable: bool,
    pub(crate) limits: Limits,
    /// The tally that its attempts count for, if any.
    pub(crate) tally: Option<Tally>,
}

/// How a client sends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) pace: Pacing,
    /// From asking to the last octet of the reply.
    pub(crate) timeout: Duration,
    /// For one attempt.
    pub(crate) attempt_timeout: Duration,
}

impl fmt::Display for WindowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.host, self.class)
    }
}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http")
            .field("has_thread", &self.thread.is_some())
            .finish_non_exhaustive()
    }
}

impl Http {
    /// The client of this process, which all endpoints use that are not told otherwise. Its thread
    /// starts with the first use.
    pub fn shared() -> Http {
        static SHARED: LazyLock<Http> = LazyLock::new(|| Http::start(window_settings()));
        SHARED.clone()
    }

    /// A client on a thread of its own, whose windows have these settings. Latencies are measured
    /// there, where nothing else runs.
    ///
    /// # Panics
    /// When the system gives no thread.
    pub fn start(settings: fader_window::Settings) -> Http {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime needs a few file descriptors");
        let handle = runtime.handle().clone();
        let (end, ended) = oneshot::channel::<()>();
        let run = move || {
            let _ = runtime.block_on(ended);
        };
        let thread = std::thread::Builder::new().name("fader-client".to_owned());
        thread.spawn(run).expect("the system gives a thread");
        Http {
            limiter: Limiter::new(settings),
            thread: Some(Arc::new(Thread {
                runtime: handle,
                _end: end,
            })),
        }
    }

    /// A client without a thread: it runs where its callers run, which must be one tokio runtime.
    /// For programs of a single thread.
    pub fn here(settings: fader_window::Settings) -> Http {
        Http {
            limiter: Limiter::new(settings),
            thread: None,
        }
    }

    /// The windows of all lanes.
    pub fn windows(&self) -> Vec<(WindowKey, State)> {
        self.limiter.states()
    }

    /// Sends a request, in its turn, and reads the whole reply.
    pub(crate) async fn call(
        &self,
        pool: &Arc<Pool<Full<Bytes>>>,
        plan: Plan,
        request: Request<Full<Bytes>>,
    ) -> Result<Reply, Error> {
        let pool = Arc::clone(pool);
        let may_linger = plan.may_linger();
        let tally = plan.tally.clone();
        let attempt = move |term| {
            let (pool, request) = (Arc::clone(&pool), request.clone());
            exchange(pool, request, term, may_linger, tally.clone())
        };
        self.send(plan, attempt).await
    }

    /// Makes attempts, each in its turn, where requests run. An attempt is given its term, and says
    /// what came of it and how it ended.
    pub(crate) async fn send<T, F>(
        &self,
        plan: Plan,
        attempt: impl FnMut(AttemptDeadline) -> F + Send + 'static,
    ) -> Result<T, Error>
    where
        T: Send + 'static,
        F: Future<Output = (Result<T, Error>, Verdict)> + Send + 'static,
    {
        // Futures are large: each is made where it is polled, and never moved.
        let Some(thread) = &self.thread else {
            return perform(&self.limiter, plan, attempt).await;
        };
        let limiter = self.limiter.clone();
        let work = async move { perform(&limiter, plan, attempt).await };
        AbortOnDrop(thread.runtime.spawn(work)).await
    }

    /// Waits, where requests run: callers need no runtime of their own.
    pub(crate) async fn pause(&self, until: Instant) {
        let wait = async move { sleep_until(until).await };
        match &self.thread {
            None => wait.await,
            Some(thread) => AbortOnDrop(thread.runtime.spawn(wait)).await,
        }
    }
}

/// Default windows, out of step with those of other processes.
fn window_settings() -> fader_window::Settings {
    fader_window::Settings {
        seed: RandomState::new().hash_one("windows"),
        ..fader_window::Settings::default()
    }
}

/// A task that is aborted when it is not awaited to its end.
struct AbortOnDrop<T>(JoinHandle<T>);

impl<T> Future for AbortOnDrop<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        match ready!(Pin::new(&mut self.0).poll(context)) {
            Ok(output) => Poll::Ready(output),
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(error) => panic!("the client's thread outlives its callers: {error}"),
            },
        }
    }
}

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Plan {
    /// Whether what a 503 refuses may still happen: Fader answers so where it does not know.
    pub(crate) fn may_linger(&self) -> bool {
        self.is_write || !self.is_repeatable
    }
}

async fn perform<T, F>(
    limiter: &Limiter<WindowKey>,
    plan: Plan,
    mut attempt: impl FnMut(AttemptDeadline) -> F,
) -> Result<T, Error>
where
    F: Future<Output = (Result<T, Error>, Verdict)>,
{
    let Plan {
        lane,
        is_write,
        is_repeatable,
        limits,
        tally: _,
    } = plan;
    let now = Instant::now();
    let deadline = now + limits.timeout;
    if limits.pace == Pacing::Bare {
        let (reply, verdict) = attempt(AttemptDeadline::from(now, limits.timeout)).await;
        let is_silence = matches!(verdict, Verdict::Late | Verdict::Failed);
        return reply.map_err(|error| judged(error, is_write && is_silence));
    }
    let ask = LimiterRequest {
        lane,
        is_repeatable,
        deadline: Some(deadline),
    };
    let send = || {
        let now = Instant::now();
        let left = deadline.saturating_duration_since(now);
        attempt(AttemptDeadline::from(now, limits.attempt_timeout.min(left)))
    };
    let ended = limiter.run(ask, send).await;
    match ended.last {
        Some(Ok(reply)) => Ok(reply),
        Some(Err(error)) => Err(judged(error, is_write && ended.in_doubt)),
        None => Err(never_sent(ended.failure, limits.timeout)),
    }
}

/// The time that one attempt may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttemptDeadline {
    span: Duration,
    end: Instant,
}

impl AttemptDeadline {
    fn from(now: Instant, span: Duration) -> AttemptDeadline {
        let end = now + span;
        AttemptDeadline { span, end }
    }

    /// Awaits an attempt, and says how it ended.
    pub(crate) async fn limit<T>(
        self,
        attempt: Pin<&mut impl Future<Output = Result<T, Error>>>,
        is_sent: &AtomicBool,
        told: impl FnOnce(&T) -> Verdict,
    ) -> (Result<T, Error>, Verdict) {
        let (result, silence) = match timeout_at(self.end, attempt).await {
            Ok(result) => (result, Verdict::Failed),
            Err(_) => {
                let context = format!("no answer within {:?}", self.span);
                let error = Error::new(ErrorKind::Unavailable, context);
                (Err(error), Verdict::Late)
            }
        };
        let verdict = match &result {
            Ok(reply) => told(reply),
            Err(error) if error.kind != ErrorKind::Unavailable => Verdict::Done,
            Err(_) if !is_sent.load(Ordering::Relaxed) => Verdict::Unsent,
            Err(_) => silence,
        };
        (result, verdict)
    }
}

/// One attempt, to the last octet of its reply.
async fn exchange(
    pool: Arc<Pool<Full<Bytes>>>,
    request: Request<Full<Bytes>>,
    term: AttemptDeadline,
    may_linger: bool,
    tally: Option<Tally>,
) -> (Result<Reply, Error>, Verdict) {
    let sent_bytes = request.body().size_hint().lower();
    let attempt = Attempt::new(tally.as_ref(), sent_bytes);
    let exchange = pin!(pool.exchange(request, &attempt.is_sent));
    let told = |reply: &Reply| {
        attempt.answered_whole(reply.status.as_u16(), &reply.body);
        told(reply, may_linger)
    };
    term.limit(exchange, &attempt.is_sent, told).await
}

/// What a reply means for the window, and for whether its request may be sent again.
fn told(reply: &Reply, may_linger: bool) -> Verdict {
    match reply.status.as_u16() {
        // AWS's JSON protocols refuse for load with 400.
        400 if is_throttled(&reply.body) => Verdict::Refused { retry_after: None },
        _ => judge_reply(reply.status, &reply.headers, may_linger),
    }
}

fn is_throttled(body: &[u8]) -> bool {
    let codes: [&[u8]; 2] = [b"RequestThrottled", b"ThrottlingException"];
    let has = |code: &[u8]| body.windows(code.len()).any(|window| window == code);
    codes.into_iter().any(has)
}

fn judged(error: Error, in_doubt: bool) -> Error {
    match error.kind {
        ErrorKind::Unavailable if in_doubt => error.with_kind(ErrorKind::Ambiguous),
        _ => error,
    }
}

fn never_sent(why: Option<RequestError>, timeout: Duration) -> Error {
    let context = match why {
        Some(RequestError::Full) => "too many requests wait already".to_owned(),
        _ => format!("its turn did not come within {timeout:?}"),
    };
    Error::new(ErrorKind::Unavailable, context)
}
