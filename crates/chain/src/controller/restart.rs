//! How a chain goes on all of whose serving members are down. It begins with one of them that is
//! back (AL-1, AL-2), or by an operator's order with another one (AL-4).

use std::cmp::Reverse;
use std::time::Duration;

use super::{ObservedState, Reports, chain_member, is_live, is_of, note_absent};
use crate::config::{ChainMember, Configuration, DiskId, NodeId, Role, UncleanRecovery};
use crate::guard::{Guard, Guards};
use crate::progress::Progress;
use crate::replica::Identity;

/// Waits for members that served last, and chooses the one that the chain begins again with (AL-1).
///
/// A copy of a disk that passes for the disk lacks entries that every other of these members has.
#[derive(Clone, Debug, Default)]
pub struct Returning {
    /// The epoch in which one of them was back, and since when it has been seen.
    since: Option<(u64, Duration)>,
}

impl Returning {
    /// The member with which the chain of `current` begins again, if it is down and it is time. It
    /// is time when all that served last are back, or one has been for `session`, by a clock that
    /// never falls. Of those that are back it is the first one of those whose disk, as its
    /// `progress` shows, has the highest last id.
    ///
    /// # Errors
    /// That of `progress`.
    pub fn choose<E>(
        &mut self,
        now: Duration,
        session: Duration,
        current: &Configuration,
        sessions: &[Identity],
        progress: impl FnMut(DiskId) -> Result<Progress, E>,
    ) -> Result<Option<Identity>, E> {
        let guards = Guards::default();
        self.choose_guarded(now, session, current, sessions, progress, &guards)
    }

    /// As [`Returning::choose`], with other guards: for mutants.
    ///
    /// # Errors
    /// That of `progress`.
    pub fn choose_guarded<E>(
        &mut self,
        now: Duration,
        session: Duration,
        current: &Configuration,
        sessions: &[Identity],
        mut progress: impl FnMut(DiskId) -> Result<Progress, E>,
        guards: &Guards,
    ) -> Result<Option<Identity>, E> {
        let returned = returned(current, sessions);
        if returned.is_empty() {
            self.since = None;
            return Ok(None);
        }
        if !guards.has(Guard::RestartFurthest) {
            return Ok(returned.first().copied());
        }
        let since = self.since.filter(|(epoch, _)| *epoch == current.epoch);
        let since = since.map_or(now, |(_, since)| since);
        self.since = Some((current.epoch, since));
        let are_all = missing(current, &returned).is_empty();
        if !are_all && now.saturating_sub(since) < session {
            return Ok(None);
        }
        let mut furthest = Vec::new();
        for member in returned {
            furthest.push((Reverse(progress(member.disk)?.last), member));
        }
        let furthest = furthest.into_iter().min_by_key(|(last, _)| *last);
        Ok(furthest.map(|(_, member)| member))
    }
}

/// The members that served last and are back, each on its own disk; none while one serves.
pub fn returned(current: &Configuration, sessions: &[Identity]) -> Vec<Identity> {
    let is_live = |member: &ChainMember| sessions.iter().any(|live| is_of(member, live));
    let mut serving = current.members.iter().filter(|it| it.role == Role::Serving);
    if serving.any(is_live) {
        return Vec::new();
    }
    let served = |it: &&Identity| current.last_serving.contains(&(it.node, it.disk));
    sessions.iter().filter(served).copied().collect()
}

/// The members that served last and are not among `returned`.
pub(crate) fn missing(current: &Configuration, returned: &[Identity]) -> Vec<(NodeId, DiskId)> {
    let is_back = |(node, disk)| returned.iter().any(|it| (it.node, it.disk) == (node, disk));
    let served = current.last_serving.iter().copied();
    served.filter(|disk| !is_back(*disk)).collect()
}

/// AL-2: the member that was chosen begins alone. A member that joins, lives and has not adopted
/// that it does not serve stays behind it (CTRL-6).
pub(super) fn begin(draft: &mut Configuration, current: &Configuration, observed: &ObservedState) {
    let returned = returned(draft, &observed.sessions);
    let Some(member) = observed.restart.filter(|it| returned.contains(it)) else {
        return;
    };
    let may_believe = |joining: &ChainMember| {
        let is_known = observed.reports.has_adopted(joining.node, current.epoch);
        joining.role.is_syncing() && is_live(joining, observed) && !is_known
    };
    draft.members.retain(may_believe);
    draft.members.insert(0, chain_member(member, Role::Serving));
}

/// Why a chain is not to go on with what one member has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestoreError {
    /// This member serves.
    Serves(NodeId),
    /// This member has everything, and lives: the chain begins again with it by itself (AL-1).
    Returns(NodeId),
    /// The member that is to go on has no session.
    Absent,
    /// The member that is to go on was being filled: what it has is no state.
    Unfilled,
}

/// AL-4: the configuration in which `node` goes on alone with what it has, though others had more.
///
/// Every other disk that ever had a membership is to be filled when it comes back. What it knows
/// committed beyond this member is no part of the chain any more.
///
/// # Errors
/// [`RestoreError`] when no member has to be given up, or none is there to go on.
pub fn restore(
    current: &Configuration,
    node: NodeId,
    sessions: &[Identity],
    reports: &Reports,
) -> Result<Configuration, RestoreError> {
    let is_live = |member: &&ChainMember| sessions.iter().any(|live| is_of(member, live));
    let mut serving = current.members.iter().filter(|it| it.role == Role::Serving);
    let has_all = |it: &&Identity| current.last_serving.contains(&(it.node, it.disk));
    // LD-2: the serving member has less than this one.
    let knows_more = reports.ahead(node).is_some();
    if let Some(member) = serving.find(is_live).filter(|_| !knows_more) {
        return Err(RestoreError::Serves(member.node));
    }
    if let Some(member) = sessions.iter().find(has_all).filter(|_| !knows_more) {
        return Err(RestoreError::Returns(member.node));
    }
    let chosen = sessions.iter().find(|member| member.node == node);
    let chosen = *chosen.ok_or(RestoreError::Absent)?;
    if reports.has_gap(node) {
        return Err(RestoreError::Unfilled);
    }
    let epoch = current.epoch + 1;
    let mut next = Configuration {
        epoch,
        members: vec![chain_member(chosen, Role::Serving)],
        last_serving: vec![(chosen.node, chosen.disk)],
        lossy: UncleanRecovery {
            count: current.lossy.count + 1,
            epoch,
        },
        ..current.clone()
    };
    note_absent(&mut next, current, None);
    next.absent
        .iter_mut()
        .for_each(|absent| absent.must_fill = true);
    Ok(next)
}
