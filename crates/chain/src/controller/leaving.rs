//! Members that leave for good (docs/protocol/reconfiguration.md, section 12).

use super::{Facts, is_live};
use crate::config::{Away, Configuration, DiskId, Role, Seat};
use crate::guard::{Guard, Guards};

/// Why a disk is not abandoned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAbandoned {
    /// It has a seat, or a session that is not over.
    Lives,
    /// It is not waited for.
    NotAway,
}

/// The seats of members that are to be there.
pub(super) fn wanted<'a>(
    draft: &'a Configuration,
    facts: &'a Facts,
) -> impl Iterator<Item = &'a Seat> {
    let seats = draft.seats.iter();
    seats.filter(|seat| !facts.unwanted.contains(&seat.node))
}

/// LV-1: whether as many members serve as the chain is to have, of those that are to be there.
fn is_whole(draft: &Configuration, facts: &Facts) -> bool {
    let serves = |seat: &&Seat| seat.role == Role::Serving && is_live(seat, facts);
    facts.size <= wanted(draft, facts).filter(serves).count()
}

/// LV-1: of the members that are to leave the last one, which is the head last of all, goes on
/// without serving. It is a move among live members (RM-3).
pub(super) fn give_up(draft: &mut Configuration, facts: &Facts) {
    let all_live = draft.seats.iter().all(|seat| is_live(seat, facts));
    let is_quiet = draft.syncing().is_none() && all_live;
    if !is_quiet || !is_whole(draft, facts) || !facts.version.is_third() {
        return;
    }
    let leaves = |seat: &Seat| facts.unwanted.contains(&seat.node);
    if let Some(position) = draft.seats.iter().rposition(leaves) {
        let mut moved = draft.seats.remove(position);
        moved.role = Role::Leaving;
        draft.seats.push(moved);
    }
}

/// Who is neither wanted nor needed leaves; any other that does not serve joins.
pub(super) fn name(draft: &mut Configuration, facts: &Facts) {
    let is_whole = is_whole(draft, facts) && facts.version.is_third();
    for seat in draft.seats.iter_mut().filter(|it| it.role.is_syncing()) {
        seat.role = match is_whole && facts.unwanted.contains(&seat.node) {
            true => Role::Leaving,
            false => Role::Syncing,
        };
    }
}

/// LV-3: who has handed on what it held, in this epoch, has no seat in the next, and is not waited
/// for. Which disk that was.
pub(super) fn go(
    draft: &mut Configuration,
    current: &Configuration,
    facts: &Facts,
    guards: &Guards,
) -> Option<DiskId> {
    let is_still = draft.seats == current.seats;
    let all_live = draft.seats.iter().all(|seat| is_live(seat, facts));
    let seat = current.seats.last()?;
    let (node, epoch) = (seat.node, current.epoch);
    let is_asked = seat.role == Role::Leaving && facts.unwanted.contains(&node);
    let has_handed_on = match guards.has(Guard::LeaveHandsOn) {
        true => facts.reports.has_handed_on(node, epoch),
        false => facts.reports.has_adopted(node, epoch),
    };
    if !is_still || !all_live || !is_asked || !has_handed_on {
        return None;
    }
    let seat = draft.seats.pop()?;
    Some(seat.disk)
}

/// LV-6: nobody waits for these disks any more, which an operator knows will not come back, nor
/// what they hold.
///
/// # Errors
/// [`NotAbandoned`].
pub fn abandon(
    current: &Configuration,
    disks: &[DiskId],
    is_live: impl Fn(DiskId) -> bool,
) -> Result<Configuration, NotAbandoned> {
    let is_meant = |away: &Away| disks.contains(&away.disk);
    let has_seat = |disk: &DiskId| current.seats.iter().any(|seat| seat.disk == *disk);
    if disks.iter().any(|disk| has_seat(disk) || is_live(*disk)) {
        return Err(NotAbandoned::Lives);
    }
    if !current.away.iter().any(is_meant) {
        return Err(NotAbandoned::NotAway);
    }
    let mut next = current.clone();
    next.epoch += 1;
    next.away.retain(|away| !is_meant(away));
    Ok(next)
}
