//! Every refusal of SimpleDB: code, HTTP status and message, as the service words them.

use crate::simpledb::BoxUsage;
use crate::{Reason, ViewError};

/// A SimpleDB error code. The name is what the wire shows. `TentativeValueLost` is Fader's own: it
/// is said to sessions only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are AWS's own")]
pub enum Code {
    AccessFailure,
    AttributeDoesNotExist,
    AuthFailure,
    AuthMissingFailure,
    ConditionalCheckFailed,
    DeleteConflict,
    DuplicateItemName,
    ExistsAndExpectedValue,
    FeatureDeprecated,
    IncompleteExpectedExpression,
    IncompleteExpectedValues,
    IncompleteSignature,
    InternalError,
    InvalidAction,
    InvalidClientTokenId,
    InvalidHttpAuthHeader,
    InvalidHttpRequest,
    InvalidNextToken,
    InvalidNumberPredicates,
    InvalidNumberValueTests,
    InvalidParameterCombination,
    InvalidParameterValue,
    InvalidQueryExpression,
    InvalidSortExpression,
    InvalidUri,
    MissingAction,
    MissingParameter,
    MultiValuedAttribute,
    MultipleExistsConditions,
    MultipleExpectedNames,
    MultipleExpectedValues,
    NoSuchDomain,
    NoSuchVersion,
    NotYetImplemented,
    NumberDomainAttributesExceeded,
    NumberDomainBytesExceeded,
    NumberDomainsExceeded,
    NumberItemAttributesExceeded,
    NumberSubmittedAttributesExceeded,
    NumberSubmittedItemsExceeded,
    QueryTimeout,
    RequestExpired,
    RequestTimeout,
    ServiceUnavailable,
    SignatureDoesNotMatch,
    TentativeValueLost,
    TooManyRequestedAttributes,
    UnsupportedHttpVerb,
    UriTooLong,
}

/// All codes, in their order.
const ALL: [Code; 49] = [
    Code::AccessFailure,
    Code::AttributeDoesNotExist,
    Code::AuthFailure,
    Code::AuthMissingFailure,
    Code::ConditionalCheckFailed,
    Code::DeleteConflict,
    Code::DuplicateItemName,
    Code::ExistsAndExpectedValue,
    Code::FeatureDeprecated,
    Code::IncompleteExpectedExpression,
    Code::IncompleteExpectedValues,
    Code::IncompleteSignature,
    Code::InternalError,
    Code::InvalidAction,
    Code::InvalidClientTokenId,
    Code::InvalidHttpAuthHeader,
    Code::InvalidHttpRequest,
    Code::InvalidNextToken,
    Code::InvalidNumberPredicates,
    Code::InvalidNumberValueTests,
    Code::InvalidParameterCombination,
    Code::InvalidParameterValue,
    Code::InvalidQueryExpression,
    Code::InvalidSortExpression,
    Code::InvalidUri,
    Code::MissingAction,
    Code::MissingParameter,
    Code::MultiValuedAttribute,
    Code::MultipleExistsConditions,
    Code::MultipleExpectedNames,
    Code::MultipleExpectedValues,
    Code::NoSuchDomain,
    Code::NoSuchVersion,
    Code::NotYetImplemented,
    Code::NumberDomainAttributesExceeded,
    Code::NumberDomainBytesExceeded,
    Code::NumberDomainsExceeded,
    Code::NumberItemAttributesExceeded,
    Code::NumberSubmittedAttributesExceeded,
    Code::NumberSubmittedItemsExceeded,
    Code::QueryTimeout,
    Code::RequestExpired,
    Code::RequestTimeout,
    Code::ServiceUnavailable,
    Code::SignatureDoesNotMatch,
    Code::TentativeValueLost,
    Code::TooManyRequestedAttributes,
    Code::UnsupportedHttpVerb,
    Code::UriTooLong,
];

/// What a write is refused with because of the state it finds, rather than because of its
/// parameters: such a refusal is an entry (D12).
const OF_DECISIONS: [Code; 9] = [
    Code::AttributeDoesNotExist,
    Code::ConditionalCheckFailed,
    Code::DeleteConflict,
    Code::MultiValuedAttribute,
    Code::NoSuchDomain,
    Code::NumberDomainAttributesExceeded,
    Code::NumberDomainBytesExceeded,
    Code::NumberDomainsExceeded,
    Code::NumberItemAttributesExceeded,
];

impl Code {
    /// The code with this name on the wire.
    pub fn named(name: &str) -> Option<Code> {
        ALL.into_iter().find(|code| code.name() == name)
    }

    /// The code with this name on the wire, if a write may be refused with it because of the state
    /// it finds.
    pub fn of_decision(name: &str) -> Option<Code> {
        OF_DECISIONS.into_iter().find(|code| code.name() == name)
    }

    /// Whether a write that is refused with it was refused because of the state it found.
    pub fn depends_on_state(self) -> bool {
        OF_DECISIONS.contains(&self)
    }

    /// The HTTP status that goes with the code.
    pub fn status(self) -> u16 {
        use Code::*;
        match self {
            AccessFailure
            | AuthFailure
            | AuthMissingFailure
            | InvalidClientTokenId
            | SignatureDoesNotMatch => 403,
            AttributeDoesNotExist => 404,
            ConditionalCheckFailed
            | DeleteConflict
            | MultiValuedAttribute
            | NumberDomainAttributesExceeded
            | NumberDomainBytesExceeded
            | NumberDomainsExceeded
            | NumberItemAttributesExceeded
            | NumberSubmittedAttributesExceeded
            | NumberSubmittedItemsExceeded
            | TentativeValueLost => 409,
            NotYetImplemented => 401,
            QueryTimeout | RequestTimeout => 408,
            InternalError => 500,
            ServiceUnavailable => 503,
            _ => 400,
        }
    }

    /// The code on the wire.
    pub fn name(self) -> String {
        match self {
            Code::InvalidHttpAuthHeader => "InvalidHTTPAuthHeader".to_owned(),
            Code::DeleteConflict => "DeleteConflictException".to_owned(),
            Code::InvalidUri => "InvalidURI".to_owned(),
            Code::UriTooLong => "URITooLong".to_owned(),
            other => format!("{other:?}"),
        }
    }
}

/// A refusal, or a failure of the store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {message}", .code.name())]
pub struct Error {
    /// The code.
    pub code: Code,
    /// The message, as AWS words it where that is known.
    pub message: String,
    /// What the request is charged all the same.
    pub box_usage: BoxUsage,
    /// Why it is refused with 503; nothing of all other refusals.
    pub reason: Option<Reason>,
}

impl Error {
    /// A refusal, charged as SimpleDB charges one.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Error {
            code,
            message: message.into(),
            box_usage: BoxUsage::REFUSED,
            reason: None,
        }
    }

    /// It is not carried out now, or it is not known whether it was; `words` say why. Without
    /// words the message is AWS's, octet by octet.
    pub fn unavailable(reason: Reason, words: &str) -> Self {
        let aws = "Service AmazonSimpleDB is currently unavailable. Please try again later";
        let message = match words {
            "" => aws.to_owned(),
            words => format!("{aws} ({words})"),
        };
        Error {
            code: Code::ServiceUnavailable,
            message,
            box_usage: BoxUsage::default(),
            reason: Some(reason),
        }
    }

    /// The service refuses it now, and not for ever.
    pub(crate) fn later(reason: Reason) -> Self {
        Error {
            reason: Some(reason),
            ..Error::new(
                Code::ServiceUnavailable,
                format!("{}. Please try again later.", reason.sentence()),
            )
        }
    }

    /// A limit forbids it.
    pub(crate) fn limit(code: Code) -> Self {
        let what = match code {
            Code::NumberItemAttributesExceeded => "Too many attributes in this item.",
            Code::NumberDomainAttributesExceeded => "Too many attributes in this domain.",
            Code::NumberDomainBytesExceeded => "Too many bytes in this domain.",
            _ => "A limit is exceeded.",
        };
        Error::new(code, what)
    }

    /// The domain is not there, or no longer.
    pub fn no_such_domain() -> Self {
        Error::new(Code::NoSuchDomain, "The specified domain does not exist.")
    }
}

impl From<ViewError> for Error {
    fn from(error: ViewError) -> Self {
        Error {
            code: Code::InternalError,
            message: format!("The store could not be read: {error}"),
            box_usage: BoxUsage::default(),
            reason: None,
        }
    }
}

#[cfg(test)]
mod tests;
