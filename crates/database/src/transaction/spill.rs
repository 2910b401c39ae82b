//! Values of a write set that memory has no place for.
//!
//! A write set has its keys in memory, and values up to a part of the pool's bytes. Beyond that all
//! values go out. A large one goes to the object that its record will point to. Others go, in the
//! order of their keys, in chunks: to files of the disk tier, or to objects where that has no
//! place. The commit reads chunks back one after the other, and sends records in parts.
//!
//! Invariants:
//! - SPILL-1 between two calls a write set has at most the pool's bytes of values in memory. Chunks
//!   that were read back count; one chunk is there in any case.
//! - SPILL-2 a chunk leaves memory sealed, if its collection is encrypted.
//! - SPILL-3 what no record points to is deleted when the transaction ends. After a crash files go
//!   when the tier is opened again (DISK-4), and objects with a vacuum.
//!
//! Deliberately absent: keys out of memory, since a transaction has a bounded number. Sorting: each
//! spill is in order, and the commit reads all of them side by side.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard};

use bytes::{Bytes, BytesMut};
use fader_blink::{Payload, Pointer};
use fader_cloud::{Error, ErrorKind, Result};
use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt, TryStreamExt};

use super::INLINE_BYTES;
use crate::catalogue::CollectionId;
use crate::database::Database;
use crate::recency::Recency;
use crate::sealing::{Sealer, What};
use crate::store::{Store, key};

/// Chunks and large values that are written at once.
const AT_ONCE: usize = 4;

/// A value of a write set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    /// In memory.
    Here(Bytes),
    /// In the object that its record will point to.
    Object(Pointer),
    /// In a chunk.
    Spilled(Place),
}

/// Where a value is in a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    chunk: u32,
    at: u32,
    size: u32,
}

impl Value {
    /// Its bytes.
    pub(super) fn size(&self) -> u64 {
        match self {
            Value::Here(bytes) => bytes.len() as u64,
            Value::Object(pointer) => pointer.size,
            Value::Spilled(place) => u64::from(place.size),
        }
    }

    /// Its bytes in memory.
    pub(super) fn held(&self) -> usize {
        match self {
            Value::Here(bytes) => bytes.len(),
            Value::Object(_) | Value::Spilled(_) => 0,
        }
    }
}

/// Parts of the pool's bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Of values that are held.
    pub(super) held: usize,
    /// Of chunks that were read back.
    pub(super) read: usize,
    /// Of values in one part of a commit.
    pub(super) part: usize,
    /// Of a chunk, before its last value.
    chunk: usize,
}

impl Bounds {
    pub(super) fn new(pool_bytes: usize) -> Self {
        Bounds {
            held: pool_bytes / 2,
            read: pool_bytes / 4,
            part: pool_bytes / 8,
            chunk: pool_bytes / 128,
        }
    }
}

/// Values of one collection, one behind the other.
#[derive(Debug)]
struct Chunk {
    tree: CollectionId,
    sealer: Sealer,
    pointer: Pointer,
    is_file: bool,
}

/// Values with their keys, on their way out.
#[derive(Debug)]
struct Planned {
    id: u128,
    is_large: bool,
    values: Vec<(Bytes, Bytes)>,
}

/// What a transaction has out of memory.
#[derive(Debug)]
pub(super) struct Spill {
    database: Database,
    store: Store,
    bounds: Bounds,
    chunks: Vec<Chunk>,
    /// Ids of chunks, and of objects that no record points to.
    own: BTreeSet<u128>,
    read: Mutex<Recency<u32, Bytes>>,
}

impl Spill {
    pub(super) fn new(database: &Database, store: &Store) -> Self {
        Spill {
            bounds: Bounds::new(database.0.options.pool_bytes),
            database: database.clone(),
            store: store.clone(),
            chunks: Vec::new(),
            own: BTreeSet::new(),
            read: Mutex::default(),
        }
    }

    pub(super) fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// Whether anything went out of memory.
    pub(super) fn is_used(&self) -> bool {
        !self.chunks.is_empty() || !self.own.is_empty()
    }

    /// Bytes of chunks that were read back.
    #[cfg(test)]
    pub(super) fn read_bytes(&self) -> usize {
        self.read().bytes() as usize
    }

    fn read(&self) -> MutexGuard<'_, Recency<u32, Bytes>> {
        self.read.lock().expect("nothing panics while it is locked")
    }

    /// Writes values of a collection, in the order of their keys; where each is then.
    ///
    /// # Errors
    /// Of the store. `Denied`: the collection's key is not there.
    pub(super) async fn write(
        &mut self,
        tree: CollectionId,
        values: Vec<(Bytes, Bytes)>,
        sealer: &Sealer,
    ) -> Result<Vec<(Bytes, Value)>> {
        let random = || self.store.0.runtime.random_id();
        let planned = plan(values, self.bounds.chunk, random);
        // Before they are written: this call may be given up.
        self.own.extend(planned.iter().map(|planned| planned.id));
        let puts = planned.iter().map(|one| self.put(tree, sealer, one));
        let puts = stream::iter(puts.collect::<Vec<_>>()).buffered(AT_ONCE);
        let written: Vec<(Pointer, bool)> = puts.try_collect().await?;
        let mut places = Vec::new();
        for (planned, (pointer, is_file)) in planned.into_iter().zip(written) {
            if planned.is_large {
                let keys = planned.values.into_iter().map(|(key, _)| key);
                places.extend(keys.map(|key| (key, Value::Object(pointer))));
                continue;
            }
            let chunk = u32::try_from(self.chunks.len()).expect("a record has one at most");
            let mut at = 0;
            for (key, value) in planned.values {
                let size = u32::try_from(value.len()).expect("no large value");
                places.push((key, Value::Spilled(Place { chunk, at, size })));
                at += size;
            }
            self.chunks.push(Chunk {
                tree,
                sealer: sealer.clone(),
                pointer,
                is_file,
            });
        }
        Ok(places)
    }

    /// Writes a chunk or a large value; whether it is in a file.
    async fn put(
        &self,
        tree: CollectionId,
        sealer: &Sealer,
        planned: &Planned,
    ) -> Result<(Pointer, bool)> {
        let id = planned.id;
        let bytes = match &planned.values[..] {
            [(_, value)] => value.clone(),
            values => {
                let mut bytes = BytesMut::new();
                values.iter().for_each(|(_, value)| bytes.extend(value));
                bytes.freeze()
            }
        };
        let pointer = Pointer::new(id, &bytes);
        let entropy = &*self.store.0.runtime.entropy;
        let sealed = sealer.seal(&What::Value(id), bytes, entropy)?;
        let disk = self.database.0.disk.as_ref().filter(|_| !planned.is_large);
        if disk.is_some_and(|disk| disk.put_spilled(id, &sealed)) {
            return Ok((pointer, true));
        }
        let store = self.store.of_tree(tree);
        store.put_surely(&key("values", id), sealed).await?;
        Ok((pointer, false))
    }

    /// Reads a value back.
    ///
    /// # Errors
    /// `Malformed`: its file or object is gone or damaged. Of the store.
    pub(super) async fn value(&self, place: &Place) -> Result<Bytes> {
        let known = self.read().touch(&place.chunk).cloned();
        let bytes = match known {
            Some(bytes) => bytes,
            None => {
                let bytes = self.chunk(&self.chunks[place.chunk as usize]).await?;
                self.keep(place.chunk, &bytes);
                bytes
            }
        };
        let (from, size) = (place.at as usize, place.size as usize);
        // A slice would keep the chunk in memory.
        Ok(Bytes::copy_from_slice(&bytes[from..from + size]))
    }

    fn keep(&self, chunk: u32, bytes: &Bytes) {
        let mut read = self.read();
        read.put(chunk, bytes.clone(), bytes.len() as u64);
        while (self.bounds.read as u64) < read.bytes() && read.len() > 1 {
            read.remove_oldest();
        }
    }

    async fn chunk(&self, chunk: &Chunk) -> Result<Bytes> {
        let Chunk {
            tree,
            sealer,
            pointer,
            is_file,
        } = chunk;
        if !is_file {
            let object = Payload::Object(*pointer);
            return self.store.payload(*tree, sealer, &object).await;
        }
        let lost = || {
            let context = "the disk tier lost values of the transaction: begin it again";
            Error::new(ErrorKind::Malformed, context)
        };
        let disk = self.database.0.disk.as_ref().ok_or_else(lost)?;
        let sealed = disk.spilled(pointer.object).ok_or_else(lost)?;
        let opened = sealer.open(&What::Value(pointer.object), sealed);
        let opened =
            opened.map_err(|error| Error::caused(error.kind, "a file of the disk tier", error))?;
        match pointer.matches(&opened) {
            true => Ok(opened),
            false => Err(lost()),
        }
    }

    /// Leaves an object to the record that points to it from now on.
    pub(super) fn leave(&mut self, pointer: &Pointer) {
        self.own.remove(&pointer.object);
    }

    /// Deletes files, and says which objects are to be deleted.
    fn left(&mut self) -> Vec<u128> {
        let disk = self.database.0.disk.as_ref();
        let own = std::mem::take(&mut self.own).into_iter();
        own.filter(|id| !disk.is_some_and(|disk| disk.remove_spilled(*id)))
            .collect()
    }

    /// Deletes all that no record points to. An object that stays goes with a vacuum.
    pub(super) async fn clear(&mut self) {
        let left = self.left();
        delete(&self.store, left).await;
    }
}

impl Drop for Spill {
    fn drop(&mut self) {
        let left = self.left();
        if !left.is_empty() {
            let store = self.store.clone();
            let work = async move { delete(&store, left).await };
            drop(self.store.0.runtime.spawn(work));
        }
    }
}

async fn delete(store: &Store, objects: Vec<u128>) {
    let keys: Vec<_> = objects.into_iter().map(|id| key("values", id)).collect();
    for outcome in join_all(keys.iter().map(|key| store.delete(key))).await {
        // What stays is garbage, and no reason to fail.
        drop(outcome);
    }
}

/// Large values alone; others in chunks that are full with their last value.
fn plan(
    values: Vec<(Bytes, Bytes)>,
    chunk_bytes: usize,
    mut random: impl FnMut() -> u128,
) -> Vec<Planned> {
    let mut planned = Vec::new();
    let mut plan = |is_large, values| {
        let id = random();
        planned.push(Planned {
            id,
            is_large,
            values,
        });
    };
    let (mut chunk, mut bytes) = (Vec::new(), 0);
    for (key, value) in values {
        if INLINE_BYTES < value.len() {
            plan(true, vec![(key, value)]);
            continue;
        }
        bytes += value.len();
        chunk.push((key, value));
        if chunk_bytes <= bytes {
            plan(false, std::mem::take(&mut chunk));
            bytes = 0;
        }
    }
    if !chunk.is_empty() {
        plan(false, chunk);
    }
    planned
}

#[cfg(test)]
mod tests;
