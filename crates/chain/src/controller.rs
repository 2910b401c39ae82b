//! What the next configuration of a chain is
//! (docs/internals/protocol/reconfiguration.md, sections 3 to 8).
//!
//! A controller reads the configuration, and knows the living sessions and the reports of members.
//! It publishes what [`next`] says by compare-and-set on the epoch. Nothing is kept outside the
//! configuration but those facts, so controllers may die, repeat themselves, compete.
//!
//! Invariants:
//! - CTRL-1 a membership goes only with its session (RM-1, FN-2), or by CTRL-6, or permanently by
//!   CTRL-10; the last serving membership stays (RM-2).
//! - CTRL-2 after all serving members were lost, only one of `last_serving` with its own disk
//!   begins again, alone (AL-1, AL-2).
//! - CTRL-3 one member joins at a time, at the end of the write path. It serves when it has
//!   reported `SyncDone` in the current epoch (JN-1, JN-6).
//! - CTRL-4 the safe point rises to what every member has applied in the current epoch, no gap open
//!   (GC-2).
//! - CTRL-6 a member that may serve by what it knows keeps its membership. It becomes syncing
//!   first, and leaves when it has adopted that, or its session is over (FN-2).
//! - CTRL-5 a member that had a membership is serving or away (MD-4), or was decommissioned
//!   (CTRL-10), or was abandoned.
//! - CTRL-7 who was found to differ is absent, and to be filled, until it serves again (DG-3).
//! - CTRL-8 where an operator gives CTRL-2 up, the configuration counts it ([`restore`], AL-4).
//! - CTRL-9 the version is the cluster's, as far as the controller knows it, and never falls.
//!
//! - CTRL-10 a member that is placed elsewhere leaves when as many others serve as there are to be.
//!   It must have handed off what it held, in the current epoch (LV-1 to LV-3).
//!
//! Deliberately absent: sessions and their clocks, how facts travel, who is slow, who is wanted
//! where (`crate::placement`).

mod decommission;
mod restart;

use std::collections::BTreeMap;

use crate::config::{
    AbsentMember, ChainMember, Configuration, DiskId, NodeId, Role, UncleanRecovery, Wiring,
};
use crate::guard::{Guard, Guards};
use crate::replica::{Identity, Report};
use crate::stamp::EntryId;
use crate::version::Version;

pub use decommission::{AbandonError, abandon};
pub(crate) use restart::missing;
pub use restart::{RestoreError, Returning, restore, returned};

/// What a controller knows besides the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedState {
    /// Whose sessions live. A membership whose identity is not among them is given up.
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
    pub role_change: Option<RoleChange>,
    /// Whether it is time to raise the safe point.
    pub raise_safe_point: bool,
    /// The member with which a chain begins again that is down, if one is to ([`Returning`]).
    pub restart: Option<Identity>,
    /// The cluster's version. Each process with a session speaks it.
    pub version: Version,
}

/// A change of places among members that live (RM-3, SL-1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoleChange {
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
    /// How many entries it knows committed that its donor has not: it has stopped (LD-2).
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
            Report::HandoffDone { .. } => reported.has_handed_on = true,
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

    /// Whether `node` has handed off what it held, in `epoch`.
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
    assert!(!members.is_empty(), "CONFIG-2: some member serves");
    let serving = members
        .iter()
        .map(|member| chain_member(*member, Role::Serving));
    Configuration {
        epoch: 1,
        wiring,
        members: serving.collect(),
        last_serving: members
            .iter()
            .map(|member| (member.node, member.disk))
            .collect(),
        absent: Vec::new(),
        safe_point: EntryId::ZERO,
        lossy: UncleanRecovery::default(),
        version,
    }
}

/// The configuration that follows `current`, if the facts ask for another one.
///
/// The changes are applied one after the other, as if each had been an epoch of its own: members
/// may skip epochs.
pub fn next(current: &Configuration, observed: &ObservedState) -> Option<Configuration> {
    next_guarded(current, observed, &Guards::default())
}

/// As [`next`], with other guards: for mutants.
pub fn next_guarded(
    current: &Configuration,
    observed: &ObservedState,
    guards: &Guards,
) -> Option<Configuration> {
    let mut draft = current.clone();
    serve(&mut draft, current.epoch, observed);
    remove(&mut draft, observed);
    restart::begin(&mut draft, current, observed);
    give_up_ahead(&mut draft, current, observed);
    let differs = observed.reports.differs(current.epoch);
    if let Some(node) = differs {
        demote(&mut draft, node, current, observed, guards);
    }
    if let Some(node) = observed.reports.slow(current) {
        demote(&mut draft, node, current, observed, guards);
        if current.syncing() == Some(node) {
            leave(&mut draft, node, current, observed, guards);
        }
    }
    if let Some(wanted) = observed.role_change {
        role_change(&mut draft, wanted, observed);
    }
    let gone = decommission::go(&mut draft, current, observed, guards);
    decommission::give_up(&mut draft, observed);
    join(&mut draft, current, observed);
    decommission::name(&mut draft, observed);
    draft.wiring = observed.wiring;
    draft.version = draft.version.max(observed.version);
    if observed.raise_safe_point {
        raise_safe_point(&mut draft, current, observed);
    }
    if draft == *current {
        return None;
    }
    draft.epoch += 1;
    draft.last_serving = draft
        .members
        .iter()
        .filter(|member| member.role == Role::Serving)
        .map(|member| (member.node, member.disk))
        .collect();
    note_absent(&mut draft, current, differs);
    draft.absent.retain(|absent| Some(absent.disk) != gone);
    Some(draft)
}

fn chain_member(member: Identity, role: Role) -> ChainMember {
    ChainMember {
        node: member.node,
        incarnation: member.incarnation,
        disk: member.disk,
        role,
    }
}

fn is_live(member: &ChainMember, observed: &ObservedState) -> bool {
    observed.sessions.iter().any(|live| is_of(member, live))
}

/// Whether a member of a configuration is this incarnation.
pub fn is_of(member: &ChainMember, identity: &Identity) -> bool {
    member.identity() == (identity.node, identity.incarnation, identity.disk)
}

/// JN-6: the syncing member has said, in the current epoch, that it holds everything, and the
/// commit point that it hears it.
fn serve(draft: &mut Configuration, epoch: u64, observed: &ObservedState) {
    let point = observed.reports.of(draft.commit_point(), epoch);
    let heard = point.and_then(|point| point.heard);
    for member in &mut draft.members {
        let reported = observed.reports.of(member.node, epoch);
        let is_synced = reported.is_some_and(|reported| reported.is_synced);
        let joins = member.role == Role::Syncing;
        if joins && is_synced && heard == Some(member.node) && is_live(member, observed) {
            member.role = Role::Serving;
        }
    }
}

/// RM-1, RM-2: a member without a session goes, unless no member would be left that serves and was
/// heard of. Sessions of members that went together end one after the other: the chain is not left
/// to the one whose session ends last.
fn remove(draft: &mut Configuration, observed: &ObservedState) {
    let is_heard = |member: &ChainMember| {
        !observed
            .unheard
            .iter()
            .any(|unheard| is_of(member, unheard))
    };
    let serves = |member: &ChainMember| {
        member.role == Role::Serving && is_live(member, observed) && is_heard(member)
    };
    if draft.members.iter().any(serves) {
        draft.members.retain(|member| is_live(member, observed));
    }
}

/// LD-2: a member that knows more than its chain has stopped, and confirms nothing: it gives up its
/// membership, if another one serves alive. Its incarnation stays, for an operator to choose it.
fn give_up_ahead(draft: &mut Configuration, current: &Configuration, observed: &ObservedState) {
    let is_ahead = |member: &ChainMember| {
        let reported = observed.reports.of(member.node, current.epoch);
        reported.is_some_and(|it| it.ahead.is_some())
    };
    let serves = |member: &ChainMember| member.role == Role::Serving && is_live(member, observed);
    if draft
        .members
        .iter()
        .any(|member| serves(member) && !is_ahead(member))
    {
        draft.members.retain(|member| !is_ahead(member));
    }
}

/// RM-3: among live members; what serves after a change serves alive.
fn role_change(draft: &mut Configuration, wanted: RoleChange, observed: &ObservedState) {
    let (RoleChange::Head(node) | RoleChange::Back(node) | RoleChange::Demote(node)) = wanted;
    let serving = draft.serving().count();
    if !draft.members.iter().all(|member| is_live(member, observed)) {
        return;
    }
    let Some(position) = draft.position(node) else {
        return;
    };
    if draft.members[position].role.is_syncing() || serving < 2 {
        return;
    }
    let mut moved = draft.members.remove(position);
    match wanted {
        RoleChange::Head(_) => draft.members.insert(0, moved),
        RoleChange::Back(_) => draft.members.insert(serving - 1, moved),
        RoleChange::Demote(_) if draft.syncing().is_none() => {
            moved.role = Role::Syncing;
            draft.members.push(moved);
        }
        RoleChange::Demote(_) => draft.members.insert(position, moved),
    }
}

/// I21, SL-3: the member goes on as a joining one, if another member serves alive. Who joins now
/// leaves, and comes back.
fn demote(
    draft: &mut Configuration,
    node: NodeId,
    current: &Configuration,
    observed: &ObservedState,
    guards: &Guards,
) {
    let is_its = |member: &ChainMember| member.node == node && member.role == Role::Serving;
    let Some(position) = draft.members.iter().position(is_its) else {
        return;
    };
    let stays = |member: &ChainMember| member.node != node && member.role == Role::Serving;
    if !draft
        .members
        .iter()
        .any(|member| stays(member) && is_live(member, observed))
    {
        return;
    }
    if let Some(joining) = draft.syncing()
        && !leave(draft, joining, current, observed, guards)
    {
        return;
    }
    let mut moved = draft.members.remove(position);
    moved.role = Role::Syncing;
    draft.members.push(moved);
}

/// FN-2: a joining member gives up its membership although it lives, if it has adopted that it does
/// not serve. Says whether it did.
fn leave(
    draft: &mut Configuration,
    node: NodeId,
    current: &Configuration,
    observed: &ObservedState,
    guards: &Guards,
) -> bool {
    let is_joining = current.syncing() == Some(node) && draft.syncing() == Some(node);
    let is_known = observed.reports.has_adopted(node, current.epoch);
    if !is_joining || (!is_known && guards.has(Guard::LeaveAdopted)) {
        return false;
    }
    draft.members.retain(|member| member.node != node);
    true
}

/// JN-1: one at a time. A node whose earlier incarnation still has a membership waits for the end
/// of that. An incarnation that lost its membership gets no other (I24).
fn join(draft: &mut Configuration, current: &Configuration, observed: &ObservedState) {
    let serves = |member: &ChainMember| member.role == Role::Serving && is_live(member, observed);
    if draft.syncing().is_some() || !draft.members.iter().any(serves) {
        return;
    }
    let mut newcomers = observed.sessions.iter().filter(|live| {
        let has_left = |absent: &AbsentMember| {
            (absent.node, absent.incarnation) == (live.node, live.incarnation)
        };
        let was_member = current.members.iter().any(|member| is_of(member, live));
        draft.member(live.node).is_none() && !was_member && !draft.absent.iter().any(has_left)
    });
    let is_wanted = |member: &&Identity| !observed.unwanted.contains(&member.node);
    let mut unwanted = newcomers.clone().filter(|member| !is_wanted(member));
    let has_place = decommission::wanted(draft, observed).count() < observed.size;
    let newcomer = newcomers.find(is_wanted).filter(|_| has_place);
    // LV-5: who is placed elsewhere comes back to hand off what it holds.
    let is_awaited = |member: &&Identity| draft.absent.iter().any(|it| it.disk == member.disk);
    if let Some(member) = newcomer.or_else(|| unwanted.find(is_awaited)) {
        draft.members.push(chain_member(*member, Role::Syncing));
    }
}

/// GC-2: every member of the *current* epoch has applied it; who joins with the next is filtered.
fn raise_safe_point(draft: &mut Configuration, current: &Configuration, observed: &ObservedState) {
    let applied = |member: &ChainMember| observed.reports.of(member.node, current.epoch)?.applied;
    let reported: Option<Vec<EntryId>> = current.members.iter().map(applied).collect();
    if let Some(lowest) = reported.and_then(|reported| reported.into_iter().min()) {
        draft.safe_point = draft.safe_point.max(lowest);
    }
}

/// MD-4: members that had a membership until now and do not serve. A disk that serves again has
/// handed off what it held (JN-7), and is as its donor's. DG-3: who differs is to be filled, if it
/// is removed now or has become syncing.
fn note_absent(draft: &mut Configuration, current: &Configuration, differs: Option<NodeId>) {
    let members = draft
        .members
        .iter()
        .filter(|member| member.role == Role::Serving);
    let serving: Vec<DiskId> = members.map(|member| member.disk).collect();
    let was_member = |disk: DiskId| current.members.iter().any(|member| member.disk == disk);
    draft
        .absent
        .retain(|absent| !serving.contains(&absent.disk) && !was_member(absent.disk));
    let left = current
        .members
        .iter()
        .filter(|member| !serving.contains(&member.disk));
    draft.absent.extend(left.map(|member| AbsentMember {
        node: member.node,
        incarnation: member.incarnation,
        disk: member.disk,
        left: draft.epoch,
        must_fill: differs == Some(member.node) || current.must_fill(member.disk),
    }));
}

#[cfg(test)]
mod tests;
