//! Whether a register shows a write (D3), told apart from `Register::covers` on purpose. A check
//! that asked the code under test would agree with its mistakes.
//!
//! Where a mark may have been collected, nothing older than the safe point can be asked for by its
//! stamp. Then it counts as shown unless something visible contradicts it. An older value that it
//! removes may be still live, or the value it puts may be still live from before.

use bytes::Bytes;
use fader_chain::{ElementOp, ElementSet, EntryId, Register, Stamp};

/// The first of `ops` that `register` does not show, with marks collected up to `safe point`.
pub(super) fn uncovered<'a>(
    register: &Register,
    safe_point: EntryId,
    ops: &'a [ElementOp],
    stamp: Stamp,
) -> Option<&'a ElementOp> {
    ops.iter().find(|op| {
        let is_shown = covers(register, op, stamp);
        let is_collected = stamp <= Stamp::strong(safe_point) && !contradicts(register, op, stamp);
        !is_shown && !is_collected
    })
}

/// Whether merging `op` would change no element of `register`.
pub(super) fn covers(register: &Register, op: &ElementOp, stamp: Stamp) -> bool {
    match op {
        ElementOp::ClearAll => stamp <= register.cleared,
        ElementOp::Clear { group } => stamp <= mark_above(register, group),
        ElementOp::Add { group, value } => covers_value(register, (group, value), (stamp, true)),
        ElementOp::Remove { group, value } => {
            covers_value(register, (group, value), (stamp, false))
        }
    }
}

/// The elements of `register` as operations, each with its stamp.
pub(super) fn elements(register: &Register) -> Vec<(ElementOp, Stamp)> {
    let mut elements = Vec::new();
    if register.cleared != Stamp::ZERO {
        elements.push((ElementOp::ClearAll, register.cleared));
    }
    for group in &register.groups {
        let name = || group.name.clone();
        if register.cleared < group.cleared {
            elements.push((ElementOp::Clear { group: name() }, group.cleared));
        }
        for member in &group.members {
            let (group, value) = (name(), member.value.clone());
            let op = match member.live {
                true => ElementOp::Add { group, value },
                false => ElementOp::Remove { group, value },
            };
            elements.push((op, member.written));
        }
    }
    elements
}

fn mark_above(register: &Register, group: &Bytes) -> Stamp {
    let cleared = register
        .group(group)
        .map_or(Stamp::ZERO, |group| group.cleared);
    cleared.max(register.cleared)
}

fn covers_value(register: &Register, at: (&Bytes, &Bytes), state: (Stamp, bool)) -> bool {
    let (group, value) = at;
    if state.0 < mark_above(register, group) {
        return true;
    }
    let members = register
        .group(group)
        .map_or(&[][..], |group| &group.members);
    let mut known = members.iter().filter(|member| member.value == *value);
    known.any(|member| state <= (member.written, member.live))
}

fn contradicts(register: &Register, op: &ElementOp, stamp: Stamp) -> bool {
    let has_older = |group: &ElementSet, value: Option<&Bytes>| {
        let asked = |known: &Bytes| value.is_none_or(|value| value == known);
        let mut members = group.members.iter();
        members.any(|member| member.live && asked(&member.value) && member.written < stamp)
    };
    match op {
        ElementOp::ClearAll => register.groups.iter().any(|group| has_older(group, None)),
        ElementOp::Clear { group } => {
            let group = register.group(group);
            group.is_some_and(|group| has_older(group, None))
        }
        ElementOp::Add { group, value } | ElementOp::Remove { group, value } => {
            let group = register.group(group);
            group.is_some_and(|group| has_older(group, Some(value)))
        }
    }
}
