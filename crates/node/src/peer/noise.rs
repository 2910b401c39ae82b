//! `Noise_NNpsk0_25519_ChaChaPoly_SHA256`, the part without sockets, randomness and key pairs. It
//! has the two messages of its handshake, and the ciphers that follow (the Noise specification,
//! revision 34, sections 5, 7.5 and 9).
//!
//! ```text
//!  -> psk, e, payload          both know the key, or the payload does not open
//!  <- e, ee, payload           from here on also what no later thief of the key can compute
//! ```
//!
//! Public keys and their shared secret are arguments, so that the published vectors of the pattern
//! are values in, values out.
//!
//! Invariants:
//! - NOISE-1 a cipher never seals two messages under one nonce: nonces count, and it is not cloned.
//! - NOISE-2 a reader that opens message n has opened all before it: nothing is left out, repeated,
//!   reordered.

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use ring::{digest, hmac};
use zeroize::Zeroizing;

/// Bytes of a key, a hash, a public key.
pub(super) const KEY_SIZE: usize = 32;
/// What sealing adds.
pub(super) const TAG_SIZE: usize = 16;

const NAME: &[u8] = b"Noise_NNpsk0_25519_ChaChaPoly_SHA256";

type Secret = Zeroizing<[u8; KEY_SIZE]>;

/// What does not open: sealed under another key or at another place, or changed since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DoesNotOpen;

/// The messages of one direction, in order.
pub(super) struct Cipher {
    key: LessSafeKey,
    counter: u64,
}

impl Cipher {
    fn new(key: &Secret) -> Self {
        let key = UnboundKey::new(&CHACHA20_POLY1305, &**key).expect("the key has its size");
        Cipher {
            key: LessSafeKey::new(key),
            counter: 0,
        }
    }

    /// Seals what stands in `out` from `start` on, and appends the tag.
    pub(super) fn seal(&mut self, associated: &[u8], out: &mut Vec<u8>, start: usize) {
        let (nonce, associated) = (self.nonce(), Aad::from(associated));
        let tag = self
            .key
            .seal_in_place_separate_tag(nonce, associated, &mut out[start..]);
        let tag = tag.expect("a record is far below the cipher's limit");
        out.extend_from_slice(tag.as_ref());
    }

    /// Opens `sealed` in its place; what it says is its first bytes, without the tag.
    pub(super) fn open<'a>(
        &mut self,
        associated: &[u8],
        sealed: &'a mut [u8],
    ) -> Result<&'a [u8], DoesNotOpen> {
        let (nonce, associated) = (self.nonce(), Aad::from(associated));
        let opened = self.key.open_in_place(nonce, associated, sealed);
        opened.map(|opened| &*opened).map_err(|_| DoesNotOpen)
    }

    /// Four zeros and the number, least significant byte first (section 12.2).
    fn nonce(&mut self) -> Nonce {
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&self.counter.to_le_bytes());
        self.counter += 1;
        Nonce::assume_unique_for_key(nonce)
    }
}

/// A handshake under way: both sides take the same steps in the same order.
pub(super) struct Handshake {
    chaining: Secret,
    hash: [u8; KEY_SIZE],
    cipher: Cipher,
}

impl Handshake {
    /// Begins: both sides say the same `prologue` in clear, and have the same key.
    pub(super) fn new(key: &[u8; KEY_SIZE], prologue: &[u8]) -> Self {
        let name = sha256(&[NAME]);
        let [chaining, hash, cipher] = derive(&name, key);
        let prologue = sha256(&[&name, prologue]);
        Handshake {
            chaining,
            hash: sha256(&[&prologue, &*hash]),
            cipher: Cipher::new(&cipher),
        }
    }

    /// Either side's public key, as it stands in its message.
    pub(super) fn mix_public(&mut self, public: &[u8; KEY_SIZE]) {
        self.hash = sha256(&[&self.hash, public]);
        self.mix_secret(public);
    }

    /// What both key pairs come to.
    pub(super) fn mix_secret(&mut self, secret: &[u8]) {
        let [chaining, cipher, _] = derive(&self.chaining, secret);
        self.chaining = chaining;
        self.cipher = Cipher::new(&cipher);
    }

    /// Appends the payload of a message, sealed.
    pub(super) fn seal(&mut self, payload: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(payload);
        self.cipher.seal(&self.hash, out, start);
        self.hash = sha256(&[&self.hash, &out[start..]]);
    }

    /// The payload of a message.
    pub(super) fn open(&mut self, sealed: &[u8]) -> Result<Vec<u8>, DoesNotOpen> {
        let mut payload = sealed.to_vec();
        let size = self.cipher.open(&self.hash, &mut payload)?.len();
        payload.truncate(size);
        self.hash = sha256(&[&self.hash, sealed]);
        Ok(payload)
    }

    /// The ciphers of what follows: of the caller, and of the answering node.
    pub(super) fn split(self) -> (Cipher, Cipher) {
        let [first, second, _] = derive(&self.chaining, &[]);
        (Cipher::new(&first), Cipher::new(&second))
    }
}

fn sha256(parts: &[&[u8]]) -> [u8; KEY_SIZE] {
    let mut context = digest::Context::new(&digest::SHA256);
    parts.iter().for_each(|part| context.update(part));
    let mut hash = [0; KEY_SIZE];
    hash.copy_from_slice(context.finish().as_ref());
    hash
}

/// HKDF with three outputs (section 4.3); the first two are the same where only two are wanted.
fn derive(chaining: &[u8; KEY_SIZE], secret: &[u8]) -> [Secret; 3] {
    let extracted = hmac_sha256(chaining, &[secret]);
    let first = hmac_sha256(&extracted, &[&[1]]);
    let second = hmac_sha256(&extracted, &[&*first, &[2]]);
    let third = hmac_sha256(&extracted, &[&*second, &[3]]);
    [first, second, third]
}

fn hmac_sha256(key: &[u8; KEY_SIZE], parts: &[&[u8]]) -> Secret {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    let mut context = hmac::Context::with_key(&key);
    parts.iter().for_each(|part| context.update(part));
    let mut secret = Secret::default();
    secret.copy_from_slice(context.sign().as_ref());
    secret
}

#[cfg(test)]
mod tests;
