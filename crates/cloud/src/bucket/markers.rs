//! Names whose object stays when they are deleted, marked as gone: a list of them must read the
//! marks. What was read of a version is kept.

use std::collections::BTreeMap;
use std::sync::Mutex;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use object_store::path::Path;

use super::names::parts_below;
use super::store::Store;
use crate::error::{Error, ErrorKind, Result};

/// Objects read at once.
pub(super) const READS_AT_ONCE: usize = 16;

/// The named objects of a folder.
#[derive(Debug)]
pub(super) struct Markers {
    folder: &'static str,
    is_name: fn(&str) -> bool,
    is_gone: fn(&str, &Bytes) -> Result<bool>,
    /// By name: an ETag, and whether the name is gone there.
    known: Mutex<BTreeMap<String, (String, bool)>>,
}

impl Markers {
    pub(super) fn new(
        folder: &'static str,
        is_name: fn(&str) -> bool,
        is_gone: fn(&str, &Bytes) -> Result<bool>,
    ) -> Self {
        Markers {
            folder,
            is_name,
            is_gone,
            known: Mutex::default(),
        }
    }

    /// The key of a name.
    pub(super) fn key(&self, store: &Store, name: &str) -> Path {
        store.key(&[self.folder, name])
    }

    /// All names with a prefix, in order, those that are gone among them; each with its ETag.
    pub(super) async fn all(&self, store: &Store, prefix: &str) -> Result<Vec<(String, String)>> {
        let folder = store.key(&[self.folder]);
        let mut keys = store.list(&folder);
        let mut names = Vec::new();
        while let Some(meta) = keys.next().await {
            let meta = meta?;
            let parts = parts_below(&folder, &meta.location);
            match parts.as_slice() {
                [name] if (self.is_name)(name) => {
                    if name.starts_with(prefix) {
                        names.push((name.clone(), meta.e_tag.unwrap_or_default()));
                    }
                }
                _ => return Err(foreign(&meta.location)),
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// The names that are not gone, in order.
    pub(super) async fn living(&self, store: &Store, prefix: &str) -> Result<Vec<String>> {
        let names = self.all(store, prefix).await?;
        let living = stream::iter(names).map(|(name, e_tag)| async move {
            let is_gone = match self.known(&name, &e_tag) {
                Some(is_gone) => is_gone,
                None => self.read(store, &name).await?,
            };
            Ok::<_, Error>((!is_gone).then_some(name))
        });
        let living: Vec<Option<String>> = living.buffered(READS_AT_ONCE).try_collect().await?;
        Ok(living.into_iter().flatten().collect())
    }

    fn known(&self, name: &str, e_tag: &str) -> Option<bool> {
        let known = self
            .known
            .lock()
            .expect("nothing panics while it is locked");
        let (of, is_gone) = known.get(name)?;
        (of == e_tag && !e_tag.is_empty()).then_some(*is_gone)
    }

    async fn read(&self, store: &Store, name: &str) -> Result<bool> {
        let key = self.key(store, name);
        let Some(found) = store.get(&key).await? else {
            return Ok(true);
        };
        let is_gone = (self.is_gone)(key.as_ref(), &found.bytes)?;
        let e_tag = found.version.e_tag.unwrap_or_default();
        let mut known = self
            .known
            .lock()
            .expect("nothing panics while it is locked");
        known.insert(name.to_owned(), (e_tag, is_gone));
        Ok(is_gone)
    }
}

/// An object that is none of these services'.
pub(super) fn foreign(key: &Path) -> Error {
    let key = key.as_ref();
    let context = format!("object {key:?} is not Fader's: move it out of this prefix");
    Error::new(ErrorKind::Malformed, context)
}
