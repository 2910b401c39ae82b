//! What a session's token promises: read your writes and monotonic reads over all registers,
//! monotonic writes and writes-follow-reads per register (semantics.md, section 7).

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use fader_chain::{Change, ElementOp, EntryId, Register, RequestId, Stamp};

use super::evidence::merges;
use super::{Evidence, Verdict, Violation, Witness, cover};
use crate::history::display::{At, text};
use crate::history::{Call, Moment, Outcome, Refusal, Reply, Shown};

/// What a session knows before a call.
#[derive(Default)]
struct Known {
    /// The greatest committed id it was told of, with the call.
    commit: (EntryId, usize),
    /// All it has written to a register or seen there, and the calls.
    seen: BTreeMap<Bytes, (Register, Vec<usize>)>,
    /// What it was told is lost (TRACE-37).
    lost: BTreeSet<RequestId>,
}

/// Each session's calls see what its calls before them saw and wrote.
///
/// # Errors
/// The call that sees less, and the calls that it should have seen.
pub fn sessions(evidence: &Evidence<'_>) -> Verdict {
    let mut sessions: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (at, call) in evidence.history.calls.iter().enumerate() {
        if let Some(session) = call.session {
            sessions.entry(session).or_default().push(at);
        }
    }
    let mut count = 0;
    for calls in sessions.values() {
        count += session(evidence, calls)?;
    }
    Ok(count)
}

fn session(evidence: &Evidence<'_>, calls: &[usize]) -> Verdict {
    let ended = |at: usize| evidence.history.calls[at].end.as_ref().map(|(end, _)| *end);
    let mut by_end: Vec<(Moment, usize)> = calls
        .iter()
        .filter_map(|at| Some((ended(*at)?, *at)))
        .collect();
    by_end.sort_unstable();
    let mut by_end = by_end.into_iter().peekable();
    let mut known = Known::default();
    let mut count = 0;
    for at in calls {
        let call = &evidence.history.calls[*at];
        while let Some((_, before)) = by_end.next_if(|(end, _)| *end < call.invoked) {
            learn(evidence, &mut known, before);
        }
        count += keeps(evidence, &known, *at)?;
    }
    Ok(count)
}

/// Adds what the call told its session.
fn learn(evidence: &Evidence<'_>, known: &mut Known, at: usize) {
    let call = &evidence.history.calls[at];
    if let Some((_, Outcome::Refused(Refusal::Lost(names)))) = &call.end {
        known.lost.extend(names);
    }
    let Some((_, reply)) = call.done() else {
        return;
    };
    for (key, ops, stamp) in written(evidence, call, reply) {
        // What a limit refused was never written: nothing has to be above it.
        let name = evidence.name_of(stamp).filter(|_| !stamp.is_strong());
        if name.is_some_and(|name| evidence.refused(name).is_some()) {
            continue;
        }
        let (register, calls) = known.seen.entry(key.clone()).or_default();
        register.merge(ops, stamp);
        calls.push(at);
    }
    match reply {
        Reply::Decided { entry, .. } => known.commit = known.commit.max((*entry, at)),
        Reply::Shown {
            commit, registers, ..
        } => {
            known.commit = known.commit.max((*commit, at));
            for shown in registers {
                let (register, calls) = known.seen.entry(shown.key.clone()).or_default();
                register.join(&shown.register);
                calls.push(at);
            }
        }
        Reply::Accepted { .. } => {}
    }
}

/// What a call has written: registers, operations and stamp.
fn written<'a>(
    evidence: &Evidence<'a>,
    call: &'a Call,
    reply: &Reply,
) -> Vec<(&'a Bytes, &'a [ElementOp], Stamp)> {
    match reply {
        Reply::Decided { entry, .. } => {
            let place = evidence.place(*entry).filter(|place| *place > 0);
            let entry = place.map(|place| evidence.log[place - 1].0);
            let merges = entry.into_iter().flat_map(|entry| {
                let stamp = entry.stamp;
                merges(entry).map(move |(key, ops)| (key, ops, stamp))
            });
            merges.collect()
        }
        Reply::Accepted { stamps, .. } => {
            let writes = call.request.writes.iter().zip(stamps);
            writes
                .map(|(write, stamp)| (&write.key, write.ops.as_slice(), *stamp))
                .collect()
        }
        Reply::Shown { .. } => Vec::new(),
    }
}

/// Whether a call keeps the promises, given what its session knew.
fn keeps(evidence: &Evidence<'_>, known: &Known, at: usize) -> Verdict {
    let call = &evidence.history.calls[at];
    let Some((end, reply)) = call.done() else {
        return Ok(0);
    };
    let mut count = 0;
    if let Reply::Shown {
        commit,
        safe_point,
        registers,
        ..
    } = reply
    {
        count += 1;
        if *commit < known.commit.0 && hides(evidence, call, *commit, known.commit.0) {
            let text = format!("reads at {commit} after {}", known.commit.0);
            return Err(Violation::new("monotonic reads", text)
                .call(evidence.history, known.commit.1)
                .call(evidence.history, at));
        }
        for shown in registers {
            count += sees(evidence, known, at, end, *safe_point, shown)?;
        }
    }
    if is_new(evidence, call, reply) {
        for (key, _, stamp) in written(evidence, call, reply) {
            count += 1;
            follows(evidence, known, at, key, stamp)?;
        }
    }
    Ok(count)
}

/// Whether a read at `shown` hides something of what was committed up to `seen`. A strong read at a
/// register that is clean need not know of commits elsewhere (RD-2).
fn hides(evidence: &Evidence<'_>, call: &Call, shown: EntryId, seen: EntryId) -> bool {
    let keys = call.request.keys();
    let between = |id: EntryId| shown < id && id <= seen;
    let mut entries = evidence.log.iter().map(|(entry, _)| entry);
    !call.is_strong()
        || entries.any(|entry| {
            let is_shown = |change: &Change| {
                !matches!(change, Change::Collect { .. } | Change::SetMode { .. })
            };
            let shown = |change: &&Change| is_shown(change);
            let mut changed = entry.changes.iter().filter(shown).map(Change::key);
            between(entry.id) && changed.any(|key| keys.contains(&key))
        })
}

/// Read your writes, monotonic reads.
fn sees(
    evidence: &Evidence<'_>,
    known: &Known,
    at: usize,
    end: Moment,
    safe_point: EntryId,
    shown: &Shown,
) -> Verdict {
    let Some((seen, calls)) = known.seen.get(&shown.key) else {
        return Ok(0);
    };
    for (op, stamp) in cover::elements(seen) {
        let ops = std::slice::from_ref(&op);
        if cover::uncovered(&shown.register, safe_point, ops, stamp).is_none() {
            continue;
        }
        let name = evidence.name_of(stamp);
        let is_excused = name.is_some_and(|name| {
            let refused = evidence.refused(name).is_some_and(|refused| refused <= end);
            refused
                || known.lost.contains(&name)
                || evidence.shows(&shown.register, safe_point, name)
        });
        if !is_excused {
            let text = format!(
                "{} does not show @{}, known before",
                text(&shown.key),
                At(stamp)
            );
            let violation = Violation::new("read your writes, monotonic reads", text);
            let violation = calls.iter().fold(violation, |violation, call| {
                violation.call(evidence.history, *call)
            });
            let story = name.into_iter().flat_map(|name| evidence.story(name));
            return Err(violation.call(evidence.history, at).events(story));
        }
    }
    Ok(1)
}

/// Whether the write was stamped for this call: a retry keeps the place of the first attempt, and
/// what is detached may have any (G7).
fn is_new(evidence: &Evidence<'_>, call: &Call, reply: &Reply) -> bool {
    match reply {
        Reply::Decided { entry, .. } => evidence
            .committed_at(*entry)
            .is_some_and(|at| call.invoked < at),
        Reply::Accepted {
            stamps, attached, ..
        } => {
            let is_new = |stamp: &Stamp| {
                let attempts = evidence.name_of(*stamp).map(|name| evidence.attempts(name));
                let mut attempts = attempts.into_iter().flatten();
                attempts.all(|(_, event)| call.invoked < event.at)
            };
            *attached && stamps.iter().all(is_new)
        }
        Reply::Shown { .. } => false,
    }
}

/// Monotonic writes, writes follow reads.
fn follows(
    evidence: &Evidence<'_>,
    known: &Known,
    at: usize,
    key: &Bytes,
    stamp: Stamp,
) -> Result<(), Violation> {
    let Some((seen, calls)) = known.seen.get(key) else {
        return Ok(());
    };
    let newest = cover::elements(seen)
        .into_iter()
        .map(|(_, stamp)| stamp)
        .max();
    if newest.is_none_or(|newest| newest < stamp) {
        return Ok(());
    }
    let text = format!(
        "{} is written @{}, below what was known",
        text(key),
        At(stamp)
    );
    let violation = Violation::new("monotonic writes, writes follow reads", text);
    let violation = calls.iter().fold(violation, |violation, call| {
        violation.call(evidence.history, *call)
    });
    Err(violation.call(evidence.history, at))
}
