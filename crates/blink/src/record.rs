//! Redo log records, and their encoding in the messages of pending-update queues.
//!
//! ```text
//! message: format u8 = 1 | count u32 | record × count | crc32c u32 of all before it
//! record:  op u8 | stamp 20 | key size u16 | key | payload
//! op:      1 insert inline, 2 insert object, 3 update inline, 4 update object, 5 delete
//! payload: inline: size u32 | bytes;  object: id u128 | size u64 | crc32c u32;  delete: nothing
//! ```
//!
//! All numbers are big-endian. A decoder trusts no length: no count reserves more than the input is
//! long.

use bytes::{Buf, Bytes};
use crc_fast::{CrcAlgorithm, checksum};

use crate::error::RecordError;
use crate::slot::PayloadRef;
use crate::stamp::{HybridTime, Stamp};

/// The longest key, bytes.
pub const KEY_BYTES_MAX: usize = 1024;

/// The largest payload inside a record, bytes; a larger one is an object of its own.
pub const INLINE_BYTES_MAX: usize = 256 << 10;

/// The largest encoding of records, bytes: one message of SQS.
pub const RECORDS_BYTES_MAX: usize = 1 << 20;

const FORMAT: u8 = 1;
const HEADER_BYTES: usize = 5;
const CRC_BYTES: usize = 4;
const RECORD_BYTES_MIN: usize = 1 + Stamp::BYTES + 2;

/// One write of one key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Record {
    /// The key, at most [`KEY_BYTES_MAX`] bytes.
    pub key: Bytes,
    /// Its place in the order of all writes of the key.
    pub stamp: Stamp,
    /// The write.
    pub op: Op,
}

/// The kinds of writes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Op {
    /// The key is there from now on, with this payload.
    Insert(Payload),
    /// The after-image of the key's payload, if the key is there.
    Update(Payload),
    /// The key is not there from now on.
    Delete,
}

/// The bytes of a record.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Payload {
    /// At most [`INLINE_BYTES_MAX`] bytes.
    Inline(Bytes),
    /// Bytes that are an object of their own.
    Object(Pointer),
}

impl Payload {
    /// The payload, borrowed.
    pub fn as_ref(&self) -> PayloadRef<'_> {
        match self {
            Payload::Inline(bytes) => PayloadRef::Inline(bytes),
            Payload::Object(pointer) => PayloadRef::Object(*pointer),
        }
    }
}

/// Where a large payload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pointer {
    /// Random id of the object.
    pub object: u128,
    /// Bytes of the payload.
    pub size: u64,
    /// CRC-32C of the payload.
    pub crc32c: u32,
}

impl Pointer {
    /// Bytes of an encoded pointer.
    pub const BYTES: usize = 28;

    /// The pointer to an object of these bytes.
    pub fn new(object: u128, bytes: &[u8]) -> Self {
        Pointer {
            object,
            size: bytes.len() as u64,
            crc32c: crc32c(&[bytes]),
        }
    }

    /// Whether these are the bytes that the pointer was made for.
    pub fn matches(&self, bytes: &[u8]) -> bool {
        *self == Pointer::new(self.object, bytes)
    }

    pub(crate) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..16].copy_from_slice(&self.object.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.size.to_be_bytes());
        bytes[24..].copy_from_slice(&self.crc32c.to_be_bytes());
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        let mut rest = &bytes[..];
        Pointer {
            object: rest.get_u128(),
            size: rest.get_u64(),
            crc32c: rest.get_u32(),
        }
    }
}

impl Record {
    /// Whether the record may be stored.
    ///
    /// # Errors
    /// [`RecordError`] naming the bound that is exceeded.
    pub fn check(&self) -> Result<(), RecordError> {
        check_key(&self.key)?;
        match &self.op {
            Op::Insert(payload) | Op::Update(payload) => check_payload(payload),
            Op::Delete => Ok(()),
        }
    }

    /// Bytes of the encoded record.
    pub fn encoded_bytes(&self) -> usize {
        let payload = match &self.op {
            Op::Insert(Payload::Inline(bytes)) | Op::Update(Payload::Inline(bytes)) => {
                4 + bytes.len()
            }
            Op::Insert(Payload::Object(_)) | Op::Update(Payload::Object(_)) => Pointer::BYTES,
            Op::Delete => 0,
        };
        RECORD_BYTES_MIN + self.key.len() + payload
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let (tag, payload) = match &self.op {
            Op::Insert(Payload::Inline(bytes)) => (1, Some(PayloadRef::Inline(bytes))),
            Op::Insert(Payload::Object(at)) => (2, Some(PayloadRef::Object(*at))),
            Op::Update(Payload::Inline(bytes)) => (3, Some(PayloadRef::Inline(bytes))),
            Op::Update(Payload::Object(at)) => (4, Some(PayloadRef::Object(*at))),
            Op::Delete => (5, None),
        };
        out.push(tag);
        out.extend_from_slice(&self.stamp.to_bytes());
        let key_size = u16::try_from(self.key.len()).expect("a checked key");
        out.extend_from_slice(&key_size.to_be_bytes());
        out.extend_from_slice(&self.key);
        match payload {
            Some(PayloadRef::Inline(bytes)) => {
                let size = u32::try_from(bytes.len()).expect("a checked payload");
                out.extend_from_slice(&size.to_be_bytes());
                out.extend_from_slice(bytes);
            }
            Some(PayloadRef::Object(pointer)) => out.extend_from_slice(&pointer.to_bytes()),
            None => {}
        }
    }

    fn decode(rest: &mut Bytes) -> Result<Self, RecordError> {
        let end = |_| damaged("an early end");
        let tag = rest.try_get_u8().map_err(end)?;
        let stamp = Stamp {
            time: HybridTime(rest.try_get_u64().map_err(end)?),
            client: rest.try_get_u64().map_err(end)?,
            sequence: rest.try_get_u32().map_err(end)?,
        };
        let key_size = usize::from(rest.try_get_u16().map_err(end)?);
        let key = take(rest, key_size)?;
        let op = match tag {
            1 => Op::Insert(inline(rest)?),
            2 => Op::Insert(pointer(rest)?),
            3 => Op::Update(inline(rest)?),
            4 => Op::Update(pointer(rest)?),
            5 => Op::Delete,
            _ => return Err(damaged("an unknown operation")),
        };
        let record = Record { key, stamp, op };
        record.check()?;
        Ok(record)
    }
}

pub(crate) fn check_key(key: &[u8]) -> Result<(), RecordError> {
    match key.len() {
        ..=KEY_BYTES_MAX => Ok(()),
        size => Err(RecordError::KeyTooLong { size }),
    }
}

pub(crate) fn check_payload(payload: &Payload) -> Result<(), RecordError> {
    match payload {
        Payload::Inline(bytes) if bytes.len() > INLINE_BYTES_MAX => {
            Err(RecordError::PayloadTooLarge { size: bytes.len() })
        }
        _ => Ok(()),
    }
}

/// The message that holds `records`.
///
/// # Errors
/// [`RecordError`] when a record, or all of them together, exceed their bounds.
pub fn encode_records(records: &[Record]) -> Result<Bytes, RecordError> {
    for record in records {
        record.check()?;
    }
    let payload: usize = records.iter().map(Record::encoded_bytes).sum();
    let size = HEADER_BYTES + payload + CRC_BYTES;
    if size > RECORDS_BYTES_MAX {
        let max = RECORDS_BYTES_MAX;
        return Err(RecordError::MessageTooLarge { size, max });
    }
    let mut out = Vec::with_capacity(size);
    out.push(FORMAT);
    let count = u32::try_from(records.len()).expect("fewer records than bytes");
    out.extend_from_slice(&count.to_be_bytes());
    for record in records {
        record.encode(&mut out);
    }
    let crc = crc32c(&[&out]);
    out.extend_from_slice(&crc.to_be_bytes());
    Ok(out.into())
}

/// The records of a message; keys and payloads share its memory.
///
/// # Errors
/// [`RecordError`] naming the part that failed.
pub fn decode_records(mut message: Bytes) -> Result<Vec<Record>, RecordError> {
    if message.len() > RECORDS_BYTES_MAX {
        let (size, max) = (message.len(), RECORDS_BYTES_MAX);
        return Err(RecordError::MessageTooLarge { size, max });
    }
    if message.len() < HEADER_BYTES + CRC_BYTES {
        return Err(damaged("an early end"));
    }
    let mut crc = message.split_off(message.len() - CRC_BYTES);
    let is_whole = crc32c(&[&message]) == crc.get_u32();
    let format = message.get_u8();
    if !is_whole {
        return Err(damaged("the checksum does not match"));
    }
    if format != FORMAT {
        return Err(RecordError::Format { found: format });
    }
    let count = message.get_u32() as usize;
    if count > message.len() / RECORD_BYTES_MIN {
        return Err(damaged("a count beyond the input"));
    }
    let mut records = Vec::with_capacity(count);
    for _ in 0..count {
        records.push(Record::decode(&mut message)?);
    }
    if !message.is_empty() {
        return Err(damaged("bytes after the end"));
    }
    Ok(records)
}

/// CRC-32C of the parts, one after the other.
pub(crate) fn crc32c(parts: &[&[u8]]) -> u32 {
    match parts {
        [one] => checksum(CrcAlgorithm::Crc32Iscsi, one) as u32,
        parts => {
            let mut digest = crc_fast::Digest::new(CrcAlgorithm::Crc32Iscsi);
            for part in parts {
                digest.update(part);
            }
            digest.finalize() as u32
        }
    }
}

fn inline(rest: &mut Bytes) -> Result<Payload, RecordError> {
    let size = rest.try_get_u32().map_err(|_| damaged("an early end"))?;
    Ok(Payload::Inline(take(rest, size as usize)?))
}

fn pointer(rest: &mut Bytes) -> Result<Payload, RecordError> {
    let bytes = take(rest, Pointer::BYTES)?;
    let bytes = bytes.first_chunk().expect("taken with this size");
    Ok(Payload::Object(Pointer::from_bytes(bytes)))
}

fn take(rest: &mut Bytes, size: usize) -> Result<Bytes, RecordError> {
    if size <= rest.len() {
        Ok(rest.split_to(size))
    } else {
        Err(damaged("a length beyond the input"))
    }
}

fn damaged(what: &'static str) -> RecordError {
    RecordError::Damaged { what }
}

#[cfg(test)]
mod tests;
