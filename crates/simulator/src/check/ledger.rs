//! I6: an acknowledged strong write is in the log of every member of every later epoch.

use fader_chain::EntryId;

use super::{Evidence, Verdict, Violation};
use crate::history::{Fact, Moment, Reply};

/// Every reply names entries that are committed, and no member that becomes ready later, or is
/// there at the end, lacks them.
///
/// # Errors
/// The reply, and the member that lacks its entry.
pub fn ledger(evidence: &Evidence<'_>) -> Verdict {
    let history = evidence.history;
    let mut told = Vec::new();
    for (at, call) in history.calls.iter().enumerate() {
        let Some((end, reply)) = call.done() else {
            continue;
        };
        let id = match reply {
            Reply::Decided { entry, .. } => *entry,
            Reply::Shown { commit, .. } => *commit,
            Reply::Accepted { .. } => continue,
        };
        if evidence.place(id).is_none() {
            let text = format!("{id} was never committed");
            return Err(Violation::new("I6", text).call(history, at));
        }
        told.push((end, id, at));
    }
    told.sort_unstable();
    let greatest = greatest_so_far(&told);
    for event in &history.events {
        // A member may be ready in an epoch that is over already: there, nobody hears it.
        if let Fact::Ready { node, last, epoch } = &event.fact
            && let Some((id, at)) = told_before(&greatest, event.at, *epoch)
            && *last < id
        {
            let text = format!("{node} serves without {id}, which was acknowledged");
            return Err(Violation::new("I6", text).call(history, at).event(event));
        }
    }
    for member in &history.rest {
        if let Some((_, id, at)) = greatest.last()
            && member.applied < *id
        {
            let text = format!("{} ends at {} without {id}", member.node, member.applied);
            return Err(Violation::new("I6", text).call(history, *at));
        }
    }
    Ok(told.len())
}

/// The greatest id told so far, at each moment at which it grew.
fn greatest_so_far(told: &[(Moment, EntryId, usize)]) -> Vec<(Moment, EntryId, usize)> {
    let mut greatest: Vec<(Moment, EntryId, usize)> = Vec::new();
    for entry in told {
        if greatest.last().is_none_or(|last| last.1 < entry.1) {
            greatest.push(*entry);
        }
    }
    greatest
}

/// The greatest id told before `at` that was numbered in `epoch` or before.
fn told_before(
    greatest: &[(Moment, EntryId, usize)],
    at: Moment,
    epoch: u64,
) -> Option<(EntryId, usize)> {
    let count = greatest.partition_point(|(told, id, _)| *told < at && id.epoch <= epoch);
    greatest[..count].last().map(|(_, id, call)| (*id, *call))
}
