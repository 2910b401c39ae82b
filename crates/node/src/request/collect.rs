//! Blocks that no version names go. Their rows go on requests of this node where it decides for
//! their chain, then their bytes do (`member/blocks`). Bytes are read again in the background.
//!
//! ```text
//! garbage ─ seen, the safe point past it ─ 15 min ─▶ rows of its blocks go ─▶ its own row goes
//! lease over, or given up ─▶ fence ─▶ the row goes, or the lease ends, or it is asked again
//!     └─ closed ─ seen, the safe point past it ─▶ barrier ─▶ the row goes, or the lease ends
//! ```
//!
//! Invariants:
//! - garbage waits (GWAIT-1) at the head. A new head begins anew.
//! - COLLECT-2 a row goes after its garbage's wait, or after its attempt's fence was committed.
//! - COLLECT-3 garbage's own row goes last.
//! - COLLECT-4 attempts are given up where their uploads came, with or without a member there; all
//!   else is done where the head is.
//! - COLLECT-5 a closed attempt ends after a barrier that began when the safe point had passed what
//!   closed it. The barrier settles all that members held of it.
//!
//! What a round does not finish the next one does. Nothing is remembered over a start.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fader_chain::{ChainId, EntryId};
use fader_services::blocks::{self, Command, Fenced, Found, LeaseAt, Owner, ROWS_MAX, Row, Waits};
use fader_services::request::{Outcome, Request};
use fader_services::{Call, ViewError};
use parking_lot::Mutex;
use tokio::task::JoinSet;

use super::Router;
use super::deliver::Reach;
use super::tend::Tending;
use crate::cluster::Cluster;
use crate::member::Member;
use crate::storage::blocks::BlockId;

/// Rows that one step deals with.
const ROUND: usize = 256;
/// Steps of one round.
const STEPS: usize = 64;
/// Blocks of attempts that were given up, that wait; others are left to their leases.
const GIVEN_UP_MAX: usize = 1 << 16;
/// How often the notes of fences move, as parts of a lease.
const NOTES_PER_LEASE: u64 = 24;

/// Blocks of attempts that will not be committed, with their chains.
#[derive(Debug, Default)]
pub(crate) struct GivenUp(Mutex<Vec<(ChainId, Owner, u128)>>);

impl GivenUp {
    /// These of an attempt are to go soon.
    pub(crate) fn add(&self, owner: Owner, blocks: impl IntoIterator<Item = (ChainId, u128)>) {
        let mut all = self.0.lock();
        let room = GIVEN_UP_MAX.saturating_sub(all.len());
        let blocks = blocks.into_iter().take(room);
        all.extend(blocks.map(|(chain, id)| (chain, owner, id)));
    }

    /// Up to a round of those of a chain.
    fn take(&self, chain: ChainId) -> Vec<(Owner, u128)> {
        let mut count = 0;
        let mut all = self.0.lock();
        let taken = all.extract_if(.., |(of, ..)| {
            let is_taken = *of == chain && count < ROUND;
            count += usize::from(is_taken);
            is_taken
        });
        taken.map(|(_, owner, id)| (owner, id)).collect()
    }
}

/// The thread that lets blocks go.
#[derive(Debug)]
pub(crate) struct Collector {
    is_ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Collector {
    /// Starts it for a node.
    ///
    /// # Errors
    /// What the operating system says.
    pub(crate) fn start(router: &Arc<Router>, look: Duration) -> io::Result<Collector> {
        let is_ending = Arc::new(AtomicBool::new(false));
        let (router, is_over) = (Arc::downgrade(router), is_ending.clone());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()?;
        let builder = std::thread::Builder::new().name("blocks".to_owned());
        let thread = builder.spawn(move || {
            let mut rounds = Rounds::default();
            while rest(look, &is_over) {
                let Some(router) = Weak::upgrade(&router) else {
                    return;
                };
                runtime.block_on(rounds.round(&router));
                rounds.tending.round(&router, &is_over);
            }
        })?;
        Ok(Collector {
            is_ending,
            thread: Some(thread),
        })
    }
}

/// Waits, until it is woken to end; says whether to go on.
fn rest(time: Duration, is_over: &AtomicBool) -> bool {
    let end = Instant::now() + time;
    while !is_over.load(Ordering::Relaxed) {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::park_timeout(left);
    }
    false
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.is_ending.store(true, Ordering::Relaxed);
        let Some(thread) = self.thread.take() else {
            return;
        };
        thread.thread().unpark();
        // The node's last handle may be the thread's own.
        if thread.thread().id() != std::thread::current().id() && thread.join().is_err() {
            tracing::error!("the thread of blocks ended by a broken invariant");
        }
    }
}

/// What is remembered from round to round.
#[derive(Default)]
struct Rounds {
    chains: BTreeMap<ChainId, Collecting>,
    tending: Tending,
}

impl Rounds {
    async fn round(&mut self, router: &Arc<Router>) {
        for (chain, cluster) in router.chains.with_numbers() {
            let head = cluster.head().filter(|_| cluster.decides());
            match head {
                Some((_, head)) => {
                    let collecting = self.chains.entry(chain).or_default();
                    let round = collecting.round(router, chain, &cluster, &head).await;
                    if let Err(error) = round {
                        tracing::warn!(%error, %chain, "blocks that are to go were not read");
                    }
                }
                // A member that becomes head again begins anew.
                None => {
                    drop(self.chains.remove(&chain));
                    let Some(keeper) = cluster.local_member() else {
                        give_up_elsewhere(router, chain).await;
                        continue;
                    };
                    let (router, head) = (router, &keeper);
                    let of = Of {
                        router,
                        chain,
                        head,
                    };
                    if let Err(error) = of.give_up().await {
                        tracing::warn!(%error, %chain, "uploads that ended were not read");
                    }
                }
            }
        }
    }
}

/// What is to go of one chain.
#[derive(Default)]
struct Collecting {
    waits: Waits,
    /// Blocks of closed attempts, until the safe point has passed what closed them.
    closed: Option<Found<(u128, Row)>>,
    /// The last lease that was looked at.
    lease: Option<LeaseAt>,
    /// What was committed at these times, the oldest first.
    samples: VecDeque<(u64, EntryId)>,
}

impl Collecting {
    async fn round(
        &mut self,
        router: &Arc<Router>,
        chain: ChainId,
        cluster: &Arc<Cluster>,
        head: &Arc<Member>,
    ) -> Result<(), ViewError> {
        let of = Of {
            router,
            chain,
            head,
        };
        if head.shared().refusal().is_some() || cluster.is_closing() {
            return Ok(());
        }
        of.give_up().await?;
        self.end_leases(&of).await?;
        self.see_garbage(&of)?;
        self.remove_garbage(&of).await?;
        self.move_notes(&of).await
    }

    /// Asks about a round of blocks whose leases are over. Those without an answer are asked about
    /// when all others were.
    async fn end_leases(&mut self, of: &Of<'_>) -> Result<(), ViewError> {
        let view = of.head.snapshot();
        let due = blocks::due(&*view, self.lease, of.head.settings().clock.now_ms(), ROUND)?;
        self.lease = due.last().copied().filter(|_| due.len() == ROUND);
        let ids: Vec<u128> = due.into_iter().map(|(_, id)| id).collect();
        let leased = blocks::leased(&*view, &ids)?.into_iter();
        let (closed, others) = leased.partition(|(_, row)| row.is_closed());
        of.ask(others, fence(of.router)).await;
        self.end_closed(of, closed).await;
        Ok(())
    }

    /// Ends attempts that are closed (COLLECT-5).
    async fn end_closed(&mut self, of: &Of<'_>, rows: Vec<(u128, Row)>) {
        match &mut self.closed {
            None if rows.is_empty() => {}
            None => self.closed = Some(Found::new(rows)),
            Some(closed) => {
                if closed.is_passed(of.head.known()) && of.head.settle_all().await {
                    let closed = self.closed.take().map(Found::into_found);
                    of.ask(closed.unwrap_or_default(), blocks::end_attempt)
                        .await;
                }
            }
        }
    }

    /// The wait of what is seen now begins.
    fn see_garbage(&mut self, of: &Of<'_>) -> Result<(), ViewError> {
        let now = of.head.settings().clock.monotonic_ms();
        let known = of.head.known();
        let seen = of.head.blocks().take_garbage(known.safe_point);
        self.waits.look(now, known, seen, &*of.head.snapshot())?;
        let counters = &of.head.blocks().counters;
        let count = self.waits.len() as u64;
        counters.garbage_waiting.store(count, Ordering::Relaxed);
        Ok(())
    }

    /// Removes garbage whose wait is over: the rows of blocks, then its own (COLLECT-3).
    async fn remove_garbage(&mut self, of: &Of<'_>) -> Result<(), ViewError> {
        let wait = of.head.blocks().options().garbage_wait.as_millis() as u64;
        for _ in 0..STEPS {
            let now = of.head.settings().clock.monotonic_ms();
            let over = self.waits.over(now, wait, ROUND);
            if over.is_empty() {
                return Ok(());
            }
            let view = of.head.snapshot();
            let mut rows: BTreeMap<ChainId, Vec<u128>> = BTreeMap::new();
            let (mut then, mut gone) = (Vec::new(), Vec::new());
            for garbage in over {
                let Some(removal) = blocks::removal(&*view, garbage)? else {
                    gone.push(garbage);
                    continue;
                };
                for (chain, ids) in removal.blocks {
                    rows.entry(chain).or_default().extend(ids);
                }
                then.push(removal.then);
            }
            self.waits.forget(&gone);
            if then.is_empty() {
                continue;
            }
            let removes = rows.into_iter().flat_map(|(chain, ids)| {
                let chunks: Vec<Vec<u128>> = ids.chunks(ROWS_MAX).map(<[_]>::to_vec).collect();
                chunks
                    .into_iter()
                    .map(move |ids| (chain, Command::Remove(ids)))
            });
            let removes = removes.map(|(chain, command)| (chain, command.into()));
            let chain = of.chain;
            let is_removed = of.all(removes).await;
            if !is_removed || !of.all(then.into_iter().map(|it| (chain, it))).await {
                // The next round does it.
                return Ok(());
            }
        }
        Ok(())
    }

    /// Ends fences of attempts that began more than a lease ago.
    async fn move_notes(&mut self, of: &Of<'_>) -> Result<(), ViewError> {
        let lease = of.head.settings().limits.blocks.lease_ms;
        let now = of.head.settings().clock.monotonic_ms();
        let newest = self.samples.back().map(|(at, _)| *at);
        if newest.is_some_and(|at| now < at.saturating_add(lease / NOTES_PER_LEASE)) {
            return Ok(());
        }
        self.samples.push_back((now, of.head.shared().newest()));
        let mut note = None;
        while let Some((at, id)) = self.samples.front()
            && at.saturating_add(lease) <= now
        {
            note = Some(*id);
            self.samples.pop_front();
        }
        let Some(note) = note else {
            return Ok(());
        };
        let asked = blocks::notes(&*of.head.snapshot(), note)?;
        of.all(asked.into_iter().map(|it| (of.chain, it))).await;
        Ok(())
    }
}

/// A chain, and the member here that it is read at.
struct Of<'a> {
    router: &'a Arc<Router>,
    chain: ChainId,
    head: &'a Arc<Member>,
}

impl Of<'_> {
    /// Asks about blocks of attempts that were given up; bytes without a row go at once.
    async fn give_up(&self) -> Result<(), ViewError> {
        let given = self.router.given_up.take(self.chain);
        if given.is_empty() {
            return Ok(());
        }
        let ids: Vec<u128> = given.into_iter().map(|(_, id)| id).collect();
        let rows = blocks::leased(&*self.head.snapshot(), &ids)?;
        self.head
            .drop_rowless(ids.into_iter().map(BlockId).collect());
        self.ask(rows, fence(self.router)).await;
        Ok(())
    }

    /// Asks what becomes of blocks, and does it (COLLECT-2).
    async fn ask(&self, rows: Vec<(u128, Row)>, how: fn(Owner, u128) -> Request) {
        let asked = rows
            .iter()
            .map(|(id, row)| (row.chain, how(row.owner, *id)));
        let told = each(self.router, asked).await;
        let mut fates: Vec<(u128, Row, Fenced)> = Vec::with_capacity(rows.len());
        for (at, outcome) in told {
            let (id, row) = rows[at];
            fates.extend(blocks::fate(&outcome).map(|fate| (id, row, fate)));
        }
        let verdicts = blocks::verdicts(&fates).into_iter();
        self.all(verdicts.map(|command| (self.chain, command.into())))
            .await;
    }

    /// Asks all of these; whether all were carried out.
    async fn all(&self, asked: impl IntoIterator<Item = (ChainId, Request)>) -> bool {
        let asked: Vec<_> = asked.into_iter().collect();
        let count = asked.len();
        let told = each(self.router, asked).await;
        told.len() == count && told.iter().all(|(_, outcome)| outcome.is_ok())
    }
}

/// How it is asked what becomes of a block.
fn fence(router: &Router) -> fn(Owner, u128) -> Request {
    match router.takes_eventual_blocks() {
        true => blocks::close_attempt,
        false => blocks::fence,
    }
}

/// Asks about blocks of attempts that were given up, of a chain that has no member here. Those that
/// were committed after all are left to their leases: their rows are not known here.
async fn give_up_elsewhere(router: &Arc<Router>, chain: ChainId) {
    let given = router.given_up.take(chain);
    let fence = fence(router);
    let asked = given.iter().map(|(owner, id)| (chain, fence(*owner, *id)));
    let told = each(router, asked).await.into_iter();
    let fenced = told.filter(|(_, outcome)| blocks::fate(outcome) == Some(Fenced::Fenced));
    let fenced: Vec<u128> = fenced.map(|(at, _)| given[at].1).collect();
    if !fenced.is_empty() {
        each(router, [(chain, Command::Remove(fenced).into())]).await;
    }
}

/// What came of each, with its place among them. One that no member took is left out.
async fn each(
    router: &Arc<Router>,
    asked: impl IntoIterator<Item = (ChainId, Request)>,
) -> Vec<(usize, Outcome)> {
    let mut asking = JoinSet::new();
    for (at, (chain, request)) in asked.into_iter().enumerate() {
        let router = router.clone();
        asking.spawn(async move {
            let call = Arc::new(Call::of_node(request));
            let told = router.on_chain(chain, &call, Reach::Anywhere).await;
            told.ok().map(|(outcome, _)| (at, outcome))
        });
    }
    let mut all = Vec::new();
    while let Some(told) = asking.join_next().await {
        all.extend(told.ok().flatten());
    }
    all
}
