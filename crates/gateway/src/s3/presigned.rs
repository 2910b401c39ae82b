//! Headers that a presigned URL carries among its parameters. SDKs put `x-amz-meta-…` and the like
//! there, so that a user of the URL need not know them.
//!
//! Invariants:
//! - SPRESIGN-1 only what the signature covers is taken as a header. Version 4 signs all
//!   parameters. Version 2 signs these as headers (`signature::s3_v2`).
//! - a header that is sent goes before a parameter of its name.
//!
//! Deliberately absent: checksums of version 4, which AWS passes over: SDKs sign those of an empty
//! body.

use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, HeaderName, HeaderValue};
use hyper::http::request::Parts;

use crate::parameters::Parameters;
use crate::s3::fault::{Fault, invalid_argument};

const OWN: &str = "x-amz-";
/// Parameters that are about the signature, or about a body that is not known when it is made.
const LEFT_OUT: [&str; 11] = [
    "x-amz-algorithm",
    "x-amz-content-sha256",
    "x-amz-credential",
    "x-amz-date",
    "x-amz-decoded-content-length",
    "x-amz-expires",
    "x-amz-sdk-checksum-algorithm",
    "x-amz-security-token",
    "x-amz-signature",
    "x-amz-signedheaders",
    "x-amz-trailer",
];

/// How a URL is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    /// With S3's own version 2.
    Two,
    /// With version 4.
    Four,
}

impl Version {
    /// The version by which parameters sign, where no header does.
    pub(crate) fn of(headers: &HeaderMap, parameters: &Parameters<'_>) -> Option<Version> {
        let has = |name| parameters.get(name).is_some();
        if headers.contains_key(AUTHORIZATION) {
            None
        } else if has("X-Amz-Signature") {
            Some(Version::Four)
        } else if has("Signature") && has("AWSAccessKeyId") {
            Some(Version::Two)
        } else {
            None
        }
    }

    fn carries(self, name: &str) -> bool {
        let is_left_out = || LEFT_OUT.contains(&name) || name.starts_with("x-amz-checksum-");
        name.starts_with(OWN) && (self == Version::Two || !is_left_out())
    }
}

/// A head with what its URL carries; `None` where that is nothing.
///
/// # Errors
/// InvalidArgument when a value can be no header.
pub(crate) fn with_carried(
    parts: &Parts,
    parameters: &Parameters<'_>,
) -> Result<Option<Parts>, Fault> {
    let Some(version) = Version::of(&parts.headers, parameters) else {
        return Ok(None);
    };
    let mut whole = None;
    for parameter in parameters.all() {
        let name = parameter.name.to_ascii_lowercase();
        if !version.carries(&name) || parts.headers.contains_key(&name) {
            continue;
        }
        let pair = HeaderName::from_bytes(name.as_bytes())
            .ok()
            .zip(HeaderValue::from_bytes(parameter.value.as_bytes()).ok());
        let (name, value) = pair.ok_or_else(|| {
            invalid_argument("The parameter can be no header.", &name, &*parameter.value)
        })?;
        let whole = whole.get_or_insert_with(|| parts.clone());
        whole.headers.append(name, value);
    }
    Ok(whole)
}

#[cfg(test)]
mod tests {
    use hyper::Request;

    use super::*;

    fn carried(query: &str, sent: &[(&str, &str)]) -> Vec<(String, String)> {
        let mut request = Request::builder();
        for (name, value) in sent {
            request = request.header(*name, *value);
        }
        let (parts, ()) = request.body(()).expect("it is one").into_parts();
        let parameters = Parameters::read(query.as_bytes(), b"", 100).expect("they are some");
        let whole = with_carried(&parts, &parameters).expect("they can be headers");
        let headers = whole.map(|whole| whole.headers).unwrap_or_default();
        let pairs = headers.iter().filter(|it| it.0.as_str().starts_with(OWN));
        pairs
            .map(|it| (it.0.to_string(), it.1.to_str().expect("text").to_owned()))
            .collect()
    }

    /// It shows SPRESIGN-1.
    #[test]
    fn a_signed_url_carries_headers_and_no_other_does() {
        const FOUR: &str = "X-Amz-Signature=0&X-Amz-Date=1&X-Amz-Meta-A=b%20c";
        const TWO: &str = "AWSAccessKeyId=k&Signature=0&x-amz-meta-a=b&x-amz-checksum-crc32=x";
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(carried(FOUR, &[]), [pair("x-amz-meta-a", "b c")]);
        assert_eq!(
            carried(TWO, &[]),
            [pair("x-amz-checksum-crc32", "x"), pair("x-amz-meta-a", "b")]
        );
        let checksum = format!("{FOUR}&x-amz-checksum-crc32=x&x-amz-sdk-checksum-algorithm=CRC32");
        assert_eq!(carried(&checksum, &[]).len(), 1);
        assert_eq!(carried(FOUR, &[("x-amz-meta-a", "sent")]), []);
        assert_eq!(carried(FOUR, &[("authorization", "AWS k:s")]), []);
        assert_eq!(carried("x-amz-meta-a=b", &[]), []);
        assert_eq!(carried("X-Amz-Signature=0&meta=b", &[]), []);
    }
}
