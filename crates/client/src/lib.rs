//! A signing HTTP client for SimpleDB and SQS endpoints (Fader, AWS, a fake) and Fader's control
//! socket: what `fader_cloud` asks for, over the wire.
//!
//! One attempt per call: [`Client::call`] sends a request once and says what is known about it
//! ([`ErrorKind`]). The one place where a request may wait is the gate of the pool, which today
//! admits a fixed number at a time.
//!
//! Deliberately absent: retries and pacing; HTTP/2; redirects.

mod client;
mod clock;
mod control;
mod credentials;
mod demand;
mod domains;
mod error;
mod pool;
mod sign;
mod simpledb;
mod sqs;
mod transport;
mod xml;

pub use client::{Client, Response, Settings};
pub use clock::SystemClock;
pub use control::{ClusterStatus, Control, DomainMode, Key, MemberStatus, NewKey};
pub use credentials::Credentials;
pub use demand::{Demand, Session};
pub use error::{Error, ErrorKind};
pub use sign::{CONTENT_TYPE, Headers, Moment, SignatureVersion, Signer};
pub use simpledb::{Found, Nature, Page, SimpleDb};
pub use sqs::Sqs;
pub use xml::Element;
