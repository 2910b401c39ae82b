//! Failures of the folder store: what became of the call, and what to do.

use std::error::Error as StdError;
use std::fmt::Display;
use std::io::{self, ErrorKind as IoKind};

use fader_cloud::ErrorKind;
use object_store::Error;

/// The store's name in errors.
const STORE: &str = "folder";

/// Which effect a failed call may have had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// Certainly none.
    None,
    /// It may have happened, and may be undone by a power cut.
    Unsure,
}

/// A call that breaks a rule of this store.
pub(super) fn refused(what: impl Display, why: impl Display) -> Error {
    Error::NotSupported {
        source: format!("{what}: {why}").into(),
    }
}

/// A call that the operating system failed.
pub(super) fn failed(what: impl Display, effect: Effect, error: io::Error) -> Error {
    if effect == Effect::None {
        match error.kind() {
            IoKind::PermissionDenied => {
                return Error::PermissionDenied {
                    path: what.to_string(),
                    source: error.into(),
                };
            }
            // What the disk says of links and other file systems.
            IoKind::InvalidInput | IoKind::CrossesDevices => return refused(what, error),
            _ => {}
        }
    }
    let advice = match (error.kind(), error.raw_os_error()) {
        (IoKind::StorageFull, _) => ": make room on the disk",
        (IoKind::QuotaExceeded, _) => ": raise the quota, or make room",
        (IoKind::ReadOnlyFilesystem, _) => ": mount the file system for writing",
        (_, Some(TOO_MANY_FILES | TOO_MANY_FILES_OF_ALL)) => {
            ": raise the limit of open files (ulimit -n)"
        }
        _ => "",
    };
    let (kind, outcome) = match effect {
        Effect::None => (
            ErrorKind::Unavailable { retry_after: None },
            "nothing was changed",
        ),
        Effect::Unsure => (ErrorKind::Ambiguous, "it may or may not have happened"),
    };
    let context = format!("{what}: {error}{advice}; {outcome}");
    generic(fader_cloud::Error::caused(kind, context, error))
}

/// Any other failure.
pub(super) fn generic(source: impl Into<Box<dyn StdError + Send + Sync>>) -> Error {
    Error::Generic {
        store: STORE,
        source: source.into(),
    }
}

/// EMFILE and ENFILE, for which the standard library has no kind.
const TOO_MANY_FILES: i32 = 24;
const TOO_MANY_FILES_OF_ALL: i32 = 23;
