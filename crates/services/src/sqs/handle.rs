//! Receipt handles: which receive of which message, under a sum that only the queue can make.
//!
//! ```text
//! handle := era:u32be number:u64be receive:u32be sum:16 bytes       (base64 of the URL alphabet)
//! sum    := HMAC-SHA256(the queue's secret, collection era number receive), its first half
//! ```

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use bytes::Bytes;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use subtle::ConstantTimeEq as _;

use crate::CollectionId;

const PARTS: usize = 16;
const SUM: usize = 16;

/// One receive of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Receipt {
    pub(crate) era: u32,
    pub(crate) number: u64,
    /// The count of receives, with this one.
    pub(crate) receive: u32,
}

impl Receipt {
    /// The handle, under the secret of its queue.
    pub(crate) fn seal(self, collection: CollectionId, secret: u128) -> Bytes {
        let parts = self.parts();
        let mut handle = parts.to_vec();
        handle.extend_from_slice(&sum(&parts, collection, secret));
        Bytes::from(handle)
    }

    /// Reads a handle of this queue. `is_checked` is true but in a mutant.
    pub(crate) fn open(
        text: &str,
        collection: CollectionId,
        secret: u128,
        is_checked: bool,
    ) -> Option<Receipt> {
        let handle = BASE64.decode(text).ok()?;
        let (parts, given) = handle.split_first_chunk::<PARTS>()?;
        let is_ours = bool::from(sum(parts, collection, secret).ct_eq(given));
        if !is_ours && is_checked {
            return None;
        }
        let all = u128::from_be_bytes(*parts);
        Some(Receipt {
            era: (all >> 96) as u32,
            number: (all >> 32) as u64,
            receive: all as u32,
        })
    }

    fn parts(self) -> [u8; PARTS] {
        let all = u128::from(self.era) << 96 | u128::from(self.number) << 32;
        (all | u128::from(self.receive)).to_be_bytes()
    }
}

/// The text of a handle.
pub(crate) fn show(handle: &[u8]) -> String {
    BASE64.encode(handle)
}

fn sum(parts: &[u8], collection: CollectionId, secret: u128) -> [u8; SUM] {
    let mut mac =
        Hmac::<Sha256>::new_from_slice(&secret.to_be_bytes()).expect("a key of any length will do");
    mac.update(&collection.0.to_be_bytes());
    mac.update(parts);
    let sum: [u8; 32] = mac.finalize().into_bytes().into();
    let (half, _) = sum.split_first_chunk().expect("32 bytes begin with 16");
    *half
}

/// A random number that is derived from that of a request: one for each purpose and index.
pub(crate) fn derive(seed: u128, purpose: &str, index: u64) -> u128 {
    let mut mac =
        Hmac::<Sha256>::new_from_slice(&seed.to_be_bytes()).expect("a key of any length will do");
    mac.update(&index.to_be_bytes());
    mac.update(purpose.as_bytes());
    let sum: [u8; 32] = mac.finalize().into_bytes().into();
    let (half, _) = sum.split_first_chunk().expect("32 bytes begin with 16");
    u128::from_be_bytes(*half)
}

/// A random UUID, version 4.
pub(crate) fn uuid(seed: u128, purpose: &str, index: u64) -> u128 {
    let random = derive(seed, purpose, index);
    random & !(0xF << 76 | 0xC << 60) | 0x4 << 76 | 0x8 << 60
}
