//! Creating, building, verifying and dropping secondary indexes.
//!
//! An index may be built while others write:
//!
//! 1. The catalogue names it. Clients that read the catalogue from then on assert its entries.
//! 2. The builder waits until each client has read the catalogue (COLLECTIONS-1).
//! 3. It replaces each leaf of the collection by itself, and asserts the entries of its records.
//! 4. The catalogue says that the index is ready.
//!
//! Invariants:
//! - INDEXING-1 a record that the builder does not see is applied by a checkpoint that knows the
//!   index. A page that was read before step 3 cannot be written after it.
//! - INDEXING-2 such a checkpoint asserts the entries of records whose stamps are so old that their
//!   writers may not have known the index.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use fader_blink::{Change, Op, Page, PageId, PayloadRef, Record};
use fader_cloud::{Error, ErrorKind, Result};
use futures_util::future::join_all;

use crate::catalogue::{Collection, CollectionId, Dropped, INDEXES_MAX, Index, check_name};
use crate::database::{Database, Inner, TRIES};
use crate::guard::Guard;
use crate::index::{self, Entries, INDEXED_KEY_BYTES_MAX};
use crate::pending::Pending;
use crate::reflect::{Way, reflect};
use crate::routing::{Outgoing, Routed};
use crate::store::Store;
use crate::tree::{AHEAD_MAX, Freshness, Landed, Tree, edition, random};

/// Entries that the builder brings into the index at once.
const BATCH: usize = 50_000;
/// For how many times the catalogue's age the builder waits. A round of a checkpoint may last two,
/// and stores that are not consistent may show an old catalogue.
const WAIT_TTLS: u32 = 3;

/// What comparing an index with its records came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexReport {
    /// Entries that are asserted.
    pub entries: u64,
    /// Keys of records that lack an entry: lookups miss them. Pending records may lack theirs.
    pub missing: Vec<Bytes>,
    /// Entries that their records contradict: lookups leave them out, `vacuum` removes them.
    pub dangling: u64,
}

impl Database {
    /// Creates an index of a field of the records, which are JSON objects, and builds it; others
    /// may write meanwhile. An index whose builder ended early is built anew. `told` hears how many
    /// records have their entries.
    ///
    /// # Errors
    /// `Precondition`: the name is taken. `Invalid`: a bound; a key is too long for an index.
    /// `NotFound`: no such collection. Of the cloud.
    pub async fn create_index(
        &self,
        collection: &str,
        name: &str,
        field: &str,
        told: &(dyn Fn(u64) + Send + Sync),
    ) -> Result<()> {
        self.0.read_catalogue().await?;
        let found = self.collection(collection).await?;
        let id = found.id;
        let index = match found.indexes.get(name) {
            None => self.name_index(&found, name, field).await?,
            Some(index) if index.field == field && !index.is_ready => index.clone(),
            Some(_) => {
                let context = format!("collection {collection:?} has an index {name:?} already");
                return Err(Error::new(ErrorKind::Precondition, context));
            }
        };
        let runtime = &self.0.store.0.runtime;
        let wait = WAIT_TTLS * self.0.options.catalogue_ttl;
        runtime.clock.sleep(wait).await;
        self.build(id, &index, told).await?;
        self.change_catalogue(|catalogue| {
            let index = index_mut(catalogue.collections.values_mut(), id, name)?;
            Ok(!std::mem::replace(&mut index.is_ready, true))
        })
        .await
    }

    /// Names an index in the catalogue.
    async fn name_index(&self, collection: &Collection, name: &str, field: &str) -> Result<Index> {
        check_name("index", name)?;
        let runtime = &self.0.store.0.runtime;
        let tree = CollectionId(runtime.random());
        let entries = collection.entries(tree, PageId(runtime.random_id()));
        self.plant(&entries).await?;
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let slack = 2 * self.0.options.catalogue_ttl + 2 * self.0.options.clock_bound;
        let asserted_from_ms = AtomicU64::new(0);
        let index = || Index {
            field: field.to_owned(),
            is_ready: false,
            asserted_from_ms: asserted_from_ms.load(Relaxed),
            entries: entries.clone(),
        };
        let id = collection.id;
        self.change_catalogue(|catalogue| {
            let mut collections = catalogue.collections.values_mut();
            let Some(found) = collections.find(|found| found.id == id) else {
                return Err(gone());
            };
            if let Some(other) = found.indexes.get(name) {
                // An earlier try landed.
                if other.entries.id == tree {
                    asserted_from_ms.store(other.asserted_from_ms, Relaxed);
                    return Ok(false);
                }
                let context = format!("index {name:?} is there already");
                return Err(Error::new(ErrorKind::Precondition, context));
            }
            if INDEXES_MAX <= found.indexes.len() {
                let context = format!("a collection has at most {INDEXES_MAX} indexes");
                return Err(Error::new(ErrorKind::Invalid, context));
            }
            asserted_from_ms.store(self.0.wall_ms().saturating_add(ms(slack)), Relaxed);
            found.indexes.insert(name.to_owned(), index());
            Ok(true)
        })
        .await?;
        Ok(index())
    }

    /// Drops an index. Its pages and queues are left to `vacuum`.
    ///
    /// # Errors
    /// `NotFound`: no such collection or index. Of the cloud.
    pub async fn drop_index(&self, collection: &str, name: &str) -> Result<()> {
        self.0.read_catalogue().await?;
        let found = self.collection(collection).await?;
        let Some(index) = found.indexes.get(name) else {
            let context = format!("collection {collection:?} has no index {name:?}");
            return Err(Error::new(ErrorKind::NotFound, context));
        };
        let tree = index.entries.id;
        self.change_catalogue(|catalogue| {
            let mut collections = catalogue.collections.values_mut();
            let found = collections.find(|other| other.id == found.id);
            let Some(found) = found.filter(|found| {
                let index = found.indexes.get(name);
                index.is_some_and(|index| index.entries.id == tree)
            }) else {
                return Ok(false);
            };
            if let Some(index) = found.indexes.remove(name) {
                catalogue.dropped.push(Dropped::from(&index.entries));
            }
            Ok(true)
        })
        .await
    }

    /// Compares an index with the records, as pages show them.
    ///
    /// # Errors
    /// `NotFound`: no such collection or index. Of the cloud. `Malformed`: a page cannot be read.
    pub async fn verify_index(&self, collection: &str, name: &str) -> Result<IndexReport> {
        let found = self.collection(collection).await?;
        let Some(index) = found.indexes.get(name) else {
            let context = format!("collection {collection:?} has no index {name:?}");
            return Err(Error::new(ErrorKind::NotFound, context));
        };
        let store = self.0.store.scope("verify");
        let tree = self.0.tree(&store, &found)?;
        let mut expected: BTreeMap<Bytes, bool> = BTreeMap::new();
        for page in self
            .pages(&found)
            .await?
            .values()
            .filter(|page| page.is_leaf())
        {
            for (key, record) in tree.records(page).await? {
                let entries = index::entries(&index.field, &key, &record).into_iter();
                expected.extend(entries.map(|entry| (entry, false)));
            }
        }
        let mut report = IndexReport::default();
        let pages = self.pages(&index.entries).await?;
        for page in pages.values().filter(|page| page.is_leaf()) {
            let alive = page.slots(b"").filter(|(_, slot)| slot.is_alive());
            for (entry, _) in alive {
                report.entries += 1;
                match expected.get_mut(&entry.to_vec()[..]) {
                    Some(is_found) => *is_found = true,
                    None => report.dangling += 1,
                }
            }
        }
        let missing = expected.iter().filter(|(_, is_found)| !**is_found);
        let keys = missing.filter_map(|(entry, _)| Some(entry.slice_ref(index::split(entry)?.1)));
        report.missing = keys.collect();
        Ok(report)
    }

    /// Asserts the entries of all records in pages.
    async fn build(
        &self,
        id: CollectionId,
        index: &Index,
        told: &(dyn Fn(u64) + Send + Sync),
    ) -> Result<()> {
        let store = self.0.store.scope("index");
        let collection = self.0.current(id).await?;
        let tree = self.0.tree(&store, &collection)?.for_upkeep();
        let mut from = Bytes::new();
        let (mut batch, mut count) = (Vec::new(), 0);
        'leaves: loop {
            for page in tree.touch(&from).await? {
                if !page.contains(&from) {
                    continue;
                }
                for (key, record) in tree.records(&page).await? {
                    if INDEXED_KEY_BYTES_MAX < key.len() {
                        let context = format!(
                            "a record has a key of {} bytes: with an index at most \
                             {INDEXED_KEY_BYTES_MAX} are possible",
                            key.len()
                        );
                        return Err(Error::new(ErrorKind::Invalid, context));
                    }
                    let stamp = page.find(&key).newest().expect("a visible slot");
                    let entries = index::entries(&index.field, &key, &record).into_iter();
                    batch.extend(entries.map(|entry| index::assertion(entry, stamp)));
                    count += 1;
                }
                told(count);
                match page.high() {
                    Some(high) => from = Bytes::copy_from_slice(high),
                    None => break 'leaves,
                }
            }
            if BATCH <= batch.len() {
                self.0
                    .bring_in(&store, &index.entries, std::mem::take(&mut batch))
                    .await?;
            }
        }
        self.0.bring_in(&store, &index.entries, batch).await
    }
}

impl Tree<'_> {
    /// Replaces the leaf of a key, and some right of it, by themselves. The pages come in the order
    /// of their keys; the first has `from`.
    async fn touch(&self, from: &[u8]) -> Result<Vec<Page>> {
        let first = self.leaf(from, Freshness::Within(Duration::MAX)).await?.id;
        let mut leaves = self.known_leaves(from, AHEAD_MAX);
        if leaves.is_empty() {
            leaves.push(first);
        }
        let touched = leaves.into_iter().map(|id| self.renew(id, Page::is_leaf));
        let mut pages = Vec::new();
        for touched in join_all(touched).await {
            pages.extend(touched?);
        }
        pages.sort_by(|one, other| one.low().cmp(other.low()));
        if pages.iter().any(|page| page.contains(from)) {
            return Ok(pages);
        }
        // The leaf split meanwhile, or pages in the pool are old.
        let found = self.leaf(from, Freshness::Now).await?;
        let touched = self.renew(found.id, Page::is_leaf).await?;
        Ok(touched
            .into_iter()
            .filter(|page| page.contains(from))
            .collect())
    }

    /// The visible records of a leaf.
    async fn records(&self, page: &Page) -> Result<Vec<(Bytes, Bytes)>> {
        let mut all = Vec::new();
        for (key, slot) in page.slots(b"") {
            let bytes = match slot.visible() {
                None => continue,
                Some(PayloadRef::Inline(bytes)) => page.share(bytes),
                Some(payload) => {
                    let payload = payload.to_payload(page);
                    self.store.payload(self.id, &self.sealer, &payload).await?
                }
            };
            all.push((Bytes::from(key.to_vec()), bytes));
        }
        Ok(all)
    }

    /// Replaces a page by itself; none when it is not there, or not one that `is_right`.
    pub(crate) async fn renew(
        &self,
        id: PageId,
        is_right: impl Fn(&Page) -> bool,
    ) -> Result<Option<Page>> {
        let runtime = &self.store.0.runtime;
        for tries in 1..=TRIES {
            let held = match self.read(id, runtime.clock.monotonic()).await? {
                Some(held) if is_right(&held.page) => held,
                _ => return Ok(None),
            };
            let page = {
                let mut random = random(runtime);
                held.page
                    .renewed(&mut edition(runtime, &self.sealer, &mut random))
            };
            let change = Change {
                created: Vec::new(),
                page: page.clone(),
                separators: Vec::new(),
            };
            if self.write(id, &held, &change).await? == Landed::Yes {
                return Ok(Some(page));
            }
            self.store.pause(tries).await;
        }
        let kind = ErrorKind::Unavailable { retry_after: None };
        Err(Error::new(kind, "other clients replace the pages faster"))
    }
}

impl Inner {
    /// Brings records into a tree without its queues: a repetition has no effect.
    async fn bring_in(&self, store: &Store, tree: &Collection, records: Vec<Record>) -> Result<()> {
        let way = Way {
            collection: tree,
            is_lost_to_others: false,
            until: Duration::MAX,
        };
        let tree = self.tree(store, tree)?.for_upkeep();
        for tries in 1..=TRIES {
            if reflect(&tree, way, records.clone()).await?.is_done {
                return Ok(());
            }
            store.pause(tries).await;
        }
        let kind = ErrorKind::Unavailable { retry_after: None };
        Err(Error::new(kind, "other clients replace the pages faster"))
    }

    /// Entries of records whose writers may not have known an index.
    pub(crate) async fn asserted(
        &self,
        store: &Store,
        collection: &Collection,
        records: &[Record],
    ) -> Result<Entries> {
        let sealer = self.sealer(collection)?;
        let mut all = Vec::new();
        for record in records {
            let (Op::Insert(payload) | Op::Update(payload)) = &record.op else {
                continue;
            };
            let indexes = collection.indexes.values();
            let indexes: Vec<&Index> = indexes.filter(|index| index.is_new_to(record)).collect();
            let is_guarded = self.options.guards.has(Guard::EntriesForUnaware);
            if indexes.is_empty() || !is_guarded {
                continue;
            }
            let bytes = match store.payload(collection.id, &sealer, payload).await {
                Ok(bytes) => bytes,
                // The record cannot be read: it has no values.
                Err(error) if error.kind == ErrorKind::Malformed => continue,
                Err(error) => return Err(error),
            };
            for index in indexes {
                let entries = index::entries(&index.field, &record.key, &bytes).into_iter();
                let entries = entries.map(|entry| index::assertion(entry, record.stamp));
                all.extend(entries.map(|entry| (index.entries.id, entry)));
            }
        }
        Ok(all)
    }

    /// Sends entries to the queues of their indexes.
    pub(crate) async fn send_entries(
        &self,
        pending: &Pending<'_>,
        collection: &Collection,
        entries: Entries,
    ) -> Result<()> {
        let mut by_tree: BTreeMap<CollectionId, Vec<Record>> = BTreeMap::new();
        for (tree, record) in entries {
            by_tree.entry(tree).or_default().push(record);
        }
        let trees = collection.index_trees();
        let parts = trees.filter_map(|tree| Some((tree.clone(), by_tree.remove(&tree.id)?)));
        let parts = self.outgoing(parts.collect())?.into_iter();
        let routed: Vec<Routed> = parts.map(Outgoing::into_tree).collect();
        pending.send(&routed).await
    }
}

fn index_mut<'a>(
    mut collections: impl Iterator<Item = &'a mut Collection>,
    id: CollectionId,
    name: &str,
) -> Result<&'a mut Index> {
    let found = collections.find(|collection| collection.id == id);
    let index = found.and_then(|collection| collection.indexes.get_mut(name));
    index.ok_or_else(gone)
}

fn gone() -> Error {
    Error::new(
        ErrorKind::NotFound,
        "the collection or the index was dropped",
    )
}
