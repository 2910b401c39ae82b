//! Collection of tombstones: reports for the safe point, the head's walk over rows, and the filter
//! of what returning members held. See docs/internals/protocol/reconfiguration.md, section 8, and
//! README.md there, D7, D8.
//!
//! Invariants:
//! - (I17) a tombstone goes by the id of the entry that made it, by an entry of the head. It is at
//!   or below the safe point of the configuration that numbers that entry.
//!
//! One entry of collection is under way at a time, so collection never fills the head's window.

use std::hash::{Hash, Hasher};

use bytes::Bytes;

use super::eventual::committed_register;
use super::{Effect, Forgotten, Replica, Report, Step};
use crate::change::Change;
use crate::codec::Reader;
use crate::dedup;
use crate::guard::{Guard, Guards};
use crate::keys;
use crate::operation::Operation;
use crate::register::Register;
use crate::stamp::{EntryId, Stamp};
use crate::view::{Direction, View, ViewError};

/// Rows looked at for one entry. It takes the time of one commit, hundreds of milliseconds where
/// members are far apart, and each row is the tombstone of one operation. With fewer, more would
/// come than go.
const ROWS_MAX: usize = 256;
/// Bytes of the rows' keys, beyond which no further row is taken.
const BYTES_MAX: usize = 64 << 10;
/// Milliseconds after which a report that has not changed is said again.
const REPORT_AGAIN_MS: u64 = 5_000;

/// The state of collection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TombstoneGc {
    /// What was reported last in this epoch, and when.
    reported: Option<(EntryId, bool, u64)>,
    /// The last entry of collection of this epoch.
    entry: EntryId,
    /// All rows before it are collected by entries of this epoch. A store may have to pass over
    /// each row that was removed.
    from: Bytes,
    /// Whether the log holds no row at or below the safe point any more: later entries add none
    /// there.
    is_finished: bool,
}

impl Hash for TombstoneGc {
    /// Where the walk goes on follows from what there is: no row stands before it.
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.reported, self.entry, self.is_finished).hash(state);
    }
}

impl TombstoneGc {
    pub(super) fn on_epoch(&mut self) {
        *self = TombstoneGc::default();
    }
}

/// GC-5, D8: whether a returning member forgets `operation`, all of it. `register` is what its
/// state has after the gap was closed, `safe point` that of its configuration.
///
/// A tombstone that covered the operation and was collected had a stamp at or below the safe
/// point's. The operation's member had not seen it. Only a value that is live shows that there was
/// none.
pub fn is_forgotten(
    operation: &Operation,
    register: &Register,
    safe_point: EntryId,
    guards: &Guards,
) -> bool {
    let is_before = match guards.has(Guard::CollectByVersion) {
        true => operation.accept < safe_point,
        false => operation.accept.index < safe_point.index,
    };
    let is_below = operation.stamp <= Stamp::strong(safe_point);
    let brings_back = match guards.has(Guard::FilterPerElement) {
        true => register.revives(&operation.ops, operation.stamp),
        false => register.is_vacant(),
    };
    is_before && is_below && brings_back && guards.has(Guard::RejoinFilter)
}

/// What `committed` shows of an operation that a returning member drops: a count of one.
pub(super) fn status(operation: &Operation, committed: &dyn View) -> Result<Forgotten, ViewError> {
    let register = committed_register(committed, &operation.key)?;
    let none = Forgotten::default();
    Ok(if dedup::is_settled(&operation.name, committed)? {
        Forgotten { settled: 1, ..none }
    } else if register.covers(&operation.ops, operation.stamp) {
        Forgotten { covered: 1, ..none }
    } else {
        Forgotten { unknown: 1, ..none }
    })
}

impl Replica {
    pub(super) fn tick_collect(&mut self, step: &mut Step<'_>) -> Result<(), ViewError> {
        self.report_floor(step);
        self.collect_rows(step)
    }

    /// GC-1: what is applied here, as far as a safe point may rise; and what this disk has for
    /// certain (COORD-5). None from who takes no part.
    pub fn progress(&self) -> Option<Report> {
        let applied = match self.guards.has(Guard::ReportApplied) {
            true => self.log.applied(),
            false => self.commit,
        };
        let gap = self.is_behind_gap() && self.guards.has(Guard::CollectWaitsGap);
        let epoch = self.epoch();
        self.is_ready().then_some(Report::Floor {
            epoch,
            applied,
            gap,
        })
    }

    /// Whether no entry of collection is to come (GC-4).
    pub(super) fn is_collected(&self) -> bool {
        !self.is_head() || self.safe_point() == EntryId::ZERO || self.collect.is_finished
    }

    fn report_floor(&mut self, step: &mut Step<'_>) {
        let Some(report @ Report::Floor { applied, gap, .. }) = self.progress() else {
            return;
        };
        let now = step.now.monotonic;
        if let Some((before, was_open, at)) = self.collect.reported {
            let wait_ms = match (before, was_open) == (applied, gap) {
                true => REPORT_AGAIN_MS,
                false => self.settings.retry_ms,
            };
            if now < at + wait_ms {
                return;
            }
        }
        self.collect.reported = Some((applied, gap, now));
        step.effects.push(Effect::Coordinator(report));
    }

    /// GC-4: the head appends an entry that collects the marks of some rows.
    fn collect_rows(&mut self, step: &mut Step<'_>) -> Result<(), ViewError> {
        let is_due = !self.is_collected()
            && self.collect.entry <= self.commit
            && self.refuses_submit().is_none();
        if !is_due {
            return Ok(());
        }
        let safe_point = self.safe_point();
        let newest = self.log.newest(step.host.committed());
        let (changes, from) = rows(&newest, &self.collect.from, safe_point, &self.guards)?;
        if changes.is_empty() {
            self.collect.is_finished = true;
            return Ok(());
        }
        self.collect.entry = self.append(Stamp::strong, None, Bytes::new(), changes, step)?;
        self.collect.from = from;
        Ok(())
    }
}

/// What collects the first rows from `from` to `safe point`; and where to go on.
fn rows(
    state: &dyn View,
    from: &Bytes,
    safe_point: EntryId,
    guards: &Guards,
) -> Result<(Vec<Change>, Bytes), ViewError> {
    let by_entry = guards.has(Guard::CollectByEntry);
    let above = match by_entry {
        true => EntryId::new(safe_point.epoch, safe_point.index + 1),
        false => EntryId::new(u64::MAX, u64::MAX),
    };
    let (first, end) = (keys::row_key(EntryId::ZERO, b""), keys::row_key(above, b""));
    let start = from.max(&first);
    let (mut left, mut last) = (None, start.clone());
    let (mut changes, mut bytes) = (Vec::new(), 0);
    for pair in state.scan(start, &end, Direction::Forward).take(ROWS_MAX) {
        let (row, stamp) = pair?;
        let (entry, key) = keys::parse_row_key(&row).expect("it is among the rows");
        let stamp = Stamp::decode(&mut Reader::new(stamp))?;
        let is_due = by_entry || stamp <= Stamp::strong(safe_point);
        bytes += row.len();
        if is_due {
            changes.push(Change::Collect {
                key: row.slice_ref(key),
                // Below it, or without the guard nothing would be collected at all.
                entry: entry.min(safe_point),
                stamp,
            });
        } else {
            left.get_or_insert_with(|| row.clone());
        }
        last = row;
        if BYTES_MAX <= bytes {
            break;
        }
    }
    Ok((changes, left.unwrap_or(last)))
}

#[cfg(test)]
mod tests;
