//! Transactions: reads through the buffer pool, writes kept until the commit.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use fader_blink::{Op, Payload, Pointer, Record, Slot, Stamp};
use fader_cloud::{Cloud, Error, ErrorKind, Result, Usage};
use futures_util::future::join_all;

use crate::catalogue::{Collection, CollectionId};
use crate::database::Database;
use crate::fresh::Fresh;
use crate::index::{self, INDEXED_KEY_BYTES_MAX};
use crate::level::Level;
use crate::reflect::{Way, reflect};
use crate::sealing::What;
use crate::store::{Held, Store, key};
use crate::tree::{AHEAD_MAX, Fence, Freshness};

/// Bytes of a key, at most; fewer in a collection with indexes.
pub const KEY_BYTES_MAX: usize = fader_blink::KEY_BYTES_MAX;
/// A record with more bytes is an object of its own.
pub const INLINE_BYTES: usize = 64 << 10;
/// Bytes of a record, at most.
pub const RECORD_BYTES_MAX: usize = 64 << 20;
/// Records of a transaction, at most.
pub const RECORDS_MAX: usize = 1 << 20;
/// Bytes of own records that no page is known to have, from which on a commit checkpoints.
const OWN_BYTES_MAX: usize = 16 << 20;
/// How often a read asks for a version that the session's marks accept.
const TRIES: u32 = 8;

/// A transaction. Dropping it aborts it: nothing was sent.
#[derive(Debug)]
pub struct Transaction {
    pub(crate) database: Database,
    level: Level,
    pub(crate) read: Store,
    commit: Store,
    scope: Cloud,
    writes: BTreeMap<CollectionId, Writes>,
    records: usize,
    /// What overlays the pages of trees whose reads are fresh.
    pub(crate) fresh: BTreeMap<CollectionId, Fresh>,
}

/// The write set in one collection.
#[derive(Debug)]
struct Writes {
    collection: Collection,
    by_key: BTreeMap<Bytes, Write>,
}

/// The last write of a key in a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Write {
    Insert(Bytes),
    Update(Bytes),
    Delete,
}

/// A transaction that was committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Its place in the order of all transactions: that of its first record.
    pub stamp: Stamp,
    /// What it used so far, by stage: `read` and `commit`.
    pub usage: BTreeMap<String, Usage>,
}

/// A record: its key and its bytes.
pub type KeyValue = (Bytes, Bytes);

impl Transaction {
    pub(crate) fn new(database: Database, level: Level) -> Self {
        let scope = database.0.store.0.scope("");
        Transaction {
            read: Store(scope.scope("read")),
            commit: Store(scope.scope("commit")),
            database,
            level,
            scope,
            writes: BTreeMap::new(),
            records: 0,
            fresh: BTreeMap::new(),
        }
    }

    /// Its level.
    pub fn level(&self) -> Level {
        self.level
    }

    /// What it used so far, by stage.
    pub fn usage(&self) -> BTreeMap<String, Usage> {
        self.scope.meter.within_usage()
    }

    /// Writes a record, whether its key is there or not.
    ///
    /// # Errors
    /// `NotFound`: no such collection. `Invalid`: a bound, or the collection's minimum level.
    pub async fn put(&mut self, collection: &str, key: &[u8], value: &[u8]) -> Result<()> {
        let write = Write::Insert(Bytes::copy_from_slice(value));
        self.write(collection, key, write).await
    }

    /// Writes a record if its key is there when the transaction takes effect.
    ///
    /// # Errors
    /// As [`Transaction::put`].
    pub async fn update(&mut self, collection: &str, key: &[u8], value: &[u8]) -> Result<()> {
        let write = Write::Update(Bytes::copy_from_slice(value));
        self.write(collection, key, write).await
    }

    /// Deletes a record, whether its key is there or not.
    ///
    /// # Errors
    /// As [`Transaction::put`].
    pub async fn delete(&mut self, collection: &str, key: &[u8]) -> Result<()> {
        self.write(collection, key, Write::Delete).await
    }

    async fn write(&mut self, collection: &str, key: &[u8], write: Write) -> Result<()> {
        let found = self.database.collection(collection).await?;
        let invalid = |context: String| Err(Error::new(ErrorKind::Invalid, context));
        if self.level < found.minimum {
            return invalid(format!(
                "collection {collection:?} takes writes at level {} or stronger, this \
                 transaction is {}",
                found.minimum, self.level
            ));
        }
        if found.is_curated && self.level == Level::Naive {
            return invalid(format!(
                "records of {collection:?} wait for approval: no naive writes"
            ));
        }
        let key_bytes_max = key_bytes_max(&found);
        if key_bytes_max < key.len() {
            return invalid(format!(
                "a key of {} bytes: at most {key_bytes_max} are possible",
                key.len()
            ));
        }
        if let Write::Insert(value) | Write::Update(value) = &write
            && RECORD_BYTES_MAX < value.len()
        {
            return invalid(format!(
                "a record of {} bytes: at most {RECORD_BYTES_MAX} are possible",
                value.len()
            ));
        }
        let writes = self.writes.entry(found.id).or_insert_with(|| Writes {
            collection: found,
            by_key: BTreeMap::new(),
        });
        let key = Bytes::copy_from_slice(key);
        let write = match (writes.by_key.get(&key), write) {
            // The transaction put it: it is there.
            (Some(Write::Insert(_)), Write::Update(value)) => Write::Insert(value),
            // The transaction deleted it: there is nothing to update.
            (Some(Write::Delete), Write::Update(_)) => Write::Delete,
            (_, write) => write,
        };
        let is_new = writes.by_key.insert(key, write).is_none();
        self.records += usize::from(is_new);
        if RECORDS_MAX < self.records {
            return invalid(format!("a transaction has at most {RECORDS_MAX} records"));
        }
        Ok(())
    }

    /// Reads a record. The transaction's own writes are seen.
    ///
    /// # Errors
    /// `NotFound`: no such collection. Of the cloud; `Malformed`: damaged pages.
    pub async fn get(&mut self, collection: &str, key: &[u8]) -> Result<Option<Bytes>> {
        let found = self.database.collection(collection).await?;
        self.record(&found, key).await
    }

    /// The record of a key as the transaction sees it.
    pub(crate) async fn record(
        &self,
        collection: &Collection,
        key: &[u8],
    ) -> Result<Option<Bytes>> {
        let own = self.own_write(collection.id, key);
        if let Some(Write::Insert(value)) = own {
            return Ok(Some(value.clone()));
        }
        if own == Some(&Write::Delete) {
            return Ok(None);
        }
        let updated = own.cloned();
        let held = self.leaf(collection, key).await?;
        let slot = self.slot(collection, &held, key);
        match (slot.visible(), updated) {
            (Some(_), Some(Write::Update(value))) => Ok(Some(value)),
            (Some(payload), _) => {
                let sealer = self.database.0.sealer(collection)?;
                self.read.payload(&sealer, payload).await.map(Some)
            }
            (None, _) => Ok(None),
        }
    }

    /// The records of keys from `from` on and below `until`, in the order of their keys, at most
    /// `limit`. The transaction's own writes are seen. The next part begins after the last key.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub async fn range(
        &mut self,
        collection: &str,
        from: &[u8],
        until: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<KeyValue>> {
        let found = self.database.collection(collection).await?;
        let all = self.payloads(&found, from, until, limit).await?;
        let sealer = self.database.0.sealer(&found)?;
        let values = all
            .iter()
            .map(|(_, payload)| self.read.payload(&sealer, payload));
        let values = join_all(values).await;
        let keys = all.iter().map(|(key, _)| key.clone());
        keys.zip(values)
            .map(|(key, value)| Ok((key, value?)))
            .collect()
    }

    /// As [`Transaction::range`], without reading the objects of records.
    pub(crate) async fn payloads(
        &self,
        found: &Collection,
        from: &[u8],
        until: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<(Bytes, Payload)>> {
        let mut all: Vec<(Bytes, Payload)> = Vec::new();
        let mut from = Bytes::copy_from_slice(from);
        let mut ahead = 0;
        while all.len() < limit && until.is_none_or(|until| &from[..] < until) {
            self.read_leaves_ahead(found, &from, ahead).await?;
            ahead = (2 * ahead).clamp(1, AHEAD_MAX);
            let held = self.leaf(found, &from).await?;
            let high = held.page.high().map(Bytes::copy_from_slice);
            let end = match (high.as_deref(), until) {
                (Some(high), Some(until)) => Some(high.min(until)),
                (high, until) => high.or(until),
            };
            all.extend(self.leaf_records(found, &held, &from, end));
            match high {
                Some(high) => from = high,
                None => break,
            }
        }
        all.truncate(limit);
        Ok(all)
    }

    /// Reads leaves of a scan before it comes to them: more of them the longer it is, and no more
    /// than a part of the pool. Those that are known to be fresh are not read.
    async fn read_leaves_ahead(&self, tree: &Collection, from: &[u8], count: usize) -> Result<()> {
        let inner = &self.database.0;
        let count = count.min(inner.options.pool_bytes / 4 / tree.leaf_bytes());
        if count == 0 {
            return Ok(());
        }
        let tree = inner.tree(&self.read, tree)?;
        let leaves = tree.known_leaves(from, count);
        // Once per batch: a leaf that is there already was read with its neighbours.
        if leaves
            .first()
            .is_some_and(|first| tree.has(*first, self.since()))
        {
            return Ok(());
        }
        tree.read_ahead(leaves, self.since()).await
    }

    /// The leaves of several keys, as far as pages in the pool lead to them, in parallel.
    pub(crate) async fn read_ahead<'k>(
        &self,
        tree: &Collection,
        mut keys: impl Iterator<Item = &'k [u8]>,
    ) -> Result<()> {
        let Some(first) = keys.next() else {
            return Ok(());
        };
        let inner = &self.database.0;
        let tree = inner.tree(&self.read, tree)?;
        tree.leaf(first, Freshness::Within(inner.options.ttl))
            .await?;
        let leaves = keys.flat_map(|key| tree.known_leaves(key, 0)).collect();
        tree.read_ahead(leaves, self.since()).await
    }

    /// Since when the store must have shown a version as the newest.
    fn since(&self) -> Duration {
        let inner = &self.database.0;
        let now = inner.store.0.runtime.clock.monotonic();
        now.saturating_sub(inner.options.ttl)
    }

    /// What the transaction sees in a part of a leaf.
    fn leaf_records(
        &self,
        collection: &Collection,
        held: &Held,
        from: &[u8],
        until: Option<&[u8]>,
    ) -> Vec<(Bytes, Payload)> {
        let is_before_end = |key: &[u8]| until.is_none_or(|until| key < until);
        let mut keys: Vec<Bytes> = held
            .page
            .slots(from)
            .map(|(key, _)| Bytes::from(key.to_vec()))
            .take_while(|key| is_before_end(key))
            .collect();
        if Level::Monotonic <= self.level {
            let session = self.database.0.session();
            let own = session.own_in(collection.id, from, until);
            keys.extend(own.map(|record| record.key.clone()));
        }
        if let Some(fresh) = self.fresh.get(&collection.id) {
            keys.extend(fresh.records(from, until).map(|record| record.key.clone()));
        }
        if let Some(writes) = self.writes.get(&collection.id) {
            let own = writes.by_key.range(Bytes::copy_from_slice(from)..);
            let own = own.map(|(key, _)| key).take_while(|key| is_before_end(key));
            keys.extend(own.cloned());
        }
        keys.sort_unstable();
        keys.dedup();
        let seen = keys.into_iter().filter_map(|key| {
            let slot = self.slot(collection, held, &key);
            let payload = match (self.own_write(collection.id, &key), slot.visible()) {
                (Some(Write::Insert(value)), _) | (Some(Write::Update(value)), Some(_)) => {
                    Payload::Inline(value.clone())
                }
                (Some(Write::Delete | Write::Update(_)), _) | (None, None) => return None,
                (None, Some(payload)) => payload.clone(),
            };
            Some((key, payload))
        });
        seen.collect()
    }

    /// The records that the transaction put or updated in a collection.
    pub(crate) fn own_records(&self, id: CollectionId) -> impl Iterator<Item = (&Bytes, &Bytes)> {
        let writes = self.writes.get(&id).into_iter();
        let writes = writes.flat_map(|writes| &writes.by_key);
        writes.filter_map(|(key, write)| match write {
            Write::Insert(value) | Write::Update(value) => Some((key, value)),
            Write::Delete => None,
        })
    }

    fn own_write(&self, collection: CollectionId, key: &[u8]) -> Option<&Write> {
        self.writes.get(&collection)?.by_key.get(key)
    }

    /// The leaf of a key, no older than the level allows.
    async fn leaf(&self, collection: &Collection, key: &[u8]) -> Result<Held> {
        let inner = &self.database.0;
        let tree = inner.tree(&self.read, collection)?;
        let mut age = inner.options.ttl;
        if let Some(fresh) = self.fresh.get(&collection.id) {
            // The pages are newer than what was pending.
            let now = inner.store.0.runtime.clock.monotonic();
            age = age.min(now.saturating_sub(fresh.since));
        }
        let mut freshness = Freshness::Within(age);
        for tries in 1..=TRIES {
            let found = tree.leaf(key, freshness).await?;
            if self.level < Level::Monotonic {
                return Ok(found.held);
            }
            if inner.session().take(collection.id, &found.held.page, key) {
                return Ok(found.held);
            }
            if freshness == Freshness::Now {
                self.read.pause(tries).await;
            }
            freshness = Freshness::Now;
        }
        let context = "the store shows only versions of a page older than one that was read";
        Err(Error::new(
            ErrorKind::Unavailable { retry_after: None },
            context,
        ))
    }

    /// A key's slot in its leaf, with the session's own pending records from Monotonic on.
    fn slot(&self, collection: &Collection, held: &Held, key: &[u8]) -> Slot {
        let mut session = self.database.0.session();
        session.observe_slot(&held.page, key);
        let mut end = key.to_vec();
        end.push(0);
        let fresh = self.fresh.get(&collection.id).into_iter();
        let fresh = fresh.flat_map(|fresh| fresh.records(key, Some(&end)));
        if self.level < Level::Monotonic {
            return held.page.overlay(key, fresh);
        }
        let own = session.own_in(collection.id, key, Some(&end));
        held.page.overlay(key, own.chain(fresh))
    }

    /// Commits. After an `Ambiguous` failure the transaction may take effect, at Atomic whole;
    /// after any other it does not, except at Naive, where a part may.
    ///
    /// # Errors
    /// `Invalid`: the client's clock is off, or a bound. Of the cloud.
    pub async fn commit(mut self) -> Result<Committed> {
        let writes = std::mem::take(&mut self.writes);
        let mut stamp = Stamp::ZERO;
        if !writes.is_empty() {
            self.database.check_clock(&self.commit).await?;
            let objects = self.put_objects(&writes).await?;
            let writes = self.current(writes).await?;
            // The stamp is taken at the send: what was read before it is older.
            stamp = Stamp {
                time: self.database.0.tick()?,
                client: self.database.0.incarnation,
                sequence: 0,
            };
            let parts = records(writes, &objects, stamp);
            self.send(parts).await?;
        }
        let usage = self.usage();
        Ok(Committed { stamp, usage })
    }

    /// The write set in collections as the catalogue has them at the commit.
    async fn current(
        &self,
        writes: BTreeMap<CollectionId, Writes>,
    ) -> Result<BTreeMap<CollectionId, Writes>> {
        let inner = &self.database.0;
        inner.refresh_catalogue().await?;
        let known = inner.known();
        let current = writes.into_iter().map(|(id, writes)| {
            let Some(collection) = known.catalogue.by_id(id).cloned() else {
                let context = "a collection of the transaction was dropped";
                return Err(Error::new(ErrorKind::NotFound, context));
            };
            let max = key_bytes_max(&collection);
            if writes.by_key.keys().any(|key| max < key.len()) {
                let context = format!("keys in a collection with indexes have up to {max} bytes");
                return Err(Error::new(ErrorKind::Invalid, context));
            }
            let by_key = writes.by_key;
            Ok((id, Writes { collection, by_key }))
        });
        current.collect()
    }

    /// Aborts: nothing was sent.
    pub fn abort(self) {}

    /// Records over a page's bound become objects before anything points to them.
    async fn put_objects(
        &self,
        writes: &BTreeMap<CollectionId, Writes>,
    ) -> Result<BTreeMap<(CollectionId, Bytes), Pointer>> {
        let runtime = &self.commit.0.runtime;
        let large = writes.iter().flat_map(|(id, writes)| {
            let by_key = writes.by_key.iter();
            by_key.filter_map(|(key, write)| match write {
                Write::Insert(value) | Write::Update(value) if INLINE_BYTES < value.len() => {
                    let sealer = self.database.0.sealer(&writes.collection);
                    Some(((*id, key.clone()), sealer, value.clone()))
                }
                _ => None,
            })
        });
        let puts = large.map(async |(at, sealer, value)| {
            let id = runtime.random_id();
            let pointer = Pointer::new(id, &value);
            let sealed = sealer?.seal(&What::Value(id), value, &*runtime.entropy)?;
            self.commit.put_surely(&key("values", id), sealed).await?;
            Ok((at, pointer))
        });
        join_all(puts).await.into_iter().collect()
    }

    async fn send(&self, parts: Vec<(Collection, Vec<Record>)>) -> Result<()> {
        let inner = &self.database.0;
        if self.level == Level::Naive {
            return self.overwrite(parts).await;
        }
        let parts = inner.outgoing(parts)?;
        let pending = inner.pending(&self.commit);
        match self.level {
            Level::Atomic => pending.commit(&parts).await?,
            _ => pending.send(&parts).await?,
        }
        // What waits for approval is not there yet.
        let parts = parts
            .iter()
            .filter(|(collection, _, _)| !collection.is_curated);
        for (collection, _, records) in parts.clone() {
            inner.session().wrote(collection.id, records);
        }
        let collections = parts.map(|(collection, _, _)| collection.id);
        match self.level {
            Level::Atomic => self.database.finish_later(),
            _ => self.database.checkpoint_later(collections.collect()),
        }
        let own_bytes = inner.session().own_bytes();
        if OWN_BYTES_MAX < own_bytes {
            self.database.settle().await?;
        }
        Ok(())
    }

    /// Writes the pages as they are: what other clients wrote meanwhile is lost.
    async fn overwrite(&self, parts: Vec<(Collection, Vec<Record>)>) -> Result<()> {
        for (collection, records) in parts {
            let tree = self.database.0.tree(&self.commit, &collection)?;
            let way = Way {
                collection: &collection,
                fence: Fence::Overwrite,
                until: Duration::MAX,
            };
            let done = reflect(&tree, way, records).await?;
            if !done.is_done {
                let context = "a page may not have been written";
                return Err(Error::new(ErrorKind::Ambiguous, context));
            }
        }
        Ok(())
    }
}

/// Bytes of a key, at most.
fn key_bytes_max(collection: &Collection) -> usize {
    match collection.indexes.is_empty() {
        true => KEY_BYTES_MAX,
        false => INDEXED_KEY_BYTES_MAX,
    }
}

/// The records of a write set, numbered in the order of collections and keys; those of a collection
/// are followed by the entries that they assert in its indexes.
fn records(
    writes: BTreeMap<CollectionId, Writes>,
    objects: &BTreeMap<(CollectionId, Bytes), Pointer>,
    first: Stamp,
) -> Vec<(Collection, Vec<Record>)> {
    let mut next = first;
    let mut stamp = || {
        let stamp = next;
        next.sequence += 1;
        stamp
    };
    let mut parts = Vec::new();
    for (id, writes) in writes {
        let mut records = Vec::with_capacity(writes.by_key.len());
        let mut entries: BTreeMap<&str, Vec<Record>> = BTreeMap::new();
        for (key, write) in writes.by_key {
            if let Write::Insert(value) | Write::Update(value) = &write {
                for (name, index) in &writes.collection.indexes {
                    let asserted = index::entries(&index.field, &key, value).into_iter();
                    let asserted = asserted.map(|entry| index::assertion(entry, stamp()));
                    entries.entry(name).or_default().extend(asserted);
                }
            }
            let object = objects.get(&(id, key.clone())).copied();
            let payload = |value| object.map_or(Payload::Inline(value), Payload::Object);
            let op = match write {
                Write::Insert(value) => Op::Insert(payload(value)),
                Write::Update(value) => Op::Update(payload(value)),
                Write::Delete => Op::Delete,
            };
            let stamp = stamp();
            records.push(Record { key, stamp, op });
        }
        let of_index = |(name, records): (&str, Vec<Record>)| {
            (writes.collection.indexes[name].entries.clone(), records)
        };
        let entries: Vec<_> = entries.into_iter().map(of_index).collect();
        parts.push((writes.collection, records));
        parts.extend(
            entries
                .into_iter()
                .filter(|(_, records)| !records.is_empty()),
        );
    }
    parts
}
