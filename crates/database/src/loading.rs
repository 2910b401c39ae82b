//! Bulk load of an empty collection. Its tree is built bottom-up, each page is written once, and
//! replacing the root makes all records visible at once.
//!
//! Invariants:
//! - LOAD-1 nothing leads to the pages of a load before the root is replaced, by If-Match on the
//!   empty root that the load began with. Who writes meanwhile wins, and the load fails whole.
//! - LOAD-2 entries of indexes are there before the records: without these they are dangling.
//!
//! Pages of a load that failed stay until `vacuum`.

use std::collections::VecDeque;

use bytes::Bytes;
use fader_blink::{Builder, KEY_BYTES_MAX, Page, PageId, Payload, Pointer, Slot, Stamp};
use fader_cloud::{Error, ErrorKind, Result};
use futures_util::future::BoxFuture;
use object_store::PutMode;

use crate::catalogue::Collection;
use crate::database::Database;
use crate::index::{self, INDEXED_KEY_BYTES_MAX};
use crate::sealing::{Sealer, What};
use crate::store::{Held, Put, Read, Store, key};
use crate::transaction::{INLINE_BYTES, RECORD_BYTES_MAX};
use crate::tree::{Freshness, LeafQueues, edition, random};

/// Pages that are written at once.
const PUTS_AT_ONCE: usize = 32;

/// A load under way. Dropping it leaves the collection as it is.
#[derive(Debug)]
pub struct Load {
    database: Database,
    collection: Collection,
    tree: Growing,
    stamp: Stamp,
    /// Entries of each index, with the stamps of their records.
    entries: Vec<Vec<(Bytes, Stamp)>>,
    count: u64,
}

/// A tree that is being built.
struct Growing {
    store: Store,
    sealer: Sealer,
    root: PageId,
    leaf_queues: Option<LeafQueues>,
    /// The empty root.
    held: Held,
    builder: Builder,
    full: Vec<(PageId, Page)>,
    puts: VecDeque<BoxFuture<'static, Option<Result<()>>>>,
}

impl std::fmt::Debug for Growing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut form = f.debug_struct("Growing");
        form.field("root", &self.root).finish_non_exhaustive()
    }
}

impl Database {
    /// Begins a bulk load of a collection whose pages are empty.
    ///
    /// # Errors
    /// `Precondition`: it has records already. `Invalid`: the client's clock is off. `NotFound`,
    /// `Denied`; of the cloud.
    pub async fn load(&self, collection: &str) -> Result<Load> {
        let store = self.0.store.scope("load");
        let id = self.collection(collection).await?.id;
        let collection = self.0.current(id).await?;
        if collection.is_curated {
            let context = "records of the collection wait for approval: write them in transactions";
            return Err(Error::new(ErrorKind::Precondition, context));
        }
        self.check_clock(&store).await?;
        let tree = Growing::new(self, &collection).await?;
        let stamp = Stamp {
            time: self.0.tick()?,
            client: self.0.incarnation,
            sequence: 0,
        };
        Ok(Load {
            database: self.clone(),
            entries: vec![Vec::new(); collection.indexes.len()],
            collection,
            tree,
            stamp,
            count: 0,
        })
    }
}

impl Load {
    /// Adds a record. Keys come in strictly ascending order.
    ///
    /// # Errors
    /// `Invalid`: the order, or a bound; the load can go on without the record. Of the cloud.
    pub async fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let has_indexes = !self.collection.indexes.is_empty();
        let key_max = if has_indexes {
            INDEXED_KEY_BYTES_MAX
        } else {
            KEY_BYTES_MAX
        };
        for (what, size, max) in [
            ("key", key.len(), key_max),
            ("record", value.len(), RECORD_BYTES_MAX),
        ] {
            if max < size {
                let context = format!("a {what} of {size} bytes: at most {max} are possible");
                return Err(Error::new(ErrorKind::Invalid, context));
            }
        }
        let payload = match value.len() <= INLINE_BYTES {
            true => Payload::Inline(Bytes::copy_from_slice(value)),
            false => Payload::Object(self.put_object(value).await?),
        };
        let key = Bytes::copy_from_slice(key);
        self.tree
            .push(key.clone(), Slot::inserted(self.stamp, payload))?;
        for (index, entries) in self.collection.indexes.values().zip(&mut self.entries) {
            let found = index::entries(&index.field, &key, value).into_iter();
            entries.extend(found.map(|entry| (entry, self.stamp)));
        }
        self.stamp.sequence = self.stamp.sequence.wrapping_add(1);
        self.count += 1;
        self.tree.write().await
    }

    async fn put_object(&mut self, value: &[u8]) -> Result<Pointer> {
        let runtime = &self.tree.store.0.runtime;
        let id = runtime.random_id();
        let pointer = Pointer::new(id, value);
        let bytes = Bytes::copy_from_slice(value);
        let sealed = self
            .tree
            .sealer
            .seal(&What::Value(id), bytes, &*runtime.entropy)?;
        self.tree
            .store
            .put_surely(&key("values", id), sealed)
            .await?;
        Ok(pointer)
    }

    /// Makes all records visible at once; their number.
    ///
    /// # Errors
    /// `Precondition`: another client changed the collection, or an index of it; nothing was
    /// loaded. `Ambiguous`: all was loaded, or nothing. Of the cloud.
    pub async fn finish(self) -> Result<u64> {
        let indexes = self.collection.indexes.values().zip(self.entries);
        for (index, mut entries) in indexes {
            let mut tree = Growing::new(&self.database, &index.entries).await?;
            entries.sort_unstable();
            for (entry, stamp) in entries {
                let payload = Payload::Inline(Bytes::new());
                tree.push(entry, Slot::inserted(stamp, payload))?;
                tree.write().await?;
            }
            tree.finish(&self.database).await?;
        }
        // Who creates an index after this replaces the root before it reads records.
        self.database.0.read_catalogue().await?;
        let now = self.database.0.current(self.collection.id).await?;
        if now.indexes.keys().ne(self.collection.indexes.keys()) {
            return Err(changed());
        }
        self.tree.finish(&self.database).await?;
        Ok(self.count)
    }
}

impl Growing {
    /// A tree in place of an empty one.
    async fn new(database: &Database, tree: &Collection) -> Result<Self> {
        let store = database.0.store.scope("load").of_tree(tree.id);
        let sealer = database.0.sealer(tree)?;
        sealer.check()?;
        let empty = database.0.tree(&store, tree)?;
        let leaf_queues = empty.leaf_queues.clone();
        let found = empty.leaf(b"", Freshness::Now).await?;
        let page = &found.held.page;
        if found.id != tree.root || !page.is_root() || page.count() > 0 {
            let context = "the collection has records already";
            return Err(Error::new(ErrorKind::Precondition, context));
        }
        let builder = Builder::new(tree.sizes(), page.horizon()).at_lsn(page.lsn() + 1);
        Ok(Growing {
            store,
            sealer,
            root: tree.root,
            leaf_queues,
            held: found.held,
            builder,
            full: Vec::new(),
            puts: VecDeque::new(),
        })
    }

    fn push(&mut self, key: Bytes, slot: Slot) -> Result<()> {
        let runtime = &self.store.0.runtime;
        let mut random = random(runtime);
        let mut edition = edition(runtime, &self.sealer, &mut random);
        let pushed = self.builder.push(key, slot, &mut edition, &mut self.full);
        pushed.map_err(|error| Error::caused(ErrorKind::Invalid, "a bulk load", error))
    }

    /// Begins to write full pages, and waits when too many are on their way.
    async fn write(&mut self) -> Result<()> {
        for (id, page) in std::mem::take(&mut self.full) {
            let (store, sealer) = (self.store.clone(), self.sealer.clone());
            let runtime = store.0.runtime.clone();
            let leaf_queues = self.leaf_queues.clone().filter(|_| page.is_leaf());
            let put = async move {
                if let Some(leaves) = leaf_queues {
                    leaves.create(&store, id).await?;
                }
                let key = key("pages", id.0);
                let sealed = sealer.seal_page(key.as_ref(), &page)?;
                // Its id is random, and no other client knows it: a repetition is the same.
                store.put_surely(&key, sealed).await
            };
            self.puts.push_back(Box::pin(runtime.spawn(put)));
        }
        while PUTS_AT_ONCE < self.puts.len() {
            self.wait_for_one().await?;
        }
        Ok(())
    }

    async fn wait_for_one(&mut self) -> Result<()> {
        let Some(put) = self.puts.pop_front() else {
            return Ok(());
        };
        put.await.unwrap_or_else(|| {
            let kind = ErrorKind::Unavailable { retry_after: None };
            Err(Error::new(kind, "the process is ending"))
        })
    }

    /// Replaces the root.
    async fn finish(mut self, database: &Database) -> Result<()> {
        let runtime = self.store.0.runtime.clone();
        let builder = std::mem::replace(
            &mut self.builder,
            Builder::new(fader_blink::Sizes::default(), Stamp::ZERO),
        );
        let root = {
            let mut random = random(&runtime);
            let mut edition = edition(&runtime, &self.sealer, &mut random);
            builder.finish(&mut edition, &mut self.full)
        };
        self.write().await?;
        while !self.puts.is_empty() {
            self.wait_for_one().await?;
        }
        let mode = PutMode::Update(self.held.version.clone());
        let put = self
            .store
            .put_page(self.root, &self.sealer, &root, mode)
            .await;
        database.0.forget(self.root);
        match put?.0 {
            Put::Landed(_) => Ok(()),
            Put::Refused => Err(changed()),
            // Structure decides: no other version has this nonce.
            Put::Unknown(error) => {
                let found = self.store.page(self.root, &self.sealer, None).await;
                match found {
                    Ok(Read::Page(found, _)) if found.page.envelope() == root.envelope() => Ok(()),
                    _ => {
                        let context = "the load may have succeeded";
                        Err(Error::caused(ErrorKind::Ambiguous, context, error))
                    }
                }
            }
        }
    }
}

fn changed() -> Error {
    let context = "another client changed the collection meanwhile: nothing was loaded";
    Error::new(ErrorKind::Precondition, context)
}
