//! Refusals of `simpledbv2`.

use fader_chain::{DecodeError, Reader};

use crate::forward::wire::Wire;
use crate::sqs::wire_choice;
use crate::{Reason, ViewError};

/// Its codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are AWS's own")]
pub enum Code {
    NoSuchDomain,
    NoSuchExport,
    InvalidParameterValue,
    InvalidParameterCombination,
    InvalidNextToken,
    Conflict,
    NumberExportsLimitExceeded,
    AccessDenied,
    ServiceUnavailable,
    InternalFailure,
    /// Of a process that works on an export: another one does.
    NotYours,
}
wire_choice!(Code, "a code of exports", {
    0 => NoSuchDomain, 1 => NoSuchExport, 2 => InvalidParameterValue,
    3 => InvalidParameterCombination, 4 => InvalidNextToken, 5 => Conflict,
    6 => NumberExportsLimitExceeded, 7 => AccessDenied, 8 => ServiceUnavailable,
    9 => InternalFailure, 10 => NotYours,
});

impl Code {
    /// Its name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Code::NoSuchDomain => "NoSuchDomainException",
            Code::NoSuchExport => "NoSuchExportException",
            Code::InvalidParameterValue => "InvalidParameterValueException",
            Code::InvalidParameterCombination => "InvalidParameterCombinationException",
            Code::InvalidNextToken => "InvalidNextTokenException",
            Code::Conflict => "ConflictException",
            Code::NumberExportsLimitExceeded => "NumberExportsLimitExceeded",
            Code::AccessDenied => "AccessDeniedException",
            Code::ServiceUnavailable => "ServiceUnavailableException",
            Code::InternalFailure | Code::NotYours => "InternalFailure",
        }
    }

    /// Its status.
    pub fn status(self) -> u16 {
        match self {
            Code::NumberExportsLimitExceeded => 409,
            Code::AccessDenied => 403,
            Code::ServiceUnavailable => 503,
            Code::InternalFailure | Code::NotYours => 500,
            _ => 400,
        }
    }
}

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {message}", .code.name())]
pub struct Error {
    /// The code.
    pub code: Code,
    /// In words.
    pub message: String,
    /// Why it is refused with 503.
    pub reason: Option<Reason>,
}

/// The reason is that of the message ([`Reason::of`]), and from version 7 on stands beside it.
impl Wire for Error {
    fn put(&self, out: &mut Vec<u8>) {
        self.code.put(out);
        self.message.put(out);
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        let code = Code::read(reader)?;
        let message = String::read(reader)?;
        let reason = (code == Code::ServiceUnavailable).then(|| Reason::of(&message));
        Ok(Error {
            code,
            message,
            reason,
        })
    }
}

impl Error {
    /// A refusal.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Error {
            code,
            message: message.into(),
            reason: None,
        }
    }

    /// A parameter has a value that it cannot have.
    pub fn invalid(name: &str) -> Self {
        let message = format!("The value of the parameter {name} is not valid.");
        Error::new(Code::InvalidParameterValue, message)
    }

    pub(crate) fn no_such_domain() -> Self {
        Error::new(Code::NoSuchDomain, "The specified domain does not exist.")
    }

    pub(crate) fn no_such_export() -> Self {
        let message = "Export with specified ARN does not exist.";
        Error::new(Code::NoSuchExport, message)
    }

    pub(crate) fn invalid_next_token() -> Self {
        let message = "The specified next token is not valid.";
        Error::new(Code::InvalidNextToken, message)
    }

    pub(crate) fn not_yours() -> Self {
        let message = "Another process works on the export, or it has ended.";
        Error::new(Code::NotYours, message)
    }
}

impl From<ViewError> for Error {
    fn from(error: ViewError) -> Self {
        Error::new(Code::InternalFailure, error.to_string())
    }
}

impl From<DecodeError> for Error {
    fn from(error: DecodeError) -> Self {
        ViewError::from(error).into()
    }
}
