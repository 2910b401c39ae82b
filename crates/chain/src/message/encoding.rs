//! The bytes of messages between members (docs/reference/format/peer.md).
//!
//! ```text
//! envelope := version:u8=1  epoch  from  incarnation:u128be  kind:u8  body
//! list of x:= count x*                 scope := 0 | 1 list of key:bytes
//! range    := end:bytes hash:u128be    part  := start:bytes end:bytes list of row
//! row      := key:bytes value:bytes
//! ```
//!
//! Numbers without a size are varints; bodies are in the order of the match arms below. A list is
//! no longer than its bytes, and than its `_MAX` where it has one, before memory is taken for it.
//!
//! Deliberately absent: what a message may say here and now; that is the replica's to judge.

use std::sync::Arc;

use bytes::Bytes;

use super::{Envelope, Message, RangeContent, RangeHash, Scope};
use crate::codec::{DecodeError, Reader, put_bytes, put_varint};
use crate::config::{Incarnation, NodeId};
use crate::entry::{Entry, RequestId};
use crate::epoch_history::EpochHistory;
use crate::operation::Operation;
use crate::register::Register;
use crate::stamp::EntryId;

const VERSION: u8 = 1;

/// Entries of one `Append`.
const ENTRIES_MAX: usize = 8 << 10;
/// Operations, or names of operations, of one message.
const OPERATIONS_MAX: usize = 256 << 10;
/// Registers of one question.
const KEYS_MAX: usize = 8 << 10;
/// Ranges of one question or answer.
const RANGES_MAX: usize = 1 << 10;
/// Keys with their values in one range.
const ROWS_MAX: usize = 256 << 10;

const HELLO: u8 = 1;
const APPEND: u8 = 2;
const CONFIRM: u8 = 3;
const COMMIT: u8 = 4;
const RESEND: u8 = 5;
const QUERY: u8 = 6;
const QUERY_ANSWER: u8 = 7;
const OFFER: u8 = 8;
const HELD: u8 = 9;
const PROMOTE: u8 = 10;
const SHOW: u8 = 11;
const SHOWN: u8 = 12;
const OVERLAY: u8 = 13;
const GATHER: u8 = 14;
const GATHERED: u8 = 15;
const FILL_ASK: u8 = 16;
const FILL_PART: u8 = 17;
const DIGEST: u8 = 18;
const COMPARED: u8 = 19;

impl Envelope {
    /// Appends the encoding of the envelope.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(VERSION);
        put_varint(out, self.epoch);
        put_varint(out, u64::from(self.from.0));
        out.extend_from_slice(&self.incarnation.0.to_be_bytes());
        self.message.encode(out);
    }

    /// Reads what `encode` wrote, to the last byte; byte strings share the memory of `bytes`.
    ///
    /// # Errors
    /// [`DecodeError`] when the bytes are no envelope of a version and kind that we know.
    pub fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        if reader.byte()? != VERSION {
            return Err(DecodeError::new("a message's version"));
        }
        let envelope = Envelope {
            epoch: reader.varint()?,
            from: NodeId(reader.varint_u32()?),
            incarnation: Incarnation(reader.u128()?),
            message: Message::decode(&mut reader)?,
        };
        reader.end()?;
        Ok(envelope)
    }
}

impl Message {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Message::Hello { .. }
            | Message::Append { .. }
            | Message::Confirm { .. }
            | Message::Commit { .. }
            | Message::Resend { .. }
            | Message::Query { .. }
            | Message::QueryAnswer { .. } => self.encode_strong(out),
            Message::Offer { .. }
            | Message::Held { .. }
            | Message::Promote { .. }
            | Message::Show { .. }
            | Message::Shown { .. }
            | Message::Overlay { .. }
            | Message::Gather { .. }
            | Message::Gathered { .. } => self.encode_eventual(out),
            Message::TransferRequest { .. }
            | Message::TransferChunk { .. }
            | Message::Digest { .. }
            | Message::Compared { .. } => self.encode_state(out),
        }
    }

    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        match reader.byte()? {
            kind @ HELLO..=QUERY_ANSWER => Self::decode_strong(kind, reader),
            kind @ OFFER..=GATHERED => Self::decode_eventual(kind, reader),
            kind @ FILL_ASK..=COMPARED => Self::decode_state(kind, reader),
            _ => Err(unknown_kind()),
        }
    }

    fn encode_strong(&self, out: &mut Vec<u8>) {
        match self {
            Message::Hello {
                epoch_history,
                base,
                commit,
                last,
                clock,
            } => {
                out.push(HELLO);
                epoch_history.encode(out);
                for id in [base, commit, last] {
                    id.encode(out);
                }
                put_varint(out, *clock);
            }
            Message::Append {
                after,
                entries,
                commit,
            } => {
                out.push(APPEND);
                after.encode(out);
                commit.encode(out);
                let mut encoded = Vec::new();
                put_list(out, entries, |out, entry| {
                    encoded.clear();
                    entry.encode(&mut encoded);
                    put_bytes(out, &encoded);
                });
            }
            Message::Confirm { id } => put_id(out, CONFIRM, *id),
            Message::Commit { id } => put_id(out, COMMIT, *id),
            Message::Resend { after } => put_id(out, RESEND, *after),
            Message::Query { number, scope } => {
                put_number(out, QUERY, *number);
                scope.encode(out);
            }
            Message::QueryAnswer { number, commit } => {
                put_number(out, QUERY_ANSWER, *number);
                commit.encode(out);
            }
            other => unreachable!("{other:?} is none of the strong path's"),
        }
    }

    fn decode_strong(kind: u8, reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(match kind {
            HELLO => Message::Hello {
                epoch_history: EpochHistory::decode(reader)?,
                base: EntryId::decode(reader)?,
                commit: EntryId::decode(reader)?,
                last: EntryId::decode(reader)?,
                clock: reader.varint()?,
            },
            APPEND => Message::Append {
                after: EntryId::decode(reader)?,
                commit: EntryId::decode(reader)?,
                entries: read_list(reader, ENTRIES_MAX, |reader| {
                    Entry::decode(reader.bytes()?).map(Arc::new)
                })?,
            },
            CONFIRM => Message::Confirm {
                id: EntryId::decode(reader)?,
            },
            COMMIT => Message::Commit {
                id: EntryId::decode(reader)?,
            },
            RESEND => Message::Resend {
                after: EntryId::decode(reader)?,
            },
            QUERY => Message::Query {
                number: reader.varint()?,
                scope: Scope::decode(reader)?,
            },
            QUERY_ANSWER => Message::QueryAnswer {
                number: reader.varint()?,
                commit: EntryId::decode(reader)?,
            },
            _ => return Err(unknown_kind()),
        })
    }

    fn encode_eventual(&self, out: &mut Vec<u8>) {
        match self {
            Message::Offer { operations } => {
                out.push(OFFER);
                put_operations(out, operations);
            }
            Message::Held { names } => {
                out.push(HELD);
                put_list(out, names, |out, name| name.encode(out));
            }
            Message::Promote { operations } => {
                out.push(PROMOTE);
                put_operations(out, operations);
            }
            Message::Show { number, key } => {
                put_number(out, SHOW, *number);
                put_bytes(out, key);
            }
            Message::Shown {
                number,
                register,
                operations,
                commit,
            } => {
                put_number(out, SHOWN, *number);
                commit.encode(out);
                let register = register.as_ref().map(Register::encode);
                put_list(out, register.as_slice(), |out, it| put_bytes(out, it));
                put_operations(out, operations);
            }
            Message::Overlay {
                asks,
                commit,
                clock,
                operations,
            } => {
                out.extend_from_slice(&[OVERLAY, u8::from(*asks)]);
                commit.encode(out);
                put_varint(out, *clock);
                put_operations(out, operations);
            }
            Message::Gather { number, scope } => {
                put_number(out, GATHER, *number);
                scope.encode(out);
            }
            Message::Gathered { number, operations } => {
                put_number(out, GATHERED, *number);
                put_operations(out, operations);
            }
            other => unreachable!("{other:?} is none of eventual operations"),
        }
    }

    fn decode_eventual(kind: u8, reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(match kind {
            OFFER => Message::Offer {
                operations: read_operations(reader)?,
            },
            HELD => Message::Held {
                names: read_list(reader, OPERATIONS_MAX, RequestId::decode)?,
            },
            PROMOTE => Message::Promote {
                operations: read_operations(reader)?,
            },
            SHOW => Message::Show {
                number: reader.varint()?,
                key: reader.bytes()?,
            },
            SHOWN => Message::Shown {
                number: reader.varint()?,
                commit: EntryId::decode(reader)?,
                register: read_list(reader, 1, |reader| Register::decode(reader.bytes()?))?.pop(),
                operations: read_operations(reader)?,
            },
            OVERLAY => Message::Overlay {
                asks: read_flag(reader)?,
                commit: EntryId::decode(reader)?,
                clock: reader.varint()?,
                operations: read_operations(reader)?,
            },
            GATHER => Message::Gather {
                number: reader.varint()?,
                scope: Scope::decode(reader)?,
            },
            GATHERED => Message::Gathered {
                number: reader.varint()?,
                operations: read_operations(reader)?,
            },
            _ => return Err(unknown_kind()),
        })
    }

    fn encode_state(&self, out: &mut Vec<u8>) {
        match self {
            Message::TransferRequest {
                above,
                start,
                ranges,
            } => {
                put_id(out, FILL_ASK, *above);
                put_bytes(out, start);
                put_list(out, ranges, |out, range| {
                    put_bytes(out, &range.end);
                    out.extend_from_slice(&range.hash.to_be_bytes());
                });
            }
            Message::TransferChunk {
                at,
                start,
                ranges,
                end,
            } => {
                put_id(out, FILL_PART, *at);
                put_bytes(out, start);
                put_bytes(out, end);
                put_list(out, ranges, |out, content| content.encode(out));
            }
            Message::Digest {
                number,
                id,
                start,
                end,
                digest,
            } => {
                put_number(out, DIGEST, *number);
                id.encode(out);
                put_bytes(out, start);
                put_bytes(out, end);
                out.extend_from_slice(&digest.to_be_bytes());
            }
            Message::Compared { number, is_same } => {
                put_number(out, COMPARED, *number);
                out.push(u8::from(*is_same));
            }
            other => unreachable!("{other:?} is none of states"),
        }
    }

    fn decode_state(kind: u8, reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(match kind {
            FILL_ASK => Message::TransferRequest {
                above: EntryId::decode(reader)?,
                start: reader.bytes()?,
                ranges: read_list(reader, RANGES_MAX, |reader| {
                    Ok(RangeHash {
                        end: reader.bytes()?,
                        hash: reader.u128()?,
                    })
                })?,
            },
            FILL_PART => Message::TransferChunk {
                at: EntryId::decode(reader)?,
                start: reader.bytes()?,
                end: reader.bytes()?,
                ranges: read_list(reader, RANGES_MAX, RangeContent::decode)?,
            },
            DIGEST => Message::Digest {
                number: reader.varint()?,
                id: EntryId::decode(reader)?,
                start: reader.bytes()?,
                end: reader.bytes()?,
                digest: reader.u128()?,
            },
            COMPARED => Message::Compared {
                number: reader.varint()?,
                is_same: read_flag(reader)?,
            },
            _ => return Err(unknown_kind()),
        })
    }
}

impl Scope {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Scope::All => out.push(0),
            Scope::Keys(keys) => {
                out.push(1);
                put_list(out, keys, |out, key| put_bytes(out, key));
            }
        }
    }

    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        match read_flag(reader)? {
            false => Ok(Scope::All),
            true => Ok(Scope::Keys(read_list(reader, KEYS_MAX, Reader::bytes)?)),
        }
    }
}

impl RangeContent {
    fn encode(&self, out: &mut Vec<u8>) {
        put_bytes(out, &self.start);
        put_bytes(out, &self.end);
        put_list(out, &self.rows, |out, (key, value)| {
            put_bytes(out, key);
            put_bytes(out, value);
        });
    }

    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(RangeContent {
            start: reader.bytes()?,
            end: reader.bytes()?,
            rows: read_list(reader, ROWS_MAX, |reader| {
                Ok((reader.bytes()?, reader.bytes()?))
            })?,
        })
    }
}

fn put_id(out: &mut Vec<u8>, kind: u8, id: EntryId) {
    out.push(kind);
    id.encode(out);
}

fn put_number(out: &mut Vec<u8>, kind: u8, number: u64) {
    out.push(kind);
    put_varint(out, number);
}

fn put_operations(out: &mut Vec<u8>, operations: &[Arc<Operation>]) {
    put_list(out, operations, |out, operation| operation.encode(out));
}

fn read_operations(reader: &mut Reader) -> Result<Vec<Arc<Operation>>, DecodeError> {
    read_list(reader, OPERATIONS_MAX, |reader| {
        Operation::decode(reader).map(Arc::new)
    })
}

fn put_list<T>(out: &mut Vec<u8>, list: &[T], mut put: impl FnMut(&mut Vec<u8>, &T)) {
    put_varint(out, list.len() as u64);
    list.iter().for_each(|it| put(out, it));
}

/// A list grows as its parts are read: its count alone takes no memory.
fn read_list<T>(
    reader: &mut Reader,
    count_max: usize,
    read: impl Fn(&mut Reader) -> Result<T, DecodeError>,
) -> Result<Vec<T>, DecodeError> {
    let count = reader.count()?;
    if count_max < count {
        return Err(DecodeError::new("a list beyond its limit"));
    }
    (0..count).map(|_| read(reader)).collect()
}

fn read_flag(reader: &mut Reader) -> Result<bool, DecodeError> {
    match reader.byte()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(DecodeError::new("a flag")),
    }
}

fn unknown_kind() -> DecodeError {
    DecodeError::new("a message's kind")
}
