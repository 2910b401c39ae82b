//! What became of a call that did not succeed; a kind for each thing a caller does next.

use std::error::Error as StdError;
use std::time::Duration;

/// What calls give.
pub type Result<T> = std::result::Result<T, Error>;

/// A call's failure.
#[derive(Debug, thiserror::Error)]
#[error("{context}")]
pub struct Error {
    /// What the caller can do about it.
    pub kind: ErrorKind,
    /// What was being done, and what the service said.
    pub context: String,
    /// What caused it.
    #[source]
    pub source: Option<Box<dyn StdError + Send + Sync>>,
}

/// The kinds of failure. Of all but `Ambiguous` it is certain that nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// There is no such object, queue or domain: create it, or do without.
    NotFound,
    /// The condition does not hold: read again, decide anew.
    Precondition,
    /// The service cannot, or will not, now: try later, not before the time it asked for.
    Unavailable {
        /// How long the service asked to be left alone.
        retry_after: Option<Duration>,
    },
    /// It may or may not have happened: find out, or repeat what may happen twice.
    Ambiguous,
    /// The call breaks a rule: fix it.
    Invalid,
    /// These credentials may not: fix them.
    Denied,
    /// The answer is none that the protocol allows: fix the service.
    Malformed,
}

impl Error {
    /// A failure without a cause of its own.
    pub fn new(kind: ErrorKind, context: impl Into<String>) -> Self {
        Error {
            kind,
            context: context.into(),
            source: None,
        }
    }

    /// A failure with its cause.
    pub fn caused(
        kind: ErrorKind,
        context: impl Into<String>,
        source: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> Self {
        Error {
            source: Some(source.into()),
            ..Error::new(kind, context)
        }
    }
}

/// The same failure for another caller.
pub(crate) fn like(error: &Error) -> Error {
    Error::new(error.kind, error.context.clone())
}

/// No answer comes any more.
pub(crate) fn process_over() -> Error {
    Error::new(ErrorKind::Ambiguous, "the process ends")
}
