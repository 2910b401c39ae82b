//! Bodies of replies: whole, or in pieces as they are read.
//!
//! Invariants:
//! - OUTGOING-1 a reply in pieces has the length that its head says, or its connection is cut.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::stream::{BoxStream, StreamExt as _};
use http_body_util::Full;
use hyper::body::{Body, Frame, SizeHint};

/// The rest of a reply cannot be read: its connection is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the rest of the reply cannot be read")]
pub(crate) struct Cut;

/// The body of a reply.
pub(crate) enum Outgoing {
    /// All of it.
    Whole(Full<Bytes>),
    /// Pieces, each read when the one before is sent, and how many bytes are left.
    Pieces(BoxStream<'static, Result<Bytes, Cut>>, u64),
}

impl From<Full<Bytes>> for Outgoing {
    fn from(whole: Full<Bytes>) -> Self {
        Outgoing::Whole(whole)
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        match &mut *self {
            Outgoing::Whole(whole) => {
                let frame = ready!(Pin::new(whole).poll_frame(context));
                Poll::Ready(frame.map(|frame| frame.map_err(|never: Infallible| match never {})))
            }
            Outgoing::Pieces(_, 0) => Poll::Ready(None),
            Outgoing::Pieces(pieces, left) => {
                let piece = ready!(pieces.poll_next_unpin(context)).unwrap_or(Err(Cut));
                let piece = piece.and_then(|bytes| {
                    *left = left.checked_sub(bytes.len() as u64).ok_or(Cut)?;
                    Ok(Frame::data(bytes))
                });
                Poll::Ready(Some(piece))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Outgoing::Whole(whole) => whole.is_end_stream(),
            Outgoing::Pieces(_, left) => *left == 0,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Outgoing::Whole(whole) => whole.size_hint(),
            Outgoing::Pieces(_, left) => SizeHint::with_exact(*left),
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use futures_util::stream;

    use super::*;

    async fn collected(pieces: &[&'static str], length: u64) -> Result<Bytes, Cut> {
        let pieces = pieces
            .iter()
            .map(|piece| Ok(Bytes::from_static(piece.as_bytes())));
        let pieces: Vec<_> = pieces.collect();
        let body = Outgoing::Pieces(stream::iter(pieces).boxed(), length);
        assert_eq!(body.size_hint().exact(), Some(length));
        body.collect().await.map(|body| body.to_bytes())
    }

    /// It shows OUTGOING-1.
    #[tokio::test]
    async fn a_reply_in_pieces_is_whole_or_cut() {
        assert_eq!(
            collected(&["ab", "c"], 3).await,
            Ok(Bytes::from_static(b"abc"))
        );
        assert_eq!(collected(&[], 0).await, Ok(Bytes::new()));
        assert_eq!(collected(&["ab"], 3).await, Err(Cut));
        assert_eq!(collected(&["abcd"], 3).await, Err(Cut));
    }
}
