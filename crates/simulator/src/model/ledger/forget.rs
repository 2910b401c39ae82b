//! What no check will look at any more.

use std::sync::Arc;

use fader_chain::{EntryId, Stamp};

use super::{Committed, Known, Ledger};
use crate::model::client_requests::{ClientRequest, keys_of};
use crate::model::scenarios::{KEYS_MAX, PreparedScenario};

impl Ledger {
    /// Drops what no check will look at any more.
    pub(super) fn forget(&mut self, scene: &PreparedScenario) {
        let asks = &scene.scenario.asks;
        for (ask, it) in asks.iter().enumerate() {
            let known = self.known[ask];
            let mut known = match it {
                ClientRequest::Read { .. } => self.forget_read(it, known),
                ClientRequest::Eventual { .. } | ClientRequest::Merge { .. } => {
                    self.forget_eventual(scene, ask, known)
                }
                _ => self.forget_strong(scene, ask, known),
            };
            known.is_over &= scene
                .scenario
                .follows
                .iter()
                .any(|(_, first)| *first == ask);
            self.known[ask] = known;
        }
    }

    fn forget_read(&self, it: &ClientRequest, known: Known) -> Known {
        let is_over = known.answered.is_some();
        let is_bounded = it.is_bounded();
        let looks_back = it.quorum().is_some() || it.is_barrier() || is_bounded;
        Known {
            began: match is_over || it.quorum().is_some() || is_bounded {
                true => EntryId::ZERO,
                false => known.began,
            },
            before: match is_over || !looks_back {
                true => 0,
                false => known.before,
            },
            moment: match is_over || !is_bounded {
                true => 0,
                false => known.moment,
            },
            above: Stamp::ZERO,
            answered: known.answered.map(|_| EntryId::ZERO),
            ..known
        }
    }

    fn forget_eventual(&self, scene: &PreparedScenario, ask: usize, mut known: Known) -> Known {
        let is_final = scene.scenario.retries == 0 && 0 < known.sent;
        (known.above, known.before) = (Stamp::ZERO, 0);
        if self.is_settled(scene, ask) {
            (known.is_held, known.accept) = (false, [EntryId::ZERO; KEYS_MAX]);
        }
        // Looked at by writes, quorums' reads and barriers that begin later, and by those reads.
        let matters = |(it, its): (&ClientRequest, &Known)| {
            let is_open = its.answered.is_none();
            match it {
                ClientRequest::Read { .. } => is_open && (it.quorum().is_some() || it.is_barrier()),
                other if other.is_barrier() => is_open,
                other => other.is_strong_write() && its.sent == 0,
            }
        };
        if !self.others(scene, ask).any(matters) {
            known.stamps = [None; KEYS_MAX];
        }
        if is_final {
            known.is_stamped = [true; KEYS_MAX];
        }
        known
    }

    fn forget_strong(&self, scene: &PreparedScenario, ask: usize, mut known: Known) -> Known {
        let is_named = self.named(scene, ask).next().is_some();
        if !scene.scenario.asks[ask].is_barrier() || is_named {
            known.before = 0;
        }
        if is_named {
            known.above = Stamp::ZERO;
        }
        // Looked at when eventual writes are stamped, and by bounded reads.
        let looks_at = |(it, its): (&ClientRequest, &Known)| match it.is_eventual_write() {
            true => its.is_stamped != [true; KEYS_MAX],
            false => it.is_bounded() && its.answered.is_none(),
        };
        let is_bounded =
            |(it, its): (&ClientRequest, &Known)| it.is_bounded() && its.answered.is_none();
        let is_barrier = scene.scenario.asks[ask].is_barrier();
        if !self.others(scene, ask).any(looks_at) && !is_barrier {
            known.answered = None;
        }
        if known.answered.is_none() || !self.others(scene, ask).any(is_bounded) {
            known.moment = 0;
        }
        known
    }

    /// Whether an eventual write is settled, all of it.
    fn is_settled(&self, scene: &PreparedScenario, ask: usize) -> bool {
        let parts = scene.scenario.asks[ask].tentative();
        parts.map_or(0, |(_, writes)| writes.len()) <= self.named(scene, ask).count()
    }

    /// Whether an eventual write was acknowledged and is not settled.
    pub(super) fn is_owed(&self, scene: &PreparedScenario, ask: usize) -> bool {
        self.known[ask].is_held && !self.is_settled(scene, ask)
    }

    /// The entries under the names of `ask`.
    pub(super) fn named(
        &self,
        scene: &PreparedScenario,
        ask: usize,
    ) -> impl Iterator<Item = &Arc<Committed>> {
        let seq = scene.seq(ask);
        let log = self.log.iter();
        log.filter(move |it| it.entry.request.is_some_and(|name| name.seq == seq))
    }

    /// The asks about registers of `ask`, with what is known of them.
    fn others<'a>(
        &'a self,
        scene: &'a PreparedScenario,
        ask: usize,
    ) -> impl Iterator<Item = (&'a ClientRequest, &'a Known)> {
        let asks = &scene.scenario.asks;
        let keys = keys_of(&asks[ask]);
        let all = asks.iter().zip(&self.known);
        all.filter(move |(it, _)| keys_of(it).iter().any(|key| keys.contains(key)))
    }
}
