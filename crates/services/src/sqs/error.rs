//! Every refusal of SQS: code, HTTP status and message, in the words of both protocols.

use fader_chain::{DecodeError, Reader};

use crate::forward::wire::Wire;
use crate::{Reason, ViewError};

/// An SQS error code. The names are the shapes of AWS's model, without `Exception`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are AWS's own")]
pub enum Code {
    AccessDenied,
    BatchEntryIdsNotDistinct,
    BatchRequestTooLong,
    EmptyBatchRequest,
    IncompleteSignature,
    InternalError,
    InvalidAction,
    InvalidAddress,
    InvalidAttributeName,
    InvalidAttributeValue,
    InvalidBatchEntryId,
    InvalidClientTokenId,
    InvalidMessageContents,
    InvalidParameterValue,
    MalformedInput,
    MessageNotInflight,
    MissingParameter,
    OverLimit,
    PurgeQueueInProgress,
    QueueDeletedRecently,
    QueueDoesNotExist,
    QueueNameExists,
    ReceiptHandleIsInvalid,
    RequestThrottled,
    ResourceNotFound,
    ServiceUnavailable,
    SignatureDoesNotMatch,
    TooManyEntriesInBatchRequest,
    UnsupportedOperation,
}

/// What a code is called: its number between nodes, its shape in JSON, its code in Query and in
/// `x-amzn-query-error`. Also its HTTP status, and whether it rests on the state that was found.
struct Naming(Code, &'static str, &'static str, u16, bool);

const SQS: &str = "com.amazonaws.sqs#";
const SERVICE: &str = "com.amazon.coral.service#";

/// In the order of [`Code`].
const NAMINGS: [Naming; 29] = [
    Naming(
        Code::AccessDenied,
        "AccessDeniedException",
        "AccessDenied",
        403,
        true,
    ),
    Naming(
        Code::BatchEntryIdsNotDistinct,
        "BatchEntryIdsNotDistinct",
        "AWS.SimpleQueueService.BatchEntryIdsNotDistinct",
        400,
        false,
    ),
    Naming(
        Code::BatchRequestTooLong,
        "BatchRequestTooLong",
        "AWS.SimpleQueueService.BatchRequestTooLong",
        400,
        false,
    ),
    Naming(
        Code::EmptyBatchRequest,
        "EmptyBatchRequest",
        "AWS.SimpleQueueService.EmptyBatchRequest",
        400,
        false,
    ),
    Naming(
        Code::IncompleteSignature,
        "IncompleteSignatureException",
        "IncompleteSignature",
        400,
        false,
    ),
    Naming(
        Code::InternalError,
        "InternalFailure",
        "InternalError",
        500,
        false,
    ),
    Naming(
        Code::InvalidAction,
        "UnknownOperationException",
        "InvalidAction",
        400,
        false,
    ),
    Naming(
        Code::InvalidAddress,
        "InvalidAddress",
        "InvalidAddress",
        404,
        false,
    ),
    Naming(
        Code::InvalidAttributeName,
        "InvalidAttributeName",
        "InvalidAttributeName",
        400,
        true,
    ),
    Naming(
        Code::InvalidAttributeValue,
        "InvalidAttributeValue",
        "InvalidAttributeValue",
        400,
        true,
    ),
    Naming(
        Code::InvalidBatchEntryId,
        "InvalidBatchEntryId",
        "AWS.SimpleQueueService.InvalidBatchEntryId",
        400,
        false,
    ),
    Naming(
        Code::InvalidClientTokenId,
        "UnrecognizedClientException",
        "InvalidClientTokenId",
        403,
        false,
    ),
    Naming(
        Code::InvalidMessageContents,
        "InvalidMessageContents",
        "InvalidMessageContents",
        400,
        true,
    ),
    Naming(
        Code::InvalidParameterValue,
        "InvalidParameterValueException",
        "InvalidParameterValue",
        400,
        true,
    ),
    Naming(
        Code::MalformedInput,
        "SerializationException",
        "MalformedInput",
        400,
        false,
    ),
    Naming(
        Code::MessageNotInflight,
        "MessageNotInflight",
        "AWS.SimpleQueueService.MessageNotInflight",
        400,
        true,
    ),
    Naming(
        Code::MissingParameter,
        "MissingRequiredParameterException",
        "MissingParameter",
        400,
        true,
    ),
    Naming(Code::OverLimit, "OverLimit", "OverLimit", 403, true),
    Naming(
        Code::PurgeQueueInProgress,
        "PurgeQueueInProgress",
        "AWS.SimpleQueueService.PurgeQueueInProgress",
        403,
        true,
    ),
    Naming(
        Code::QueueDeletedRecently,
        "QueueDeletedRecently",
        "AWS.SimpleQueueService.QueueDeletedRecently",
        400,
        true,
    ),
    Naming(
        Code::QueueDoesNotExist,
        "QueueDoesNotExist",
        "AWS.SimpleQueueService.NonExistentQueue",
        400,
        true,
    ),
    Naming(
        Code::QueueNameExists,
        "QueueNameExists",
        "QueueAlreadyExists",
        400,
        true,
    ),
    Naming(
        Code::ReceiptHandleIsInvalid,
        "ReceiptHandleIsInvalid",
        "ReceiptHandleIsInvalid",
        404,
        true,
    ),
    Naming(
        Code::RequestThrottled,
        "RequestThrottled",
        "RequestThrottled",
        403,
        false,
    ),
    Naming(
        Code::ResourceNotFound,
        "ResourceNotFoundException",
        "ResourceNotFoundException",
        404,
        true,
    ),
    Naming(
        Code::ServiceUnavailable,
        "ServiceUnavailable",
        "ServiceUnavailable",
        503,
        false,
    ),
    Naming(
        Code::SignatureDoesNotMatch,
        "InvalidSignatureException",
        "SignatureDoesNotMatch",
        403,
        false,
    ),
    Naming(
        Code::TooManyEntriesInBatchRequest,
        "TooManyEntriesInBatchRequest",
        "AWS.SimpleQueueService.TooManyEntriesInBatchRequest",
        400,
        false,
    ),
    Naming(
        Code::UnsupportedOperation,
        "UnsupportedOperation",
        "AWS.SimpleQueueService.UnsupportedOperation",
        400,
        true,
    ),
];

impl Code {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Code> {
        NAMINGS.iter().map(|naming| naming.0)
    }

    fn naming(self) -> &'static Naming {
        &NAMINGS[self as usize]
    }

    /// `__type` of AWS JSON.
    pub fn json_type(self) -> String {
        let is_of_service = matches!(
            self,
            Code::AccessDenied
                | Code::IncompleteSignature
                | Code::InvalidClientTokenId
                | Code::SignatureDoesNotMatch
                | Code::InternalError
                | Code::InvalidAction
                | Code::InvalidParameterValue
                | Code::MalformedInput
                | Code::MissingParameter
                | Code::ServiceUnavailable
        );
        let namespace = if is_of_service { SERVICE } else { SQS };
        format!("{namespace}{}", self.naming().1)
    }

    /// `Code` of Query, and the first part of `x-amzn-query-error`.
    pub fn query_code(self) -> &'static str {
        self.naming().2
    }

    /// The HTTP status.
    pub fn status(self) -> u16 {
        self.naming().3
    }

    /// Whether the client is at fault.
    pub fn is_of_sender(self) -> bool {
        self.status() < 500
    }
}

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {message}", code.query_code())]
pub struct Error {
    /// The code.
    pub code: Code,
    /// For people.
    pub message: String,
    /// Of [`Code::ServiceUnavailable`]: why.
    pub reason: Option<Reason>,
}

impl Error {
    /// A refusal with this code.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Error {
            code,
            message: message.into(),
            reason: None,
        }
    }

    /// Not now.
    pub fn unavailable(reason: Reason, words: &str) -> Self {
        Error {
            reason: Some(reason),
            ..Error::new(
                Code::ServiceUnavailable,
                format!("Service is unavailable: {words}"),
            )
        }
    }

    /// There is no such queue.
    pub fn no_such_queue() -> Self {
        Error::new(
            Code::QueueDoesNotExist,
            "The specified queue does not exist.",
        )
    }

    /// A parameter has a value that it cannot have; `reason` is a sentence.
    pub(crate) fn value(value: &str, parameter: &str, reason: &str) -> Self {
        let message =
            format!("Value {value} for parameter {parameter} is invalid. Reason: {reason}");
        Error::new(Code::InvalidParameterValue, message)
    }

    /// A parameter is missing.
    pub fn missing(parameter: &str) -> Self {
        let message = format!("The request must contain the parameter {parameter}.");
        Error::new(Code::MissingParameter, message)
    }

    /// An attribute of the queue has a value that it cannot have.
    pub(crate) fn attribute(name: &str) -> Self {
        let message = format!("Invalid value for the parameter {name}.");
        Error::new(Code::InvalidAttributeValue, message)
    }

    /// Whether it rests on the state that was found.
    pub(crate) fn depends_on_state(&self) -> bool {
        self.code.naming().4
    }
}

impl From<ViewError> for Error {
    fn from(error: ViewError) -> Self {
        Error::new(Code::InternalError, error.to_string())
    }
}

impl From<DecodeError> for Error {
    fn from(error: DecodeError) -> Self {
        ViewError::from(error).into()
    }
}

impl Wire for Code {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(*self as u8);
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        let naming = NAMINGS.get(usize::from(reader.byte()?));
        naming
            .map(|naming| naming.0)
            .ok_or_else(|| DecodeError::new("a code of SQS"))
    }
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
