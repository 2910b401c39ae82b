//! Background digests: the commit point says what its committed state is, piece by piece, and every
//! other member looks whether its own is the same (I21; docs/protocol/reconfiguration.md, section
//! 10).
//!
//! A piece is named with a commit id. A member compares it if it can show the state at that id: its
//! engine is not beyond it. On links that keep their order it never is, since the commit point
//! speaks of its newest commit; a piece that comes too late is passed over, and comes again with
//! the next round over the keys.
//!
//! Deliberately absent: what follows from a difference. The coordinator is told; to retire the
//! member and to have it filled anew is the node's.

use bytes::Bytes;

use super::{Effect, Replica, Report, Step};
use crate::config::NodeId;
use crate::guard::Guard;
use crate::keys;
use crate::message::Message;
use crate::ranges;
use crate::stamp::EntryId;
use crate::view::ViewError;

/// Bytes of keys and values in a piece.
const PIECE_BYTES: usize = 256 << 10;

/// The commit point's walk over its keys.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Digests {
    /// The first key of the next piece.
    cursor: Bytes,
    said_at: u64,
}

impl Replica {
    /// The commit point speaks of its next piece.
    pub(super) fn tick_digest(&mut self, step: &mut Step<'_>) -> Result<(), ViewError> {
        let now = step.now.monotonic;
        let is_due = self.digests.said_at.saturating_add(self.tuning.digest_ms) <= now;
        if !is_due || !self.is_commit_point() || self.is_alone() {
            return Ok(());
        }
        self.digests.said_at = now;
        let (id, start) = (self.commit, std::mem::take(&mut self.digests.cursor));
        let state = self.view_at(id, step.host.committed());
        let (end, digest) = ranges::digest(&*state, &start, PIECE_BYTES)?;
        drop(state);
        if end != keys::END[..] {
            self.digests.cursor = end.clone();
        }
        let adopted = self.configuration.clone().expect("a ready member has one");
        for node in adopted.others(self.me.node) {
            let (start, end) = (start.clone(), end.clone());
            let digest = Message::Digest {
                id,
                start,
                end,
                digest,
            };
            self.send(node, digest, step);
        }
        Ok(())
    }

    /// Compares the commit point's piece at `id` with this member's.
    pub(super) fn on_digest(
        &mut self,
        from: NodeId,
        id: EntryId,
        (start, end): (&Bytes, &Bytes),
        digest: u128,
        step: &mut Step<'_>,
    ) -> Result<(), ViewError> {
        let is_commit_point = self
            .adopted()
            .is_some_and(|adopted| adopted.commit_point() == from);
        let applied = self.log.applied();
        let is_shown = id == applied || (applied < id && self.log.get(id).is_some());
        if !is_commit_point || !is_shown || self.joining.is_open() {
            return Ok(());
        }
        let state = self.view_at(id, step.host.committed());
        let ours = ranges::digest(&*state, start, PIECE_BYTES)?;
        let is_same = ours == (end.clone(), digest);
        if !is_same && self.guards.has(Guard::DigestCompare) {
            let epoch = self.epoch();
            step.effects
                .push(Effect::Coordinator(Report::Differs { epoch, id }));
        }
        Ok(())
    }
}
