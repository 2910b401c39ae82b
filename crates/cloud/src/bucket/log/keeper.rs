//! The names of logs: manifests, snapshots, stubs, and the sweep of dead logs (rules BLOG-1,
//! BLOG-6, BLOG-8, BLOG-9).

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::StreamExt;
use object_store::PutMode;
use object_store::path::Path;

use super::STUB_ABOVE;
use super::bytes::{Content, Manifest, PutId, Slot, SnapshotName, encode_snapshot};
use crate::bucket::guard::Guard;
use crate::bucket::markers::{Markers, foreign};
use crate::bucket::names::{Incarnation, parse_incarnation, parse_number, parts_below};
use crate::bucket::store::{Found, Put, Store, modified};
use crate::bucket::time::GRAIN;
use crate::error::{Error, ErrorKind, Result};

/// Changes of a manifest that others were faster than, at most.
const RACES_MAX: u32 = 16;
/// How long the slots of a dead log stay.
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// The logs of a prefix by name.
#[derive(Debug)]
pub(in crate::bucket) struct Keeper {
    pub(in crate::bucket) store: Store,
    pub(in crate::bucket) markers: Markers,
}

/// A manifest with the version that an update names.
pub(super) struct Read {
    pub(super) manifest: Manifest,
    found: Found,
}

/// An object of a dead log.
struct Dead {
    incarnation: Incarnation,
    number: u64,
    is_snapshot: bool,
    modified: Duration,
    key: Path,
}

impl Keeper {
    pub(in crate::bucket) fn new(store: Store, is_name: fn(&str) -> bool) -> Self {
        let is_gone = |key: &str, bytes: &::bytes::Bytes| {
            let manifest = Manifest::decode(key, bytes)?;
            Ok(manifest.is_gone)
        };
        Keeper {
            store,
            markers: Markers::new("domains", is_name, is_gone),
        }
    }

    fn log_part(&self, incarnation: Incarnation) -> String {
        match self.store.guards.has(Guard::LogIncarnation) {
            true => incarnation.to_string(),
            false => Incarnation(0).to_string(),
        }
    }

    pub(super) fn slot_key(&self, name: &str, incarnation: Incarnation, number: u64) -> Path {
        let (log, number) = (self.log_part(incarnation), format!("{number:016x}"));
        self.store.key(&["logs", name, &log, &number])
    }

    pub(super) fn snapshot_key(
        &self,
        name: &str,
        incarnation: Incarnation,
        snapshot: SnapshotName,
    ) -> Path {
        let log = self.log_part(incarnation);
        self.store.key(&["snapshots", name, &log, &snapshot.text()])
    }

    /// A slot, if it is there.
    pub(super) async fn slot(&self, key: &Path, number: u64) -> Result<Option<Slot>> {
        let found = self.store.get(key).await?;
        let slot = found.map(|found| Slot::decode(key.as_ref(), &found.bytes, number));
        slot.transpose()
    }

    /// A name's manifest.
    pub(super) async fn manifest(&self, name: &str) -> Result<Option<Read>> {
        let key = self.markers.key(&self.store, name);
        let found = self.store.get_surely(&key).await?;
        let read = found.map(|found| {
            let manifest = Manifest::decode(key.as_ref(), &found.bytes)?;
            Ok(Read { manifest, found })
        });
        read.transpose()
    }

    async fn put_manifest(
        &self,
        name: &str,
        before: Option<&Read>,
        manifest: &Manifest,
    ) -> Result<Put> {
        let key = self.markers.key(&self.store, name);
        let mode = match before {
            None => PutMode::Create,
            Some(_) if !self.store.guards.has(Guard::ManifestIfMatch) => PutMode::Overwrite,
            Some(read) => PutMode::Update(read.found.version.clone()),
        };
        self.store.put(&key, manifest.encode(), mode).await
    }

    /// Begins a log, unless one lives; whether a name was used before.
    pub(in crate::bucket) async fn create(&self, name: &str) -> Result<bool> {
        let created = Manifest {
            incarnation: Incarnation(self.store.runtime.random()),
            is_gone: false,
            snapshot: None,
        };
        for attempt in 1..=RACES_MAX {
            let before = self.manifest(name).await?;
            let is_again = before.is_some();
            if before.as_ref().is_some_and(|read| !read.manifest.is_gone) {
                return Ok(false);
            }
            match self.put_manifest(name, before.as_ref(), &created).await? {
                Put::Landed(_) => return Ok(is_again),
                // The next GET shows what became of it.
                Put::Refused | Put::Unknown(_) => self.store.look_pause(attempt).await,
            }
        }
        Err(raced(name))
    }

    /// Marks a log whose seal stands as gone.
    pub(super) async fn finish(&self, name: &str, incarnation: Incarnation) -> Result<()> {
        for attempt in 1..=RACES_MAX {
            let Some(read) = self.manifest(name).await? else {
                return Ok(());
            };
            if read.manifest.is_gone || read.manifest.incarnation != incarnation {
                return Ok(());
            }
            if !self.store.guards.has(Guard::ManifestStays) {
                let key = self.markers.key(&self.store, name);
                return self.store.delete_surely(&key).await;
            }
            let gone = Manifest {
                is_gone: true,
                ..read.manifest
            };
            match self.put_manifest(name, Some(&read), &gone).await? {
                Put::Landed(_) => return Ok(()),
                Put::Refused | Put::Unknown(_) => self.store.look_pause(attempt).await,
            }
        }
        Err(raced(name))
    }

    /// Writes a snapshot, names it in the manifest, and makes stubs of what it covers (BLOG-9).
    /// What fails is left to the next snapshot.
    pub(super) async fn keep(
        self: Arc<Self>,
        name: String,
        incarnation: Incarnation,
        position: u64,
        state: Vec<u8>,
    ) -> Result<()> {
        let random = self.store.runtime.random();
        let snapshot = SnapshotName { position, random };
        let guards = &self.store.guards;
        if !guards.has(Guard::ManifestBeforeStubs) {
            self.stub(&name, incarnation, position).await?;
        }
        if guards.has(Guard::SnapshotFirst) {
            self.put_snapshot(&name, incarnation, snapshot, &state)
                .await?;
        }
        let mut races = 0;
        let before = loop {
            races += 1;
            if RACES_MAX < races {
                return Err(raced(&name));
            }
            let Some(read) = self.manifest(&name).await? else {
                return Ok(());
            };
            let known = read.manifest.snapshot;
            let is_over = read.manifest.is_gone || read.manifest.incarnation != incarnation;
            if is_over || known.is_some_and(|known| position <= known.position) {
                return Ok(());
            }
            let next = Manifest {
                snapshot: Some(snapshot),
                ..read.manifest
            };
            match self.put_manifest(&name, Some(&read), &next).await? {
                Put::Landed(_) => break read.manifest,
                Put::Refused | Put::Unknown(_) => self.store.look_pause(races).await,
            }
        };
        if !guards.has(Guard::SnapshotFirst) {
            self.put_snapshot(&name, incarnation, snapshot, &state)
                .await?;
        }
        if guards.has(Guard::ManifestBeforeStubs) {
            self.stub(&name, incarnation, position).await?;
        }
        self.sweep_snapshots(&name, before.incarnation, snapshot)
            .await
    }

    async fn put_snapshot(
        &self,
        name: &str,
        incarnation: Incarnation,
        snapshot: SnapshotName,
        state: &[u8],
    ) -> Result<()> {
        let key = self.snapshot_key(name, incarnation, snapshot);
        let bytes = encode_snapshot(snapshot, state);
        match self.store.put(&key, bytes, PutMode::Create).await? {
            Put::Landed(_) => Ok(()),
            Put::Refused => Err(raced(name)),
            Put::Unknown(error) => Err(error),
        }
    }

    /// Makes stubs of large slots up to a position.
    async fn stub(&self, name: &str, incarnation: Incarnation, position: u64) -> Result<()> {
        let log = self.log_part(incarnation);
        let folder = self.store.key(&["logs", name, &log]);
        let mut keys = self.store.list(&folder);
        let mut large = Vec::new();
        while let Some(meta) = keys.next().await {
            let meta = meta?;
            let number = number_of(&folder, &meta.location)?;
            if number <= position && STUB_ABOVE < meta.size {
                large.push((number, meta.location));
            }
        }
        for (number, key) in large {
            if !self.store.guards.has(Guard::SlotsStay) {
                self.store.delete_surely(&key).await?;
                continue;
            }
            let Some(found) = self.store.get_surely(&key).await? else {
                continue;
            };
            let slot = Slot::decode(key.as_ref(), &found.bytes, number)?;
            if !matches!(slot.content, Content::Writes(_)) {
                continue;
            }
            let no_id = PutId {
                process: 0,
                number: 0,
            };
            let stub = Slot {
                content: Content::Stub,
                put_id: match self.store.guards.has(Guard::StubPutId) {
                    true => slot.put_id,
                    false => no_id,
                },
                number,
            };
            // Another process may have made it.
            let mode = PutMode::Update(found.version);
            self.store.put(&key, stub.encode(), mode).await?;
        }
        Ok(())
    }

    /// Deletes snapshots below the manifest's.
    async fn sweep_snapshots(
        &self,
        name: &str,
        incarnation: Incarnation,
        newest: SnapshotName,
    ) -> Result<()> {
        let log = self.log_part(incarnation);
        let folder = self.store.key(&["snapshots", name, &log]);
        let mut keys = self.store.list(&folder);
        while let Some(meta) = keys.next().await {
            let meta = meta?;
            let snapshot = snapshot_of(&folder, &meta.location)?;
            let is_over = match self.store.guards.has(Guard::SnapshotsBelow) {
                true => snapshot.position < newest.position,
                false => snapshot != newest,
            };
            if is_over {
                self.store.delete_surely(&meta.location).await?;
            }
        }
        Ok(())
    }

    /// Deletes, or only names, what is left of dead logs of a name, a day after their end (BLOG-8).
    pub(in crate::bucket) async fn sweep(
        &self,
        name: &str,
        is_dry_run: bool,
    ) -> Result<Vec<String>> {
        let early = match self.store.guards.has(Guard::ListBeforeManifest) {
            true => None,
            false => Some(self.living(name).await?),
        };
        let listed = self.listed(name).await?;
        let living = match early {
            Some(living) => living,
            None => self.living(name).await?,
        };
        let mut dead: Vec<Dead> = listed
            .into_iter()
            .filter(|object| Some(object.incarnation) != living)
            .collect();
        // Slots in rising order, snapshots behind them.
        dead.sort_by_key(|object| (object.incarnation, object.is_snapshot, object.number));
        let mut swept = Vec::new();
        for log in dead.chunk_by(|one, other| one.incarnation == other.incarnation) {
            let seal = self.seal_of(log).await?;
            let moment = self.store.moment();
            let now = match is_dry_run {
                true => moment.store.max(moment.wall),
                false => moment.store,
            };
            for object in log {
                let end = seal.unwrap_or(object.modified) + GRAIN + KEPT;
                if end <= now {
                    swept.push(object.key.as_ref().to_owned());
                    if !is_dry_run {
                        self.store.delete_surely(&object.key).await?;
                    }
                }
            }
        }
        Ok(swept)
    }

    async fn living(&self, name: &str) -> Result<Option<Incarnation>> {
        let read = self.manifest(name).await?;
        let living = read.filter(|read| !read.manifest.is_gone);
        Ok(living.map(|read| read.manifest.incarnation))
    }

    /// All slots and snapshots of a name.
    async fn listed(&self, name: &str) -> Result<Vec<Dead>> {
        let mut listed = Vec::new();
        for (folder, is_snapshot) in [("logs", false), ("snapshots", true)] {
            let folder = self.store.key(&[folder, name]);
            let mut keys = self.store.list(&folder);
            while let Some(meta) = keys.next().await {
                let meta = meta?;
                let parts = parts_below(&folder, &meta.location);
                let parsed = match parts.as_slice() {
                    [log, last] if is_snapshot => {
                        let snapshot = SnapshotName::parse(last);
                        parse_incarnation(log).zip(snapshot.map(|one| one.position))
                    }
                    [log, last] => parse_incarnation(log).zip(parse_number(last)),
                    _ => None,
                };
                let Some((incarnation, number)) = parsed else {
                    return Err(foreign(&meta.location));
                };
                listed.push(Dead {
                    incarnation,
                    number,
                    is_snapshot,
                    modified: modified(&meta),
                    key: meta.location,
                });
            }
        }
        Ok(listed)
    }

    /// When a dead log was sealed, if it was.
    async fn seal_of(&self, log: &[Dead]) -> Result<Option<Duration>> {
        let Some(last) = log.iter().rfind(|object| !object.is_snapshot) else {
            return Ok(None);
        };
        let slot = self.slot(&last.key, last.number).await?;
        let is_seal = slot.is_some_and(|slot| slot.content == Content::Seal);
        Ok(is_seal.then_some(last.modified))
    }
}

fn number_of(folder: &Path, key: &Path) -> Result<u64> {
    let parts = parts_below(folder, key);
    let number = match parts.as_slice() {
        [last] => parse_number(last),
        _ => None,
    };
    number.ok_or_else(|| foreign(key))
}

fn snapshot_of(folder: &Path, key: &Path) -> Result<SnapshotName> {
    let parts = parts_below(folder, key);
    let snapshot = match parts.as_slice() {
        [last] => SnapshotName::parse(last),
        _ => None,
    };
    snapshot.ok_or_else(|| foreign(key))
}

fn raced(name: &str) -> Error {
    let context = format!("other processes changed {name:?} again and again");
    Error::new(ErrorKind::Unavailable { retry_after: None }, context)
}
