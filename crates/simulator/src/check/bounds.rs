//! Bounded staleness (semantics.md, section 8).

use super::written::{Written, strong_writes};
use super::{Evidence, Verdict, Violation, Witness};
use crate::history::{Bound, Level, Moment, Reply};

const MILLION: u64 = 1_000_000;

/// What a bounded read hides of the strong writes that were acknowledged before it began is within
/// its bound.
///
/// # Errors
/// The read, and the oldest write that it hides.
pub fn bounds(evidence: &Evidence<'_>) -> Verdict {
    let strong = strong_writes(evidence);
    let mut count = 0;
    for (at, call) in evidence.history.calls.iter().enumerate() {
        let Level::Bounded(bound) = call.level else {
            continue;
        };
        let Some((
            _,
            Reply::Shown {
                commit, registers, ..
            },
        )) = call.done()
        else {
            continue;
        };
        for shown in registers {
            count += 1;
            let writes = strong.get(&shown.key).into_iter().flatten();
            let is_hidden = |written: &&Written| {
                let is_before = written.answered.is_some_and(|at| at < call.invoked);
                is_before && *commit < written.entry
            };
            let hidden: Vec<&Written> = writes.filter(is_hidden).collect();
            let oldest = hidden.iter().min_by_key(|written| written.answered);
            let Some(oldest) =
                oldest.filter(|_| !is_within(evidence, bound, &hidden, call.invoked))
            else {
                continue;
            };
            let text = format!("{} acknowledged writes are hidden", hidden.len());
            return Err(Violation::new("bounded staleness", text)
                .call(evidence.history, oldest.call)
                .call(evidence.history, at));
        }
    }
    Ok(count)
}

/// A member measures on its own clock; the one that measured may run slow.
fn is_within(evidence: &Evidence<'_>, bound: Bound, hidden: &[&Written], begun: Moment) -> bool {
    match bound {
        Bound::Versions(most) => hidden.len() <= most,
        Bound::Micros(most) => {
            let drift = evidence.history.drift_ppm;
            let slack = most.saturating_mul(2 * drift).div_ceil(MILLION);
            let mut since = hidden.iter().filter_map(|written| written.answered);
            since.all(|at| begun.micros() - at.micros() <= most.saturating_add(slack))
        }
    }
}
