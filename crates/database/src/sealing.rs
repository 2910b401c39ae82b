//! Encryption: a key per collection, sealed for the identities that may use it.
//!
//! ```text
//! sealed := 0x02 key:8 nonce[24] ciphertext tag[16]         XChaCha20-Poly1305
//! wrapped key := public[32] nonce[24] ciphertext tag[16]    X25519 with a key pair of its own
//! ```
//!
//! A page names its key in its envelope; docs/reference/format/page.md. The store sees sizes,
//! times, and the names in the catalogue. Authenticated beside the plaintext, each with the
//! database's id: of a page its envelope and its object's name, of records their tree. Of a large
//! record its object's id.
//!
//! Invariants:
//! - SEAL-1 in a collection with keys nothing in clear is written, and nothing in clear is read.
//! - SEAL-2 nonces are random, 192 bits, and never repeat.
//! - SEAL-3 a key is wrapped only for identities that a holder of the collection's key granted.
//!
//! Deliberately absent: hiding of sizes and times; taking back what an identity has read.

mod identity;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use fader_blink::{Page, Stored};
use fader_cloud::{Entropy, Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use x25519_dalek::{PublicKey, StaticSecret};
use zeroize::Zeroizing;

pub use self::identity::{Identity, PublicIdentity};
use crate::catalogue::CollectionId;

const SEALED: u8 = 2;
const KEY_BYTES: usize = 32;
const NONCE_BYTES: usize = 24;
const HEAD_BYTES: usize = 1 + 8 + NONCE_BYTES;
/// Bytes that sealing adds.
pub(crate) const SEAL_BYTES: usize = HEAD_BYTES + 16;

/// A collection's key in the catalogue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SealingKey {
    /// Its id as 16 hexadecimal digits; never 0.
    id: String,
    /// What each identity got.
    pub(crate) grants: BTreeMap<PublicIdentity, Grant>,
}

/// What an identity got.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Grant {
    /// The key, wrapped for it, hexadecimal.
    wrapped: String,
    /// The identity, sealed with the key, hexadecimal: who granted it had the key.
    proof: String,
}

impl SealingKey {
    /// Its id.
    pub(crate) fn id(&self) -> u64 {
        u64::from_str_radix(&self.id, 16).unwrap_or(0)
    }

    /// A new key for these identities.
    pub(crate) fn new(
        database: &str,
        to: impl Iterator<Item = PublicIdentity>,
        entropy: &dyn Entropy,
    ) -> Result<Self> {
        let mut id = [0; 8];
        entropy.fill(&mut id);
        let mut bytes = Zeroizing::new([0; KEY_BYTES]);
        entropy.fill(&mut *bytes);
        let mut key = SealingKey {
            id: format!("{:016x}", u64::from_be_bytes(id).max(1)),
            grants: BTreeMap::new(),
        };
        for identity in to {
            key.grant(database, &bytes, identity, entropy)?;
        }
        Ok(key)
    }

    /// Wraps the key for an identity.
    fn grant(
        &mut self,
        database: &str,
        key: &[u8; KEY_BYTES],
        to: PublicIdentity,
        entropy: &dyn Entropy,
    ) -> Result<()> {
        let mut own = Zeroizing::new([0; KEY_BYTES]);
        entropy.fill(&mut *own);
        let own = StaticSecret::from(*own);
        let public = PublicKey::from(&own);
        let receiver = PublicKey::from(to.0);
        let wrapping = wrapping(&own, &receiver, &public, &receiver)?;
        let sealed = seal(&wrapping, key, &self.wrap_data(database), entropy)?;
        let wrapped = const_hex::encode([public.as_bytes(), &sealed[..]].concat());
        let proof = seal(&cipher(key), b"", &self.proof_data(database, to), entropy)?;
        let proof = const_hex::encode(proof);
        self.grants.insert(to, Grant { wrapped, proof });
        Ok(())
    }

    /// The key, if it was granted to the identity.
    ///
    /// # Errors
    /// `Malformed`: what it got does not open.
    fn unwrap(&self, database: &str, by: &Identity) -> Result<Option<Zeroizing<[u8; KEY_BYTES]>>> {
        let Some(grant) = self.grants.get(&by.public()) else {
            return Ok(None);
        };
        let damaged = || {
            let context = format!(
                "key {} in the catalogue is damaged for your identity",
                self.id
            );
            Error::new(ErrorKind::Malformed, context)
        };
        let bytes = unhex_all(&grant.wrapped).ok_or_else(damaged)?;
        let (public, sealed) = bytes.split_first_chunk::<KEY_BYTES>().ok_or_else(damaged)?;
        let public = PublicKey::from(*public);
        let own = PublicKey::from(&by.0);
        let wrapping = wrapping(&by.0, &public, &public, &own)?;
        let key = open(&wrapping, sealed, &self.wrap_data(database)).ok_or_else(damaged)?;
        let key: [u8; KEY_BYTES] = key.as_slice().try_into().map_err(|_| damaged())?;
        Ok(Some(Zeroizing::new(key)))
    }

    /// Whether a holder of the key granted it to the identity.
    fn is_proven(&self, database: &str, key: &[u8; KEY_BYTES], identity: PublicIdentity) -> bool {
        let Some(proof) = self
            .grants
            .get(&identity)
            .and_then(|grant| unhex_all(&grant.proof))
        else {
            return false;
        };
        open(&cipher(key), &proof, &self.proof_data(database, identity)).is_some()
    }

    fn wrap_data(&self, database: &str) -> Vec<u8> {
        [
            b"wrapped key ",
            database.as_bytes(),
            b" ",
            self.id.as_bytes(),
        ]
        .concat()
    }

    fn proof_data(&self, database: &str, identity: PublicIdentity) -> Vec<u8> {
        let parts = [
            &b"granted "[..],
            database.as_bytes(),
            b" ",
            self.id.as_bytes(),
        ];
        [&parts.concat()[..], &identity.0].concat()
    }
}

/// The keys of a collection as one client has them. Clones are the same.
#[derive(Clone)]
pub(crate) struct Sealer(Arc<Keys>);

struct Keys {
    database: String,
    /// The newest key's id; 0: the collection is in clear.
    current: u64,
    /// Those that were granted to this client.
    own: BTreeMap<u64, (XChaCha20Poly1305, Zeroizing<[u8; KEY_BYTES]>)>,
    /// What to say when a key is missing.
    missing: String,
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sealer({:016x})", self.0.current)
    }
}

impl Sealer {
    /// The sealer of a collection with these keys, the newest last.
    ///
    /// # Errors
    /// `Malformed`: a key does not open.
    pub(crate) fn new(
        database: &str,
        keys: &[SealingKey],
        identity: Option<&Identity>,
    ) -> Result<Self> {
        let mut own = BTreeMap::new();
        for key in keys {
            let found = identity.map(|identity| key.unwrap(database, identity));
            if let Some(bytes) = found.transpose()?.flatten() {
                own.insert(key.id(), (cipher(&bytes), bytes));
            }
        }
        let missing = match identity {
            None => "it is encrypted: open it with an identity that was granted its key".to_owned(),
            Some(identity) => format!(
                "it is encrypted, and its key was not granted to your identity {}",
                identity.public()
            ),
        };
        Ok(Sealer(Arc::new(Keys {
            database: database.to_owned(),
            current: keys.last().map_or(0, SealingKey::id),
            own,
            missing,
        })))
    }

    /// Of collections in clear.
    pub(crate) fn in_clear() -> Self {
        Sealer(Arc::new(Keys {
            database: String::new(),
            current: 0,
            own: BTreeMap::new(),
            missing: String::new(),
        }))
    }

    /// The key of new pages and messages; 0: they are in clear.
    pub(crate) fn current(&self) -> u64 {
        self.0.current
    }

    /// Whether this client has the newest key, or needs none.
    pub(crate) fn is_open(&self) -> bool {
        self.0.current == 0 || self.0.own.contains_key(&self.0.current)
    }

    /// Fails when this client lacks the newest key.
    ///
    /// # Errors
    /// `Denied`.
    pub(crate) fn check(&self) -> Result<()> {
        match self.is_open() {
            true => Ok(()),
            false => Err(self.denied()),
        }
    }

    fn denied(&self) -> Error {
        Error::new(ErrorKind::Denied, self.0.missing.clone())
    }

    fn key(&self, id: u64) -> Result<&XChaCha20Poly1305> {
        let found = self.0.own.get(&id).map(|(cipher, _)| cipher);
        found.ok_or_else(|| self.denied())
    }

    /// The object that stores a page.
    ///
    /// # Errors
    /// `Denied`: the key of the page's envelope is not there.
    pub(crate) fn seal_page(&self, name: &str, page: &Page) -> Result<Bytes> {
        let envelope = page.envelope();
        if envelope.key == 0 {
            assert_eq!(
                self.0.current, 0,
                "a page of an encrypted collection has a key"
            );
            return Ok(page.encode());
        }
        let data = envelope.associated_data(&format!("{}/{name}", self.0.database));
        let payload = Payload {
            msg: page.body(),
            aad: &data,
        };
        let nonce = XNonce::from(envelope.nonce);
        let sealed = self.key(envelope.key)?.encrypt(&nonce, payload);
        Ok(page.encode_sealed(&sealed.map_err(|_| too_large())?))
    }

    /// The page of an object.
    ///
    /// # Errors
    /// `Denied`: its key is not there. `Malformed`: damaged, moved, or in clear where it must not.
    pub(crate) fn open_page(&self, name: &str, stored: Stored) -> Result<Page> {
        let malformed =
            |error| Error::caused(ErrorKind::Malformed, format!("object {name:?}"), error);
        let key = stored.envelope().key;
        if key == 0 && self.0.current == 0 {
            return stored.open().map_err(malformed);
        }
        if key == 0 {
            let context = format!("object {name:?} is in clear in an encrypted collection");
            return Err(Error::new(ErrorKind::Malformed, context));
        }
        let data = stored
            .envelope()
            .associated_data(&format!("{}/{name}", self.0.database));
        let payload = Payload {
            msg: stored.body(),
            aad: &data,
        };
        let nonce = XNonce::from(stored.envelope().nonce);
        let Ok(body) = self.key(key)?.decrypt(&nonce, payload) else {
            let context = format!("object {name:?} does not open with key {key:016x}");
            return Err(Error::new(ErrorKind::Malformed, context));
        };
        stored.unsealed(body.into()).map_err(malformed)
    }

    /// Bytes sealed with the newest key, or as they are in a collection in clear.
    ///
    /// # Errors
    /// `Denied`: the key is not there.
    pub(crate) fn seal(&self, what: &What, bytes: Bytes, entropy: &dyn Entropy) -> Result<Bytes> {
        let id = self.0.current;
        if id == 0 {
            return Ok(bytes);
        }
        let data = self.data(what, id);
        let sealed = seal(self.key(id)?, &bytes, &data, entropy)?;
        Ok([&[SEALED][..], &id.to_be_bytes(), &sealed].concat().into())
    }

    /// The bytes that were sealed.
    ///
    /// # Errors
    /// `Denied`: their key is not there. `Malformed`: damaged, moved, or in clear.
    pub(crate) fn open(&self, what: &What, mut bytes: Bytes) -> Result<Bytes> {
        if self.0.current == 0 {
            return Ok(bytes);
        }
        let malformed = || Error::new(ErrorKind::Malformed, format!("{what}: it does not open"));
        if bytes.len() < SEAL_BYTES || bytes.get_u8() != SEALED {
            return Err(malformed());
        }
        let id = bytes.get_u64();
        let opened = open(self.key(id)?, &bytes, &self.data(what, id));
        opened.map(Bytes::from).ok_or_else(malformed)
    }

    fn data(&self, what: &What, key: u64) -> Vec<u8> {
        format!("{what} of {} under {key:016x}", self.0.database).into_bytes()
    }

    /// The keys of the collection with the newest granted to another identity.
    ///
    /// # Errors
    /// `Denied`: this client lacks a key. `Invalid`: the collection is in clear.
    pub(crate) fn grant(
        &self,
        keys: &[SealingKey],
        to: PublicIdentity,
        entropy: &dyn Entropy,
    ) -> Result<Vec<SealingKey>> {
        self.check_keys(keys)?;
        let mut granted = keys.to_vec();
        for key in &mut granted {
            // Pages and records under older keys are to be read too.
            if let Some((_, bytes)) = self.0.own.get(&key.id()) {
                key.grant(&self.0.database, bytes, to, entropy)?;
            }
        }
        Ok(granted)
    }

    /// The keys of the collection with a new one, for all identities that have the newest but
    /// those of `without`.
    ///
    /// # Errors
    /// `Denied`: this client lacks the newest key. `Malformed`: an identity in the catalogue was
    /// granted by none that had the key. `Invalid`: the collection is in clear.
    pub(crate) fn rotate(
        &self,
        keys: &[SealingKey],
        without: Option<PublicIdentity>,
        entropy: &dyn Entropy,
    ) -> Result<Vec<SealingKey>> {
        self.check_keys(keys)?;
        let newest = keys.last().expect("a collection with keys");
        let (_, bytes) = &self.0.own[&newest.id()];
        let database = &self.0.database;
        for identity in newest.grants.keys() {
            if !newest.is_proven(database, bytes, *identity) {
                let context = format!(
                    "identity {identity} is in the catalogue, but no holder of the key granted \
                     it: nothing was changed"
                );
                return Err(Error::new(ErrorKind::Malformed, context));
            }
        }
        let kept = newest.grants.keys().copied();
        let kept = kept.filter(|identity| Some(*identity) != without);
        let mut rotated = keys.to_vec();
        rotated.push(SealingKey::new(database, kept, entropy)?);
        Ok(rotated)
    }

    fn check_keys(&self, keys: &[SealingKey]) -> Result<()> {
        if keys.is_empty() {
            let context = "the collection is not encrypted: create it with --encrypt";
            return Err(Error::new(ErrorKind::Invalid, context));
        }
        self.check()
    }
}

/// What is sealed: authenticated, so that nothing takes the place of another thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// Records of a tree, in messages and dead letters.
    Records(CollectionId),
    /// A record in the object of this id.
    Value(u128),
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            What::Records(tree) => write!(f, "records of {tree}"),
            What::Value(object) => write!(f, "record {object:032x}"),
        }
    }
}

fn cipher(key: &[u8; KEY_BYTES]) -> XChaCha20Poly1305 {
    XChaCha20Poly1305::new(&Key::from(*key))
}

/// The cipher that two key pairs have in common: from `secret` and `other`, for the wrapped key's
/// own pair and its receiver.
fn wrapping(
    secret: &StaticSecret,
    other: &PublicKey,
    wrapped: &PublicKey,
    receiver: &PublicKey,
) -> Result<XChaCha20Poly1305> {
    let shared = secret.diffie_hellman(other);
    if !shared.was_contributory() {
        return Err(Error::new(ErrorKind::Invalid, "an identity that is none"));
    }
    let mut hash = Sha256::new();
    for part in [
        &b"fader database wrapping 1"[..],
        shared.as_bytes(),
        wrapped.as_bytes(),
        receiver.as_bytes(),
    ] {
        hash.update(part);
    }
    let key = Zeroizing::new(<[u8; KEY_BYTES]>::from(hash.finalize()));
    Ok(cipher(&key))
}

/// A random nonce and the ciphertext.
fn seal(
    cipher: &XChaCha20Poly1305,
    bytes: &[u8],
    data: &[u8],
    entropy: &dyn Entropy,
) -> Result<Vec<u8>> {
    let mut nonce = [0; NONCE_BYTES];
    entropy.fill(&mut nonce);
    let payload = Payload {
        msg: bytes,
        aad: data,
    };
    let sealed = cipher.encrypt(&XNonce::from(nonce), payload);
    Ok([&nonce[..], &sealed.map_err(|_| too_large())?].concat())
}

fn open(cipher: &XChaCha20Poly1305, bytes: &[u8], data: &[u8]) -> Option<Vec<u8>> {
    let (nonce, sealed) = bytes.split_first_chunk::<NONCE_BYTES>()?;
    let payload = Payload {
        msg: sealed,
        aad: data,
    };
    cipher.decrypt(&XNonce::from(*nonce), payload).ok()
}

fn too_large() -> Error {
    Error::new(ErrorKind::Invalid, "too many bytes to be sealed")
}

fn unhex_all(text: &str) -> Option<Vec<u8>> {
    let is_hex = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    // Digits alone: it would take a prefix, too.
    const_hex::decode(text).ok().filter(|_| is_hex)
}

fn unhex(text: &str) -> Option<[u8; KEY_BYTES]> {
    unhex_all(text.trim())?.try_into().ok()
}

#[cfg(test)]
mod tests;
