//! Requests to S3 that the contract of objects does not know: buckets, lists, uploads in parts.
//!
//! Invariants:
//! - S3-1 a body of up to a part's size is hashed and signed whole, and sent again as it is.
//!
//! Deliberately absent: names of buckets in host names; what replies mean beyond their XML.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{CONTENT_LENGTH, HOST, HeaderMap};
use hyper::{Method, Request};

use crate::client::{Settings, unix_seconds};
use crate::credentials::Credentials;
use crate::error::{Error, ErrorKind};
use crate::http::{Http, Limits, Plan, WindowKey};
use crate::pool::{Pool, Reply};
use crate::sign::{Headers, Signable, SignatureVersion, Signer, encoded_path, encoded_query};
use crate::transport::Endpoint;
use crate::xml::Element;

/// The largest reply: a part, and what XML there is.
const REPLY_BYTES_MAX: usize = 72 << 20;

/// An endpoint of S3. Clones are the same.
#[derive(Clone)]
pub struct S3 {
    http: Http,
    pool: Arc<Pool<Full<Bytes>>>,
    endpoint: Arc<str>,
    host: Arc<str>,
    signer: Option<Arc<Signer>>,
    limits: Limits,
}

impl fmt::Debug for S3 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("S3").field(&self.host).finish()
    }
}

/// A request.
#[derive(Clone, Debug)]
pub struct S3Request<'a> {
    /// The method.
    pub method: Method,
    /// The bucket; empty of the service as a whole.
    pub bucket: &'a str,
    /// The key; empty of a bucket as a whole.
    pub key: &'a str,
    /// Parameters.
    pub query: &'a [(&'a str, &'a str)],
    /// Headers; names in lower case.
    pub headers: &'a [(&'a str, &'a str)],
    /// The body.
    pub body: Bytes,
}

impl<'a> S3Request<'a> {
    /// A request without parameters, headers and body.
    pub fn new(method: Method, bucket: &'a str, key: &'a str) -> Self {
        S3Request {
            method,
            bucket,
            key,
            query: &[],
            headers: &[],
            body: Bytes::new(),
        }
    }

    fn path(&self) -> String {
        match (self.bucket, self.key) {
            ("", _) => "/".to_owned(),
            (bucket, "") => format!("/{bucket}"),
            (bucket, key) => format!("/{bucket}/{}", encoded_path(key)),
        }
    }
}

/// A reply that is no refusal.
#[derive(Clone, Debug)]
pub struct S3Reply {
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
}

impl S3Reply {
    /// A header's text; empty where there is none.
    pub fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name).and_then(|it| it.to_str().ok());
        value.unwrap_or_default()
    }

    /// The body as XML.
    ///
    /// # Errors
    /// `Malformed` when it is none.
    pub fn xml(&self) -> Result<Element, Error> {
        let text = std::str::from_utf8(&self.body);
        Element::parse(text.map_err(|_| Error::malformed("the reply is not UTF-8"))?)
    }
}

impl S3 {
    /// A client of `http://host:port` or `https://host:port`; requests without credentials are
    /// sent unsigned.
    ///
    /// # Errors
    /// `Invalid` when the endpoint is none, or its certificates cannot be used.
    pub fn new(
        endpoint: &str,
        credentials: Option<&Credentials>,
        settings: &Settings,
    ) -> Result<S3, Error> {
        S3::on(Http::shared(), endpoint, credentials, settings)
    }

    /// The same by a transport of one's own.
    ///
    /// # Errors
    /// As [`S3::new`].
    pub fn on(
        http: Http,
        endpoint: &str,
        credentials: Option<&Credentials>,
        settings: &Settings,
    ) -> Result<S3, Error> {
        let url = endpoint.trim_end_matches('/');
        let (endpoint, host) = Endpoint::parse(url, settings.ca_pem.as_deref())?;
        let signer = match credentials {
            None => None,
            Some(credentials) => {
                let credentials = credentials.lasting("S3")?;
                let signer = Signer::of_service("s3", credentials, SignatureVersion::V4, &host);
                Some(Arc::new(signer.in_region(&settings.region)))
            }
        };
        let pool = Pool::new(endpoint, settings.connections_max, REPLY_BYTES_MAX);
        Ok(S3 {
            http,
            pool: Arc::new(pool),
            endpoint: url.into(),
            host: host.into(),
            signer,
            limits: settings.limits(),
        })
    }

    /// What names an object as the source of a copy.
    pub fn source(bucket: &str, key: &str) -> String {
        S3Request::new(Method::GET, bucket, key).path()
    }

    /// Sends a request, and again where that is safe.
    ///
    /// # Errors
    /// By what the caller does next ([`ErrorKind`]).
    pub async fn call(&self, request: S3Request<'_>) -> Result<S3Reply, Error> {
        let path = request.path();
        let signable = Signable {
            method: request.method.as_str(),
            path: &path,
            query: request.query,
            headers: request.headers,
        };
        let signed = match &self.signer {
            None => Headers::default(),
            Some(signer) => {
                let moment = signer.at(unix_seconds());
                signer.sign_request(&moment, signable, &request.body)
            }
        };
        let uri = match request.query {
            [] => path.clone(),
            query => format!("{path}?{}", encoded_query(query)),
        };
        let what = format!("{} {path}", request.method);
        let mut built = Request::builder()
            .method(request.method.clone())
            .uri(uri)
            .header(HOST, &*self.host);
        for (name, value) in request.headers {
            built = built.header(*name, *value);
        }
        for (name, value) in &signed.0 {
            built = built.header(*name, value);
        }
        if request.body.is_empty() && matches!(request.method, Method::PUT | Method::POST) {
            // Nothing else says it of a body without bytes, and AWS refuses one without a length.
            built = built.header(CONTENT_LENGTH, 0);
        }
        let built = built.body(Full::new(request.body)).map_err(|error| {
            let context = "the request does not fit HTTP";
            Error::caused(ErrorKind::Invalid, context, error)
        })?;
        let is_write = !matches!(request.method, Method::GET | Method::HEAD);
        let plan = Plan {
            lane: WindowKey {
                host: Arc::clone(&self.host),
                class: if is_write { "put" } else { "get" },
            },
            is_write,
            // Puts and deletes come to the same twice; of uploads that are opened twice one stays.
            is_repeatable: request.method != Method::POST,
            limits: self.limits,
            tally: None,
        };
        let sent = self.http.call(&self.pool, plan, built).await;
        let reply = sent.map_err(|error| error.within(&what))?;
        match reply.status.is_success() {
            true => Ok(S3Reply {
                headers: reply.headers,
                body: reply.body,
            }),
            false => Err(refusal(&what, &reply, is_write)),
        }
    }

    /// A URL by which anyone may send a request, for so many seconds.
    ///
    /// # Errors
    /// `Invalid` without credentials.
    pub fn presigned(&self, request: &S3Request<'_>, expires_s: u64) -> Result<String, Error> {
        let signer = self.signer.as_ref();
        let signer = signer.ok_or_else(|| Error::invalid("a URL is signed with an access key"))?;
        let path = request.path();
        let signable = Signable {
            method: request.method.as_str(),
            path: &path,
            query: request.query,
            headers: &[],
        };
        let query = signer.presign(&signer.at(unix_seconds()), signable, expires_s);
        Ok(format!("{}{path}?{query}", self.endpoint))
    }
}

fn refusal(what: &str, reply: &Reply, is_write: bool) -> Error {
    let status = reply.status.as_u16();
    let text = std::str::from_utf8(&reply.body).unwrap_or_default();
    let said = Element::parse(text).unwrap_or_default();
    let code = match said.child_text("Code") {
        // Replies to HEAD have no body.
        "" if status == 404 => "NotFound",
        "" if status == 304 => "NotModified",
        "" if status == 412 => "PreconditionFailed",
        "" if status == 403 => "Forbidden",
        code => code,
    };
    let kind = match code {
        "" if status >= 500 && is_write => ErrorKind::Ambiguous,
        "" if status >= 500 => ErrorKind::Unavailable,
        "" => ErrorKind::Malformed,
        code => ErrorKind::Refused {
            status,
            code: code.to_owned(),
            message: said.child_text("Message").to_owned(),
            request_id: said.child_text("RequestId").to_owned(),
        },
    };
    Error::new(kind, what)
}
