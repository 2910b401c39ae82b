//! The bytes of what a session has seen of one chain, which a client carries from each reply to the
//! next request. The process that hands them out must seal them: a forged base wins over later
//! writes (D15).
//!
//! ```text
//! session := version:u8=1  committed:id  count:varint  count × (register:bytes  stamp  name)
//! name    := client:u128be  seq:varint  part:varint
//! ```

use bytes::Bytes;

use crate::codec::{DecodeError, Reader, put_bytes, put_varint};
use crate::entry::RequestId;
use crate::replica::Session;
use crate::stamp::{EntryId, Stamp};

const VERSION: u8 = 1;

impl Session {
    /// Appends the encoding of the session.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(VERSION);
        self.committed.encode(out);
        put_varint(out, self.tentative.len() as u64);
        for (register, stamp, name) in &self.tentative {
            put_bytes(out, register);
            stamp.encode(out);
            name.encode(out);
        }
    }

    /// Reads what `encode` wrote.
    ///
    /// # Errors
    /// [`DecodeError`] when the bytes are no session.
    pub fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        if reader.byte()? != VERSION {
            return Err(DecodeError::new("a session's version"));
        }
        let committed = EntryId::decode(&mut reader)?;
        let count = reader.count()?;
        let tentative = (0..count).map(|_| decode_operation(&mut reader));
        let tentative = tentative.collect::<Result<_, _>>()?;
        reader.end()?;
        Ok(Session {
            committed,
            tentative,
        })
    }
}

fn decode_operation(reader: &mut Reader) -> Result<(Bytes, Stamp, RequestId), DecodeError> {
    let register = reader.bytes()?;
    let stamp = Stamp::decode(reader)?;
    Ok((register, stamp, RequestId::decode(reader)?))
}

#[cfg(test)]
mod tests;
