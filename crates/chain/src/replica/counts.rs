//! What people are told of a member's work (/metrics, `fader cluster status`). Nothing here decides
//! anything.

use super::{Now, Replica};
use crate::config::NodeId;

/// What has happened to strong and bounded reads that went through this replica, in this life.
/// Those that [`Replica::answers_now`] answers at once are their caller's to count: they are clean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ReadCounts {
    /// Reads that could not be answered when they came: something uncommitted was there.
    pub dirty: u64,
    /// Version queries asked of the commit point (RD-3), those that were repeated included.
    pub asked: u64,
    /// Version queries of others that this member answered, as the commit point (RD-4).
    pub answered: u64,
}

/// How far a member is behind the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Behind {
    /// The member.
    pub node: NodeId,
    /// Entries that it has not confirmed.
    pub entries: u64,
    /// Milliseconds that it takes to confirm, on the average; while it owes a confirmation, at
    /// least the age of that.
    pub millis: u64,
}

impl Replica {
    /// What has happened to strong and bounded reads here.
    pub fn read_counts(&self) -> ReadCounts {
        self.read_counts
    }

    /// How far each other member is behind, as the head knows it; nothing at any other member.
    pub fn behind(&self, now: Now) -> Vec<Behind> {
        let adopted = self.adopted().filter(|_| self.is_head());
        let others = adopted.into_iter().flat_map(|it| it.others(self.me.node));
        let behind = |node| {
            let confirmed = self.writes.confirmed_by(node).max(self.commit);
            Behind {
                node,
                entries: self.log.last().index.saturating_sub(confirmed.index),
                millis: self.lateness(node, now.monotonic),
            }
        };
        others.map(behind).collect()
    }
}
