//! The bytes of blocks in the background. Space of removed ones is given back, all are read again
//! now and then, and what has no row is dropped.
//!
//! Invariants:
//! - TE-1 bytes without a row are dropped when they are older than a lease. Those that a start
//!   found go sooner. Those of a single member go at once, for its uploads ended with its last
//!   process. Those of another one go when it had time to hear of their rows. The chain's thread
//!   looks again whether they have a row. It drops them when the safe point has come so far, for a
//!   row may have been removed (MB-2). Bytes that are dropped too soon are fetched again (BGATE-1).
//! - TE-2 a row without bytes is damage when the member's newest state has it, too. The member
//!   serves, and its state is at the safe point. Below that, bytes may rightly be gone whose row is
//!   there: a crash sets a state back. Then the sweep of the rows waits.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fader_chain::{Configuration, NodeId};
use fader_services::blocks;

use super::Router;
use crate::member::Member;
use crate::storage::blocks::{BlockId, Blocks, HeldBlock, Scrub};

/// Blocks that are compared with rows at once.
const PAGE: usize = 1024;
/// Pages of one round.
const PAGES: usize = 8;
/// How often all blocks are compared with rows in the time of a lease: each hour of a day.
const SWEEPS: u32 = 24;
/// Blocks that are mended in one round.
const MENDED_MAX: usize = 256;
/// How long after all blocks were read they are read again.
const SCRUB_REST: Duration = Duration::from_secs(600);

/// What is remembered of each member's store.
#[derive(Default)]
pub(super) struct Tending {
    members: BTreeMap<NodeId, One>,
}

struct One {
    /// When its store was opened.
    opened: Duration,
    scrub: Option<Scrub>,
    /// When the next round of it begins.
    scrub_due: Option<Instant>,
    sweep: Sweep,
    /// When the next sweep begins.
    due: Option<Instant>,
}

/// How far a sweep is: over the blocks, and over the rows.
#[derive(Clone, Copy, Debug, Default)]
struct Sweep {
    block: Option<BlockId>,
    row: Option<u128>,
    blocks_done: bool,
    rows_done: bool,
    missing: u64,
}

impl Tending {
    /// One round over the stores of this process.
    pub(super) fn round(&mut self, router: &Router, is_over: &AtomicBool) {
        let is_alone = router.in_company().is_none();
        for (_, cluster) in router.chains.with_numbers() {
            for (node, member) in cluster.running() {
                let Some(store) = store_of(&member) else {
                    continue;
                };
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
                let one = self
                    .members
                    .entry(node)
                    .or_insert_with(|| One::new(&member));
                if one.opened != member.blocks().opened() {
                    // It was started again.
                    *one = One::new(&member);
                }
                let newest = cluster.configuration();
                let serves = |it: &Arc<Configuration>| it.serving().any(|it| it == node);
                let newest = newest.filter(serves);
                let lacking = one.sweep(&member, &store, is_alone, newest.as_deref());
                let damaged = one.scrub(&member, &store);
                let to_mend = lacking.into_iter().chain(damaged).take(MENDED_MAX);
                to_mend.for_each(|id| cluster.mend_block(node, id));
                reclaim(&member, &store);
            }
        }
    }
}

/// The store of a member that has one, or that has rows of blocks and ought to.
fn store_of(member: &Member) -> Option<Arc<Blocks>> {
    let blocks = member.blocks();
    let has_rows = || {
        let first = blocks::rows_from(&*member.snapshot(), None, 1);
        first.is_ok_and(|rows| !rows.is_empty())
    };
    match blocks.store() {
        None if has_rows() => blocks.make_store().ok(),
        store => store,
    }
}

impl One {
    fn new(member: &Member) -> One {
        let blocks = member.blocks();
        let pace = blocks.options().scrub_bytes_per_second;
        One {
            opened: blocks.opened(),
            scrub: (pace != 0).then(|| Scrub::new(pace, blocks.now())),
            scrub_due: None,
            sweep: Sweep::default(),
            due: None,
        }
    }

    /// Reads some blocks again. Which are damaged.
    fn scrub(&mut self, member: &Member, store: &Blocks) -> Vec<BlockId> {
        let Some(scrub) = &mut self.scrub else {
            return Vec::new();
        };
        if self.scrub_due.is_some_and(|due| Instant::now() < due) {
            return Vec::new();
        }
        let done = store.scrub(scrub, member.blocks().now());
        let counters = &member.blocks().counters;
        counters
            .scrubbed_bytes
            .fetch_add(done.bytes, Ordering::Relaxed);
        self.scrub_due = done.is_round.then(|| Instant::now() + SCRUB_REST);
        for bad in done.bad {
            tracing::error!(damage = %bad.damage, "blocks are damaged");
        }
        store.bad().into_iter().map(|block| block.id).collect()
    }

    /// Compares some blocks with their rows, these where it serves in the newest configuration.
    /// Which have a row and no bytes.
    fn sweep(
        &mut self,
        member: &Arc<Member>,
        store: &Blocks,
        is_alone: bool,
        newest: Option<&Configuration>,
    ) -> Vec<BlockId> {
        let mut lacking = Vec::new();
        if self.due.is_some_and(|due| Instant::now() < due) {
            return lacking;
        }
        for _ in 0..PAGES {
            let rowless = self.sweep.blocks(member, store, is_alone);
            if !rowless.is_empty() {
                member.drop_rowless(rowless);
            }
            if let Some(newest) = newest {
                lacking.extend(self.sweep.rows(member, store, newest));
            }
        }
        if self.sweep.blocks_done && self.sweep.rows_done {
            let missing = self.sweep.missing;
            let counters = &member.blocks().counters;
            counters.missing.store(missing, Ordering::Relaxed);
            if 0 < missing {
                tracing::error!(
                    missing,
                    "bytes of blocks are missing: their objects are damaged"
                );
            }
            self.sweep = Sweep::default();
            self.due = Some(Instant::now() + lease_of(member) / SWEEPS);
        }
        lacking
    }
}

fn lease_of(member: &Member) -> Duration {
    Duration::from_millis(member.settings().limits.blocks.lease_ms)
}

impl Sweep {
    /// TE-1.
    fn blocks(&mut self, member: &Member, store: &Blocks, is_alone: bool) -> Vec<BlockId> {
        if self.blocks_done {
            return Vec::new();
        }
        let (now, opened) = (member.blocks().now(), member.blocks().opened());
        let lease = lease_of(member);
        let heard = match is_alone {
            true => Duration::ZERO,
            false => lease / SWEEPS,
        };
        let page = store.page(self.block, PAGE);
        self.block = page.last().map(|held| held.block.id);
        self.blocks_done = page.len() < PAGE;
        let is_old = |held: &HeldBlock| {
            let was_found = held.since <= opened;
            held.since + lease <= now || (was_found && opened + heard <= now)
        };
        let view = member.snapshot();
        let has_no_row = |id: &BlockId| matches!(blocks::row(&*view, id.0), Ok(None));
        let old = page.into_iter().filter(is_old).map(|held| held.block.id);
        old.filter(has_no_row).collect()
    }

    /// TE-2.
    fn rows(&mut self, member: &Member, store: &Blocks, newest: &Configuration) -> Vec<BlockId> {
        if self.rows_done || !member.standpoint(newest).shows_damage() {
            return Vec::new();
        }
        let Ok(rows) = blocks::rows_from(&*member.snapshot(), self.row, PAGE) else {
            // Who reads the row says so.
            self.rows_done = true;
            return Vec::new();
        };
        self.row = rows.last().map(|(id, _)| *id);
        self.rows_done = rows.len() < PAGE;
        let lacking = rows.into_iter().map(|(id, _)| id);
        let lacking = lacking.filter(|id| !store.is_held(BlockId(*id)));
        let lacking: Vec<u128> = lacking.collect();
        let newest = member.snapshot();
        let has_row = |id: &u128| matches!(blocks::row(&*newest, *id), Ok(Some(_)));
        let lacking = lacking.into_iter().filter(has_row).map(BlockId);
        let lacking: Vec<BlockId> = lacking.collect();
        self.missing += lacking.len() as u64;
        lacking
    }
}

/// Gives back the space of removed blocks.
fn reclaim(member: &Member, store: &Blocks) {
    let before = store.counters();
    match store.reclaim() {
        Ok(done) if done.segments == 0 => {}
        Ok(done) => {
            let after = store.counters();
            let bytes = before.dead_bytes.saturating_sub(after.dead_bytes);
            let counters = &member.blocks().counters;
            counters.reclaimed_bytes.fetch_add(bytes, Ordering::Relaxed);
            let (segments, copied) = (done.segments, done.copied_bytes);
            tracing::debug!(
                segments,
                copied,
                bytes,
                "space of removed blocks was given back"
            );
        }
        Err(error) => tracing::warn!(%error, "space of removed blocks was not given back"),
    }
}

#[cfg(test)]
mod tests;
