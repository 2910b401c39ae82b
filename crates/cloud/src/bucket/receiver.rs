//! Receives of one process from one queue: the lists that they share, and the segments that are
//! left to try (rules Q4, Q9, Q10).
//!
//! Invariants:
//! - RECEIVER-1 a receive says that there is nothing only after a list that began after it did.
//! - RECEIVER-2 a receive tries the segments of such a list, however long list and claims take.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_channel::oneshot;
use futures_util::stream::StreamExt;
use object_store::path::Path;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::guard::Guard;
use super::markers::foreign;
use super::names::{Incarnation, Part, SegmentName, parse_part, parts_below};
use super::operations::like;
use super::segment_handle::{Listed, SegmentHandle, part_key};
use super::store::{Store, modified};
use super::time::GRAIN;
use crate::error::{Error, Result};
use crate::queues::QueueSettings;

/// Keys of a page of a list.
const PAGE: usize = 1000;
/// How long what a list showed is used by receives that began after it.
const LIST_KEPT: Duration = Duration::from_secs(1);
/// Lists in a row without a segment of another process, after which a process receives alone.
const ALONE_LISTS: u32 = 2;
/// Leftovers that one list deletes, at most.
const LEFTOVERS_MAX: usize = 64;
/// Segments whose states are kept, at most.
const HANDLES_MAX: usize = 2048;

/// A segment to try.
#[derive(Debug)]
struct Candidate {
    handle: Arc<SegmentHandle>,
    listed: Option<Listed>,
    /// Messages that may be visible still.
    left: usize,
}

/// A segment as a list shows it.
#[derive(Debug)]
pub(super) struct Shown {
    pub(super) name: SegmentName,
    /// Its state's, if it has one.
    pub(super) state: Option<Listed>,
}

/// What a list shows of a queue.
#[derive(Debug, Default)]
struct Listing {
    segments: Vec<Shown>,
    /// Objects to delete, in this order.
    leftovers: Vec<Path>,
}

/// How a receive comes to its list.
enum Begun {
    /// It makes it, with this number.
    List(u64),
    /// Another receive made it.
    Shared(Result<()>),
}

/// What receives of one incarnation share.
#[derive(Debug)]
pub(super) struct Receiver {
    store: Store,
    folder: Path,
    incarnation: Incarnation,
    retention: Duration,
    visibility: Duration,
    /// Of this process, for the order of segments.
    seed: u64,
    inner: Mutex<Inner>,
    /// Held while a list is under way.
    listing: futures_util::lock::Mutex<()>,
}

#[derive(Debug, Default)]
struct Inner {
    handles: BTreeMap<SegmentName, Arc<SegmentHandle>>,
    pool: VecDeque<Candidate>,
    /// The number of the list that filled the pool.
    pool_of: u64,
    /// When that list was sent.
    pool_at: Duration,
    /// The segment that was tried last, unless another process was faster.
    last: Option<SegmentName>,
    /// Lists in a row that showed segments, and none that another process holds.
    alone: u32,
    begun: u64,
    /// The number of the last list that ended, and why it failed if it did.
    ended: u64,
    failed: Option<Error>,
    sleeping: Vec<oneshot::Sender<()>>,
}

impl Inner {
    /// Whether a receive uses the pool: its list is young, or numbered above `after`, so that it
    /// began after the receive did.
    fn serves(&self, after: u64, now: Duration) -> bool {
        after < self.pool_of || now <= self.pool_at + LIST_KEPT
    }
}

impl Receiver {
    pub(super) fn new(
        store: &Store,
        folder: Path,
        incarnation: Incarnation,
        settings: QueueSettings,
    ) -> Self {
        Receiver {
            store: store.clone(),
            folder,
            incarnation,
            retention: settings.retention,
            visibility: settings.visibility,
            seed: store.runtime.random(),
            inner: Mutex::default(),
            listing: futures_util::lock::Mutex::new(()),
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner
            .lock()
            .expect("nothing panics while it is locked")
    }

    /// A segment of the queue as this process works on it.
    pub(super) fn handle(&self, name: SegmentName) -> Arc<SegmentHandle> {
        let mut inner = self.inner();
        if HANDLES_MAX <= inner.handles.len() {
            // What is idle can be read again.
            inner.handles.retain(|_, handle| !handle.is_idle());
        }
        let made = || {
            Arc::new(SegmentHandle::new(
                &self.store,
                &self.folder,
                self.incarnation,
                name,
            ))
        };
        inner.handles.entry(name).or_insert_with(made).clone()
    }

    /// The number of the last list that began.
    pub(super) fn begun(&self) -> u64 {
        self.inner().begun
    }

    /// Whether the last list that ended is numbered above `after`, and showed the queue.
    pub(super) fn has_listed(&self, after: u64) -> bool {
        let inner = self.inner();
        after < inner.ended && inner.failed.is_none()
    }

    /// Lets receives look at once.
    pub(super) fn wake(&self) {
        let sleeping = std::mem::take(&mut self.inner().sleeping);
        for sleeper in sleeping {
            // The sleeper may have gone.
            let _ = sleeper.send(());
        }
    }

    /// Returns at the next [`Receiver::wake`], or after this time.
    pub(super) async fn sleep(&self, time: Duration) {
        let woken = self.woken();
        self.store.runtime.timeout(time, woken).await;
    }

    /// The life of the queue that it is of.
    pub(super) fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    fn woken(&self) -> oneshot::Receiver<()> {
        let (sender, woken) = oneshot::channel();
        let mut inner = self.inner();
        inner.sleeping.retain(|sleeper| !sleeper.is_canceled());
        inner.sleeping.push(sender);
        woken
    }

    /// Whether there is a segment to try, for a receive that may use any list numbered above
    /// `after`: above 0, whether any is left of the last list.
    pub(super) fn has_candidates(&self, after: u64) -> bool {
        let now = self.store.now();
        let inner = self.inner();
        !inner.pool.is_empty() && inner.serves(after, now)
    }

    /// The next segment to try, for a receive of at most `max` messages that may use any list
    /// numbered above `after`.
    pub(super) fn pick(&self, max: usize, after: u64) -> Option<Arc<SegmentHandle>> {
        let now = self.store.now();
        let mut inner = self.inner();
        if !inner.serves(after, now) {
            // A receive that began before that list uses it still.
            return None;
        }
        let first = inner.pool.front_mut()?;
        let handle = first.handle.clone();
        let listed = first.listed.clone();
        first.left = first.left.saturating_sub(max);
        if first.left == 0 {
            inner.pool.pop_front();
        }
        inner.last = Some(handle.name());
        drop(inner);
        handle.hint(listed.as_ref());
        Some(handle)
    }

    /// Drops what was listed: another process was faster, so more of it is out of date. No receive
    /// says that there is nothing before the next list.
    pub(super) fn forget(&self) {
        let mut inner = self.inner();
        inner.pool.clear();
        inner.last = None;
        inner.alone = 0;
        inner.ended = 0;
    }

    /// Lists beside the caller if there are segments to try and other processes may receive, so
    /// that the next receive knows which segments they have claimed.
    pub(super) fn refresh(self: &Arc<Self>) {
        let (is_alone, after) = {
            let inner = self.inner();
            (ALONE_LISTS <= inner.alone, inner.begun)
        };
        if is_alone || !self.has_candidates(0) {
            return;
        }
        let receiver = self.clone();
        let list = async move {
            // A receive that lists reports the failure.
            let _ = receiver.list(after).await;
        };
        drop(self.store.runtime.spawn(list));
    }

    /// Gives up a segment: nothing is visible there.
    pub(super) fn give_up(&self, handle: &Arc<SegmentHandle>) {
        let mut inner = self.inner();
        inner
            .pool
            .retain(|candidate| !Arc::ptr_eq(&candidate.handle, handle));
    }

    /// Waits for a list that began after the one numbered `after`, and makes it if no other receive
    /// does. Its segments are then there to pick.
    ///
    /// # Errors
    /// Those of that list, for each receive that waited for it.
    pub(super) async fn list(&self, after: u64) -> Result<()> {
        let ended = self.inner().ended;
        let turn = self.listing.lock().await;
        let number = match self.begin(after, ended) {
            Begun::List(number) => number,
            Begun::Shared(outcome) => return outcome,
        };
        let sent = self.store.now();
        let listing = self.read_list(PAGE).await;
        let found = listing.map(|listing| self.take_over(listing, number, sent));
        let mut inner = self.inner();
        inner.ended = number;
        inner.failed = found.as_ref().err().map(like);
        drop(inner);
        drop(turn);
        if found.is_ok() {
            self.wake();
        }
        found
    }

    /// Begins a list, unless one after `after` has ended. One that failed counts only if it ended
    /// after the one numbered `ended`.
    fn begin(&self, after: u64, ended: u64) -> Begun {
        let mut inner = self.inner();
        if after < inner.ended {
            match &inner.failed {
                None => return Begun::Shared(Ok(())),
                Some(error) if ended < inner.ended => return Begun::Shared(Err(like(error))),
                Some(_) => {}
            }
        }
        inner.begun += 1;
        Begun::List(inner.begun)
    }

    /// Makes a pool of what was listed, in an order of this process.
    fn take_over(&self, listing: Listing, number: u64, sent: Duration) {
        let mut pool: Vec<Candidate> = Vec::new();
        for shown in listing.segments {
            let handle = self.handle(shown.name);
            let left = handle.visible_of(shown.state.as_ref());
            // A state that is known and not listed is newer than the list.
            let left = left.unwrap_or(shown.name.count);
            if 0 < left {
                let listed = shown.state;
                pool.push(Candidate {
                    handle,
                    listed,
                    left,
                });
            }
        }
        let last = self.inner().last;
        let is_alone = self.sort(&mut pool, last);
        let mut inner = self.inner();
        inner.alone = match is_alone {
            _ if pool.is_empty() => inner.alone,
            true => inner.alone.saturating_add(1),
            false => 0,
        };
        inner.pool = pool.into();
        inner.pool_of = number;
        inner.pool_at = sent;
        drop(inner);
        self.delete(listing.leftovers);
    }

    /// Puts segments, which come in the order of their names, in the order of this process:
    /// those that follow the segment of its last claim up to another process's, then the others by
    /// hash, then those that are held. Whether no other process holds one.
    ///
    /// So processes that claim at once keep apart. Without a last claim, or after a lost race, the
    /// hash says where to begin: not next to another process's segment, if possible.
    fn sort(&self, pool: &mut Vec<Candidate>, last: Option<SegmentName>) -> bool {
        let held: Vec<bool> = pool.iter().map(|one| self.is_held(one)).collect();
        let hashes: Vec<u64> = pool
            .iter()
            .map(|one| self.hash(one.handle.name()))
            .collect();
        let next = last.and_then(|last| pool.iter().position(|one| last < one.handle.name()));
        let next = next.filter(|index| !held[*index]);
        let free = (0..pool.len()).filter(|index| !held[*index]);
        let mut others = pool.iter().zip(&held);
        let is_alone = !others.any(|(one, is_held)| *is_held && one.handle.is_idle());
        let is_beside = |index: usize| 0 < index && held[index - 1];
        let begin = next.or_else(|| free.min_by_key(|index| (is_beside(*index), hashes[*index])));
        let begin = begin.unwrap_or(pool.len());
        let mut is_in_run = false;
        let ranked = pool.drain(..).enumerate().map(|(index, candidate)| {
            is_in_run = (is_in_run || index == begin) && !held[index];
            let rank = match is_in_run {
                true => (false, 0),
                false => (held[index], hashes[index].max(1)),
            };
            (rank, candidate)
        });
        let mut ranked: Vec<_> = ranked.collect();
        // Stable: a run stays in the order of names.
        ranked.sort_by_key(|(rank, _)| *rank);
        pool.extend(ranked.into_iter().map(|(_, candidate)| candidate));
        is_alone
    }

    fn hash(&self, name: SegmentName) -> u64 {
        xxh3_64_with_seed(name.to_string().as_bytes(), self.seed)
    }

    /// Whether another process probably holds a segment: its state is unknown and younger than the
    /// queue's visibility.
    fn is_held(&self, candidate: &Candidate) -> bool {
        let now = self.store.clock.lower(self.store.now());
        let is_known = candidate
            .handle
            .visible_of(candidate.listed.as_ref())
            .is_some();
        let modified = candidate.listed.as_ref().map(|listed| listed.modified);
        !is_known && modified.is_some_and(|modified| now < modified + self.visibility + GRAIN)
    }

    /// Deletes leftovers beside the caller.
    fn delete(&self, leftovers: Vec<Path>) {
        if leftovers.is_empty() {
            return;
        }
        let store = self.store.clone();
        let deletes = async move {
            for key in leftovers {
                // The next list deletes it otherwise.
                if store.delete_surely(&key).await.is_err() {
                    return;
                }
            }
        };
        drop(self.store.runtime.spawn(deletes));
    }

    /// The segments in the order of their names; for a peek.
    pub(super) async fn shown(&self) -> Result<Vec<Shown>> {
        self.segments(PAGE).await
    }

    /// All segments.
    pub(super) async fn all(&self) -> Result<Vec<Shown>> {
        self.segments(usize::MAX).await
    }

    async fn segments(&self, page: usize) -> Result<Vec<Shown>> {
        let listing = self.read_list(page).await?;
        self.delete(listing.leftovers);
        Ok(listing.segments)
    }

    /// Lists the queue: pages until there is a segment to try, or the end.
    async fn read_list(&self, page: usize) -> Result<Listing> {
        let mut keys = self.store.list(&self.folder);
        let mut listing = Listing::default();
        let mut states: BTreeMap<SegmentName, Listed> = BTreeMap::new();
        let mut count = 0_usize;
        while let Some(meta) = keys.next().await {
            let meta = meta?;
            count += 1;
            let parts = parts_below(&self.folder, &meta.location);
            let parsed = match parts.as_slice() {
                [last] => parse_part(last, self.store.guards.has(Guard::StatesFirst)),
                _ => None,
            };
            let Some((name, part)) = parsed else {
                return Err(foreign(&meta.location));
            };
            let modified = modified(&meta);
            match part {
                Part::State => {
                    // States sort before their segments: an earlier one has none.
                    self.orphans(&mut states, &mut listing, |known| *known < name);
                    let e_tag = meta.e_tag;
                    let listed = Listed { e_tag, modified };
                    if self.store.guards.has(Guard::StatesFirst) {
                        states.insert(name, listed);
                    } else {
                        self.late_state(&mut listing, name, listed);
                    }
                }
                Part::Segment if self.is_over(modified) => {
                    let state = states.remove(&name);
                    self.retire(&mut listing, name, state.is_some());
                }
                Part::Segment => {
                    let state = states.remove(&name);
                    listing.segments.push(Shown { name, state });
                }
            }
            if page <= count && count.is_multiple_of(page) && !listing.segments.is_empty() {
                return Ok(listing);
            }
        }
        self.orphans(&mut states, &mut listing, |_| true);
        Ok(listing)
    }

    fn orphans(
        &self,
        states: &mut BTreeMap<SegmentName, Listed>,
        listing: &mut Listing,
        is_over: impl Fn(&SegmentName) -> bool,
    ) {
        if !self.store.guards.has(Guard::Orphans) {
            return;
        }
        let over: Vec<SegmentName> = states
            .keys()
            .copied()
            .filter(|name| is_over(name))
            .collect();
        for name in over {
            states.remove(&name);
            if listing.leftovers.len() < LEFTOVERS_MAX {
                listing.leftovers.push(self.key(name, Part::State));
            }
        }
    }

    /// A state that is listed after all segments; for a mutant.
    fn late_state(&self, listing: &mut Listing, name: SegmentName, listed: Listed) {
        let mut segments = listing.segments.iter_mut();
        match segments.find(|shown| shown.name == name) {
            Some(shown) => shown.state = Some(listed),
            None => listing.leftovers.push(self.key(name, Part::State)),
        }
    }

    /// Whether a segment of this Last-Modified is past the queue's retention.
    fn is_over(&self, modified: Duration) -> bool {
        let now = self.store.clock.lower(self.store.now());
        modified.saturating_add(self.retention) < now
    }

    fn retire(&self, listing: &mut Listing, name: SegmentName, has_state: bool) {
        if LEFTOVERS_MAX <= listing.leftovers.len() {
            return;
        }
        let segment = self.key(name, Part::Segment);
        let state = has_state.then(|| self.key(name, Part::State));
        match self.store.guards.has(Guard::SegmentBeforeStateRetention) {
            true => listing
                .leftovers
                .extend([Some(segment), state].into_iter().flatten()),
            false => listing
                .leftovers
                .extend([state, Some(segment)].into_iter().flatten()),
        }
    }

    fn key(&self, name: SegmentName, part: Part) -> Path {
        let last = part_key(&self.store, name, part);
        self.folder.clone().join(last)
    }
}
