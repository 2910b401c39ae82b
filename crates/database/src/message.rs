//! Bytes of messages in the pending-update and ATOMIC queues, and of claim objects.
//!
//! ```text
//! pending-update message: base64( records )  records: docs/reference/format/page.md, or sealed
//! ATOMIC message:         base64( frame )
//! claim object:           frame
//! frame := "FADT" format:u8=1 kind:u8 body sum         sum: XXH3-64 of all before it, big-endian
//! body  := kind T: ( collection:u64 size:u32 records )*         sealed: sealing.rs
//!          kind P: claim:u128
//!          kind A: nothing
//! ```
//!
//! Numbers are big-endian. A decoder trusts no length.

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use bytes::{Buf, BufMut, Bytes};
use fader_blink::{Record, decode_records, encode_records};
use fader_cloud::{Entropy, Error, ErrorKind, MESSAGE_BYTES_MAX, Result};
use xxhash_rust::xxh3::xxh3_64;

use crate::catalogue::CollectionId;
use crate::sealing::{SEAL_BYTES, Sealer, What};

/// Bytes of a frame in one message, at most: its text fills one call to a queue.
pub(crate) const FRAME_BYTES_MAX: usize = MESSAGE_BYTES_MAX / 4 * 3;
/// Bytes of encoded records in one message, at most, before they are sealed.
const PART_BYTES_MAX: usize = FRAME_BYTES_MAX - HEAD_BYTES - PART_BYTES - SUM_BYTES - SEAL_BYTES;
/// Bytes of a claim object, at most.
pub(crate) const CLAIM_BYTES_MAX: usize = 64 << 20;

const MAGIC: &[u8; 4] = b"FADT";
const FORMAT: u8 = 1;
const HEAD_BYTES: usize = 6;
const SUM_BYTES: usize = 8;
/// Collection and size before the records of a collection.
const PART_BYTES: usize = 12;
/// Header and checksum of encoded records.
const RECORDS_BYTES: usize = 9;

/// Encoded records of a transaction in one tree, sealed when that is encrypted.
pub(crate) type Part = (CollectionId, Bytes);

/// A frame in the ATOMIC queue, or in a claim object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    /// A transaction, whole.
    Transaction(Vec<Part>),
    /// A transaction in a claim object, if that is there.
    Pointer(u128),
    /// In a claim object only: the transaction was given up.
    Abort,
}

impl Frame {
    /// Its bytes.
    pub(crate) fn encode(&self) -> Bytes {
        let mut out = MAGIC.to_vec();
        out.push(FORMAT);
        match self {
            Frame::Transaction(parts) => {
                out.push(b'T');
                for (collection, records) in parts {
                    out.put_u64(collection.0);
                    out.put_u32(u32::try_from(records.len()).expect("bounded by its format"));
                    out.extend_from_slice(records);
                }
            }
            Frame::Pointer(claim) => {
                out.push(b'P');
                out.put_u128(*claim);
            }
            Frame::Abort => out.push(b'A'),
        }
        let sum = xxh3_64(&out);
        out.put_u64(sum);
        out.into()
    }

    /// The frame of these bytes.
    ///
    /// # Errors
    /// `Malformed`, naming the part that failed.
    pub(crate) fn decode(mut bytes: Bytes) -> Result<Self> {
        if CLAIM_BYTES_MAX < bytes.len() || bytes.len() < HEAD_BYTES + SUM_BYTES {
            return Err(damaged("its size is impossible"));
        }
        let mut sum = bytes.split_off(bytes.len() - SUM_BYTES);
        if !bytes.starts_with(MAGIC) {
            return Err(damaged("it is none of this database's"));
        }
        if xxh3_64(&bytes) != sum.get_u64() {
            return Err(damaged("the checksum does not match"));
        }
        bytes.advance(MAGIC.len());
        let format = bytes.get_u8();
        if format != FORMAT {
            let context = format!("a transaction has format {format}, this build reads {FORMAT}");
            return Err(Error::new(ErrorKind::Malformed, context));
        }
        match (bytes.get_u8(), bytes.len()) {
            (b'T', _) => parts(bytes).map(Frame::Transaction),
            (b'P', 16) => Ok(Frame::Pointer(bytes.get_u128())),
            (b'A', 0) => Ok(Frame::Abort),
            _ => Err(damaged("an unknown kind")),
        }
    }
}

fn parts(mut bytes: Bytes) -> Result<Vec<Part>> {
    let mut parts: Vec<Part> = Vec::new();
    while !bytes.is_empty() {
        if bytes.len() < PART_BYTES {
            return Err(damaged("an early end"));
        }
        let collection = CollectionId(bytes.get_u64());
        let size = bytes.get_u32() as usize;
        if bytes.len() < size {
            return Err(damaged("a length beyond the input"));
        }
        parts.push((collection, bytes.split_to(size)));
    }
    Ok(parts)
}

/// Bytes of the frame of a transaction.
pub(crate) fn transaction_bytes(parts: &[Part]) -> usize {
    let parts = parts.iter().map(|(_, records)| PART_BYTES + records.len());
    HEAD_BYTES + SUM_BYTES + parts.sum::<usize>()
}

/// Records of a tree in encodings that each fill a message at most, sealed.
///
/// # Errors
/// `Invalid`: a record exceeds its bounds. `Denied`: the key is not there.
pub(crate) fn encode_parts(
    tree: CollectionId,
    sealer: &Sealer,
    records: &[Record],
    entropy: &dyn Entropy,
) -> Result<Vec<Bytes>> {
    let what = What::Records(tree);
    let chunks = split(records, PART_BYTES_MAX);
    chunks
        .map(|chunk| sealer.seal(&what, encode(chunk)?, entropy))
        .collect()
}

/// The records of a part, or of a pending-update message.
///
/// # Errors
/// `Malformed`, naming the part that failed. `Denied`: its key is not there.
pub(crate) fn decode_part(tree: CollectionId, sealer: &Sealer, part: Bytes) -> Result<Vec<Record>> {
    decode(sealer.open(&What::Records(tree), part)?)
}

/// Consecutive records whose encoding has at most `bytes_max` bytes; a larger record is alone.
fn split(records: &[Record], bytes_max: usize) -> impl Iterator<Item = &[Record]> {
    let mut rest = records;
    std::iter::from_fn(move || {
        let mut bytes = RECORDS_BYTES;
        let count = rest.iter().take_while(|record| {
            bytes += record.encoded_bytes();
            bytes <= bytes_max
        });
        let count = count.count().max(1).min(rest.len());
        let (chunk, behind) = rest.split_at(count);
        rest = behind;
        (!chunk.is_empty()).then_some(chunk)
    })
}

fn encode(records: &[Record]) -> Result<Bytes> {
    let invalid = |error| Error::caused(ErrorKind::Invalid, "records to store", error);
    encode_records(records).map_err(invalid)
}

fn decode(bytes: Bytes) -> Result<Vec<Record>> {
    let malformed = |error| Error::caused(ErrorKind::Malformed, "records of a message", error);
    decode_records(bytes).map_err(malformed)
}

/// Bytes as the text of a message.
pub(crate) fn to_text(bytes: &[u8]) -> String {
    STANDARD_NO_PAD.encode(bytes)
}

/// The bytes of a message's text.
///
/// # Errors
/// `Malformed`.
pub(crate) fn from_text(text: &str) -> Result<Bytes> {
    let bytes = STANDARD_NO_PAD.decode(text);
    bytes
        .map(Bytes::from)
        .map_err(|_| damaged("it is no base64"))
}

fn damaged(what: &str) -> Error {
    Error::new(
        ErrorKind::Malformed,
        format!("a damaged transaction: {what}"),
    )
}

#[cfg(test)]
mod tests;
