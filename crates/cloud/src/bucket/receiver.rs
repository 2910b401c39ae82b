//! Receives of one process from one queue: the lists that they share, and the segments that are
//! left to try (rules BQUEUE-4, BQUEUE-9, BQUEUE-10).
//!
//! A list goes on to its next page while it showed no segment that is probably free. Then the
//! states of those that other processes probably hold are read.
//!
//! Invariants:
//! - a receive says that there is nothing only after a list that began after it did.
//! - RECEIVER-2 a receive tries all segments of such a list, however many pages it has and however
//!   long list and claims take.

mod pages;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_channel::oneshot;
use futures_util::future::join_all;
use object_store::path::Path;

use super::listing::{Listed, Pages, Shown};
use super::names::{Incarnation, SegmentName};
use super::pool::{Candidate, hash, sort};
use super::segment_handle::{SegmentHandle, View};
use super::store::Store;
use super::time::GRAIN;
use crate::error::{Error, Result, like};
use crate::queues::QueueSettings;

/// How long what a list showed is used by receives that began after it.
const LIST_KEPT: Duration = Duration::from_secs(1);
/// Lists in a row without a segment of another process, after which a process receives alone.
const ALONE_LISTS: u32 = 2;
/// Segments are scarce where fewer than so many are free for each that another process holds.
const SCARCE: usize = 2;
/// Segments whose states are kept, at most.
const HANDLES_MAX: usize = 2048;
/// The part of them that goes when there are more.
const EVICTED: u64 = 8;
/// Segments that others probably hold, after which states are read before the next page is.
const HELD_MAX: usize = 1024;
/// States that are read at once.
pub(super) const LOOKS: usize = 16;

/// What a list has left to show.
#[derive(Debug, Default)]
enum Rest {
    #[default]
    Nothing,
    Pages(Pages),
    /// A receive reads them, or died while it did.
    BeingRead,
}

/// What a receive does next.
enum Next {
    /// It tries this segment.
    Try(Arc<SegmentHandle>),
    /// Something has to be read before.
    Read,
    /// There is nothing to try.
    Nothing,
}

/// What has to be read before the next segment is tried.
enum Unread {
    Nothing,
    /// The states of these segments.
    States(Vec<(SegmentName, Listed)>),
    /// More of the list; so many candidates are left of what was read.
    Pages(Pages, usize),
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
    /// In the order in which they are tried.
    pool: VecDeque<Candidate>,
    rest: Rest,
    /// The number of the list that filled the pool.
    pool_of: u64,
    /// When that list was sent.
    pool_at: Duration,
    /// The segment that was tried last, unless another process was faster.
    last: Option<SegmentName>,
    /// Lists in a row that showed segments, and none that another process holds.
    alone: u32,
    /// Whether another process was faster at a segment of the list.
    has_lost: bool,
    /// Segments of the list that were looked at in vain.
    vain: usize,
    /// Lists of all kinds.
    lists: u64,
    begun: u64,
    /// The number of the last list that ended, and why it failed if it did.
    ended: u64,
    failed: Option<Error>,
    sleeping: Vec<oneshot::Sender<()>>,
}

impl Inner {
    fn forget(&mut self) {
        self.pool.clear();
        self.rest = Rest::Nothing;
        self.last = None;
        self.alone = 0;
        self.ended = 0;
    }

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
            // What is idle can be read again. Most of it stays: a process that reads more states
            // than it keeps, again and again, finds most of them here.
            let salt = self.store.runtime.random();
            let stays = |name| !hash(salt, name).is_multiple_of(EVICTED);
            let handles = &mut inner.handles;
            handles.retain(|name, handle| !handle.is_idle() || stays(*name));
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

    /// Whether there is something to try, for a receive that may use any list numbered above
    /// `after`. Above 0, whether any is left of the last list.
    pub(super) fn has_candidates(&self, after: u64) -> bool {
        let now = self.store.now();
        let inner = self.inner();
        let is_read = matches!(inner.rest, Rest::Nothing);
        (!inner.pool.is_empty() || !is_read) && inner.serves(after, now)
    }

    /// The next segment to try, for a receive of at most `max` messages that may use any list
    /// numbered above `after`.
    ///
    /// # Errors
    /// Those of further pages and of states.
    pub(super) async fn pick(&self, max: usize, after: u64) -> Result<Option<Arc<SegmentHandle>>> {
        loop {
            match self.next(max, after) {
                Next::Try(handle) => return Ok(Some(handle)),
                Next::Nothing => return Ok(None),
                Next::Read => self.read_next(after).await?,
            }
        }
    }

    fn next(&self, max: usize, after: u64) -> Next {
        let now = self.store.now();
        let mut inner = self.inner();
        if !inner.serves(after, now) {
            // A receive that began before that list uses it still.
            return Next::Nothing;
        }
        let is_read = matches!(inner.rest, Rest::Nothing);
        let Some(first) = inner.pool.front_mut() else {
            return if is_read { Next::Nothing } else { Next::Read };
        };
        if !first.is_known {
            return Next::Read;
        }
        let (name, listed) = (first.name, first.listed.clone());
        first.left = first.left.saturating_sub(max);
        if first.left == 0 {
            inner.pool.pop_front();
        }
        inner.last = Some(name);
        drop(inner);
        let handle = self.handle(name);
        handle.hint(listed.as_ref());
        Next::Try(handle)
    }

    /// Reads what is not known of the first segments, or more of the list, for all receives.
    async fn read_next(&self, after: u64) -> Result<()> {
        let _turn = self.listing.lock().await;
        match self.unread(after) {
            Unread::Nothing => Ok(()),
            Unread::States(states) => self.look(states).await,
            Unread::Pages(pages, pooled) => {
                let read = self.read(pages, pooled).await;
                let Ok((found, rest)) = read else {
                    self.forget();
                    return read.map(drop);
                };
                let mut inner = self.inner();
                // Unless it was forgotten meanwhile.
                if matches!(inner.rest, Rest::BeingRead) {
                    let mut pool: Vec<Candidate> = inner.pool.drain(..).chain(found).collect();
                    sort(&mut pool, inner.last, self.seed);
                    inner.pool = pool.into();
                    inner.rest = rest;
                }
                Ok(())
            }
        }
    }

    /// What to read next. The caller holds `listing`.
    fn unread(&self, after: u64) -> Unread {
        let now = self.store.now();
        let mut inner = self.inner();
        if matches!(inner.rest, Rest::BeingRead) {
            // Its reader was dropped.
            inner.forget();
        }
        let first = inner.pool.front();
        if !inner.serves(after, now) || first.is_some_and(|one| one.is_known) {
            return Unread::Nothing;
        }
        let is_free = first.is_some_and(|one| !one.is_held);
        let pooled = inner.pool.len();
        if !is_free
            && pooled < HELD_MAX
            && matches!(inner.rest, Rest::Pages(_))
            && let Rest::Pages(pages) = std::mem::replace(&mut inner.rest, Rest::BeingRead)
        {
            return Unread::Pages(pages, pooled);
        }
        let unknown = inner.pool.iter().filter(|one| !one.is_known);
        let states = unknown.filter_map(|one| Some((one.name, one.listed.clone()?)));
        // As many as were looked at in vain.
        let count = if is_free { inner.vain } else { LOOKS };
        Unread::States(states.take(count.clamp(1, LOOKS)).collect())
    }

    /// Reads states, and drops the segments where nothing is visible. If nothing is left of the
    /// list then, the store's time may have to be learned (BQUEUE-11).
    async fn look(&self, states: Vec<(SegmentName, Listed)>) -> Result<()> {
        let looks = states.iter().map(|(name, listed)| {
            let handle = self.handle(*name);
            async move { handle.look(listed).await }
        });
        let views = join_all(looks).await;
        let mut is_hidden = false;
        let mut failed = None;
        for ((name, _), view) in states.iter().zip(views) {
            let view = view.unwrap_or_else(|error| {
                failed = Some(error);
                None
            });
            is_hidden |= view.is_some_and(|view| !self.looked(*name, &view));
        }
        let is_over = {
            let mut inner = self.inner();
            let before = inner.pool.len();
            let looked = |name| states.iter().any(|(looked, _)| *looked == name);
            // What is not known now is hidden or gone.
            inner.pool.retain(|one| one.is_known || !looked(one.name));
            inner.vain += before - inner.pool.len();
            inner.pool.make_contiguous().sort_by_key(|one| one.is_held);
            inner.pool.is_empty() && matches!(inner.rest, Rest::Nothing)
        };
        if is_over && is_hidden && self.store.learn_time().await {
            self.forget();
        }
        failed.map_or(Ok(()), Err)
    }

    /// Notes the state of a segment of the pool; whether a message is visible there.
    fn looked(&self, name: SegmentName, view: &View) -> bool {
        let left = view.visible(&self.store);
        let mut inner = self.inner();
        let mut pool = inner.pool.iter_mut();
        let known = pool.find(|one| one.name == name);
        if let Some(one) = known.filter(|_| 0 < left) {
            one.listed = view.listed().or(one.listed.take());
            (one.left, one.is_known, one.is_held) = (left, true, false);
        }
        0 < left
    }

    /// Drops what was listed. No receive says that there is nothing before the next list.
    pub(super) fn forget(&self) {
        self.inner().forget();
    }

    /// Another process was faster at this segment: more of what was listed is out of date, and is
    /// dropped. Where segments are scarce a first loss says little: there the next one is tried
    /// while a new list is made.
    pub(super) fn lost(self: &Arc<Self>, handle: &SegmentHandle) {
        let mut inner = self.inner();
        let mut pool = Vec::from(std::mem::take(&mut inner.pool));
        pool.retain(|one| one.name != handle.name());
        let held = pool.iter().filter(|one| one.is_held).count();
        let is_scarce = pool.len() - held < SCARCE * held;
        sort(&mut pool, None, self.seed);
        let is_known = pool.first().is_some_and(|one| one.is_known);
        if std::mem::replace(&mut inner.has_lost, true) || !is_scarce || !is_known {
            inner.forget();
            return;
        }
        inner.pool = pool.into();
        (inner.last, inner.alone, inner.ended) = (None, 0, 0);
        drop(inner);
        self.refresh();
    }

    /// Lists beside the caller if there are segments to try and other processes may receive. So the
    /// next receive knows which segments they have claimed.
    pub(super) fn refresh(self: &Arc<Self>) {
        let (is_alone, has_segments, after) = {
            let inner = self.inner();
            let is_alone = ALONE_LISTS <= inner.alone;
            (is_alone, !inner.pool.is_empty(), inner.begun)
        };
        if is_alone || !has_segments {
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
    pub(super) fn give_up(&self, handle: &SegmentHandle) {
        self.inner().pool.retain(|one| one.name != handle.name());
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
        let read = self.read(self.pages(), 0).await;
        let found = read.map(|(pool, rest)| self.take_over(pool, rest, number, sent));
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

    /// Fills the pool with what was listed.
    fn take_over(&self, mut pool: Vec<Candidate>, rest: Rest, number: u64, sent: Duration) {
        let mut inner = self.inner();
        sort(&mut pool, inner.last, self.seed);
        let is_idle = |one: &Candidate| {
            let handle = inner.handles.get(&one.name);
            handle.is_none_or(|handle| handle.is_idle())
        };
        let is_alone = !pool.iter().any(|one| one.is_held && is_idle(one));
        inner.alone = match is_alone {
            _ if pool.is_empty() => inner.alone,
            true => inner.alone.saturating_add(1),
            false => 0,
        };
        (inner.vain, inner.has_lost) = (0, false);
        inner.pool = pool.into();
        inner.rest = rest;
        inner.pool_of = number;
        inner.pool_at = sent;
    }

    /// Reads pages until one shows a segment that is probably free, or there are many to look at.
    async fn read(&self, mut pages: Pages, pooled: usize) -> Result<(Vec<Candidate>, Rest)> {
        let mut found = Vec::new();
        loop {
            let page = self.page(&mut pages).await?;
            found.extend(
                page.segments
                    .into_iter()
                    .filter_map(|one| self.candidate(one)),
            );
            if page.is_last {
                return Ok((found, Rest::Nothing));
            }
            let is_free = found.iter().any(|one| !one.is_held);
            if is_free || HELD_MAX <= pooled + found.len() {
                return Ok((found, Rest::Pages(pages)));
            }
        }
    }

    /// A segment to try, unless nothing is visible there.
    fn candidate(&self, shown: Shown) -> Option<Candidate> {
        let handle = self.inner().handles.get(&shown.name).cloned();
        let visible = handle.and_then(|handle| handle.visible_of(shown.state.as_ref()));
        let is_young = |listed: &Listed| {
            let now = self.store.clock.lower(self.store.now());
            now < listed.modified + self.visibility + GRAIN
        };
        // A state that is known and not listed is newer than the list.
        let is_known = visible.is_some() || shown.state.is_none();
        let left = visible.unwrap_or(shown.name.count);
        (0 < left).then(|| Candidate {
            name: shown.name,
            left,
            is_known,
            is_held: !is_known && shown.state.as_ref().is_some_and(is_young),
            listed: shown.state,
        })
    }
}
