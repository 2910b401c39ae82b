//! G2, I14 and I17: stamps agree with real time between strong and eventual writes, and grow along
//! the log; nothing removed comes back.

use std::collections::BTreeMap;

use bytes::Bytes;
use fader_chain::{ElementOp, Entry, NodeId, Register, Stamp};

use super::evidence::merges;
use super::written::{Written, strong_writes};
use super::{Evidence, Verdict, Violation, Witness, cover};
use crate::history::display::{At, text};
use crate::history::{Event, Fact, Stamping};

/// A strong write acknowledged before an eventual one is stamped is below it. One invoked after an
/// eventual one was acknowledged is above it. Per element, stamps increase along the log.
///
/// # Errors
/// The two writes.
pub fn stamps(evidence: &Evidence<'_>) -> Verdict {
    let strong = strong_writes(evidence);
    let after = stamped_after(evidence, &strong)?;
    let before = acknowledged_before(evidence, &strong)?;
    let above = above_what_is_shown(evidence)?;
    Ok(after + before + above + clocks_go_on(evidence)? + along_the_log(evidence)?)
}

/// D5: an attempt is above all that its member could show of the register.
fn above_what_is_shown(evidence: &Evidence<'_>) -> Result<usize, Violation> {
    let mut count = 0;
    for (stamping, event) in evidence.attempts.values().flatten() {
        count += 1;
        if stamping.stamp <= stamping.shown {
            let text = format!("stamped below @{}, which was shown", At(stamping.shown));
            return Err(Violation::new("D5", text).event(event));
        }
    }
    Ok(count)
}

/// I18: over all incarnations of a disk its clock goes on. Of a stamp that was lost with its record
/// nothing is known.
fn clocks_go_on(evidence: &Evidence<'_>) -> Result<usize, Violation> {
    let mut last: BTreeMap<NodeId, (Stamp, &Event)> = BTreeMap::new();
    let mut count = 0;
    for event in &evidence.history.events {
        let Fact::Stamped(stamping) = &event.fact else {
            continue;
        };
        let Stamping {
            node, name, stamp, ..
        } = stamping;
        let held = evidence.holders.get(name).into_iter().flatten();
        if held.filter(|(holder, _)| holder == node).count() == 0 {
            continue;
        }
        let Some((before, earlier)) = last.insert(*node, (*stamp, event)) else {
            continue;
        };
        count += 1;
        if (stamp.clock, stamp.counter) <= (before.clock, before.counter) {
            let text = format!("the clock of {node} went back from @{}", At(before));
            return Err(Violation::new("I18", text).event(earlier).event(event));
        }
    }
    Ok(count)
}

/// G2 (a), for every attempt stamped under a lease.
fn stamped_after(
    evidence: &Evidence<'_>,
    strong: &BTreeMap<&Bytes, Vec<Written>>,
) -> Result<usize, Violation> {
    let mut count = 0;
    for (stamping, event) in evidence.attempts.values().flatten() {
        let writes = strong.get(&stamping.key).into_iter().flatten();
        for written in writes.filter(|_| stamping.lease) {
            if written.answered.is_none_or(|at| event.at <= at) {
                continue;
            }
            count += 1;
            if stamping.stamp <= Stamp::strong(written.entry) {
                let text = format!("stamped below {}, acknowledged before", written.entry);
                return Err(Violation::new("G2 (a)", text)
                    .call(evidence.history, written.call)
                    .event(event));
            }
        }
    }
    Ok(count)
}

/// G2 (b), for every acknowledged attempt.
fn acknowledged_before(
    evidence: &Evidence<'_>,
    strong: &BTreeMap<&Bytes, Vec<Written>>,
) -> Result<usize, Violation> {
    let mut count = 0;
    for write in evidence
        .acknowledged()
        .iter()
        .filter(|write| write.attached)
    {
        for written in strong.get(write.key).into_iter().flatten() {
            if written.invoked <= write.at {
                continue;
            }
            count += 1;
            if Stamp::strong(written.entry) <= write.stamp {
                let text = format!("{} is below @{}", written.entry, At(write.stamp));
                return Err(Violation::new("G2 (b)", text)
                    .call(evidence.history, write.call)
                    .call(evidence.history, written.call));
            }
        }
    }
    Ok(count)
}

/// I14 and I17: every element of an entry is above what the log knew of it.
fn along_the_log(evidence: &Evidence<'_>) -> Result<usize, Violation> {
    let mut registers: BTreeMap<&Bytes, (Register, Vec<&Event>)> = BTreeMap::new();
    let mut count = 0;
    for (entry, event) in &evidence.log {
        if entry.is_settlement() && entry.id <= entry.stamp.base {
            let text = format!("{} is not above its stamp's base", entry.id);
            return Err(Violation::new("I14", text).event(event));
        }
        for (key, ops) in merges(entry) {
            let (register, events) = registers.entry(key).or_default();
            for op in ops {
                count += 1;
                if let Some(guarantee) = falls_back(register, op, entry) {
                    let text = format!("{} brings an older element of {}", entry.id, text(key));
                    let violation = Violation::new(guarantee, text).event(event);
                    return Err(violation.events(events.iter().copied()));
                }
            }
            register.merge(ops, entry.stamp);
            events.push(event);
        }
    }
    Ok(count)
}

/// The guarantee that `op` breaks by being below what was there. Clears and removals may come again
/// once their successors are collected: they bring nothing back (D8).
fn falls_back(register: &Register, op: &ElementOp, entry: &Entry) -> Option<&'static str> {
    if !cover::covers(register, op, entry.stamp) {
        return None;
    }
    match op {
        ElementOp::Add { group, value } => {
            let is_live = register.pairs().any(|pair| pair == (group, value));
            Some(if is_live { "I14" } else { "I17" })
        }
        _ => (Stamp::strong(entry.safe_point) < entry.stamp).then_some("I14"),
    }
}
