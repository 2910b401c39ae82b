//! What `fader_cloud` asks for, over the wire or in a folder: [`open`] gives a cloud by its URL.
//! Beside it clients of SimpleDB, SQS, S3, GCS and Azure, and of Fader's control socket.
//!
//! All of it goes through one [`Http`]: one thread, many connections, and a congestion window for
//! each host and class of operations (`docs/explanation/congestion-window.md`). A call says what is
//! known about it ([`ErrorKind`]); it is sent again only where that is safe.
//!
//! Deliberately absent: HTTP/2; redirects.

mod bucket;
mod call_options;
mod certificates;
mod client;
mod clock;
mod control;
mod counted;
mod credentials;
mod domains;
mod environment;
mod error;
mod folder;
mod http;
mod location;
mod open;
mod origin;
mod permissions;
mod pool;
mod prefixed;
mod refusal;
mod request_ids;
mod runtime;
mod s3;
mod sign;
mod simpledb;
mod sqs;
mod tally;
mod transport;
mod xml;

pub use bucket::{AzureAccess, Bucket, GcsAccess};
pub use call_options::{CallOptions, Session};
pub use client::{Client, Response, Settings};
pub use clock::SystemClock;
pub use control::{ClusterStatus, Control, DomainMode, Key, MemberStatus, NewKey, WaitScope};
pub use credentials::Credentials;
pub use environment::Environment;
pub use error::{Error, ErrorKind};
pub use folder::Folder;
pub use http::{Http, Pacing, WindowKey};
pub use location::{BucketLocation, Location, Provider, Service, ServiceLocation};
pub use open::{Access, Opened, Options, check, open, open_all, open_domains, open_queues};
pub use origin::Origin;
pub use permissions::{Permitted, Principal, permit};
pub use runtime::system_runtime;
pub use s3::{S3, S3Reply, S3Request};
pub use sign::{CONTENT_TYPE, Headers, Moment, SignatureVersion, Signer};
pub use simpledb::{DomainOptions, Found, Page, SimpleDb};
pub use sqs::Sqs;
pub use xml::Element;
