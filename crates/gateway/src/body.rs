//! Reads a request's body, bounded.

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};

/// How many times the limit is read and dropped, so that a client that sends a little too much
/// hears why before its connection ends.
const DRAIN_FACTOR: u64 = 4;

/// Why there is no body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyError {
    /// It has more bytes than allowed.
    TooLarge,
    /// The client went away, or its framing is wrong.
    Broken,
}

/// The whole body, of at most `bytes_max` bytes.
pub(crate) async fn read(mut body: Incoming, bytes_max: usize) -> Result<Bytes, BodyError> {
    let announced = body.size_hint().lower();
    if announced > bytes_max as u64 {
        return drain(body, (bytes_max as u64).saturating_mul(DRAIN_FACTOR)).await;
    }
    // One frame is the rule: it is taken as it is, without a copy.
    let mut first = Bytes::new();
    let mut joined = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| BodyError::Broken)?.into_data() else {
            continue;
        };
        if first.len() + joined.len() + data.len() > bytes_max {
            return drain(body, (bytes_max as u64).saturating_mul(DRAIN_FACTOR)).await;
        }
        if joined.is_empty() && first.is_empty() {
            first = data;
        } else {
            if joined.is_empty() {
                joined.reserve(usize::try_from(announced).unwrap_or(0).max(first.len()));
                joined.extend_from_slice(&std::mem::take(&mut first));
            }
            joined.extend_from_slice(&data);
        }
    }
    Ok(if joined.is_empty() {
        first
    } else {
        joined.freeze()
    })
}

/// Drops what comes, up to a limit.
async fn drain(mut body: Incoming, mut bytes_left: u64) -> Result<Bytes, BodyError> {
    if body.size_hint().lower() > bytes_left {
        return Err(BodyError::TooLarge);
    }
    while let Some(Ok(frame)) = body.frame().await {
        let count = frame.data_ref().map_or(0, Bytes::len) as u64;
        match bytes_left.checked_sub(count) {
            Some(left) => bytes_left = left,
            None => break,
        }
    }
    Err(BodyError::TooLarge)
}
