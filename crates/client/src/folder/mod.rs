//! The contract's objects in a folder of a local file system (docs/reference/format/folder.md).
//! Bodies are plain files under their keys, and any number of processes share the folder.
//!
//! ```text
//!  put ──▶ stage, sync ──▶ lock the key ──▶ check ──▶ rename ──▶ unlock ──▶ sync the folder
//!  get ──▶ open ──▶ read                                         (locks nothing)
//! ```
//!
//! Calls of the file system block, so each of the store's calls runs on a thread of its own. Calls
//! under way at once share the syncs of their folders; bodies are synced side by side. A call that
//! was begun ends, even when its caller is gone.
//!
//! Deliberately absent: tags and versions of objects; links; keys below a key. Also removal of
//! empty folders by a deletion (a list removes those that stay empty).

mod disk;
mod failure;
mod key;
mod linux;
mod record;
mod staging;
mod store;
mod syncs;
#[cfg(test)]
mod tests;
mod upload;
mod walk;

use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    CopyMode, CopyOptions, GetOptions, GetRange, GetResult, GetResultPayload, ListResult,
    MultipartUpload, ObjectMeta, ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload,
    PutResult, RenameOptions, RenameTargetMode, Result,
};
use tokio::sync::Semaphore;

use self::failure::{generic, refused};
use self::key::Key;
use self::linux::Linux;
use self::store::{Object, Store};
use self::upload::Upload;
use self::walk::Walk;
use crate::error::{Error, ErrorKind};

/// Calls at once. Each has a thread, and at most five open files.
const CALLS_MAX: usize = 128;
/// Octets that are read at once.
const CHUNK_BYTES: u64 = 4 << 20;
/// Objects of a list that are looked at in one call.
const LIST_COUNT: usize = 1_000;
/// Deletions that share a call, and the sync of each folder.
const DELETE_COUNT: usize = 1_000;

/// A folder of objects. Clones are the same store.
#[derive(Clone)]
pub struct Folder {
    store: Arc<Store<Linux>>,
    calls: Arc<Semaphore>,
}

impl Folder {
    /// Opens a folder, which must be there. The first write makes the store's own folder `.fader`
    /// in it; a store that only reads changes nothing but to remove folders that are empty.
    ///
    /// # Errors
    /// `Invalid` when the folder is not there or cannot be used: a network file system, or a format
    /// of a newer version.
    pub fn open(path: impl AsRef<std::path::Path>) -> std::result::Result<Folder, Error> {
        let path = path.as_ref();
        let disk = Linux::open(path).map_err(|error| {
            let context = match error.kind() {
                io::ErrorKind::NotFound => {
                    format!(
                        "there is no folder {0}: make it (mkdir -p {0})",
                        path.display()
                    )
                }
                _ => format!("cannot use the folder {}: {error}", path.display()),
            };
            Error::caused(ErrorKind::Invalid, context, error)
        })?;
        let store = Store::open(disk).map_err(|error| {
            let context = format!("cannot use the folder {}: {error}", path.display());
            Error::caused(ErrorKind::Invalid, context, error)
        })?;
        Ok(Folder {
            store: Arc::new(store),
            calls: Arc::new(Semaphore::new(CALLS_MAX)),
        })
    }

    /// Runs a call to its end on a thread that it may block.
    async fn run<T, F>(&self, call: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Arc<Store<Linux>>) -> Result<T> + Send + 'static,
    {
        let turn = Arc::clone(&self.calls).acquire_owned().await;
        let turn = turn.expect("the turns are never closed");
        let store = Arc::clone(&self.store);
        let call = move || {
            let outcome = call(&store);
            drop(turn);
            outcome
        };
        tokio::task::spawn_blocking(call).await.map_err(generic)?
    }

    fn walk(
        &self,
        prefix: Option<&Path>,
        offset: Option<&Path>,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        let (folder, prefix, offset) = (self.clone(), prefix.cloned(), offset.cloned());
        let first = async move {
            let begin = move |store: &Arc<Store<Linux>>| Walk::new(store, prefix.as_ref(), offset);
            let walk = folder.run(begin).await?;
            Ok::<_, object_store::Error>(stream::try_unfold((folder, walk), next_of_walk))
        };
        let batches = stream::once(first).try_flatten();
        let metas = batches.map_ok(|batch| stream::iter(batch).map(Ok));
        metas.try_flatten().boxed()
    }
}

type Batch = Vec<ObjectMeta>;

type Listing = (Folder, Walk<Linux>);

async fn next_of_walk(listing: Listing) -> Result<Option<(Batch, Listing)>> {
    let (folder, mut walk) = listing;
    let next = move |_: &Arc<Store<Linux>>| Ok((walk.next(LIST_COUNT)?, walk));
    let (batch, walk) = folder.run(next).await?;
    Ok((!batch.is_empty()).then_some((batch, (folder, walk))))
}

/// The part of an object that is asked for.
fn range_of(object: &Object<Linux>, range: Option<&GetRange>) -> Result<Range<u64>> {
    let size = object.meta.size;
    let Some(range) = range else {
        return Ok(0..size);
    };
    let range = range.as_range(size);
    range.map_err(|error| refused(&object.meta.location, error))
}

/// How much is read at once of what is left.
fn chunk(left: &Range<u64>) -> usize {
    (left.end - left.start).min(CHUNK_BYTES) as usize
}

fn put_result(e_tag: String) -> PutResult {
    PutResult {
        e_tag: Some(e_tag),
        version: None,
        extensions: Default::default(),
    }
}

fn refuse_tags(location: &Path, tags: &object_store::TagSet) -> Result<()> {
    match tags.encoded().is_empty() {
        true => Ok(()),
        false => Err(refused(location, "a folder keeps no tags of objects")),
    }
}

impl fmt::Debug for Folder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.store.disk().path();
        f.debug_tuple("Folder").field(&path).finish()
    }
}

impl fmt::Display for Folder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Folder({})", self.store.disk().path().display())
    }
}

#[async_trait]
impl ObjectStore for Folder {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        let key = Key::new(location)?;
        refuse_tags(location, &options.tags)?;
        let put = move |store: &Arc<Store<Linux>>| {
            store.check(&key, &options.mode)?;
            let staged = store.stage(&key, &options.attributes)?;
            let mut offset = 0;
            for part in &payload {
                staged.write(&key, offset, part)?;
                offset += part.len() as u64;
            }
            staged.publish(&key, &options.mode)
        };
        self.run(put).await.map(put_result)
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let key = Key::new(location)?;
        refuse_tags(location, &options.tags)?;
        let upload = Upload::begin(self.clone(), key, options.attributes).await?;
        Ok(Box::new(upload))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let key = Key::new(location)?;
        if options.version.is_some() {
            return Err(refused(location, "a folder keeps no versions of objects"));
        }
        let open = move |store: &Arc<Store<Linux>>| {
            let object = store.object(&key)?;
            options.check_preconditions(&object.meta)?;
            let range = range_of(&object, options.range.as_ref())?;
            let first = match options.head {
                true => Bytes::new(),
                false => store.read(&object, range.start, chunk(&range))?,
            };
            Ok((Arc::new(object), range, first))
        };
        let (object, range, first) = self.run(open).await?;
        let (meta, attributes) = (object.meta.clone(), object.attributes.clone());
        let left = range.start + first.len() as u64..range.end;
        let body = stream::once(std::future::ready(Ok(first)));
        let payload = match left.is_empty() {
            true => body.boxed(),
            false => {
                let state = (self.clone(), object, left);
                body.chain(stream::try_unfold(state, next_of_body)).boxed()
            }
        };
        Ok(GetResult {
            payload: GetResultPayload::Stream(payload),
            meta,
            range,
            attributes,
            extensions: Default::default(),
        })
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let (key, ranges) = (Key::new(location)?, ranges.to_vec());
        // All of one version: the file is opened once.
        let read = move |store: &Arc<Store<Linux>>| {
            let object = store.object(&key)?;
            let parts = ranges.into_iter().map(|range| {
                let range = range_of(&object, Some(&GetRange::Bounded(range)))?;
                let length = usize::try_from(range.end - range.start).map_err(generic)?;
                store.read(&object, range.start, length)
            });
            parts.collect()
        };
        self.run(read).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let folder = self.clone();
        let outcomes = locations.ready_chunks(DELETE_COUNT).then(move |locations| {
            let folder = folder.clone();
            async move { folder.delete_all(locations).await }
        });
        outcomes.flat_map(stream::iter).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.walk(prefix, None)
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.walk(prefix, Some(offset))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let prefix = prefix.cloned();
        self.run(move |store| walk::level(store, prefix.as_ref()))
            .await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let (from, to) = (Key::new(from)?, Key::new(to)?);
        let mode = match options.mode {
            CopyMode::Overwrite => PutMode::Overwrite,
            CopyMode::Create => PutMode::Create,
        };
        self.run(move |store| copy(store, &from, &to, &mode)).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        let (from, to) = (Key::new(from)?, Key::new(to)?);
        let mode = match options.target_mode {
            RenameTargetMode::Overwrite => PutMode::Overwrite,
            RenameTargetMode::Create => PutMode::Create,
        };
        let rename = move |store: &Arc<Store<Linux>>| {
            if from.path() == to.path() && mode == PutMode::Overwrite {
                return store.object(&from).map(|_| ());
            }
            copy(store, &from, &to, &mode)?;
            store.delete(&[from]).into_iter().collect()
        };
        self.run(rename).await
    }
}

/// Copies an object with its attributes. The copy has an ETag of its own: one that moved could come
/// back to a key that had it.
fn copy(store: &Arc<Store<Linux>>, from: &Key, to: &Key, mode: &PutMode) -> Result<()> {
    let object = store.object(from)?;
    let staged = store.stage(to, &object.attributes)?;
    staged.copy(to, &object)?;
    staged.publish(to, mode).map(|_| ())
}

type Left = (Folder, Arc<Object<Linux>>, Range<u64>);

async fn next_of_body(body: Left) -> Result<Option<(Bytes, Left)>> {
    let (folder, object, left) = body;
    if left.is_empty() {
        return Ok(None);
    }
    let (from, length) = (left.start, chunk(&left));
    let opened = Arc::clone(&object);
    let bytes = folder
        .run(move |store| store.read(&opened, from, length))
        .await?;
    let left = from + bytes.len() as u64..left.end;
    Ok(Some((bytes, (folder, object, left))))
}

impl Folder {
    /// Deletes those that are keys; the outcomes in order.
    async fn delete_all(&self, locations: Vec<Result<Path>>) -> Vec<Result<Path>> {
        let keys: Vec<Result<Key>> = locations
            .into_iter()
            .map(|location| location.and_then(|location| Key::new(&location)))
            .collect();
        let known: Vec<Key> = keys.iter().flatten().cloned().collect();
        let deleted = self.run(move |store| Ok(store.delete(&known))).await;
        let mut deleted = match deleted {
            Ok(deleted) => deleted.into_iter(),
            Err(error) => return vec![Err(error)],
        };
        let outcome = |key: Result<Key>| {
            let key = key?;
            let outcome = deleted.next();
            outcome.expect("each key has an outcome")?;
            Ok(key.path().clone())
        };
        keys.into_iter().map(outcome).collect()
    }
}
