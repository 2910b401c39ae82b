//! What clients do beside transactions: checkpoints, finishing Atomic transactions, verifying.
//!
//! Nothing runs without a cause: a client works on what it committed, and on what it is told to.
//! An idle database costs no request.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fader_cloud::{Error, ErrorKind, Result};
use futures_util::future::{BoxFuture, FutureExt, join_all};
use futures_util::stream::{self, StreamExt};

use crate::catalogue::{Collection, CollectionId};
use crate::database::{Database, Inner};
use crate::guard::Guard;
use crate::hint::Hint;
use crate::layout::Place;
use crate::message;
use crate::pending::Pending;
use crate::reflect::{Way, reflect, reflect_leaf};
use crate::routing::{Due, Outgoing, Routed};

/// Rounds of one checkpoint, at most: a queue that grows faster than it is emptied ends there.
const ROUNDS_MAX: u32 = 10_000;
/// How often a lost race for a page is tried again in a row.
const LOST_MAX: u32 = 20;
/// Queues of leaves that are worked on at once.
const QUEUES_AT_ONCE: usize = 16;

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
    /// Records that were sent on from the queues of leaves to that of their tree: their page split
    /// after they were sent.
    pub forwarded: u64,
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
        self.forwarded += other.forwarded;
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
    /// The queue of a leaf is not there: what was meant for it went to that of the tree.
    Gone,
    Done {
        done: Checkpointed,
        /// Whether the queue had no other messages when it was looked at.
        was_all: bool,
    },
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
            let own = work.checkpoints.iter().map(|due| due.tree);
            (atomic, own.collect::<BTreeSet<_>>())
        };
        while self.0.finish(atomic).await? {}
        if atomic == For::Own {
            own.extend(self.0.work().touched.iter().map(|due| due.tree));
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

    /// Lets this client checkpoint queues after a while.
    pub(crate) fn checkpoint_later(&self, dues: Vec<Due>) {
        let mut new: BTreeMap<CollectionId, Vec<Due>> = BTreeMap::new();
        {
            let mut work = self.0.work();
            for due in dues {
                if work.checkpoints.insert(due) {
                    new.entry(due.tree).or_default().push(due);
                }
            }
        }
        for dues in new.into_values() {
            let database = self.clone();
            let work = async move {
                let at_once = database.0.queues_at_once();
                let checkpoints = dues.into_iter().map(|due| database.checkpoint_due(due));
                let mut checkpoints = stream::iter(checkpoints).buffer_unordered(at_once);
                while let Some(more) = checkpoints.next().await {
                    database.checkpoint_later(more);
                }
            };
            self.start(self.0.options.checkpoint_after, work.boxed());
        }
    }

    /// Checkpoints a queue, or those of a tree; what is to be checkpointed after that.
    async fn checkpoint_due(&self, due: Due) -> Vec<Due> {
        {
            let mut work = self.0.work();
            work.checkpoints.remove(&due);
            if !work.active.insert(due) {
                return vec![due];
            }
        }
        let next = self.checkpoint_now(due).await;
        self.0.work().active.remove(&due);
        next
    }

    async fn checkpoint_now(&self, due: Due) -> Vec<Due> {
        let known = || self.0.known().catalogue.by_id(due.tree).cloned();
        let Some(tree) = known() else {
            return Vec::new();
        };
        let done = match due.leaf {
            Some(leaf) => self.0.drain(&tree, Place::Leaf(leaf), For::Own).await,
            None => match self.checkpoint_in_turn(&tree).await {
                Ok(Some(done)) => Ok(done),
                Ok(None) => return vec![due],
                Err(error) => Err(error),
            },
        };
        match done {
            Ok(done) => {
                let mut next = Vec::new();
                next.extend((done.forwarded > 0).then_some(Due::of_tree(due.tree)));
                if done.entries > 0 {
                    let known = known().unwrap_or(tree);
                    next.extend(known.index_trees().map(|tree| Due::of_tree(tree.id)));
                }
                next
            }
            // A client that has the key checkpoints it.
            Err(error) if error.kind == ErrorKind::Denied => Vec::new(),
            // Lost races and faults of the cloud: the records stay in their queue.
            Err(error) => {
                self.look_again(&error).await;
                vec![due]
            }
        }
    }

    /// Brings what is in a tree's queues with numbers into its pages, unless another client does.
    async fn checkpoint_in_turn(&self, tree: &Collection) -> Result<Option<Checkpointed>> {
        let store = self.0.store.scope("checkpoint").of_tree(tree.id);
        let hint = self.0.ask_hint(&store, tree.id).await;
        if hint == Hint::Wait {
            return Ok(None);
        }
        let done = self.0.drain_numbered(tree, For::Own).await;
        self.0.give_hint_back(&store, tree.id, hint).await;
        done.map(Some)
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
        let mut adopting = pending.transactions().await?;
        let is_more = adopting.is_more;
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
        let opened = Pending::open(&mut adopting, sealed);
        let routes = opened.parts.into_iter();
        let routed = join_all(routes.map(|part| self.route(&store, part))).await;
        let mut touched: BTreeSet<Due> = routed.iter().flat_map(Routed::dues).collect();
        touched.extend(opened.sealed.keys().map(|(tree, _)| Due::of_tree(*tree)));
        pending.adopt(adopting, &routed, opened.sealed).await?;
        self.work().touched.extend(touched);
        Ok(is_more)
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
        let store = self.store.scope(for_whom.stage("checkpoint"));
        let pending = self.pending(&store);
        let leaves = pending.leaves_with_queues(collection.id, collection.queues);
        let leaves = leaves.await?.into_iter();
        let drains = leaves.map(|leaf| self.drain(collection, Place::Leaf(leaf), for_whom));
        let mut drains = stream::iter(drains).buffer_unordered(self.queues_at_once());
        let mut sum = Checkpointed::default();
        while let Some(done) = drains.next().await {
            sum.add(&done?);
        }
        // After the leaves: what these send on comes here.
        sum.add(&self.drain_numbered(collection, for_whom).await?);
        Ok(sum)
    }

    /// Brings what is in a tree's queues with numbers into its pages.
    async fn drain_numbered(&self, collection: &Collection, for_whom: For) -> Result<Checkpointed> {
        let numbers = 0..collection.queues.numbered();
        let drains = numbers.map(|number| self.drain(collection, Place::Number(number), for_whom));
        let mut sum = Checkpointed::default();
        for done in join_all(drains).await {
            sum.add(&done?);
        }
        Ok(sum)
    }

    /// Queues of leaves that are worked on at once.
    fn queues_at_once(&self) -> usize {
        match self.options.is_one_by_one {
            true => 1,
            false => QUEUES_AT_ONCE,
        }
    }

    async fn drain(
        &self,
        collection: &Collection,
        place: Place,
        for_whom: For,
    ) -> Result<Checkpointed> {
        let mut sum = Checkpointed::default();
        let mut lost = 0;
        for _ in 0..ROUNDS_MAX {
            match self.round(collection.id, place, for_whom).await? {
                Round::Empty => return Ok(sum),
                Round::Gone => {
                    sum.forwarded += 1;
                    return Ok(sum);
                }
                Round::Done { done, was_all } => {
                    lost = 0;
                    sum.add(&done);
                    if done.messages == 0 || was_all {
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
    async fn round(&self, id: CollectionId, place: Place, for_whom: For) -> Result<Round> {
        let store = self.store.scope(for_whom.stage("checkpoint"));
        let store = store.of_tree(id);
        let pending = self.pending(&store);
        let queue = pending.queue(id, place);
        let peeked = match (pending.peek(&queue).await, place) {
            (Err(error), Place::Leaf(_)) if error.kind == ErrorKind::NotFound => {
                return Ok(Round::Gone);
            }
            (peeked, _) => peeked?,
        };
        if peeked.messages.is_empty() {
            return Ok(Round::Empty);
        }
        // Read after the messages: a long queue takes its time, which is not the leaves'.
        let collection = &self.current(id).await?;
        // The builder of an index waits until no leaf is written without knowing it.
        let until = self.known().read_at + 2 * self.options.catalogue_ttl;
        let mut tree = self.tree(&store, collection)?.for_upkeep();
        tree.splits = Some(self.store.scope("split"));
        tree.sealer.check()?;
        let mut done = Checkpointed::default();
        let (mut records, mut receipts) = (Vec::new(), Vec::new());
        for message in peeked.messages {
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
            is_lost_to_others: false,
            until,
        };
        let mut entries = self.asserted(&store, collection, &records).await?;
        let reflected = match place {
            Place::Leaf(leaf) => reflect_leaf(&tree, way, leaf, records).await?,
            _ => reflect(&tree, way, records).await?,
        };
        entries.extend(reflected.contradicted);
        done.entries = entries.len() as u64;
        self.send_entries(&pending, collection, entries).await?;
        if !reflected.is_done && self.options.guards.has(Guard::KeepOnLostRace) {
            return Ok(Round::Lost);
        }
        done.forwarded = reflected.elsewhere.len() as u64;
        if !self.options.guards.has(Guard::ForwardFirst) {
            pending.remove(&queue, &receipts).await?;
        }
        let others = Outgoing::of(collection, &tree.sealer, reflected.elsewhere);
        pending.send(&[others.into_tree()]).await?;
        pending.remove(&queue, &receipts).await?;
        done.messages = receipts.len() as u64;
        done.applied = reflected.applied;
        done.refused = reflected.refused;
        done.pages = reflected.pages;
        done.splits = reflected.splits;
        Ok(Round::Done {
            done,
            was_all: peeked.is_all,
        })
    }
}
