//! G1 and G6 from the inside: the committed log is an order of all strong operations.
//!
//! A write has the place of its entry. A read has any place from behind the entry it was read at up
//! to the next one that changes one of its registers. In between it would show the same. Two things
//! make that order a proof of linearizability: it agrees with real time, and each read shows what
//! the log before it gives. (That decisions do is the business of `decisions`.) An eventual
//! operation has the place of its settlement and no end.

use std::collections::BTreeMap;

use bytes::Bytes;
use fader_chain::{Change, EntryId, Register, RequestId, Stamp};

use super::replay::Replay;
use super::{Evidence, Verdict, Violation, Witness, cover};
use crate::history::display::At;
use crate::history::{Moment, Reply, Shown};
use crate::service::pairs_of;

/// The place of an entry in the log, and whether it is that of a read behind it.
type Place = (usize, bool);

/// One operation, however often it was tried.
struct Operation {
    call: usize,
    invoked: Moment,
    ended: Option<Moment>,
    /// The first place that it may have.
    place: Place,
    /// The last.
    until: Place,
}

/// The log orders all strong operations as they happened, and reads show it.
///
/// # Errors
/// Two operations whose places contradict real time, or a read that shows something else.
pub fn linear(evidence: &Evidence<'_>) -> Verdict {
    let operations = operations(evidence);
    let count = operations.len();
    in_real_time(evidence, operations)?;
    reads_show_the_log(evidence)?;
    Ok(count)
}

fn operations(evidence: &Evidence<'_>) -> Vec<Operation> {
    let named: BTreeMap<RequestId, usize> = evidence
        .log
        .iter()
        .enumerate()
        .filter_map(|(at, (entry, _))| entry.request.map(|name| (name, at + 1)))
        .collect();
    let changed = changed(evidence);
    let mut by_name: BTreeMap<RequestId, usize> = BTreeMap::new();
    let mut operations: Vec<Operation> = Vec::new();
    let calls = evidence.history.calls.iter().enumerate();
    for (call, asked) in calls.filter(|(_, asked)| !asked.is_refused()) {
        let done = asked.done().filter(|_| asked.is_strong());
        let told = match done {
            Some((_, Reply::Decided { entry, .. })) => evidence.place(*entry).map(|at| (at, false)),
            Some((_, Reply::Shown { commit, .. })) => evidence.place(*commit).map(|at| (at, true)),
            _ => None,
        };
        let ended = done.map(|(at, _)| at);
        let parts = (0..asked.request.writes.len().max(1)).filter_map(|part| asked.part(part));
        let mut is_named = false;
        for (name, at) in parts.filter_map(|name| named.get(&name).map(|at| (name, *at))) {
            is_named = true;
            let known = *by_name.entry(name).or_insert(operations.len());
            if let Some(operation) = operations.get_mut(known) {
                operation.ended = [operation.ended, ended].into_iter().flatten().min();
                continue;
            }
            operations.push(Operation {
                call,
                invoked: asked.invoked,
                ended,
                place: (at, false),
                until: (at, false),
            });
        }
        if let Some(place) = told.filter(|_| !is_named) {
            operations.push(Operation {
                call,
                invoked: asked.invoked,
                ended,
                place,
                until: match place {
                    (at, true) => (unchanged(&changed, asked.request.keys(), at), true),
                    entry => entry,
                },
            });
        }
    }
    operations
}

/// The places of the entries that change each register.
fn changed<'a>(evidence: &Evidence<'a>) -> BTreeMap<&'a Bytes, Vec<usize>> {
    let mut changed: BTreeMap<&Bytes, Vec<usize>> = BTreeMap::new();
    for (at, (entry, _)) in evidence.log.iter().enumerate() {
        for change in &entry.changes {
            // A collected tombstone hid nothing that any reader could still be shown.
            if !matches!(change, Change::Collect { .. } | Change::SetMode { .. }) {
                changed.entry(change.key()).or_default().push(at + 1);
            }
        }
    }
    changed
}

/// The last place from `at` on before which none of `keys` is changed.
fn unchanged(changed: &BTreeMap<&Bytes, Vec<usize>>, keys: Vec<&Bytes>, at: usize) -> usize {
    let places = keys.into_iter().filter_map(|key| changed.get(key));
    let next = places.filter_map(|places| places.iter().find(|place| at < **place));
    next.min().map_or(usize::MAX, |next| next - 1)
}

/// No operation stands before one that ended before it was invoked: each takes the first of its
/// places that is left.
fn in_real_time(evidence: &Evidence<'_>, mut operations: Vec<Operation>) -> Result<(), Violation> {
    operations.sort_unstable_by_key(|operation| operation.invoked);
    let mut ended: Vec<usize> = (0..operations.len())
        .filter(|at| operations[*at].ended.is_some())
        .collect();
    ended.sort_unstable_by_key(|at| operations[*at].ended);
    let mut ended = ended.into_iter().peekable();
    let mut latest: Option<usize> = None;
    for at in 0..operations.len() {
        let invoked = operations[at].invoked;
        while let Some(before) = ended.next_if(|at| operations[*at].ended < Some(invoked)) {
            if latest.is_none_or(|latest| operations[latest].place < operations[before].place) {
                latest = Some(before);
            }
        }
        let Some(before) = latest.map(|latest| &operations[latest]) else {
            continue;
        };
        if operations[at].until < before.place {
            let named = |(place, is_read): Place| {
                let side = if is_read { "after" } else { "at" };
                format!("{side} place {place}")
            };
            let (first, second) = (named(before.place), named(operations[at].place));
            let text = format!("in the log {second}, though it began when one {first} had ended");
            return Err(Violation::new("G1", text)
                .call(evidence.history, before.call)
                .call(evidence.history, operations[at].call));
        }
        // A read behind an entry that it need not follow still follows what has ended.
        if operations[at].place < before.place {
            operations[at].place = (before.place.0, true);
        }
    }
    Ok(())
}

/// Each strong read shows the registers as the log up to its place leaves them; the others show at
/// least that.
fn reads_show_the_log(evidence: &Evidence<'_>) -> Result<(), Violation> {
    let mut reads = Vec::new();
    for (at, call) in evidence.history.calls.iter().enumerate() {
        if let Some((_, reply)) = call.done()
            && let Reply::Shown { commit, .. } = reply
        {
            let Some(place) = evidence.place(*commit) else {
                let text = format!("shown at {commit}, which was never committed");
                return Err(Violation::new("G1", text).call(evidence.history, at));
            };
            reads.push((place, at, reply));
        }
    }
    reads.sort_unstable_by_key(|(place, at, _)| (*place, *at));
    let mut replay = Replay::default();
    let mut taken = 0;
    for (place, at, reply) in reads {
        for (entry, _) in &evidence.log[taken..place] {
            replay.take(entry);
        }
        taken = place;
        let Reply::Shown {
            safe_point,
            registers,
            ..
        } = reply
        else {
            continue;
        };
        for shown in registers {
            let known = replay.known(&shown.key);
            let checked = match evidence.history.calls[at].is_strong() {
                true => shows(evidence, shown, known, place),
                false => contains(shown, known, *safe_point),
            };
            checked.map_err(|violation| violation.call(evidence.history, at))?;
        }
    }
    Ok(())
}

/// ER-1: what is committed at the reader is in what it shows.
fn contains(shown: &Shown, known: Option<&Register>, safe_point: EntryId) -> Result<(), Violation> {
    for (op, stamp) in known.map(cover::elements).unwrap_or_default() {
        let ops = std::slice::from_ref(&op);
        if cover::uncovered(&shown.register, safe_point, ops, stamp).is_some() {
            let text = format!("committed element @{} is not shown", At(stamp));
            return Err(Violation::new("ER-1", text));
        }
    }
    Ok(())
}

fn shows(
    evidence: &Evidence<'_>,
    shown: &Shown,
    known: Option<&Register>,
    place: usize,
) -> Result<(), Violation> {
    let absent = Register::default();
    let known = known.unwrap_or(&absent);
    let tentative = cover::elements(&shown.register)
        .into_iter()
        .find(|(op, stamp)| !cover::covers(known, op, *stamp));
    if let Some((_, stamp)) = tentative {
        let guarantee = if stamp.is_strong() { "G1" } else { "G6" };
        let text = format!("element @{} is not in the log by then", At(stamp));
        return Err(blame(evidence, Violation::new(guarantee, text), stamp));
    }
    if shown.tentative {
        let text = "a strong read says that it is tentative";
        return Err(Violation::new("G6", text));
    }
    let same = live(&shown.register) == live(known);
    let version = known.version;
    if !same || !known.is_empty() && shown.register.version != version {
        let id = evidence
            .log
            .get(place.wrapping_sub(1))
            .map(|(entry, _)| entry.id);
        let id = id.unwrap_or(EntryId::ZERO);
        let state = crate::history::display::State(known);
        let text = format!("at {id} the register is {state}, version {version}");
        return Err(Violation::new("G1", text));
    }
    Ok(())
}

/// What is there, with the stamps by which it is.
fn live(register: &Register) -> Vec<(Bytes, Bytes, Stamp)> {
    let mut live: Vec<_> = register
        .groups
        .iter()
        .flat_map(|group| {
            let members = group.members.iter().filter(|member| member.live);
            members.map(|member| (group.name.clone(), member.value.clone(), member.written))
        })
        .collect();
    live.sort_unstable();
    debug_assert_eq!(live.len(), pairs_of(register).len());
    live
}

/// With the events that explain where `stamp` comes from.
fn blame(evidence: &Evidence<'_>, violation: Violation, stamp: Stamp) -> Violation {
    let attempts = evidence.attempts.values().flatten();
    let made = attempts.filter(|(stamping, _)| stamping.stamp == stamp);
    violation.events(made.map(|(_, event)| *event))
}
