//! I6: an acknowledged strong write is in the log of every member of every later epoch.

use fader_chain::EntryId;

use super::{Evidence, Verdict, Violation, Witness};
use crate::history::{Fact, History, Moment, Reply};

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
        // A member may be ready in an epoch that is over: it need not hold what came after.
        if let Fact::Ready { node, last, epoch } = &event.fact
            && let Some((id, at)) = told_before(
                &greatest,
                over(history, *epoch).unwrap_or(event.at).min(event.at),
            )
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

/// When a later epoch than `epoch` was published, if one was.
fn over(history: &History, epoch: u64) -> Option<Moment> {
    let mut events = history.events.iter();
    let next = events.find(|event| match &event.fact {
        Fact::Published(later) => epoch < later.epoch,
        _ => false,
    });
    next.map(|event| event.at)
}

fn told_before(greatest: &[(Moment, EntryId, usize)], at: Moment) -> Option<(EntryId, usize)> {
    let count = greatest.partition_point(|(told, _, _)| *told < at);
    greatest[..count].last().map(|(_, id, call)| (*id, *call))
}
