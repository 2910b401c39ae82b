//! The envelope of a page: the 64 bytes in front of its body, which are never sealed.
//!
//! ```text
//!  0  magic "FDRB"        4  format u16       6  zero u16
//!  8  crc32c u32 of all other bytes           12  body size u32
//! 16  lsn u64            24  key id u64 (0: the body is in clear)
//! 32  nonce, 24 bytes    56  written u64, milliseconds since 1970
//! 64  body (sealed: the ciphertext and its tag)
//! ```
//!
//! The envelope says only what a reader needs before it has a key. Key ranges and keys are in the
//! body. The nonce is random in each version: it is the AEAD's nonce, and it makes the ETags of two
//! versions differ.

use std::fmt;

use bytes::Bytes;

use crate::error::PageError;
use crate::page::{FORMAT, PAGE_BYTES_MAX, Page};
use crate::record::crc32c;

/// Bytes of a nonce: that of XChaCha20-Poly1305.
pub const NONCE_BYTES: usize = 24;

const MAGIC: [u8; 4] = *b"FDRB";
pub(crate) const ENVELOPE_BYTES: usize = 64;
/// What sealing may add to a body.
const TAG_BYTES_MAX: usize = 64;

/// What stands in front of a page's body.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Envelope {
    /// Number of the version. A page that a split creates goes on from the left page's new version.
    pub lsn: u64,
    /// Id of the key that seals the body; 0 for a body in clear.
    pub key: u64,
    /// Random bytes, new in each version.
    pub nonce: [u8; NONCE_BYTES],
    /// Wall clock of the checkpoint that wrote the version, milliseconds since 1970.
    pub written_ms: u64,
}

impl Envelope {
    /// What the AEAD authenticates beside the body: magic, format, LSN, key id, nonce, time, and
    /// the page's URI.
    pub fn associated_data(&self, uri: &str) -> Vec<u8> {
        let mut data = Vec::with_capacity(56 + uri.len());
        data.extend_from_slice(&MAGIC);
        data.extend_from_slice(&FORMAT.to_be_bytes());
        data.extend_from_slice(&self.lsn.to_be_bytes());
        data.extend_from_slice(&self.key.to_be_bytes());
        data.extend_from_slice(&self.nonce);
        data.extend_from_slice(&self.written_ms.to_be_bytes());
        data.extend_from_slice(uri.as_bytes());
        data
    }

    fn to_bytes(self, body: &[u8]) -> [u8; ENVELOPE_BYTES] {
        let mut out = [0; ENVELOPE_BYTES];
        out[..4].copy_from_slice(&MAGIC);
        out[4..6].copy_from_slice(&FORMAT.to_be_bytes());
        let size = u32::try_from(body.len()).expect("a bounded page");
        out[12..16].copy_from_slice(&size.to_be_bytes());
        out[16..24].copy_from_slice(&self.lsn.to_be_bytes());
        out[24..32].copy_from_slice(&self.key.to_be_bytes());
        out[32..56].copy_from_slice(&self.nonce);
        out[56..].copy_from_slice(&self.written_ms.to_be_bytes());
        let crc = crc32c(&[&out[..8], &out[12..], body]);
        out[8..12].copy_from_slice(&crc.to_be_bytes());
        out
    }

    /// The object: envelope and body.
    pub(crate) fn join(self, body: &[u8]) -> Bytes {
        let mut object = Vec::with_capacity(ENVELOPE_BYTES + body.len());
        object.extend_from_slice(&self.to_bytes(body));
        object.extend_from_slice(body);
        object.into()
    }
}

impl fmt::Debug for Envelope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "lsn {} key {} written {} nonce ",
            self.lsn, self.key, self.written_ms
        )?;
        self.nonce
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// An object of the store whose envelope and checksum are right; its body may be sealed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    envelope: Envelope,
    body: Bytes,
}

impl Stored {
    /// Reads the envelope of an object.
    ///
    /// # Errors
    /// [`PageError`] naming what is wrong.
    pub fn parse(object: Bytes) -> Result<Self, PageError> {
        let mut body = object;
        if body.len() < ENVELOPE_BYTES {
            let is_ours = body.starts_with(&MAGIC);
            return Err(if is_ours {
                damaged("an early end")
            } else {
                PageError::Foreign
            });
        }
        let head = body.split_to(ENVELOPE_BYTES);
        if head[..4] != MAGIC {
            return Err(PageError::Foreign);
        }
        let found = u16::from_be_bytes([head[4], head[5]]);
        if found != FORMAT {
            return Err(PageError::Format { found });
        }
        let u32_at =
            |at: usize| u32::from_be_bytes(*head[at..].first_chunk().expect("in 64 bytes"));
        let u64_at =
            |at: usize| u64::from_be_bytes(*head[at..].first_chunk().expect("in 64 bytes"));
        if body.len() > PAGE_BYTES_MAX + TAG_BYTES_MAX {
            return Err(damaged("it is larger than any page"));
        }
        if body.len() != u32_at(12) as usize {
            return Err(damaged("its size is not the one it names"));
        }
        if crc32c(&[&head[..8], &head[12..], &body]) != u32_at(8) {
            return Err(damaged("the checksum does not match"));
        }
        if head[6..8] != [0, 0] {
            return Err(damaged("the envelope's reserved bytes are set"));
        }
        let envelope = Envelope {
            lsn: u64_at(16),
            key: u64_at(24),
            nonce: *head[32..].first_chunk().expect("in 64 bytes"),
            written_ms: u64_at(56),
        };
        Ok(Stored { envelope, body })
    }

    /// The envelope.
    pub fn envelope(&self) -> &Envelope {
        &self.envelope
    }

    /// The body as stored: sealed when the envelope names a key.
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// The page of an object in clear, without copying it.
    ///
    /// # Errors
    /// [`PageError::Sealed`] when the body is sealed; else as [`Stored::unsealed`].
    pub fn open(self) -> Result<Page, PageError> {
        match self.envelope.key {
            0 => Page::parse(self.envelope, self.body),
            key => Err(PageError::Sealed { key }),
        }
    }

    /// The page of a sealed object, whose body the caller has opened and authenticated.
    ///
    /// # Errors
    /// [`PageError`] naming what is wrong with the body.
    pub fn unsealed(self, body: Bytes) -> Result<Page, PageError> {
        Page::parse(self.envelope, body)
    }
}

impl Page {
    /// The object that stores this page in clear.
    ///
    /// # Panics
    /// When the page names a key: its body must be sealed.
    pub fn encode(&self) -> Bytes {
        assert_eq!(self.envelope().key, 0, "a page with a key is sealed");
        self.envelope().join(self.body())
    }

    /// The object that stores this page sealed: `sealed` is the body encrypted under the envelope's
    /// key and nonce, with its tag.
    ///
    /// # Panics
    /// When the page names no key.
    pub fn encode_sealed(&self, sealed: &[u8]) -> Bytes {
        assert_ne!(
            self.envelope().key,
            0,
            "a page without a key is stored in clear"
        );
        self.envelope().join(sealed)
    }

    /// The page of an object in clear, without copying it.
    ///
    /// # Errors
    /// [`PageError`] naming what is wrong.
    pub fn decode(object: Bytes) -> Result<Page, PageError> {
        Stored::parse(object)?.open()
    }
}

fn damaged(what: &'static str) -> PageError {
    PageError::Damaged { what }
}

#[cfg(test)]
mod tests;
