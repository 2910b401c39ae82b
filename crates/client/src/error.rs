//! What became of a call that gave no answer to use; a kind for each thing a caller does next.

use std::error::Error as StdError;

/// A call's failure.
#[derive(Debug, thiserror::Error)]
#[error("{context}{}", self.detail())]
pub struct Error {
    /// What the caller can do about it.
    pub kind: ErrorKind,
    /// What was being done.
    pub context: String,
    #[source]
    source: Option<Box<dyn StdError + Send + Sync>>,
}

/// The kinds of failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The service answered no. Below status 500: fix the call; from 500 on: it could not serve,
    /// and after `InternalError` a write may have happened.
    Refused {
        /// HTTP status.
        status: u16,
        /// The service's error code, such as `NoSuchDomain`.
        code: String,
        /// Its message.
        message: String,
        /// The request's id at the service, empty when it gave none.
        request_id: String,
    },
    /// Nothing was changed and nothing learned: no connection, or a read without an answer. Try
    /// later.
    Unavailable,
    /// A write was sent and no answer came: it may or may not have happened.
    Ambiguous,
    /// The call cannot be sent as it is: fix the endpoint, the settings or the parameters.
    Invalid,
    /// The answer is not one that the protocol allows, or longer than the settings accept.
    Malformed,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, context: impl Into<String>) -> Self {
        Error {
            kind,
            context: context.into(),
            source: None,
        }
    }

    pub(crate) fn caused(
        kind: ErrorKind,
        context: impl Into<String>,
        source: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> Self {
        Error {
            kind,
            context: context.into(),
            source: Some(source.into()),
        }
    }

    pub(crate) fn invalid(context: impl Into<String>) -> Self {
        Error::new(ErrorKind::Invalid, context)
    }

    pub(crate) fn malformed(context: impl Into<String>) -> Self {
        Error::new(ErrorKind::Malformed, context)
    }

    /// The same failure, seen as another kind.
    pub(crate) fn with_kind(self, kind: ErrorKind) -> Self {
        Error { kind, ..self }
    }

    /// The same failure, of something said before its context.
    pub(crate) fn within(self, what: &str) -> Self {
        Error {
            context: format!("{what}: {}", self.context),
            ..self
        }
    }

    /// The service's error code, when it refused.
    pub fn code(&self) -> Option<&str> {
        match &self.kind {
            ErrorKind::Refused { code, .. } => Some(code),
            _ => None,
        }
    }

    fn detail(&self) -> String {
        match &self.kind {
            ErrorKind::Refused {
                status,
                code,
                message,
                ..
            } => match message.as_str() {
                "" => format!(": {code} (HTTP {status})"),
                message => format!(": {code}: {message} (HTTP {status})"),
            },
            ErrorKind::Ambiguous => {
                String::from(": sent, but no answer came; it may have happened")
            }
            _ => String::new(),
        }
    }
}

/// The contract's outcome of a call that changes nothing.
pub(crate) fn in_read<T>(outcome: Result<T, Error>) -> fader_cloud::Result<T> {
    outcome.map_err(|error| in_cloud(&error, false))
}

/// The contract's outcome of a call that changes something.
pub(crate) fn in_write<T>(outcome: Result<T, Error>) -> fader_cloud::Result<T> {
    outcome.map_err(|error| in_cloud(&error, true))
}

fn in_cloud(error: &Error, is_write: bool) -> fader_cloud::Error {
    use fader_cloud::ErrorKind as Kind;
    let later = Kind::Unavailable { retry_after: None };
    let kind = match &error.kind {
        ErrorKind::Refused { status, code, .. } => match (code.as_str(), *status) {
            ("NoSuchDomain" | "QueueDoesNotExist", _) => Kind::NotFound,
            (
                "ConditionalCheckFailed"
                | "AttributeDoesNotExist"
                | "MultiValuedAttribute"
                | "QueueNameExists",
                _,
            ) => Kind::Precondition,
            ("RequestThrottled" | "ThrottlingException" | "OverLimit", _) | (_, 429) => later,
            (_, 408 | 500..) if is_write => Kind::Ambiguous,
            (_, 408 | 500..) => later,
            (_, 401 | 403) => Kind::Denied,
            _ => Kind::Invalid,
        },
        ErrorKind::Unavailable => later,
        ErrorKind::Ambiguous => Kind::Ambiguous,
        ErrorKind::Invalid => Kind::Invalid,
        ErrorKind::Malformed if is_write => Kind::Ambiguous,
        ErrorKind::Malformed => Kind::Malformed,
    };
    fader_cloud::Error::new(kind, error.to_string())
}
