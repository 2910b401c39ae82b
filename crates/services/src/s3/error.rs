//! Every refusal of S3: code, HTTP status and message.

use fader_chain::DecodeError;

use crate::s3::rows::VersionId;
use crate::{Reason, ViewError};

/// An S3 error code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are AWS's own")]
pub enum Code {
    AccessDenied,
    BucketAlreadyExists,
    BucketAlreadyOwnedByYou,
    BucketNotEmpty,
    AccessControlListNotSupported,
    EntityTooLarge,
    EntityTooSmall,
    InternalError,
    InvalidArgument,
    InvalidBucketAclWithBlockPublicAccessError,
    InvalidBucketAclWithObjectOwnership,
    InvalidBucketName,
    InvalidBucketState,
    InvalidPart,
    InvalidPartNumber,
    InvalidPartOrder,
    InvalidRequest,
    InvalidTag,
    KeyTooLongError,
    MalformedACLError,
    MalformedPolicy,
    MalformedXML,
    MetadataTooLarge,
    MethodNotAllowed,
    NoSuchBucket,
    NoSuchBucketPolicy,
    NoSuchCORSConfiguration,
    NoSuchKey,
    NoSuchLifecycleConfiguration,
    NoSuchPublicAccessBlockConfiguration,
    NoSuchTagSet,
    NoSuchUpload,
    NoSuchVersion,
    NotModified,
    OwnershipControlsNotFoundError,
    PreconditionFailed,
    ServiceUnavailable,
    TooManyBuckets,
    /// The attempt took longer than its lease, and is fenced: nothing of it is applied.
    AttemptFenced,
}

impl Code {
    /// `Code` in the XML of an error.
    pub fn name(self) -> &'static str {
        match self {
            Code::AccessDenied => "AccessDenied",
            Code::BucketAlreadyExists => "BucketAlreadyExists",
            Code::BucketAlreadyOwnedByYou => "BucketAlreadyOwnedByYou",
            Code::BucketNotEmpty => "BucketNotEmpty",
            Code::AccessControlListNotSupported => "AccessControlListNotSupported",
            Code::EntityTooLarge => "EntityTooLarge",
            Code::EntityTooSmall => "EntityTooSmall",
            Code::InternalError => "InternalError",
            Code::InvalidArgument => "InvalidArgument",
            Code::InvalidBucketAclWithBlockPublicAccessError => {
                "InvalidBucketAclWithBlockPublicAccessError"
            }
            Code::InvalidBucketAclWithObjectOwnership => "InvalidBucketAclWithObjectOwnership",
            Code::InvalidBucketName => "InvalidBucketName",
            Code::InvalidBucketState => "InvalidBucketState",
            Code::InvalidPart => "InvalidPart",
            Code::InvalidPartNumber => "InvalidPartNumber",
            Code::InvalidPartOrder => "InvalidPartOrder",
            Code::InvalidRequest => "InvalidRequest",
            Code::InvalidTag => "InvalidTag",
            Code::KeyTooLongError => "KeyTooLongError",
            Code::MalformedACLError => "MalformedACLError",
            Code::MalformedPolicy => "MalformedPolicy",
            Code::MalformedXML => "MalformedXML",
            Code::MetadataTooLarge => "MetadataTooLarge",
            Code::MethodNotAllowed => "MethodNotAllowed",
            Code::NoSuchBucket => "NoSuchBucket",
            Code::NoSuchBucketPolicy => "NoSuchBucketPolicy",
            Code::NoSuchCORSConfiguration => "NoSuchCORSConfiguration",
            Code::NoSuchKey => "NoSuchKey",
            Code::NoSuchLifecycleConfiguration => "NoSuchLifecycleConfiguration",
            Code::NoSuchPublicAccessBlockConfiguration => "NoSuchPublicAccessBlockConfiguration",
            Code::NoSuchTagSet => "NoSuchTagSet",
            Code::NoSuchUpload => "NoSuchUpload",
            Code::NoSuchVersion => "NoSuchVersion",
            Code::NotModified => "NotModified",
            Code::OwnershipControlsNotFoundError => "OwnershipControlsNotFoundError",
            Code::PreconditionFailed => "PreconditionFailed",
            Code::ServiceUnavailable => "ServiceUnavailable",
            Code::TooManyBuckets => "TooManyBuckets",
            Code::AttemptFenced => "ServiceUnavailable",
        }
    }

    /// The HTTP status.
    pub fn status(self) -> u16 {
        match self {
            Code::NotModified => 304,
            Code::AccessDenied => 403,
            Code::NoSuchBucket
            | Code::NoSuchBucketPolicy
            | Code::NoSuchCORSConfiguration
            | Code::NoSuchKey
            | Code::NoSuchLifecycleConfiguration
            | Code::NoSuchPublicAccessBlockConfiguration
            | Code::NoSuchTagSet
            | Code::NoSuchUpload
            | Code::NoSuchVersion
            | Code::OwnershipControlsNotFoundError => 404,
            Code::MethodNotAllowed => 405,
            Code::BucketAlreadyExists
            | Code::BucketAlreadyOwnedByYou
            | Code::BucketNotEmpty
            | Code::InvalidBucketState => 409,
            Code::PreconditionFailed => 412,
            Code::InvalidPartNumber => 416,
            Code::InternalError => 500,
            Code::ServiceUnavailable | Code::AttemptFenced => 503,
            _ => 400,
        }
    }

    /// AWS's message.
    fn message(self) -> &'static str {
        match self {
            Code::AccessDenied => "Access Denied",
            Code::BucketAlreadyExists => {
                "The requested bucket name is not available. The bucket namespace is shared by \
                 all users of the system. Please select a different name and try again."
            }
            Code::BucketAlreadyOwnedByYou => {
                "Your previous request to create the named bucket succeeded and you already own \
                 it."
            }
            Code::BucketNotEmpty => "The bucket you tried to delete is not empty.",
            Code::AccessControlListNotSupported => "The bucket does not allow ACLs",
            Code::EntityTooLarge => "Your proposed upload exceeds the maximum allowed size",
            Code::EntityTooSmall => "Your proposed upload is smaller than the minimum allowed size",
            Code::InternalError => "We encountered an internal error. Please try again.",
            Code::InvalidArgument => "Invalid Argument",
            Code::InvalidBucketAclWithBlockPublicAccessError => {
                "Bucket cannot have public ACLs set with BlockPublicAccess enabled"
            }
            Code::InvalidBucketAclWithObjectOwnership => {
                "Bucket cannot have ACLs set with ObjectOwnership's BucketOwnerEnforced setting"
            }
            Code::InvalidBucketName => "The specified bucket is not valid.",
            Code::InvalidBucketState => {
                "The request is not valid with the current state of the bucket."
            }
            Code::InvalidPart => {
                "One or more of the specified parts could not be found. The part may not have \
                 been uploaded, or the specified entity tag may not match the part's entity tag."
            }
            Code::InvalidPartNumber => "The requested partnumber is not satisfiable",
            Code::InvalidPartOrder => {
                "The list of parts was not in ascending order. Parts must be ordered by part \
                 number."
            }
            Code::InvalidRequest => "Invalid Request",
            Code::InvalidTag => "The tag provided was not a valid tag.",
            Code::KeyTooLongError => "Your key is too long",
            Code::MalformedACLError => "The ACL has more than 100 grants",
            Code::MalformedPolicy => "Policies must be valid JSON and the first byte must be '{'",
            Code::MalformedXML => {
                "The XML you provided was not well-formed or did not validate against our \
                 published schema"
            }
            Code::MetadataTooLarge => {
                "Your metadata headers exceed the maximum allowed metadata size"
            }
            Code::MethodNotAllowed => "The specified method is not allowed against this resource.",
            Code::NotModified => "Not Modified",
            Code::PreconditionFailed => {
                "At least one of the pre-conditions you specified did not hold"
            }
            Code::ServiceUnavailable => "Reduce your request rate.",
            Code::AttemptFenced => {
                "The upload took longer than its lease; nothing of it was stored. Send it again."
            }
            Code::TooManyBuckets => "You have attempted to create more buckets than allowed",
            missing => missing.missing_parts(),
        }
    }

    /// The same of what is not there.
    fn missing_parts(self) -> &'static str {
        match self {
            Code::NoSuchBucket => "The specified bucket does not exist",
            Code::NoSuchBucketPolicy => "The bucket policy does not exist",
            Code::NoSuchCORSConfiguration => "The CORS configuration does not exist",
            Code::NoSuchKey => "The specified key does not exist.",
            Code::NoSuchLifecycleConfiguration => "The lifecycle configuration does not exist",
            Code::NoSuchPublicAccessBlockConfiguration => {
                "The public access block configuration was not found"
            }
            Code::NoSuchTagSet => "The TagSet does not exist",
            Code::NoSuchUpload => {
                "The specified upload does not exist. The upload ID may be invalid, or the upload \
                 may have been aborted or completed."
            }
            Code::NoSuchVersion => "The specified version does not exist.",
            Code::OwnershipControlsNotFoundError => "The bucket ownership controls were not found",
            other => other.name(),
        }
    }

    /// Whether it rests on the state that was found: then the refusal of a write is an entry (D12).
    pub fn depends_on_state(self) -> bool {
        !matches!(
            self,
            Code::InternalError
                | Code::InvalidArgument
                | Code::InvalidBucketName
                | Code::InvalidPartOrder
                | Code::InvalidTag
                | Code::KeyTooLongError
                | Code::MalformedACLError
                | Code::MalformedPolicy
                | Code::MalformedXML
                | Code::MetadataTooLarge
                | Code::ServiceUnavailable
        )
    }
}

/// A condition that did not hold: `Condition` in the XML of 412.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of the headers")]
pub enum Condition {
    IfMatch,
    IfNoneMatch,
    IfModifiedSince,
    IfUnmodifiedSince,
    IfMatchSize,
    IfMatchLastModified,
}

impl Condition {
    /// The header's name.
    pub fn header(self) -> &'static str {
        match self {
            Condition::IfMatch => "If-Match",
            Condition::IfNoneMatch => "If-None-Match",
            Condition::IfModifiedSince => "If-Modified-Since",
            Condition::IfUnmodifiedSince => "If-Unmodified-Since",
            Condition::IfMatchSize => "x-amz-if-match-size",
            Condition::IfMatchLastModified => "x-amz-if-match-last-modified-time",
        }
    }
}

/// What is said of a bucket whose creation did not come to its end.
const UNMADE: &str = "The creation of the bucket was not finished: create it again or delete it.";
/// What is said of an upload whose bucket was deleted while it was under way.
const MADE_AGAIN: &str = "The bucket of the upload was deleted. Another bucket has its name now.";

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {message}", code.name())]
pub struct Error {
    /// The code.
    pub code: Code,
    /// For people.
    pub message: String,
    /// Of [`Code::ServiceUnavailable`]: why.
    pub reason: Option<Reason>,
    /// Of [`Code::PreconditionFailed`] and [`Code::NotModified`]: which condition.
    pub condition: Option<Condition>,
    /// The delete marker that was found in place of an object.
    pub marker: Option<VersionId>,
    /// Of [`Code::NotModified`]: the ETag of the object, and when it was committed.
    pub found: Option<(String, u64)>,
}

impl Error {
    /// A refusal with this code, in AWS's words.
    pub fn of(code: Code) -> Self {
        Error::new(code, code.message())
    }

    /// A refusal with this code.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Error {
            code,
            message: message.into(),
            reason: None,
            condition: None,
            marker: None,
            found: None,
        }
    }

    /// The bucket has its collection, and was not made.
    pub(crate) fn unmade() -> Self {
        Error::new(Code::NoSuchBucket, UNMADE)
    }

    pub(crate) fn is_unmade(&self) -> bool {
        self.code == Code::NoSuchBucket && self.message == UNMADE
    }

    /// The bucket was made again since the upload began.
    pub(crate) fn made_again() -> Self {
        Error::new(Code::NoSuchBucket, MADE_AGAIN)
    }

    /// Whether no other chain is to be asked: the one that answered has the bucket's collection.
    /// Nodes of all versions hand on the words.
    pub(crate) fn is_last(&self) -> bool {
        self.is_unmade() || (self.code == Code::NoSuchBucket && self.message == MADE_AGAIN)
    }

    /// Not now.
    pub fn unavailable(reason: Reason, words: &str) -> Self {
        Error {
            reason: Some(reason),
            ..Error::new(Code::ServiceUnavailable, words)
        }
    }

    /// A condition did not hold: 412, or 304 of a read that asked for what is newer.
    pub(crate) fn condition(code: Code, condition: Condition) -> Self {
        Error {
            condition: Some(condition),
            ..Error::of(code)
        }
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
