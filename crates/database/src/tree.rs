//! Searching and changing the tree of a collection in the store, through the buffer pool.
//!
//! Invariants:
//! - TREE-1 a page that a split made is created before the page that leads to it is replaced.
//! - TREE-2 a page is replaced by If-Match on the version that the change was made from. So no
//!   write takes back a split, that of a Naive transaction neither.
//! - TREE-3 a change that was refused, or whose outcome is unknown, is dropped. Its caller deletes
//!   nothing, and a new page is never deleted: structure decides.
//! - TREE-4 a page that a link leads to and that is not there is read again; its keys are never
//!   taken for absent.
//! - TREE-5 where leaves have queues, that of a new leaf is created before the leaf.

use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use fader_blink::{Change, Edition, Page, PageId, Route, Separator, Sizes, post};
use fader_cloud::{Error, ErrorKind, Result};
use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt};
use object_store::{PutMode, UpdateVersion};

use crate::catalogue::CollectionId;
use crate::disk::Disk;
use crate::guard::{Guard, Guards};
use crate::layout::Place;
use crate::pending::queue_settings;
use crate::pool::{Pool, Use};
use crate::sealing::Sealer;
use crate::store::{Held, Put, Read, Store, is_passing, page};

/// How often a search begins again when a link leads to nothing.
const TRIES: u32 = 6;
/// Pages that one search visits, at most: a tree of damaged links ends.
const VISITS_MAX: usize = 10_000;
/// Leaves that are read at once.
pub(crate) const AHEAD_MAX: usize = 16;
/// Any version that the pool has.
const ANY_AGE: Duration = Duration::ZERO;

/// How old a page may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freshness {
    /// The store showed this version as the newest within this time before the search.
    Within(Duration),
    /// The store shows it during the search.
    Now,
}

/// What became of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Landed {
    /// The page has its next version.
    Yes,
    /// Another client was faster: the page has none of it.
    Outrun,
    /// The outcome is unknown.
    Unsure,
}

/// Where a search ended.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) id: PageId,
    pub(crate) held: Held,
    /// Splits that the parents did not know.
    pub(crate) unposted: Vec<Separator>,
}

/// Whose leaves have a queue each.
#[derive(Clone, Debug)]
pub(crate) struct LeafQueues {
    /// The database's name in the names of its queues.
    pub(crate) database: String,
    pub(crate) tree: CollectionId,
}

/// The tree of one collection as one client uses it.
#[derive(Clone, Debug)]
pub(crate) struct Tree<'a> {
    pub(crate) store: &'a Store,
    /// Where requests of splits count; with the others when there is none.
    pub(crate) splits: Option<Store>,
    pub(crate) pool: &'a Mutex<Pool>,
    pub(crate) disk: Option<&'a Disk>,
    pub(crate) id: CollectionId,
    pub(crate) root: PageId,
    /// None unless leaves have queues.
    pub(crate) leaf_queues: Option<LeafQueues>,
    pub(crate) sizes: Sizes,
    pub(crate) sealer: Sealer,
    /// Pages that are written at once.
    pub(crate) at_once: usize,
    pub(crate) guards: Guards,
    /// For what its pages are used.
    pub(crate) used: Use,
}

impl Tree<'_> {
    /// The same for work beside transactions.
    pub(crate) fn for_upkeep(self) -> Self {
        Tree {
            used: Use::Upkeep,
            ..self
        }
    }

    fn pool(&self) -> std::sync::MutexGuard<'_, Pool> {
        self.pool.lock().expect("nothing panics while it is locked")
    }

    /// Where its requests count.
    pub(crate) fn counted(&self) -> Store {
        self.store.of_tree(self.id)
    }

    fn now(&self) -> Duration {
        self.store.0.runtime.clock.monotonic()
    }

    /// A page, if it is there: a version that the store showed as the newest at `since` or later.
    pub(crate) async fn read(&self, id: PageId, since: Duration) -> Result<Option<Held>> {
        let begun = self.now();
        let pooled = self.pool().get(id, self.used);
        if let Some((held, seen)) = &pooled
            && since <= *seen
        {
            return Ok(Some(held.clone()));
        }
        let is_pooled = pooled.is_some();
        let known = match pooled {
            Some((held, _)) => Some(held),
            None => match self.on_disk(id, begun) {
                Some((held, Some(seen))) if since <= seen => {
                    self.pool().put(id, held.clone(), seen, self.used);
                    return Ok(Some(held));
                }
                kept => kept.map(|(held, _)| held),
            },
        };
        let version = known.as_ref().map(|held| &held.version);
        let read = self.counted().page(id, &self.sealer, version).await?;
        match (read, known) {
            (Read::Page(held, bytes), _) => {
                self.keep(id, &bytes, &held.version, begun);
                self.pool().put(id, (*held).clone(), begun, self.used);
                Ok(Some(*held))
            }
            (Read::Unchanged, Some(held)) => {
                match is_pooled {
                    true => self.pool().confirm(id, begun),
                    false => self.pool().put(id, held.clone(), begun, self.used),
                }
                if let Some(disk) = self.disk {
                    disk.confirm(id, begun);
                }
                Ok(Some(held))
            }
            (Read::Unchanged | Read::Missing, _) => Ok(None),
        }
    }

    /// A page in the disk tier, and when the store last showed it as the newest.
    fn on_disk(&self, id: PageId, now: Duration) -> Option<(Held, Option<Duration>)> {
        let kept = self.disk?.get(id)?;
        let page = page(id, &self.sealer, kept.bytes).ok()?;
        let version = kept.version;
        let seen = match self.guards.has(Guard::ConfirmKept) {
            true => kept.seen,
            false => Some(now),
        };
        Some((Held { page, version }, seen))
    }

    /// Keeps a version that the store showed as the newest at `seen`, in the disk tier.
    fn keep(&self, id: PageId, bytes: &Bytes, version: &UpdateVersion, seen: Duration) {
        if let Some(disk) = self.disk {
            disk.put(id, bytes, version, seen);
        }
    }

    /// The leaf of `key`.
    pub(crate) async fn leaf(&self, key: &[u8], freshness: Freshness) -> Result<Found> {
        self.find(key, 0, freshness).await
    }

    /// The page of `level` whose range has `key`. `freshness` is that of pages of this level; those
    /// above may be of any age, since links to the right lead on.
    ///
    /// # Errors
    /// Of the store; `NotFound`: the tree has no such level or no root; `Malformed`: a link leads
    /// to nothing.
    pub(crate) async fn find(&self, key: &[u8], level: u8, freshness: Freshness) -> Result<Found> {
        let mut tries = 1;
        let mut above = ANY_AGE;
        let since = match freshness {
            Freshness::Within(time) => self.now().saturating_sub(time),
            Freshness::Now => self.now(),
        };
        loop {
            match self.descend(key, level, since, above).await {
                Err(Lost::Again) if tries < TRIES => {
                    self.store.pause(tries).await;
                    above = self.now();
                    tries += 1;
                }
                Err(Lost::Again) => {
                    let context =
                        format!("the tree of root {}: a link leads to nothing", self.root);
                    return Err(Error::new(ErrorKind::Malformed, context));
                }
                Err(Lost::Error(error)) => return Err(error),
                Ok(found) => return Ok(found),
            }
        }
    }

    async fn descend(
        &self,
        key: &[u8],
        level: u8,
        since: Duration,
        above: Duration,
    ) -> std::result::Result<Found, Lost> {
        let mut unposted = Vec::new();
        let mut id = self.root;
        for _ in 0..VISITS_MAX {
            let mut held = self.step(id, above).await?;
            if held.page.level() == level {
                held = self.step(id, since).await?;
            }
            if held.page.level() < level {
                let context = format!("the tree of root {} has no level {level}", self.root);
                return Err(Error::new(ErrorKind::NotFound, context).into());
            }
            id = match held.page.route(key) {
                Route::Elsewhere => return Err(Lost::Again),
                Route::Right(right) => {
                    unposted.push(self.separator(&held.page, right));
                    right
                }
                Route::Here => return Ok(Found { id, held, unposted }),
                Route::Down(_) if held.page.level() == level => {
                    return Ok(Found { id, held, unposted });
                }
                Route::Down(child) => child,
            };
        }
        let context = format!("the tree of root {}: a search does not end", self.root);
        Err(Error::new(ErrorKind::Malformed, context).into())
    }

    async fn step(&self, id: PageId, since: Duration) -> std::result::Result<Held, Lost> {
        match self.read(id, since).await {
            Ok(Some(held)) => Ok(held),
            Ok(None) if id == self.root => {
                let context = format!("root {id} is not there: was the collection dropped?");
                Err(Error::new(ErrorKind::NotFound, context).into())
            }
            Ok(None) => Err(Lost::Again),
            Err(error) => Err(Lost::Error(error)),
        }
    }

    /// Whether the pool has a page as the store showed it at `since` or later.
    pub(crate) fn has(&self, id: PageId, since: Duration) -> bool {
        let known = self.pool().get(id, self.used);
        known.is_some_and(|(_, seen)| since <= seen)
    }

    /// Reads leaves in parallel, so that searches find them in the pool.
    pub(crate) async fn read_ahead(&self, mut leaves: Vec<PageId>, since: Duration) -> Result<()> {
        leaves.sort_unstable();
        leaves.dedup();
        {
            let mut pool = self.pool();
            leaves.retain(|id| {
                pool.get(*id, self.used)
                    .is_none_or(|(_, seen)| seen < since)
            });
        }
        if leaves.len() < 2 {
            return Ok(());
        }
        let reads = leaves.into_iter().map(|id| self.read(id, since));
        let mut reads = stream::iter(reads).buffer_unordered(AHEAD_MAX);
        while let Some(read) = reads.next().await {
            read?;
        }
        Ok(())
    }

    /// The leaf of a key and up to `count` of its right neighbours, as far as the pool knows.
    pub(crate) fn known_leaves(&self, key: &[u8], count: usize) -> Vec<PageId> {
        let mut pool = self.pool();
        let mut id = self.root;
        for _ in 0..VISITS_MAX {
            let Some((held, _)) = pool.get(id, self.used) else {
                break;
            };
            id = match held.page.route(key) {
                Route::Here => return vec![id],
                Route::Elsewhere => break,
                Route::Right(right) => right,
                Route::Down(child) if held.page.level() == 1 => {
                    let from = held.page.children().skip_while(|id| *id != child);
                    return from.take(count + 1).collect();
                }
                Route::Down(child) => child,
            };
        }
        Vec::new()
    }

    /// The leaf that this client believes to have a key. Only pages above it are read, and only if
    /// the pool has none.
    ///
    /// # Errors
    /// As [`Tree::find`].
    pub(crate) async fn believed_leaf(&self, key: &[u8]) -> Result<PageId> {
        let mut id = match self.known_leaves(key, 0).first() {
            Some(known) => *known,
            None => {
                let any_age = Freshness::Within(Duration::MAX);
                match self.find(key, 1, any_age).await {
                    Ok(parent) => match parent.held.page.route(key) {
                        Route::Down(child) => child,
                        _ => parent.id,
                    },
                    // The root is a leaf.
                    Err(error) if error.kind == ErrorKind::NotFound => self.root,
                    Err(error) => return Err(error),
                }
            }
        };
        // Splits that the parent does not know.
        let mut pool = self.pool();
        for _ in 0..VISITS_MAX {
            match pool
                .get(id, self.used)
                .map(|(held, _)| held.page.route(key))
            {
                Some(Route::Right(right)) => id = right,
                _ => break,
            }
        }
        Ok(id)
    }

    fn separator(&self, page: &Page, right: PageId) -> Separator {
        let high = page.high().expect("a page with a right sibling");
        Separator {
            level: page.level(),
            key: high.to_vec().into(),
            child: right,
        }
    }

    /// Writes a change of the page `id`, which was read as `old`.
    pub(crate) async fn write(&self, id: PageId, old: &Held, change: &Change) -> Result<Landed> {
        let is_right_first = self.guards.has(Guard::RightPageFirst);
        if is_right_first && self.create(change).await? != Landed::Yes {
            return Ok(Landed::Unsure);
        }
        let mode = match self.guards.has(Guard::PageIfMatch) {
            true => PutMode::Update(old.version.clone()),
            false => PutMode::Overwrite,
        };
        let now = self.now();
        let put = self
            .counted()
            .put_page(id, &self.sealer, &change.page, mode)
            .await;
        if let Ok((Put::Landed(version), sealed)) = put {
            self.keep(id, &sealed, &version, now);
            let page = change.page.clone();
            self.pool().put(id, Held { page, version }, now, self.used);
            if !is_right_first {
                return self.create(change).await;
            }
            return Ok(Landed::Yes);
        }
        self.pool().remove(id);
        if let Some(disk) = self.disk {
            disk.doubt(id);
        }
        match put.map(|(put, _)| put) {
            Ok(Put::Unknown(_)) if !self.guards.has(Guard::UnknownIsNotLanded) => Ok(Landed::Yes),
            Ok(Put::Refused) => Ok(Landed::Outrun),
            Ok(_) => Ok(Landed::Unsure),
            Err(error) if matches!(error.kind, ErrorKind::Unavailable { .. }) => Ok(Landed::Unsure),
            Err(error) => Err(error),
        }
    }

    /// Creates the queues of leaves that a split makes.
    async fn create_queues(&self, change: &Change, store: &Store) -> Result<()> {
        let Some(leaves) = &self.leaf_queues else {
            return Ok(());
        };
        if !self.guards.has(Guard::LeafQueueFirst) {
            return Ok(());
        }
        let new = change.created.iter().filter(|(_, page)| page.is_leaf());
        let created = new.map(|(id, _)| leaves.create(store, *id));
        join_all(created).await.into_iter().collect()
    }

    /// Creates the pages that a split makes.
    async fn create(&self, change: &Change) -> Result<Landed> {
        let now = self.now();
        let store = self.splits.as_ref().unwrap_or(self.store);
        let store = &store.of_tree(self.id);
        match self.create_queues(change, store).await {
            Err(error) if is_passing(&error) => return Ok(Landed::Unsure),
            created => created?,
        }
        let puts = change.created.iter().map(async |(id, page)| {
            let put = store
                .put_page(*id, &self.sealer, page, PutMode::Create)
                .await;
            if let Ok((Put::Landed(version), sealed)) = &put {
                self.keep(*id, sealed, version, now);
                let (page, version) = (page.clone(), version.clone());
                self.pool().put(*id, Held { page, version }, now, self.used);
            }
            put.map(|(put, _)| put)
        });
        for put in join_all(puts).await {
            match put {
                Ok(Put::Landed(_)) => {}
                Ok(Put::Refused | Put::Unknown(_)) => return Ok(Landed::Unsure),
                Err(error) if matches!(error.kind, ErrorKind::Unavailable { .. }) => {
                    return Ok(Landed::Unsure);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Landed::Yes)
    }

    /// Posts separators to the parents of their pages. Searches work without, so a post that does
    /// not land is left to the next checkpoint that comes by.
    pub(crate) async fn post(&self, separators: Vec<Separator>) -> Result<()> {
        let of_splits = self.splits.as_ref().map(|store| Tree {
            store,
            splits: None,
            ..self.clone()
        });
        of_splits
            .as_ref()
            .unwrap_or(self)
            .post_all(separators)
            .await
    }

    async fn post_all(&self, separators: Vec<Separator>) -> Result<()> {
        let mut rest = separators;
        while let Some(separator) = rest.pop() {
            let level = separator.level + 1;
            let parent = match self.find(&separator.key, level, Freshness::Now).await {
                Err(error) if error.kind == ErrorKind::NotFound => continue,
                other => other?,
            };
            let posted = {
                let runtime = &self.store.0.runtime;
                let mut random = random(runtime);
                let mut edition = edition(runtime, &self.sealer, &mut random);
                post(&parent.held.page, &[separator], &self.sizes, &mut edition)
            };
            if let Some(conflict) = posted.conflicts.first() {
                let context = format!(
                    "page {}: it names another child at the key of page {}",
                    parent.id, conflict.child
                );
                return Err(Error::new(ErrorKind::Malformed, context));
            }
            let Some(change) = posted.change else {
                continue;
            };
            let landed = self.write(parent.id, &parent.held, &change);
            if landed.await? == Landed::Yes {
                rest.extend(change.separators);
            }
        }
        Ok(())
    }
}

impl LeafQueues {
    /// Creates the queue of a leaf, unless it is there.
    ///
    /// # Errors
    /// Of the queues.
    pub(crate) async fn create(&self, store: &Store, leaf: PageId) -> Result<()> {
        let queue = Place::Leaf(leaf).name(&self.database, self.tree);
        let queues = &store.0.queues;
        queues.create(&queue, &queue_settings()).await
    }
}

/// Why a search did not end.
enum Lost {
    /// Read again: a page is not there yet, or is older than the page that led to it.
    Again,
    Error(Error),
}

impl From<Error> for Lost {
    fn from(error: Error) -> Self {
        Lost::Error(error)
    }
}

/// Random bytes for nonces and the ids of new pages.
pub(crate) fn random(
    runtime: &fader_cloud::Runtime,
) -> impl FnMut() -> [u8; fader_blink::NONCE_BYTES] + '_ {
    || {
        let mut bytes = [0; fader_blink::NONCE_BYTES];
        runtime.entropy.fill(&mut bytes);
        bytes
    }
}

/// What new versions of pages need.
pub(crate) fn edition<'a>(
    runtime: &fader_cloud::Runtime,
    sealer: &Sealer,
    random: &'a mut dyn FnMut() -> [u8; fader_blink::NONCE_BYTES],
) -> Edition<'a> {
    Edition {
        key: sealer.current(),
        written_ms: u64::try_from(runtime.clock.wall().as_millis()).unwrap_or(u64::MAX),
        random,
    }
}
