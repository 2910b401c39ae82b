//! S3's own signature version 2: HMAC-SHA1 of some headers and of the resource.
//!
//! ```text
//! in the header   Authorization: AWS key:signature, with Date or x-amz-date
//! in the query    AWSAccessKeyId, Expires (seconds since 1970), Signature
//! ```
//!
//! Invariants:
//! - SIGN-4 every parameter that chooses an operation, a version, a part or a header of the reply
//!   is signed. Parameters of lists are not: the version leaves them out. Those of AWS's own in a
//!   presigned URL are signed as headers, and come as such (`s3::presigned`).
//!
//! Deliberately absent: the signature of a body, which the version has not.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use fader_services::simpledb::{Code, Error};
use hmac::{Hmac, KeyInit, Mac};
use hyper::header::{CONTENT_TYPE, DATE, HeaderMap, HeaderValue};
use sha1::Sha1;
use subtle::ConstantTimeEq;

use super::{Signed, expired, incomplete, time};
use crate::parameters::Parameters;
use crate::refusal::refuse;

/// Parameters that are signed, sorted.
const SIGNED: [&str; 46] = [
    "accelerate",
    "acl",
    "analytics",
    "attributes",
    "cors",
    "delete",
    "encryption",
    "intelligent-tiering",
    "inventory",
    "legal-hold",
    "lifecycle",
    "list-type",
    "location",
    "logging",
    "metadataTable",
    "metrics",
    "notification",
    "object-lock",
    "ownershipControls",
    "partNumber",
    "policy",
    "policyStatus",
    "publicAccessBlock",
    "renameObject",
    "replication",
    "requestPayment",
    "response-cache-control",
    "response-content-disposition",
    "response-content-encoding",
    "response-content-language",
    "response-content-type",
    "response-expires",
    "restore",
    "retention",
    "select",
    "select-type",
    "session",
    "storageClass",
    "tagging",
    "torrent",
    "uploadId",
    "uploads",
    "versionId",
    "versioning",
    "versions",
    "website",
];
/// Signed only by those clients that know it: tried both ways.
const LIST_TYPE: &str = "list-type";

/// A signature as presented; nothing of it is trusted yet.
pub(super) struct Presented<'a> {
    key_id: &'a str,
    signature: &'a str,
    time: Time<'a>,
}

enum Time<'a> {
    /// Of a header: the text of the date, empty where `x-amz-date` is signed in its place.
    Date(&'a str, i64),
    /// Seconds since 1970.
    Expires(&'a str),
}

impl<'a> Presented<'a> {
    /// Reads an `Authorization` header, if it is of this version.
    pub(super) fn in_header(
        header: &'a HeaderValue,
        signed: &Signed<'a>,
    ) -> Result<Option<Self>, Error> {
        let fields = header.to_str().ok().and_then(|it| it.strip_prefix("AWS "));
        let Some(fields) = fields else {
            return Ok(None);
        };
        let (key_id, signature) = fields.trim().rsplit_once(':').ok_or_else(|| {
            incomplete("Authorization must be AWS, the id of the key, a colon and the signature")
        })?;
        let text = |value: Option<&'a HeaderValue>| value.and_then(|it| it.to_str().ok());
        let own = text(signed.headers.get("x-amz-date"));
        let date = text(signed.headers.get(DATE));
        let read = own.or(date).and_then(time::http).filter(|at_s| 0 <= *at_s);
        let at_s = read.ok_or_else(|| {
            let message = "AWS authentication requires a valid Date or x-amz-date header";
            refuse(Code::AccessFailure, message)
        })?;
        let shown = if own.is_some() {
            ""
        } else {
            date.unwrap_or("")
        };
        Ok(Some(Presented {
            key_id,
            signature,
            time: Time::Date(shown, at_s),
        }))
    }

    /// Reads a presigned URL, if it is one.
    pub(super) fn in_query(parameters: &'a Parameters<'_>) -> Result<Option<Self>, Error> {
        let get = |name| parameters.get(name);
        match (get("AWSAccessKeyId"), get("Signature"), get("Expires")) {
            (None, None, _) => Ok(None),
            (Some(key_id), Some(signature), Some(expires)) => Ok(Some(Presented {
                key_id,
                signature,
                time: Time::Expires(expires),
            })),
            _ => Err(incomplete(
                "Query-string authentication needs Signature, Expires and AWSAccessKeyId",
            )),
        }
    }

    /// The key's id, if the request is neither too old nor from the future.
    pub(super) fn check_time(&self, now_s: i64, skew_s: i64) -> Result<&'a str, Error> {
        match self.time {
            Time::Date(shown, at_s) if now_s.abs_diff(at_s) > skew_s.unsigned_abs() => {
                Err(expired("Date", shown))
            }
            Time::Expires(text) => match text.parse::<i64>() {
                Ok(at_s) if now_s <= at_s => Ok(self.key_id),
                Ok(_) => Err(expired("Expires", text)),
                Err(_) => Err(refuse(
                    Code::AccessFailure,
                    format!("Invalid date (should be seconds since epoch): {text}"),
                )),
            },
            Time::Date(..) => Ok(self.key_id),
        }
    }

    /// Whether the request is signed with `secret`.
    pub(super) fn is_signed_with(&self, secret: &str, signed: &Signed<'_>) -> bool {
        let Ok(signature) = BASE64.decode(self.signature) else {
            return false;
        };
        let (Time::Date(date, _) | Time::Expires(date)) = self.time;
        let is_signed = |with_list_type, with_slash| {
            let text = to_sign(signed, date, with_list_type, with_slash);
            let mut mac = <Hmac<Sha1> as KeyInit>::new_from_slice(secret.as_bytes())
                .expect("HMAC takes a key of any length");
            mac.update(&text);
            bool::from(mac.finalize().into_bytes().ct_eq(&signature))
        };
        let has_list_type = signed.parameters.get(LIST_TYPE).is_some();
        // Some clients sign the path of a bucket with a slash behind it, and send it without.
        let is_bucket = signed.bucket_in_host.is_none()
            && !signed.path.get(1..).is_some_and(|it| it.contains('/'));
        let ways = [(false, false), (true, false), (false, true), (true, true)];
        let mut ways = ways.into_iter().filter(|(with_list_type, with_slash)| {
            (has_list_type || !with_list_type) && (is_bucket || !with_slash)
        });
        ways.any(|(with_list_type, with_slash)| is_signed(with_list_type, with_slash))
    }
}

/// The text that is signed.
fn to_sign(signed: &Signed<'_>, date: &str, with_list_type: bool, with_slash: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    let header = |name| {
        signed
            .headers
            .get(name)
            .map_or(b"".as_slice(), |it| it.as_bytes())
    };
    let content_type = signed.headers.get(CONTENT_TYPE);
    for line in [
        signed.method.as_bytes(),
        header("content-md5"),
        content_type.map_or(b"".as_slice(), |it| it.as_bytes()),
        date.as_bytes(),
    ] {
        out.extend_from_slice(line);
        out.push(b'\n');
    }
    headers(signed.headers, &mut out);
    if let Some(bucket) = signed.bucket_in_host {
        out.push(b'/');
        out.extend_from_slice(bucket.as_bytes());
    }
    out.extend_from_slice(signed.path.as_bytes());
    if with_slash {
        out.push(b'/');
    }
    let mut mark = b'?';
    for parameter in signed.parameters.all() {
        let is_known = SIGNED.binary_search(&&*parameter.name).is_ok();
        if !is_known || (parameter.name == LIST_TYPE && !with_list_type) {
            continue;
        }
        out.push(mark);
        mark = b'&';
        out.extend_from_slice(parameter.name.as_bytes());
        if !parameter.value.is_empty() {
            out.push(b'=');
            out.extend_from_slice(parameter.value.as_bytes());
        }
    }
    out
}

/// Headers of AWS's own, sorted, each on a line.
fn headers(headers: &HeaderMap, out: &mut Vec<u8>) {
    let mut names: Vec<&str> = headers.keys().map(|it| it.as_str()).collect();
    names.retain(|name| name.starts_with("x-amz-"));
    names.sort_unstable();
    for name in names {
        out.extend_from_slice(name.as_bytes());
        out.push(b':');
        for (at, value) in headers.get_all(name).iter().enumerate() {
            if 0 < at {
                out.push(b',');
            }
            out.extend_from_slice(value.as_bytes().trim_ascii());
        }
        out.push(b'\n');
    }
}

/// Whether a policy is signed with a secret.
pub(super) fn is_text_signed(secret: &str, text: &str, signature: &str) -> bool {
    let Ok(signature) = BASE64.decode(signature) else {
        return false;
    };
    let mut mac = <Hmac<Sha1> as KeyInit>::new_from_slice(secret.as_bytes())
        .expect("HMAC takes a key of any length");
    mac.update(text.as_bytes());
    bool::from(mac.finalize().into_bytes().ct_eq(&signature))
}
