//! G5, G7 and I16: how eventual operations end is told truly, promised by those who may promise,
//! and nothing acknowledged disappears.

use std::collections::{BTreeMap, BTreeSet};

use fader_chain::{ElementOp, Entry, RequestId};

use super::evidence::{Settled, merges};
use super::replay::Replay;
use super::{Evidence, Verdict, Violation, Witness, cover};
use crate::history::display::Name;
use crate::history::{Event, Fact, Level, WriteStatus};
use crate::service::{Service, State};

/// Settlements are what the log gives, and clients are told what was settled. Attached
/// acknowledgements have leases and holders behind them, and what was acknowledged is settled in
/// the end.
///
/// # Errors
/// The operation with all that is known of it.
pub fn outcomes(evidence: &Evidence<'_>, service: Service) -> Verdict {
    let settled = settlements(evidence, service)?;
    let told = told(evidence)?;
    let kept = leases(evidence)? + conserved(evidence)?;
    Ok(settled + told + kept + forgotten(evidence)?)
}

/// GC-5: a returning member forgets what it accepted before the safe point, or what is settled, and
/// nothing else. What came to it as another attempt it holds as that.
fn forgotten(evidence: &Evidence<'_>) -> Result<usize, Violation> {
    for (node, name, event) in &evidence.forgotten {
        let published = evidence.epochs.iter().filter(|(_, at)| at.at <= event.at);
        let safe_point = published.map(|(known, _)| known.safe_point).max();
        let attempts = evidence.attempts(*name);
        let is_old = |accept| safe_point.is_some_and(|safe_point| accept < safe_point);
        let settled = evidence.settled.get(name);
        let is_settled = settled.is_some_and(|settled| settled.event.at <= event.at);
        if !is_settled
            && attempts.len() < 2
            && !attempts.iter().any(|(attempt, _)| is_old(attempt.accept))
        {
            let text = format!("{node} forgot {} above the safe point", Name(*name));
            return Err(Violation::new("I16", text)
                .event(event)
                .events(evidence.story(*name)));
        }
    }
    Ok(evidence.forgotten.len())
}

/// G5, D4: an operation enters with every element that nothing newer covers, or not at all.
fn settlements(evidence: &Evidence<'_>, service: Service) -> Result<usize, Violation> {
    let mut replay = Replay::default();
    let mut count = 0;
    for (entry, event) in &evidence.log {
        let settled = entry.request.and_then(|name| evidence.settled.get(&name));
        if let Some(settled) = settled.filter(|settled| settled.entry == entry.id)
            && let Some(name) = entry.request
        {
            count += 1;
            if let Some((guarantee, text)) = untrue(evidence, service, &replay, entry, settled) {
                let violation = Violation::new(guarantee, text).event(event);
                return Err(violation.events(evidence.story(name)));
            }
        }
        replay.take(entry);
    }
    if count < evidence.settled.len() {
        let text = "an operation is settled by no entry of the log";
        return Err(Violation::new("G5", text));
    }
    Ok(count)
}

/// What is wrong with a settlement on the log before it.
fn untrue(
    evidence: &Evidence<'_>,
    service: Service,
    replay: &Replay,
    entry: &Entry,
    settled: &Settled<'_>,
) -> Option<(&'static str, &'static str)> {
    let attempts = entry
        .request
        .map_or(&[][..], |name| evidence.attempts(name));
    let Some((attempt, _)) = attempts.iter().find(|(one, _)| one.stamp == entry.stamp) else {
        return Some(("I15", "an operation is settled that no member stamped"));
    };
    let register = replay.register(&attempt.key);
    let is_newer = |op: &&ElementOp| !cover::covers(&register, op, attempt.stamp);
    let survivors: Vec<ElementOp> = attempt.ops.iter().filter(is_newer).cloned().collect();
    let entered: Vec<_> = merges(entry).collect();
    let is_own = |op: &ElementOp| attempt.ops.contains(op);
    if !entered
        .iter()
        .all(|(key, ops)| **key == attempt.key && ops.iter().all(is_own))
    {
        return Some(("I15", "the settlement does what its operation does not"));
    }
    let has = |op: &ElementOp| entered.iter().any(|(_, ops)| ops.contains(op));
    let fits = service
        .settle(&attempt.key, &survivors, attempt.stamp, replay)
        .is_some();
    let is_whole = survivors.iter().all(has);
    match settled.status {
        WriteStatus::Applied if !fits => Some(("SDB-4.1", "applied beyond the limit")),
        WriteStatus::Applied if entered.is_empty() => Some(("G5", "applied, but nothing entered")),
        WriteStatus::Applied if !is_whole => {
            Some(("D4", "an element was dropped that nothing covers"))
        }
        WriteStatus::Superseded | WriteStatus::Refused | WriteStatus::Gone
            if !entered.is_empty() =>
        {
            Some(("D4", "an operation that did not enter has entered in part"))
        }
        WriteStatus::Superseded if !survivors.is_empty() => {
            Some(("G5", "superseded by nothing newer"))
        }
        WriteStatus::Refused if fits => Some(("G5", "refused, though it fits")),
        _ => None,
    }
}

/// G5: a client that asks hears what is settled, once that is committed.
fn told(evidence: &Evidence<'_>) -> Result<usize, Violation> {
    let mut count = 0;
    for write in evidence.acknowledged() {
        let Some(status) = write.status else {
            continue;
        };
        count += 1;
        let settled = evidence.settled.get(&write.name);
        if !settled.is_some_and(|known| known.status == status && known.event.at <= write.at) {
            let text = format!(
                "{} was told {status} untruly or too early",
                Name(write.name)
            );
            return Err(Violation::new("G5", text)
                .call(evidence.history, write.call)
                .events(evidence.story(write.name)));
        }
    }
    Ok(count)
}

/// G7, D13, EV-4: who stamps or acknowledges as attached has a lease, and W holders.
fn leases(evidence: &Evidence<'_>) -> Result<usize, Violation> {
    let strict = strict_names(evidence);
    let mut count = 0;
    let mut attached = BTreeSet::new();
    for event in &evidence.history.events {
        let wrong = |name: RequestId, text: &str| {
            let violation = Violation::new("G7", format!("{} {text}", Name(name)));
            Err(violation.event(event).events(evidence.story(name)))
        };
        match &event.fact {
            Fact::Stamped(stamping) if !stamping.lease && strict.contains(&stamping.name) => {
                return wrong(stamping.name, "is stamped without a lease");
            }
            Fact::Acknowledged {
                name,
                quorum,
                attached: true,
                lease,
                ..
            } => {
                if !lease {
                    return wrong(*name, "is acknowledged as attached without a lease");
                }
                if !is_held(evidence, *name, *quorum, event) {
                    return wrong(*name, "is acknowledged without its quorum");
                }
                attached.insert(*name);
                count += 1;
            }
            _ => {}
        }
    }
    for write in evidence
        .acknowledged()
        .iter()
        .filter(|write| write.attached)
    {
        // Once it is settled there is nothing left to acknowledge.
        let settled = evidence.settled.get(&write.name);
        let is_settled = settled.is_some_and(|settled| settled.event.at <= write.at);
        if !is_settled && !attached.contains(&write.name) {
            let text = format!("{} was not acknowledged as attached", Name(write.name));
            return Err(Violation::new("G7", text).call(evidence.history, write.call));
        }
    }
    Ok(count)
}

/// The names of eventual writes that no call allowed to be detached.
fn strict_names(evidence: &Evidence<'_>) -> BTreeSet<RequestId> {
    let mut names: BTreeMap<RequestId, bool> = BTreeMap::new();
    for call in &evidence.history.calls {
        if let Level::Eventual { sloppy, .. } = call.level {
            let parts = 0..call.request.writes.len();
            for name in parts.filter_map(|part| call.part(part)) {
                *names.entry(name).or_default() |= sloppy;
            }
        }
    }
    names.retain(|_, sloppy| !*sloppy);
    names.into_keys().collect()
}

fn is_held(evidence: &Evidence<'_>, name: RequestId, quorum: usize, event: &Event) -> bool {
    let settled = evidence.settled.get(&name);
    if settled.is_some_and(|settled| settled.event.at <= event.at) {
        return true;
    }
    // A disk may be lost between the holder's word and the acknowledgement: of that nothing is
    // known.
    let holders = evidence.holders_by(name, event.at);
    let holders: BTreeSet<_> = holders.map(|(node, _)| node).collect();
    quorum <= holders.len()
}

/// I16: at rest, what was acknowledged is settled, unless everyone who held it then is lost.
fn conserved(evidence: &Evidence<'_>) -> Result<usize, Violation> {
    if evidence.history.rest.is_empty() {
        return Ok(0);
    }
    let Some((last, published)) = evidence.epochs.last() else {
        return Ok(0);
    };
    let events = evidence.history.events.last();
    let end = events.map_or(published.at, |event| event.at);
    let writes = evidence.acknowledged();
    let mut count = 0;
    for write in writes.iter().filter(|write| write.attached) {
        count += 1;
        let kept = evidence.holders_by(write.name, write.at).any(|(node, at)| {
            let is_there = evidence.serves(node, last.epoch) && !evidence.lost_disk(node, at, None);
            is_there && !evidence.forgot(node, write.name, end)
        });
        if kept && !evidence.settled.contains_key(&write.name) {
            let text = format!("{} is nowhere, and was acknowledged", Name(write.name));
            return Err(Violation::new("I16", text)
                .call(evidence.history, write.call)
                .events(evidence.story(write.name)));
        }
    }
    Ok(count)
}
