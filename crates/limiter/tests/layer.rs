//! The layer around hyper's own client, against a server in the same process that refuses what is
//! beyond its capacity; and around services that fail.

#![allow(clippy::unwrap_used, reason = "a test may fail here")]

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use fader_limiter::{ByMethod, HostLane, WindowLayer, Windowed};
use fader_window::{RequestError, Settings};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::service::service_fn;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tower_layer::Layer;
use tower_service::Service;

type Body = Full<Bytes>;

/// Serves so many requests at once, ten milliseconds each; more are refused.
async fn serve(listener: TcpListener, slots: usize) {
    let busy = Arc::new(AtomicUsize::new(0));
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let busy = Arc::clone(&busy);
        let answer = service_fn(move |_| {
            let busy = Arc::clone(&busy);
            async move {
                let status = match busy.fetch_add(1, Ordering::SeqCst) < slots {
                    true => StatusCode::OK,
                    false => StatusCode::SERVICE_UNAVAILABLE,
                };
                tokio::time::sleep(Duration::from_millis(10)).await;
                busy.fetch_sub(1, Ordering::SeqCst);
                let reply = Response::builder().status(status);
                Ok::<_, Infallible>(reply.body(Body::default()).unwrap())
            }
        });
        let connection = hyper::server::conn::http1::Builder::new();
        tokio::spawn(connection.serve_connection(TokioIo::new(stream), answer));
    }
}

async fn start(slots: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(serve(listener, slots));
    address
}

#[tokio::test]
async fn any_http_client_finds_a_servers_capacity() {
    let address = start(16).await;
    let layer = WindowLayer::new(ByMethod, Settings::default());
    let client = Client::builder(TokioExecutor::new()).build_http::<Body>();
    let client = layer.layer(client);
    let mut calls = JoinSet::new();
    for _ in 0..1_500 {
        let mut client = client.clone();
        let request = Request::get(format!("http://{address}/"));
        let request = request.body(Body::default()).unwrap();
        calls.spawn(async move { client.call(request).await.map(|reply| reply.status()) });
    }
    while let Some(status) = calls.join_next().await {
        assert_eq!(status.unwrap().unwrap(), StatusCode::OK);
    }
    let (lane, state) = layer.windows().remove(0);
    assert_eq!((lane.host, lane.is_read), (address.to_string(), true));
    assert_eq!((state.counts.ok, state.counts.failed), (1_500, 0));
    assert!(0 < state.counts.overload, "the server was never full");
    assert!(state.counts.overload < 150, "{state:?}");
}

/// Gives these replies, one after the other; then 200.
#[derive(Clone)]
struct Script(Arc<Mutex<Vec<Result<u16, Broken>>>>);

#[derive(Clone, Copy, Debug, PartialEq)]
struct Broken;

impl Service<Request<()>> for Script {
    type Response = Response<()>;
    type Error = Broken;
    type Future = Ready<Result<Response<()>, Broken>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        let mut replies = self.0.lock().unwrap();
        let next = match replies.is_empty() {
            true => Ok(200),
            false => replies.remove(0),
        };
        let reply = |status| Response::builder().status(status).body(()).unwrap();
        ready(next.map(reply))
    }
}

fn around(replies: &[Result<u16, Broken>]) -> (Script, Windowed<Script, ByMethod, HostLane>) {
    let script = Script(Arc::new(Mutex::new(replies.to_vec())));
    let layer = WindowLayer::new(ByMethod, Settings::default());
    (script.clone(), layer.layer(script))
}

/// What a caller sees: a status, or why there is none and whether it is in doubt; and what is left
/// of the script.
async fn call(
    replies: &[Result<u16, Broken>],
    method: Method,
    condition: Option<&str>,
) -> (Result<u16, (Option<RequestError>, bool)>, usize) {
    let (script, mut service) = around(replies);
    let mut request = Request::builder().method(method).uri("http://host/");
    if let Some(condition) = condition {
        request = request.header("if-match", condition);
    }
    let reply = service.call(request.body(()).unwrap()).await;
    let seen = match reply {
        Ok(reply) => Ok(reply.status().as_u16()),
        Err(error) => Err((error.why, error.in_doubt)),
    };
    let left = script.0.lock().unwrap().len();
    (seen, left)
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_not_idempotent_is_repeated_only_without_effect() {
    let (get, put, post) = (Method::GET, Method::PUT, Method::POST);
    let ambiguous = Err((Some(RequestError::Ambiguous), true));
    for (replies, method, condition, seen, left) in [
        (vec![Ok(503), Ok(503)], &get, None, Ok(200), 0),
        (vec![Err(Broken), Ok(500)], &get, None, Ok(200), 0),
        (vec![Err(Broken)], &put, None, Ok(200), 0),
        (vec![Err(Broken)], &put, Some("e"), ambiguous, 0),
        (vec![Err(Broken), Ok(200)], &post, None, ambiguous, 1),
        (vec![Ok(429)], &post, None, Ok(200), 0),
        // A service that answers 503 or 500 to a post may have done it: the caller sees that.
        (vec![Ok(503), Ok(200)], &post, None, Ok(503), 1),
        (vec![Ok(500), Ok(200)], &post, None, Ok(500), 1),
        (vec![Ok(404), Ok(200)], &post, None, Ok(404), 1),
        (vec![Ok(503); 9], &get, None, Ok(503), 4),
    ] {
        let shown = format!("{method} {replies:?}");
        let found = call(&replies, method.clone(), condition).await;
        assert_eq!(found, (seen, left), "{shown}");
    }
    // The last refusal says nothing of the first attempt.
    let replies = [vec![Err(Broken)], vec![Ok(503); 4]].concat();
    let seen = Err((Some(RequestError::Attempts), true));
    assert_eq!(call(&replies, put, None).await, (seen, 0));
}

#[tokio::test(start_paused = true)]
async fn an_attempt_without_an_answer_is_late() {
    #[derive(Clone)]
    struct Silent;
    impl Service<Request<()>> for Silent {
        type Response = Response<()>;
        type Error = Broken;
        type Future = std::future::Pending<Result<Response<()>, Broken>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Broken>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: Request<()>) -> Self::Future {
            std::future::pending()
        }
    }
    let layer = WindowLayer::new(ByMethod, Settings::default());
    let layer = layer.with_attempt_timeout(Duration::from_millis(70));
    let begin = tokio::time::Instant::now();
    let request = Request::post("http://host/").body(()).unwrap();
    let error = layer.layer(Silent).call(request).await.unwrap_err();
    assert_eq!(begin.elapsed().as_millis(), 70);
    assert_eq!(
        (error.why, error.in_doubt),
        (Some(RequestError::Ambiguous), true)
    );
    assert_eq!(
        error.to_string(),
        "no reply: it must not be sent again; it may have taken effect"
    );
}
