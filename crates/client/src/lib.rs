//! A signing HTTP client for SimpleDB endpoints (Fader, AWS, a fake) and Fader's control socket.
//!
//! One attempt per call: [`Client::call`] sends a request once and says what is known about it
//! ([`ErrorKind`]). The one place where a request may wait is the gate of the pool, which today
//! admits a fixed number at a time.
//!
//! Deliberately absent: retries and pacing; services other than SimpleDB; HTTP/2; redirects.

mod client;
mod control;
mod credentials;
mod demand;
mod error;
mod pool;
mod sign;
mod simpledb;
mod transport;
mod xml;

pub use client::{Client, Response, Settings};
pub use control::{ClusterStatus, Control, Key, MemberStatus, NewKey};
pub use credentials::Credentials;
pub use demand::{Demand, Session};
pub use error::{Error, ErrorKind};
pub use sign::{CONTENT_TYPE, Headers, Moment, SignatureVersion, Signer};
pub use simpledb::{
    Attribute, AttributePut, DomainMetadata, Expected, Found, Item, ItemPut, Nature, Page, SimpleDb,
};
pub use xml::Element;
