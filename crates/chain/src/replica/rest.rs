//! When a replica rests: no tick changes anything before a period of its own is over. A shell may
//! then leave out ticks. Any other input ends the rest.
//!
//! Invariants:
//! - REST-1 at rest a tick has no effect but a digest, a report (GC-1), or an entry that removes
//!   idle clients (XO-4).
//!
//! Deliberately absent: for how long it rests; those periods are a second and more, and the shell
//! bounds its own.

use super::{Effect, Phase, Replica, Report};
use crate::message::Message;

impl Replica {
    /// Whether ticks may be left out: no request waits, no member owes anything, and all that is in
    /// the log is applied.
    pub fn is_at_rest(&self) -> bool {
        let (last, commit) = (self.log.last(), self.commit);
        let is_settled = commit == last
            && self.persisted == last
            && self.applying == last
            && self.log.applied() == last;
        self.phase == Phase::Ready
            && is_settled
            && !self.awaits_answer()
            && self.is_whole()
            && self.writes.are_said()
            && self.is_collected()
            && self.idle.is_over()
            && self.slowness.is_calm(self.settings.slow_ms)
            && self.eventual.is_at_rest(&self.others())
    }

    /// Whether no member joins or leaves.
    fn is_whole(&self) -> bool {
        let adopted = self.configuration.as_ref();
        adopted.is_some_and(|adopted| adopted.syncing().is_none()) && !self.is_behind_gap()
    }

    /// REST-1.
    pub(super) fn assert_rest(&self, effects: &[Effect]) {
        let is_periodic = |effect: &Effect| match effect {
            Effect::Send { envelope, .. } => matches!(envelope.message, Message::Digest { .. }),
            Effect::Coordinator(report) => matches!(report, Report::Floor { .. }),
            _ => false,
        };
        let broken = effects.iter().find(|effect| !is_periodic(effect));
        assert!(
            broken.is_none() || !self.idle.is_over() || self.idle.has_removed(self.log.last()),
            "REST-1: at rest a tick came to {broken:?}"
        );
    }
}
