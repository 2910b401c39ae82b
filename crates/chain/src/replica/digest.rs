//! Background digests: the commit point says what its committed state is, piece by piece. Every
//! other member says whether its own is the same, and the commit point counts (I21;
//! docs/internals/protocol/reconfiguration.md, section 10).
//!
//! A piece is named with a commit id. A member compares it if it can show the state at that id: its
//! engine is not beyond it. On links that keep their order it never is, since the commit point
//! speaks of its newest commit. Who cannot compare does not answer. A piece in which a member
//! differs is said again, at a newer id, until all serving members have answered for one id. One
//! member that differs is wrong, and if most differ, the commit point is; of two members, the one
//! behind.
//!
//! Who is wrong is told to the coordinator. The configuration that takes its role says that it must
//! be filled, with any content of its log. It says so until it serves again (DG-3).

use std::collections::BTreeMap;

use bytes::Bytes;

use super::{Effect, Replica, Report, Step};
use crate::config::NodeId;
use crate::guard::Guard;
use crate::keys;
use crate::message::Message;
use crate::range_diff;
use crate::stamp::EntryId;
use crate::view::ViewError;

/// Bytes of keys and values in a piece.
const PIECE_BYTES: usize = 256 << 10;
/// At rest a walk begins no sooner after the one before than so many pieces take.
const WALK_PIECES: u64 = 10;

/// The commit point's walk over its keys.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Digests {
    /// The first key of the next piece.
    cursor: Bytes,
    said_at: u64,
    /// When the walk began.
    begun_at: u64,
    /// Pieces said so far.
    number: u64,
    /// The piece said last: its id, its first key, and who has answered.
    said: Option<(EntryId, Bytes)>,
    is_same: BTreeMap<NodeId, bool>,
}

impl Digests {
    /// Whether a walk has ended, and so many others have said that its last piece is the same.
    fn is_over(&self, others: usize) -> bool {
        let same = self.is_same.values().filter(|is_same| **is_same).count();
        self.cursor.is_empty() && same == others
    }

    /// What was answered was of the epoch before.
    pub(super) fn on_epoch(&mut self) {
        (self.said, self.is_same) = (None, BTreeMap::new());
    }
}

impl Replica {
    /// The commit point speaks of its next piece, or once more of one that is in dispute.
    pub(super) fn tick_digest(&mut self, step: &mut Step<'_>) -> Result<(), ViewError> {
        let now = step.now.monotonic;
        let others = self
            .adopted()
            .map_or(0, |adopted| adopted.serving().count())
            - 1;
        let pause = self.settings.digest_ms;
        let is_late = |at: u64, pause: u64| at.saturating_add(pause) <= now;
        let is_due = is_late(self.digests.said_at, pause);
        if !is_due || !self.is_commit_point() || others == 0 {
            return Ok(());
        }
        // A small state that does not change is compared again and again.
        let has_walked = !is_late(self.digests.begun_at, WALK_PIECES * pause);
        if has_walked && self.digests.is_over(others) && self.is_at_rest() {
            return Ok(());
        }
        self.digests.said_at = now;
        if let Some((_, start)) = self.digests.said.take()
            && self.digests.is_same.values().any(|is_same| !is_same)
        {
            self.digests.cursor = start;
        }
        self.digests.is_same.clear();
        if self.digests.cursor.is_empty() {
            self.digests.begun_at = now;
        }
        let (id, start) = (self.commit, std::mem::take(&mut self.digests.cursor));
        let state = self.view_at(id, step.host.committed());
        let (end, digest) = range_diff::digest(&*state, &start, PIECE_BYTES)?;
        drop(state);
        if end != keys::END[..] {
            self.digests.cursor = end.clone();
        }
        self.digests.number += 1;
        self.digests.said = Some((id, start.clone()));
        let adopted = self.configuration.clone().expect("a ready member has one");
        for node in adopted.serving().filter(|node| *node != self.me.node) {
            let (start, end) = (start.clone(), end.clone());
            let digest = Message::Digest {
                number: self.digests.number,
                id,
                start,
                end,
                digest,
            };
            self.send(node, digest, step);
        }
        Ok(())
    }

    /// Compares the commit point's piece with this member's.
    pub(super) fn on_digest(
        &mut self,
        from: NodeId,
        message: &Message,
        step: &mut Step<'_>,
    ) -> Result<(), ViewError> {
        let Message::Digest {
            number,
            id,
            start,
            end,
            digest,
        } = message
        else {
            return Ok(());
        };
        let is_commit_point = self
            .adopted()
            .is_some_and(|adopted| adopted.commit_point() == from);
        let applied = self.log.applied();
        let is_shown = *id == applied || (applied < *id && self.log.get(*id).is_some());
        if !is_commit_point || !is_shown || self.is_behind_gap() {
            return Ok(());
        }
        let state = self.view_at(*id, step.host.committed());
        let ours = range_diff::digest(&*state, start, PIECE_BYTES)?;
        drop(state);
        let is_same = ours == (end.clone(), *digest) || !self.guards.has(Guard::DigestCompare);
        let number = *number;
        self.send(from, Message::Compared { number, is_same }, step);
        Ok(())
    }

    /// A member has compared the piece said last. When all who serve have, the commit point knows
    /// who is wrong.
    pub(super) fn on_compared(
        &mut self,
        from: NodeId,
        number: u64,
        is_same: bool,
        step: &mut Step<'_>,
    ) {
        let Some((id, _)) = self
            .digests
            .said
            .as_ref()
            .filter(|_| number == self.digests.number)
        else {
            return;
        };
        let (id, epoch) = (*id, self.epoch());
        self.digests.is_same.insert(from, is_same);
        let adopted = self.configuration.as_ref().expect("a message has an epoch");
        let mut others = adopted.serving().filter(|node| *node != self.me.node);
        if !others.all(|node| self.digests.is_same.contains_key(&node)) {
            return;
        }
        let answers = self.digests.is_same.iter();
        let differ: Vec<NodeId> = answers
            .filter(|(_, is_same)| !**is_same)
            .map(|(node, _)| *node)
            .collect();
        let Some(first) = differ.first() else {
            return;
        };
        let serving = adopted.serving().count();
        let is_mine = serving < 2 * differ.len() && self.guards.has(Guard::DigestMajority);
        // Who joined last is behind the other.
        let is_behind = serving == 2 && adopted.head() != self.me.node;
        let is_mine = is_mine || (is_behind && self.guards.has(Guard::DigestHead));
        let node = match is_mine {
            true => self.me.node,
            false => *first,
        };
        self.digests.said = None;
        self.counters.differences += 1;
        step.effects
            .push(Effect::Coordinator(Report::Differs { epoch, id, node }));
    }
}
