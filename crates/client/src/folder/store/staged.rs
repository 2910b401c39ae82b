//! A put under way: its body is written without a name, and then published under its key.

use std::io::{self, ErrorKind as IoKind};
use std::sync::Arc;

use object_store::{PutMode, Result};

use super::{Object, Store, Way};
use crate::folder::disk::{Disk, Guard};
use crate::folder::failure::{Effect, failed, generic, refused};
use crate::folder::key::Key;
use crate::folder::record;
use crate::folder::staging::{Staging, random};

/// How often a put makes the folders of its key anew, which others remove because they are empty.
const TRIES: u32 = 100;

/// A body without a name; it is removed when it gets none.
#[derive(Debug)]
pub(in crate::folder) struct Staged<D: Disk> {
    pub(super) store: Arc<Store<D>>,
    pub(super) staging: Arc<Staging<D>>,
    pub(super) name: String,
    pub(super) file: D::File,
    pub(super) is_named: bool,
}

impl<D: Disk> Staged<D> {
    /// Writes a part of the body.
    pub(in crate::folder) fn write(&self, key: &Key, offset: u64, bytes: &[u8]) -> Result<()> {
        let written = self.store.disk.write(&self.file, offset, bytes);
        written.map_err(|error| failed(key.path(), Effect::None, error))
    }

    /// Writes the body of another object.
    pub(in crate::folder) fn copy(&self, key: &Key, from: &Object<D>) -> Result<()> {
        let copied = self.store.disk.copy(&from.file, &self.file);
        copied.map_err(|error| failed(key.path(), Effect::None, error))
    }

    /// Makes the body durable, and gives it the key when the condition holds; its ETag.
    ///
    /// # Errors
    /// `AlreadyExists` and `Precondition` when the condition does not hold.
    pub(in crate::folder) fn publish(mut self, key: &Key, mode: &PutMode) -> Result<String> {
        let e_tag = self
            .seal()
            .map_err(|error| failed(key.path(), Effect::None, error))?;
        let store = Arc::clone(&self.store);
        let fail = |error| failed(key.path(), Effect::None, error);
        let folder = match mode {
            PutMode::Update(_) => match store.way(key.folders()).map_err(fail)? {
                Way::There(folder) => self.name(key, mode, folder)?,
                Way::Missing(folder) => {
                    // A name above may be removed, and not durably.
                    store.sync(&folder, Guard::Refusal).map_err(fail)?;
                    None
                }
                Way::Blocked => None,
            },
            PutMode::Overwrite | PutMode::Create => {
                let mut tries = (0..TRIES).map(|_| match store.make_way(key)? {
                    Some(folder) => self.name(key, mode, folder),
                    None => Ok(None),
                });
                tries.find_map(Result::transpose).transpose()?
            }
        };
        let Some(folder) = folder else {
            let gone = || {
                generic(fader_cloud::Error::new(
                    fader_cloud::ErrorKind::Unavailable { retry_after: None },
                    format!(
                        "{}: its folder is removed again and again; nothing was changed",
                        key.path()
                    ),
                ))
            };
            return Err(store.refusal(key, mode, None).unwrap_or_else(gone));
        };
        let synced = store.sync(&folder, Guard::Entry);
        synced.map_err(|error| failed(key.path(), Effect::Unsure, error))?;
        Ok(record::e_tag(e_tag))
    }

    /// Draws the ETag, and makes body and records durable.
    fn seal(&self) -> io::Result<u128> {
        let (disk, e_tag) = (&self.store.disk, random()?);
        let record = record::object(e_tag, &disk.stat(&self.file)?);
        disk.set_record(&self.file, record::OBJECT, &record)?;
        disk.sync_file(&self.file, Guard::Body)?;
        Ok(e_tag)
    }

    /// Gives the body its name in this folder; `None` when the folder is removed.
    fn name(&mut self, key: &Key, mode: &PutMode, folder: D::Folder) -> Result<Option<D::Folder>> {
        let (store, disk) = (&self.store, &self.store.disk);
        let fail = |error| failed(key.path(), Effect::None, error);
        let lock = disk
            .lock(&self.staging.locks, &key.stripe(), Guard::Stripe)
            .map_err(fail)?;
        if *mode != PutMode::Overwrite {
            let found = store.e_tag(&folder, key.name()).map_err(fail)?;
            if let Some(refusal) = store.refusal(key, mode, found.as_deref()) {
                drop(lock);
                store.sync(&folder, Guard::Refusal).map_err(fail)?;
                return Err(refusal);
            }
        }
        let rename = || disk.rename(&self.staging.own, &self.name, &folder, key.name());
        let mut renamed = rename();
        if let Err(error) = &renamed
            && error.kind() == IoKind::IsADirectory
        {
            if !store.remove_empty(&folder, key.name()).map_err(fail)? {
                let text = "other keys begin with it; a folder has no such key";
                return Err(refused(key.path(), text));
            }
            renamed = rename();
        }
        match renamed {
            Ok(()) => {
                self.is_named = true;
                Ok(Some(folder))
            }
            Err(error) if error.kind() == IoKind::NotFound => Ok(None),
            Err(error) => Err(fail(error)),
        }
    }
}

impl<D: Disk> Drop for Staged<D> {
    fn drop(&mut self) {
        if !self.is_named {
            // What remains, the next store removes.
            let _ = self.store.disk.remove(&self.staging.own, &self.name);
        }
    }
}
