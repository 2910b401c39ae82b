//! What the chain's thread does for blocks. A message of others waits for the bytes of its rows,
//! which are fetched beside the thread. Bytes go whose rows are gone.
//!
//! ```text
//!  Append, FillPart ─▶ intake ─┬─ its bytes are here, or gone ──▶ replica ─▶ log
//!                              └─ fetch: of the sender, then of the others
//! ```
//!
//! Invariants:
//! - (BGATE-1) a record that puts the row of a block is logged only when the block's bytes are
//!   durable here. It may also be logged when its sender has reclaimed them. A message that brings
//!   such a record, or a part of a state, waits outside of the replica. No member counts it, and a
//!   new epoch forgets it.
//! - HO-1 nothing is dropped while something waits, or while the log has entries that are not
//!   computed: their rows are not known. A row counts as there until its removal is applied.

use fader_chain::{EntryId, Envelope, Input, Message, Record, Report};
use fader_services::blocks::{self, Standpoint};

use super::fetching::Fetching;
use super::thread::ChainThread;
use crate::status::HealthCause;
use crate::storage::blocks::BlockId;

/// Blocks that are fetched before it is looked again.
const ROUND: usize = 1024;

impl ChainThread {
    /// Another member says something: it is heard when the bytes are here that it speaks of
    /// (BGATE-1).
    pub(super) fn hear(&mut self, envelope: Envelope) {
        if envelope.epoch != self.replica.epoch() {
            return self.step(Input::Message(envelope));
        }
        let blocks = &self.shared.blocks;
        let is_held = |id| blocks.are_held([id]);
        let rows = match &envelope.message {
            Message::Append { entries, .. } => {
                let entries = entries.iter().map(|entry| &**entry);
                blocks::rows_of_entries(entries, self.replica.last())
            }
            Message::TransferChunk { ranges, end, .. } => {
                let state = self.shared.engine.snapshot();
                match blocks::rows_of_part(ranges, end, &*state, is_held) {
                    Ok(rows) => rows,
                    Err(error) => return self.fail(HealthCause::damaged(&error)),
                }
            }
            _ => return self.step(Input::Message(envelope)),
        };
        match self.holding.intake.hear(envelope, rows, is_held) {
            Some(envelope) => self.step(Input::Message(envelope)),
            None => self.look_for_bytes(),
        }
    }

    /// Hears what waited for bytes that are here, and has those fetched that are not.
    pub(super) fn look_for_bytes(&mut self) {
        if self.holding.is_empty() {
            return;
        }
        let adopted = self.replica.configuration();
        let safe_point = adopted.map_or(EntryId::ZERO, |adopted| adopted.safe_point);
        for envelope in self.holding.ready(&self.shared.blocks, safe_point) {
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
        let intake = &self.holding.intake;
        let is_fill = intake.has_no_entries();
        let fetching = Fetching {
            ids: intake.missing().map(BlockId).take(ROUND).collect(),
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
        let rows = blocks::rows_of(entries.flat_map(|entry| &entry.changes));
        let blocks = &self.shared.blocks;
        match self
            .holding
            .intake
            .may_log(&rows, |id| blocks.are_held([id]))
        {
            true => Ok(()),
            false => Err(HealthCause::BlockMissing),
        }
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
        self.shared
            .blocks
            .free(&standpoint, |id| self.may_have_row(*id));
        if self.rowless.is_empty() || self.shared.refusal().is_some() {
            return;
        }
        let is_passed = |_: &BlockId, at: &mut EntryId| standpoint.may_reclaim(*at);
        let passed = self.rowless.extract_if(.., is_passed).map(|(id, _)| id);
        let mut passed: Vec<BlockId> = passed.collect();
        passed.retain(|id| !self.may_have_row(*id));
        self.shared.blocks.drop_rowless(&passed);
    }

    /// Blocks that had no row when it was looked. Those that have none now are dropped once the
    /// safe point is there (MB-2): their row may have been removed.
    pub(super) fn note_rowless(&mut self, ids: Vec<BlockId>) {
        let at = self.requests.applied();
        for id in ids {
            if !self.may_have_row(id) {
                self.rowless.entry(id).or_insert(at);
            }
        }
    }

    /// Whether the block's bytes are kept for a row.
    fn may_have_row(&self, id: BlockId) -> bool {
        let changes = |key: &[u8]| self.replica.changes(key);
        blocks::may_have_row(&**self.requests.snapshot(), changes, id.0).unwrap_or(true)
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
