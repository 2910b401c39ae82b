//! The store's calls, on the seam to the file system; each blocks its thread.
//!
//! Invariants:
//! - FOLDER-2 a key's name changes only under the key's lock, and by one rename or one removal. A
//!   condition holds under the same lock; one that did not hold before is refused without it.
//! - FOLDER-3 a put is answered after three things are durable: its body with its records, its
//!   name, and every folder on the way. A deletion is answered after the name's absence is durable;
//!   a refused condition, after the state that refused it is.
//! - an ETag is 128 random bits, drawn for each put.
//! - FOLDER-6 a sync that callers share began after the change of each (`syncs.rs`).

mod staged;

use std::io::{self, ErrorKind as IoKind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use bytes::Bytes;
use object_store::path::Path;
use object_store::{Attributes, Error, ObjectMeta, PutMode, Result};

pub(super) use self::staged::Staged;
use super::disk::{Disk, Guard, Kind, Moment};
use super::failure::{Effect, failed, refused};
use super::key::Key;
use super::record;
use super::staging::{Staging, check_format, random_name};
use super::syncs::{Step, Syncs};

/// A folder of objects.
#[derive(Debug)]
pub(super) struct Store<D: Disk> {
    disk: D,
    shared: Mutex<Shared<D>>,
    /// Signalled when what is opening, or a round of syncs, has ended.
    ended: Condvar,
}

/// What the callers of one process share. It is not held during calls of the disk.
#[derive(Debug)]
struct Shared<D: Disk> {
    staging: Preparation<D>,
    syncs: Syncs,
}

/// Whether the folder is prepared for writes.
#[derive(Debug)]
enum Preparation<D: Disk> {
    Not,
    UnderWay,
    Ready(Arc<Staging<D>>),
}

/// An object that is open to be read: it stays as it is when its key is put again.
#[derive(Debug)]
pub(super) struct Object<D: Disk> {
    pub(super) file: D::File,
    pub(super) meta: ObjectMeta,
    pub(super) attributes: Attributes,
}

/// What a folder on the way to a key was.
pub(super) enum Way<F> {
    There(F),
    /// A folder is missing; the last one that is there.
    Missing(F),
    /// A part of the key, but the last, is an object.
    Blocked,
}

impl<F> Way<F> {
    /// The folder, if all of the way is there.
    pub(super) fn there(self) -> Option<F> {
        match self {
            Way::There(folder) => Some(folder),
            Way::Missing(_) | Way::Blocked => None,
        }
    }
}

impl<D: Disk> Store<D> {
    /// Opens a folder.
    ///
    /// # Errors
    /// `NotSupported` when it has another format.
    pub(super) fn open(disk: D) -> Result<Store<D>> {
        check_format(&disk)?;
        Ok(Store {
            disk,
            shared: Mutex::new(Shared {
                staging: Preparation::Not,
                syncs: Syncs::default(),
            }),
            ended: Condvar::new(),
        })
    }

    pub(super) fn disk(&self) -> &D {
        &self.disk
    }

    fn shared(&self) -> MutexGuard<'_, Shared<D>> {
        self.shared.lock().expect("nothing panics under this lock")
    }

    /// What writes need; the first write prepares it.
    pub(super) fn staging(&self) -> Result<Arc<Staging<D>>> {
        let mut shared = self.shared();
        loop {
            match &shared.staging {
                Preparation::Ready(staging) => return Ok(Arc::clone(staging)),
                Preparation::UnderWay => {
                    shared = self.disk.wait(&self.ended, &self.shared, shared);
                }
                Preparation::Not => break,
            }
        }
        shared.staging = Preparation::UnderWay;
        drop(shared);
        let opened = Staging::open(&self.disk).map(Arc::new);
        self.shared().staging = match &opened {
            Ok(staging) => Preparation::Ready(Arc::clone(staging)),
            Err(_) => Preparation::Not,
        };
        self.ended.notify_all();
        opened
    }

    /// The control folder was removed by hand: the next write makes it anew.
    fn forget(&self, gone: &Arc<Staging<D>>) {
        let mut shared = self.shared();
        if let Preparation::Ready(staging) = &shared.staging
            && Arc::ptr_eq(staging, gone)
        {
            shared.staging = Preparation::Not;
        }
    }

    /// Makes durable which names are in a folder now. Callers at once share a sync.
    fn sync(&self, folder: &D::Folder, guard: Guard) -> io::Result<()> {
        let number = self.disk.number(folder)?;
        let mut shared = self.shared();
        let round = shared.syncs.join(number, !self.disk.keeps(Guard::Round));
        loop {
            match shared.syncs.step(number, round) {
                Step::Over(outcome) => return outcome,
                Step::Wait => shared = self.disk.wait(&self.ended, &self.shared, shared),
                Step::Sync => {
                    drop(shared);
                    let outcome = self.disk.sync_folder(folder, guard);
                    shared = self.shared();
                    shared.syncs.end(number, outcome);
                    self.ended.notify_all();
                }
            }
        }
    }

    /// Begins a body that has no name.
    pub(super) fn stage(self: &Arc<Self>, key: &Key, attributes: &Attributes) -> Result<Staged<D>> {
        let fail = |error| failed(key.path(), Effect::None, error);
        let attributes = record::attributes(attributes);
        loop {
            let staging = self.staging()?;
            let name = random_name().map_err(fail)?;
            let file = match self.disk.create(&staging.own, &name) {
                Err(error) if error.kind() == IoKind::NotFound => {
                    self.forget(&staging);
                    continue;
                }
                file => file.map_err(fail)?,
            };
            let staged = Staged {
                store: Arc::clone(self),
                staging,
                name,
                file,
                is_named: false,
            };
            if let Some(attributes) = &attributes {
                let set = self
                    .disk
                    .set_record(&staged.file, record::ATTRIBUTES, attributes);
                set.map_err(|error| {
                    let text = format!(
                        "its attributes take {} octets, more than the file system keeps: {error}",
                        attributes.len()
                    );
                    refused(key.path(), text)
                })?;
            }
            return Ok(staged);
        }
    }

    /// The folder of a key, as far as it is there.
    pub(super) fn way<'a>(
        &self,
        mut parts: impl Iterator<Item = &'a str>,
    ) -> io::Result<Way<D::Folder>> {
        let folder = self.disk.root()?;
        let found = parts.try_fold(folder, |folder, part| {
            match self.disk.folder(&folder, part) {
                Ok(next) => Ok(next),
                Err(error) if error.kind() == IoKind::NotFound => Err(Ok(Way::Missing(folder))),
                Err(error) if error.kind() == IoKind::NotADirectory => Err(Ok(Way::Blocked)),
                Err(error) => Err(Err(error)),
            }
        });
        found.map_or_else(|other| other, |folder| Ok(Way::There(folder)))
    }

    /// The folder of a key, made where it is not there, and durable.
    fn make_way(&self, key: &Key) -> Result<Option<D::Folder>> {
        let fail = |error| failed(key.path(), Effect::None, error);
        let mut folder = self.disk.root().map_err(fail)?;
        for part in key.folders() {
            let next = match self.disk.folder(&folder, part) {
                Err(error) if error.kind() == IoKind::NotFound => {
                    match self.disk.create_folder(&folder, part) {
                        // The folder above was removed because it was empty.
                        Err(error) if error.kind() == IoKind::NotFound => return Ok(None),
                        Err(error) if error.kind() != IoKind::AlreadyExists => {
                            return Err(fail(error));
                        }
                        _ => {}
                    }
                    match self.disk.folder(&folder, part) {
                        Err(error) if error.kind() == IoKind::NotFound => return Ok(None),
                        next => next,
                    }
                }
                next => next,
            };
            let next = next.map_err(|error| match error.kind() {
                IoKind::NotADirectory => {
                    let text =
                        format!("{part:?} on the way is an object; a folder has no such key");
                    refused(key.path(), text)
                }
                _ => fail(error),
            })?;
            if !self.disk.has_mark(&next).map_err(fail)? {
                self.sync(&folder, Guard::Parent).map_err(fail)?;
                // Without a mark, the next put syncs again: a mark needs rights on the folder.
                let _ = self.disk.mark(&next);
            }
            folder = next;
        }
        Ok(Some(folder))
    }

    /// The ETag of a key, or `None` when it has no object.
    fn e_tag(&self, folder: &D::Folder, name: &str) -> io::Result<Option<String>> {
        let file = match self.disk.open(folder, name) {
            Err(error) if error.kind() == IoKind::NotFound => return Ok(None),
            file => file?,
        };
        let stat = self.disk.stat(&file)?;
        match stat.kind {
            Kind::File => {
                let record = self.disk.record(&file, record::OBJECT)?;
                Ok(Some(record::e_tag_of(record.as_deref(), &stat)))
            }
            Kind::Folder => Ok(None),
            Kind::Other => Err(io::Error::new(
                IoKind::InvalidInput,
                "it is neither a file nor a folder",
            )),
        }
    }

    /// Why a put on a condition is refused.
    fn refusal(&self, key: &Key, mode: &PutMode, found: Option<&str>) -> Option<Error> {
        let path = key.path().to_string();
        let wanted = match mode {
            PutMode::Overwrite => return None,
            PutMode::Create => {
                let source = "the object is there".into();
                return found.map(|_| Error::AlreadyExists { path, source });
            }
            PutMode::Update(version) => version.e_tag.as_deref(),
        };
        let source = match (wanted, found) {
            (Some(wanted), Some(found)) if wanted == found => return None,
            (Some(wanted), Some(found)) => format!("its ETag is {found}, not {wanted}"),
            (Some(_), None) => "there is no such object".to_owned(),
            (None, _) => return Some(refused(path, "an update needs an ETag")),
        };
        let source = source.into();
        Some(Error::Precondition { path, source })
    }

    /// Refuses a put whose condition does not hold now: its body need not be written.
    ///
    /// # Errors
    /// `AlreadyExists` and `Precondition`.
    pub(super) fn check(&self, key: &Key, mode: &PutMode) -> Result<()> {
        let fail = |error| failed(key.path(), Effect::None, error);
        let is_missing = || match self.disk.open_path(key.path().as_ref()) {
            Err(error) => error.kind() == IoKind::NotFound,
            Ok(_) => false,
        };
        if *mode == PutMode::Overwrite || is_missing() {
            return Ok(());
        }
        let Way::There(folder) = self.way(key.folders()).map_err(fail)? else {
            return Ok(());
        };
        let found = self.e_tag(&folder, key.name()).map_err(fail)?;
        let Some(refusal) = self.refusal(key, mode, found.as_deref()) else {
            return Ok(());
        };
        self.sync(&folder, Guard::Refusal).map_err(fail)?;
        Err(refusal)
    }

    /// Opens an object.
    ///
    /// # Errors
    /// `NotFound` when there is none.
    pub(super) fn object(&self, key: &Key) -> Result<Object<D>> {
        let fail = |error| failed(key.path(), Effect::None, error);
        let found = match self.disk.open_path(key.path().as_ref()) {
            Err(error) if error.kind() == IoKind::NotFound => None,
            Err(error) => return Err(fail(error)),
            Ok(Some(file)) => self.object_of(file, key.path().clone())?,
            Ok(None) => match self.way(key.folders()).map_err(fail)? {
                Way::There(folder) => self.object_in(&folder, key.name(), key.path().clone())?,
                Way::Missing(_) | Way::Blocked => None,
            },
        };
        found.ok_or_else(|| key.not_found())
    }

    /// Opens a file of a folder, unless it is gone or none.
    pub(super) fn object_in(
        &self,
        folder: &D::Folder,
        name: &str,
        location: Path,
    ) -> Result<Option<Object<D>>> {
        let fail = |error| failed(&location, Effect::None, error);
        let file = match self.disk.open(folder, name) {
            Err(error) if error.kind() == IoKind::NotFound => return Ok(None),
            file => file.map_err(fail)?,
        };
        self.object_of(file, location)
    }

    /// The object of a file, unless it is none.
    fn object_of(&self, file: D::File, location: Path) -> Result<Option<Object<D>>> {
        let fail = |error| failed(&location, Effect::None, error);
        let stat = self.disk.stat(&file).map_err(fail)?;
        if stat.kind != Kind::File {
            return Ok(None);
        }
        let record = self.disk.record(&file, record::OBJECT).map_err(fail)?;
        let attributes = self.disk.record(&file, record::ATTRIBUTES).map_err(fail)?;
        let attributes = match attributes {
            None => Attributes::new(),
            Some(record) => record::read_attributes(&record)
                .ok_or_else(|| refused(&location, "the record of its attributes is damaged"))?,
        };
        let meta = ObjectMeta {
            last_modified: time(stat.modified).into(),
            size: stat.size,
            e_tag: Some(record::e_tag_of(record.as_deref(), &stat)),
            version: None,
            location,
        };
        Ok(Some(Object {
            file,
            meta,
            attributes,
        }))
    }

    /// Octets of an object.
    pub(super) fn read(&self, object: &Object<D>, offset: u64, length: usize) -> Result<Bytes> {
        let mut bytes = vec![0; length];
        let read = self.disk.read(&object.file, offset, &mut bytes);
        read.map_err(|error| failed(&object.meta.location, Effect::None, error))?;
        Ok(bytes.into())
    }

    /// Deletes objects; the outcome of each. One that is not there is deleted already.
    pub(super) fn delete(&self, keys: &[Key]) -> Vec<Result<()>> {
        let removed: Vec<_> = keys.iter().map(|key| self.remove(key)).collect();
        // The keys of one folder share its sync.
        let mut synced: Vec<(String, Result<(), String>)> = Vec::new();
        let outcome = |(key, removed): (&Key, Result<D::Folder>)| {
            let folder = removed?;
            let path: Vec<&str> = key.folders().collect();
            let path = path.join("/");
            let known = synced.iter().find(|(known, _)| *known == path);
            let outcome = match known {
                Some((_, outcome)) => outcome.clone(),
                None => {
                    let outcome = self.sync(&folder, Guard::Removal);
                    let outcome = outcome.map_err(|error| error.to_string());
                    synced.push((path, outcome.clone()));
                    outcome
                }
            };
            let fail = |error| failed(key.path(), Effect::Unsure, io::Error::other(error));
            outcome.map_err(fail)
        };
        keys.iter().zip(removed).map(outcome).collect()
    }

    /// Removes the name of an object; the folder whose sync makes that durable.
    fn remove(&self, key: &Key) -> Result<D::Folder> {
        let fail = |error| failed(key.path(), Effect::None, error);
        let folder = match self.way(key.folders()).map_err(fail)? {
            Way::There(folder) => folder,
            Way::Missing(folder) => return Ok(folder),
            Way::Blocked => return self.disk.root().map_err(fail),
        };
        let staging = self.staging()?;
        let _lock = self
            .disk
            .lock(&staging.locks, &key.stripe(), Guard::Stripe)
            .map_err(fail)?;
        match self.disk.remove(&folder, key.name()) {
            Ok(()) => Ok(folder),
            // A folder of that name is no object.
            Err(error) if matches!(error.kind(), IoKind::NotFound | IoKind::IsADirectory) => {
                Ok(folder)
            }
            Err(error) => Err(fail(error)),
        }
    }

    /// Removes a folder that has no file in it, and what folders it has; whether it is gone.
    fn remove_empty(&self, at: &D::Folder, name: &str) -> io::Result<bool> {
        let folder = match self.disk.folder(at, name) {
            Err(error) if error.kind() == IoKind::NotFound => return Ok(true),
            folder => folder?,
        };
        for (inner, kind) in self.disk.list(&folder)? {
            if kind != Kind::Folder || !self.remove_empty(&folder, &inner)? {
                return Ok(false);
            }
        }
        match self.disk.remove_folder(at, name) {
            Err(error) if error.kind() == IoKind::NotFound => Ok(true),
            Err(error) if error.kind() == IoKind::DirectoryNotEmpty => Ok(false),
            removed => removed.map(|()| true),
        }
    }
}

impl<D: Disk> Drop for Store<D> {
    fn drop(&mut self) {
        if let Ok(Shared { staging, .. }) = self.shared.get_mut()
            && let Preparation::Ready(staging) = staging
        {
            staging.close(&self.disk);
        }
    }
}

/// A moment in the standard library's words.
fn time(moment: Moment) -> std::time::SystemTime {
    use std::time::{Duration, UNIX_EPOCH};
    let (seconds, nanoseconds) = moment;
    let fraction = Duration::from_nanos(nanoseconds.into());
    let whole = Duration::from_secs(seconds.unsigned_abs());
    match seconds < 0 {
        true => UNIX_EPOCH - whole + fraction,
        false => UNIX_EPOCH + whole + fraction,
    }
}
