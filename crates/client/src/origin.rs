//! Plain HTTP at one origin, for what has no protocol here: the same thread, connections and
//! windows.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use fader_window::State;
use http_body_util::Full;
use hyper::header::{HOST, HeaderValue, IF_MATCH, IF_NONE_MATCH};
use hyper::{Request, Response};

use crate::client::Settings;
use crate::error::Error;
use crate::http::{Http, Limits, Plan, WindowKey};
use crate::pool::Pool;
use crate::transport::Endpoint;

/// An origin: `http://host:port` or `https://host:port`.
pub struct Origin {
    http: Http,
    pool: Arc<Pool<Full<Bytes>>>,
    host: Arc<str>,
    header: HeaderValue,
    limits: Limits,
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Origin").field(&self.host).finish()
    }
}

impl Origin {
    /// An origin on the process's HTTP client. Of the settings the signature does not count.
    ///
    /// # Errors
    /// `Invalid` when it is none, or its certificates cannot be used.
    pub fn new(url: &str, settings: &Settings) -> Result<Origin, Error> {
        Origin::on(Http::shared(), url, settings)
    }

    /// The same, on another HTTP client, whose windows it shares.
    ///
    /// # Errors
    /// As [`Origin::new`].
    pub fn on(http: Http, url: &str, settings: &Settings) -> Result<Origin, Error> {
        let (endpoint, host) = Endpoint::parse(url, settings.ca_pem.as_deref())?;
        let header = HeaderValue::from_str(&host);
        let header = header.map_err(|_| Error::invalid("the host does not fit a header"))?;
        let (connections, bytes) = (settings.connections_max, settings.response_bytes_max);
        Ok(Origin {
            http,
            pool: Arc::new(Pool::new(endpoint, connections, bytes)),
            host: host.into(),
            header,
            limits: settings.limits(),
        })
    }

    /// Sends a request, whose URI is a path, in its turn among those of its class. It is sent again
    /// where HTTP says that this is safe: what is idempotent, and has no condition.
    ///
    /// # Errors
    /// `Unavailable` and `Ambiguous` where there is no reply; every status is one.
    pub async fn send(
        &self,
        mut request: Request<Full<Bytes>>,
        class: &'static str,
    ) -> Result<Response<Bytes>, Error> {
        let headers = request.headers_mut();
        headers.insert(HOST, self.header.clone());
        let is_conditional = headers.contains_key(IF_MATCH) || headers.contains_key(IF_NONE_MATCH);
        let method = request.method();
        let plan = Plan {
            lane: WindowKey {
                host: Arc::clone(&self.host),
                class,
            },
            is_write: !method.is_safe(),
            is_repeatable: method.is_safe() || (method.is_idempotent() && !is_conditional),
            limits: self.limits,
            tally: None,
        };
        let reply = self.http.call(&self.pool, plan, request).await?;
        let mut response = Response::new(reply.body);
        *response.status_mut() = reply.status;
        *response.headers_mut() = reply.headers;
        Ok(response)
    }

    /// The windows of this origin, by class of operations.
    pub fn windows(&self) -> Vec<(WindowKey, State)> {
        let mut windows = self.http.windows();
        windows.retain(|(lane, _)| lane.host == self.host);
        windows
    }
}
