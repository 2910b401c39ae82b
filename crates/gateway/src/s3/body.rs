//! A body of a request to S3, as it comes: never gathered, but for small XML.
//!
//! Invariants:
//! - SBODY-1 nothing is read before [`Source::next`] is asked, so that a client that expects
//!   `100 Continue` sends nothing that would be refused by its head.
//! - SBODY-2 a body that stands still, or trickles, is refused with RequestTimeout. Only time in
//!   which the server waits for its client counts.

use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use fader_services::s3::rows::Algorithm;
use http_body_util::BodyExt as _;
use hyper::HeaderMap;
use hyper::body::{Body as _, Incoming};

use crate::body::SMALL_BYTES;
use crate::room::Room;
use crate::s3::chunks::{Chunks, Fields};
use crate::s3::digest::{Digest, Told};
use crate::s3::fault::{
    Fault, incomplete_body, invalid_argument, invalid_request, missing_length, not_implemented,
    request_timeout, too_large,
};
use crate::signature::ChunkKey;

/// How long nothing may come of a body that is read.
const STILL_MAX: Duration = Duration::from_secs(20);
/// Bytes that come at least in that time: what is slower keeps its connection for nothing.
const BYTES_MIN: usize = 8 << 10;
/// What `x-amz-content-sha256` says of a body that is not hashed.
pub(crate) const UNSIGNED: &str = "UNSIGNED-PAYLOAD";
const CONTENT_HASH: &str = "x-amz-content-sha256";

/// How a body is framed, and what is told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Announced {
    /// What is told.
    pub(crate) told: Told,
    chunked: Option<Chunked>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Chunked {
    is_signed: bool,
    has_trailer: bool,
}

impl Announced {
    /// Reads what headers say of a body, of which `length` is known from HTTP.
    ///
    /// # Errors
    /// A hash, a checksum or a length that is none, or missing.
    pub(crate) fn read(headers: &HeaderMap, length: Option<u64>) -> Result<Announced, Fault> {
        let text = |name: &str| {
            headers
                .get(name)
                .map(|it| it.to_str().unwrap_or("\u{fffd}"))
        };
        let mut told = Told::read(headers)?;
        let hash = text(CONTENT_HASH).unwrap_or(UNSIGNED);
        let chunked = |is_signed, has_trailer| {
            Some(Chunked {
                is_signed,
                has_trailer,
            })
        };
        let chunked = match hash {
            UNSIGNED => None,
            "STREAMING-AWS4-HMAC-SHA256-PAYLOAD" => chunked(true, false),
            "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER" => chunked(true, true),
            "STREAMING-UNSIGNED-PAYLOAD-TRAILER" => chunked(false, true),
            other if other.starts_with("STREAMING-") => return Err(not_implemented(other)),
            other => {
                told.sha256 = Some(read_hash(other)?);
                None
            }
        };
        told.length = match chunked {
            None => length,
            Some(_) => {
                let decoded = text("x-amz-decoded-content-length");
                let decoded = decoded.ok_or_else(missing_length)?;
                Some(decoded.parse().map_err(|_| {
                    let name = "x-amz-decoded-content-length";
                    invalid_argument("The length is not a number.", name, decoded)
                })?)
            }
        };
        let is_of_trailer = matches!(told.checksum, Some((_, None)));
        if is_of_trailer && !chunked.is_some_and(|it| it.has_trailer) {
            return Err(invalid_request(
                "x-amz-trailer names a checksum, and the body has no trailer.",
            ));
        }
        Ok(Announced { told, chunked })
    }
}

fn read_hash(text: &str) -> Result<Vec<u8>, Fault> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let pairs = text.as_bytes().chunks(2).map(|pair| match pair {
        [high, low] => u8::try_from(digit(*high)? << 4 | digit(*low)?).ok(),
        _ => None,
    });
    let bytes: Option<Vec<u8>> = pairs.collect();
    bytes.filter(|bytes| bytes.len() == 32).ok_or_else(|| {
        invalid_argument(
            "x-amz-content-sha256 must be UNSIGNED-PAYLOAD, STREAMING-UNSIGNED-PAYLOAD-TRAILER, \
             STREAMING-AWS4-HMAC-SHA256-PAYLOAD, STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER or a \
             valid sha256 value.",
            CONTENT_HASH,
            text,
        )
    })
}

/// How fast a body comes.
#[derive(Default)]
struct Pace {
    waited: Duration,
    bytes: usize,
}

impl Pace {
    /// Notes bytes for which the server waited; whether that goes on.
    fn note(&mut self, waited: Duration, bytes: usize) -> bool {
        self.waited += waited;
        self.bytes += bytes;
        if self.waited < STILL_MAX {
            return true;
        }
        let is_enough = BYTES_MIN <= self.bytes;
        *self = Pace::default();
        is_enough
    }
}

/// The bytes of a body.
pub(crate) struct Source {
    incoming: Incoming,
    chunks: Option<Chunks>,
    pace: Pace,
    /// Came and not taken yet.
    pending: Bytes,
}

impl Source {
    /// The body as it is announced, with the key of its chunks.
    ///
    /// # Errors
    /// The chunks have to be signed, and the request is not signed in its header.
    pub(crate) fn new(
        incoming: Incoming,
        announced: &Announced,
        key: Option<ChunkKey>,
    ) -> Result<Source, Fault> {
        let chunks = match announced.chunked {
            None => None,
            Some(chunked) => {
                let key = key.filter(|_| chunked.is_signed);
                if chunked.is_signed && key.is_none() {
                    return Err(invalid_request(
                        "Signed chunks need a request that is signed by version 4 in its header.",
                    ));
                }
                Some(Chunks::new(key, chunked.has_trailer))
            }
        };
        Ok(Source {
            incoming,
            chunks,
            pace: Pace::default(),
            pending: Bytes::new(),
        })
    }

    /// A body as it is.
    pub(crate) fn plain(incoming: Incoming) -> Source {
        Source {
            incoming,
            chunks: None,
            pace: Pace::default(),
            pending: Bytes::new(),
        }
    }

    /// The bytes that come next; none at the end.
    ///
    /// # Errors
    /// The body stands still, is cut, or its chunks are wrong.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, Fault> {
        loop {
            if let Some(chunks) = &mut self.chunks
                && let Some(bytes) = chunks.next(&mut self.pending)?
            {
                return Ok(Some(bytes));
            }
            let since = Instant::now();
            let frame = tokio::time::timeout(STILL_MAX, self.incoming.frame()).await;
            let Some(frame) = frame.map_err(|_| request_timeout())? else {
                return Ok(None);
            };
            let frame = frame.map_err(|_| incomplete_body())?;
            let bytes = frame.data_ref().map_or(0, Bytes::len);
            if !self.pace.note(since.elapsed(), bytes) {
                return Err(request_timeout());
            }
            match frame.into_data() {
                Ok(data) if data.is_empty() => {}
                Ok(data) if self.chunks.is_none() => return Ok(Some(data)),
                Ok(data) => self.pending = data,
                Err(_) => {}
            }
        }
    }

    /// The fields of the trailer, at the end.
    ///
    /// # Errors
    /// The end of the chunks was not reached.
    pub(crate) fn trailer(self) -> Result<Fields, Fault> {
        self.chunks.map_or(Ok(Fields::new()), Chunks::finish)
    }

    /// All of a small body, compared with what is told of it.
    ///
    /// # Errors
    /// It is larger, broken, or not what is told.
    pub(crate) async fn gather(
        mut self,
        told: Told,
        bytes_max: usize,
        room: &Room,
    ) -> Result<Bytes, Fault> {
        let held = room.enter();
        let mut digest = Digest::new(told, Algorithm::Crc32);
        let mut gathered = BytesMut::new();
        while let Some(bytes) = self.next().await? {
            if bytes_max < gathered.len() + bytes.len() {
                return Err(too_large(digest.size(), bytes_max as u64));
            }
            if SMALL_BYTES < gathered.len() {
                held.take(bytes.len())
                    .await
                    .map_err(|_| request_timeout())?;
            }
            digest.update(&bytes).await?;
            gathered.extend_from_slice(&bytes);
        }
        let trailer = self.trailer()?;
        digest.finish(&trailer).await?;
        Ok(gathered.freeze())
    }
}

/// The length of a body, if HTTP says it.
pub(crate) fn length_of(incoming: &Incoming) -> Option<u64> {
    incoming.size_hint().exact()
}

#[cfg(test)]
mod tests {
    use hyper::header::{HeaderName, HeaderValue};

    use super::*;

    fn read(headers: &[(&'static str, &'static str)]) -> Result<Announced, &'static str> {
        let pairs = headers.iter().map(|(name, value)| {
            let name = HeaderName::from_static(name);
            (name, HeaderValue::from_static(value))
        });
        Announced::read(&pairs.collect(), Some(9)).map_err(|fault| fault.code)
    }

    /// It shows SBODY-2.
    #[test]
    fn a_body_that_trickles_is_ended_and_one_that_the_server_keeps_waiting_is_not() {
        let second = Duration::from_secs(1);
        let mut pace = Pace::default();
        let ended = (1..).find(|_| !pace.note(second, 1));
        assert_eq!(ended, Some(20));
        let mut pace = Pace::default();
        assert!((0..1000).all(|_| pace.note(second, BYTES_MIN / 20 + 1)));
        assert!((0..1000).all(|_| pace.note(Duration::ZERO, 1)));
    }

    #[test]
    fn an_announced_checksum_is_understood_or_refused() {
        let hash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(read(&[]).map(|it| it.told.length), Ok(Some(9)));
        let signed = read(&[(CONTENT_HASH, hash)]).map(|it| it.told.sha256.is_some());
        assert_eq!(signed, Ok(true));
        let decoded = ("x-amz-decoded-content-length", "5");
        let chunked = (CONTENT_HASH, "STREAMING-UNSIGNED-PAYLOAD-TRAILER");
        let trailer = ("x-amz-trailer", "x-amz-checksum-crc32");
        let told = read(&[chunked, decoded, trailer]).map(|it| it.told.length);
        assert_eq!(told, Ok(Some(5)));
        for (headers, code) in [
            (vec![chunked], "MissingContentLength"),
            (vec![(CONTENT_HASH, "abc")], "InvalidArgument"),
            (
                vec![(CONTENT_HASH, "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD")],
                "NotImplemented",
            ),
            (vec![trailer], "InvalidRequest"),
            (
                vec![chunked, decoded, ("x-amz-trailer", "x-other")],
                "InvalidRequest",
            ),
            (vec![("content-md5", "AAAA")], "InvalidDigest"),
            (vec![("x-amz-checksum-md5", "AAAA")], "InvalidRequest"),
            (vec![("x-amz-checksum-crc32", "AAAA")], "InvalidRequest"),
            (
                vec![
                    ("x-amz-checksum-crc32", "AAAAAA=="),
                    ("x-amz-checksum-crc32c", "AAAAAA=="),
                ],
                "InvalidRequest",
            ),
            (
                vec![("x-amz-sdk-checksum-algorithm", "CRC32")],
                "InvalidRequest",
            ),
        ] {
            assert_eq!(read(&headers), Err(code), "{headers:?}");
        }
    }
}
