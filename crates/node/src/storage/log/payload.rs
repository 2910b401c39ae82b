//! The bytes of what a member's records say (docs/reference/format/log.md).
//!
//! ```text
//! entry       := see fader_chain::Entry
//! epoch       := configuration                  see fader_chain::Configuration
//! cut, filled := id
//! operation   := see fader_chain::Operation
//! forgotten   := count name*
//! clock bound := milliseconds
//! ```
//!
//! Numbers are varints.

use std::sync::Arc;

use bytes::Bytes;
use fader_chain::{
    Configuration, DecodeError, Entry, EntryId, Operation, Reader, Record, RequestId, put_varint,
};

pub(super) const KIND_ENTRY: u8 = 1;
/// Says only what was durable when it was written; no record of the chain.
pub(super) const KIND_MARK: u8 = 2;
const KIND_EPOCH: u8 = 3;
const KIND_CUT: u8 = 4;
const KIND_FILLED: u8 = 5;
const KIND_OPERATION: u8 = 6;
const KIND_FORGOTTEN: u8 = 7;
const KIND_CLOCK_BOUND: u8 = 8;

/// The greatest kind there is.
pub(super) const KIND_MAX: u8 = KIND_CLOCK_BOUND;

/// The kind of a record.
pub(super) fn kind(record: &Record) -> u8 {
    match record {
        Record::Entry(_) => KIND_ENTRY,
        Record::Epoch(_) => KIND_EPOCH,
        Record::Cut { .. } => KIND_CUT,
        Record::Filled { .. } => KIND_FILLED,
        Record::Operation(_) => KIND_OPERATION,
        Record::Forgotten(_) => KIND_FORGOTTEN,
        Record::ClockBound(_) => KIND_CLOCK_BOUND,
    }
}

/// Appends the encoding of a record, without its kind.
pub(super) fn encode(record: &Record, out: &mut Vec<u8>) {
    match record {
        Record::Entry(entry) => entry.encode(out),
        Record::Epoch(configuration) => configuration.encode_to(out),
        Record::Cut { after: id } | Record::Filled { at: id } => id.encode(out),
        Record::Operation(operation) => operation.encode(out),
        Record::Forgotten(names) => {
            put_varint(out, names.len() as u64);
            names.iter().for_each(|name| name.encode(out));
        }
        Record::ClockBound(bound) => put_varint(out, *bound),
    }
}

/// Reads a record of a kind, to the last byte.
pub(super) fn decode(kind: u8, bytes: Bytes) -> Result<Record, DecodeError> {
    match kind {
        KIND_ENTRY => return Ok(Record::Entry(Arc::new(Entry::decode(bytes)?))),
        KIND_EPOCH => return Ok(Record::Epoch(Arc::new(Configuration::decode_from(bytes)?))),
        _ => {}
    }
    let mut reader = Reader::new(bytes);
    let record = match kind {
        KIND_CUT => Record::Cut {
            after: EntryId::decode(&mut reader)?,
        },
        KIND_FILLED => Record::Filled {
            at: EntryId::decode(&mut reader)?,
        },
        KIND_OPERATION => Record::Operation(Arc::new(Operation::decode(&mut reader)?)),
        KIND_FORGOTTEN => {
            let count = reader.count()?;
            let names = (0..count).map(|_| RequestId::decode(&mut reader));
            Record::Forgotten(names.collect::<Result<_, _>>()?)
        }
        KIND_CLOCK_BOUND => Record::ClockBound(reader.varint()?),
        _ => return Err(DecodeError::new("a record's kind")),
    };
    reader.end()?;
    Ok(record)
}
