//! Bodies in AWS's chunks (`Content-Encoding: aws-chunked`), as they come.
//!
//! ```text
//! size;chunk-signature=…\r\n bytes \r\n  …  0;chunk-signature=…\r\n  [field:value\r\n …] \r\n
//! ```
//!
//! Invariants:
//! - no byte is copied or held: only a line that is cut is, up to [`LINE_BYTES_MAX`].
//! - CHUNK-2 the end is reached only after every chunk's signature, and that of the trailer, was
//!   what was computed, where the body is signed.
//!
//! Deliberately absent: what the fields of a trailer mean (`digest`); the sum of the sizes.

use bytes::Bytes;
use sha2::{Digest as _, Sha256};

use crate::s3::fault::{Fault, incomplete_body, invalid_request, wrong_chunk};
use crate::signature::ChunkKey;

/// The longest line: a size with a signature, or a field of a trailer.
const LINE_BYTES_MAX: usize = 512;
/// Fields of a trailer.
const FIELDS_MAX: usize = 8;
const TRAILER_SIGNATURE: &str = "x-amz-trailer-signature";

/// Fields of a trailer, names in lower case.
pub(crate) type Fields = Vec<(String, String)>;

/// Reads the chunks of one body.
pub(crate) struct Chunks {
    key: Option<ChunkKey>,
    has_trailer: bool,
    state: State,
    line: Vec<u8>,
    /// Of the chunk that comes: the hash of its bytes so far, and its signature.
    hash: Sha256,
    signature: String,
    fields: Fields,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// A line with a size.
    Size,
    /// So many bytes of a chunk are to come.
    Bytes(u64),
    /// The line end after a chunk.
    After,
    /// A field of the trailer, or the line end after all.
    Field,
    /// The trailer is signed and that was seen: the line end after all.
    Last,
    Done,
}

impl Chunks {
    /// The chunks of a body; signed ones with the key that the request was signed with.
    pub(crate) fn new(key: Option<ChunkKey>, has_trailer: bool) -> Chunks {
        Chunks {
            key,
            has_trailer,
            state: State::Size,
            line: Vec::new(),
            hash: Sha256::new(),
            signature: String::new(),
            fields: Fields::new(),
        }
    }

    /// Takes from `input` up to the next bytes of the body, and these. `None` when all of it is
    /// taken.
    ///
    /// # Errors
    /// The framing or a signature is wrong.
    pub(crate) fn next(&mut self, input: &mut Bytes) -> Result<Option<Bytes>, Fault> {
        while !input.is_empty() {
            match self.state {
                State::Bytes(left) => {
                    let count = usize::try_from(left).unwrap_or(usize::MAX).min(input.len());
                    let bytes = input.split_to(count);
                    if self.key.is_some() {
                        self.hash.update(&bytes);
                    }
                    self.state = match left - count as u64 {
                        0 => State::After,
                        left => State::Bytes(left),
                    };
                    return Ok(Some(bytes));
                }
                State::Done => return Err(broken("bytes follow its end")),
                _ => {
                    if let Some(line) = self.take_line(input)? {
                        self.read_line(&line)?;
                    }
                }
            }
        }
        Ok(None)
    }

    /// The fields of the trailer: nothing more will come.
    ///
    /// # Errors
    /// IncompleteBody when the end was not reached.
    pub(crate) fn finish(self) -> Result<Fields, Fault> {
        match self.state {
            State::Done => Ok(self.fields),
            _ => Err(incomplete_body()),
        }
    }

    fn take_line(&mut self, input: &mut Bytes) -> Result<Option<Vec<u8>>, Fault> {
        let end = input.iter().position(|&byte| byte == b'\n');
        let count = end.map_or(input.len(), |at| at + 1);
        if LINE_BYTES_MAX < self.line.len() + count {
            return Err(broken("a line is too long"));
        }
        self.line.extend_from_slice(&input.split_to(count));
        if end.is_none() {
            return Ok(None);
        }
        let mut line = std::mem::take(&mut self.line);
        line.pop();
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        Ok(Some(line))
    }

    fn read_line(&mut self, line: &[u8]) -> Result<(), Fault> {
        let text = std::str::from_utf8(line).map_err(|_| broken("a line is no text"))?;
        self.state = match self.state {
            State::Size => self.begin_chunk(text)?,
            State::After if text.is_empty() => {
                self.check_chunk()?;
                State::Size
            }
            State::After => return Err(broken("a chunk is longer than its size")),
            State::Field if text.is_empty() => self.end()?,
            State::Field => self.read_field(text)?,
            State::Last if text.is_empty() => State::Done,
            State::Last => return Err(broken("a field follows the trailer's signature")),
            State::Bytes(_) | State::Done => self.state,
        };
        Ok(())
    }

    fn begin_chunk(&mut self, line: &str) -> Result<State, Fault> {
        let (size, extension) = line.split_once(';').unwrap_or((line, ""));
        let is_hex =
            (1..=16).contains(&size.len()) && size.bytes().all(|it| it.is_ascii_hexdigit());
        let size = u64::from_str_radix(size, 16).ok().filter(|_| is_hex);
        let size = size.ok_or_else(|| broken("a chunk's size is no hexadecimal number"))?;
        if self.key.is_some() {
            let signature = extension.strip_prefix("chunk-signature=");
            self.signature = signature.ok_or_else(wrong_chunk)?.to_owned();
        }
        if 0 < size {
            return Ok(State::Bytes(size));
        }
        self.check_chunk()?;
        Ok(State::Field)
    }

    /// Compares the signature of the chunk that ended.
    fn check_chunk(&mut self) -> Result<(), Fault> {
        let hash = std::mem::take(&mut self.hash).finalize();
        let key = self.key.as_mut();
        match key.is_none_or(|key| key.is_signed(&hash, &self.signature)) {
            true => Ok(()),
            false => Err(wrong_chunk()),
        }
    }

    fn read_field(&mut self, line: &str) -> Result<State, Fault> {
        if !self.has_trailer {
            return Err(broken("it has a trailer that was not announced"));
        }
        let (name, value) = line
            .split_once(':')
            .ok_or_else(|| broken("a field of the trailer has no colon"))?;
        let (name, value) = (name.trim().to_ascii_lowercase(), value.trim());
        if name == TRAILER_SIGNATURE {
            return self.check_trailer(value).map(|()| State::Last);
        }
        if self.fields.len() == FIELDS_MAX {
            return Err(broken("the trailer has too many fields"));
        }
        self.fields.push((name, value.to_owned()));
        Ok(State::Field)
    }

    fn check_trailer(&mut self, signature: &str) -> Result<(), Fault> {
        let Some(key) = &mut self.key else {
            return Ok(());
        };
        let mut hash = Sha256::new();
        for (name, value) in &self.fields {
            for part in [name, ":", value, "\n"] {
                hash.update(part.as_bytes());
            }
        }
        match key.is_trailer_signed(&hash.finalize(), signature) {
            true => Ok(()),
            false => Err(wrong_chunk()),
        }
    }

    /// The line end after all: a signed trailer has been compared before.
    fn end(&self) -> Result<State, Fault> {
        match self.key.is_some() && self.has_trailer {
            true => Err(wrong_chunk()),
            false => Ok(State::Done),
        }
    }
}

fn broken(why: &str) -> Fault {
    invalid_request(format!("The aws-chunked body is malformed: {why}."))
}

#[cfg(test)]
mod tests;
