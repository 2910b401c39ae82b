//! The numbers of a gateway: how much and how long it waits for anyone who knocks.
//!
//! Every limit here protects the server from a client; none changes what SimpleDB answers to a
//! request within AWS's own limits.

use std::time::Duration;

use fader_services::catalog::AccountId;

use crate::limit::Limit;

/// Limits of a gateway and who may ask without signing. Every one has a default that works.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Open connections. For one beyond, one that is idle ends; where none is, it may only ask for
    /// the health, and is answered 503 else. Each costs about 20 KiB and one file descriptor.
    pub connections_max: usize,
    /// Those of one address, or of 64 bits of addresses of version 6.
    pub connections_per_address: usize,
    /// Bytes of heads that are not whole yet, over all connections. Beyond, the oldest ends.
    pub heads_bytes_max: usize,
    /// From a request's first byte to the end of its headers: ends clients that trickle.
    pub header_timeout: Duration,
    /// From the end of the headers to the end of the body: ends clients that trickle.
    pub body_timeout: Duration,
    /// How long a connection may rest between requests, or take nothing of a reply. Longer than the
    /// pools of the vendors' SDKs keep theirs, so that the client closes first.
    pub idle_timeout: Duration,
    /// A TLS handshake from beginning to end.
    pub handshake_timeout: Duration,
    /// Bytes of a request's body that are read at all, for every service.
    pub body_bytes_max: usize,
    /// Bytes of a body that SimpleDB takes: 1 MB as AWS's.
    pub simpledb_bytes_max: usize,
    /// Bytes of a body that SQS takes: a batch of 1 MiB, in any encoding.
    pub sqs_bytes_max: usize,
    /// Bytes of bodies of more than 16 KiB that are held at once, over all connections whose heads
    /// may be signed. All others have a quarter more. Beyond, the slowest body is refused.
    pub bodies_bytes_max: usize,
    /// Bytes of a request's path and query; what is longer is `URITooLong`.
    pub uri_bytes_max: usize,
    /// Bytes of a request's headers together, the request line excluded.
    pub header_bytes_max: usize,
    /// Parameters of one request. A full BatchPutAttributes has 25 x (1 + 256 x 3).
    pub parameters_max: usize,
    /// How far a signature's time may be from ours, either way.
    pub clock_skew: Duration,
    /// Whose requests the unsigned ones are; `None` refuses them. Signed ones are verified always.
    pub anonymous: Option<AccountId>,
    /// Names of this server: unsigned requests that a browser sent to another name are refused.
    pub hosts: Vec<String>,
    /// Domains of S3: `BUCKET.DOMAIN` names a bucket.
    pub s3_domains: Vec<String>,
    /// The limits of S3, which the node has too: what breaks them is refused before its bytes come.
    pub s3_limits: fader_services::s3::Limits,
    /// A capacity on purpose, beyond which requests are refused; `None` refuses nothing.
    pub limit: Option<Limit>,
    /// How long running requests may take after the stop signal.
    pub shutdown_grace: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            connections_max: 4096,
            connections_per_address: 2048,
            heads_bytes_max: 16 << 20,
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(75),
            handshake_timeout: Duration::from_secs(10),
            body_bytes_max: 2 << 20,
            simpledb_bytes_max: 1 << 20,
            sqs_bytes_max: 8 << 20,
            bodies_bytes_max: 64 << 20,
            uri_bytes_max: 16 << 10,
            header_bytes_max: 32 << 10,
            parameters_max: 20_000,
            clock_skew: Duration::from_secs(15 * 60),
            anonymous: None,
            hosts: Vec::new(),
            s3_domains: vec!["localhost".to_owned()],
            s3_limits: fader_services::s3::Limits::default(),
            limit: None,
            shutdown_grace: Duration::from_secs(10),
        }
    }
}
