//! How far a disk has come, so that an old copy of it is told from itself. See
//! docs/internals/protocol/reconfiguration.md, section 5, "A copy of an old disk".
//!
//! Invariants:
//! - PROGRESS-1 what a disk shows after any crash is at or above all that its member ever reported.
//!   It is also at or above all that it showed at the beginning of an earlier incarnation, for what
//!   was read then was synced. What is applied is committed and durable. A commit id falls only
//!   where an operator gave it up (AL-5), and there the epoch, durable before, is a greater one.

use crate::record::RecoveredState;
use crate::replica::Report;
use crate::stamp::EntryId;

/// What a disk has at least. Greater is further.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Progress {
    /// The greatest epoch that it adopted.
    pub epoch: u64,
    /// An entry that it holds, and all before it, in its log or its engine.
    pub last: EntryId,
}

impl Progress {
    /// The last id that a disk shows whose log is not synced. It may have lost what it had, so
    /// nothing can be asked of its entries.
    pub const UNCERTAIN: EntryId = EntryId::new(u64::MAX, u64::MAX);

    /// What is noted of a disk that shows this at the beginning of an incarnation.
    pub fn certain(self) -> Self {
        let last = match self.last == Progress::UNCERTAIN {
            true => EntryId::ZERO,
            false => self.last,
        };
        Progress { last, ..self }
    }

    /// What a disk shows that keeps these records, with an engine that is applied up to `applied`;
    /// [`EntryId::ZERO`] while that one is being filled.
    pub fn of_disk(durable: &RecoveredState, applied: EntryId) -> Self {
        let adopted = durable.configuration.as_ref();
        Progress {
            epoch: adopted.map_or(0, |adopted| adopted.epoch),
            last: durable.last().max(applied),
        }
    }

    /// What a member's report says of its disk. While a gap is open it holds no entry for certain:
    /// the log begins anew.
    pub fn of_report(report: &Report) -> Option<Self> {
        match *report {
            Report::Adopted { epoch } => Some(Progress {
                epoch,
                last: EntryId::ZERO,
            }),
            Report::Floor {
                epoch,
                applied,
                gap: false,
            } => Some(Progress {
                epoch,
                last: applied,
            }),
            _ => None,
        }
    }

    /// Takes in what a report says.
    pub fn note(&mut self, report: &Report) {
        let said = Progress::of_report(report).unwrap_or_default();
        *self = (*self).max(said);
    }
}

#[cfg(test)]
mod tests;
