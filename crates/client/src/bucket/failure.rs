//! What a failed request means to the contract, where that is more than `object_store` says.

use fader_cloud::{Error as CloudError, ErrorKind as CloudKind};
use object_store::Error as StoreError;

use super::wire;
use crate::error::{Error, ErrorKind};

/// Whether a write that failed so may have happened.
pub(super) fn is_in_doubt(error: &StoreError) -> bool {
    let is_status = matches!(error, StoreError::Generic { .. });
    match wire::cause(error) {
        Some(cause) => is_status && !is_without_effect(cause),
        // A status that no kind stands for: 5xx among them.
        None => is_status,
    }
}

/// Whether it is certain that a failed request changed nothing.
fn is_without_effect(error: &Error) -> bool {
    match error.kind {
        ErrorKind::Unavailable | ErrorKind::Invalid => true,
        ErrorKind::Refused { status, .. } => matches!(status, 401 | 403 | 404 | 409 | 501),
        ErrorKind::Ambiguous | ErrorKind::Malformed => false,
    }
}

/// A failed call in the terms of the contract, where they say more than those of `object_store`.
/// `path` is the object or folder that it was about.
pub(super) fn in_contract(path: &str, error: StoreError) -> StoreError {
    let Some(cause) = wire::cause(&error).filter(|cause| is_without_effect(cause)) else {
        return error;
    };
    let path = path.to_owned();
    let source = || Box::new(Error::new(cause.kind.clone(), cause.context.clone()));
    match cause.kind {
        ErrorKind::Refused { status: 401, .. } => StoreError::Unauthenticated {
            path,
            source: source(),
        },
        ErrorKind::Refused { status: 403, .. } => StoreError::PermissionDenied {
            path,
            source: source(),
        },
        ErrorKind::Refused { status: 404, .. } => StoreError::NotFound {
            path,
            source: source(),
        },
        ErrorKind::Refused { status: 501, .. } => StoreError::NotSupported {
            source: Box::new(error),
        },
        ErrorKind::Invalid => error,
        _ => {
            let later = CloudKind::Unavailable { retry_after: None };
            StoreError::Generic {
                store: "object store",
                source: Box::new(CloudError::new(later, error.to_string())),
            }
        }
    }
}
