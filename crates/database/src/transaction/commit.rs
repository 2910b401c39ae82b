//! The commit of a transaction: its write set becomes records, which go to the queues of their
//! trees, or at Naive into the pages.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use fader_blink::{Op, Payload, Pointer, Record, Stamp};
use fader_cloud::{Error, ErrorKind, Result};
use futures_util::future::join_all;

use super::spill::Value;
use super::{Committed, INLINE_BYTES, Transaction, Write, Writes, key_bytes_max};
use crate::catalogue::{Collection, CollectionId};
use crate::guard::Guard;
use crate::index;
use crate::level::Level;
use crate::message::CLAIM_BYTES_MAX;
use crate::reflect::{Way, reflect};
use crate::routing::{Outgoing, Routed};
use crate::sealing::What;
use crate::store::{Store, key};
use crate::tree::Freshness;

/// Bytes of own records that no page is known to have, from which on a commit checkpoints.
const OWN_BYTES_MAX: usize = 16 << 20;

impl Transaction {
    /// Commits. After an `Ambiguous` failure the transaction may take effect, at Atomic whole;
    /// after any other it does not, except at Naive, where a part may.
    ///
    /// # Errors
    /// `Invalid`: the client's clock is off, or a bound. `Malformed`: the disk tier lost values of
    /// the transaction. Of the cloud.
    pub async fn commit(mut self) -> Result<Committed> {
        let mut rest = std::mem::take(&mut self.writes);
        let mut stamp = Stamp::ZERO;
        if !rest.is_empty() {
            self.database.check_clock(&self.commit).await?;
            self.check_size(&rest)?;
            let mut next = None;
            stamp = self.commit_part(&mut rest, &mut next).await?;
            while !rest.is_empty() {
                let sent = self.commit_part(&mut rest, &mut next).await;
                sent.map_err(|error| {
                    let context = "a part of the transaction was sent";
                    Error::caused(ErrorKind::Ambiguous, context, error)
                })?;
            }
            self.spill.clear().await;
        }
        let usage = self.usage();
        Ok(Committed { stamp, usage })
    }

    /// Refuses what no claim object can hold, before it is read back.
    fn check_size(&self, writes: &BTreeMap<CollectionId, Writes>) -> Result<()> {
        if self.level != Level::Atomic {
            return Ok(());
        }
        let sizes = writes.values().flat_map(|writes| &writes.by_key);
        let sizes = sizes.map(|(key, write)| {
            let value = write.value().map_or(0, Value::size);
            let is_large = INLINE_BYTES as u64 <= value;
            key.len() as u64 + if is_large { 0 } else { value }
        });
        match sizes.sum::<u64>() {
            bytes if CLAIM_BYTES_MAX as u64 <= bytes => Err(too_large(bytes)),
            _ => Ok(()),
        }
    }

    /// Sends the first records of a write set, in the order of collections and keys: all, where
    /// nothing is out of memory, and at Atomic. The stamp of the first of them; `next` is that of
    /// the record after them.
    async fn commit_part(
        &mut self,
        rest: &mut BTreeMap<CollectionId, Writes>,
        next: &mut Option<Stamp>,
    ) -> Result<Stamp> {
        let writes = self.take_part(rest).await?;
        let objects = self.put_objects(&writes).await?;
        let writes = self.current(writes).await?;
        for write in writes.values().flat_map(|writes| writes.by_key.values()) {
            if let Some(Value::Object(pointer)) = write.value() {
                self.spill.leave(pointer);
            }
        }
        let next = match next {
            Some(next) => next,
            // The stamp is taken at the send: what was read before it is older.
            None => next.insert(Stamp {
                time: self.database.0.tick()?,
                client: self.database.0.incarnation,
                sequence: 0,
            }),
        };
        let first = *next;
        let written = self.records(writes, &objects, next).await?;
        self.send(written).await?;
        Ok(first)
    }

    /// The next records, with values that were in chunks in memory again.
    pub(super) async fn take_part(
        &self,
        rest: &mut BTreeMap<CollectionId, Writes>,
    ) -> Result<BTreeMap<CollectionId, Writes>> {
        if !self.spill.is_used() {
            return Ok(std::mem::take(rest));
        }
        let bytes_max = match self.level {
            Level::Atomic => usize::MAX,
            _ => self.spill.bounds().part,
        };
        let (mut part, mut bytes) = (BTreeMap::new(), 0);
        while let Some(mut of_first) = rest.first_entry() {
            let id = *of_first.key();
            let writes = of_first.get_mut();
            let Some((key, mut write)) = writes.by_key.pop_first() else {
                of_first.remove();
                continue;
            };
            if bytes_max < bytes {
                writes.by_key.insert(key, write);
                break;
            }
            if let Some(value) = write.value_mut()
                && let Value::Spilled(place) = value
            {
                *value = Value::Here(self.spill.value(place).await?);
            }
            bytes += key.len() + write.held();
            let taken = part.entry(id).or_insert_with(|| Writes {
                collection: writes.collection.clone(),
                by_key: BTreeMap::new(),
            });
            taken.by_key.insert(key, write);
        }
        Ok(part)
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

    /// Records over a page's bound become objects before anything points to them.
    async fn put_objects(
        &self,
        writes: &BTreeMap<CollectionId, Writes>,
    ) -> Result<BTreeMap<(CollectionId, Bytes), Pointer>> {
        let runtime = &self.commit.0.runtime;
        let large = writes.iter().flat_map(|(id, writes)| {
            let by_key = writes.by_key.iter();
            by_key.filter_map(|(key, write)| match write.value() {
                Some(Value::Here(value)) if INLINE_BYTES < value.len() => {
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
            let commit = self.commit.of_tree(at.0);
            commit.put_surely(&key("values", id), sealed).await?;
            Ok((at, pointer))
        });
        join_all(puts).await.into_iter().collect()
    }

    /// The records of a write set, numbered from `next` on in the order of collections and keys,
    /// and the entries that they assert in indexes.
    async fn records(
        &self,
        writes: BTreeMap<CollectionId, Writes>,
        objects: &BTreeMap<(CollectionId, Bytes), Pointer>,
        next: &mut Stamp,
    ) -> Result<Written> {
        let mut stamp = || {
            let stamp = *next;
            next.sequence += 1;
            stamp
        };
        let mut written = Written {
            entries: Vec::new(),
            records: Vec::new(),
        };
        for (id, writes) in writes {
            let indexes = &writes.collection.indexes;
            let mut records = Vec::with_capacity(writes.by_key.len());
            let mut entries: BTreeMap<&str, Vec<Record>> = BTreeMap::new();
            for (key, write) in writes.by_key {
                if !indexes.is_empty()
                    && let Some(value) = write.value()
                {
                    let value = self.value(&writes.collection, value).await?;
                    for (name, index) in indexes {
                        let asserted = index::entries(&index.field, &key, &value).into_iter();
                        let asserted = asserted.map(|entry| index::assertion(entry, stamp()));
                        entries.entry(name).or_default().extend(asserted);
                    }
                }
                let object = objects.get(&(id, key.clone())).copied();
                let payload = match (object, write.value()) {
                    (Some(object), _) => Some(Payload::Object(object)),
                    (None, Some(value)) => Some(self.payload(value).await?),
                    (None, None) => None,
                };
                let op = match (write, payload) {
                    (Write::Insert(_), Some(payload)) => Op::Insert(payload),
                    (Write::Update(_), Some(payload)) => Op::Update(payload),
                    (_, _) => Op::Delete,
                };
                let stamp = stamp();
                records.push(Record { key, stamp, op });
            }
            let of_index =
                |(name, records): (&str, Vec<Record>)| (indexes[name].entries.clone(), records);
            let entries: Vec<_> = entries.into_iter().map(of_index).collect();
            written.records.push((writes.collection, records));
            let entries = entries.into_iter();
            let entries = entries.filter(|(_, records)| !records.is_empty());
            written.entries.extend(entries);
        }
        Ok(written)
    }

    async fn send(&self, written: Written) -> Result<()> {
        let inner = &self.database.0;
        let Written { entries, records } = written;
        if self.level == Level::Naive {
            return self.write_pages([entries, records].concat()).await;
        }
        let entries_count = entries.len();
        let parts = inner.outgoing([entries, records].concat())?;
        let commit = self.commit_of(&parts);
        let pending = inner.pending(&commit);
        let mut dues = Vec::new();
        if self.level == Level::Atomic {
            pending.commit(&parts).await?;
        } else {
            let routes = parts.iter().cloned();
            let routes = routes.map(|part| inner.route(&self.commit, part));
            let routed = join_all(routes).await;
            // A client that ends halfway leaves an entry without a record, never the other way.
            let first = match inner.options.guards.has(Guard::EntriesFirst) {
                true => entries_count,
                false => routed.len(),
            };
            pending.send(&routed[..first]).await?;
            pending.send(&routed[first..]).await?;
            dues.extend(routed.iter().flat_map(Routed::dues));
        }
        // What waits for approval is not there yet.
        for part in parts.iter().filter(|part| !part.tree.is_curated) {
            inner.session().wrote(part.tree.id, &part.records);
        }
        match self.level {
            Level::Atomic => self.database.finish_later(),
            _ => self.database.checkpoint_later(dues),
        }
        if OWN_BYTES_MAX < inner.session().own_bytes() {
            // The records were sent. What fails here is tried with the next commit.
            drop(self.settle_own().await);
        }
        Ok(())
    }

    /// Brings own records into pages, and forgets them.
    async fn settle_own(&self) -> Result<()> {
        let inner = &self.database.0;
        let begun = inner.store.0.runtime.clock.monotonic();
        self.database.settle().await?;
        let trees = inner.session().own_trees();
        for id in trees {
            let Some(collection) = inner.known().catalogue.by_id(id).cloned() else {
                inner.session().forget(id);
                continue;
            };
            let tree = inner.tree(&self.commit, &collection)?.for_upkeep();
            let mut next = inner.session().own_from(id, b"");
            while let Some(key) = next {
                let now = inner.store.0.runtime.clock.monotonic();
                let age = Freshness::Within(now.saturating_sub(begun));
                let page = tree.leaf(&key, age).await?.held.page;
                let mut session = inner.session();
                // One that is older than what was read covers nothing.
                let _ = session.take(id, &page, &key);
                next = page.high().and_then(|high| session.own_from(id, high));
            }
        }
        Ok(())
    }

    /// Where the message of a transaction counts: for its collection, if it has one alone.
    fn commit_of(&self, parts: &[Outgoing]) -> Store {
        let known = self.database.0.known();
        let mut owners = parts
            .iter()
            .map(|part| known.catalogue.name_of(part.tree.id));
        let first = owners.next().flatten();
        match parts.first() {
            Some(part) if first.is_some() && owners.all(|owner| owner == first) => {
                self.commit.of_tree(part.tree.id)
            }
            _ => self.commit.clone(),
        }
    }

    /// Writes the pages at once. Records of a page that another client was faster to write are
    /// lost.
    async fn write_pages(&self, parts: Vec<(Collection, Vec<Record>)>) -> Result<()> {
        for (collection, records) in parts {
            let tree = self
                .database
                .0
                .tree(&self.commit, &collection)?
                .for_upkeep();
            let way = Way {
                collection: &collection,
                is_lost_to_others: true,
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

/// What a transaction sends, by trees.
struct Written {
    /// Of indexes.
    entries: Vec<(Collection, Vec<Record>)>,
    /// Of collections.
    records: Vec<(Collection, Vec<Record>)>,
}

/// A transaction that no claim object holds.
fn too_large(bytes: u64) -> Error {
    let context = format!("a transaction of {bytes} bytes: at most {CLAIM_BYTES_MAX} are possible");
    Error::new(ErrorKind::Invalid, context)
}
