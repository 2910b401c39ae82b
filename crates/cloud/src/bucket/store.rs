//! Requests to the bucket, with their outcomes in the terms of the rules: a conditional PUT landed,
//! was refused, or is unknown.
//!
//! Invariants:
//! - each PUT is sent once. A repetition is its caller's decision.
//! - STORE-2 each answer's times are noted (rule BQUEUE-11).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{BoxStream, StreamExt};
use object_store::path::Path;
use object_store::{
    GetOptions, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutOptions, UpdateVersion,
};

use super::guard::Guards;
use super::names::key;
use super::time::{Moment, StoreClock};
use crate::error::{Error, ErrorKind, Result};
use crate::objects::object_error_kind;
use crate::runtime::Runtime;

/// Bytes of an object that is read whole, at most.
const OBJECT_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// How often a question is asked again whose answer decides about a write.
const LOOKS: u32 = 4;
const LOOK_PAUSE: Duration = Duration::from_millis(50);

/// A prefix of a bucket, as one process uses it.
#[derive(Clone, Debug)]
pub(super) struct Store {
    pub(super) objects: Arc<dyn ObjectStore>,
    pub(super) prefix: Path,
    pub(super) runtime: Runtime,
    pub(super) clock: Arc<StoreClock>,
    pub(super) guards: Guards,
}

/// What became of a PUT.
#[derive(Debug)]
pub(super) enum Put {
    /// It landed, as this version.
    Landed(UpdateVersion),
    /// Its condition did not hold.
    Refused,
    /// It landed, was lost, or will land.
    Unknown(Error),
}

/// An object as read.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) bytes: Bytes,
    pub(super) version: UpdateVersion,
    /// The store's time since 1970.
    pub(super) modified: Duration,
}

impl Store {
    pub(super) fn new(objects: Arc<dyn ObjectStore>, prefix: Path, runtime: Runtime) -> Self {
        Store {
            objects,
            prefix,
            runtime,
            clock: Arc::default(),
            guards: Guards::default(),
        }
    }

    pub(super) fn key(&self, parts: &[&str]) -> Path {
        key(&self.prefix, parts)
    }

    pub(super) fn now(&self) -> Duration {
        self.runtime.clock.monotonic()
    }

    pub(super) fn moment(&self) -> Moment {
        let now = self.now();
        Moment {
            now,
            wall: self.runtime.clock.wall(),
            store: self.clock.lower(now),
        }
    }

    /// One PUT.
    ///
    /// # Errors
    /// Of any kind but `Precondition` and `Ambiguous`: nothing was changed.
    pub(super) async fn put(&self, key: &Path, bytes: Bytes, mode: PutMode) -> Result<Put> {
        let is_update = matches!(mode, PutMode::Update(_));
        let options = PutOptions::from(mode);
        match self.objects.put_opts(key, bytes.into(), options).await {
            Ok(put) => Ok(Put::Landed(put.into())),
            Err(error) => {
                let error = failure("PUT", key, true, error);
                match error.kind {
                    ErrorKind::Precondition => Ok(Put::Refused),
                    // The object of a conditional update is gone.
                    ErrorKind::NotFound if is_update => Ok(Put::Refused),
                    ErrorKind::Ambiguous => Ok(Put::Unknown(error)),
                    _ => Err(error),
                }
            }
        }
    }

    /// An object, if it is there.
    pub(super) async fn get(&self, key: &Path) -> Result<Option<Found>> {
        let found = self.objects.get_opts(key, GetOptions::default()).await;
        let found = match found {
            Ok(found) => found,
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(failure("GET", key, false, error)),
        };
        let meta = found.meta.clone();
        if OBJECT_BYTES_MAX < meta.size {
            let key = key.as_ref();
            let context = format!("object {key:?} is too large for one of this service's");
            return Err(Error::new(ErrorKind::Malformed, context));
        }
        let bytes = found.bytes().await;
        let bytes = bytes.map_err(|error| failure("GET", key, false, error))?;
        Ok(Some(Found {
            bytes,
            modified: self.note(&meta),
            version: version(&meta),
        }))
    }

    /// An object, if it is there; asked again if the answer does not come.
    pub(super) async fn get_surely(&self, key: &Path) -> Result<Option<Found>> {
        let mut looks = 1;
        loop {
            match self.get(key).await {
                Err(error) if is_passing(&error) && looks < LOOKS => self.look_pause(looks).await,
                other => return other,
            }
            looks += 1;
        }
    }

    /// Whether an object is there; asked again if the answer does not come.
    pub(super) async fn exists_surely(&self, key: &Path) -> Result<bool> {
        let mut looks = 1;
        loop {
            match self.head(key).await {
                Err(error) if is_passing(&error) && looks < LOOKS => self.look_pause(looks).await,
                other => return other.map(|found| found.is_some()),
            }
            looks += 1;
        }
    }

    async fn head(&self, key: &Path) -> Result<Option<ObjectMeta>> {
        match self.objects.head(key).await {
            Ok(meta) => {
                self.note(&meta);
                Ok(Some(meta))
            }
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(failure("HEAD", key, false, error)),
        }
    }

    /// Deletes an object; one that is not there is fine. Asked again if the answer does not come:
    /// no name lives twice.
    pub(super) async fn delete_surely(&self, key: &Path) -> Result<()> {
        let mut looks = 1;
        loop {
            let error = match self.objects.delete(key).await {
                Ok(()) | Err(object_store::Error::NotFound { .. }) => return Ok(()),
                Err(error) => failure("DELETE", key, true, error),
            };
            let again = is_passing(&error) || error.kind == ErrorKind::Ambiguous;
            if !again || LOOKS <= looks {
                return Err(error);
            }
            self.look_pause(looks).await;
            looks += 1;
        }
    }

    /// Deletes objects in bulk, where the service can; those that are not there are fine.
    pub(super) async fn delete_all(&self, keys: Vec<Path>) -> Result<()> {
        let keys = futures_util::stream::iter(keys.into_iter().map(Ok)).boxed();
        let mut deleted = self.objects.delete_stream(keys);
        while let Some(outcome) = deleted.next().await {
            match outcome {
                Ok(_) | Err(object_store::Error::NotFound { .. }) => {}
                Err(error) => return Err(failure("DELETE", &self.prefix, true, error)),
            }
        }
        Ok(())
    }

    /// What is below a folder, in the order of keys.
    pub(super) fn list(&self, folder: &Path) -> BoxStream<'static, Result<ObjectMeta>> {
        let (folder, store) = (folder.clone(), self.clone());
        let listed = self.objects.list(Some(&folder));
        let listed = listed.map(move |meta| match meta {
            Ok(meta) => {
                store.note(&meta);
                Ok(meta)
            }
            Err(error) => Err(failure("LIST", &folder, false, error)),
        });
        listed.boxed()
    }

    /// Writes an object to learn the store's time from it, once in a process. What cannot be
    /// learned is not known, and claims seem to last longer.
    pub(super) async fn learn_time(&self) -> bool {
        if !self.clock.should_learn() {
            return false;
        }
        let key = self.key(&["clock", &format!("{:016x}", self.runtime.random())]);
        if let Ok(Put::Landed(_)) = self.put(&key, Bytes::new(), PutMode::Create).await {
            let is_known = matches!(self.head(&key).await, Ok(Some(_)));
            // If it cannot be deleted, a sweep does.
            let _ = self.delete_surely(&key).await;
            return is_known;
        }
        false
    }

    /// Waits before an attempt, longer each time, between half of that and all.
    pub(super) async fn look_pause(&self, attempt: u32) {
        let pause = LOOK_PAUSE * 2_u32.saturating_pow(attempt.min(6));
        let part = self.runtime.random() % 1000;
        let pause = pause / 2 + pause * part as u32 / 2000;
        self.runtime.clock.sleep(pause).await;
    }

    fn note(&self, meta: &ObjectMeta) -> Duration {
        let modified = modified(meta);
        self.clock.observe(modified, self.now());
        modified
    }
}

/// An object's Last-Modified: the store's time since 1970.
pub(super) fn modified(meta: &ObjectMeta) -> Duration {
    let millis = meta.last_modified.timestamp_millis();
    Duration::from_millis(u64::try_from(millis).unwrap_or(0))
}

fn version(meta: &ObjectMeta) -> UpdateVersion {
    UpdateVersion {
        e_tag: meta.e_tag.clone(),
        version: meta.version.clone(),
    }
}

fn is_passing(error: &Error) -> bool {
    matches!(error.kind, ErrorKind::Unavailable { .. })
}

fn failure(call: &str, key: &Path, is_write: bool, error: object_store::Error) -> Error {
    let kind = object_error_kind(&error, is_write);
    let context = format!("{call} of {:?}: {error}", key.as_ref());
    Error::caused(kind, context, error)
}
