//! Blocks among the members of a chain: a block is held by all before its row is put, and read at
//! any that has it.
//!
//! Invariants:
//! - a block is *held* for its uploader when the head holds it; the others are asked, too, and
//!   waited for a moment. BGATE-1 stands behind it: a member without the bytes fetches them before
//!   it logs their row.
//! - CB-2 a block is gone when every member of the newest configuration says so.
//! - CB-3 a block is refused that a serving member has no room for. That member would wait for the
//!   bytes of the row, be left out, and find no room to come back.
//! - CB-4 the member that had no room is asked first. What others hold of a refused upload stays
//!   until the safe point rises, and takes the room of what they must fetch.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use fader_chain::{Configuration, NodeId, Role};
use fader_services::{ErrorCode, Reason};
use parking_lot::Mutex;
use tokio::task::JoinSet;

use super::Cluster;
use crate::member::refusal::{Kind, Refusal};
use crate::peer::{BlockAsked, BlockTold};
use crate::storage::blocks::{BlockBytes, BlockId, Origin};

/// How long the others are waited for when the head holds a block.
const OTHERS: Duration = Duration::from_secs(2);

/// How long after it had no room a member is asked first.
const FULL: Duration = Duration::from_secs(10);

/// The member that had no room for a block, and when.
#[derive(Default)]
pub(super) struct LastFull(Mutex<Option<(NodeId, Instant)>>);

impl LastFull {
    fn note(&self, node: NodeId) {
        *self.0.lock() = Some((node, Instant::now()));
    }

    /// Where that was lately.
    fn member(&self) -> Option<NodeId> {
        let last = self.0.lock().filter(|(_, at)| at.elapsed() < FULL);
        last.map(|(node, _)| node)
    }
}

/// Why bytes of a block were not had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lacking {
    /// No member has a row of it.
    Gone,
    /// A member has its row, and none that answers its bytes.
    Damaged,
    /// Members that may have it do not answer.
    Silent,
}

impl Cluster {
    /// Asks about blocks at a member, here or elsewhere; nothing when no answer came. It blocks its
    /// thread.
    fn ask_blocks(&self, member: NodeId, asked: &BlockAsked) -> Option<BlockTold> {
        match self.links.member(member) {
            Some(here) => Some(here.answer_blocks(asked)),
            None => self
                .outbox
                .ask_blocks(self.own().unwrap_or(member), member, asked),
        }
    }

    /// Has the members of the newest configuration hold a block.
    ///
    /// # Errors
    /// [`Refusal`]: the head does not hold it, or a serving member has no room.
    pub(crate) async fn spread(self: &Arc<Self>, bytes: BlockBytes) -> Result<(), Refusal> {
        let newest = self.configuration();
        let newest = newest.ok_or(Refusal::new(Kind::Elsewhere, Reason::NoMember))?;
        let mut asking = Asking {
            cluster: self,
            newest: &newest,
            asked: Arc::new(BlockAsked::Hold(bytes.block(), bytes)),
            answers: JoinSet::new(),
            is_held: false,
        };
        let first = self.last_full.member();
        let first = first.filter(|first| newest.serving().any(|it| it == *first));
        if let Some(first) = first {
            asking.ask(first);
            asking.hear().await?;
        }
        let members = newest.members.iter().map(|member| member.node);
        let others = members.filter(|node| Some(*node) != first);
        others.for_each(|node| asking.ask(node));
        while !asking.is_held {
            if !asking.hear().await? {
                return held(None);
            }
        }
        let rest = async {
            while asking.hear().await? {}
            Ok(())
        };
        let told = tokio::time::timeout(OTHERS, rest).await;
        asking.answers.detach_all();
        told.unwrap_or(Ok(()))
    }

    /// Bytes of a block, of any member that has them; those that are here first. It blocks its
    /// thread.
    ///
    /// # Errors
    /// [`Lacking`].
    pub(crate) fn read_block(&self, id: BlockId, range: &Range<u32>) -> Result<Bytes, Lacking> {
        let newest = self.configuration().ok_or(Lacking::Silent)?;
        let is_here = |node: NodeId| self.links.member(node).is_some();
        let mut members = newest.members.clone();
        members.sort_by_key(|member| (!is_here(member.node), member.role != Role::Serving));
        let asked = BlockAsked::Fetch(id, Some(range.clone()));
        let (mut is_damaged, mut is_silent) = (false, false);
        let mut without = Vec::new();
        for member in members {
            match self.ask_blocks(member.node, &asked) {
                Some(BlockTold::Bytes(bytes)) => {
                    without
                        .into_iter()
                        .for_each(|node| self.mend_block(node, id));
                    return Ok(bytes);
                }
                Some(BlockTold::Gone) => {}
                Some(BlockTold::Missing) => {
                    is_damaged = true;
                    without.push(member.node);
                }
                _ => is_silent = true,
            }
        }
        Err(match (is_damaged, is_silent) {
            (_, true) => Lacking::Silent,
            (true, false) => Lacking::Damaged,
            (false, false) => Lacking::Gone,
        })
    }

    /// The same, of a member that is here and has them in memory. It does not wait for a disk.
    pub(crate) fn read_cached_block(&self, id: BlockId, range: &Range<u32>) -> Option<Bytes> {
        let mut stores = self
            .members()
            .filter_map(|member| member.shared().blocks.store());
        stores.find_map(|store| store.read_cached(id, range))
    }

    /// Has a member that is here, and lacks a block's bytes, take them from another one.
    pub(crate) fn mend_block(&self, node: NodeId, id: BlockId) {
        let (Some(here), Some(newest)) = (self.links.member(node), self.configuration()) else {
            return;
        };
        let asked = BlockAsked::Fetch(id, None);
        for other in newest.others(node) {
            let Some(BlockTold::Bytes(bytes)) = self.ask_blocks(other, &asked) else {
                continue;
            };
            match here
                .blocks
                .hold(BlockBytes::of(id, vec![bytes]), Origin::Member)
            {
                Ok(()) => tracing::info!(block = %id, "a block was mended from another member"),
                Err(error) => tracing::error!(%error, block = %id, "a block was not mended"),
            }
            return;
        }
    }
}

/// Members that are asked to hold a block.
struct Asking<'a> {
    cluster: &'a Arc<Cluster>,
    newest: &'a Configuration,
    asked: Arc<BlockAsked>,
    answers: JoinSet<(NodeId, Option<BlockTold>)>,
    /// Whether the head holds it.
    is_held: bool,
}

impl Asking<'_> {
    fn ask(&mut self, node: NodeId) {
        let (cluster, asked) = (self.cluster.clone(), self.asked.clone());
        let ask = move || (node, cluster.ask_blocks(node, &asked));
        self.answers.spawn_blocking(ask);
    }

    /// Waits for what the next one says. Says whether there was one.
    ///
    /// # Errors
    /// [`Refusal`]: the head does not hold it, or a serving member has no room (CB-3).
    async fn hear(&mut self) -> Result<bool, Refusal> {
        let (node, told) = match self.answers.join_next().await {
            Some(Ok(answer)) => answer,
            // It ended without an answer.
            Some(Err(_)) => return Ok(true),
            None => return Ok(false),
        };
        let serves = self.newest.serving().any(|it| it == node);
        let is_full = serves && told == Some(BlockTold::Full);
        if is_full {
            self.cluster.last_full.note(node);
        }
        let is_head = node == self.newest.head();
        if is_full || is_head {
            held(told)?;
        }
        self.is_held |= is_head;
        Ok(true)
    }
}

/// Whether a member holds a block, by what it said; nothing when it did not answer.
fn held(told: Option<BlockTold>) -> Result<(), Refusal> {
    Err(match told {
        Some(BlockTold::Held) => return Ok(()),
        Some(BlockTold::Full) => Refusal::new(Kind::Again, Reason::BlocksFull),
        Some(BlockTold::Failed { code, detail }) => {
            let reason = match code {
                ErrorCode::Refused(reason) => reason,
                _ => Reason::Store,
            };
            Refusal::of_member(reason, detail)
        }
        // It may hold the block (WIRE-1).
        Some(BlockTold::UnknownCode(_)) => Refusal::new(Kind::Unknown, Reason::Lost),
        _ => Refusal::new(Kind::Elsewhere, Reason::NoMember),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_refused_with_the_reason_of_its_code() {
        let failed = |code| {
            let detail = "why".to_owned();
            held(Some(BlockTold::Failed { code, detail })).unwrap_err()
        };
        for reason in Reason::ALL {
            let refusal = failed(ErrorCode::Refused(reason));
            assert_eq!((refusal.kind, refusal.reason), (Kind::Again, reason));
            assert_eq!(refusal.to_string(), "why");
        }
        assert_eq!(failed(ErrorCode::StoreFailed).reason, Reason::Store);
    }

    /// It shows WIRE-1.
    #[test]
    fn a_block_of_an_unknown_code_may_be_held() {
        let told = BlockTold::UnknownCode("of-tomorrow".to_owned());
        let refusal = held(Some(told)).unwrap_err();
        assert_eq!(
            (refusal.kind, refusal.reason),
            (Kind::Unknown, Reason::Lost)
        );
    }
}
