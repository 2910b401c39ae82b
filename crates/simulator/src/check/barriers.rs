//! G8: a barrier is above every eventual write acknowledged before it, as far as the write path
//! knows of it.

use std::collections::BTreeMap;

use fader_chain::{EntryId, RequestId};

use super::evidence::Acknowledged;
use super::{Evidence, Verdict, Violation, Witness};
use crate::history::display::At;
use crate::history::{Call, Level, Moment, Reply};

/// Take every eventual write of a barrier's registers that was acknowledged before its invocation.
/// It is settled at or below the barrier's place, if a holder of it has stayed in the write path.
///
/// # Errors
/// The write and the barrier.
pub fn barriers(evidence: &Evidence<'_>) -> Verdict {
    let writes = evidence.acknowledged();
    let mut asked: BTreeMap<RequestId, Moment> = BTreeMap::new();
    for call in &evidence.history.calls {
        if let Some(name) = call.name {
            asked.entry(name).or_insert(call.invoked);
        }
    }
    let mut count = 0;
    for (at, call) in evidence.history.calls.iter().enumerate() {
        let Some((place, epoch)) = place(call) else {
            continue;
        };
        // A retry is answered by the entry of the first attempt.
        let first = call.name.and_then(|name| asked.get(&name));
        let invoked = first.copied().unwrap_or(call.invoked);
        let keys = call.request.keys();
        let before = writes
            .iter()
            .filter(|write| write.attached && write.at < invoked && keys.contains(&write.key));
        for write in before.filter(|write| is_known(evidence, write, epoch)) {
            count += 1;
            let settled = evidence.settled.get(&write.name);
            if settled.is_none_or(|settled| place < settled.entry) {
                let text = format!("a barrier at {place} is not above @{}", At(write.stamp));
                return Err(Violation::new("G8", text)
                    .call(evidence.history, write.call)
                    .call(evidence.history, at)
                    .events(evidence.story(write.name)));
            }
        }
    }
    Ok(count)
}

/// The entry up to which a barrier's answer reflects the log, and its epoch.
fn place(call: &Call) -> Option<(EntryId, u64)> {
    let (_, reply) = call.done().filter(|_| call.level == Level::Barrier)?;
    match reply {
        Reply::Decided { entry, .. } => Some((*entry, entry.epoch)),
        Reply::Shown { commit, epoch, .. } => Some((*commit, *epoch)),
        Reply::Accepted { .. } => None,
    }
}

/// Whether someone who held the write when it was acknowledged was in the write path ever since,
/// hence not in quarantine.
fn is_known(evidence: &Evidence<'_>, write: &Acknowledged<'_>, epoch: u64) -> bool {
    let mut holders = evidence.holders_by(write.name, write.at);
    holders.any(|(node, held)| evidence.stayed(node, held, epoch))
}
