//! The commit of a transaction: its write set becomes records, which go to the queues of their
//! trees, or at Naive into the pages.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use fader_blink::{Op, Payload, Pointer, Record, Stamp};
use fader_cloud::{Error, ErrorKind, Result};
use futures_util::future::join_all;

use super::{Committed, INLINE_BYTES, Transaction, Write, Writes, key_bytes_max};
use crate::catalogue::{Collection, CollectionId};
use crate::guard::Guard;
use crate::index;
use crate::level::Level;
use crate::reflect::{Way, reflect};
use crate::routing::{Outgoing, Routed};
use crate::sealing::What;
use crate::store::{Store, key};

/// Bytes of own records that no page is known to have, from which on a commit checkpoints.
const OWN_BYTES_MAX: usize = 16 << 20;

impl Transaction {
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
            self.send(records(writes, &objects, stamp)).await?;
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
            let commit = self.commit.of_tree(at.0);
            commit.put_surely(&key("values", id), sealed).await?;
            Ok((at, pointer))
        });
        join_all(puts).await.into_iter().collect()
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
        let own_bytes = inner.session().own_bytes();
        if OWN_BYTES_MAX < own_bytes {
            self.database.settle().await?;
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

/// The records of a write set, numbered in the order of collections and keys, and the entries that
/// they assert in indexes.
fn records(
    writes: BTreeMap<CollectionId, Writes>,
    objects: &BTreeMap<(CollectionId, Bytes), Pointer>,
    first: Stamp,
) -> Written {
    let mut next = first;
    let mut stamp = || {
        let stamp = next;
        next.sequence += 1;
        stamp
    };
    let mut written = Written {
        entries: Vec::new(),
        records: Vec::new(),
    };
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
        written.records.push((writes.collection, records));
        let entries = entries.into_iter();
        let entries = entries.filter(|(_, records)| !records.is_empty());
        written.entries.extend(entries);
    }
    written
}
