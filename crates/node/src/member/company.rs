//! What a member of a chain of several has beside itself.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use fader_chain::Report;

use crate::peer::{Outbox, PeerClocks};

/// The ways of a member to others.
pub(crate) struct Company {
    /// The way to the other members.
    pub(crate) outbox: Arc<dyn Outbox>,
    /// The way to the coordinator.
    pub(crate) notices: Sender<Notice>,
    /// The lease clocks of other processes.
    pub(crate) clocks: Arc<PeerClocks>,
}

/// What a member says to the thread that keeps its session.
pub(crate) enum Notice {
    /// For the coordinator.
    Report(Report),
    /// This life is over, and the disk takes writes: another may begin.
    LifeOver,
    /// This life is over: others went on without waiting for its confirmations any longer (SL-1).
    LeftOut,
    /// The member takes nothing more and answers no request: the others are not to wait for it
    /// (I23).
    Stopped,
}
