//! Objects of a job's output, each call repeated where that is safe.
//!
//! Every object but the register is written under a name whose bytes never differ. Data and
//! manifests carry an attempt's random id; the list and the parts are created and never changed.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fader_cloud::{Cloud, Error, ErrorKind, Result, object_error_kind};
use futures_util::stream::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    GetOptions, GetRange, MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode,
    PutOptions, UpdateVersion,
};
use serde::de::DeserializeOwned;

use crate::job::parse;

/// How often a call is tried.
const TRIES: u32 = 8;
/// The pause after the first try; it doubles.
const PAUSE: Duration = Duration::from_millis(50);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Objects, counted in one scope.
#[derive(Clone, Debug)]
pub(crate) struct Store(pub(crate) Cloud);

impl Store {
    /// The same with other objects.
    pub(crate) fn of(&self, objects: &Arc<dyn ObjectStore>) -> Store {
        let mut cloud = self.0.clone();
        cloud.objects = objects.clone();
        Store(cloud)
    }

    /// An object with its version, if it is there.
    pub(crate) async fn get(&self, key: &Path) -> Result<Option<(Bytes, UpdateVersion)>> {
        if_there(self.read(key, GetOptions::default()).await)
    }

    /// What an object of JSON says, if it is there.
    ///
    /// # Errors
    /// `Malformed`, and as all reads.
    pub(crate) async fn json<T: DeserializeOwned>(&self, key: &Path) -> Result<Option<T>> {
        let found = self.get(key).await?;
        found.map(|(bytes, _)| parse(key, &bytes)).transpose()
    }

    /// A part of an object as it comes, in pieces: put together it would be there twice.
    ///
    /// # Errors
    /// `NotFound`, and as all reads.
    pub(crate) async fn pieces(&self, key: &Path, offset: u64, bytes: u64) -> Result<Vec<Bytes>> {
        let once = || async {
            let options = GetOptions {
                range: Some(GetRange::Bounded(offset..offset + bytes)),
                ..GetOptions::default()
            };
            let found = self.0.objects.get_opts(key, options).await?;
            found.into_stream().try_collect().await
        };
        self.call("GET", key, once).await
    }

    /// An object, or what the options say of it, with its version.
    ///
    /// # Errors
    /// `NotFound`, and as all reads.
    pub(crate) async fn read(
        &self,
        key: &Path,
        options: GetOptions,
    ) -> Result<(Bytes, UpdateVersion)> {
        let once = || async {
            let found = self.0.objects.get_opts(key, options.clone()).await?;
            let version = UpdateVersion {
                e_tag: found.meta.e_tag.clone(),
                version: found.meta.version.clone(),
            };
            Ok((found.bytes().await?, version))
        };
        self.call("GET", key, once).await
    }

    /// The size of an object, if it is there.
    pub(crate) async fn size(&self, key: &Path) -> Result<Option<u64>> {
        let once = || self.0.objects.head(key);
        Ok(if_there(self.call("HEAD", key, once).await)?.map(|meta| meta.size))
    }

    /// Writes an object under a name that is used once.
    pub(crate) async fn put(&self, key: &Path, bytes: &Bytes) -> Result<()> {
        let once = || self.0.objects.put(key, bytes.clone().into());
        self.call("PUT", key, once).await.map(drop)
    }

    /// Creates an object. Whether it was not there before, perhaps by an earlier try.
    pub(crate) async fn create(&self, key: &Path, bytes: &Bytes) -> Result<bool> {
        let once = || {
            let options = PutOptions::from(PutMode::Create);
            self.0.objects.put_opts(key, bytes.clone().into(), options)
        };
        match self.call("PUT", key, once).await {
            Ok(_) => Ok(true),
            Err(error) if error.kind == ErrorKind::Precondition => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Writes an object on a condition, once, if that holds: what is there then is to be read.
    ///
    /// # Errors
    /// Nothing was changed.
    pub(crate) async fn change(&self, key: &Path, bytes: Bytes, mode: PutMode) -> Result<()> {
        let options = PutOptions::from(mode);
        let put = self.0.objects.put_opts(key, bytes.into(), options).await;
        let error = match put {
            Ok(_) => return Ok(()),
            Err(error) => failed("PUT", key, error),
        };
        match error.kind {
            ErrorKind::Precondition | ErrorKind::Ambiguous | ErrorKind::NotFound => Ok(()),
            _ => Err(error),
        }
    }

    /// Begins an object in parts; `None` where the store has none.
    pub(crate) async fn upload(&self, key: &Path) -> Result<Option<Upload>> {
        let once = || self.0.objects.put_multipart(key);
        match self.call("PUT", key, once).await {
            Ok(upload) => Ok(Some(Upload {
                key: key.clone(),
                upload,
            })),
            Err(error) if error.kind == ErrorKind::Invalid => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Copies an object to a name that has none.
    ///
    /// # Errors
    /// `Precondition`: it has one, perhaps by an earlier try. `Invalid`: the store cannot.
    pub(crate) async fn copy(&self, from: &Path, to: &Path) -> Result<()> {
        let once = || self.0.objects.copy_if_not_exists(from, to);
        self.call("COPY", to, once).await
    }

    /// The objects below a prefix, or all.
    pub(crate) async fn list(&self, prefix: Option<&Path>) -> Result<Vec<ObjectMeta>> {
        let once = || self.0.objects.list(prefix).try_collect();
        let key = prefix.cloned().unwrap_or_default();
        self.call("LIST", &key, once).await
    }

    /// The objects of a folder, those in folders within it left out.
    pub(crate) async fn folder(&self) -> Result<Vec<ObjectMeta>> {
        let once = || self.0.objects.list_with_delimiter(None);
        let listed = self.call("LIST", &Path::default(), once).await?;
        Ok(listed.objects)
    }

    /// Deletes objects; those that are not there are fine.
    pub(crate) async fn delete(&self, keys: Vec<Path>) -> Result<()> {
        let once = || async {
            let keys: Vec<_> = keys.iter().cloned().map(Ok).collect();
            let stream = futures_util::stream::iter(keys).boxed();
            let mut deleted = self.0.objects.delete_stream(stream);
            while let Some(one) = deleted.next().await {
                match one {
                    Ok(_) | Err(object_store::Error::NotFound { .. }) => {}
                    Err(error) => return Err(failed("DELETE", &Path::default(), error)),
                }
            }
            Ok(())
        };
        match keys.is_empty() {
            true => Ok(()),
            false => self.repeated(once).await,
        }
    }

    /// Sends messages, at most as many as go together. Those that the service refuses now, or
    /// says nothing of, are sent again: a message may be there twice.
    pub(crate) async fn send(&self, queue: &str, mut bodies: Vec<String>) -> Result<()> {
        let mut tries = 1;
        loop {
            let error = match self.0.queues.send(queue, &bodies).await {
                Err(error) => error,
                Ok(sent) => {
                    let each = bodies.into_iter().zip(sent);
                    let refused = each.filter_map(|(body, sent)| Some((body, sent.err()?)));
                    let (left, mut errors): (Vec<_>, Vec<_>) = refused.unzip();
                    bodies = left;
                    let firm = errors.iter().position(|error| !is_passing(error));
                    match firm
                        .map(|at| errors.swap_remove(at))
                        .or_else(|| errors.pop())
                    {
                        None => return Ok(()),
                        Some(error) => error,
                    }
                }
            };
            if !is_passing(&error) || TRIES <= tries {
                return Err(error);
            }
            self.pause(tries).await;
            tries += 1;
        }
    }

    /// Repeats a call of the objects that may happen twice, until it is answered.
    async fn call<T, F>(&self, method: &str, key: &Path, once: impl Fn() -> F) -> Result<T>
    where
        F: Future<Output = object_store::Result<T>>,
    {
        let once = || async { once().await.map_err(|error| failed(method, key, error)) };
        self.repeated(once).await
    }

    /// Repeats a call that may happen twice, until it is answered.
    pub(crate) async fn repeated<T, F>(&self, once: impl Fn() -> F) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        self.repeated_while(is_passing, once).await
    }

    /// Repeats a call while it fails in this way, some times.
    pub(crate) async fn repeated_while<T, F>(
        &self,
        fails: fn(&Error) -> bool,
        once: impl Fn() -> F,
    ) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        let mut tries = 1;
        loop {
            match once().await {
                Err(error) if fails(&error) && tries < TRIES => self.pause(tries).await,
                answer => return answer,
            }
            tries += 1;
        }
    }

    /// Waits before the next try.
    pub(crate) async fn pause(&self, tries: u32) {
        let time = PAUSE * 2_u32.pow(tries.saturating_sub(1).min(10));
        // Half of it is drawn, so that workers do not ask in step.
        let share = self.0.runtime.random() % 512;
        let time = time.min(PAUSE_MAX) * (512 + share as u32) / 1024;
        self.0.runtime.clock.sleep(time).await;
    }
}

/// An object that is put in parts, in their order. Unless it is completed there is none.
pub(crate) struct Upload {
    key: Path,
    upload: Box<dyn MultipartUpload>,
}

impl Upload {
    /// The next part, in pieces.
    pub(crate) async fn put(&mut self, pieces: Vec<Bytes>) -> Result<()> {
        let put = self.upload.put_part(pieces.into_iter().collect()).await;
        put.map_err(|error| failed("PUT of a part", &self.key, error))
    }

    /// Ends it without an object, if the store hears of it.
    pub(crate) async fn abort(mut self) {
        drop(self.upload.abort().await);
    }

    pub(crate) async fn complete(mut self) -> Result<()> {
        let completed = self.upload.complete().await;
        let failed = |error| failed("completion", &self.key, error);
        completed.map(|_| ()).map_err(failed)
    }
}

/// Whether the same call may succeed later.
pub(crate) fn is_passing(error: &Error) -> bool {
    matches!(
        error.kind,
        ErrorKind::Unavailable { .. } | ErrorKind::Ambiguous
    )
}

/// What was read, if it is there.
pub(crate) fn if_there<T>(read: Result<T>) -> Result<Option<T>> {
    match read {
        Err(error) if error.kind == ErrorKind::NotFound => Ok(None),
        read => read.map(Some),
    }
}

/// An error of objects in the contract's terms.
pub(crate) fn failed(method: &str, key: &Path, error: object_store::Error) -> Error {
    let is_write = !matches!(method, "GET" | "HEAD" | "LIST");
    let kind = object_error_kind(&error, is_write);
    let context = format!("{method} of object {:?}", key.as_ref());
    Error::caused(kind, context, error)
}
