//! What a member of a chain of several has beside itself.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use fader_chain::{Incarnation, Report};

use crate::coordinator::Wakeup;
use crate::peer::{Outbox, PeerClocks};

/// The ways of a member to others.
pub(crate) struct ClusterLinks {
    /// The way to the other members.
    pub(crate) outbox: Arc<dyn Outbox>,
    /// The way to the coordinator.
    pub(crate) notices: Notifier,
    /// The lease clocks of other processes.
    pub(crate) clocks: Arc<PeerClocks>,
}

/// The member's end of the way to the keeper of its session.
#[derive(Clone)]
pub(crate) struct Notifier {
    /// `None` when it is dropped: the keeper is woken after that.
    sender: Option<Sender<MemberEvent>>,
    wakeup: Arc<Wakeup>,
}

impl Notifier {
    /// The two ends of a way: each event wakes the thread of `wakeup`.
    pub(crate) fn new(wakeup: Arc<Wakeup>) -> (Self, Receiver<MemberEvent>) {
        let (sender, notices) = channel();
        let sender = Some(sender);
        (Notifier { sender, wakeup }, notices)
    }

    /// Tells the keeper; it is gone only when the node is closing.
    pub(crate) fn notify(&self, event: MemberEvent) {
        if let Some(sender) = &self.sender {
            drop(sender.send(event));
        }
        self.wakeup.wake();
    }
}

impl Drop for Notifier {
    fn drop(&mut self) {
        self.sender = None;
        self.wakeup.wake();
    }
}

/// What a member says to the thread that keeps its session.
pub(crate) enum MemberEvent {
    /// For the coordinator.
    Report(Report),
    /// This incarnation is over, and the disk takes writes: another may begin.
    IncarnationOver,
    /// This incarnation is over: others went on without waiting for its confirmations any longer
    /// (SL-1).
    LeftOut,
    /// The member takes nothing more and answers no request: the others are not to wait for it
    /// (I23).
    Stopped,
}

/// A lease of an incarnation: when the ping was sent that it comes from, and when it ends, in
/// milliseconds of the lease clock. The default is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lease {
    pub(crate) incarnation: Incarnation,
    pub(crate) sent: u64,
    pub(crate) until: u64,
}

impl Lease {
    /// This incarnation has no lease.
    pub(crate) fn none(incarnation: Incarnation) -> Self {
        Lease {
            incarnation,
            ..Lease::default()
        }
    }
}
