//! What a store of objects keeps of the promises that queues, domains and systems rely on, found
//! out with at most [`REQUESTS_MAX`] requests.
//!
//! The store remembers for [`MEMORY`] that it kept all of them. A broken promise is never
//! remembered: it is probed again at the next opening, so that a repaired store is used at once.
//!
//! Invariants:
//! - the probe changes only objects below `_fader/probe`, and deletes those that it made.
//! - a failed request is no verdict: the probe fails with it.
//!
//! Deliberately absent: promises that a few requests cannot judge, as that of two racing puts one
//! wins (`conformance` has it). Also that no proxy repeats a put (nothing can judge it).

mod findings;
mod memory;

use std::time::Duration;

use futures_util::TryStreamExt;
use object_store::path::Path;
use object_store::{
    Error as StoreError, GetOptions, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutOptions,
    PutResult, UpdateVersion,
};

use crate::error::{Error, ErrorKind, Result};
use crate::objects::object_error_kind;
use crate::runtime::Runtime;

pub use self::findings::{Findings, Outcome, Promise};

/// Requests of a probe, its memory's included.
pub const REQUESTS_MAX: usize = 20;
/// How long a store's memory counts.
pub const MEMORY: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// Below it are the memory and the objects of probes under way.
const FOLDER: &str = "_fader/probe";
/// The name of the object that a probe writes.
const OBJECT: &str = "object";
/// How old what a probe left is before it is swept.
const LEFT: Duration = Duration::from_secs(24 * 60 * 60);

/// What the store remembers, or else what a probe finds. `way` names the way to the store, such as
/// its host: what holds on one way need not hold behind a proxy.
///
/// # Errors
/// What kept a request of the probe from an answer; `NotFound` when the bucket is not there.
pub async fn remembered_or_probed(
    store: &dyn ObjectStore,
    runtime: &Runtime,
    way: &str,
) -> Result<Findings> {
    match memory::read(store, runtime, way).await? {
        Some(findings) => Ok(findings),
        None => probed(store, runtime, way).await,
    }
}

/// The result of a new probe; the store remembers it, if nothing is broken.
///
/// # Errors
/// As [`remembered_or_probed`].
pub async fn probed(store: &dyn ObjectStore, runtime: &Runtime, way: &str) -> Result<Findings> {
    let folder = format!("{FOLDER}/{:016x}", runtime.random());
    let mut probe = Probe {
        store,
        folder: Path::from(folder.as_str()),
        key: Path::from(format!("{folder}/{OBJECT}")),
        findings: Findings::new(runtime.clock.wall()),
    };
    probe.run().await?;
    let findings = probe.findings;
    if findings.is_intact() {
        memory::write(store, way, &findings).await?;
    }
    Ok(findings)
}

/// Deletes, or only names, what probes left that were interrupted a day ago or before. A probe
/// under way is younger, and one whose clock is a day off fails and leaves nothing wrong.
///
/// # Errors
/// Those of the requests.
pub async fn sweep(
    store: &dyn ObjectStore,
    runtime: &Runtime,
    is_dry_run: bool,
) -> Result<Vec<String>> {
    let listed = store.list(Some(&Path::from(FOLDER))).try_collect().await;
    let listed: Vec<ObjectMeta> = listed.map_err(|error| failed("list", &error))?;
    let mut swept = Vec::new();
    for meta in listed {
        let modified = meta.last_modified.timestamp_millis();
        let modified = Duration::from_millis(u64::try_from(modified).unwrap_or_default());
        let key = meta.location;
        if !is_probed(&key) || runtime.clock.wall() < modified + LEFT {
            continue;
        }
        swept.push(key.to_string());
        if !is_dry_run {
            match store.delete(&key).await {
                Ok(()) | Err(StoreError::NotFound { .. }) => {}
                Err(error) => return Err(failed("delete", &error)),
            }
        }
    }
    Ok(swept)
}

/// Whether a key is one that a probe writes: its folder is 16 hexadecimal digits.
fn is_probed(key: &Path) -> bool {
    let below = key.as_ref().strip_prefix(FOLDER);
    let parts = below.and_then(|below| below.strip_prefix('/')?.split_once('/'));
    parts.is_some_and(|(folder, name)| {
        let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        name == OBJECT && folder.len() == 16 && folder.bytes().all(is_hex)
    })
}

/// A probe under way.
struct Probe<'a> {
    store: &'a dyn ObjectStore,
    folder: Path,
    key: Path,
    findings: Findings,
}

impl Probe<'_> {
    async fn run(&mut self) -> Result<()> {
        use Promise as P;
        // Created, and read.
        let first = match self.put("first", PutMode::Create).await {
            Err(error) if is_unsupported(&error) => self.put("first", PutMode::Overwrite).await,
            put => put,
        };
        let first = first.map_err(|error| failed("put", &error))?;
        let second = self.put("second", PutMode::Create).await;
        let is_created = self.refused(P::CreateOnce, second, "the second creation")?;
        let body = if is_created { "first" } else { "second" };
        self.reads(P::ReadAfterPut, Some(body)).await?;
        let version = match is_created {
            true => first.clone(),
            false => self.head().await?,
        };
        self.is_unmodified(&version).await?;
        self.lists(P::ListAfterPut, Some(&version)).await?;
        // Overwritten.
        let right = self.put("third", update(&version)).await;
        let newer = match right {
            Ok(newer) => {
                self.tell(P::UpdateNewest, None);
                newer
            }
            Err(error) if is_refusal(&error) || is_unsupported(&error) => {
                self.tell(P::UpdateNewest, Some(format!("refused: {error}")));
                let put = self.put("third", PutMode::Overwrite).await;
                put.map_err(|error| failed("put", &error))?
            }
            Err(error) => return Err(failed("put", &error)),
        };
        let is_new = newer.e_tag != version.e_tag && newer.e_tag.is_some();
        let same = format!("the ETag is {:?} before and after", version.e_tag);
        self.tell(P::NewVersion, (!is_new).then_some(same));
        let stale = self.put("fourth", update(&version)).await;
        let is_refused = self.refused(P::UpdateOld, stale, "an update of the old version")?;
        let body = if is_refused { "third" } else { "fourth" };
        self.reads(P::ReadAfterOverwrite, Some(body)).await?;
        self.is_modified(&version).await?;
        let current = is_refused.then_some(&newer);
        self.lists(P::ListAfterOverwrite, current).await?;
        // Deleted.
        self.delete(&self.key.clone()).await?;
        self.reads(P::ReadAfterDelete, None).await?;
        self.is_gone(&newer).await?;
        self.lists(P::ListAfterDelete, None).await?;
        let absent = self.put("fifth", update(&newer)).await;
        let is_absent = self.refused(P::UpdateAbsent, absent, "an update of nothing")?;
        // Equal bytes, in an object of the same name.
        let mode = match is_absent && self.findings.broken().next().is_none() {
            true => PutMode::Create,
            false => PutMode::Overwrite,
        };
        let again = self.put("first", mode).await;
        let again = again.map_err(|error| failed("put", &error))?;
        self.findings.has_repeating_etags = again.e_tag == first.e_tag;
        self.delete(&self.key.clone()).await
    }

    fn tell(&mut self, promise: Promise, seen: Option<String>) {
        self.findings.tell(promise, seen);
    }

    async fn put(&self, body: &'static str, mode: PutMode) -> object_store::Result<PutResult> {
        let options = PutOptions {
            mode,
            ..PutOptions::default()
        };
        self.store.put_opts(&self.key, body.into(), options).await
    }

    /// Judges a put that must be refused; whether it was.
    fn refused(
        &mut self,
        promise: Promise,
        put: object_store::Result<PutResult>,
        what: &str,
    ) -> Result<bool> {
        match put {
            Ok(_) => {
                self.tell(promise, Some(format!("{what} was accepted")));
                Ok(false)
            }
            Err(error) if is_refusal(&error) => {
                self.tell(promise, None);
                Ok(true)
            }
            Err(error) if is_unsupported(&error) => {
                self.tell(promise, Some(format!("{what} cannot be asked for")));
                Ok(true)
            }
            Err(error) => Err(failed("put", &error)),
        }
    }

    async fn head(&self) -> Result<PutResult> {
        let head = self.store.head(&self.key).await;
        let meta = head.map_err(|error| failed("head", &error))?;
        Ok(PutResult {
            e_tag: meta.e_tag,
            version: meta.version,
            extensions: Default::default(),
        })
    }

    /// Judges what a read finds; nothing is expected after a deletion.
    async fn reads(&mut self, promise: Promise, expected: Option<&str>) -> Result<()> {
        let found = match self.store.get(&self.key).await {
            Ok(found) => {
                let body = found.bytes().await;
                let body = body.map_err(|error| failed("get", &error))?;
                Some(String::from_utf8_lossy(&body).into_owned())
            }
            Err(StoreError::NotFound { .. }) => None,
            Err(error) => return Err(failed("get", &error)),
        };
        let is_right = found.as_deref() == expected;
        self.tell(promise, (!is_right).then(|| format!("found {found:?}")));
        Ok(())
    }

    async fn read_unless(&self, version: &PutResult) -> object_store::Result<String> {
        let options = GetOptions {
            if_none_match: version.e_tag.clone(),
            ..GetOptions::default()
        };
        let found = self.store.get_opts(&self.key, options).await?;
        let body = found.bytes().await?;
        Ok(String::from_utf8_lossy(&body).into_owned())
    }

    async fn is_unmodified(&mut self, version: &PutResult) -> Result<()> {
        let seen = match self.read_unless(version).await {
            Err(StoreError::NotModified { .. }) => None,
            Ok(_) => Some("the body was sent all the same".to_owned()),
            Err(error) => return Err(failed("get", &error)),
        };
        self.tell(Promise::NotModifiedAfterPut, seen);
        Ok(())
    }

    async fn is_modified(&mut self, old: &PutResult) -> Result<()> {
        let seen = match self.read_unless(old).await {
            Ok(body) if body == "first" || body == "second" => Some("the old body".to_owned()),
            Ok(_) => None,
            Err(StoreError::NotModified { .. }) => Some("`not modified`".to_owned()),
            Err(error) => return Err(failed("get", &error)),
        };
        self.tell(Promise::ModifiedAfterOverwrite, seen);
        Ok(())
    }

    async fn is_gone(&mut self, old: &PutResult) -> Result<()> {
        let seen = match self.read_unless(old).await {
            Err(StoreError::NotFound { .. }) => None,
            Err(StoreError::NotModified { .. }) => Some("`not modified`".to_owned()),
            Ok(_) => Some("the body".to_owned()),
            Err(error) => return Err(failed("get", &error)),
        };
        self.tell(Promise::GoneAfterDelete, seen);
        Ok(())
    }

    /// Judges what a list finds: the object, in this version if that is known, or nothing.
    async fn lists(&mut self, promise: Promise, expected: Option<&PutResult>) -> Result<()> {
        let found = self.store.list(Some(&self.folder)).try_collect().await;
        let found: Vec<ObjectMeta> = found.map_err(|error| failed("list", &error))?;
        let seen = match (&*found, expected, promise) {
            ([], _, Promise::ListAfterDelete) => None,
            ([_], None, Promise::ListAfterOverwrite) => None,
            ([meta], Some(version), _) if meta.location == self.key => {
                // Lists of some services tell ETags without quotes.
                let bare = |tag: &Option<String>| {
                    tag.as_deref().map(|tag| tag.trim_matches('"').to_owned())
                };
                let is_old = bare(&meta.e_tag) != bare(&version.e_tag) && meta.e_tag.is_some();
                is_old.then(|| format!("an old version: {:?}", meta.e_tag))
            }
            _ => Some(format!("{} objects", found.len())),
        };
        self.tell(promise, seen);
        Ok(())
    }

    async fn delete(&self, key: &Path) -> Result<()> {
        match self.store.delete(key).await {
            Ok(()) | Err(StoreError::NotFound { .. }) => Ok(()),
            Err(error) => Err(failed("delete", &error)),
        }
    }
}

fn update(version: &PutResult) -> PutMode {
    PutMode::Update(UpdateVersion::from(version.clone()))
}

/// Whether a put on a condition was answered with no. GCS and S3 say 404 of an absent object.
fn is_refusal(error: &StoreError) -> bool {
    let kind = object_error_kind(error, true);
    matches!(kind, ErrorKind::Precondition | ErrorKind::NotFound)
}

/// Whether the store, or its client, knows of no such put.
fn is_unsupported(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::NotImplemented { .. } | StoreError::NotSupported { .. }
    )
}

fn failed(call: &str, error: &StoreError) -> Error {
    let kind = object_error_kind(error, call == "put" || call == "delete");
    let context = match kind {
        ErrorKind::NotFound => "the bucket is not there: make it first".to_owned(),
        ErrorKind::Denied => format!("the credentials may not {call} objects: {error}"),
        _ => format!("probe, {call}: {error}"),
    };
    Error::new(kind, context)
}

#[cfg(test)]
mod tests;
