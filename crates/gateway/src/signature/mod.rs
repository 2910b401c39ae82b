//! Who asks: verifies AWS's signatures, versions 2 and 4.
//!
//! ```text
//! version 2   parameters Signature, AWSAccessKeyId, ...    in the query, the form, or both
//! version 4   header Authorization: AWS4-HMAC-SHA256 ...   or parameters X-Amz-*
//! S3's own 2  header Authorization: AWS key:signature      or parameters Signature, Expires, ...
//! S3's forms  fields policy and signature                  both versions (`form`)
//! ```
//!
//! Invariants:
//! - SIGN-1 a request passes only if its signature covers its method, host, path and every
//!   parameter.
//! - SIGN-2 no client learns by a shortcut. For an unknown key a signature is computed too, and a
//!   disabled key is refused as an unknown one. Only the log tells them apart.
//! - signatures are compared in constant time.
//!
//! Deliberately absent: session tokens. One that is sent is signed like any parameter, and means
//! nothing.

mod form;
mod s3_v2;
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

use crate::log_limiter::LogLimiter;
use crate::parameters::Parameters;
use crate::refusal::refuse;

pub(crate) use form::Form;
pub(crate) use time::http as http_date;
pub(crate) use v4::ChunkKey;
#[cfg(test)]
pub(crate) use v4::chunk_key;

/// The longest id of an access key.
const KEY_ID_BYTES_MAX: usize = 128;
/// Seconds that a signature may live ahead, as those of AWS may: a week.
const EXPIRES_S_MAX: i64 = 7 * 24 * 3600;
/// Signs in place of the secret of a key that does not exist.
const DUMMY_SECRET: &str = "no-such-key-no-such-key-no-such-key-none";

/// The service in the scopes of S3.
const S3: &str = "s3";

/// All that signatures cover.
pub(crate) struct Signed<'a> {
    /// GET or POST.
    pub(crate) method: &'a str,
    /// The path of the URI: as received; of a request to S3 decoded and encoded again.
    pub(crate) path: &'a str,
    /// The headers.
    pub(crate) headers: &'a HeaderMap,
    /// The `Host` header, as received.
    pub(crate) host: &'a str,
    /// The port that the request came in by, for clients that sign it but do not send it.
    pub(crate) port: u16,
    /// The bucket that the host names, of a request to S3.
    pub(crate) bucket_in_host: Option<&'a str>,
    /// The parameters.
    pub(crate) parameters: &'a Parameters<'a>,
    /// The body, or what stands for it.
    pub(crate) payload: Payload<'a>,
}

/// What a signature of version 4 covers of a body.
#[derive(Clone, Copy)]
pub(crate) enum Payload<'a> {
    /// The hash of these bytes, which are the whole body.
    Body(&'a [u8]),
    /// This text: the hash that the client announces, or S3's name of another way. The body that
    /// comes later is compared with it.
    Announced(&'a str),
}

/// Who signed a request to S3, and what its chunks are signed with.
pub(crate) struct Signer {
    /// The key.
    pub(crate) key: Arc<OpenKey>,
    /// Of version 4 in the header: what the first chunk's signature goes on from.
    pub(crate) chunks: Option<ChunkKey>,
}

/// Verifies signatures; keeps derived keys of version 4.
pub(crate) struct Verifier {
    clock_skew: Duration,
    derived: v4::DerivedKeys,
    log_limiter: Arc<LogLimiter>,
}

enum Presented<'a> {
    Version2(v2::Presented<'a>),
    Version4(v4::Presented<'a>),
    S3Version2(s3_v2::Presented<'a>),
}

impl Verifier {
    /// A verifier that takes times up to `clock_skew` off.
    pub(crate) fn new(clock_skew: Duration) -> Verifier {
        Verifier {
            clock_skew,
            derived: v4::DerivedKeys::default(),
            log_limiter: Arc::default(),
        }
    }

    /// Where what it refuses is counted.
    pub(crate) fn log_limiter(&self) -> &Arc<LogLimiter> {
        &self.log_limiter
    }

    fn skew_s(&self) -> i64 {
        i64::try_from(self.clock_skew.as_secs()).unwrap_or(i64::MAX)
    }

    /// Whether a head may be that of a signed request: it names an active key and a time that is
    /// right. `query` are the parameters of its URI, if they can be read. Nothing is verified.
    ///
    /// # Errors
    /// What [`Verifier::verify`] says of a header that cannot be right, with any body.
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
        let is_signed = |secret: &str, derived: Option<&v4::DerivedKeys>| {
            presented.is_signed_with(secret, signed, derived)
        };
        self.verify_with(key_id, open_key, is_signed).map(Some)
    }

    /// The same of a request to S3, whose body comes later.
    pub(crate) fn verify_s3(
        &self,
        signed: &Signed<'_>,
        now_s: i64,
        open_key: impl FnOnce(&str) -> Result<Option<Arc<OpenKey>>, Refusal>,
    ) -> Result<Option<Signer>, Error> {
        let Some(presented) = presented_to_s3(signed)? else {
            return Ok(None);
        };
        let key_id = presented.check_time(now_s, self.skew_s())?;
        let is_signed = |secret: &str, derived: Option<&v4::DerivedKeys>| {
            presented.is_signed_with(secret, signed, derived)
        };
        let key = self.verify_with(key_id, open_key, is_signed)?;
        Ok(Some(Signer {
            chunks: presented.chunk_key(key.secret.reveal()),
            key,
        }))
    }

    /// The same of a form that a browser sends to S3: its policy is what is signed.
    pub(crate) fn verify_form(
        &self,
        form: &Form<'_>,
        now_s: i64,
        open_key: impl FnOnce(&str) -> Result<Option<Arc<OpenKey>>, Refusal>,
    ) -> Result<Arc<OpenKey>, Error> {
        let key_id = form.check_time(now_s, self.skew_s())?;
        self.verify_with(key_id, open_key, |secret, _| form.is_signed_with(secret))
    }

    /// The key of this id, if it is active and has signed. `is_signed` is asked for an unknown key
    /// too.
    fn verify_with(
        &self,
        key_id: &str,
        open_key: impl FnOnce(&str) -> Result<Option<Arc<OpenKey>>, Refusal>,
        is_signed: impl FnOnce(&str, Option<&v4::DerivedKeys>) -> bool,
    ) -> Result<Arc<OpenKey>, Error> {
        let key = match key_id.len() {
            1..=KEY_ID_BYTES_MAX => open_key(key_id).map_err(|refusal| unreadable(&refusal))?,
            _ => None,
        };
        let secret = key.as_ref().map_or(DUMMY_SECRET, |key| key.secret.reveal());
        let is_signed = is_signed(secret, key.is_some().then_some(&self.derived));
        match key {
            Some(key) if key.key.status == KeyStatus::Active && is_signed => Ok(key),
            Some(key) if key.key.status == KeyStatus::Active => Err(does_not_match()),
            Some(_) => {
                tracing::debug!(key_id, is_signed, "refused: the access key is disabled");
                self.log_limiter.add(&format!("disabled key {key_id}"));
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
            Presented::S3Version2(presented) => presented.check_time(now_s, skew_s),
        }
    }

    fn is_signed_with(
        &self,
        secret: &str,
        signed: &Signed<'_>,
        derived: Option<&v4::DerivedKeys>,
    ) -> bool {
        match self {
            Presented::Version2(presented) => presented.is_signed_with(secret, signed),
            Presented::Version4(presented) => presented.is_signed_with(secret, signed, derived),
            Presented::S3Version2(presented) => presented.is_signed_with(secret, signed),
        }
    }

    /// What chunks of the body are signed with, if they may be.
    fn chunk_key(&self, secret: &str) -> Option<ChunkKey> {
        match self {
            Presented::Version4(presented) => presented.chunk_key(secret),
            Presented::Version2(_) | Presented::S3Version2(_) => None,
        }
    }
}

/// The signature that a request presents. A header goes before parameters.
fn presented<'a>(signed: &Signed<'a>) -> Result<Option<Presented<'a>>, Error> {
    let presented = match signed.headers.get(AUTHORIZATION) {
        Some(header) => v4::Presented::in_header(header, signed.headers)
            .map(|presented| Some(Presented::Version4(presented))),
        None => in_parameters(signed.parameters),
    }?;
    match &presented {
        Some(Presented::Version4(version4)) if version4.service() == S3 => Err(v4::wrong_service()),
        _ => Ok(presented),
    }
}

/// The same of a request to S3, which has a version 2 of its own.
fn presented_to_s3<'a>(signed: &Signed<'a>) -> Result<Option<Presented<'a>>, Error> {
    let parameters = signed.parameters;
    let presented = match signed.headers.get(AUTHORIZATION) {
        Some(header) => match s3_v2::Presented::in_header(header, signed)? {
            Some(presented) => Some(Presented::S3Version2(presented)),
            None => v4::Presented::in_header(header, signed.headers)
                .map(|presented| Some(Presented::Version4(presented)))?,
        },
        None if parameters.get("X-Amz-Algorithm").is_some()
            || parameters.get("X-Amz-Signature").is_some() =>
        {
            in_parameters(parameters)?
        }
        None => s3_v2::Presented::in_query(parameters)?.map(Presented::S3Version2),
    };
    if let Some(Presented::Version4(version4)) = &presented {
        if version4.service() != S3 {
            return Err(v4::wrong_service());
        }
        if let Some(name) = version4.unsigned_header(signed.headers) {
            return Err(refuse(
                Code::AccessFailure,
                format!("There were headers present in the request which were not signed: {name}"),
            ));
        }
    }
    Ok(presented)
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

/// Keys cannot be read, as where a member does not serve: nothing was tried, and the caller is
/// unknown.
fn unreadable(refusal: &Refusal) -> Error {
    tracing::debug!(%refusal, "access keys cannot be read");
    let reason = match refusal {
        Refusal::Unavailable(why) if why.reason == Reason::UnknownKeys => why.reason,
        _ => Reason::NoMember,
    };
    Error::unavailable(reason, reason.sentence())
}

#[cfg(test)]
mod tests;
