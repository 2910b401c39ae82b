//! What the chain's thread does for blocks. A message of others waits for the bytes of its rows,
//! which are fetched beside the thread. Bytes go whose rows are gone.
//!
//! ```text
//!  Append, FillPart ─▶ gate ─┬─ its bytes are here, or gone ──▶ replica ─▶ log
//!                            └─ fetch: of the sender, then of the others
//! ```
//!
//! Invariants:
//! - (BGATE-1) a record that puts the row of a block is logged only when the block's bytes are
//!   durable here. It may also be logged when its sender has reclaimed them. A message that brings
//!   such a record, or a part of a state, waits outside of the replica. No member counts it, and a
//!   new epoch forgets it.
//! - HO-1 nothing is dropped while something waits, or while the log has entries that are not
//!   computed: their rows are not known.

use std::collections::BTreeSet;

use fader_chain::{
    Change, EntryId, Envelope, Input, KEYS_END, Message, RangeContent, Record, Report,
};
use fader_services::blocks;

use super::fetching::{Fetching, Holding};
use super::thread::ChainThread;
use crate::status::HealthCause;
use crate::storage::blocks::{BlockId, Standpoint};

/// Messages with entries that wait; more are lost, as on any way, and sent again.
const APPENDS_MAX: usize = 64;
/// Blocks that are fetched before it is looked again.
const ROUND: usize = 1024;
/// Rows that are compared at once.
const PAGE: usize = 1024;

impl ChainThread {
    /// Another member says something: it is heard when the bytes are here that it speaks of
    /// (BGATE-1).
    pub(super) fn hear(&mut self, envelope: Envelope) {
        if envelope.epoch != self.replica.epoch() {
            return self.step(Input::Message(envelope));
        }
        let rows = match &envelope.message {
            Message::Append { entries, .. } => {
                let last = self.replica.last().index;
                let new = entries.iter().filter(|entry| last < entry.id.index);
                rows_of(new.flat_map(|entry| &entry.changes))
            }
            Message::TransferChunk { ranges, end, .. } => match self.rows_of_part(ranges, end) {
                Ok(rows) => rows,
                Err(error) => return self.fail(HealthCause::damaged(&error)),
            },
            _ => return self.step(Input::Message(envelope)),
        };
        let is_append = matches!(envelope.message, Message::Append { .. });
        let Holding {
            appends,
            fills,
            gone,
            ..
        } = &mut self.holding;
        let (gate, most) = match is_append {
            true => (appends, APPENDS_MAX),
            false => (fills, 1),
        };
        if gate.is_empty() && rows.is_empty() {
            return self.step(Input::Message(envelope));
        }
        if most <= gate.len() {
            return;
        }
        let blocks = &self.shared.blocks;
        let is_held = |id: BlockId| blocks.are_held([id.0]) || gone.contains(&id);
        gate.take(envelope, rows, is_held);
        self.look_for_bytes();
    }

    /// Blocks that a part of another member's state has rows of. Of the last part also those that
    /// the state had before, of which no part told.
    fn rows_of_part(
        &self,
        ranges: &[RangeContent],
        end: &[u8],
    ) -> Result<BTreeSet<BlockId>, fader_services::ViewError> {
        let keys = ranges.iter().flat_map(|range| &range.rows);
        let ids = keys.filter_map(|(key, _)| blocks::block_of(key));
        let mut rows: BTreeSet<BlockId> = ids.map(BlockId).collect();
        if end != KEYS_END {
            return Ok(rows);
        }
        let (view, mut after) = (self.shared.engine.snapshot(), None);
        loop {
            let page = blocks::rows_from(&*view, after, PAGE)?;
            after = page.last().map(|(id, _)| *id);
            let lacking = page
                .iter()
                .filter(|(id, _)| !self.shared.blocks.are_held([*id]));
            rows.extend(lacking.map(|(id, _)| BlockId(*id)));
            if page.len() < PAGE {
                return Ok(rows);
            }
        }
    }

    /// Hears what waited for bytes that are here, and has those fetched that are not.
    pub(super) fn look_for_bytes(&mut self) {
        if self.holding.is_empty() {
            return;
        }
        for envelope in self.holding.ready(&self.shared.blocks) {
            self.step(Input::Message(envelope));
        }
        if self.holding.wants_fetch() {
            self.fetch();
        }
    }

    fn fetch(&mut self) {
        let me = self.replica.identity().node;
        let (Some(links), Some(adopted)) = (&self.links, self.replica.configuration()) else {
            return;
        };
        let Some(source) = adopted.source(me) else {
            return;
        };
        let is_fill = self.holding.appends.is_empty();
        let of_appends = self.holding.appends.missing();
        let ids = of_appends.chain(self.holding.fills.missing());
        let fetching = Fetching {
            ids: ids.take(ROUND).collect(),
            me,
            source,
            others: adopted.others(me).filter(|it| *it != source).collect(),
            outbox: links.outbox.clone(),
            blocks: self.shared.blocks.clone(),
            bytes_per_second: is_fill.then_some(self.settings.fill_bytes_per_second),
        };
        self.holding.fetch(fetching);
    }

    /// Whether these records may be written (BGATE-1). The thread decided them when it held the
    /// bytes, or heard of them then, and drops none between that and their end. So a failure is a
    /// broken invariant.
    pub(super) fn check_blocks(&mut self, records: &[Record]) -> Result<(), HealthCause> {
        let entries = records.iter().filter_map(|record| match record {
            Record::Entry(entry) => Some(entry),
            _ => None,
        });
        let rows = rows_of(entries.flat_map(|entry| &entry.changes));
        let gone = &mut self.holding.gone;
        let needed = rows.iter().filter(|id| !gone.contains(id)).map(|id| id.0);
        if !self.shared.blocks.are_held(needed) {
            return Err(HealthCause::BlockMissing);
        }
        gone.retain(|id| !rows.contains(id));
        Ok(())
    }

    /// Frees and drops the bytes of blocks that have no row any more, between two turns (MB-1).
    pub(super) fn let_blocks_go(&mut self) {
        let is_known = matches!(
            self.replica.progress(),
            Some(Report::Floor { gap: false, .. })
        );
        if !is_known || !self.holding.is_empty() {
            // HO-1.
            return;
        }
        let standpoint = self.standpoint();
        let view = self
            .replica
            .view_at(self.replica.last(), &**self.requests.snapshot());
        let has_row = |id: &BlockId| blocks::row(&*view, id.0).map_or(true, |row| row.is_some());
        self.shared.blocks.free(&standpoint, has_row);
        if self.rowless.is_empty() || self.shared.refusal().is_some() {
            return;
        }
        let rowless = self.rowless.iter().copied().filter(|id| !has_row(id));
        let rowless: Vec<BlockId> = rowless.collect();
        self.rowless.clear();
        if let Some(store) = self.shared.blocks.store() {
            store.remove(&rowless);
        }
    }

    /// A member that is alone is all that have to have applied an entry.
    fn standpoint(&self) -> Standpoint {
        let adopted = self.replica.configuration();
        let safe_point = match self.links {
            None => self.requests.applied(),
            Some(_) => adopted.map_or(EntryId::ZERO, |adopted| adopted.safe_point),
        };
        self.requests.standpoint(safe_point)
    }
}

fn rows_of<'a>(changes: impl Iterator<Item = &'a Change>) -> BTreeSet<BlockId> {
    changes.filter_map(blocks::new_row).map(BlockId).collect()
}
