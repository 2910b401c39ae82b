//! I12: one name takes effect at most once, across retries, heads, members and rejoins. It never
//! does, if its client was told each time that nothing was done (semantics.md, section 10). Its
//! outcome is told to a client that asked for that, and to no client that asks for something else
//! (XO-6).

use std::collections::{BTreeMap, BTreeSet};

use super::{Evidence, Verdict, Violation, Witness};
use crate::history::Reply;
use crate::history::display::Name;

/// No two entries of the log carry one name, and none a name that was refused.
///
/// # Errors
/// The second entry, or the refusal.
pub fn names(evidence: &Evidence<'_>) -> Verdict {
    let mut known = BTreeMap::new();
    for (entry, event) in &evidence.log {
        let Some(name) = entry.request else {
            continue;
        };
        if let Some(first) = known.insert(name, event) {
            let text = format!("{} took effect twice", Name(name));
            return Err(Violation::new("I12", text).event(first).event(event));
        }
    }
    let calls = evidence.history.calls.iter().enumerate();
    let mut named: Vec<_> = Vec::new();
    for (at, call) in calls {
        let parts = 0..call.request.writes.len().max(1);
        named.extend(parts.filter_map(|part| Some((call.part(part)?, at, call.is_refused()))));
    }
    let open = named.iter().filter(|(_, _, is_refused)| !is_refused);
    let open: BTreeSet<_> = open.map(|(name, ..)| *name).collect();
    for (name, at, _) in named {
        if let Some(event) = known.get(&name).filter(|_| !open.contains(&name)) {
            let text = format!("{} took effect, but was refused", Name(name));
            let violation = Violation::new("semantics.md 10", text);
            return Err(violation.call(evidence.history, at).event(event));
        }
    }
    Ok(known.len() + borrowed(evidence)?)
}

/// XO-6: who uses another's name is told of no write but its own.
fn borrowed(evidence: &Evidence<'_>) -> Verdict {
    let mut count = 0;
    for (at, call) in evidence.history.calls.iter().enumerate() {
        let Some(name) = call.borrowed else {
            continue;
        };
        count += 1;
        let Some((_, Reply::Accepted { stamps, .. })) = call.done() else {
            continue;
        };
        let is_own = |stamp| {
            let attempts = evidence.attempts.values().flatten();
            let mut its = attempts.filter(|(attempt, _)| attempt.stamp == stamp);
            its.all(|(attempt, _)| {
                let mut writes = call.request.writes.iter();
                writes.any(|write| write.key == attempt.key && write.ops == attempt.ops)
            })
        };
        if !stamps.iter().all(|stamp| is_own(*stamp)) {
            let text = format!("another request was told of {}", Name(name));
            return Err(Violation::new("XO-6", text)
                .call(evidence.history, at)
                .events(evidence.story(name)));
        }
    }
    Ok(count)
}
