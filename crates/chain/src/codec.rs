//! The encodings of numbers and byte strings that every format of the store is made of.
//!
//! Varint: seven bits a byte, least significant first, at most ten bytes. Byte string: varint
//! length, then the bytes. Formats outlive libraries, so these are ours and frozen by snapshots.

use bytes::{Buf, Bytes};

/// Bytes that are not what their format says; `what` names the part that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed bytes: {what}")]
pub struct DecodeError {
    what: &'static str,
}

impl DecodeError {
    /// An error at the part called `what`.
    pub fn new(what: &'static str) -> Self {
        DecodeError { what }
    }
}

/// Appends `value` as a varint.
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value as u8) | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends `bytes` after their length.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Reads what the `put_` functions wrote; byte strings share the input's memory.
#[derive(Debug)]
pub struct Reader {
    rest: Bytes,
}

impl Reader {
    /// A reader at the start of `bytes`.
    pub fn new(bytes: Bytes) -> Self {
        Reader { rest: bytes }
    }

    /// The next byte, which stays the next.
    pub fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    /// One byte.
    ///
    /// # Errors
    /// [`DecodeError`] at the end of the input.
    pub fn byte(&mut self) -> Result<u8, DecodeError> {
        if self.rest.is_empty() {
            return Err(DecodeError::new("an early end"));
        }
        Ok(self.rest.get_u8())
    }

    /// A varint.
    ///
    /// # Errors
    /// [`DecodeError`] at the end of the input, or beyond 64 bits.
    pub fn varint(&mut self) -> Result<u64, DecodeError> {
        let mut value = 0_u64;
        for role_change in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if role_change == 63 && bits > 1 {
                break;
            }
            value |= bits << role_change;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(DecodeError::new("a number beyond 64 bits"))
    }

    /// A varint that must fit 32 bits.
    ///
    /// # Errors
    /// [`DecodeError`] as [`Reader::varint`], or beyond 32 bits.
    pub fn varint_u32(&mut self) -> Result<u32, DecodeError> {
        u32::try_from(self.varint()?).map_err(|_| DecodeError::new("a number beyond 32 bits"))
    }

    /// Eight bytes, most significant first.
    ///
    /// # Errors
    /// [`DecodeError`] at the end of the input.
    pub fn u64(&mut self) -> Result<u64, DecodeError> {
        if self.rest.len() < size_of::<u64>() {
            return Err(DecodeError::new("an early end"));
        }
        Ok(self.rest.get_u64())
    }

    /// Sixteen bytes, most significant first.
    ///
    /// # Errors
    /// [`DecodeError`] at the end of the input.
    pub fn u128(&mut self) -> Result<u128, DecodeError> {
        if self.rest.len() < size_of::<u128>() {
            return Err(DecodeError::new("an early end"));
        }
        Ok(self.rest.get_u128())
    }

    /// A byte string, without copying it.
    ///
    /// # Errors
    /// [`DecodeError`] when the length goes beyond the input.
    pub fn bytes(&mut self) -> Result<Bytes, DecodeError> {
        let size = self.varint()?;
        match usize::try_from(size) {
            Ok(size) if size <= self.rest.len() => Ok(self.rest.split_to(size)),
            _ => Err(DecodeError::new("a length beyond the input")),
        }
    }

    /// A count of things that take at least one byte each, so that no count reserves more memory
    /// than the input is long.
    ///
    /// # Errors
    /// [`DecodeError`] when the count is larger than what is left.
    pub fn count(&mut self) -> Result<usize, DecodeError> {
        let count = self.varint()?;
        match usize::try_from(count) {
            Ok(count) if count <= self.rest.len() => Ok(count),
            _ => Err(DecodeError::new("a count beyond the input")),
        }
    }

    /// How many bytes are left.
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// All that is left.
    pub fn rest(self) -> Bytes {
        self.rest
    }

    /// Nothing may be left.
    ///
    /// # Errors
    /// [`DecodeError`] when something is.
    pub fn end(&self) -> Result<(), DecodeError> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(DecodeError::new("bytes after the end"))
        }
    }
}

#[cfg(test)]
mod tests;
