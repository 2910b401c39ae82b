//! What is sealed with a key that lies beside the data. Secrets at rest are bound to their access
//! key's id, and what sessions have seen to their account (`request/tokens.rs`).
//!
//! ```text
//! sealed := version:u8=1 nonce[24] ciphertext tag[16]      XChaCha20-Poly1305, random nonce
//! ```
//!
//! A copy of the log or the engine alone opens nothing; a copy of the whole folder does. In a
//! cluster of processes that key is derived from the cluster's, which is no part of the folder.
//!
//! Deliberately absent: key rotation, key services.

use std::fmt;
use std::io;
use std::path::Path;

use bytes::Bytes;
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use fader_services::View;
use fader_services::catalog::{self, AccessKey};
use rand::TryRng;
use rand::rngs::SysRng;
use ring::hmac;
use zeroize::Zeroizing;

use crate::secrets::cluster::ClusterKey;
use crate::status::OpenError;
use crate::storage::disk::{self, Disk, SyncSite};

const VERSION: u8 = 1;
const KEY_SIZE: usize = 32;
const NONCE_SIZE: usize = 24;
const KEY_FILE: &str = "seal.key";
const KEY_FILE_NEW: &str = "seal.key.new";

/// A secret that is wiped from memory and never shown by `Debug`.
#[derive(Clone)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Wraps a secret.
    pub fn new(text: String) -> Self {
        Secret(Zeroizing::new(text))
    }

    /// The secret itself: for signing and for showing once.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// An access key whose secret is open: what verifying a signature needs.
#[derive(Clone, Debug)]
pub struct OpenKey {
    /// The key as stored.
    pub key: AccessKey,
    /// Its secret.
    pub secret: Secret,
}

/// What a seal cannot do.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SealError {
    /// The bytes were sealed with another key, for another id, or were changed.
    #[error("the secret of access key {0} does not open with the sealing key of this folder")]
    DoesNotOpen(String),
    /// The operating system gives no random bytes.
    #[error("no random bytes: {0}")]
    Entropy(#[from] rand::rngs::SysError),
}

/// Seals and opens secrets.
pub(crate) struct Seal {
    cipher: XChaCha20Poly1305,
}

impl Seal {
    /// Reads the folder's key; `creates` makes one where there is none.
    pub(crate) fn load(disk: &dyn Disk, folder: &Path, creates: bool) -> Result<Self, OpenError> {
        let path = folder.join(KEY_FILE);
        let damaged = |reason: &str| {
            OpenError::damaged(format!(
                "{} {reason}: the secrets of all access keys are sealed with it. Restore it from \
                 a copy of the data folder",
                path.display()
            ))
        };
        let bytes = match disk::read_file(disk, &path) {
            Ok(bytes) => Zeroizing::new(bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound && creates => {
                create_key(disk, folder).map_err(|source| {
                    OpenError::io(format!("creating {}", path.display()), source)
                })?
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(damaged("is missing"));
            }
            Err(source) => {
                let context = format!("reading {}", path.display());
                return Err(OpenError::io(context, source));
            }
        };
        let key = Key::try_from(bytes.as_slice()).map_err(|_| damaged("is not 32 bytes long"))?;
        Ok(Seal {
            cipher: XChaCha20Poly1305::new(&key),
        })
    }

    /// The seal of a cluster: all nodes seal and open with a key that comes from the cluster's.
    pub(crate) fn of_cluster(key: &ClusterKey, cluster: u128) -> Self {
        let key = Zeroizing::new(derive(key, b"fader seal 1", cluster));
        Seal {
            cipher: XChaCha20Poly1305::new(&Key::from(*key)),
        }
    }

    /// Refuses to go on where no secret of the catalog opens. Every signed request would fail, and
    /// new secrets would be sealed that the true key does not open.
    pub(crate) fn check(&self, catalog: &dyn View, folder: &Path) -> Result<(), OpenError> {
        let Ok(keys) = catalog::keys(catalog) else {
            // The store says so at each read of them.
            return Ok(());
        };
        let closed = keys
            .iter()
            .filter(|key| self.open(&key.id, &key.sealed_secret).is_err());
        match closed.count() {
            0 => Ok(()),
            count if count == keys.len() => Err(OpenError::damaged(format!(
                "{} is damaged, or that of another data folder: it opens no secret of the access \
                 keys here. Restore it from a copy of the data folder",
                folder.join(KEY_FILE).display()
            ))),
            count => {
                tracing::error!(
                    count,
                    "secrets of access keys do not open with seal.key: create those keys anew"
                );
                Ok(())
            }
        }
    }

    /// Seals the secret of the access key `id`.
    pub(crate) fn seal(&self, id: &str, secret: &Secret) -> Result<Bytes, SealError> {
        let sealed = self.encrypt(id.as_bytes(), secret.reveal().as_bytes())?;
        sealed.ok_or_else(|| SealError::DoesNotOpen(id.to_owned()))
    }

    /// Opens the secret of the access key `id`.
    pub(crate) fn open(&self, id: &str, sealed: &[u8]) -> Result<Secret, SealError> {
        let opened = self.decrypt(id.as_bytes(), sealed);
        let secret = opened.and_then(|secret| String::from_utf8(secret).ok());
        let secret = secret.ok_or_else(|| SealError::DoesNotOpen(id.to_owned()))?;
        Ok(Secret::new(secret))
    }

    /// Seals a message for what `bound` names; `None` if it is too long.
    pub(crate) fn encrypt(&self, bound: &[u8], message: &[u8]) -> Result<Option<Bytes>, SealError> {
        let mut nonce = [0; NONCE_SIZE];
        SysRng.try_fill_bytes(&mut nonce)?;
        let payload = Payload {
            msg: message,
            aad: bound,
        };
        let sealed = self.cipher.encrypt(&XNonce::from(nonce), payload).ok();
        Ok(sealed
            .map(|sealed| Bytes::from([&[VERSION], nonce.as_slice(), sealed.as_slice()].concat())))
    }

    /// Opens what was sealed for what `bound` names, with this key.
    pub(crate) fn decrypt(&self, bound: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        let (&VERSION, rest) = sealed.split_first()? else {
            return None;
        };
        let (nonce, sealed) = rest.split_at_checked(NONCE_SIZE)?;
        let payload = Payload {
            msg: sealed,
            aad: bound,
        };
        let nonce = XNonce::try_from(nonce).ok()?;
        self.cipher.decrypt(&nonce, payload).ok()
    }
}

/// What the cluster's key comes to, for one purpose in one cluster; it does not lead back.
pub(crate) fn derive(key: &ClusterKey, purpose: &[u8], cluster: u128) -> [u8; KEY_SIZE] {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key.reveal());
    let mut context = hmac::Context::with_key(&key);
    context.update(purpose);
    context.update(&cluster.to_be_bytes());
    let mut derived = [0; KEY_SIZE];
    derived.copy_from_slice(context.sign().as_ref());
    derived
}

/// The key is whole under its name or not there at all.
fn create_key(disk: &dyn Disk, folder: &Path) -> io::Result<Zeroizing<Vec<u8>>> {
    let mut key = Zeroizing::new(vec![0; KEY_SIZE]);
    SysRng.try_fill_bytes(&mut key).map_err(io::Error::other)?;
    let path = folder.join(KEY_FILE_NEW);
    let mut file = match disk.create(&path) {
        // Written over, not removed: a crash could keep the rename below and lose the removal.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => disk.open(&path)?,
        other => other?,
    };
    file.set_size(KEY_SIZE as u64)?;
    file.write_all_at(0, &key)?;
    file.sync(SyncSite::SealKey)?;
    disk.rename(&path, &folder.join(KEY_FILE))?;
    disk.sync_folder(folder, SyncSite::SealFolder)?;
    Ok(key)
}

/// A random access key id: `AKIA` and sixteen letters or digits, as AWS's.
pub(crate) fn random_id() -> Result<String, SealError> {
    const ALPHABET: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    let mut random = [0_u8; 16];
    SysRng.try_fill_bytes(&mut random)?;
    let outgoing = random
        .iter()
        .map(|byte| char::from(ALPHABET[usize::from(byte % 32)]));
    Ok("AKIA".chars().chain(outgoing).collect())
}

/// A random secret: forty characters of base64's alphabet, 240 random bits, as AWS's.
pub(crate) fn random_secret() -> Result<Secret, SealError> {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut random = Zeroizing::new([0_u8; 40]);
    SysRng.try_fill_bytes(random.as_mut_slice())?;
    let outgoing = random
        .iter()
        .map(|byte| char::from(ALPHABET[usize::from(byte % 64)]));
    Ok(Secret::new(outgoing.collect()))
}

#[cfg(test)]
mod tests;
