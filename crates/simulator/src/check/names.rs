//! I12: one name takes effect at most once, across retries, heads, members and rejoins; and never,
//! if its client was told each time that nothing was done (semantics.md, section 10).

use std::collections::{BTreeMap, BTreeSet};

use super::{Evidence, Verdict, Violation};
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
    Ok(known.len())
}
