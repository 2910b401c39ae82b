//! What clients do beside transactions: checkpoints, finishing Atomic transactions, verifying.
//!
//! Nothing runs without a cause: a client works on what it committed, and on what it is told to.
//! An idle database costs no request.

use std::collections::BTreeMap;
use std::time::Duration;

use fader_blink::{Page, PageId, Report, check};
use fader_cloud::{Error, ErrorKind, MESSAGES_MAX, Receive, Result};
use futures_util::future::{BoxFuture, FutureExt, join_all};

use crate::catalogue::{Collection, CollectionId};
use crate::database::{Database, Inner};
use crate::guard::Guard;
use crate::message;
use crate::reflect::{Way, reflect};
use crate::tree::Fence;

/// Rounds of one checkpoint, at most: a queue that grows faster than it is emptied ends there.
const ROUNDS_MAX: u32 = 10_000;
/// How often a lost race for a page is tried again in a row.
const LOST_MAX: u32 = 20;

/// What a checkpoint came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checkpointed {
    /// Messages that were removed from the queues.
    pub messages: u64,
    /// Records that changed a page.
    pub applied: u64,
    /// Records that came too late and were kept as dead letters.
    pub refused: u64,
    /// Pages that were replaced.
    pub pages: u64,
    /// Pages that splits created.
    pub splits: u64,
    /// Messages that cannot be read; they stay in the queues.
    pub damaged: u64,
    /// Encrypted collections that were left out: their keys were not granted to this client.
    pub closed: u64,
    /// Entries that were sent to indexes: asserted for writers that did not know an index, or
    /// removed.
    pub entries: u64,
}

impl Checkpointed {
    fn add(&mut self, other: &Checkpointed) {
        self.messages += other.messages;
        self.applied += other.applied;
        self.refused += other.refused;
        self.pages += other.pages;
        self.splits += other.splits;
        self.damaged += other.damaged;
        self.closed += other.closed;
        self.entries += other.entries;
    }
}

/// For whom work on a queue is done: the stage that its requests count for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum For {
    /// This client committed there.
    Own,
    /// Others did, or none.
    Others,
}

impl For {
    /// The stage of work that is called `own` when it is for this client.
    fn stage(self, own: &'static str) -> &'static str {
        match self {
            For::Own => own,
            For::Others => "sweep",
        }
    }
}

/// What became of one round of a checkpoint.
enum Round {
    Empty,
    Done(Checkpointed),
    /// Another client replaced a page first, or an outcome is unknown.
    Lost,
}

impl Database {
    /// Brings all pending updates of a collection into its pages.
    ///
    /// # Errors
    /// `NotFound`: no such collection. Of the cloud. What was not done stays in the queues.
    pub async fn checkpoint(&self, name: &str) -> Result<Checkpointed> {
        let collection = self.collection(name).await?;
        self.0.checkpoint_with_indexes(&collection, For::Own).await
    }

    /// Finishes all Atomic transactions and brings all pending updates into pages. Requests for
    /// queues that this client has committed nothing to, as far as it knows, count for the stage
    /// `sweep`.
    ///
    /// # Errors
    /// As [`Database::checkpoint`].
    pub async fn settle(&self) -> Result<Checkpointed> {
        let collections = self.collections().await?;
        let (atomic, mut own) = {
            let work = self.0.work();
            let atomic = match work.finishing {
                true => For::Own,
                false => For::Others,
            };
            (atomic, work.checkpoints.clone())
        };
        while self.0.finish(atomic).await? {}
        if atomic == For::Own {
            own.extend(self.0.work().touched.iter().copied());
        }
        let checkpoints = collections.values().map(|collection| {
            let for_whom = match own.contains(&collection.id) {
                true => For::Own,
                false => For::Others,
            };
            self.0.checkpoint_with_indexes(collection, for_whom)
        });
        let mut sum = Checkpointed::default();
        for done in join_all(checkpoints).await {
            sum.add(&done?);
        }
        Ok(sum)
    }

    /// Ends the client: what it committed is brought into pages, as far as the cloud answers.
    ///
    /// # Errors
    /// Of the cloud; all that was committed stays in the queues for other clients.
    pub async fn close(self) -> Result<()> {
        let is_due = {
            let mut work = self.0.work();
            work.is_closed = true;
            work.finishing || !work.checkpoints.is_empty()
        };
        if is_due {
            self.settle().await?;
        }
        Ok(())
    }

    /// Verifies the tree of a collection: each page that its root leads to.
    ///
    /// # Errors
    /// `NotFound`: no such collection. Of the cloud. `Malformed`: a page cannot be read.
    pub async fn verify(&self, name: &str) -> Result<Report> {
        let collection = self.collection(name).await?;
        let pages = self.pages(&collection).await?;
        Ok(check(collection.root(), |id| pages.get(&id)))
    }

    /// All pages of a collection that its root leads to.
    pub(crate) async fn pages(&self, collection: &Collection) -> Result<BTreeMap<PageId, Page>> {
        let store = self.0.store.scope("verify");
        let tree = self.0.tree(&store, collection)?;
        let since = store.0.runtime.clock.monotonic();
        let mut pages = BTreeMap::new();
        let mut next = vec![collection.root()];
        while !next.is_empty() {
            let batch: Vec<PageId> = next.drain(..next.len().min(16)).collect();
            let reads = join_all(batch.iter().map(|id| tree.read(*id, since))).await;
            for (id, read) in batch.into_iter().zip(reads) {
                if let Some(held) = read? {
                    let links = held.page.children().chain(held.page.right());
                    next.extend(links.filter(|link| !pages.contains_key(link)));
                    pages.insert(id, held.page);
                }
            }
            next.sort_unstable();
            next.dedup();
            next.retain(|id| !pages.contains_key(id));
        }
        Ok(pages)
    }

    /// Lets this client checkpoint collections after a while.
    pub(crate) fn checkpoint_later(&self, collections: Vec<CollectionId>) {
        let new: Vec<CollectionId> = {
            let mut work = self.0.work();
            let collections = collections.into_iter();
            collections
                .filter(|id| work.checkpoints.insert(*id))
                .collect()
        };
        for id in new {
            let database = self.clone();
            let after = self.0.options.checkpoint_after;
            let work = async move {
                database.0.work().checkpoints.remove(&id);
                let known = || database.0.known().catalogue.by_id(id).cloned();
                let Some(collection) = known() else {
                    return;
                };
                match database.0.checkpoint(&collection, For::Own).await {
                    Ok(done) if done.entries == 0 => {}
                    Ok(_) => {
                        let known = known().unwrap_or(collection);
                        let indexes = known.index_trees().map(|tree| tree.id);
                        database.checkpoint_later(indexes.collect());
                    }
                    // A client that has the key checkpoints it.
                    Err(error) if error.kind == ErrorKind::Denied => {}
                    // Lost races and faults of the cloud: the records stay in their queue.
                    Err(error) => {
                        database.look_again(&error).await;
                        database.checkpoint_later(vec![id]);
                    }
                }
            };
            self.start(after, work.boxed());
        }
    }

    /// Lets this client finish its Atomic transactions after a while.
    pub(crate) fn finish_later(&self) {
        if std::mem::replace(&mut self.0.work().finishing, true) {
            return;
        }
        let database = self.clone();
        let after = self.0.options.finish_after;
        let work = async move {
            database.0.work().finishing = false;
            let mut is_more = true;
            while is_more {
                match database.0.finish(For::Own).await {
                    Ok(more) => is_more = more,
                    Err(error) => {
                        database.look_again(&error).await;
                        return database.finish_later();
                    }
                }
            }
            let touched = std::mem::take(&mut database.0.work().touched);
            database.checkpoint_later(touched.into_iter().collect());
        };
        self.start(after, work.boxed());
    }

    /// A queue that is not there belongs to a collection that was dropped: the catalogue knows.
    async fn look_again(&self, error: &Error) {
        if error.kind == ErrorKind::NotFound {
            // A failure shows at the next attempt.
            drop(self.collections().await);
        }
    }

    /// Runs work beside the caller, after a while; not at all when the client was closed meanwhile.
    fn start(&self, after: Duration, work: BoxFuture<'static, ()>) {
        let runtime = self.0.store.0.runtime.clone();
        let database = self.clone();
        let task = async move {
            database.0.store.0.runtime.clock.sleep(after).await;
            if !database.0.work().is_closed {
                work.await;
            }
        };
        drop(runtime.spawn(task));
    }
}

impl Inner {
    /// Sends on the records of Atomic transactions; whether there may be more.
    async fn finish(&self, for_whom: For) -> Result<bool> {
        let store = self.store.scope(for_whom.stage("atomic"));
        let pending = self.pending(&store);
        let adopting = pending.receive().await?;
        let trees: Vec<CollectionId> = adopting.parts.keys().copied().collect();
        // A tree that this client does not know is new, or was dropped: the catalogue knows.
        let is_unknown = |id: &CollectionId| self.known().catalogue.by_id(*id).is_none();
        if trees.iter().any(is_unknown) {
            self.read_catalogue().await?;
        }
        let known: Vec<Collection> = {
            let known = self.known();
            let find = |id| known.catalogue.by_id(id).cloned();
            trees.into_iter().filter_map(find).collect()
        };
        let mut sealed = BTreeMap::new();
        for tree in known {
            let sealer = self.sealer(&tree)?;
            sealed.insert(tree.id, (tree, sealer));
        }
        let known = sealed;
        let finished = pending.adopt(adopting, &known).await?;
        self.work().touched.extend(known.into_keys());
        Ok(finished > 0)
    }

    /// Brings all pending updates of a collection into its pages, and then those of its indexes.
    async fn checkpoint_with_indexes(
        &self,
        collection: &Collection,
        for_whom: For,
    ) -> Result<Checkpointed> {
        if !self.sealer(collection)?.is_open() {
            return Ok(Checkpointed {
                closed: 1,
                ..Checkpointed::default()
            });
        }
        let mut sum = self.checkpoint(collection, for_whom).await?;
        for tree in collection.index_trees() {
            sum.add(&self.checkpoint(tree, for_whom).await?);
        }
        Ok(sum)
    }

    /// Brings all pending updates of a collection, or of an index, into its pages.
    pub(crate) async fn checkpoint(
        &self,
        collection: &Collection,
        for_whom: For,
    ) -> Result<Checkpointed> {
        let numbers = 0..collection.queues;
        let queues = numbers.map(|number| self.drain(collection, number, for_whom));
        let mut sum = Checkpointed::default();
        for done in join_all(queues).await {
            sum.add(&done?);
        }
        Ok(sum)
    }

    async fn drain(
        &self,
        collection: &Collection,
        number: u16,
        for_whom: For,
    ) -> Result<Checkpointed> {
        let mut sum = Checkpointed::default();
        let mut lost = 0;
        for _ in 0..ROUNDS_MAX {
            match self.round(collection.id, number, for_whom).await? {
                Round::Empty => return Ok(sum),
                Round::Done(done) => {
                    lost = 0;
                    sum.add(&done);
                    if done.messages == 0 {
                        return Ok(sum);
                    }
                }
                Round::Lost => {
                    lost += 1;
                    if LOST_MAX <= lost {
                        let context = "other clients replace the pages faster";
                        let kind = ErrorKind::Unavailable { retry_after: None };
                        return Err(Error::new(kind, context));
                    }
                    let random = self.store.0.runtime.random() % 100;
                    let time = Duration::from_millis(random * u64::from(lost));
                    self.store.0.runtime.clock.sleep(time).await;
                }
            }
        }
        Ok(sum)
    }

    /// Peeks at messages, applies them, and removes them once the pages landed.
    async fn round(&self, id: CollectionId, number: u16, for_whom: For) -> Result<Round> {
        let store = self.store.scope(for_whom.stage("checkpoint"));
        let collection = &self.current(id).await?;
        // The builder of an index waits until no leaf is written without knowing it.
        let until = self.known().read_at + 2 * self.options.catalogue_ttl;
        let mut tree = self.tree(&store, collection)?;
        tree.splits = Some(self.store.scope("split"));
        tree.sealer.check()?;
        let pending = self.pending(&store);
        let queue = pending.queue(collection.id, number);
        let peek = Receive {
            max: MESSAGES_MAX,
            visibility: Some(Duration::ZERO),
            wait: Duration::ZERO,
        };
        let received = store.0.queues.receive(&queue, &peek).await?;
        if received.is_empty() {
            return Ok(Round::Empty);
        }
        let mut done = Checkpointed::default();
        let (mut records, mut receipts) = (Vec::new(), Vec::new());
        for message in received {
            let part = message::from_text(&message.body);
            match part.and_then(|part| message::decode_part(id, &tree.sealer, part)) {
                Ok(read) => {
                    records.extend(read);
                    receipts.push(message.receipt);
                }
                Err(error) if error.kind == ErrorKind::Denied => return Err(error),
                Err(_) => done.damaged += 1,
            }
        }
        self.session().observe(&records);
        if !self.options.guards.has(Guard::RemoveAfterPut) {
            pending.remove(&queue, &receipts).await?;
        }
        let way = Way {
            collection,
            fence: Fence::IfMatch,
            until,
        };
        let mut entries = self.asserted(&store, collection, &records).await?;
        let reflected = reflect(&tree, way, records).await?;
        entries.extend(reflected.contradicted);
        done.entries = entries.len() as u64;
        self.send_entries(&pending, collection, entries).await?;
        if !reflected.is_done && self.options.guards.has(Guard::KeepOnLostRace) {
            return Ok(Round::Lost);
        }
        pending.remove(&queue, &receipts).await?;
        done.messages = receipts.len() as u64;
        done.applied = reflected.applied;
        done.refused = reflected.refused;
        done.pages = reflected.pages;
        done.splits = reflected.splits;
        Ok(Round::Done(done))
    }
}
