//! LV-3, LV-4: a decommissioned member leaves nothing behind that it alone holds, and serves no
//! more in that incarnation.

use fader_chain::{Configuration, NodeId};

use super::{Evidence, Verdict, Violation, Witness};
use crate::history::Fact;
use crate::history::display::Name;

/// Take the publication of each epoch without a member that was leaving, and is not waited for.
/// Every operation that it held is settled, or held durably by a member that is there.
///
/// # Errors
/// The operation with all that is known of it.
pub fn decommissions(evidence: &Evidence<'_>) -> Verdict {
    let mut count = 0;
    for pair in evidence.epochs.windows(2) {
        let [(before, _), (after, event)] = pair else {
            continue;
        };
        let Some(node) = before.leaving() else {
            continue;
        };
        let is_absent = after.absent.iter().any(|absent| absent.node == node);
        if is_absent || after.member(node).is_some() {
            continue;
        }
        count += 1;
        serves_no_more(evidence, node, before)?;
        for name in evidence.held_by(node, event.at) {
            let settled = evidence.settled.get(&name);
            if settled.is_some_and(|settled| settled.event.at <= event.at) {
                continue;
            }
            let has_other = evidence.holders_by(name, event.at).any(|(other, at)| {
                let is_there = other != node && after.member(other).is_some();
                is_there
                    && !evidence.lost_disk(other, at, Some(event.at))
                    && !evidence.forgot(other, name, event.at)
            });
            if !has_other {
                let text = format!("{node} left for good, and it alone held {}", Name(name));
                return Err(Violation::new("LV-3", text)
                    .event(event)
                    .events(evidence.story(name)));
            }
        }
    }
    Ok(count)
}

/// I27: the incarnation that was decommissioned with the epoch after `before` takes part in none
/// that follows.
fn serves_no_more(
    evidence: &Evidence<'_>,
    node: NodeId,
    before: &Configuration,
) -> Result<(), Violation> {
    let incarnation = |known: &Configuration| known.member(node).map(|member| member.incarnation);
    for event in &evidence.history.events {
        let Fact::Ready {
            node: ready, epoch, ..
        } = &event.fact
        else {
            continue;
        };
        let known = evidence.epoch(*epoch);
        let is_same = known.is_some_and(|known| incarnation(known) == incarnation(before));
        if *ready == node && before.epoch < *epoch && is_same {
            let text = format!(
                "{node} had left with {}, and serves in {epoch}",
                before.epoch
            );
            return Err(Violation::new("I27", text).event(event));
        }
    }
    Ok(())
}
