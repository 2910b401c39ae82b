//! What is computed over the bytes of a body, and compared with what the client says of them.
//!
//! Invariants:
//! - SDIGEST-1 every hash, checksum and length that a request names is compared before anything is
//!   committed. Content-MD5 and the payload's hash are compared in constant time.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use fader_services::s3::rows::{Algorithm, Checksum};
use hyper::HeaderMap;
use md5_many::Md5State;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq;

use crate::s3::checksum::{self, Sum};
use crate::s3::chunks::Fields;
use crate::s3::fault::{Fault, bad_digest, incomplete_body, invalid_request};
use crate::s3::md5s::{self, Md5s};

/// The MD5 of a body of at least so many bytes is worth the way to another thread.
const LARGE_BYTES: u64 = 1 << 20;

/// A checksum that a client tells of: one without a value comes in the trailer.
type ToldChecksum = (Algorithm, Option<Vec<u8>>);

/// What a client says of a body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    /// Its length; of chunks that of what they carry.
    pub(crate) length: Option<u64>,
    /// Content-MD5.
    pub(crate) md5: Option<Vec<u8>>,
    /// The hash that is signed.
    pub(crate) sha256: Option<Vec<u8>>,
    /// A checksum.
    pub(crate) checksum: Option<ToldChecksum>,
}

impl Told {
    /// Reads Content-MD5, the checksum and the announced field of a trailer.
    ///
    /// # Errors
    /// InvalidDigest and InvalidRequest.
    pub(crate) fn read(headers: &HeaderMap) -> Result<Told, Fault> {
        let text = |name: &str| {
            headers
                .get(name)
                .map(|it| it.to_str().unwrap_or("\u{fffd}"))
        };
        let md5 = match text("content-md5") {
            None => None,
            Some(value) => {
                let bytes = BASE64.decode(value.trim()).ok();
                let bytes = bytes.filter(|bytes| bytes.len() == 16);
                let invalid = || {
                    Fault::new(
                        "InvalidDigest",
                        400,
                        "The Content-MD5 you specified is not valid.",
                    )
                };
                Some(bytes.ok_or_else(invalid)?)
            }
        };
        Ok(Told {
            md5,
            checksum: checksum_of(headers)?,
            ..Told::default()
        })
    }
}

fn checksum_of(headers: &HeaderMap) -> Result<Option<ToldChecksum>, Fault> {
    let text = |name: &str| {
        headers
            .get(name)
            .map(|it| it.to_str().unwrap_or("\u{fffd}"))
    };
    let mut found = None;
    if let Some(algorithm) = checksum::sent(headers)? {
        let value = text(checksum::header(algorithm)).unwrap_or_default();
        found = Some((algorithm, Some(checksum::decode(algorithm, value)?)));
    }
    let trailers = text("x-amz-trailer")
        .into_iter()
        .flat_map(|it| it.split(','));
    for name in trailers.map(str::trim).filter(|name| !name.is_empty()) {
        let algorithm = checksum::of_header(name).ok_or_else(|| {
            invalid_request("The value specified in the x-amz-trailer header is not supported")
        })?;
        if found.replace((algorithm, None)).is_some() {
            return Err(checksum::multiple());
        }
    }
    if let Some(name) = text("x-amz-sdk-checksum-algorithm") {
        let algorithm = checksum::named(name)?;
        match &found {
            Some((found, _)) if *found == algorithm => {}
            Some(_) => {
                return Err(invalid_request(
                    "Value for x-amz-sdk-checksum-algorithm header is invalid.",
                ));
            }
            None => {
                return Err(invalid_request(
                    "x-amz-sdk-checksum-algorithm specified, but no corresponding \
                     x-amz-checksum-* or x-amz-trailer headers were found.",
                ));
            }
        }
    }
    Ok(found)
}

/// What the bytes of a body come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sums {
    /// The MD5 in hexadecimal digits: the ETag.
    pub(crate) etag: String,
    /// The checksum.
    pub(crate) checksum: Checksum,
    /// How many there were.
    pub(crate) size: u64,
}

/// Where the MD5 of a body is computed.
enum Md5 {
    /// With the rest.
    Here(Md5State),
    /// Beside those of other bodies.
    Beside(md5s::Body),
}

/// Computes over bytes as they come.
pub(crate) struct Digest {
    told: Told,
    size: u64,
    md5: Md5,
    sha256: Option<Sha256>,
    sum: Sum,
}

impl Digest {
    /// Of no bytes. `default` is computed where the client names no checksum.
    pub(crate) fn new(told: Told, default: Algorithm) -> Digest {
        let algorithm = told.checksum.as_ref().map_or(default, |it| it.0);
        Digest {
            size: 0,
            md5: Md5::Here(Md5State::new()),
            sha256: told.sha256.as_ref().map(|_| Sha256::new()),
            sum: Sum::new(algorithm),
            told,
        }
    }

    /// The same of a body of `size` bytes. The MD5 of a large one is computed beside others.
    pub(crate) fn sized(told: Told, default: Algorithm, size: u64, md5s: &Md5s) -> Digest {
        let mut digest = Digest::new(told, default);
        if LARGE_BYTES <= size {
            digest.md5 = Md5::Beside(md5s.begin());
        }
        digest
    }

    /// Takes the bytes that follow.
    ///
    /// # Errors
    /// More bytes than were told of.
    pub(crate) async fn update(&mut self, bytes: &Bytes) -> Result<(), Fault> {
        self.size += bytes.len() as u64;
        if self.told.length.is_some_and(|length| length < self.size) {
            return Err(incomplete_body());
        }
        match &mut self.md5 {
            Md5::Here(md5) => md5.update(bytes),
            Md5::Beside(body) => body.update(bytes.clone()).await?,
        }
        if let Some(sha256) = &mut self.sha256 {
            sha256.update(bytes);
        }
        self.sum.update(bytes);
        Ok(())
    }

    /// How many bytes came.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Compares everything: nothing more will come.
    ///
    /// # Errors
    /// IncompleteBody, BadDigest, XAmzContentSHA256Mismatch.
    pub(crate) async fn finish(self, trailer: &Fields) -> Result<Sums, Fault> {
        let told = self.told;
        if told.length.is_some_and(|length| length != self.size) {
            return Err(incomplete_body());
        }
        if let (Some(sha256), Some(hash)) = (self.sha256, &told.sha256)
            && !bool::from(sha256.finalize().as_slice().ct_eq(hash))
        {
            return Err(Fault::new(
                "XAmzContentSHA256Mismatch",
                400,
                "The provided 'x-amz-content-sha256' header does not match what was computed.",
            ));
        }
        let md5 = match self.md5 {
            Md5::Here(md5) => md5.finalize(),
            Md5::Beside(body) => body.finish().await?,
        };
        if let Some(expected) = &told.md5
            && !bool::from(md5.as_slice().ct_eq(expected))
        {
            return Err(bad_digest("Content-MD5"));
        }
        let algorithm = self.sum.algorithm();
        let sum = self.sum.finish();
        let expected = match told.checksum {
            Some((_, None)) => {
                let name = checksum::header(algorithm);
                let field = trailer.iter().find(|(field, _)| field == name);
                let missing = || {
                    invalid_request(format!(
                        "The trailer has no {name}, which x-amz-trailer names."
                    ))
                };
                let (_, value) = field.ok_or_else(missing)?;
                Some(checksum::decode(algorithm, value)?)
            }
            Some((_, value)) => value,
            None => None,
        };
        if expected.is_some_and(|expected| expected != sum) {
            return Err(bad_digest(checksum::name(algorithm)));
        }
        Ok(Sums {
            etag: const_hex::encode(md5),
            checksum: checksum::whole(algorithm, &sum),
            size: self.size,
        })
    }
}

#[cfg(test)]
mod tests;
