//! A head that gives its role away: it takes no strong write, and ends those that it has (HM-4).

use std::sync::atomic::Ordering;

use fader_services::Reason;

use super::Member;
use super::pending::{PendingRequest, Stage};
use super::refusal::{Kind, Refusal};
use super::thread::{ChainThread, Job};

impl Member {
    /// Has the head take no strong write, until it is told otherwise. Says whether none is under
    /// way.
    pub(crate) fn prepares_to_hand_over(&self) -> bool {
        let hand_over = &self.shared.hand_over;
        if !hand_over.is_asked.swap(true, Ordering::Relaxed) {
            // A full queue is tried again: a controller asks until the role has gone.
            let is_told = self.jobs.try_send(Job::HandOver(true)).is_ok();
            hand_over.is_asked.store(is_told, Ordering::Relaxed);
        }
        hand_over.is_ready.load(Ordering::Relaxed)
    }

    /// It takes writes again, if it is a head.
    pub(crate) fn keeps_its_role(&self) {
        let hand_over = &self.shared.hand_over;
        if hand_over.is_asked.load(Ordering::Relaxed) {
            let is_told = self.jobs.try_send(Job::HandOver(false)).is_ok();
            hand_over.is_asked.store(!is_told, Ordering::Relaxed);
        }
    }
}

impl ChainThread {
    /// Whether a request is refused since the role of the head goes away. No member has taken it:
    /// it goes on to the next head (ROUTE-5). Eventual writes need no head.
    pub(super) fn is_for_the_next_head(&self, work: &PendingRequest) -> bool {
        self.hands_over && is_strong_write(work)
    }

    /// Refuses a request that the next head is to decide.
    pub(super) fn leave_to_the_next_head(work: PendingRequest) {
        work.fail(Refusal::new(Kind::Elsewhere, Reason::Moved));
    }

    /// Says whether the role may go.
    pub(super) fn tell_hand_over(&self) {
        let is_ready = self.hands_over && !self.requests.has(is_strong_write);
        let told = &self.shared.hand_over.is_ready;
        told.store(is_ready, Ordering::Relaxed);
    }
}

/// Whether a write's entry may be cut, and the client be told of an unknown outcome, where the head
/// changes.
fn is_strong_write(work: &PendingRequest) -> bool {
    matches!(
        work,
        PendingRequest::Write {
            stage: Stage::Strong,
            ..
        }
    )
}
