//! S3's wire format to and from the commands of `services::s3`.
//!
//! ```text
//! head ─▶ place, operation ─▶ signature ─▶ head, settings ─▶ Command ─▶ node
//! body ─▶ chunks ─▶ digest ─▶ the node's blocks                          │
//! client ◀── render, settings ◀── Reply ◀────────────────────────────────┘
//! ```
//!
//! Everything but `body` is pure. `handler::objects` carries requests out with it.
//!
//! Deliberately absent: features of S3 that are left out (`operation`), meaning (`services`), bytes
//! at rest (`node`).

pub(crate) mod body;
pub(crate) mod checksum;
mod chunks;
pub(crate) mod cors;
pub(crate) mod digest;
pub(crate) mod fault;
pub(crate) mod form;
#[cfg(test)]
mod fuzz;
pub(crate) mod head;
pub(crate) mod md5s;
mod operation;
mod place;
pub(crate) mod post_policy;
pub(crate) mod presigned;
pub(crate) mod render;
pub(crate) mod settings;
pub(crate) mod xml;

pub(crate) use operation::{Feature, Operation};
pub(crate) use place::{Place, bucket_of};
