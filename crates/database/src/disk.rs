//! The disk tier: pages in files of this machine, where the pool has no place for them.
//!
//! A page goes there as the store has it, when it is read from the store or written to it. A page
//! that the pool has not is looked for here first. The store is then asked for a newer version
//! alone, unless this process saw it as the newest a while ago.
//!
//! Invariants:
//! - DISK-1 a page of an earlier process is read only after the store showed it as the newest.
//! - DISK-2 a file that is damaged, or of another page, is missing.
//! - DISK-3 files that are known have no more bytes than the bound.
//! - DISK-4 chunks of write sets are there only while their transaction is: those of an earlier
//!   process are deleted when the tier is opened. They are never deleted to make room.
//!
//! Deliberately absent: large records, which are read once; waiting for the disk's caches. A lost
//! page costs one GET, and a lost chunk of a write set ends its transaction.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use fader_blink::PageId;
use object_store::UpdateVersion;
use xxhash_rust::xxh3::Xxh3;

use crate::recency::Recency;

/// What a file begins with: its kind, and the version of its format.
const MAGIC: [u8; 4] = *b"FDP1";
/// Bytes of the magic and the checksum.
const HEAD_BYTES: usize = 12;
/// Stands for the length of a text that is not there.
const NONE: u32 = u32::MAX;
/// How the names of chunks of write sets begin. No database has a name with it.
const SPILL: &str = "spill-";

/// Files of one process. A failure is a file that is not there.
pub trait PageFiles: Debug + Send + Sync + 'static {
    /// The names of all files, with their bytes.
    fn list(&self) -> Vec<(String, u64)>;

    /// The content of a file.
    fn read(&self, name: &str) -> Option<Bytes>;

    /// Writes a file in place of one of its name; whether it is there now.
    fn write(&self, name: &str, content: &[u8]) -> bool;

    /// Deletes a file, if it is there.
    fn remove(&self, name: &str);
}

/// Where a client keeps pages on its machine.
#[derive(Clone, Debug)]
pub struct DiskTier {
    /// The files. No other client uses them.
    pub files: Arc<dyn PageFiles>,
    /// Their bytes, at most.
    pub bytes_max: u64,
}

/// A page as it was kept.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Kept {
    /// As the store has it.
    pub(crate) bytes: Bytes,
    pub(crate) version: UpdateVersion,
    /// When the store last showed this version as the newest to this process.
    pub(crate) seen: Option<Duration>,
}

#[derive(Debug)]
pub(crate) struct Disk {
    tier: DiskTier,
    database: String,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// When the store last showed what a file has as the newest to this process. Files of an
    /// earlier process come first in the order of use.
    pages: Recency<String, Option<Duration>>,
    /// Bytes of the chunks of write sets.
    spilled: BTreeMap<u128, u64>,
    spilled_bytes: u64,
}

impl Disk {
    /// The pages of a database in this tier, and what else is there.
    pub(crate) fn open(tier: DiskTier, database: &str) -> Self {
        let mut known = Known::default();
        let mut listed = tier.files.list();
        listed.sort_unstable();
        for (name, bytes) in listed {
            match name.starts_with(SPILL) {
                true => tier.files.remove(&name),
                false => known.pages.put(name, None, bytes),
            }
        }
        let disk = Disk {
            tier,
            database: database.to_owned(),
            known: Mutex::new(known),
        };
        disk.make_room(&mut disk.known());
        disk
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known
            .lock()
            .expect("nothing panics while it is locked")
    }

    fn name(&self, id: PageId) -> String {
        format!("{}-{:032x}", self.database, id.0)
    }

    pub(crate) fn get(&self, id: PageId) -> Option<Kept> {
        let name = self.name(id);
        let mut known = self.known();
        let seen = *known.pages.touch(&name)?;
        let file = self.tier.files.read(&name);
        let Some((version, bytes)) = file.and_then(|file| decode(&name, file)) else {
            known.pages.remove(&name);
            self.tier.files.remove(&name);
            return None;
        };
        Some(Kept {
            bytes,
            version,
            seen,
        })
    }

    /// Keeps a version that the store showed as the newest at `seen`. Without an ETag it cannot be
    /// compared with the store's.
    pub(crate) fn put(&self, id: PageId, bytes: &Bytes, version: &UpdateVersion, seen: Duration) {
        if version.e_tag.is_none() {
            return;
        }
        let name = self.name(id);
        let file = encode(&name, version, bytes);
        let mut known = self.known();
        let place = self.tier.bytes_max - known.spilled_bytes;
        if place < file.len() as u64 || !self.tier.files.write(&name, &file) {
            known.pages.remove(&name);
            self.tier.files.remove(&name);
            return;
        }
        known.pages.put(name, Some(seen), file.len() as u64);
        self.make_room(&mut known);
    }

    /// The store showed the version that is here as the newest at `now`.
    pub(crate) fn confirm(&self, id: PageId, now: Duration) {
        if let Some(seen) = self.known().pages.get_mut(&self.name(id)) {
            *seen = (*seen).max(Some(now));
        }
    }

    /// The store may have a newer version.
    pub(crate) fn doubt(&self, id: PageId) {
        if let Some(seen) = self.known().pages.get_mut(&self.name(id)) {
            *seen = None;
        }
    }

    /// Keeps a chunk of a write set; whether it is there now.
    pub(crate) fn put_spilled(&self, id: u128, content: &[u8]) -> bool {
        let mut known = self.known();
        let bytes = content.len() as u64;
        if self.tier.bytes_max < known.spilled_bytes + bytes {
            return false;
        }
        known.spilled.insert(id, bytes);
        known.spilled_bytes += bytes;
        self.make_room(&mut known);
        let is_there = self.tier.files.write(&spilled(id), content);
        drop(known);
        if !is_there {
            self.remove_spilled(id);
        }
        is_there
    }

    /// The content of a chunk of a write set, as it was kept.
    pub(crate) fn spilled(&self, id: u128) -> Option<Bytes> {
        self.tier.files.read(&spilled(id))
    }

    /// Deletes a chunk of a write set; whether it was there.
    pub(crate) fn remove_spilled(&self, id: u128) -> bool {
        let mut known = self.known();
        let removed = known.spilled.remove(&id);
        if let Some(bytes) = removed {
            known.spilled_bytes -= bytes;
            self.tier.files.remove(&spilled(id));
        }
        removed.is_some()
    }

    fn make_room(&self, known: &mut Known) {
        while self.tier.bytes_max < known.pages.bytes() + known.spilled_bytes
            && let Some((oldest, _)) = known.pages.remove_oldest()
        {
            self.tier.files.remove(&oldest);
        }
    }
}

fn spilled(id: u128) -> String {
    format!("{SPILL}{id:032x}")
}

/// The checksum of a file: of its name and of what follows.
fn checksum(name: &str, rest: &[u8]) -> u64 {
    let mut hash = Xxh3::new();
    hash.update(name.as_bytes());
    hash.update(&[0]);
    hash.update(rest);
    hash.digest()
}

fn encode(name: &str, version: &UpdateVersion, bytes: &Bytes) -> Bytes {
    let mut rest = BytesMut::with_capacity(bytes.len() + 100);
    for text in [&version.e_tag, &version.version] {
        match text {
            None => rest.put_u32_le(NONE),
            Some(text) => {
                rest.put_u32_le(u32::try_from(text.len()).expect("a header's text"));
                rest.put_slice(text.as_bytes());
            }
        }
    }
    rest.put_slice(bytes);
    let mut file = BytesMut::with_capacity(HEAD_BYTES + rest.len());
    file.put_slice(&MAGIC);
    file.put_u64_le(checksum(name, &rest));
    file.put_slice(&rest);
    file.freeze()
}

fn decode(name: &str, mut file: Bytes) -> Option<(UpdateVersion, Bytes)> {
    if file.len() < HEAD_BYTES || file.split_to(MAGIC.len()) != MAGIC[..] {
        return None;
    }
    if file.get_u64_le() != checksum(name, &file) {
        return None;
    }
    let mut text = || {
        let length = file.try_get_u32_le().ok()?;
        if length == NONE {
            return Some(None);
        }
        let length = usize::try_from(length).ok()?;
        let text = (length <= file.len()).then(|| file.split_to(length))?;
        Some(Some(String::from_utf8(text.into()).ok()?))
    };
    let (e_tag, version) = (text()?, text()?);
    Some((UpdateVersion { e_tag, version }, file))
}

#[cfg(test)]
pub(crate) mod tests;
