//! Page tokens: where a page ended, bound to the request that the next page continues.
//!
//! ```text
//! token       := version:u8=1  kind:u8  fingerprint:u64be  position:byte*  checksum:u64be
//! fingerprint := hash(kind, length and bytes of the account, text of the request)
//! checksum    := hash(everything before it)
//! ```
//!
//! The hash is FNV-1a with 64 bits, written here so that tokens outlive releases and restarts. Each
//! of its steps is a bijection, so no change of a single byte goes unseen.
//!
//! Invariants:
//! - SELTOK-1 a token opens only for the account, the kind and the text that it was sealed for.
//!
//! Deliberately absent: secrecy and authenticity. A client that forges a token names a position in
//! its own data, so a position must do no harm with any content.

use bytes::Bytes;

use crate::catalog::AccountId;
use crate::simpledb::{Code, Error, PageToken};

const VERSION: u8 = 1;
const PREFIX_SIZE: usize = 2;
const HASH_SIZE: usize = 8;

/// What a token continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// ListDomains; its text is empty.
    Domains = 1,
    /// Select; its text is what decides which items come in which order.
    Select = 2,
    /// Query and QueryWithAttributes; its text is the domain and the expression.
    Query = 3,
    /// ListExports; its text is the domain.
    Exports = 4,
}

/// A token that continues `text` of `account` at `position`.
pub(crate) fn seal(kind: Kind, account: &AccountId, text: &[u8], position: &[u8]) -> PageToken {
    let mut token = Vec::with_capacity(PREFIX_SIZE + HASH_SIZE + position.len() + HASH_SIZE);
    token.extend_from_slice(&[VERSION, kind as u8]);
    token.extend_from_slice(&fingerprint(kind, account, text).to_be_bytes());
    token.extend_from_slice(position);
    let checksum = hash(HASH_START, &token);
    token.extend_from_slice(&checksum.to_be_bytes());
    PageToken(Bytes::from(token))
}

/// The position that [`seal`] put into `token` for the same request.
///
/// # Errors
/// `InvalidNextToken` when the token is damaged, or belongs to another request.
pub(crate) fn open(
    token: &PageToken,
    kind: Kind,
    account: &AccountId,
    text: &[u8],
) -> Result<Bytes, Error> {
    position(&token.0, kind, account, text).ok_or_else(|| {
        Error::new(
            Code::InvalidNextToken,
            "The specified next token is not valid.",
        )
    })
}

fn position(token: &Bytes, kind: Kind, account: &AccountId, text: &[u8]) -> Option<Bytes> {
    let (sealed, checksum) = token.split_last_chunk::<HASH_SIZE>()?;
    if hash(HASH_START, sealed) != u64::from_be_bytes(*checksum) {
        return None;
    }
    let rest = sealed.strip_prefix(&[VERSION, kind as u8])?;
    let (bound_to, position) = rest.split_first_chunk::<HASH_SIZE>()?;
    let is_ours = u64::from_be_bytes(*bound_to) == fingerprint(kind, account, text);
    is_ours.then(|| token.slice_ref(position))
}

fn fingerprint(kind: Kind, account: &AccountId, text: &[u8]) -> u64 {
    let account = account.0.as_bytes();
    let state = hash(HASH_START, &[kind as u8]);
    let state = hash(state, &(account.len() as u64).to_be_bytes());
    hash(hash(state, account), text)
}

const HASH_START: u64 = 0xcbf2_9ce4_8422_2325;
const HASH_PRIME: u64 = 0x0000_0100_0000_01b3;

/// FNV-1a, continued from `state`.
fn hash(state: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(state, |state, &byte| {
        (state ^ u64::from(byte)).wrapping_mul(HASH_PRIME)
    })
}

#[cfg(test)]
mod tests;
