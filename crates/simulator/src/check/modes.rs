//! I25 and I26: the mode of the collection is what the log says. Nothing of another time enters,
//! and no change of mode loses what was acknowledged.
//!
//! The collection's mode is followed here without the chain's own reckoning, so that the two can
//! disagree.

use std::collections::BTreeMap;

use fader_chain::{Change, Entry, EntryId, Mode, RequestId, TombstonePolicy};

use super::evidence::Settled;
use super::{Evidence, Verdict, Violation, Witness};
use crate::history::WriteStatus;
use crate::history::display::Name;

/// What the log before an entry says of the collection.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    mode: Mode,
    opened: EntryId,
    /// Whether it closed, or is draining, without a member.
    is_abandoned: bool,
    /// The last entry by which it opened after it had closed without a member.
    abandoned: EntryId,
}

impl Known {
    fn take(&mut self, entry: &Entry) {
        for change in &entry.changes {
            let Change::SetMode {
                mode, is_abandoned, ..
            } = change
            else {
                continue;
            };
            let takes = |mode| matches!(mode, Mode::Mixed | Mode::Eventual);
            match (self.mode, *mode) {
                (Mode::Strong | Mode::Drained, opens) if takes(opens) => {
                    self.opened = entry.id;
                    if std::mem::take(&mut self.is_abandoned) {
                        self.abandoned = entry.id;
                    }
                }
                (Mode::Draining, Mode::Draining) => self.is_abandoned |= is_abandoned,
                (_, Mode::Draining) => self.is_abandoned = *is_abandoned,
                _ => {}
            }
            self.mode = *mode;
        }
    }
}

/// In runs whose mode changes, every entry was decided in the mode that the log before it gives.
/// What was acknowledged as attached is gone only where a member was left behind.
///
/// # Errors
/// The entry, and the operation.
pub fn modes(evidence: &Evidence<'_>) -> Verdict {
    let turns = |entry: &Entry| {
        entry
            .changes
            .iter()
            .any(|it| matches!(it, Change::SetMode { .. }))
    };
    if !evidence.log.iter().any(|(entry, _)| turns(entry)) {
        return Ok(0);
    }
    let attached: BTreeMap<RequestId, usize> = evidence
        .acknowledged()
        .iter()
        .filter(|write| write.attached)
        .map(|write| (write.name, write.call))
        .collect();
    let mut known = Known::default();
    let mut count = 0;
    for (entry, event) in &evidence.log {
        let settled = entry.request.and_then(|name| evidence.settled.get(&name));
        let settled = settled.filter(|settled| settled.entry == entry.id);
        if let Some(text) = wrong(evidence, &known, entry, settled) {
            let violation = Violation::new("I25", text).event(event);
            let story = entry.request.map(|name| evidence.story(name));
            return Err(violation.events(story.into_iter().flatten()));
        }
        let gone = entry
            .request
            .filter(|_| settled.is_some_and(|it| it.status == WriteStatus::Gone));
        if let Some((name, call)) = gone.and_then(|name| Some((name, *attached.get(&name)?)))
            && !known.is_abandoned
            && !is_before(evidence, name, known.abandoned)
        {
            let text = format!("{} was acknowledged, and is gone", Name(name));
            return Err(Violation::new("I26", text)
                .call(evidence.history, call)
                .events(evidence.story(name)));
        }
        count += usize::from(settled.is_some());
        known.take(entry);
    }
    Ok(count)
}

/// Whether every attempt at it was accepted before `opened`.
fn is_before(evidence: &Evidence<'_>, name: RequestId, opened: EntryId) -> bool {
    let mut attempts = evidence.attempts(name).iter();
    attempts.all(|(attempt, _)| attempt.accept < opened)
}

/// What is wrong with an entry in this mode.
fn wrong(
    evidence: &Evidence<'_>,
    known: &Known,
    entry: &Entry,
    settled: Option<&Settled<'_>>,
) -> Option<&'static str> {
    let dropped = TombstonePolicy::Dropped;
    let drops =
        |change: &Change| matches!(change, Change::Merge { marks, .. } if *marks == dropped);
    if known.mode != Mode::Strong && entry.changes.iter().any(drops) {
        return Some("marks are dropped in a mode that keeps them");
    }
    let settled = settled?;
    let attempts = evidence.attempts(entry.request?);
    let (attempt, _) = attempts.iter().find(|(it, _)| it.stamp == entry.stamp)?;
    let is_closed = matches!(known.mode, Mode::Strong | Mode::Drained);
    let is_gone = is_closed || attempt.accept < known.opened;
    if is_gone != (settled.status == WriteStatus::Gone) {
        return Some("an operation is gone of a time that is not over, or is not of one that is");
    }
    let is_above = known.opened <= attempt.stamp.base;
    (!is_gone && !is_above).then_some("a base is below the entry that opened the collection")
}
