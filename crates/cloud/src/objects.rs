//! Objects: the `object_store` crate's trait, and its errors in the terms of the contract.
//!
//! What the systems rely on. A put is whole or not there; reads and lists after a put see it;
//! `PutMode::Create` and `PutMode::Update` are decided atomically.

use object_store::Error;

use crate::error::{Error as OurError, ErrorKind};

/// What the caller of an object store does next; `is_write` decides what silence means. An
/// implementation that knows more than a kind of `object_store` says puts a [`crate::Error`] among
/// the causes: its kind wins.
pub fn object_error_kind(error: &Error, is_write: bool) -> ErrorKind {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<crate::Error>() {
            return error.kind;
        }
        cause = error.source();
    }
    match error {
        Error::NotFound { .. } => ErrorKind::NotFound,
        Error::AlreadyExists { .. } | Error::Precondition { .. } | Error::NotModified { .. } => {
            ErrorKind::Precondition
        }
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => ErrorKind::Denied,
        Error::InvalidPath { .. }
        | Error::NotSupported { .. }
        | Error::NotImplemented { .. }
        | Error::UnknownConfigurationKey { .. } => ErrorKind::Invalid,
        // A store of ours says it itself.
        Error::Generic { source, .. } if let Some(error) = source.downcast_ref::<OurError>() => {
            error.kind
        }
        _ if is_write => ErrorKind::Ambiguous,
        _ => ErrorKind::Unavailable { retry_after: None },
    }
}
