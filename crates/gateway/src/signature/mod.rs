//! Who asks: verifies AWS's signatures, versions 2 and 4.
//!
//! ```text
//! version 2   parameters Signature, AWSAccessKeyId, ...    in the query, the form, or both
//! version 4   header Authorization: AWS4-HMAC-SHA256 ...   or parameters X-Amz-*
//! ```
//!
//! Invariants:
//! - S1 a request passes only if its signature covers its method, host, path and every parameter.
//! - S2 nobody learns by a shortcut: for an unknown key a signature is computed too, and a disabled
//!   key is refused as an unknown one. Only the log tells them apart.
//! - S3 signatures are compared in constant time.
//!
//! Deliberately absent: session tokens. One that is sent is signed like any parameter, and means
//! nothing.

mod time;
mod v2;
mod v4;

use std::sync::Arc;
use std::time::Duration;

use fader_node::OpenKey;
use fader_services::Reason;
use fader_services::catalog::{KeyStatus, Refusal};
use fader_services::simpledb::{Code, Error};
use hyper::HeaderMap;
use hyper::header::AUTHORIZATION;

use crate::complaints::Complaints;
use crate::parameters::Parameters;
use crate::refusal::refuse;

/// The longest id of an access key.
const KEY_ID_BYTES_MAX: usize = 128;
/// Seconds that a signature may live ahead, as those of AWS may: a week.
const EXPIRES_S_MAX: i64 = 7 * 24 * 3600;
/// Signs in place of the secret of a key that does not exist.
const DUMMY_SECRET: &str = "no-such-key-no-such-key-no-such-key-none";

/// All that signatures cover.
pub(crate) struct Signed<'a> {
    /// GET or POST.
    pub(crate) method: &'a str,
    /// The path of the URI, as received.
    pub(crate) path: &'a str,
    /// The headers.
    pub(crate) headers: &'a HeaderMap,
    /// The `Host` header, as received.
    pub(crate) host: &'a str,
    /// The port that the request came in by, for clients that sign it but do not send it.
    pub(crate) port: u16,
    /// The parameters.
    pub(crate) parameters: &'a Parameters<'a>,
    /// The body.
    pub(crate) body: &'a [u8],
}

/// Verifies signatures; keeps derived keys of version 4.
pub(crate) struct Verifier {
    clock_skew: Duration,
    derived: v4::DerivedKeys,
    complaints: Arc<Complaints>,
}

enum Presented<'a> {
    Version2(v2::Presented<'a>),
    Version4(v4::Presented<'a>),
}

impl Verifier {
    /// A verifier that takes times up to `clock_skew` off.
    pub(crate) fn new(clock_skew: Duration) -> Verifier {
        Verifier {
            clock_skew,
            derived: v4::DerivedKeys::default(),
            complaints: Arc::default(),
        }
    }

    /// Where what it refuses is counted.
    pub(crate) fn complaints(&self) -> &Arc<Complaints> {
        &self.complaints
    }

    fn skew_s(&self) -> i64 {
        i64::try_from(self.clock_skew.as_secs()).unwrap_or(i64::MAX)
    }

    /// Whether a head may be that of a signed request: it names an active key and a time that is
    /// right. `query` are the parameters of its URI, if they can be read. Nothing is verified.
    ///
    /// # Errors
    /// What [`Verifier::verify`] says of a header that cannot be right, whatever the body is.
    pub(crate) fn is_plausible(
        &self,
        headers: &HeaderMap,
        query: Option<&Parameters<'_>>,
        now_s: i64,
        open_key: impl FnOnce(&str) -> Result<Option<Arc<OpenKey>>, Refusal>,
    ) -> Result<bool, Error> {
        let is_known = |key_id: &str| {
            let key = open_key(key_id).ok().flatten();
            key.is_some_and(|key| key.key.status == KeyStatus::Active)
        };
        if let Some(header) = headers.get(AUTHORIZATION) {
            let presented = v4::Presented::in_header(header, headers)?;
            return Ok(is_known(presented.check_time(now_s, self.skew_s())?));
        }
        // Here the body may add what is missing.
        let presented = query.map(in_parameters);
        let Some(Ok(Some(presented))) = presented else {
            return Ok(false);
        };
        let key_id = presented.check_time(now_s, self.skew_s());
        Ok(key_id.is_ok_and(is_known))
    }

    /// The key that signed, `None` for a request without any signature, or why it is refused.
    /// `open_key` finds a key by id; `now_s` is the time in seconds since 1970.
    pub(crate) fn verify(
        &self,
        signed: &Signed<'_>,
        now_s: i64,
        open_key: impl FnOnce(&str) -> Result<Option<Arc<OpenKey>>, Refusal>,
    ) -> Result<Option<Arc<OpenKey>>, Error> {
        let Some(presented) = presented(signed)? else {
            return Ok(None);
        };
        let key_id = presented.check_time(now_s, self.skew_s())?;
        let key = match key_id.len() {
            1..=KEY_ID_BYTES_MAX => open_key(key_id).map_err(|refusal| unreadable(&refusal))?,
            _ => None,
        };
        let secret = key.as_ref().map_or(DUMMY_SECRET, |key| key.secret.reveal());
        let is_signed = match &presented {
            Presented::Version2(presented) => presented.is_signed_with(secret, signed),
            Presented::Version4(presented) => {
                presented.is_signed_with(secret, signed, key.is_some().then_some(&self.derived))
            }
        };
        match key {
            Some(key) if key.key.status == KeyStatus::Active && is_signed => Ok(Some(key)),
            Some(key) if key.key.status == KeyStatus::Active => Err(does_not_match()),
            Some(_) => {
                tracing::debug!(key_id, is_signed, "refused: the access key is disabled");
                self.complaints.add(&format!("disabled key {key_id}"));
                Err(unknown_key())
            }
            None => {
                tracing::debug!(?key_id, "refused: no such access key");
                Err(unknown_key())
            }
        }
    }
}

impl Presented<'_> {
    /// The key's id, if the time of the request is right.
    fn check_time(&self, now_s: i64, skew_s: i64) -> Result<&str, Error> {
        match self {
            Presented::Version2(presented) => presented.check_time(now_s, skew_s),
            Presented::Version4(presented) => presented.check_time(now_s, skew_s),
        }
    }
}

/// The signature that a request presents. A header goes before parameters.
fn presented<'a>(signed: &Signed<'a>) -> Result<Option<Presented<'a>>, Error> {
    match signed.headers.get(AUTHORIZATION) {
        Some(header) => v4::Presented::in_header(header, signed.headers)
            .map(|presented| Some(Presented::Version4(presented))),
        None => in_parameters(signed.parameters),
    }
}

fn in_parameters<'a>(parameters: &'a Parameters<'_>) -> Result<Option<Presented<'a>>, Error> {
    if let Some(signature) = parameters.find("X-Amz-Signature") {
        v4::Presented::in_parameters(signature, parameters).map(|p| Some(Presented::Version4(p)))
    } else if parameters.get("X-Amz-Algorithm").is_some() {
        Err(incomplete("X-Amz-Signature is missing"))
    } else if parameters.get("Signature").is_some() || parameters.get("AWSAccessKeyId").is_some() {
        v2::Presented::in_parameters(parameters).map(|p| Some(Presented::Version2(p)))
    } else {
        Ok(None)
    }
}

/// Whether a parameter says who signed, how and when, rather than what.
pub(crate) fn is_parameter(name: &str) -> bool {
    const NAMES: [&str; 7] = [
        "AWSAccessKeyId",
        "Expires",
        "SecurityToken",
        "Signature",
        "SignatureMethod",
        "SignatureVersion",
        "Timestamp",
    ];
    name.starts_with("X-Amz-") || NAMES.contains(&name)
}

/// No key and no signature, where they are needed.
pub(crate) fn missing_keys() -> Error {
    refuse(
        Code::AuthMissingFailure,
        "AWS was not able to authenticate the request: access keys are missing.",
    )
}

fn incomplete(reason: &str) -> Error {
    refuse(
        Code::IncompleteSignature,
        format!("The request signature does not conform to AWS standards. {reason}."),
    )
}

fn expired(parameter: &str, date: &str) -> Error {
    refuse(
        Code::RequestExpired,
        format!("Request has expired. {parameter} date is {date}"),
    )
}

fn does_not_match() -> Error {
    refuse(
        Code::SignatureDoesNotMatch,
        "The request signature we calculated does not match the signature you provided. Check \
         your AWS Secret Access Key and signing method. Consult the service documentation for \
         details.",
    )
}

fn unknown_key() -> Error {
    refuse(
        Code::InvalidClientTokenId,
        "The AWS Access Key Id you provided does not exist in our records.",
    )
}

/// Keys cannot be read, as where a member does not serve: nothing was tried, and nobody can say who
/// asked.
fn unreadable(refusal: &Refusal) -> Error {
    tracing::debug!(%refusal, "access keys cannot be read");
    Error::unavailable(Reason::NoMember, Reason::NoMember.sentence())
}

#[cfg(test)]
mod tests;
