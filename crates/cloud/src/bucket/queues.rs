//! Queues in a bucket (docs/explanation/bucket.md, rules BQUEUE-1 to BQUEUE-12).
//!
//! ```text
//! send ──▶ Sender ──▶ PUT segment
//! receive ──▶ Receiver ──▶ LIST ──▶ SegmentHandle ──▶ PUT state, GET segment
//! remove, hide ──────────────────▶ SegmentHandle ──▶ PUT state, or DELETE segment and state
//! ```
//!
//! Invariants:
//! - QUEUES-1 an idle process makes no request.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_channel::oneshot;
use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use object_store::ObjectStore;
use object_store::path::Path;

use super::catalog::{Catalog, Known};
use super::guard::Guard;
use super::listing::Shown;
use super::markers::READS_AT_ONCE;
use super::names::{Held, Holding};
use super::operations::Claimed;
use super::receiver::LOOKS;
use super::segment_handle::SegmentHandle;
use super::sender::Send;
use super::state::{Operation, Seen};
use super::store::Store;
use crate::error::{Error, ErrorKind, Result};
use crate::queues::{
    PEEKED_BYTES_MAX, Peeked, QueueCounts, QueueSettings, Queues, Receipt, Receive, Received,
    WAIT_MAX, check_count, check_texts, check_visibility,
};
use crate::runtime::Runtime;

/// The first pause between the lists of a receive that waits, and the longest.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Queues in a bucket, as one process uses them. Clones are the same.
#[derive(Clone, Debug)]
pub struct BucketQueues(Arc<Catalog>);

/// A queue as a list of a bucket shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueReport {
    /// Its name.
    pub name: String,
    /// How many messages it has.
    pub counts: QueueCounts,
    /// How long ago its oldest segment was sent, by a lower bound of the store's time.
    pub age: Option<Duration>,
    /// Bytes of its objects.
    pub bytes: u64,
}

impl BucketQueues {
    /// The queues below a prefix of a bucket, which may be empty. `objects` must sends a
    /// conditional PUT at most once, and decide it (docs/explanation/bucket.md).
    pub fn new(objects: Arc<dyn ObjectStore>, prefix: Path, runtime: Runtime) -> Self {
        BucketQueues::of(Store::new(objects, prefix, runtime))
    }

    /// The same without one of the guards: for mutants.
    #[cfg(feature = "mutants")]
    pub fn without(
        guard: Guard,
        objects: Arc<dyn ObjectStore>,
        prefix: Path,
        runtime: Runtime,
    ) -> Self {
        let mut store = Store::new(objects, prefix, runtime);
        store.guards = super::guard::Guards::without(guard);
        BucketQueues::of(store)
    }

    fn of(store: Store) -> Self {
        BucketQueues(Arc::new(Catalog::new(store)))
    }

    /// Deletes, or only names, what is left of dead incarnations of all queues, and of processes
    /// that died while they learned the store's time.
    ///
    /// # Errors
    /// Those of the requests; `Malformed` names an object that is not this service's.
    pub async fn sweep(&self, is_dry_run: bool) -> Result<Vec<String>> {
        let mut left = Vec::new();
        let clocks = self.0.store.list(&self.0.store.key(&["clock"]));
        let clocks: Vec<Path> = clocks.map_ok(|meta| meta.location).try_collect().await?;
        left.extend(clocks.iter().map(|key| key.as_ref().to_owned()));
        if !is_dry_run {
            self.0.store.delete_all(clocks).await?;
        }
        for name in self.0.markers.all(&self.0.store, "").await? {
            let keys = self.0.leftovers(&name.0).await?;
            left.extend(keys.iter().map(|key| key.as_ref().to_owned()));
            if !is_dry_run {
                self.0.store.delete_all(keys).await?;
            }
        }
        Ok(left)
    }

    /// The queues, each with its depth, age and bytes.
    ///
    /// # Errors
    /// Those of the requests; `Malformed` names an object that is not this service's.
    pub async fn report(&self) -> Result<Vec<QueueReport>> {
        let mut reports = Vec::new();
        for name in self.list("").await? {
            let known = self.0.queue(&name).await?;
            let mut keys = self.0.store.list(&known.folder);
            let (mut bytes, mut oldest) = (0, None::<Duration>);
            while let Some(meta) = keys.next().await {
                let meta = meta?;
                bytes += meta.size;
                let modified = super::store::modified(&meta);
                oldest = Some(oldest.map_or(modified, |oldest| oldest.min(modified)));
            }
            let now = self.0.store.moment().store;
            reports.push(QueueReport {
                counts: self.counts(&name).await?,
                age: oldest.map(|oldest| now.saturating_sub(oldest)),
                bytes,
                name,
            });
        }
        Ok(reports)
    }
}

impl Catalog {
    /// A receive with visibility 0: all in its own call, and nothing written (BQUEUE-9). Segments
    /// without a state come first: they cost one request.
    async fn receive_shown(&self, known: &Known, max: usize) -> Result<Vec<Received>> {
        let mut pages = known.receiver.pages();
        loop {
            let page = known.receiver.page(&mut pages).await?;
            let (with, without): (Vec<Shown>, Vec<Shown>) = page
                .segments
                .into_iter()
                .partition(|one| one.state.is_some());
            for shown in without {
                let found = self.peek_at(known, &shown, None, max).await?;
                if !found.is_empty() {
                    return Ok(found);
                }
            }
            for some in with.chunks(LOOKS) {
                let looks = some.iter().map(|shown| self.look(known, shown));
                let seen = join_all(looks).await;
                for (shown, seen) in some.iter().zip(seen) {
                    let Some(seen) = seen? else { continue };
                    let found = self.peek_at(known, shown, seen, max).await?;
                    if !found.is_empty() {
                        return Ok(found);
                    }
                }
            }
            if page.is_last {
                return Ok(Vec::new());
            }
        }
    }

    /// The state of a segment that has one; `None` if both are gone. A mutant does not look.
    async fn look(&self, known: &Known, shown: &Shown) -> Result<Option<Option<Seen>>> {
        match &shown.state {
            Some(listed) if self.store.guards.has(Guard::PeekState) => {
                let handle = known.receiver.handle(shown.name);
                let view = handle.look(listed).await?;
                Ok(view.map(|view| Some(view.seen)))
            }
            _ => Ok(Some(None)),
        }
    }

    /// Visible messages of a segment, by its state if there is one.
    async fn peek_at(
        &self,
        known: &Known,
        shown: &Shown,
        seen: Option<Seen>,
        max: usize,
    ) -> Result<Vec<Received>> {
        let handle = known.receiver.handle(shown.name);
        handle.hint(shown.state.as_ref());
        let at = self.store.moment();
        let visible = match &seen {
            Some(seen) => seen.visible(&at, &self.store.guards),
            None => (0..shown.name.count).collect(),
        };
        if visible.is_empty() {
            return Ok(Vec::new());
        }
        let Some(bodies) = handle.read_segment().await? else {
            return Ok(Vec::new());
        };
        let visible = visible.into_iter().take(max);
        Ok(peeked(&handle, &bodies, seen.as_ref(), visible))
    }

    /// Messages that were not removed, hidden or not.
    async fn peek(&self, known: &Known, max: usize) -> Result<Peeked> {
        let mut pages = known.receiver.pages();
        let mut peeked = Peeked::default();
        let mut bytes = 0;
        loop {
            let page = known.receiver.page(&mut pages).await?;
            let segments = stream::iter(page.segments);
            let mut reads = segments
                .map(|shown| async move { self.left(known, &shown).await })
                .buffered(LOOKS);
            while let Some(found) = reads.next().await {
                let found = found?;
                bytes += found.iter().map(|one| one.body.len()).sum::<usize>();
                peeked.messages.extend(found);
                if max < peeked.messages.len() || PEEKED_BYTES_MAX < bytes {
                    peeked.messages.truncate(max);
                    return Ok(peeked);
                }
            }
            if page.is_last {
                peeked.is_all = true;
                return Ok(peeked);
            }
        }
    }

    /// The messages of a segment that were not removed.
    async fn left(&self, known: &Known, shown: &Shown) -> Result<Vec<Received>> {
        let seen = match self.look(known, shown).await? {
            Some(seen) => seen,
            // Removed to the last one.
            None => return Ok(Vec::new()),
        };
        let handle = known.receiver.handle(shown.name);
        let Some(bodies) = handle.read_segment().await? else {
            return Ok(Vec::new());
        };
        let is_left = |index: &usize| {
            let entry = seen
                .as_ref()
                .and_then(|seen| seen.state.entries.get(*index));
            entry.is_none_or(|entry| !entry.is_removed)
        };
        let left = (0..bodies.len()).filter(is_left);
        Ok(peeked(&handle, &bodies, seen.as_ref(), left))
    }

    /// Claims messages of a segment; none if another process was faster, or the claim is over
    /// before they are here (BQUEUE-5).
    async fn claim(
        &self,
        known: &Known,
        handle: &Arc<SegmentHandle>,
        max: usize,
        visibility: Duration,
    ) -> Result<Vec<Received>> {
        let claimed = handle.claim(max, visibility).await?;
        match claimed {
            Claimed::Messages(messages, end) => {
                let is_in_time = self.store.now() < end || !self.store.guards.has(Guard::InTime);
                Ok(if is_in_time { messages } else { Vec::new() })
            }
            Claimed::Nothing => {
                known.receiver.lost(handle);
                Ok(Vec::new())
            }
            Claimed::GivenUp => {
                known.receiver.give_up(handle);
                Ok(Vec::new())
            }
            Claimed::Hidden => {
                known.receiver.give_up(handle);
                if !known.receiver.has_candidates(0) && self.store.learn_time().await {
                    known.receiver.forget();
                }
                Ok(Vec::new())
            }
        }
    }

    /// The handle and the operation of a receipt; `None` if the message's queue is gone.
    fn of_receipt(
        &self,
        known: &Known,
        receipt: &Receipt,
    ) -> Result<Option<(Arc<SegmentHandle>, Held)>> {
        let held = Held::parse(receipt)?;
        let is_living = held.incarnation == known.receiver.incarnation();
        Ok(is_living.then(|| (known.receiver.handle(held.segment), held)))
    }
}

/// Messages of a segment as a peek shows them.
fn peeked(
    handle: &SegmentHandle,
    bodies: &[String],
    seen: Option<&Seen>,
    indices: impl Iterator<Item = usize>,
) -> Vec<Received> {
    let had_state = seen.is_some();
    let messages = indices.map(|index| {
        let entry = seen.and_then(|seen| seen.state.entries.get(index));
        let receives = entry.map_or(0, |entry| entry.receives) + 1;
        handle.message(index, bodies, receives, Holding::Peek { had_state })
    });
    messages.collect()
}

#[async_trait]
impl Queues for BucketQueues {
    async fn create(&self, queue: &str, settings: &QueueSettings) -> Result<()> {
        self.0.create(queue, settings).await
    }

    async fn delete(&self, queue: &str) -> Result<()> {
        self.0.delete(queue).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<String>> {
        self.0.markers.living(&self.0.store, prefix).await
    }

    async fn send(&self, queue: &str, bodies: &[String]) -> Result<Vec<Result<String>>> {
        check_count(bodies.len())?;
        check_texts(bodies)?;
        let known = self.0.queue(queue).await?;
        let (reply, answer) = oneshot::channel();
        let send = Send {
            bodies: bodies.to_vec(),
            reply,
        };
        let sender = known.sender.clone();
        if sender.push(send) {
            let (inner, queue) = (self.0.clone(), queue.to_owned());
            let work = sender.work(inner.store.clone(), move || {
                let (inner, queue) = (inner.clone(), queue.clone());
                async move { inner.queue(&queue).await }
            });
            drop(self.0.store.runtime.spawn(work));
        }
        let over = || Error::new(ErrorKind::Ambiguous, "the process ends");
        let ids = answer.await.map_err(|_| over())??;
        Ok(ids.into_iter().map(Ok).collect())
    }

    fn groups_sends(&self) -> bool {
        true
    }

    fn forgets(&self) -> bool {
        false
    }

    async fn peek(&self, queue: &str, max: usize) -> Result<Option<Peeked>> {
        let known = self.0.queue(queue).await?;
        self.0.peek(&known, max).await.map(Some)
    }

    async fn receive(&self, queue: &str, how: &Receive) -> Result<Vec<Received>> {
        check_count(how.max)?;
        check_visibility(how.visibility.unwrap_or_default())?;
        if WAIT_MAX < how.wait {
            let context = format!("a receive waits at most {WAIT_MAX:?}");
            return Err(Error::new(ErrorKind::Invalid, context));
        }
        let inner = &self.0;
        let until = inner.store.now() + how.wait;
        let mut pause = PAUSE;
        let mut known = inner.queue(queue).await?;
        let mut seen = known.receiver.begun();
        loop {
            let settings = known.settings.settings;
            let visibility = how.visibility.unwrap_or(settings.visibility);
            let is_empty = if visibility.is_zero() {
                let found = inner.receive_shown(&known, how.max).await?;
                if !found.is_empty() {
                    return Ok(found);
                }
                true
            } else if let Some(handle) = known.receiver.pick(how.max, seen).await? {
                let found = inner.claim(&known, &handle, how.max, visibility).await?;
                if !found.is_empty() {
                    return Ok(found);
                }
                false
            } else {
                known.receiver.has_listed(seen)
            };
            if !is_empty {
                if !visibility.is_zero() && !known.receiver.has_candidates(seen) {
                    known.receiver.list(seen).await?;
                }
                continue;
            }
            let now = inner.store.now();
            if until <= now {
                return Ok(Vec::new());
            }
            seen = known.receiver.begun();
            known.receiver.sleep(pause.min(until - now)).await;
            pause = (pause * 2).min(PAUSE_MAX);
            let before = std::mem::replace(&mut known, inner.queue(queue).await?);
            if !Arc::ptr_eq(&before.receiver, &known.receiver) {
                // The queue's next life numbers its lists anew.
                seen = known.receiver.begun();
            }
        }
    }

    async fn remove(&self, queue: &str, receipts: &[Receipt]) -> Result<Vec<Result<()>>> {
        check_count(receipts.len())?;
        let known = self.0.queue(queue).await?;
        let removes = receipts.iter().map(|receipt| async {
            let Some((handle, held)) = self.0.of_receipt(&known, receipt)? else {
                return Ok(());
            };
            let operation = Operation::Remove {
                index: held.index,
                holding: held.holding,
            };
            handle.write(operation).await
        });
        known.receiver.refresh();
        Ok(join_all(removes).await)
    }

    async fn hide(&self, queue: &str, receipt: &Receipt, time: Duration) -> Result<()> {
        check_visibility(time)?;
        let known = self.0.queue(queue).await?;
        let strange = || {
            let context = "the message is not in flight with this receipt";
            Error::new(ErrorKind::Invalid, context)
        };
        let found = self.0.of_receipt(&known, receipt)?;
        let (handle, held) = found.ok_or_else(strange)?;
        let Holding::Claim(claim) = held.holding else {
            return Err(strange());
        };
        let hidden = handle
            .write(Operation::Hide {
                index: held.index,
                claim,
                time,
            })
            .await;
        if time.is_zero() && hidden.is_ok() {
            known.receiver.wake();
        }
        hidden
    }

    async fn counts(&self, queue: &str) -> Result<QueueCounts> {
        let known = self.0.queue(queue).await?;
        let mut pages = known.receiver.pages();
        let mut segments = Vec::new();
        loop {
            let page = known.receiver.page(&mut pages).await?;
            segments.extend(page.segments);
            if page.is_last {
                break;
            }
        }
        let counted = stream::iter(segments).map(|shown| {
            let known = &known;
            async move {
                let Some(listed) = &shown.state else {
                    return Ok((shown.name.count as u64, 0));
                };
                let handle = known.receiver.handle(shown.name);
                let Some(view) = handle.look(listed).await? else {
                    return Ok((0, 0));
                };
                let visible = view.visible(&self.0.store) as u64;
                let entries = view.seen.state.entries.iter();
                let left = entries.filter(|entry| !entry.is_removed).count() as u64;
                Ok::<_, Error>((visible, left - visible))
            }
        });
        let counts = counted.buffer_unordered(READS_AT_ONCE);
        let counts = counts.try_fold(
            QueueCounts::default(),
            |sum, (visible, in_flight)| async move {
                Ok(QueueCounts {
                    visible: sum.visible + visible,
                    in_flight: sum.in_flight + in_flight,
                })
            },
        );
        counts.await
    }
}
