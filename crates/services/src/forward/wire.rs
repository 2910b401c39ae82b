//! The bytes of what everything that is forwarded is made of.

use bytes::Bytes;
use fader_chain::{DecodeError, EntryId, Reader, RequestId, Stamp, put_bytes, put_varint};

/// Parts of one list: more than any request or page has.
const LIST_MAX: usize = 64 << 10;

/// What has bytes of its own.
pub(crate) trait Wire {
    fn put(&self, out: &mut Vec<u8>);

    fn read(reader: &mut Reader) -> Result<Self, DecodeError>
    where
        Self: Sized;
}

/// Appends a choice: its byte, and what follows from it.
pub(crate) fn put_choice(out: &mut Vec<u8>, choice: u8, parts: &[&dyn Wire]) {
    out.push(choice);
    parts.iter().for_each(|part| part.put(out));
}

impl Wire for bool {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        match reader.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(DecodeError::new("a flag")),
        }
    }
}

impl Wire for u8 {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(*self);
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        reader.byte()
    }
}

impl Wire for u32 {
    fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, u64::from(*self));
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        reader.varint_u32()
    }
}

impl Wire for u64 {
    fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, *self);
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        reader.varint()
    }
}

impl Wire for usize {
    fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, *self as u64);
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        let number = reader.varint()?;
        usize::try_from(number).map_err(|_| DecodeError::new("a count"))
    }
}

/// Folded: 0, -1, 1, -2, …
impl Wire for i64 {
    fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, ((self << 1) ^ (self >> 63)) as u64);
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        let folded = reader.varint()?;
        Ok((folded >> 1) as i64 ^ -((folded & 1) as i64))
    }
}

impl Wire for u128 {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_be_bytes());
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        reader.u128()
    }
}

impl Wire for Bytes {
    fn put(&self, out: &mut Vec<u8>) {
        put_bytes(out, self);
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        reader.bytes()
    }
}

impl Wire for String {
    fn put(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.as_bytes());
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        let bytes = reader.bytes()?;
        let text = std::str::from_utf8(&bytes).map_err(|_| DecodeError::new("a text"))?;
        Ok(text.to_owned())
    }
}

impl<T: Wire> Wire for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        if let Some(it) = self {
            it.put(out);
        }
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        bool::read(reader)?.then(|| T::read(reader)).transpose()
    }
}

impl<A: Wire, B: Wire> Wire for Result<A, B> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_ok().put(out);
        match self {
            Ok(it) => it.put(out),
            Err(it) => it.put(out),
        }
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(match bool::read(reader)? {
            true => Ok(A::read(reader)?),
            false => Err(B::read(reader)?),
        })
    }
}

/// It grows as its parts are read: its count alone takes no memory.
impl<T: Wire> Wire for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, self.len() as u64);
        self.iter().for_each(|it| it.put(out));
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        let count = reader.count()?;
        if LIST_MAX < count {
            return Err(DecodeError::new("a list beyond its limit"));
        }
        (0..count).map(|_| T::read(reader)).collect()
    }
}

impl<A: Wire, B: Wire> Wire for (A, B) {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok((A::read(reader)?, B::read(reader)?))
    }
}

impl Wire for EntryId {
    fn put(&self, out: &mut Vec<u8>) {
        self.encode(out);
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        EntryId::decode(reader)
    }
}

impl Wire for Stamp {
    fn put(&self, out: &mut Vec<u8>) {
        self.encode(out);
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        Stamp::decode(reader)
    }
}

impl Wire for RequestId {
    fn put(&self, out: &mut Vec<u8>) {
        self.encode(out);
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        RequestId::decode(reader)
    }
}
