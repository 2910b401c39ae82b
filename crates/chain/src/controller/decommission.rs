//! Members that leave permanently (docs/internals/protocol/reconfiguration.md, section 12).

use super::{ObservedState, is_live};
use crate::config::{AbsentMember, ChainMember, Configuration, DiskId, Role};
use crate::guard::{Guard, Guards};

/// Why a disk is not abandoned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AbandonError {
    /// It has a membership, or a session that is not over.
    Lives,
    /// It is not waited for.
    NotAbsent,
}

/// The members of members that are to be there.
pub(super) fn wanted<'a>(
    draft: &'a Configuration,
    observed: &'a ObservedState,
) -> impl Iterator<Item = &'a ChainMember> {
    let members = draft.members.iter();
    members.filter(|member| !observed.unwanted.contains(&member.node))
}

/// LV-1: whether as many members serve as the chain is to have, of those that are to be there.
fn is_whole(draft: &Configuration, observed: &ObservedState) -> bool {
    let serves = |member: &&ChainMember| member.role == Role::Serving && is_live(member, observed);
    observed.size <= wanted(draft, observed).filter(serves).count()
}

/// LV-1: of the members that are to leave the last one, which is the head last of all, goes on
/// without serving. It is a move among live members (RM-3).
pub(super) fn give_up(draft: &mut Configuration, observed: &ObservedState) {
    let all_live = draft.members.iter().all(|member| is_live(member, observed));
    let is_quiet = draft.syncing().is_none() && all_live;
    if !is_quiet || !is_whole(draft, observed) || !observed.version.is_third() {
        return;
    }
    let leaves = |member: &ChainMember| observed.unwanted.contains(&member.node);
    if let Some(position) = draft.members.iter().rposition(leaves) {
        let mut moved = draft.members.remove(position);
        moved.role = Role::Leaving;
        draft.members.push(moved);
    }
}

/// Who is neither wanted nor needed leaves; any other that does not serve joins.
pub(super) fn name(draft: &mut Configuration, observed: &ObservedState) {
    let is_whole = is_whole(draft, observed) && observed.version.is_third();
    for member in draft.members.iter_mut().filter(|it| it.role.is_syncing()) {
        member.role = match is_whole && observed.unwanted.contains(&member.node) {
            true => Role::Leaving,
            false => Role::Syncing,
        };
    }
}

/// LV-3: who has handed off what it held, in this epoch, has no membership in the next, and is not
/// waited for. Which disk that was.
pub(super) fn go(
    draft: &mut Configuration,
    current: &Configuration,
    observed: &ObservedState,
    guards: &Guards,
) -> Option<DiskId> {
    let is_still = draft.members == current.members;
    let all_live = draft.members.iter().all(|member| is_live(member, observed));
    let member = current.members.last()?;
    let (node, epoch) = (member.node, current.epoch);
    let is_asked = member.role == Role::Leaving && observed.unwanted.contains(&node);
    let has_handed_on = match guards.has(Guard::LeaveHandsOn) {
        true => observed.reports.has_handed_on(node, epoch),
        false => observed.reports.has_adopted(node, epoch),
    };
    if !is_still || !all_live || !is_asked || !has_handed_on {
        return None;
    }
    let member = draft.members.pop()?;
    Some(member.disk)
}

/// LV-6: no member waits for these disks any more, nor for what they hold. An operator knows that
/// they will not come back.
///
/// # Errors
/// [`AbandonError`].
pub fn abandon(
    current: &Configuration,
    disks: &[DiskId],
    is_live: impl Fn(DiskId) -> bool,
) -> Result<Configuration, AbandonError> {
    let is_meant = |absent: &AbsentMember| disks.contains(&absent.disk);
    let is_member = |disk: &DiskId| current.members.iter().any(|member| member.disk == *disk);
    if disks.iter().any(|disk| is_member(disk) || is_live(*disk)) {
        return Err(AbandonError::Lives);
    }
    if !current.absent.iter().any(is_meant) {
        return Err(AbandonError::NotAbsent);
    }
    let mut next = current.clone();
    next.epoch += 1;
    next.absent.retain(|absent| !is_meant(absent));
    Ok(next)
}
