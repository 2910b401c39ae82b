//! Lists, in the order of keys.
//!
//! Invariants:
//! - the names of one folder are those of one moment. What is told of a key was so no
//!   earlier than what was told of the keys before it. (A queue in a bucket relies on it: rule
//!   BQUEUE-1.)

use std::sync::Arc;

use object_store::path::Path;
use object_store::{ListResult, ObjectMeta, Result};

use super::disk::{Disk, Kind};
use super::failure::{Effect, failed};
use super::key::{Key, is_control};
use super::store::Store;

/// How long nothing was made or removed in an empty folder that a list removes, in seconds. Senders
/// that take turns with receivers find their folder there.
const EMPTY_SECONDS: i64 = 60;

/// A list under way.
#[derive(Debug)]
pub(super) struct Walk<D: Disk> {
    store: Arc<Store<D>>,
    /// Keys up to this one are left out.
    offset: Option<Path>,
    /// The folders from the first to the one that is being listed.
    frames: Vec<Frame<D>>,
}

#[derive(Debug)]
struct Frame<D: Disk> {
    folder: D::Folder,
    /// With what its keys begin: empty, or with a slash at the end.
    prefix: String,
    entries: std::vec::IntoIter<(String, Kind)>,
}

impl<D: Disk> Frame<D> {
    fn new(store: &Store<D>, folder: D::Folder, prefix: String) -> Result<Frame<D>> {
        let entries = store.disk().list(&folder);
        let mut entries = entries.map_err(|error| failed(&prefix, Effect::None, error))?;
        entries.retain(|(name, kind)| {
            let is_own = prefix.is_empty() && is_control(name);
            *kind != Kind::Other && !is_own && Path::parse(name).is_ok()
        });
        // As their keys: those in a folder go on with a slash.
        let ends = |kind| (kind == Kind::Folder).then_some(b'/');
        entries.sort_unstable_by(|(a, kind_a), (b, kind_b)| {
            let a = a.bytes().chain(ends(*kind_a));
            a.cmp(b.bytes().chain(ends(*kind_b)))
        });
        Ok(Frame {
            folder,
            prefix,
            entries: entries.into_iter(),
        })
    }
}

fn parse(key: &str) -> Result<Path> {
    Ok(Path::parse(key)?)
}

impl<D: Disk> Walk<D> {
    /// A list of the keys below a prefix, from after `offset` on.
    pub(super) fn new(
        store: &Arc<Store<D>>,
        prefix: Option<&Path>,
        offset: Option<Path>,
    ) -> Result<Walk<D>> {
        let prefix = prefix.map_or("", |prefix| prefix.as_ref());
        let mut frames = Vec::new();
        if let Some(folder) = store.folder_of(&parse(prefix)?)? {
            let prefix = match prefix {
                "" => String::new(),
                prefix => format!("{prefix}/"),
            };
            frames.push(Frame::new(store, folder, prefix)?);
        }
        Ok(Walk {
            store: Arc::clone(store),
            offset,
            frames,
        })
    }

    /// The next objects; none at the end.
    pub(super) fn next(&mut self, count_max: usize) -> Result<Vec<ObjectMeta>> {
        let mut found = Vec::new();
        while found.len() < count_max
            && let Some(frame) = self.frames.last_mut()
        {
            let Some((name, kind)) = frame.entries.next() else {
                self.frames.pop();
                continue;
            };
            let key = format!("{}{name}", frame.prefix);
            match kind {
                Kind::Folder if self.is_before_offset(&key) => {}
                Kind::Folder => self.enter(&name, &key)?,
                _ => {
                    let location = parse(&key)?;
                    if self.offset.as_ref().is_none_or(|offset| *offset < location) {
                        let folder = &self.frames[self.frames.len() - 1].folder;
                        let object = self.store.object_in(folder, &name, location)?;
                        found.extend(object.map(|object| object.meta));
                    }
                }
            }
        }
        Ok(found)
    }

    /// Whether all keys of a folder come before the first one that is wanted.
    fn is_before_offset(&self, folder: &str) -> bool {
        let prefix = format!("{folder}/");
        let offset = self.offset.as_ref().map(|offset| offset.as_ref());
        offset.is_some_and(|offset| !offset.starts_with(&prefix) && *prefix < *offset)
    }

    /// Goes on in a folder of the last one; removes it when it has been empty for long.
    fn enter(&mut self, name: &str, key: &str) -> Result<()> {
        let disk = self.store.disk();
        let above = &self.frames[self.frames.len() - 1].folder;
        // Removed meanwhile, or mounted over: it has no keys.
        let Ok(folder) = disk.folder(above, name) else {
            return Ok(());
        };
        let fail = |error| failed(key, Effect::None, error);
        let frame = Frame::new(&self.store, folder, format!("{key}/"))?;
        if frame.entries.len() == 0 {
            let modified = disk.modified(&frame.folder).map_err(fail)?.0;
            if modified + EMPTY_SECONDS <= disk.now().0 {
                // Refused when it has anything in it; then the next list tries again.
                let _ = disk.remove_folder(above, name);
            }
            return Ok(());
        }
        self.frames.push(frame);
        Ok(())
    }
}

/// The objects of one folder, and its folders that have objects.
pub(super) fn level<D: Disk>(store: &Arc<Store<D>>, prefix: Option<&Path>) -> Result<ListResult> {
    let mut listed = ListResult {
        common_prefixes: Vec::new(),
        objects: Vec::new(),
        extensions: Default::default(),
    };
    let mut walk = Walk::new(store, prefix, None)?;
    let Some(frame) = walk.frames.pop() else {
        return Ok(listed);
    };
    for (name, kind) in frame.entries {
        let location = parse(&format!("{}{name}", frame.prefix))?;
        if kind == Kind::Folder {
            let mut inner = Walk::new(store, Some(&location), None)?;
            if !inner.next(1)?.is_empty() {
                listed.common_prefixes.push(location);
            }
        } else {
            let object = store.object_in(&frame.folder, &name, location)?;
            listed.objects.extend(object.map(|object| object.meta));
        }
    }
    Ok(listed)
}

impl<D: Disk> Store<D> {
    /// The folder of all keys that begin so.
    fn folder_of(&self, prefix: &Path) -> Result<Option<D::Folder>> {
        if Key::check(prefix).is_err() {
            return Ok(None);
        }
        let parts = prefix.as_ref().split('/').filter(|part| !part.is_empty());
        let way = self.way(parts);
        let way = way.map_err(|error| failed(prefix, Effect::None, error))?;
        Ok(way.there())
    }
}
