//! Reads a request's body, bounded.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};

use crate::room::{Held, Room};

/// How many times the limit is read and dropped, so that a client that sends a little too much
/// hears why before its connection ends.
const DRAIN_FACTOR: u64 = 4;
/// Bodies up to this many bytes need no room of their own: the connections bound them.
pub(crate) const SMALL_BYTES: usize = 16 << 10;

/// How long a body is waited for that is not wanted.
const MOMENT: Duration = Duration::from_secs(1);

/// Why there is no body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyError {
    /// It has more bytes than allowed.
    TooLarge,
    /// The client went away, or its framing is wrong.
    Broken,
    /// Bodies took all the room, and this one made least progress.
    Slow,
}

/// What has come of a body.
#[derive(Default)]
struct Parts {
    /// One frame is the rule: it is taken as it is, without a copy.
    first: Bytes,
    joined: BytesMut,
}

impl Parts {
    fn len(&self) -> usize {
        self.first.len() + self.joined.len()
    }

    fn push(&mut self, data: Bytes) {
        if self.len() == 0 {
            self.first = data;
            return;
        }
        if self.joined.is_empty() {
            self.joined
                .extend_from_slice(&std::mem::take(&mut self.first));
        }
        self.joined.extend_from_slice(&data);
    }

    fn whole(self) -> Bytes {
        match self.joined.is_empty() {
            true => self.first,
            false => self.joined.freeze(),
        }
    }
}

/// The whole body, of at most `bytes_max` bytes, and what it holds of `room` if it is not small.
pub(crate) async fn read(
    mut body: Incoming,
    bytes_max: usize,
    room: &Room,
) -> Result<(Bytes, Option<Held<'_>>), BodyError> {
    if body.size_hint().lower() > bytes_max as u64 {
        return Err(drain(body, bytes_max).await);
    }
    let mut parts = Parts::default();
    let mut held: Option<Held<'_>> = None;
    loop {
        let frame = match &held {
            None => body.frame().await,
            Some(held) => tokio::select! {
                biased;
                _ = held.cut() => return Err(BodyError::Slow),
                frame = body.frame() => frame,
            },
        };
        let Some(frame) = frame else { break };
        let Ok(data) = frame.map_err(|_| BodyError::Broken)?.into_data() else {
            continue;
        };
        let size = parts.len() + data.len();
        if size > bytes_max {
            drop((parts, held));
            return Err(drain(body, bytes_max).await);
        }
        if SMALL_BYTES < size {
            let taken = match &held {
                Some(held) => held.take(data.len()).await,
                None => held.insert(room.enter()).take(size).await,
            };
            taken.map_err(|_| BodyError::Slow)?;
        }
        parts.push(data);
    }
    if let Some(held) = &held {
        held.is_whole();
    }
    Ok((parts.whole(), held))
}

/// The whole body, of at most `bytes_max` bytes, which are few.
pub(crate) async fn read_small(body: Incoming, bytes_max: usize) -> Result<Bytes, BodyError> {
    let room = Room::new(bytes_max);
    read(body, bytes_max.min(SMALL_BYTES), &room)
        .await
        .map(|(body, _)| body)
}

/// Drops what comes in a moment, so that a client hears why its body is not wanted.
pub(crate) async fn pass_by(body: Incoming, bytes_max: usize) {
    let _ = tokio::time::timeout(MOMENT, drain(body, bytes_max)).await;
}

/// Drops what comes, up to some times the limit: a client that hears a reply has sent all.
async fn drain(mut body: Incoming, bytes_max: usize) -> BodyError {
    let mut bytes_left = (bytes_max as u64).saturating_mul(DRAIN_FACTOR);
    if body.size_hint().lower() > bytes_left {
        return BodyError::TooLarge;
    }
    while let Some(Ok(frame)) = body.frame().await {
        let count = frame.data_ref().map_or(0, Bytes::len) as u64;
        match bytes_left.checked_sub(count) {
            Some(left) => bytes_left = left,
            None => break,
        }
    }
    BodyError::TooLarge
}
