//! The floor: what HTTP alone costs. A bare hyper server that reads a whole request and answers a
//! constant, for the same generator to drive.

use std::convert::Infallible;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use rand::RngExt;
use tokio::net::TcpListener;

use crate::workload::{Form, Intent, Verdict, Wire, Workload};

/// Of what the constant consists.
const FILLER: u8 = b'x';

/// The constant reply.
#[derive(Clone, Debug)]
pub struct Floor {
    body: Bytes,
    headers: HeaderMap,
    takes: Option<RangeInclusive<Duration>>,
}

/// A workload whose requests are another's, and whose replies are a floor's.
pub struct Constant {
    /// Whose requests are sent.
    pub workload: Arc<dyn Wire>,
    /// The length of every reply.
    pub bytes: usize,
}

impl Floor {
    /// A reply of `bytes` octets with these headers (`date` and `content-length` come by
    /// themselves); headers that HTTP does not allow are left out.
    pub fn new<'a>(bytes: usize, headers: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        Floor::of(vec![FILLER; bytes].into(), headers)
    }

    /// The same with this body.
    pub fn of<'a>(body: Bytes, headers: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let headers = headers.into_iter().filter_map(|(name, value)| {
            let name = HeaderName::try_from(name).ok()?;
            Some((name, HeaderValue::try_from(value).ok()?))
        });
        Floor {
            body,
            headers: headers.collect(),
            takes: None,
        }
    }

    /// The same by a service that takes a random time for each, uniform in this range.
    #[must_use]
    pub fn taking(mut self, times: RangeInclusive<Duration>) -> Self {
        self.takes = Some(times);
        self
    }

    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Response<Full<Bytes>> {
        // A body that breaks off ends the connection; there is no client left to answer.
        let _ = request.into_body().collect().await;
        if let Some(times) = &self.takes {
            let time = rand::rng().random_range(times.clone());
            tokio::time::sleep(time).await;
        }
        let mut response = Response::new(Full::new(self.body.clone()));
        *response.headers_mut() = self.headers.clone();
        response
    }
}

/// Serves the floor until the task is dropped or no more connections can be accepted.
pub async fn serve_floor(listener: TcpListener, floor: Floor) {
    let floor = Arc::new(floor);
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            continue;
        };
        let _ = stream.set_nodelay(true);
        let floor = Arc::clone(&floor);
        tokio::spawn(async move {
            let service = service_fn(|request| {
                let floor = Arc::clone(&floor);
                async move { Ok::<_, Infallible>(floor.answer(request).await) }
            });
            let mut builder = http1::Builder::new();
            let _ = builder
                .timer(TokioTimer::new())
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

impl Workload for Constant {
    fn plan(&self, sequence: u64) -> Intent {
        self.workload.plan(sequence)
    }
}

impl Wire for Constant {
    fn action(&self) -> &'static str {
        self.workload.action()
    }

    fn parameters(&self, intent: &Intent, form: &mut Form) {
        self.workload.parameters(intent, form);
    }

    fn verify(&self, intent: &Intent, body: &[u8]) -> Verdict {
        match body.len() == self.bytes && body.iter().all(|&octet| octet == FILLER) {
            true => Verdict::Right(intent.value),
            false => Verdict::Wrong,
        }
    }
}
