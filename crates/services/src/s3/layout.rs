//! Where the rows of a bucket lie.
//!
//! ```text
//! bucket := 'm'                              settings; empty until the bucket is made
//!         | 'J' key                          the current version, if it is an object
//!         | 'V' text(key) age:u64be          other versions, the newest first
//!         | 'N' key                          the number of the null version that is in 'V'
//!         | 'T' attempt:u128be               the bytes of a small object, or the blocks of another
//!         | 'U' text(key) upload:u128be      an open upload
//!         | 'L' upload:u128be                what came of a completed upload
//!         | 'P' upload:u128be part:u32be     a part
//!         | 'f' begun:(u64be u64be) attempt:u128be    a fence
//!         | 'H'                              the note of fences
//!         | 'C'                              upkeep
//!         | 'A' key                          the register of eventual puts (tentative.rs)
//! system := 'j' due:u64be collection:u64be   work that a bucket has to do then
//!         | 'O' collection:u64be kind:u8 id:u128be    garbage of a bucket: an attempt (0) or an
//!                                                     upload (1); that of a chain is one range
//! age    := 2^64 - 1 - number                numbers of versions of a key grow
//! ```
//!
//! Invariants:
//! - BLAYOUT-1 a row in 'J' is the newest version of its key. Without one the newest row in 'V' is
//!   a delete marker: a list of objects reads no marker and no older version.
//! - BLAYOUT-2 'T' has a row of each attempt that a version, a part or garbage names, and of no
//!   other.
//! - BLAYOUT-3 an attempt is named once: by one version, one part or one garbage row.

use bytes::Bytes;
use fader_chain::{DecodeError, EntryId, Reader};

use crate::forward::wire::Wire;
use crate::key::KeyRange;
use crate::s3::rows::GarbageId;
use crate::{CollectionId, KeyBuilder, SYSTEM, Table, split_text};

const VERSION: u8 = 1;

/// The keys of one bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keys(pub(crate) CollectionId);

impl Keys {
    fn table(self, table: Table) -> KeyBuilder {
        KeyBuilder::new(self.0, table)
    }

    pub(crate) fn all(self, table: Table) -> KeyRange {
        let keys = self.table(table);
        keys.build_range()
    }

    pub(crate) fn current(self, key: &str) -> Bytes {
        self.table(Table::Current).raw(key.as_bytes()).build()
    }

    /// Current versions of keys that begin with `prefix`, from the key `from` on, if that is later.
    pub(crate) fn current_from(self, prefix: &[u8], from: &[u8]) -> KeyRange {
        let end = self.table(Table::Current).raw(prefix).build_end();
        let start = self.table(Table::Current).raw(prefix.max(from));
        let start = start.build();
        KeyRange { start, end }
    }

    pub(crate) fn version(self, key: &str, number: u64) -> Bytes {
        let keys = self.table(Table::Versions).text(key.as_bytes());
        keys.raw(&(!number).to_be_bytes()).build()
    }

    pub(crate) fn versions(self, key: &str) -> KeyRange {
        let keys = self.table(Table::Versions).text(key.as_bytes());
        keys.build_range()
    }

    /// Versions of keys that begin with `prefix`, from the key `from` on, if that is later.
    pub(crate) fn versions_from(self, prefix: &[u8], from: &[u8]) -> KeyRange {
        let end = self.table(Table::Versions).text_prefix(prefix).build_end();
        let start = self.table(Table::Versions).text_prefix(prefix.max(from));
        let start = start.build();
        KeyRange { start, end }
    }

    pub(crate) fn null(self, key: &str) -> Bytes {
        self.table(Table::NullVersions).raw(key.as_bytes()).build()
    }

    pub(crate) fn content(self, attempt: u128) -> Bytes {
        self.table(Table::Contents)
            .raw(&attempt.to_be_bytes())
            .build()
    }

    pub(crate) fn upload(self, key: &str, upload: u128) -> Bytes {
        let keys = self.table(Table::Uploads).text(key.as_bytes());
        keys.raw(&upload.to_be_bytes()).build()
    }

    /// Open uploads of keys that begin with `prefix`, from the key `from` on, if that is later.
    pub(crate) fn uploads_from(self, prefix: &[u8], from: &[u8]) -> KeyRange {
        let end = self.table(Table::Uploads).text_prefix(prefix).build_end();
        let start = self.table(Table::Uploads).text_prefix(prefix.max(from));
        let start = start.build();
        KeyRange { start, end }
    }

    pub(crate) fn completed(self, upload: u128) -> Bytes {
        self.table(Table::CompletedUploads)
            .raw(&upload.to_be_bytes())
            .build()
    }

    pub(crate) fn part(self, upload: u128, number: u32) -> Bytes {
        let keys = self.table(Table::Parts).raw(&upload.to_be_bytes());
        keys.raw(&number.to_be_bytes()).build()
    }

    /// The parts of an upload from this number on.
    pub(crate) fn parts_from(self, upload: u128, number: u32) -> KeyRange {
        let keys = self.table(Table::Parts).raw(&upload.to_be_bytes());
        KeyRange {
            start: self.part(upload, number),
            end: keys.build_end(),
        }
    }

    fn garbage_keys(self) -> KeyBuilder {
        let keys = KeyBuilder::new(SYSTEM, Table::BucketGarbage);
        keys.raw(&self.0.0.to_be_bytes())
    }

    pub(crate) fn garbage(self, id: GarbageId) -> Bytes {
        let (kind, id) = match id {
            GarbageId::Attempt(id) => (0, id),
            GarbageId::Upload(id) => (1, id),
        };
        let keys = self.garbage_keys().raw(&[kind]);
        keys.raw(&id.to_be_bytes()).build()
    }

    /// The garbage of the bucket.
    pub(crate) fn all_garbage(self) -> KeyRange {
        let keys = self.garbage_keys();
        keys.build_range()
    }

    pub(crate) fn fence(self, begun: EntryId, attempt: u128) -> Bytes {
        let keys = self.fences(begun).raw(&attempt.to_be_bytes());
        keys.build()
    }

    fn fences(self, begun: EntryId) -> KeyBuilder {
        let keys = self.table(Table::Fences).raw(&begun.epoch.to_be_bytes());
        keys.raw(&begun.index.to_be_bytes())
    }

    /// Fences of attempts that began at or below the note.
    pub(crate) fn fences_behind(self, note: EntryId) -> KeyRange {
        KeyRange {
            start: self.table(Table::Fences).build(),
            end: self.fences(note).build_end(),
        }
    }

    pub(crate) fn note(self) -> Bytes {
        self.table(Table::FenceNote).build()
    }

    pub(crate) fn put_register(self, key: &str) -> Bytes {
        let keys = self.table(Table::PutRegisters);
        keys.raw(key.as_bytes()).build()
    }

    pub(crate) fn upkeep(self) -> Bytes {
        self.table(Table::BucketUpkeep).build()
    }
}

/// The key of the row of a current version.
pub(crate) fn key_of_current(row: &[u8]) -> Result<&[u8], DecodeError> {
    row.get(9..)
        .ok_or_else(|| DecodeError::new("a row of a bucket"))
}

/// The key, and what follows it, of a row of versions or of uploads.
pub(crate) fn split_key(row: &[u8]) -> Result<(Vec<u8>, &[u8]), DecodeError> {
    key_of_current(row).and_then(|rest| {
        split_text(rest).ok_or_else(|| DecodeError::new("the key in a row of a bucket"))
    })
}

/// A key as a text.
pub(crate) fn text(key: &[u8]) -> Result<String, DecodeError> {
    let text = std::str::from_utf8(key).map_err(|_| DecodeError::new("the key of an object"));
    text.map(str::to_owned)
}

/// The collection and the key of a register of eventual puts.
pub(crate) fn split_put_register(row: &[u8]) -> Result<(CollectionId, String), DecodeError> {
    let collection = row.first_chunk::<8>();
    let collection = collection.ok_or_else(|| DecodeError::new("a row of a bucket"))?;
    let key = text(key_of_current(row)?)?;
    Ok((CollectionId(u64::from_be_bytes(*collection)), key))
}

/// The number at the end of a row of parts.
pub(crate) fn part_of(row: &[u8]) -> Result<u32, DecodeError> {
    let number = row.last_chunk::<4>();
    let number = number.ok_or_else(|| DecodeError::new("the number of a part"))?;
    Ok(u32::from_be_bytes(*number))
}

/// The id at the end of a row.
pub(crate) fn id_of(row: &[u8]) -> Result<u128, DecodeError> {
    let id = row.last_chunk::<16>();
    let id = id.ok_or_else(|| DecodeError::new("the id in a row of a bucket"))?;
    Ok(u128::from_be_bytes(*id))
}

/// The garbage of all buckets of a chain.
pub(crate) fn garbage_of_chain() -> KeyRange {
    let keys = KeyBuilder::new(SYSTEM, Table::BucketGarbage);
    keys.build_range()
}

/// What a row of garbage is about, and whose it is.
pub(crate) fn garbage_of(row: &[u8]) -> Result<(CollectionId, GarbageId), DecodeError> {
    let wrong = || DecodeError::new("a row of garbage");
    let id = id_of(row)?;
    let collection = row.get(9..).and_then(|rest| rest.first_chunk::<8>());
    let collection = u64::from_be_bytes(*collection.ok_or_else(wrong)?);
    let id = match row.get(17) {
        Some(0) => GarbageId::Attempt(id),
        Some(1) => GarbageId::Upload(id),
        _ => return Err(wrong()),
    };
    Ok((CollectionId(collection), id))
}

/// The least bytes that are greater than all that begin with these.
pub(crate) fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = prefix.to_vec();
    while let Some(last) = bytes.pop() {
        if last < 0xff {
            bytes.push(last + 1);
            return Some(bytes);
        }
    }
    None
}

/// The work of a bucket, at its time.
pub(crate) fn chore_key(due_ms: u64, collection: CollectionId) -> Bytes {
    KeyBuilder::new(SYSTEM, Table::BucketChores)
        .raw(&due_ms.to_be_bytes())
        .raw(&collection.0.to_be_bytes())
        .build()
}

/// Work that is due at `now_ms`.
pub(crate) fn chores(now_ms: u64) -> KeyRange {
    let chores = KeyBuilder::new(SYSTEM, Table::BucketChores);
    let end = chores.clone().raw(&now_ms.saturating_add(1).to_be_bytes());
    KeyRange {
        start: chores.build(),
        end: end.build(),
    }
}

/// The collection of a row of work.
pub(crate) fn chore_of(row: &[u8]) -> Result<CollectionId, DecodeError> {
    let id = row.last_chunk::<8>();
    let id = id.ok_or_else(|| DecodeError::new("the work of a bucket"))?;
    Ok(CollectionId(u64::from_be_bytes(*id)))
}

/// Reads the value of a row.
pub(crate) fn decode<T: Wire>(value: Bytes) -> Result<T, DecodeError> {
    let mut reader = Reader::new(value);
    if reader.byte()? != VERSION {
        return Err(DecodeError::new("the version of a row of a bucket"));
    }
    let it = T::read(&mut reader)?;
    reader.end()?;
    Ok(it)
}

/// What [`decode`] reads.
pub(crate) fn encode(it: &dyn Wire) -> Bytes {
    let mut out = vec![VERSION];
    it.put(&mut out);
    Bytes::from(out)
}
