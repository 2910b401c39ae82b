//! Keys as names in folders.

use object_store::path::Path;
use object_store::{Error, Result};
use sha2::{Digest, Sha256};

use super::failure::refused;

/// The folder in which the store keeps its own files: no key begins with it.
pub(super) const CONTROL: &str = ".fader";
/// The longest name of a file, in octets, on every file system of Linux that is used today.
const NAME_BYTES_MAX: usize = 255;

/// A key whose parts are names of folders and of a file.
#[derive(Clone, Debug)]
pub(super) struct Key {
    path: Path,
}

impl Key {
    /// The key of an object.
    ///
    /// # Errors
    /// `NotSupported` when a part of it cannot be a name.
    pub(super) fn new(path: &Path) -> Result<Key> {
        if path.as_ref().is_empty() {
            return Err(refused(path, "an object needs a name"));
        }
        Key::check(path)?;
        Ok(Key { path: path.clone() })
    }

    /// Refuses what cannot be a path of folders.
    pub(super) fn check(path: &Path) -> Result<()> {
        let parts = || path.as_ref().split('/');
        if parts().next().is_some_and(is_control) {
            let text = format!("{CONTROL} is the store's own folder");
            return Err(refused(path, text));
        }
        if let Some(part) = parts().find(|part| part.len() > NAME_BYTES_MAX) {
            let text = format!(
                "a part of it has {} octets; a file name has at most {NAME_BYTES_MAX}",
                part.len()
            );
            return Err(refused(path, text));
        }
        match path.as_ref().contains('\0') {
            true => Err(refused(path, "a file name has no NUL")),
            false => Ok(()),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The folders on the way, from the root down.
    pub(super) fn folders(&self) -> impl Iterator<Item = &str> {
        let mut parts = self.path.as_ref().split('/');
        parts.next_back();
        parts
    }

    /// The file's name.
    pub(super) fn name(&self) -> &str {
        let path = self.path.as_ref();
        path.rsplit_once('/').map_or(path, |(_, name)| name)
    }

    /// The name of the lock that this key shares with a 256th of all keys.
    pub(super) fn stripe(&self) -> String {
        format!("{:02x}", Sha256::digest(self.path.as_ref())[0])
    }

    /// That no such object is there.
    pub(super) fn not_found(&self) -> Error {
        Error::NotFound {
            path: self.path.to_string(),
            source: "there is no such file".into(),
        }
    }
}

/// Whether a name in the root is the store's own.
pub(super) fn is_control(name: &str) -> bool {
    name.eq_ignore_ascii_case(CONTROL)
}
