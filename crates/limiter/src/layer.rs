//! The window as a [tower](https://docs.rs/tower) layer, around any client.
//!
//! Invariant: the service within is called only in a request's turn, on a clone of its own that
//! said it was ready.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use fader_window::{RequestError, Settings, State};
use tower_layer::Layer;
use tower_service::Service;

use crate::attempts::{RequestResult, Verdict};
use crate::limiter::{Limiter, LimiterRequest};

/// How long one attempt may take, where a layer is not told otherwise.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(10);

/// What a layer must know of what goes through it.
pub trait Classify<Request, Reply, Failed> {
    /// What has a window of its own: a host with a class of operations.
    type Lane: Ord + Clone + Send + 'static;

    /// What a request says of itself.
    fn ask(&self, request: &Request) -> LimiterRequest<Self::Lane>;

    /// How an attempt ended. [`Verdict::Late`] needs no saying: the layer has a clock.
    fn judge(&self, request: &Request, reply: Result<&Reply, &Failed>) -> Verdict;
}

/// A layer that lets requests through in their turn, and again where that is safe.
///
/// Services made by one layer, or by its clones, share their windows. Requests are cloned for each
/// attempt: what is expensive about them belongs behind a reference count (`bytes::Bytes`). As many
/// wait as the settings allow; readiness is never withheld.
///
/// ```
/// # use std::convert::Infallible;
/// # use fader_limiter::{ByMethod, WindowLayer};
/// # use http::{Request, Response};
/// # use tower_layer::Layer;
/// # use tower_service::Service;
/// # #[derive(Clone)]
/// # struct AnyClient;
/// # impl Service<Request<&'static str>> for AnyClient {
/// #     type Response = Response<&'static str>;
/// #     type Error = Infallible;
/// #     type Future = std::future::Ready<Result<Self::Response, Infallible>>;
/// #     fn poll_ready(
/// #         &mut self,
/// #         _: &mut std::task::Context<'_>,
/// #     ) -> std::task::Poll<Result<(), Infallible>> {
/// #         std::task::Poll::Ready(Ok(()))
/// #     }
/// #     fn call(&mut self, _: Request<&'static str>) -> Self::Future {
/// #         std::future::ready(Ok(Response::new("hello")))
/// #     }
/// # }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let layer = WindowLayer::new(ByMethod, fader_window::Settings::default());
/// let mut client = layer.layer(AnyClient);
/// let request = Request::get("http://localhost/").body("").unwrap();
/// let reply = client.call(request).await.unwrap();
/// assert_eq!(*reply.body(), "hello");
/// for (lane, window) in layer.windows() {
///     assert_eq!((lane.host.as_str(), lane.is_read), ("localhost", true));
///     assert_eq!(window.counts.ok, 1);
/// }
/// # }
/// ```
#[derive(Debug)]
pub struct WindowLayer<C, Lane> {
    limiter: Limiter<Lane>,
    classify: Arc<C>,
    attempt_timeout: Duration,
}

/// A service under a congestion window: what [`WindowLayer`] makes.
#[derive(Debug)]
pub struct Windowed<S, C, Lane> {
    inner: S,
    layer: WindowLayer<C, Lane>,
}

/// Why there is no reply.
#[derive(Debug)]
pub struct Error<E> {
    /// Why there was no further attempt; none if the last one's failure was an answer by itself.
    pub why: Option<RequestError>,
    /// Whether the request may have taken effect. If not, it certainly had none.
    pub in_doubt: bool,
    /// How the last attempt failed, if there was one, and it was not for want of time.
    pub source: Option<E>,
}

impl<C, Lane: Ord + Clone + Send + 'static> WindowLayer<C, Lane> {
    /// A layer whose windows have these settings. Give each process a seed of its own.
    pub fn new(classify: C, settings: Settings) -> Self {
        WindowLayer {
            limiter: Limiter::new(settings),
            classify: Arc::new(classify),
            attempt_timeout: ATTEMPT_TIMEOUT,
        }
    }

    /// The same, giving each attempt that time.
    pub fn with_attempt_timeout(self, attempt_timeout: Duration) -> Self {
        WindowLayer {
            attempt_timeout,
            ..self
        }
    }

    /// What is to be seen of each lane.
    pub fn windows(&self) -> Vec<(Lane, State)> {
        self.limiter.states()
    }
}

impl<C, Lane> Clone for WindowLayer<C, Lane> {
    fn clone(&self) -> Self {
        WindowLayer {
            limiter: self.limiter.clone(),
            classify: Arc::clone(&self.classify),
            attempt_timeout: self.attempt_timeout,
        }
    }
}

impl<S: Clone, C, Lane> Clone for Windowed<S, C, Lane> {
    fn clone(&self) -> Self {
        Windowed {
            inner: self.inner.clone(),
            layer: self.layer.clone(),
        }
    }
}

impl<S, C, Lane> Layer<S> for WindowLayer<C, Lane> {
    type Service = Windowed<S, C, Lane>;

    fn layer(&self, inner: S) -> Self::Service {
        Windowed {
            inner,
            layer: self.clone(),
        }
    }
}

impl<S, C, Request> Service<Request> for Windowed<S, C, C::Lane>
where
    S: Service<Request> + Clone + Send + Sync + 'static,
    S::Response: Send + 'static,
    S::Error: Send + 'static,
    S::Future: Send,
    C: Classify<Request, S::Response, S::Error> + Send + Sync + 'static,
    Request: Clone + Send + Sync + 'static,
{
    type Response = S::Response;
    type Error = Error<S::Error>;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let Windowed { inner, layer } = self.clone();
        Box::pin(async move {
            let ask = layer.classify.ask(&request);
            let attempt = || attempt(inner.clone(), &request, &layer);
            finish(layer.limiter.run(ask, attempt).await)
        })
    }
}

/// One attempt: what the service gave, or nothing in time, and what that means.
async fn attempt<S, C, Request>(
    mut inner: S,
    request: &Request,
    layer: &WindowLayer<C, C::Lane>,
) -> (Option<Result<S::Response, S::Error>>, Verdict)
where
    S: Service<Request>,
    C: Classify<Request, S::Response, S::Error>,
    Request: Clone,
{
    let call = async {
        poll_fn(|context| inner.poll_ready(context)).await?;
        inner.call(request.clone()).await
    };
    match tokio::time::timeout(layer.attempt_timeout, call).await {
        Ok(reply) => {
            let verdict = layer.classify.judge(request, reply.as_ref());
            (Some(reply), verdict)
        }
        Err(_) => (None, Verdict::Late),
    }
}

fn finish<R, E>(ended: RequestResult<Option<Result<R, E>>>) -> Result<R, Error<E>> {
    let RequestResult {
        last,
        verdict,
        failure,
        in_doubt,
    } = ended;
    // A refusal says that its own attempt had no effect, and nothing of an earlier one.
    let is_misleading = in_doubt && matches!(verdict, Some(Verdict::Refused { .. }));
    match last.flatten() {
        Some(Ok(reply)) if !is_misleading => Ok(reply),
        last => Err(Error {
            why: failure,
            in_doubt,
            source: last.and_then(Result::err),
        }),
    }
}

impl<E> fmt::Display for Error<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match self.why {
            None => "it failed",
            Some(RequestError::Deadline) => "its deadline passed",
            Some(RequestError::Attempts) => "it was tried as often as is allowed",
            Some(RequestError::Budget) => "too many requests were being sent again",
            Some(RequestError::Ambiguous) => "it must not be sent again",
            Some(RequestError::Full) => "too many requests wait",
        };
        let doubt = match self.in_doubt {
            true => "it may have taken effect",
            false => "it took no effect",
        };
        write!(f, "no reply: {why}; {doubt}")
    }
}

impl<E: std::error::Error + 'static> std::error::Error for Error<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| source as _)
    }
}
