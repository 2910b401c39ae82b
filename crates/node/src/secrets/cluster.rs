//! The cluster's key: 32 random bytes in a file of each node. A process that has it is a node.
//!
//! Deliberately absent: a key for each node, and its change while nodes run
//! (docs/internals/decisions/0006-between-nodes.md).

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rand::TryRng;
use rand::rngs::SysRng;
use zeroize::Zeroizing;

const KEY_SIZE: usize = 32;

/// The cluster's key. It is wiped from memory and never shown by `Debug`.
#[derive(Clone)]
pub struct ClusterKey(Zeroizing<[u8; KEY_SIZE]>);

/// A key's file that cannot be used, or made.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file system refused.
    #[error("the cluster's key in {0}: {1}")]
    Io(String, #[source] io::Error),
    /// It is not a key.
    #[error("the cluster's key in {0} is not 32 bytes long")]
    Size(String),
    /// Others than its owner may read it.
    #[error("the cluster's key in {0} can be read by others than its owner: chmod 600")]
    Open(String),
}

impl ClusterKey {
    /// Reads the key.
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn load(path: &Path) -> Result<Self, KeyError> {
        let name = || path.display().to_string();
        let failed = |error| KeyError::Io(name(), error);
        let file = File::open(path).map_err(failed)?;
        let mode = file.metadata().map_err(failed)?.permissions().mode();
        if mode & 0o077 != 0 {
            return Err(KeyError::Open(name()));
        }
        let mut bytes = Zeroizing::new(Vec::with_capacity(KEY_SIZE + 1));
        file.take(KEY_SIZE as u64 + 1)
            .read_to_end(&mut bytes)
            .map_err(failed)?;
        let mut key = Zeroizing::new([0; KEY_SIZE]);
        if bytes.len() != KEY_SIZE {
            return Err(KeyError::Size(name()));
        }
        key.copy_from_slice(&bytes);
        Ok(ClusterKey(key))
    }

    /// Writes a new key to a file that is not there yet.
    ///
    /// # Errors
    /// [`KeyError::Io`].
    pub fn create(path: &Path) -> Result<Self, KeyError> {
        let failed = |error| KeyError::Io(path.display().to_string(), error);
        let key = Self::random().map_err(failed)?;
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
            .map_err(failed)?;
        file.write_all(&*key.0).map_err(failed)?;
        file.sync_all().map_err(failed)?;
        Ok(key)
    }

    /// A new key.
    ///
    /// # Errors
    /// [`io::Error`] when the system has no randomness.
    pub fn random() -> io::Result<Self> {
        let mut key = Zeroizing::new([0; KEY_SIZE]);
        SysRng
            .try_fill_bytes(key.as_mut_slice())
            .map_err(io::Error::other)?;
        Ok(ClusterKey(key))
    }

    /// The key itself.
    pub(crate) fn reveal(&self) -> &[u8; KEY_SIZE] {
        &self.0
    }
}

impl fmt::Debug for ClusterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClusterKey(..)")
    }
}

#[cfg(test)]
mod tests;
