//! G3: when nothing is left to happen, all members hold one state, and it is the join of all
//! operations that were not refused.

use std::collections::BTreeMap;

use bytes::Bytes;
use fader_chain::{ElementOp, EntryId, Register, Stamp};

use super::evidence::merges;
use super::{Evidence, Verdict, Violation, Witness};
use crate::history::display::{Name, State, text};
use crate::history::{MemberState, WriteStatus};
use crate::service::pairs_of;

/// At rest overlays are empty, and every member's registers are those of every other, and of the
/// join.
///
/// # Errors
/// The member and the register that differ.
pub fn rest(evidence: &Evidence<'_>) -> Verdict {
    let members = &evidence.history.rest;
    let Some(first) = members.first() else {
        return Ok(0);
    };
    let last = evidence
        .log
        .last()
        .map_or(EntryId::ZERO, |(entry, _)| entry.id);
    let safe_point = evidence
        .epochs
        .last()
        .map_or(EntryId::ZERO, |(known, _)| known.safe_point);
    let join = join(evidence)?;
    let mut count = 0;
    for member in members {
        settled(evidence, member, last)?;
        for key in join.keys().chain(member.registers.keys()) {
            count += 1;
            same(member, first, key, safe_point)?;
            equals_join(evidence, member, key, join.get(key))?;
        }
        let registers = member.registers.values();
        let pairs: usize = registers.map(|register| register.pairs().count()).sum();
        if member.pairs != pairs as u64 {
            let text = format!("{} counts {} pairs of {pairs}", member.node, member.pairs);
            return Err(Violation::new("SDB-5.1", text));
        }
    }
    Ok(count)
}

fn settled(evidence: &Evidence<'_>, member: &MemberState, last: EntryId) -> Result<(), Violation> {
    if let Some(name) = member.overlay.iter().chain(&member.quarantine).next() {
        let text = format!("{} still holds {} at rest", member.node, Name(*name));
        return Err(Violation::new("G3", text).events(evidence.story(*name)));
    }
    if member.applied != last {
        let text = format!(
            "{} rests at {}, the log at {last}",
            member.node, member.applied
        );
        return Err(Violation::new("G3", text));
    }
    Ok(())
}

fn same(
    member: &MemberState,
    first: &MemberState,
    key: &Bytes,
    safe_point: EntryId,
) -> Result<(), Violation> {
    let canonical = |member: &MemberState| {
        let mut register = member.registers.get(key).cloned().unwrap_or_default();
        register.collect_strong(safe_point);
        if register.is_vacant() {
            register = Register::default();
        }
        register
    };
    let (ours, theirs) = (canonical(member), canonical(first));
    if ours == theirs {
        return Ok(());
    }
    let text = format!(
        "{}: {} has {}, {} has {}",
        text(key),
        member.node,
        State(&ours),
        first.node,
        State(&theirs)
    );
    Err(Violation::new("G3", text))
}

fn equals_join(
    evidence: &Evidence<'_>,
    member: &MemberState,
    key: &Bytes,
    join: Option<&Register>,
) -> Result<(), Violation> {
    let absent = Register::default();
    let held = member.registers.get(key).unwrap_or(&absent);
    let join = join.unwrap_or(&absent);
    if pairs_of(held) == pairs_of(join) && newest(held) == newest(join) {
        return Ok(());
    }
    let text = format!(
        "{}: {} has {}, all operations come to {}",
        text(key),
        member.node,
        State(held),
        State(join)
    );
    let touching = evidence
        .log
        .iter()
        .filter(|(entry, _)| merges(entry).any(|(to, _)| to == key));
    Err(Violation::new("G3", text).events(touching.map(|(_, event)| *event)))
}

/// The newest stamp of each live pair, in the order of the pairs.
fn newest(register: &Register) -> Vec<Stamp> {
    let groups = register.groups.iter();
    let live = groups.flat_map(|group| {
        let members = group.members.iter().filter(|member| member.live);
        members.map(|member| (&group.name, &member.value, member.written))
    });
    let mut live: Vec<_> = live.collect();
    live.sort_unstable();
    live.into_iter().map(|(_, _, written)| written).collect()
}

/// The join of all strong writes and of all settled operations, each whole, but the refused ones.
fn join(evidence: &Evidence<'_>) -> Result<BTreeMap<Bytes, Register>, Violation> {
    let mut join: BTreeMap<Bytes, Register> = BTreeMap::new();
    let mut merge = |key: &Bytes, ops: &[ElementOp], stamp: Stamp| {
        join.entry(key.clone()).or_default().merge(ops, stamp);
    };
    for (entry, event) in &evidence.log {
        let settled = entry.request.and_then(|name| evidence.settled.get(&name));
        match settled.filter(|settled| settled.entry == entry.id) {
            None => merges(entry).for_each(|(key, ops)| merge(key, ops, entry.stamp)),
            Some(settled) if matches!(settled.status, WriteStatus::Refused | WriteStatus::Gone) => {
            }
            Some(_) => {
                let attempts = entry
                    .request
                    .map_or(&[][..], |name| evidence.attempts(name));
                let attempt = attempts.iter().find(|(one, _)| one.stamp == entry.stamp);
                let Some((attempt, _)) = attempt else {
                    let text = format!("{} settles what no member stamped", entry.id);
                    return Err(Violation::new("I15", text).event(event));
                };
                merge(&attempt.key, &attempt.ops, attempt.stamp);
            }
        }
    }
    Ok(join)
}
