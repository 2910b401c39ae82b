//! I12: one name takes effect at most once, across retries, heads, members and rejoins.

use std::collections::BTreeMap;

use super::{Evidence, Verdict, Violation};
use crate::history::display::Name;

/// No two entries of the log carry one name.
///
/// # Errors
/// The second entry.
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
    Ok(known.len())
}
