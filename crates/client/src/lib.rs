//! A signing HTTP client for SimpleDB, SQS and S3 endpoints (Fader, AWS, a fake) and Fader's
//! control socket: what `fader_cloud` asks for, over the wire.
//!
//! All of it goes through one [`Http`]: one thread, many connections, and a congestion window for
//! each host and class of operations (`docs/window.md`). A call says what is known about it
//! ([`ErrorKind`]); it is sent again only where that is safe.
//!
//! Deliberately absent: HTTP/2; redirects.

mod client;
mod clock;
mod control;
mod credentials;
mod demand;
mod domains;
mod error;
mod folder;
mod http;
mod names;
mod origin;
mod pool;
mod s3;
mod sign;
mod simpledb;
mod sqs;
mod transport;
mod xml;

pub use client::{Client, Response, Settings};
pub use clock::SystemClock;
pub use control::{ClusterStatus, Control, DomainMode, Key, MemberStatus, NewKey, WhyOf};
pub use credentials::Credentials;
pub use demand::{Demand, Session};
pub use error::{Error, ErrorKind};
pub use folder::Folder;
pub use http::{Http, Lane, Pace};
pub use origin::Origin;
pub use s3::S3;
pub use sign::{CONTENT_TYPE, Headers, Moment, SignatureVersion, Signer};
pub use simpledb::{Found, Nature, Page, SimpleDb};
pub use sqs::Sqs;
pub use xml::Element;
