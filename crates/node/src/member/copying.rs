//! Blocks that a member lacks, copied before it asks for a membership again.
//!
//! The chain waits for a member that has a membership, and that takes no entry without the bytes of
//! its rows. So a member that was left out first copies what the head has, pass by pass, until a
//! pass finds little that is missing. Then entries and a state transfer bring few bytes.
//!
//! Deliberately absent: whether the bytes are all there. A membership is not given for that.

use std::time::{Duration, Instant};

use fader_chain::{Configuration, NodeId};

use super::blocks::MemberBlocks;
use crate::peer::{BlockAsked, BlockTold, Outbox};
use crate::storage::blocks::{BlockBytes, BlockId, Origin};

/// Bytes that a chain may wait for.
const LITTLE: u64 = 64 << 20;
/// How often all blocks are looked at, at most.
const PASSES: u32 = 8;
/// How long one step takes, about.
const STEP: Duration = Duration::from_millis(300);

/// How far copying is.
#[derive(Debug, Default)]
pub(crate) struct Copying {
    /// Blocks of the head that are not looked at yet, the next one last, with their sizes.
    page: Vec<(BlockId, u32)>,
    after: Option<BlockId>,
    copied: u64,
    passes: u32,
    is_done: bool,
}

impl Copying {
    /// Copies some of what is missing. Says whether the member may ask for a membership.
    pub(crate) fn step(
        &mut self,
        me: NodeId,
        newest: Option<&Configuration>,
        blocks: &MemberBlocks,
        outbox: &dyn Outbox,
    ) -> bool {
        let end = Instant::now() + STEP;
        while !self.is_done && Instant::now() < end {
            let others = newest.filter(|it| it.last_serving.iter().all(|(node, _)| *node != me));
            match others {
                Some(newest) => self.copy_one(me, newest.head(), blocks, outbox),
                // Who served last has all bytes.
                None => self.is_done = true,
            }
        }
        self.is_done
    }

    fn copy_one(&mut self, me: NodeId, head: NodeId, blocks: &MemberBlocks, outbox: &dyn Outbox) {
        let Some((id, size)) = self.page.pop() else {
            return self.turn(outbox.ask_blocks(me, head, &BlockAsked::List(self.after)));
        };
        if blocks.are_held([id.0]) {
            return;
        }
        match outbox.ask_blocks(me, head, &BlockAsked::Fetch(id, None)) {
            Some(BlockTold::Bytes(bytes)) => {
                let bytes = BlockBytes::of(id, vec![bytes]);
                if let Err(error) = blocks.hold(bytes, Origin::Member) {
                    tracing::warn!(%error, block = %id, "a block was not copied");
                }
                self.copied += u64::from(size);
            }
            Some(_) => {}
            // The head went: another one is asked when there is a membership.
            None => self.is_done = true,
        }
    }

    /// The next page, or the next pass.
    fn turn(&mut self, told: Option<BlockTold>) {
        match told {
            Some(BlockTold::Rows(rows)) if !rows.is_empty() => {
                self.after = rows.last().map(|(id, _)| *id);
                self.page = rows;
                self.page.reverse();
            }
            Some(BlockTold::Rows(_)) if LITTLE <= self.copied && self.passes < PASSES => {
                tracing::info!(
                    bytes = self.copied,
                    "copied blocks before joining the chain"
                );
                (self.after, self.copied) = (None, 0);
                self.passes += 1;
            }
            _ => self.is_done = true,
        }
    }
}
