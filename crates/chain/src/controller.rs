//! What the next configuration of a chain is (docs/protocol/reconfiguration.md, sections 3 to 8).
//!
//! A controller is anyone who reads the configuration, knows whose sessions live and what members
//! report, and publishes what [`next`] says by compare-and-set on the epoch. Nothing is kept
//! outside the configuration but those facts, so controllers may die, repeat themselves, compete.
//!
//! Invariants:
//! - K1 a seat goes only with its session (RM-1, FN-2), or by K6, or for good by K10; the last
//!   serving seat stays (RM-2).
//! - K2 after all serving members were lost, only one of `last_serving` with its own disk begins
//!   again, alone (AL-1, AL-2).
//! - K3 one member joins at a time, at the end of the write path, and serves when it has reported
//!   `SyncDone` in the current epoch (JN-1, JN-6).
//! - K4 the floor rises to what every member has applied in the current epoch, no gap open (GC-2).
//! - K6 who may serve by what it knows keeps its seat: it becomes syncing first, and leaves when it
//!   has adopted that, or its session is over (FN-2).
//! - K5 whoever had a seat is serving or away (MD-4), or has left for good (K10), or was abandoned.
//! - K7 who was found to differ is away, and to be filled, until it serves again (DG-3).
//! - K8 where an operator gives K2 up, the configuration counts it ([`restore`], AL-4).
//! - K9 the version is the cluster's, as far as the controller knows it, and never falls.
//!
//! - K10 a member that is placed elsewhere leaves when as many others serve as there are to be, and
//!   when it has handed on what it held, in the current epoch (LV-1 to LV-3).
//!
//! Deliberately absent: sessions and their clocks, how facts travel, who is slow, who is wanted
//! where (`crate::placement`).

mod leaving;
mod restart;

use std::collections::BTreeMap;

use crate::config::{Away, Configuration, DiskId, Lossy, NodeId, Role, Seat, Wiring};
use crate::guard::{Guard, Guards};
use crate::replica::{Identity, Report};
use crate::stamp::EntryId;
use crate::version::Version;

pub use leaving::{NotAbandoned, abandon};
pub(crate) use restart::missing;
pub use restart::{NotRestored, Returning, restore, returned};

/// What a controller knows besides the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Whose sessions live. A seat whose identity is not among them is given up.
    pub sessions: Vec<Identity>,
    /// Those of them that were not heard of for a part of a session, or not yet: they may be gone.
    pub unheard: Vec<Identity>,
    /// What members reported.
    pub reports: Reports,
    /// How many members the chain is to have.
    pub size: usize,
    /// Members that live and are to leave the chain: it is placed elsewhere.
    pub unwanted: Vec<NodeId>,
    /// How entries are to travel.
    pub wiring: Wiring,
    /// A change among live members, if one is wanted.
    pub shift: Option<Shift>,
    /// Whether it is time to raise the floor.
    pub raise_floor: bool,
    /// The member with which a chain begins again that is down, if one is to ([`Returning`]).
    pub restart: Option<Identity>,
    /// The cluster's version. Whoever has a session speaks it.
    pub version: Version,
}

/// A change of places among members that live (RM-3, SL-1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shift {
    /// This serving member becomes the head.
    Head(NodeId),
    /// This serving member goes behind all others that serve.
    Back(NodeId),
    /// This serving member is slow: it goes to the end, as syncing.
    Demote(NodeId),
}

/// What members reported about the epoch they are in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Reports(BTreeMap<NodeId, Reported>);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Reported {
    epoch: u64,
    is_adopted: bool,
    is_synced: bool,
    /// Who differs from the others, it says (I21).
    differs: Option<NodeId>,
    /// The joining member whose confirmations it hears, it says.
    heard: Option<NodeId>,
    /// For whom the chain waits, it says (SL-1).
    slow: Option<NodeId>,
    /// Whether it holds nothing that others lack (LV-2).
    has_handed_on: bool,
    /// How many entries it knows committed that its greeter has not: it has stopped (LD-2).
    ahead: Option<u64>,
    /// What it has applied, if no gap is open.
    applied: Option<EntryId>,
    /// Whether a gap is open.
    has_gap: bool,
}

impl Reports {
    /// Takes what `node` says; of an epoch older than its newest it says nothing any more.
    pub fn note(&mut self, node: NodeId, report: Report) {
        let epoch = report.epoch();
        let reported = self.0.entry(node).or_default();
        if epoch < reported.epoch {
            return;
        }
        if reported.epoch < epoch {
            *reported = Reported {
                epoch,
                has_gap: reported.has_gap,
                ..Reported::default()
            };
        }
        match report {
            Report::Adopted { .. } => reported.is_adopted = true,
            Report::SyncDone { .. } => reported.is_synced = true,
            Report::Differs { node, .. } => reported.differs = Some(node),
            Report::Heard { node, .. } => reported.heard = Some(node),
            Report::Slow { node, .. } => reported.slow = Some(node),
            Report::HandedOn { .. } => reported.has_handed_on = true,
            Report::Ahead { entries, .. } => {
                reported.is_adopted = true;
                reported.ahead = Some(entries);
            }
            Report::Floor { applied, gap, .. } => {
                reported.is_adopted = true;
                reported.applied = (!gap).then_some(applied);
                reported.has_gap = gap;
            }
        }
    }

    /// Who differs from the others in `epoch`, if one does.
    pub fn differs(&self, epoch: u64) -> Option<NodeId> {
        let reported = self.0.values().filter(|reported| reported.epoch == epoch);
        reported.filter_map(|reported| reported.differs).next()
    }

    /// For whom the chain of `current` waits, as its head says.
    pub fn slow(&self, current: &Configuration) -> Option<NodeId> {
        self.of(current.head(), current.epoch)?.slow
    }

    /// By how many committed entries `node` is ahead of its chain, if it has stopped for that
    /// (LD-2).
    pub fn ahead(&self, node: NodeId) -> Option<u64> {
        self.0.get(&node).and_then(|reported| reported.ahead)
    }

    /// Whether `node` said last that a gap is open: its state stands for no entry.
    fn has_gap(&self, node: NodeId) -> bool {
        self.0.get(&node).is_some_and(|reported| reported.has_gap)
    }

    /// Whether `node` has adopted `epoch`.
    pub fn has_adopted(&self, node: NodeId, epoch: u64) -> bool {
        self.of(node, epoch)
            .is_some_and(|reported| reported.is_adopted)
    }

    /// Whether `node` has said in `epoch` that it holds everything (JN-6).
    pub(crate) fn is_synced(&self, node: NodeId, epoch: u64) -> bool {
        self.of(node, epoch)
            .is_some_and(|reported| reported.is_synced)
    }

    /// Whether `node` has handed on what it held, in `epoch`.
    fn has_handed_on(&self, node: NodeId, epoch: u64) -> bool {
        self.of(node, epoch)
            .is_some_and(|reported| reported.has_handed_on)
    }

    fn of(&self, node: NodeId, epoch: u64) -> Option<&Reported> {
        self.0.get(&node).filter(|reported| reported.epoch == epoch)
    }
}

/// The first configuration of a chain: `members`, not none, all with empty disks.
pub fn first(members: &[Identity], wiring: Wiring, version: Version) -> Configuration {
    assert!(!members.is_empty(), "C2: some member serves");
    let seats = members.iter().map(|member| seat(*member, Role::Serving));
    Configuration {
        epoch: 1,
        wiring,
        seats: seats.collect(),
        last_serving: members
            .iter()
            .map(|member| (member.node, member.disk))
            .collect(),
        away: Vec::new(),
        floor: EntryId::ZERO,
        lossy: Lossy::default(),
        version,
    }
}

/// The configuration that follows `current`, if the facts ask for another one.
///
/// The changes are applied one after the other, as if each had been an epoch of its own: members
/// may skip epochs.
pub fn next(current: &Configuration, facts: &Facts) -> Option<Configuration> {
    next_guarded(current, facts, &Guards::default())
}

/// As [`next`], with other guards: for mutants.
pub fn next_guarded(
    current: &Configuration,
    facts: &Facts,
    guards: &Guards,
) -> Option<Configuration> {
    let mut draft = current.clone();
    serve(&mut draft, current.epoch, facts);
    remove(&mut draft, facts);
    restart::begin(&mut draft, current, facts);
    give_up_ahead(&mut draft, current, facts);
    let differs = facts.reports.differs(current.epoch);
    if let Some(node) = differs {
        demote(&mut draft, node, current, facts, guards);
    }
    if let Some(node) = facts.reports.slow(current) {
        demote(&mut draft, node, current, facts, guards);
        if current.syncing() == Some(node) {
            leave(&mut draft, node, current, facts, guards);
        }
    }
    if let Some(wanted) = facts.shift {
        shift(&mut draft, wanted, facts);
    }
    let gone = leaving::go(&mut draft, current, facts, guards);
    leaving::give_up(&mut draft, facts);
    join(&mut draft, current, facts);
    leaving::name(&mut draft, facts);
    draft.wiring = facts.wiring;
    draft.version = draft.version.max(facts.version);
    if facts.raise_floor {
        raise_floor(&mut draft, current, facts);
    }
    if draft == *current {
        return None;
    }
    draft.epoch += 1;
    draft.last_serving = draft
        .seats
        .iter()
        .filter(|seat| seat.role == Role::Serving)
        .map(|seat| (seat.node, seat.disk))
        .collect();
    note_away(&mut draft, current, differs);
    draft.away.retain(|away| Some(away.disk) != gone);
    Some(draft)
}

fn seat(member: Identity, role: Role) -> Seat {
    Seat {
        node: member.node,
        incarnation: member.incarnation,
        disk: member.disk,
        role,
    }
}

fn is_live(seat: &Seat, facts: &Facts) -> bool {
    facts.sessions.iter().any(|member| is_of(seat, member))
}

/// Whether a seat is that of this life.
pub fn is_of(seat: &Seat, member: &Identity) -> bool {
    seat.life() == (member.node, member.incarnation, member.disk)
}

/// JN-6: the syncing member has said, in the current epoch, that it holds everything, and the
/// commit point that it hears it.
fn serve(draft: &mut Configuration, epoch: u64, facts: &Facts) {
    let point = facts.reports.of(draft.commit_point(), epoch);
    let heard = point.and_then(|point| point.heard);
    for seat in &mut draft.seats {
        let reported = facts.reports.of(seat.node, epoch);
        let is_synced = reported.is_some_and(|reported| reported.is_synced);
        let joins = seat.role == Role::Syncing;
        if joins && is_synced && heard == Some(seat.node) && is_live(seat, facts) {
            seat.role = Role::Serving;
        }
    }
}

/// RM-1, RM-2: whoever has no session goes, unless nobody would be left that serves, and was heard
/// of. Sessions of members that went together end one after the other: the chain is not left to the
/// one whose session ends last.
fn remove(draft: &mut Configuration, facts: &Facts) {
    let is_heard = |seat: &Seat| !facts.unheard.iter().any(|member| is_of(seat, member));
    let serves = |seat: &Seat| seat.role == Role::Serving && is_live(seat, facts) && is_heard(seat);
    if draft.seats.iter().any(serves) {
        draft.seats.retain(|seat| is_live(seat, facts));
    }
}

/// LD-2: a member that knows more than its chain has stopped, and confirms nothing: it gives up its
/// seat, if another one serves alive. Its life stays, for an operator to choose it.
fn give_up_ahead(draft: &mut Configuration, current: &Configuration, facts: &Facts) {
    let is_ahead = |seat: &Seat| {
        let reported = facts.reports.of(seat.node, current.epoch);
        reported.is_some_and(|it| it.ahead.is_some())
    };
    let serves = |seat: &Seat| seat.role == Role::Serving && is_live(seat, facts);
    if draft
        .seats
        .iter()
        .any(|seat| serves(seat) && !is_ahead(seat))
    {
        draft.seats.retain(|seat| !is_ahead(seat));
    }
}

/// RM-3: among live members; what serves after a change serves alive.
fn shift(draft: &mut Configuration, wanted: Shift, facts: &Facts) {
    let (Shift::Head(node) | Shift::Back(node) | Shift::Demote(node)) = wanted;
    let serving = draft.serving().count();
    if !draft.seats.iter().all(|seat| is_live(seat, facts)) {
        return;
    }
    let Some(position) = draft.position(node) else {
        return;
    };
    if draft.seats[position].role.is_syncing() || serving < 2 {
        return;
    }
    let mut moved = draft.seats.remove(position);
    match wanted {
        Shift::Head(_) => draft.seats.insert(0, moved),
        Shift::Back(_) => draft.seats.insert(serving - 1, moved),
        Shift::Demote(_) if draft.syncing().is_none() => {
            moved.role = Role::Syncing;
            draft.seats.push(moved);
        }
        Shift::Demote(_) => draft.seats.insert(position, moved),
    }
}

/// I21, SL-3: the member goes on as a joining one, if somebody else serves alive. Who joins now
/// leaves, and comes back.
fn demote(
    draft: &mut Configuration,
    node: NodeId,
    current: &Configuration,
    facts: &Facts,
    guards: &Guards,
) {
    let is_its = |seat: &Seat| seat.node == node && seat.role == Role::Serving;
    let Some(position) = draft.seats.iter().position(is_its) else {
        return;
    };
    let stays = |seat: &Seat| seat.node != node && seat.role == Role::Serving;
    if !draft
        .seats
        .iter()
        .any(|seat| stays(seat) && is_live(seat, facts))
    {
        return;
    }
    if let Some(joining) = draft.syncing()
        && !leave(draft, joining, current, facts, guards)
    {
        return;
    }
    let mut moved = draft.seats.remove(position);
    moved.role = Role::Syncing;
    draft.seats.push(moved);
}

/// FN-2: a joining member gives up its seat although it lives, if it has adopted that it does not
/// serve. Says whether it did.
fn leave(
    draft: &mut Configuration,
    node: NodeId,
    current: &Configuration,
    facts: &Facts,
    guards: &Guards,
) -> bool {
    let is_joining = current.syncing() == Some(node) && draft.syncing() == Some(node);
    let is_known = facts.reports.has_adopted(node, current.epoch);
    if !is_joining || (!is_known && guards.has(Guard::LeaveAdopted)) {
        return false;
    }
    draft.seats.retain(|seat| seat.node != node);
    true
}

/// JN-1: one at a time; a node whose earlier life still has a seat waits for the end of that, and a
/// life that lost its seat gets no other (I24).
fn join(draft: &mut Configuration, current: &Configuration, facts: &Facts) {
    let serves = |seat: &Seat| seat.role == Role::Serving && is_live(seat, facts);
    if draft.syncing().is_some() || !draft.seats.iter().any(serves) {
        return;
    }
    let mut newcomers = facts.sessions.iter().filter(|member| {
        let has_left =
            |away: &Away| (away.node, away.incarnation) == (member.node, member.incarnation);
        let had_seat = current.seats.iter().any(|seat| is_of(seat, member));
        draft.seat(member.node).is_none() && !had_seat && !draft.away.iter().any(has_left)
    });
    let is_wanted = |member: &&Identity| !facts.unwanted.contains(&member.node);
    let mut unwanted = newcomers.clone().filter(|member| !is_wanted(member));
    let has_place = leaving::wanted(draft, facts).count() < facts.size;
    let newcomer = newcomers.find(is_wanted).filter(|_| has_place);
    // LV-5: who is placed elsewhere comes back to hand on what it holds.
    let is_awaited = |member: &&Identity| draft.away.iter().any(|it| it.disk == member.disk);
    if let Some(member) = newcomer.or_else(|| unwanted.find(is_awaited)) {
        draft.seats.push(seat(*member, Role::Syncing));
    }
}

/// GC-2: every member of the *current* epoch has applied it; who joins with the next is filtered.
fn raise_floor(draft: &mut Configuration, current: &Configuration, facts: &Facts) {
    let applied = |seat: &Seat| facts.reports.of(seat.node, current.epoch)?.applied;
    let reported: Option<Vec<EntryId>> = current.seats.iter().map(applied).collect();
    if let Some(lowest) = reported.and_then(|reported| reported.into_iter().min()) {
        draft.floor = draft.floor.max(lowest);
    }
}

/// MD-4: who had a seat until now and does not serve; a disk that serves again has handed on what
/// it held (JN-7), and is as its greeter's. DG-3: who differs is to be filled, if it is removed now
/// or has become syncing.
fn note_away(draft: &mut Configuration, current: &Configuration, differs: Option<NodeId>) {
    let seats = draft.seats.iter().filter(|seat| seat.role == Role::Serving);
    let serving: Vec<DiskId> = seats.map(|seat| seat.disk).collect();
    let had_seat = |disk: DiskId| current.seats.iter().any(|seat| seat.disk == disk);
    draft
        .away
        .retain(|away| !serving.contains(&away.disk) && !had_seat(away.disk));
    let left = current
        .seats
        .iter()
        .filter(|seat| !serving.contains(&seat.disk));
    draft.away.extend(left.map(|seat| Away {
        node: seat.node,
        incarnation: seat.incarnation,
        disk: seat.disk,
        left: draft.epoch,
        must_fill: differs == Some(seat.node) || current.must_fill(seat.disk),
    }));
}

#[cfg(test)]
mod tests;
