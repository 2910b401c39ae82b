//! What a chain waits for, and for whom (I20; docs/protocol/reconfiguration.md, section 6).
//!
//! Two know something of it: whoever knows what a controller acts on ([`waits`]), and each member
//! of itself ([`crate::Replica::waits`]); the head also of the others' confirmations. Whoever tells
//! people puts both together.
//!
//! Deliberately absent: words, and who has which name.

use crate::config::{Configuration, DiskId, NodeId, Role, Seat};
use crate::controller::{self, Facts, is_of};

/// One thing that is waited for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wait {
    /// All members that served are down: any one of these with its own disk begins the chain again
    /// (AL-1).
    Restart(Vec<(NodeId, DiskId)>),
    /// All members that served are down, and some are back: these others are waited for, so long
    /// as a session lasts, before the one with the highest last id begins the chain again (AL-1).
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
    /// This leaving member hands on what it alone may hold (LV-2).
    HandingOn(NodeId),
    /// The chain goes on without this slow member, as soon as that can be (SL-1).
    Slow(NodeId),
    /// This member joins after that one (JN-1).
    Turn(NodeId, NodeId),
    /// This member was left out, and is to begin another life (I24, SL-4).
    Life(NodeId),
    /// There are so many members, of so many that there should be, and nobody else who could join.
    Members(usize, usize),
    /// The disk of this member: to read its log, or to persist what it adopts.
    Disk(NodeId),
    /// A configuration with a seat for this member.
    Seat(NodeId),
    /// This member is to be greeted by that one (AD-3).
    Greeting(NodeId, NodeId),
    /// This member's lease is over: the coordinator has acknowledged no ping of it (FN-1).
    Lease(NodeId),
    /// This member is filled.
    Fill(NodeId, Filling),
    /// This member is to confirm so many entries, and takes so many milliseconds.
    Confirmation(NodeId, u64, u64),
    /// This member knows so many entries committed that its chain has not: an operator chooses
    /// between the two (LD-2).
    Operator(NodeId, u64),
    /// This member has stopped for good: its disk failed, or its process ends.
    Failure(NodeId),
}

/// How a member is filled (BP-4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Filling {
    /// By whom.
    pub by: Option<NodeId>,
    /// Bytes that were compared and taken since it began.
    pub bytes: u64,
    /// Bytes that may be in a second.
    pub bytes_per_second: u64,
}

/// What a chain of this configuration waits for, by what a controller knows; `silent` are members
/// whose sessions are not over, but that were not heard of for longer than they should be.
pub fn waits(current: &Configuration, facts: &Facts, silent: &[NodeId]) -> Vec<Wait> {
    let lives = |seat: &Seat| facts.sessions.iter().any(|member| is_of(seat, member));
    let serves = |seat: &&Seat| seat.role == Role::Serving && lives(seat);
    let mut waits = Vec::new();
    if current.seats.iter().find(serves).is_none() {
        let returned = controller::returned(current, &facts.sessions);
        let missing = controller::missing(current, &returned);
        return vec![match (returned.is_empty(), missing.is_empty()) {
            (true, _) => Wait::Restart(missing),
            (false, false) if facts.restart.is_none() => Wait::Others(missing),
            _ => Wait::Publication(current.epoch + 1),
        }];
    }
    let seats = current.seats.iter().filter(|seat| lives(seat));
    let seats: Vec<NodeId> = seats.map(|seat| seat.node).collect();
    let unheard = silent.iter().filter(|node| seats.contains(node));
    waits.extend(unheard.map(|node| Wait::Session(*node)));
    let unhurried = Facts {
        raise_floor: false,
        ..facts.clone()
    };
    if let Some(next) = controller::next(current, &unhurried) {
        waits.push(Wait::Publication(next.epoch));
        return waits;
    }
    let is_behind = |node: &&NodeId| !facts.reports.has_adopted(**node, current.epoch);
    let behind = seats.iter().filter(is_behind);
    waits.extend(behind.map(|node| Wait::Adoption(*node, current.epoch)));
    if let Some(node) = current.leaving() {
        waits.push(Wait::HandingOn(node));
    } else if let Some(node) = current.syncing() {
        waits.push(match facts.reports.is_synced(node, current.epoch) {
            true => Wait::Hearing(node),
            false => Wait::Arrival(node),
        });
    }
    waits.extend(facts.reports.slow(current).map(Wait::Slow));
    waits.extend(outside(current, facts));
    waits
}

/// What those wait for who have no seat, where there is a place for one.
fn outside(current: &Configuration, facts: &Facts) -> Vec<Wait> {
    let has_place = current.size() < facts.size;
    let out = facts
        .sessions
        .iter()
        .filter(|it| current.seat(it.node).is_none());
    let out = out.filter(|_| has_place);
    let waits = out.map(
        |it| match (facts.reports.ahead(it.node), current.syncing()) {
            (Some(entries), _) => Wait::Operator(it.node, entries),
            (None, Some(joining)) if !current.has_left(it.node, it.incarnation) => {
                Wait::Turn(it.node, joining)
            }
            _ => Wait::Life(it.node),
        },
    );
    let mut waits: Vec<Wait> = waits.collect();
    if has_place && waits.is_empty() {
        waits.push(Wait::Members(current.size(), facts.size));
    }
    waits
}

#[cfg(test)]
mod tests;
