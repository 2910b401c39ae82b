//! Bytes of an object on their way out: from the index, and from blocks, a piece at a time.
//!
//! Invariants:
//! - all bytes are of one version: each page of the index is asked for it, by id and
//!   ETag.

use std::collections::VecDeque;

use bytes::Bytes;
use fader_node::{Node, Unread};
use fader_services::request::own;
use fader_services::s3::command::{Extent, GetObject};
use fader_services::s3::conditions::{Etags, ReadConditions};
use fader_services::s3::reply::{Found, Piece, Pieces};
use fader_services::s3::{Code, Command, Error, Reply, S3};
use futures_util::stream::{self, StreamExt as _};
use http_body_util::Full;

use super::caller::By;
use super::{odd, of_trouble};
use crate::outgoing::{Cut, Outgoing};
use crate::s3::fault::Fault;

/// Bytes of a block that are read at once: reads end where multiples of it do, and so with pieces.
const READ_BYTES: u64 = 1 << 20;

/// Why bytes are not there.
pub(super) enum Unreadable {
    /// The version was replaced: the index knows.
    Gone,
    /// Anything else.
    Fault(Fault),
}

impl From<Fault> for Unreadable {
    fn from(fault: Fault) -> Self {
        Unreadable::Fault(fault)
    }
}

impl From<Unreadable> for Fault {
    fn from(unreadable: Unreadable) -> Fault {
        match unreadable {
            Unreadable::Gone => {
                let message = "The object was replaced while it was read. Please try again.";
                Error::new(Code::InternalError, message).into()
            }
            Unreadable::Fault(fault) => fault,
        }
    }
}

/// Reads the bytes of one version, from one of them to another.
pub(super) struct Reader {
    node: Node,
    by: By,
    /// Asks for a page of the index.
    page: GetObject,
    /// The next byte, and where the bytes end.
    at: u64,
    end: u64,
    /// Pieces, and where the first one begins.
    pieces: VecDeque<Piece>,
    pieces_at: u64,
}

impl Reader {
    /// The bytes from `start` to `end` of what was found.
    pub(super) fn new(
        node: &Node,
        by: &By,
        asked: &GetObject,
        found: &mut Found,
        start: u64,
        end: u64,
    ) -> Reader {
        let etag = found
            .object()
            .map_or_else(String::new, |object| object.etag.clone());
        let Pieces { at, pieces, .. } = std::mem::take(&mut found.extent);
        Reader {
            node: node.clone(),
            by: by.clone(),
            page: GetObject {
                version: Some(found.version.id),
                conditions: ReadConditions {
                    if_match: Some(Etags::Of(vec![etag])),
                    ..ReadConditions::default()
                },
                ..asked.clone()
            },
            at: start,
            end,
            pieces: pieces.into(),
            pieces_at: at,
        }
    }

    /// The bytes that come next; none at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Unreadable> {
        while self.at < self.end {
            let Some(piece) = self.pieces.front() else {
                self.turn_page().await?;
                continue;
            };
            let piece_end = self.pieces_at + piece.size();
            if self.at < self.pieces_at || piece_end <= self.at {
                self.pieces_at = piece_end;
                self.pieces.pop_front();
                continue;
            }
            let offset = self.at - self.pieces_at;
            let to_boundary = READ_BYTES - offset % READ_BYTES;
            let count = (piece_end.min(self.end) - self.at).min(to_boundary);
            let bytes = match piece {
                Piece::Inline(bytes) => bytes.slice(index(offset)..index(offset + count)),
                Piece::Block(block) => {
                    let range = narrow(offset)..narrow(offset + count);
                    let read = self.node.read_block(block, range).await;
                    read.map_err(|unread| match unread {
                        Unread::Gone => Unreadable::Gone,
                        Unread::Trouble(trouble) => Unreadable::Fault(of_trouble(trouble)),
                    })?
                }
            };
            self.at += bytes.len() as u64;
            return Ok(Some(bytes));
        }
        Ok(None)
    }

    async fn turn_page(&mut self) -> Result<(), Unreadable> {
        let command = GetObject {
            extent: Extent::From(self.at),
            ..self.page.clone()
        };
        let call = self.by.call(Command::GetObject(command));
        let (outcome, _) = self.node.call(call).await;
        let found = match own::<S3>(outcome) {
            Ok(Reply::Object(found)) => found,
            Ok(other) => return Err(odd(&other).into()),
            Err(error) if error.code.status() < 500 => return Err(Unreadable::Gone),
            Err(error) => return Err(Fault::from(error).into()),
        };
        let Pieces { at, pieces, .. } = found.extent;
        let covers = pieces
            .first()
            .is_some_and(|piece| (at..at + piece.size()).contains(&self.at));
        if !covers {
            return Err(Unreadable::Gone);
        }
        self.pieces = pieces.into();
        self.pieces_at = at;
        Ok(())
    }

    /// The bytes as the body of a reply. The first ones are read before this returns.
    pub(super) async fn send(mut self) -> Result<Outgoing, Unreadable> {
        let length = self.end - self.at;
        let first = self.next().await?.unwrap_or_default();
        if first.len() as u64 == length {
            return Ok(Outgoing::Whole(Full::new(first)));
        }
        let rest = stream::unfold(self, async |mut reader| {
            let piece = reader.next().await.transpose()?;
            let piece = piece.map_err(|unreadable| {
                let fault = Fault::from(unreadable);
                tracing::warn!(code = fault.code, "a reply was cut: {}", fault.message);
                Cut
            });
            Some((piece, reader))
        });
        let pieces = stream::iter([Ok(first)]).chain(rest);
        Ok(Outgoing::Pieces(pieces.boxed(), length))
    }
}

fn index(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

fn narrow(offset: u64) -> u32 {
    u32::try_from(offset).unwrap_or(u32::MAX)
}
