//! Transactions: reads through the buffer pool, writes kept until the commit.

mod commit;
mod scan;
mod spill;

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use fader_blink::{PageId, Payload, PayloadRef, Slot, Stamp};
use fader_cloud::{Cloud, Error, ErrorKind, Result, Usage};

use self::scan::Scan;
use self::spill::{Spill, Value};
use crate::catalogue::{Collection, CollectionId, Index};
use crate::database::Database;
use crate::fresh::Fresh;
use crate::index::{self, INDEXED_KEY_BYTES_MAX};
use crate::level::Level;
use crate::pool::Times;
use crate::store::{Held, Store};
use crate::tree::Freshness;

/// Bytes of a key, at most; fewer in a collection with indexes.
pub const KEY_BYTES_MAX: usize = fader_blink::KEY_BYTES_MAX;
/// A record with more bytes is an object of its own.
pub const INLINE_BYTES: usize = 64 << 10;
/// Bytes of a record, at most.
pub const RECORD_BYTES_MAX: usize = 64 << 20;
/// Records of a transaction, at most.
pub const RECORDS_MAX: usize = 1 << 20;
/// How often a read asks for a version that the session's marks accept.
const TRIES: u32 = 8;

/// A transaction. Dropping it aborts it: nothing takes effect.
#[derive(Debug)]
pub struct Transaction {
    pub(crate) database: Database,
    level: Level,
    pub(crate) read: Store,
    commit: Store,
    scope: Cloud,
    writes: BTreeMap<CollectionId, Writes>,
    records: usize,
    /// Bytes of values in memory.
    held: usize,
    spill: Spill,
    /// What overlays the pages of trees whose reads are fresh.
    pub(crate) fresh: BTreeMap<CollectionId, Fresh>,
    /// The last range that was read: the next one may go on behind it.
    scan: Option<Scan>,
    /// The greatest stamp of a point read: the session's clock has passed it.
    observed: Option<Stamp>,
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
    Insert(Value),
    Update(Value),
    Delete,
}

impl Write {
    fn value(&self) -> Option<&Value> {
        match self {
            Write::Insert(value) | Write::Update(value) => Some(value),
            Write::Delete => None,
        }
    }

    fn value_mut(&mut self) -> Option<&mut Value> {
        match self {
            Write::Insert(value) | Write::Update(value) => Some(value),
            Write::Delete => None,
        }
    }

    /// Bytes of its value in memory.
    fn held(&self) -> usize {
        self.value().map_or(0, Value::held)
    }
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
        let commit = Store(scope.scope("commit"));
        Transaction {
            read: Store(scope.scope("read")),
            spill: Spill::new(&database, &commit),
            commit,
            database,
            level,
            scope,
            writes: BTreeMap::new(),
            records: 0,
            held: 0,
            fresh: BTreeMap::new(),
            scan: None,
            observed: None,
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

    /// Writes a record, whether its key is there or not. When values have more than half of the
    /// pool's bytes, they go to the disk tier, or to objects.
    ///
    /// # Errors
    /// `NotFound`: no such collection. `Invalid`: a bound, or the collection's minimum level. Of
    /// the cloud, where values went to objects: the write is a part of the transaction.
    pub async fn put(&mut self, collection: &str, key: &[u8], value: &[u8]) -> Result<()> {
        let write = Write::Insert(Value::Here(Bytes::copy_from_slice(value)));
        self.write(collection, key, write).await
    }

    /// Writes a record if its key is there when the transaction takes effect.
    ///
    /// # Errors
    /// As [`Transaction::put`].
    pub async fn update(&mut self, collection: &str, key: &[u8], value: &[u8]) -> Result<()> {
        let write = Write::Update(Value::Here(Bytes::copy_from_slice(value)));
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
        if RECORD_BYTES_MAX < write.held() {
            return invalid(format!(
                "a record of {} bytes: at most {RECORD_BYTES_MAX} are possible",
                write.held()
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
        self.held += write.held();
        match writes.by_key.insert(key, write) {
            Some(replaced) => self.held -= replaced.held(),
            None => self.records += 1,
        }
        if RECORDS_MAX < self.records {
            return invalid(format!("a transaction has at most {RECORDS_MAX} records"));
        }
        match self.spill.bounds().held < self.held {
            true => self.spill().await,
            false => Ok(()),
        }
    }

    /// Brings all values of the write set out of memory.
    async fn spill(&mut self) -> Result<()> {
        for (id, writes) in &mut self.writes {
            let held = writes
                .by_key
                .iter()
                .filter_map(|(key, write)| match write.value() {
                    Some(Value::Here(value)) if !value.is_empty() => {
                        Some((key.clone(), value.clone()))
                    }
                    _ => None,
                });
            let held: Vec<KeyValue> = held.collect();
            if held.is_empty() {
                continue;
            }
            let sealer = self.database.0.sealer(&writes.collection)?;
            for (key, value) in self.spill.write(*id, held, &sealer).await? {
                if let Some(here) = writes.by_key.get_mut(&key).and_then(Write::value_mut) {
                    self.held -= here.held();
                    *here = value;
                }
            }
        }
        Ok(())
    }

    /// Reads a record. The transaction's own writes are seen.
    ///
    /// # Errors
    /// `NotFound`: no such collection. Of the cloud; `Malformed`: damaged pages.
    pub async fn get(&mut self, collection: &str, key: &[u8]) -> Result<Option<Bytes>> {
        let known = self.database.0.known().tree(collection);
        if let Some((id, root)) = known
            && let Some(record) = self.pooled(id, root, key)
        {
            return Ok(record);
        }
        let found = self.database.collection(collection).await?;
        self.record(&found, key).await
    }

    /// As [`Transaction::record`], where all is in memory and nothing overlays the pages. Most
    /// reads end here, without a copy of a page or of a collection's description.
    pub(crate) fn pooled(
        &mut self,
        id: CollectionId,
        root: PageId,
        key: &[u8],
    ) -> Option<Option<Bytes>> {
        let times = self.times();
        let inner = &self.database.0;
        if inner.options.has_reader_checkpoints {
            return None;
        }
        if self.fresh.contains_key(&id) || self.own_write(id, key).is_some() {
            return None;
        }
        let mut pool = inner
            .pool
            .lock()
            .expect("nothing panics while it is locked");
        let observed = &mut self.observed;
        let read = pool.read(root, key, times, |page, slot| {
            let newest = slot.newest();
            let is_monotonic = Level::Monotonic <= self.level;
            if is_monotonic || *observed < newest {
                let mut session = inner.session();
                if is_monotonic && (!session.take(id, page, key) || session.has_own(id, key)) {
                    return None;
                }
                session.observe_stamp(newest);
                *observed = newest.max(*observed);
            }
            match slot.visible() {
                None => Some(None),
                Some(PayloadRef::Inline(bytes)) => Some(Some(page.share(bytes))),
                Some(PayloadRef::Object(_)) => None,
            }
        });
        read?
    }

    /// The record of a key as the transaction sees it.
    pub(crate) async fn record(
        &self,
        collection: &Collection,
        key: &[u8],
    ) -> Result<Option<Bytes>> {
        let updated = match self.own_write(collection.id, key) {
            Some(Write::Insert(value)) => return self.value(collection, value).await.map(Some),
            Some(Write::Delete) => return Ok(None),
            Some(Write::Update(value)) => Some(value),
            None => None,
        };
        let held = self.leaf(collection, key).await?;
        let slot = self.slot(collection, &held, key);
        match (slot.visible(), updated) {
            (Some(_), Some(value)) => self.value(collection, value).await.map(Some),
            (Some(payload), None) => {
                let sealer = self.database.0.sealer(collection)?;
                let read = self.read.payload(collection.id, &sealer, payload);
                read.await.map(Some)
            }
            (None, _) => Ok(None),
        }
    }

    /// The bytes of a value of the write set.
    async fn value(&self, collection: &Collection, value: &Value) -> Result<Bytes> {
        match self.payload(value).await? {
            Payload::Inline(bytes) => Ok(bytes),
            object @ Payload::Object(_) => {
                let sealer = self.database.0.sealer(collection)?;
                self.read.payload(collection.id, &sealer, &object).await
            }
        }
    }

    /// A value of the write set; a large one may be in its object.
    async fn payload(&self, value: &Value) -> Result<Payload> {
        match value {
            Value::Here(bytes) => Ok(Payload::Inline(bytes.clone())),
            Value::Object(pointer) => Ok(Payload::Object(*pointer)),
            Value::Spilled(place) => self.spill.value(place).await.map(Payload::Inline),
        }
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
        self.times().since
    }

    fn times(&self) -> Times {
        let inner = &self.database.0;
        let now = inner.store.0.runtime.clock.monotonic();
        let since = now.saturating_sub(inner.options.ttl);
        Times { now, since }
    }

    /// What the records that the transaction put or updated have in an index, in order.
    pub(crate) async fn own_entries(
        &self,
        collection: &Collection,
        index: &Index,
    ) -> Result<Vec<Bytes>> {
        let mut entries = Vec::new();
        let writes = self.writes.get(&collection.id).into_iter();
        for (key, write) in writes.flat_map(|writes| &writes.by_key) {
            if let Some(value) = write.value() {
                let record = self.value(collection, value).await?;
                entries.extend(index::entries(&index.field, key, &record));
            }
        }
        entries.sort_unstable();
        Ok(entries)
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
            let is_accepted = self.level < Level::Monotonic
                || inner.session().take(collection.id, &found.held.page, key);
            if is_accepted {
                self.database.checkpoint_as_reader(collection, &found);
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
        session.observe_stamp(held.page.find(key).newest());
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

    /// Aborts: nothing takes effect. Objects of values that went out of memory are deleted beside
    /// the caller.
    pub fn abort(self) {}
}

/// Bytes of a key, at most.
fn key_bytes_max(collection: &Collection) -> usize {
    match collection.indexes.is_empty() {
        true => KEY_BYTES_MAX,
        false => INDEXED_KEY_BYTES_MAX,
    }
}
