//! Refusals in S3's words: those of the service, and those of the gateway itself.
//!
//! Deliberately absent: which of them is counted or told to whom (`handler::objects`).

use fader_services::Reason;
use fader_services::s3::{Code, Error};
use fader_services::simpledb::{Code as SignatureCode, Error as SignatureError};

use crate::s3::render;

/// A refusal as S3 shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// `Code` in the XML.
    pub(crate) code: &'static str,
    /// The HTTP status.
    pub(crate) status: u16,
    /// For people.
    pub(crate) message: String,
    /// More elements of the XML.
    pub(crate) details: Vec<(&'static str, String)>,
    /// Headers of the reply.
    pub(crate) headers: Vec<(&'static str, String)>,
    /// Why it was refused with 503.
    pub(crate) reason: Option<Reason>,
}

impl Fault {
    /// A refusal with a code of S3's table.
    pub(crate) fn new(code: &'static str, status: u16, message: impl Into<String>) -> Fault {
        Fault {
            code,
            status,
            message: message.into(),
            details: Vec::new(),
            headers: Vec::new(),
            reason: None,
        }
    }

    /// The same, with one more element in its XML.
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Fault {
        self.details.push((name, value.into()));
        self
    }

    /// The same, with the bucket or the key in its XML if it is about that and does not say which.
    pub(crate) fn about(self, bucket: &str, key: &str) -> Fault {
        let (name, value) = match self.code {
            "NoSuchBucket"
            | "BucketNotEmpty"
            | "BucketAlreadyExists"
            | "BucketAlreadyOwnedByYou" => ("BucketName", bucket),
            "NoSuchKey" => ("Key", key),
            _ => return self,
        };
        let is_told = self.details.iter().any(|detail| detail.0 == name);
        match is_told {
            true => self,
            false => self.with(name, value),
        }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        let code = error.code;
        let mut fault = Fault::new(code.name(), code.status(), error.message);
        fault.reason = error.reason;
        if let Some(condition) = error.condition {
            fault = fault.with("Condition", condition.header());
        }
        if let Some(marker) = error.marker {
            fault
                .headers
                .push(("x-amz-delete-marker", "true".to_owned()));
            fault.headers.push(("x-amz-version-id", marker.to_string()));
        }
        if let Some((etag, modified_ms)) = error.found.filter(|_| code == Code::NotModified) {
            fault.headers.push(("etag", render::quoted(&etag)));
            let modified = render::http_time(modified_ms);
            fault.headers.push(("last-modified", modified));
        }
        if code == Code::MethodNotAllowed {
            fault.headers.push(("allow", "DELETE".to_owned()));
        }
        fault
    }
}

/// A refusal of a signature; `is_header` tells whether it stands in a header.
pub(crate) fn of_signature(error: &SignatureError, is_header: bool) -> Fault {
    let malformed = match is_header {
        true => "AuthorizationHeaderMalformed",
        false => "AuthorizationQueryParametersError",
    };
    let (code, status, message) = match error.code {
        SignatureCode::SignatureDoesNotMatch => (
            "SignatureDoesNotMatch",
            403,
            "The request signature we calculated does not match the signature you provided. \
             Check your key and signing method."
                .to_owned(),
        ),
        SignatureCode::InvalidClientTokenId => (
            "InvalidAccessKeyId",
            403,
            "The AWS Access Key Id you provided does not exist in our records.".to_owned(),
        ),
        SignatureCode::RequestExpired if is_header => (
            "RequestTimeTooSkewed",
            403,
            "The difference between the request time and the current time is too large.".to_owned(),
        ),
        SignatureCode::RequestExpired => ("AccessDenied", 403, "Request has expired".to_owned()),
        SignatureCode::AccessFailure => ("AccessDenied", 403, error.message.clone()),
        SignatureCode::InvalidHttpAuthHeader => (
            "InvalidArgument",
            400,
            "Unsupported Authorization Type".to_owned(),
        ),
        SignatureCode::InvalidParameterCombination => {
            ("InvalidArgument", 400, error.message.clone())
        }
        _ if error.reason.is_some() => ("ServiceUnavailable", 503, error.message.clone()),
        _ => (malformed, 400, error.message.clone()),
    };
    let mut fault = Fault::new(code, status, message);
    fault.reason = error.reason;
    fault
}

/// Neither a signature nor a right that all callers have.
pub(crate) fn access_denied() -> Fault {
    Error::of(Code::AccessDenied).into()
}

/// The request makes no sense; `message` is a sentence.
pub(crate) fn invalid_request(message: impl Into<String>) -> Fault {
    Fault::new("InvalidRequest", 400, message)
}

/// A parameter or a header makes no sense.
pub(crate) fn invalid_argument(
    message: impl Into<String>,
    name: &str,
    value: impl Into<String>,
) -> Fault {
    Fault::new("InvalidArgument", 400, message)
        .with("ArgumentName", name)
        .with("ArgumentValue", value)
}

/// XML that is none, or not of the shape.
pub(crate) fn malformed_xml() -> Fault {
    Error::of(Code::MalformedXML).into()
}

/// A feature that is left out; `what` is its name.
pub(crate) fn not_implemented(what: &str) -> Fault {
    Fault::new(
        "NotImplemented",
        501,
        format!("A header you provided implies functionality that is not implemented: {what}"),
    )
}

/// The method does not go with what is asked for.
pub(crate) fn method_not_allowed(method: &str) -> Fault {
    Fault::new(
        "MethodNotAllowed",
        405,
        "The specified method is not allowed against this resource.",
    )
    .with("Method", method)
}

/// Fewer bytes came than were announced.
pub(crate) fn incomplete_body() -> Fault {
    Fault::new(
        "IncompleteBody",
        400,
        "You did not provide the number of bytes specified by the Content-Length HTTP header",
    )
}

/// The length of the body is not announced.
pub(crate) fn missing_length() -> Fault {
    Fault::new(
        "MissingContentLength",
        411,
        "You must provide the Content-Length HTTP header.",
    )
}

/// Nothing came for too long.
pub(crate) fn request_timeout() -> Fault {
    Fault::new(
        "RequestTimeout",
        400,
        "Your socket connection to the server was not read from or written to within the timeout \
         period. Idle connections will be closed.",
    )
}

/// A chunk's signature is not what was computed.
pub(crate) fn wrong_chunk() -> Fault {
    Fault::new(
        "SignatureDoesNotMatch",
        403,
        "The signature of a chunk that we calculated does not match the signature you provided.",
    )
}

/// A checksum or Content-MD5 is not that of the bytes.
pub(crate) fn bad_digest(what: &str) -> Fault {
    Fault::new(
        "BadDigest",
        400,
        format!("The {what} you specified did not match what we received."),
    )
}

/// More bytes than are allowed.
pub(crate) fn too_large(bytes: u64, bytes_max: u64) -> Fault {
    Fault::from(Error::of(Code::EntityTooLarge))
        .with("ProposedSize", bytes.to_string())
        .with("MaxSizeAllowed", bytes_max.to_string())
}
