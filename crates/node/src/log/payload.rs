//! The bytes of what a member's records say (docs/format/log.md).
//!
//! ```text
//! entry       := see fader_chain::Entry
//! epoch       := configuration                  see crate::configuration
//! cut, filled := id
//! operation   := name  stamp  accept:id  change     the change is a merge: the register, the ops
//! forgotten   := count name*
//! clock bound := milliseconds
//! id          := epoch index          name := client:u128be seq part
//! ```
//!
//! Numbers without a size are varints.

use std::sync::Arc;

use bytes::Bytes;
use fader_chain::{
    Change, DecodeError, Entry, EntryId, Marks, Operation, Reader, Record, RequestId, Stamp,
    put_varint,
};

use crate::configuration;

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
        Record::Epoch(configuration) => configuration::encode(configuration, out),
        Record::Cut { after: id } | Record::Filled { at: id } => put_id(out, *id),
        Record::Operation(operation) => put_operation(out, operation),
        Record::Forgotten(names) => {
            put_varint(out, names.len() as u64);
            names.iter().for_each(|name| put_name(out, *name));
        }
        Record::ClockBound(bound) => put_varint(out, *bound),
    }
}

/// Reads a record of a kind, to the last byte.
pub(super) fn decode(kind: u8, bytes: Bytes) -> Result<Record, DecodeError> {
    match kind {
        KIND_ENTRY => return Ok(Record::Entry(Arc::new(Entry::decode(bytes)?))),
        KIND_EPOCH => return Ok(Record::Epoch(Arc::new(configuration::decode(bytes)?))),
        _ => {}
    }
    let mut reader = Reader::new(bytes);
    let record = match kind {
        KIND_CUT => Record::Cut {
            after: read_id(&mut reader)?,
        },
        KIND_FILLED => Record::Filled {
            at: read_id(&mut reader)?,
        },
        KIND_OPERATION => Record::Operation(Arc::new(read_operation(&mut reader)?)),
        KIND_FORGOTTEN => {
            let count = reader.count()?;
            let names = (0..count).map(|_| read_name(&mut reader));
            Record::Forgotten(names.collect::<Result<_, _>>()?)
        }
        KIND_CLOCK_BOUND => Record::ClockBound(reader.varint()?),
        _ => return Err(DecodeError::new("a record's kind")),
    };
    reader.end()?;
    Ok(record)
}

fn put_id(out: &mut Vec<u8>, id: EntryId) {
    put_varint(out, id.epoch);
    put_varint(out, id.index);
}

fn read_id(reader: &mut Reader) -> Result<EntryId, DecodeError> {
    Ok(EntryId::new(reader.varint()?, reader.varint()?))
}

fn put_name(out: &mut Vec<u8>, name: RequestId) {
    out.extend_from_slice(&name.client.to_be_bytes());
    put_varint(out, name.seq);
    put_varint(out, u64::from(name.part));
}

fn read_name(reader: &mut Reader) -> Result<RequestId, DecodeError> {
    let mut client = 0;
    for _ in 0..16 {
        client = client << 8 | u128::from(reader.byte()?);
    }
    Ok(RequestId {
        client,
        seq: reader.varint()?,
        part: reader.varint_u32()?,
    })
}

fn put_operation(out: &mut Vec<u8>, operation: &Operation) {
    put_name(out, operation.name);
    operation.stamp.encode(out);
    put_id(out, operation.accept);
    let merge = Change::Merge {
        key: operation.key.clone(),
        ops: operation.ops.clone(),
        marks: Marks::Dropped,
    };
    merge.encode(out);
}

fn read_operation(reader: &mut Reader) -> Result<Operation, DecodeError> {
    let name = read_name(reader)?;
    let stamp = Stamp::decode(reader)?;
    let accept = read_id(reader)?;
    let Change::Merge { key, ops, .. } = Change::decode(reader)? else {
        return Err(DecodeError::new("an operation's change"));
    };
    Ok(Operation {
        name,
        stamp,
        accept,
        key,
        ops,
    })
}
