//! Objects of a database, and what became of writing them.
//!
//! Keys below the database's prefix: `catalogue`, `pages/ID`, `values/ID`, `claims/ID`,
//! `dead/COLLECTION/ID`, `clock/ID`, `costs/ID`; each ID has 128 random bits as 32 hexadecimal
//! digits.

use std::time::Duration;

use bytes::Bytes;
use fader_blink::{Page, PageId, Payload, Stored};
use fader_cloud::{Cloud, Error, ErrorKind, Result, object_error_kind};
use object_store::path::Path;
use object_store::{GetOptions, ObjectStoreExt, PutMode, PutOptions, UpdateVersion};

use crate::catalogue::CollectionId;
use crate::sealing::{Sealer, What};

/// Where the database is in its bucket.
pub(crate) const PREFIX: &str = "db";
/// How often a read, or a write that may happen twice, is tried.
const TRIES: u32 = 5;
/// The pause after the first try; it doubles.
const PAUSE: Duration = Duration::from_millis(50);

/// One version of a page, as it was read or written.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) page: Page,
    pub(crate) version: UpdateVersion,
}

/// What became of a conditional PUT.
#[derive(Debug)]
pub(crate) enum Put {
    /// It landed, as this version.
    Landed(UpdateVersion),
    /// Its condition did not hold.
    Refused,
    /// It landed, was lost, or will land.
    Unknown(Error),
}

/// What reading a page came to.
#[derive(Debug)]
pub(crate) enum Read {
    /// The page has this version; its bytes are as in the store.
    Page(Box<Held>, Bytes),
    /// The version that the reader has is the newest.
    Unchanged,
    /// The page is not there.
    Missing,
}

/// The objects of a database, counted in one scope.
#[derive(Clone, Debug)]
pub(crate) struct Store(pub(crate) Cloud);

/// The key of an object.
pub(crate) fn key(kind: &str, id: u128) -> Path {
    Path::from(format!("{PREFIX}/{kind}/{id:032x}"))
}

/// The page in the bytes of its object.
///
/// # Errors
/// `Malformed`: it is none. `Denied`: its key is not there.
pub(crate) fn page(id: PageId, sealer: &Sealer, bytes: Bytes) -> Result<Page> {
    let key = key("pages", id.0);
    let stored = Stored::parse(bytes).map_err(|error| {
        let context = format!("object {:?}", key.as_ref());
        Error::caused(ErrorKind::Malformed, context, error)
    })?;
    sealer.open_page(key.as_ref(), stored)
}

pub(crate) fn catalogue_key() -> Path {
    Path::from(format!("{PREFIX}/catalogue"))
}

impl Store {
    /// Reads a page, unless `known` is its newest version.
    ///
    /// # Errors
    /// Of the store; `Malformed`: it is no page.
    pub(crate) async fn page(
        &self,
        id: PageId,
        sealer: &Sealer,
        known: Option<&UpdateVersion>,
    ) -> Result<Read> {
        let key = key("pages", id.0);
        let etag = known.and_then(|version| version.e_tag.clone());
        let options = GetOptions {
            if_none_match: etag,
            ..GetOptions::default()
        };
        match self.get(&key, options).await {
            Ok(Some((bytes, version))) => {
                let page = page(id, sealer, bytes.clone())?;
                Ok(Read::Page(Box::new(Held { page, version }), bytes))
            }
            Ok(None) => Ok(Read::Missing),
            Err(error) if error.kind == ErrorKind::Precondition => Ok(Read::Unchanged),
            Err(error) => Err(error),
        }
    }

    /// Writes a page in the way of `mode`; with what became of it, the bytes that were sent.
    pub(crate) async fn put_page(
        &self,
        id: PageId,
        sealer: &Sealer,
        page: &Page,
        mode: PutMode,
    ) -> Result<(Put, Bytes)> {
        let key = key("pages", id.0);
        let sealed = sealer.seal_page(key.as_ref(), page)?;
        let put = self.put(&key, sealed.clone(), mode).await?;
        Ok((put, sealed))
    }

    /// The bytes and the version of an object, if it is there.
    pub(crate) async fn object(&self, key: &Path) -> Result<Option<(Bytes, UpdateVersion)>> {
        self.get(key, GetOptions::default()).await
    }

    /// As [`Store::object`]; within, none when `version` is its newest.
    pub(crate) async fn changed_object(
        &self,
        key: &Path,
        version: &UpdateVersion,
    ) -> Result<Option<Option<(Bytes, UpdateVersion)>>> {
        let options = GetOptions {
            if_none_match: version.e_tag.clone(),
            ..GetOptions::default()
        };
        match self.get(key, options).await {
            Ok(found) => Ok(found.map(Some)),
            Err(error) if error.kind == ErrorKind::Precondition => Ok(Some(None)),
            Err(error) => Err(error),
        }
    }

    /// The bytes of a payload of a tree: its own, or those of its object.
    pub(crate) async fn payload(
        &self,
        tree: CollectionId,
        sealer: &Sealer,
        payload: &Payload,
    ) -> Result<Bytes> {
        let pointer = match payload {
            Payload::Inline(bytes) => return Ok(bytes.clone()),
            Payload::Object(pointer) => pointer,
        };
        let key = key("values", pointer.object);
        let Some((bytes, _)) = self.of_tree(tree).object(&key).await? else {
            let context = format!("object {:?} of a record is not there", key.as_ref());
            return Err(Error::new(ErrorKind::Malformed, context));
        };
        let bytes = sealer.open(&What::Value(pointer.object), bytes)?;
        if !pointer.matches(&bytes) {
            let context = format!("object {:?} of a record is damaged", key.as_ref());
            return Err(Error::new(ErrorKind::Malformed, context));
        }
        Ok(bytes)
    }

    /// When an object was written by the store's clock, milliseconds since 1970.
    pub(crate) async fn modified(&self, key: &Path) -> Result<Option<u64>> {
        match self.0.objects.head(key).await {
            Ok(meta) => Ok(u64::try_from(meta.last_modified.timestamp_millis()).ok()),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(failure("HEAD", key, false, error)),
        }
    }

    async fn get(&self, key: &Path, options: GetOptions) -> Result<Option<(Bytes, UpdateVersion)>> {
        let once = async || {
            let found = self.0.objects.get_opts(key, options.clone()).await?;
            let version = UpdateVersion {
                e_tag: found.meta.e_tag.clone(),
                version: found.meta.version.clone(),
            };
            Ok((found.bytes().await?, version))
        };
        let mut tries = 1;
        loop {
            match once().await {
                Ok(found) => return Ok(Some(found)),
                Err(object_store::Error::NotFound { .. }) => return Ok(None),
                Err(error) => {
                    let error = failure("GET", key, false, error);
                    if tries == TRIES || !matches!(error.kind, ErrorKind::Unavailable { .. }) {
                        return Err(error);
                    }
                    self.pause(tries).await;
                    tries += 1;
                }
            }
        }
    }

    /// One PUT, sent once.
    ///
    /// # Errors
    /// Of any kind but `Precondition` and `Ambiguous`: nothing was changed.
    pub(crate) async fn put(&self, key: &Path, bytes: Bytes, mode: PutMode) -> Result<Put> {
        let is_update = matches!(mode, PutMode::Update(_));
        let options = PutOptions::from(mode);
        match self.0.objects.put_opts(key, bytes.into(), options).await {
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

    /// Writes an object under a name that is used once: a repetition writes the same bytes.
    pub(crate) async fn put_surely(&self, key: &Path, bytes: Bytes) -> Result<()> {
        let mut tries = 1;
        loop {
            let error = match self.put(key, bytes.clone(), PutMode::Overwrite).await {
                Ok(Put::Landed(_)) => return Ok(()),
                Ok(Put::Unknown(error)) => error,
                Ok(Put::Refused) => Error::new(ErrorKind::Precondition, "an overwrite"),
                Err(error) => error,
            };
            if tries == TRIES || !is_passing(&error) {
                return Err(error);
            }
            self.pause(tries).await;
            tries += 1;
        }
    }

    /// Deletes an object; one that is not there is fine.
    pub(crate) async fn delete(&self, key: &Path) -> Result<()> {
        match self.0.objects.delete(key).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(failure("DELETE", key, true, error)),
        }
    }

    /// Waits before the next try.
    pub(crate) async fn pause(&self, tries: u32) {
        let time = PAUSE * 2_u32.pow(tries.saturating_sub(1).min(6));
        self.0.runtime.clock.sleep(time).await;
    }

    /// The scope in which all of one stage counts.
    pub(crate) fn scope(&self, stage: &str) -> Store {
        Store(self.0.scope(stage))
    }

    /// The scope within this one in which all of a tree counts.
    pub(crate) fn of_tree(&self, tree: CollectionId) -> Store {
        self.scope(&tree.to_string())
    }
}

/// Whether the same call may succeed later.
pub(crate) fn is_passing(error: &Error) -> bool {
    matches!(
        error.kind,
        ErrorKind::Unavailable { .. } | ErrorKind::Ambiguous
    )
}

pub(crate) fn failure(
    method: &str,
    key: &Path,
    is_write: bool,
    error: object_store::Error,
) -> Error {
    let kind = object_error_kind(&error, is_write);
    Error::caused(
        kind,
        format!("{method} of object {:?}", key.as_ref()),
        error,
    )
}
