//! What a chain waits for, and for whom (I20; docs/internals/protocol/reconfiguration.md, section
//! 6).
//!
//! Two know something of it. One knows what a controller acts on ([`wait_reasons`]). The other is
//! each member of itself ([`crate::Replica::wait_reasons`]); the head also knows of the others'
//! confirmations. The process that tells people puts both together.
//!
//! Deliberately absent: words, and who has which name.

use crate::config::{ChainMember, Configuration, DiskId, NodeId, Role};
use crate::controller::{self, ObservedState, is_of};

/// One thing that is waited for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WaitReason {
    /// All members that served are down: any one of these with its own disk begins the chain again
    /// (AL-1).
    Restart(Vec<(NodeId, DiskId)>),
    /// All members that served are down, and some are back. These others are waited for, so long as
    /// a session lasts, before the one with the highest last id begins the chain again (AL-1).
    Others(Vec<(NodeId, DiskId)>),
    /// This member is not heard of: it comes back, or its session ends (RM-1).
    Session(NodeId),
    /// Facts that ask for this epoch: some controller is to publish it, by compare-and-set.
    Publication(u64),
    /// This member has not said that it has adopted this epoch.
    Adoption(NodeId, u64),
    /// This joining member does not hold everything yet (JN-6).
    Arrival(NodeId),
    /// This joining member holds everything, and the commit point has not heard it (JN-6).
    Hearing(NodeId),
    /// This leaving member hands off what it alone may hold (LV-2).
    Handoff(NodeId),
    /// The chain goes on without this slow member, as soon as that can be (SL-1).
    Slow(NodeId),
    /// This member joins after that one (JN-1).
    Turn(NodeId, NodeId),
    /// This member was left out, and is to begin another incarnation (I24, SL-4).
    Incarnation(NodeId),
    /// There are so many members, of so many that there should be, and no other node that could
    /// join.
    Members(usize, usize),
    /// The disk of this member: to read its log, or to persist what it adopts.
    Disk(NodeId),
    /// A configuration with a membership for this member.
    Membership(NodeId),
    /// This member is to be greeted by that one (AD-3).
    Handshake(NodeId, NodeId),
    /// This member's lease is over: the coordinator has acknowledged no ping of it (FN-1).
    Lease(NodeId),
    /// This member is filled.
    Transfer(NodeId, TransferProgress),
    /// This member is to confirm so many entries, and takes so many milliseconds.
    Confirmation(NodeId, u64, u64),
    /// This member knows so many entries committed that its chain has not: an operator chooses
    /// between the two (LD-2).
    Operator(NodeId, u64),
    /// This member has stopped permanently: its disk failed, or its process ends.
    Failure(NodeId),
}

/// How a member is filled (BP-4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TransferProgress {
    /// By whom.
    pub by: Option<NodeId>,
    /// Bytes that were compared and taken since it began.
    pub bytes: u64,
    /// Bytes that may be in a second.
    pub bytes_per_second: u64,
}

/// What a chain of this configuration waits for, by what a controller knows. `silent` are members
/// whose sessions are not over, but that were not heard of for longer than they should be.
pub fn wait_reasons(
    current: &Configuration,
    observed: &ObservedState,
    silent: &[NodeId],
) -> Vec<WaitReason> {
    let is_live = |member: &ChainMember| observed.sessions.iter().any(|live| is_of(member, live));
    let serves = |member: &&ChainMember| member.role == Role::Serving && is_live(member);
    let mut waits = Vec::new();
    if current.members.iter().find(serves).is_none() {
        let returned = controller::returned(current, &observed.sessions);
        let missing = controller::missing(current, &returned);
        return vec![match (returned.is_empty(), missing.is_empty()) {
            (true, _) => WaitReason::Restart(missing),
            (false, false) if observed.restart.is_none() => WaitReason::Others(missing),
            _ => WaitReason::Publication(current.epoch + 1),
        }];
    }
    let members = current.members.iter().filter(|member| is_live(member));
    let members: Vec<NodeId> = members.map(|member| member.node).collect();
    let unheard = silent.iter().filter(|node| members.contains(node));
    waits.extend(unheard.map(|node| WaitReason::Session(*node)));
    let unhurried = ObservedState {
        raise_safe_point: false,
        ..observed.clone()
    };
    if let Some(next) = controller::next(current, &unhurried) {
        waits.push(WaitReason::Publication(next.epoch));
        return waits;
    }
    let is_behind = |node: &&NodeId| !observed.reports.has_adopted(**node, current.epoch);
    let behind = members.iter().filter(is_behind);
    waits.extend(behind.map(|node| WaitReason::Adoption(*node, current.epoch)));
    if let Some(node) = current.leaving() {
        waits.push(WaitReason::Handoff(node));
    } else if let Some(node) = current.syncing() {
        waits.push(match observed.reports.is_synced(node, current.epoch) {
            true => WaitReason::Hearing(node),
            false => WaitReason::Arrival(node),
        });
    }
    waits.extend(observed.reports.slow(current).map(WaitReason::Slow));
    waits.extend(outside(current, observed));
    waits
}

/// What those wait for who have no membership, where there is a place for one.
fn outside(current: &Configuration, observed: &ObservedState) -> Vec<WaitReason> {
    let has_place = current.size() < observed.size;
    let out = observed
        .sessions
        .iter()
        .filter(|it| current.member(it.node).is_none());
    let out = out.filter(|_| has_place);
    let waits = out.map(
        |it| match (observed.reports.ahead(it.node), current.syncing()) {
            (Some(entries), _) => WaitReason::Operator(it.node, entries),
            (None, Some(joining)) if !current.has_left(it.node, it.incarnation) => {
                WaitReason::Turn(it.node, joining)
            }
            _ => WaitReason::Incarnation(it.node),
        },
    );
    let mut waits: Vec<WaitReason> = waits.collect();
    if has_place && waits.is_empty() {
        waits.push(WaitReason::Members(current.size(), observed.size));
    }
    waits
}

#[cfg(test)]
mod tests;
