//! Messages of other members on their way to a replica. Those that bring rows of blocks wait
//! outside of it for the blocks' bytes (BGATE-1). Pure: the caller says what is held, and fetches.
//!
//! ```text
//!  Append, TransferChunk ─▶ hear ─┬─ no rows, none waits ─▶ the replica
//!                                 └─ gate ─▶ ready ───────▶ the replica
//! ```
//!
//! Invariants:
//! - BGATE-3 a block that its sender says to have reclaimed is missing still where an entry above
//!   the safe point puts its row.
//!
//! Deliberately absent: who fetches what is missing, and when.

use std::collections::BTreeSet;

use fader_chain::{Change, Entry, EntryId, Envelope, KEYS_END, Message, RangeContent};

use super::gate::Gate;
use super::rows::{block_of, new_row, rows_from};
use crate::{View, ViewError};

/// Messages with entries that wait; more are lost, as on any way, and sent again.
const APPENDS_MAX: usize = 64;
/// Rows that are compared at once.
const PAGE: usize = 1024;

/// What waits for bytes at one member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Intake {
    /// Entries.
    appends: Gate<Envelope>,
    /// Parts of another member's state.
    fills: Gate<Envelope>,
    /// Blocks that the sender of their records has reclaimed.
    gone: BTreeSet<u128>,
}

impl Intake {
    /// A message of the member's epoch arrives that brings these rows. It comes back when it is
    /// heard at once. Else it waits, or is lost where too much waits.
    pub fn hear(
        &mut self,
        envelope: Envelope,
        rows: BTreeSet<u128>,
        is_held: impl Fn(u128) -> bool,
    ) -> Option<Envelope> {
        let (gate, most) = match envelope.message {
            Message::Append { .. } => (&mut self.appends, APPENDS_MAX),
            Message::TransferChunk { .. } => (&mut self.fills, 1),
            _ => return Some(envelope),
        };
        if gate.is_empty() && rows.is_empty() {
            return Some(envelope);
        }
        let gone = &self.gone;
        if gate.len() < most {
            gate.take(envelope, rows, |id| is_held(id) || gone.contains(&id));
        }
        None
    }

    /// What may be heard now, in its order.
    pub fn ready(&mut self, is_held: impl Fn(u128) -> bool) -> Vec<Envelope> {
        let gone = &self.gone;
        let is_there = |id| is_held(id) || gone.contains(&id);
        let mut ready = self.fills.ready(is_there);
        ready.extend(self.appends.ready(is_there));
        ready
    }

    /// The sender of the records says that it has reclaimed these blocks. That says nothing of a
    /// row which entries above the safe point put: its removal would be above it, too. The sender
    /// has lost the row in a crash, and is in a later epoch than the records (BGATE-3).
    pub fn on_gone(&mut self, ids: impl IntoIterator<Item = u128>, safe_point: EntryId) {
        let waiting = self.appends.records().map(|it| &it.message);
        let entries = waiting.flat_map(|message| match message {
            Message::Append { entries, .. } => &entries[..],
            _ => &[],
        });
        let above = rows_of_entries(entries.map(|entry| &**entry), safe_point);
        let ids = ids.into_iter().filter(|id| !above.contains(id));
        self.gone.extend(ids);
    }

    /// Whether records that put these rows may be logged. Each block is held, or gone. What was
    /// said to be gone is forgotten then.
    pub fn may_log(&mut self, rows: &BTreeSet<u128>, is_held: impl Fn(u128) -> bool) -> bool {
        let gone = &mut self.gone;
        if rows.iter().any(|id| !gone.contains(id) && !is_held(*id)) {
            return false;
        }
        gone.retain(|id| !rows.contains(id));
        true
    }

    /// A new epoch, or incarnation (BGATE-2).
    pub fn forget(&mut self) {
        self.appends.forget();
        self.fills.forget();
        self.gone.clear();
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.appends.is_empty() && self.fills.is_empty()
    }

    /// Whether no entries wait: the chain waits for nothing here.
    #[must_use]
    pub fn has_no_entries(&self) -> bool {
        self.appends.is_empty()
    }

    /// The blocks that are waited for, those of entries first.
    pub fn missing(&self) -> impl Iterator<Item = u128> + '_ {
        self.appends.missing().chain(self.fills.missing())
    }
}

/// The blocks whose rows these changes put.
pub fn rows_of<'a>(changes: impl IntoIterator<Item = &'a Change>) -> BTreeSet<u128> {
    changes.into_iter().filter_map(new_row).collect()
}

/// The blocks whose rows those of these entries put that a log up to `last` does not have.
pub fn rows_of_entries<'a>(
    entries: impl IntoIterator<Item = &'a Entry>,
    last: EntryId,
) -> BTreeSet<u128> {
    let entries = entries.into_iter();
    let new = entries.filter(|entry| last.index < entry.id.index);
    rows_of(new.flat_map(|entry| &entry.changes))
}

/// The blocks that a part of another member's state has rows of. Of the last part also those that
/// the state had before, of which no part told.
///
/// # Errors
/// [`ViewError`] when the store cannot be read.
pub fn rows_of_part(
    ranges: &[RangeContent],
    end: &[u8],
    state: &dyn View,
    is_held: impl Fn(u128) -> bool,
) -> Result<BTreeSet<u128>, ViewError> {
    let keys = ranges.iter().flat_map(|range| &range.rows);
    let mut rows: BTreeSet<u128> = keys.filter_map(|(key, _)| block_of(key)).collect();
    if end != KEYS_END {
        return Ok(rows);
    }
    let mut after = None;
    loop {
        let page = rows_from(state, after, PAGE)?;
        after = page.last().map(|(id, _)| *id);
        let ids = page.iter().map(|(id, _)| *id);
        rows.extend(ids.filter(|id| !is_held(*id)));
        if page.len() < PAGE {
            return Ok(rows);
        }
    }
}
